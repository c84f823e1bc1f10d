#include "supervisor/serve/episodes.h"
#include "supervisor/serve/json_unpack.h"

#include "common/msg/unpack.h"
#include "supervisor/control/msg_json.h"
#include "tests/support/test_main.h"

#include <stdio.h>
#include <string.h>

/* What JSON becomes, as JSON again; NULL: it is refused. */
static const char *again(const char *text)
{
    static char ret[512];
    struct json j = {0};
    msgpack_sbuffer b;
    msgpack_zone zone;
    msgpack_object o;
    struct err err;
    size_t len;
    int rc;

    msgpack_sbuffer_init(&b);
    msgpack_zone_init(&zone, MSGPACK_ZONE_CHUNK_SIZE);
    rc = json_unpack(&b, text, strlen(text), &err);
    if (rc == 0) {
        ck_assert_int_eq(msg_unpack(b.data, b.size, &zone, &o, &err), 0);
        msg_json_put(&j, &o);
        (void)snprintf(ret, sizeof(ret), "%s", json_line(&j, &len));
        ret[strcspn(ret, "\n")] = '\0';
    }
    json_done(&j);
    msgpack_zone_destroy(&zone);
    msgpack_sbuffer_destroy(&b);
    return rc == 0 ? ret : NULL;
}

START_TEST(json_is_read)
{
    static const char *const same[] = {
        "{\"a\": [1, -2, 0.5], \"b\": {}, \"c\": []}",
        "[true, false, null, \"\", 18446744073709551615, -9223372036854775808]",
        "\"\\\"\\\\/\"",
        "1e+300",
    };

    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
        ck_assert_msg(again(same[i]) != NULL, "%s", same[i]);
    ck_assert_str_eq(again(same[0]), same[0]);
    ck_assert_str_eq(again(same[1]), same[1]);
    ck_assert_str_eq(again(" [ 1 , 2 ]\r\n"), "[1, 2]");
    ck_assert_str_eq(again("\"\\u0041\\u00e9\\u20ac\\ud83d\\ude00\""),
                     "\"A\u00e9\u20ac\U0001F600\"");
    ck_assert_str_eq(again("1.0"), again("1.0e0"));
    ck_assert_str_eq(again("99999999999999999999"), again("1e20"));
}
END_TEST

START_TEST(what_is_no_json_is_refused)
{
    static const char *const bad[] = {
        "",        " ",         "{",           "[",           "[1",        "[1,]",
        "[,1]",    "{\"a\"}",   "{a: 1}",      "{\"a\" 1}",   "{\"a\": }", "\"x",
        "\"\\x\"", "\"\\u12\"", "\"\\ud800\"", "\"\\udc00\"", "01",        "-",
        "+1",      ".5",        "5.",          "1e",          "nul",       "truex",
        "NaN",     "Infinity",  "1 2",         "\"a\nb\"",    "0x10",      "'a'",
        "1.e5",    "-1.",       "\"a\\",       "\"a\\\"",
    };
    char deep[100];

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        ck_assert_msg(again(bad[i]) == NULL, "%s", bad[i]);
    memset(deep, '[', sizeof(deep) - 1);
    deep[sizeof(deep) - 1] = '\0';
    ck_assert_ptr_null(again(deep));
}
END_TEST

START_TEST(the_episode_used_least_recently_is_forgotten)
{
    struct episodes e = {
        .max = 3, .max_bytes = 1 << 20, .carry_width = 2, .past_bytes = 5};
    struct episode *a;

    a = episodes_begin(&e, "a", 4);
    ck_assert_uint_eq(a->rows, 4);
    a->carry[7] = 1;
    a->past[19] = 1;
    a->time[3] = 9;
    ck_assert_ptr_nonnull(episodes_begin(&e, "b", 1));
    ck_assert_ptr_nonnull(episodes_begin(&e, "c", 1));
    ck_assert_ptr_eq(episodes_find(&e, "a"), a);
    ck_assert_ptr_nonnull(episodes_begin(&e, "d", 1));
    ck_assert_ptr_null(episodes_find(&e, "b"));
    ck_assert_float_eq(episodes_find(&e, "a")->carry[7], 1);
    /* begun again, it is as new, and no other is forgotten */
    a = episodes_begin(&e, "a", 4);
    ck_assert(a->carry[7] == 0 && a->past[19] == 0 && a->time[3] == 0);
    ck_assert_ptr_nonnull(episodes_find(&e, "c"));
    ck_assert_ptr_nonnull(episodes_find(&e, "d"));
    episodes_done(&e);
}
END_TEST

START_TEST(episodes_have_bounded_memory)
{
    struct episodes e = {.max = 100, .max_bytes = 10000, .carry_width = 100};

    ck_assert_ptr_null(episodes_begin(&e, "large", 100));
    for (int i = 0; i < 50; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "%d", i);
        ck_assert_ptr_nonnull(episodes_begin(&e, name, 1));
        ck_assert_uint_le(e.bytes, e.max_bytes);
    }
    ck_assert_ptr_nonnull(episodes_find(&e, "49"));
    ck_assert_ptr_null(episodes_find(&e, "0"));
    episodes_done(&e);
    ck_assert_uint_eq(e.bytes, 0);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("serve");
    TCase *tc = tcase_create("serve");

    tcase_add_test(tc, json_is_read);
    tcase_add_test(tc, what_is_no_json_is_refused);
    tcase_add_test(tc, the_episode_used_least_recently_is_forgotten);
    tcase_add_test(tc, episodes_have_bounded_memory);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
