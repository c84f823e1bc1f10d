#include "common/ckpt/ckpt_state.h"
#include "tests/support/test_main.h"

#include <string.h>

static struct ckpt_state parse(const char *text)
{
    struct ckpt_state s;
    struct err err;

    ck_assert_msg(ckpt_state_parse(&s, text, strlen(text), &err) == 0, "%s", err.msg);
    return s;
}

START_TEST(savers_text_is_read_and_written)
{
    static const char TEXT[] = "model_checkpoint_path: \"model.ckpt-20\"\n"
                               "all_model_checkpoint_paths: \"model.ckpt-10\"\n"
                               "all_model_checkpoint_paths: \"model.ckpt-20\"\n";
    struct ckpt_state s = parse(TEXT);
    struct wbuf b = {0};

    ck_assert_str_eq(s.newest, "model.ckpt-20");
    ck_assert_uint_eq(s.n_all, 2);
    ck_assert_str_eq(s.all[0], "model.ckpt-10");
    ckpt_state_put(&b, &s);
    ck_assert_uint_eq(b.len, sizeof(TEXT) - 1);
    ck_assert_mem_eq(b.data, TEXT, b.len);
    wbuf_done(&b);
    ckpt_state_done(&s);
}
END_TEST

START_TEST(other_peoples_text_is_read_too)
{
    struct ckpt_state s = parse("# a comment\r\n"
                                "last_preserved_timestamp: 1.5e9\r\n"
                                "unknown { a: '}' b { c: 1 } } # more\n"
                                "all_model_checkpoint_paths: '..\\\\1', "
                                "model_checkpoint_path: \"C:/x/\" # part\n 'M 1\\\\T' "
                                "all_model_checkpoint_timestamps: -3");

    ck_assert_str_eq(s.newest, "C:/x/M 1\\T");
    ck_assert_uint_eq(s.n_all, 1);
    ck_assert_str_eq(s.all[0], "..\\1");
    ckpt_state_done(&s);
    s = parse("");
    ck_assert_str_eq(s.newest, "");
    ckpt_state_done(&s);
}
END_TEST

START_TEST(escapes_go_there_and_back)
{
    static const char ESCAPED[] =
        "model_checkpoint_path: \"\\303\\244\\001\\\\ \\\" \\' \\n\\r\\t\"\n";
    struct ckpt_state s = parse(ESCAPED);
    struct wbuf b = {0};

    ck_assert_str_eq(s.newest, "\xc3\xa4\x01\\ \" ' \n\r\t");
    ckpt_state_put(&b, &s);
    ck_assert_uint_eq(b.len, sizeof(ESCAPED) - 1);
    ck_assert_mem_eq(b.data, ESCAPED, b.len);
    wbuf_done(&b);
    ckpt_state_done(&s);
    s = parse("model_checkpoint_path: '\\x41\\X7a\\?'");
    ck_assert_str_eq(s.newest, "Az?");
    ckpt_state_done(&s);
}
END_TEST

START_TEST(what_is_no_state_is_refused)
{
    static const char *const TEXTS[] = {
        "a: \"x",  "a: \"x\n\"", "a:",   "\"x\"", "a { b: 1",    "a { b: '",
        "a: \"\\", "}",          "\x01", "a: }",  "\n\n: \"x\"",
    };
    struct ckpt_state s;
    struct err err;

    for (size_t i = 0; i < sizeof(TEXTS) / sizeof(TEXTS[0]); i++)
        ck_assert_msg(ckpt_state_parse(&s, TEXTS[i], strlen(TEXTS[i]), &err) ==
                          ERR_FORMAT,
                      "%s", TEXTS[i]);
    ck_assert_str_eq(err.msg, "line 3: no CheckpointState");
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("ckpt_state");
    TCase *tc = tcase_create("ckpt_state");

    tcase_add_test(tc, savers_text_is_read_and_written);
    tcase_add_test(tc, other_peoples_text_is_read_too);
    tcase_add_test(tc, escapes_go_there_and_back);
    tcase_add_test(tc, what_is_no_state_is_refused);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
