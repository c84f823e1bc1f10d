#include "common/err/err.h"
#include "tests/support/test_main.h"

#include <errno.h>
#include <string.h>

START_TEST(set_returns_the_code_and_fills_one_line)
{
    struct err err = {0};

    ck_assert_int_eq(err_set(&err, ERR_SHAPE, "rows %d\nof %d", 3, 4), ERR_SHAPE);
    ck_assert_int_eq(err.code, ERR_SHAPE);
    ck_assert_str_eq(err.msg, "rows 3 of 4");
    ck_assert_int_eq(err_set(NULL, ERR_SHAPE, "nobody listens"), ERR_SHAPE);
}
END_TEST

START_TEST(wrap_adds_context_in_front)
{
    struct err err = {0};

    (void)err_set(&err, ERR_FORMAT, "bad magic");
    ck_assert_int_eq(err_wrap(&err, "file %s", "a.index"), ERR_FORMAT);
    ck_assert_str_eq(err.msg, "file a.index: bad magic");
}
END_TEST

static const struct {
    struct err_place at;
    const char *msg;
} places[] = {
    {{.file = "a.yaml", .line = 3, .key = "env.id"}, "a.yaml:3: env.id: why"},
    {{.file = "a.yaml", .line = 3}, "a.yaml:3: why"},
    {{.file = "a.yaml", .key = "env.id"}, "a.yaml: env.id: why"},
    {{.file = "a.yaml"}, "a.yaml: why"},
    {{.file = "a.yaml", .line = 3, .key = ""}, "a.yaml:3: why"},
    {{.line = 3}, "line 3: why"},
    {{.key = "env.id"}, "env.id: why"},
    {{.agent = "agent_0", .tensor = "w:0"}, "why"},
    {{0}, "why"},
};

static void assert_place(const struct err *err, const struct err_place *at)
{
    ck_assert_str_eq(err->file, at->file != NULL ? at->file : "");
    ck_assert_int_eq(err->line, at->line);
    ck_assert_str_eq(err->key, at->key != NULL ? at->key : "");
    ck_assert_str_eq(err->agent, at->agent != NULL ? at->agent : "");
    ck_assert_str_eq(err->tensor, at->tensor != NULL ? at->tensor : "");
}

START_TEST(a_place_is_text_and_fields)
{
    const struct err_place *at = &places[_i].at;
    struct err err;

    memset(&err, 'x', sizeof(err)); /* old content must not remain */
    ck_assert_int_eq(err_set_at(&err, ERR_CONFIG, at, "%s", "why"), ERR_CONFIG);
    ck_assert_int_eq(err.code, ERR_CONFIG);
    ck_assert_int_eq(err.from_peer, 0);
    ck_assert_str_eq(err.msg, places[_i].msg);
    ck_assert_str_eq(err_cause(&err), "why");
    assert_place(&err, at);
    ck_assert_int_eq(err_set_at(NULL, ERR_CONFIG, at, "nobody listens"), ERR_CONFIG);

    ck_assert_int_eq(err_wrap(&err, "agent a (pid %d)", 4711), ERR_CONFIG);
    ck_assert_str_eq(err_cause(&err), "why");
    assert_place(&err, at);
    (void)err_set(&err, ERR_IO, "another");
    ck_assert_str_eq(err_cause(&err), "another");
    assert_place(&err, &(struct err_place){0});
}
END_TEST

START_TEST(an_error_can_be_made_of_itself)
{
    struct err err = {0};

    (void)err_set_at(&err, ERR_SHAPE, ERR_AT(.key = "a.b"), "no");
    (void)err_set_at(&err, err.code, ERR_AT(.file = err.key, .key = err.msg), "%s%s",
                     err_cause(&err), err.key);
    ck_assert_str_eq(err.msg, "a.b: a.b: no: noa.b");
    ck_assert_str_eq(err.file, "a.b");
    ck_assert_str_eq(err.key, "a.b: no");
    ck_assert_int_eq(err.code, ERR_SHAPE);
}
END_TEST

