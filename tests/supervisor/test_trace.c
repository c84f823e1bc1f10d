#include "supervisor/trace/trace.h"
#include "tests/support/test_main.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

static char *written(void)
{
    static char *text; /* open_memstream writes to this address */
    static size_t len;
    FILE *f = open_memstream(&text, &len);

    trace_write(f);
    ck_assert_int_eq(fclose(f), 0);
    return text;
}

START_TEST(nothing_is_kept_while_nobody_records)
{
    const struct trace_span span = {.work = "learn", .begin_ns = 1, .end_ns = 2};
    struct trace_share share;

    trace_add(&span);
    trace_end(trace_begin(), "act");
    trace_start();
    trace_stop();
    ck_assert_uint_eq(trace_shares(&share, 1), 0);
    trace_clear();
}
END_TEST

START_TEST(spans_become_events_and_shares)
{
    struct trace_share shares[4];
    struct trace_span span = {.process = "agent_0", .pid = 77, .work = "learn", .id = 5};
    struct trace_mark outer, inner;
    char *text;

    trace_start();
    span.begin_ns = uv_hrtime();
    span.end_ns = span.begin_ns + 3000;
    trace_add(&span);
    trace_add(&span);
    outer = trace_begin();
    inner = trace_begin();
    (void)usleep(2000);
    trace_end(inner, "inner");
    trace_end(outer, "outer");
    trace_stop();

    ck_assert_uint_eq(trace_shares(shares, 4), 3);
    ck_assert_str_eq(shares[0].process, "supervisor");
    ck_assert_str_eq(shares[0].work, "inner");
    ck_assert_uint_ge(shares[0].ns, 2000000);
    ck_assert_str_eq(shares[1].work, "outer");
    ck_assert_uint_lt(shares[1].ns, shares[0].ns);
    ck_assert_str_eq(shares[2].process, "agent_0");
    ck_assert_uint_eq(shares[2].count, 2);
    ck_assert_uint_eq(shares[2].ns, 6000);

    text = written();
    ck_assert_ptr_nonnull(strstr(text, "\"name\": \"learn\", \"cat\": \"brood\", "
                                       "\"pid\": 77, \"tid\": 77"));
    ck_assert_ptr_nonnull(strstr(text, "\"dur\": 3.000, \"args\": {\"id\": 5"));
    free(text);
    trace_clear();
}
END_TEST

/* An agent chooses the names of its methods, and sends times. */
START_TEST(what_an_agent_sends_cannot_break_the_file)
{
    struct trace_span span = {.process = "agent_0", .pid = 77, .work = "a\"b\\c\nd"};
    char *text;

    trace_start();
    span.begin_ns = uv_hrtime();
    span.end_ns = span.begin_ns - 1;
    trace_add(&span);
    span.end_ns = span.begin_ns;
    trace_add(&span);
    span.begin_ns = 0;
    trace_add(&span);
    trace_stop();
    text = written();
    ck_assert_ptr_nonnull(strstr(text, "a?b?c?d"));
    ck_assert_ptr_null(strstr(strstr(text, "a?b?c?d") + 1, "a?b?c?d"));
    free(text);
    trace_clear();
}
END_TEST

START_TEST(names_and_spans_are_bounded)
{
    struct trace_span span = {.process = "agent_0", .pid = 77};
    char name[32];

    trace_start();
    span.begin_ns = span.end_ns = uv_hrtime();
    for (size_t i = 0; i < TRACE_MAX_SPANS + 10; i++) {
        (void)snprintf(name, sizeof(name), "work %zu", i % (2 * TRACE_MAX_NAMES));
        span.work = i < 4 * TRACE_MAX_NAMES ? name : "work 0";
        trace_add(&span);
    }
    trace_stop();
    ck_assert_uint_eq(trace_left_out(), 10);
    trace_clear();
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("trace");
    TCase *tc = tcase_create("trace");

    tcase_add_test(tc, nothing_is_kept_while_nobody_records);
    tcase_add_test(tc, spans_become_events_and_shares);
    tcase_add_test(tc, what_an_agent_sends_cannot_break_the_file);
    tcase_add_test(tc, names_and_spans_are_bounded);
    suite_add_tcase(s, tc);
    return s;
}
TEST_MAIN(make_suite)
