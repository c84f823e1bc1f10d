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
    tcase_add_test(tc, errno_is_kept_and_named);
    tcase_add_test(tc, every_code_has_a_text);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