START_TEST(notes_fill_in_what_is_not_known)
{
    struct err err = {0};

    (void)err_set_at(&err, ERR_FORMAT, ERR_AT(.file = "inner", .line = 7), "bad");
    ck_assert_int_eq(err_note(&err, ERR_AT(.file = "outer", .line = 9, .agent = "a\x1b")),
                     ERR_FORMAT);
    ck_assert_str_eq(err.msg, "inner:7: bad");
    assert_place(&err, ERR_AT(.file = "inner", .line = 7, .agent = "a\\x1b"));
}
END_TEST

START_TEST(long_places_and_messages_are_cut)
{
    char text[2 * ERR_MSG_BYTES];
    struct err err = {0};

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    (void)err_set_at(&err, ERR_FORMAT, ERR_AT(.file = text, .tensor = text), "bad");
    ck_assert_uint_eq(strlen(err.msg), ERR_MSG_BYTES - 1);
    ck_assert_uint_eq(strlen(err.file), ERR_FILE_BYTES - 1);
    ck_assert_uint_eq(strlen(err.tensor), ERR_NAME_BYTES - 1);
    ck_assert_str_eq(err_cause(&err), "");
    (void)err_set_at(&err, ERR_FORMAT, ERR_AT(.key = "k"), "%s", text);
    ck_assert_uint_eq(strlen(err_cause(&err)), ERR_MSG_BYTES - 1 - strlen("k: "));
    (void)err_wrap(&err, "%s", text);
    ck_assert_str_eq(err_cause(&err), "");
}
END_TEST

START_TEST(more_is_added_behind)
{
    struct err err = {0};

    (void)err_set_at(&err, ERR_NOT_FOUND, ERR_AT(.key = "k"), "There is no x.");
    ck_assert_int_eq(err_add(&err, "did you mean '%s'?", "y"), ERR_NOT_FOUND);
    ck_assert_str_eq(err.msg, "k: There is no x; did you mean 'y'?");
    ck_assert_str_eq(err_cause(&err), "There is no x; did you mean 'y'?");
    ck_assert_str_eq(err.key, "k");
}
END_TEST

START_TEST(errors_are_passed_on_whole)
{
    struct err why = {0}, err;

    (void)err_set_at(&why, ERR_LIMIT, ERR_AT(.agent = "a", .key = "k"), "too much");
    why.from_peer = 1;
    ck_assert_int_eq(err_pass(NULL, &why), ERR_LIMIT);
    ck_assert_int_eq(err_pass(&err, &why), ERR_LIMIT);
    ck_assert_str_eq(err.msg, "k: too much");
    ck_assert_str_eq(err_cause(&err), "too much");
    ck_assert_int_eq(err.from_peer, 1);
    assert_place(&err, ERR_AT(.agent = "a", .key = "k"));
}
END_TEST

START_TEST(errno_is_kept_and_named)
{
    struct err err = {0};

    errno = ENOENT;
    ck_assert_int_eq(err_errno(&err, "open %s", "x"), -ENOENT);
    ck_assert_str_eq(err.msg, "open x: No such file or directory");
}
END_TEST

START_TEST(every_code_has_a_text)
{
    static const int codes[] = {
#define CODE(name, code, text) name,
        ERR_MAP(CODE)
#undef CODE
    };

    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        ck_assert_int_lt(codes[i], -5000);
        ck_assert_str_ne(err_text(codes[i]), "unknown error");
    }
    ck_assert_str_eq(err_text(-ENOENT), "No such file or directory");
    ck_assert_str_eq(err_text(-9999), "unknown error");
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("err");
    TCase *tc = tcase_create("err");

    tcase_add_test(tc, set_returns_the_code_and_fills_one_line);
    tcase_add_test(tc, wrap_adds_context_in_front);
    tcase_add_loop_test(tc, a_place_is_text_and_fields, 0,
                        sizeof(places) / sizeof(places[0]));
    tcase_add_test(tc, an_error_can_be_made_of_itself);
    tcase_add_test(tc, notes_fill_in_what_is_not_known);
    tcase_add_test(tc, long_places_and_messages_are_cut);
    tcase_add_test(tc, more_is_added_behind);
    tcase_add_test(tc, errors_are_passed_on_whole);
    tcase_add_test(tc, errno_is_kept_and_named);
    tcase_add_test(tc, every_code_has_a_text);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
