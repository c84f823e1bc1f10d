/* The columns of the experience log that a response to `configure` may declare as
 * read. */
#include "common/msg/frame.h"
#include "supervisor/rollout/description.h"
#include "tests/support/test_main.h"

#include <string.h>

static struct store_layout layout;

static void setup(void)
{
    struct err err;

    layout = (struct store_layout){0};
    ck_assert_int_ge(store_layout_add(&layout, "a/obs", DT_FLOAT, 4, &err), 0);
    ck_assert_int_ge(store_layout_add(&layout, "b/obs", DT_FLOAT, 4, &err), 0);
    ck_assert_int_ge(store_layout_add(&layout, "first", DT_FLOAT, 1, &err), 0);
}

static void teardown(void)
{
    store_layout_done(&layout);
}

/* Parses the response {reads: [names...]}; names NULL: {}. */
static int parse(uint8_t *ret, const char *const *names, size_t n, struct err *err)
{
    struct msg_out o;
    struct msg m = {0};
    const uint8_t *frame;
    size_t len;
    int rc;

    msg_out_init(&o);
    msg_begin_response(&o, 1);
    msg_map(&o, names != NULL);
    if (names != NULL) {
        msg_key(&o, "reads");
        msg_array(&o, n);
    }
    for (size_t i = 0; names != NULL && i < n; i++)
        msg_str(&o, names[i]);
    msg_end(&o, &frame, &len);
    rc = msg_parse(&m, frame + FRAME_HEADER_BYTES, len - FRAME_HEADER_BYTES, err);
    ck_assert_int_eq(rc, 0);
    rc = log_reads_parse(ret, &layout, &m.body, "agent_0", err);
    msg_done(&m);
    msg_out_done(&o);
    return rc;
}

START_TEST(test_columns)
{
    uint8_t reads[3];
    struct err err;

    ck_assert_int_eq(parse(reads, (const char *[]){"first", "a/obs"}, 2, &err), 0);
    ck_assert_mem_eq(reads, ((uint8_t[]){1, 0, 1}), 3);
    ck_assert_int_eq(parse(reads, NULL, 0, &err), 0);
    ck_assert_mem_eq(reads, ((uint8_t[]){0, 0, 0}), 3);
}
END_TEST

START_TEST(test_wrong_answers)
{
    uint8_t reads[3];
    char longest[STORE_COLUMN_NAME_MAX + 1] = "";
    struct err err;

    ck_assert_int_eq(parse(reads, (const char *[]){"c/obs"}, 1, &err), ERR_PROTOCOL);
    ck_assert_str_eq(err.msg, "agent_0: answer to configure: reads: the experience log "
                              "has no column 'c/obs'");
    ck_assert_int_eq(parse(reads, (const char *[]){"first", "first"}, 2, &err),
                     ERR_PROTOCOL);
    memset(longest, 'x', STORE_COLUMN_NAME_MAX);
    ck_assert_int_eq(parse(reads, (const char *[]){longest}, 1, &err), ERR_PROTOCOL);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("log_reads");
    TCase *c = tcase_create("log_reads");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, test_columns);
    tcase_add_test(c, test_wrong_answers);
    suite_add_tcase(s, c);
    return s;
}

TEST_MAIN(make_suite)
