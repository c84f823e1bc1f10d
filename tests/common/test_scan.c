#include "common/text/scan.h"
#include "tests/support/test_main.h"

START_TEST(beginnings_and_endings)
{
    ck_assert_str_eq(text_after("train/loss", "train/"), "loss");
    ck_assert_str_eq(text_after("train/", "train/"), "");
    ck_assert_str_eq(text_after("train", ""), "train");
    ck_assert_ptr_null(text_after("train", "train/"));
    ck_assert_int_eq(text_ends_with("a.log", ".log"), 1);
    ck_assert_int_eq(text_ends_with(".log", ".log"), 0); /* nothing before it */
    ck_assert_int_eq(text_ends_with("log", ".log"), 0);
    ck_assert_int_eq(text_ends_with("a.log2", ".log"), 0);
    ck_assert_int_eq(text_ends_with("a", ""), 1);
    ck_assert_int_eq(text_ends_with("", ""), 0);
}
END_TEST

START_TEST(last_parts_of_paths_are_found)
{
    ck_assert_str_eq(text_base_name("/a/b.c"), "b.c");
    ck_assert_str_eq(text_base_name("b.c"), "b.c");
    ck_assert_str_eq(text_base_name("a/"), "");
}
END_TEST

START_TEST(words_are_compared_as_a_whole)
{
    ck_assert_int_eq(text_is_word("key=1", 3, "key"), 1);
    ck_assert_int_eq(text_is_word("key=1", 2, "key"), 0);
    ck_assert_int_eq(text_is_word("key=1", 4, "key"), 0);
    ck_assert_int_eq(text_is_word("", 0, ""), 1);
}
END_TEST

START_TEST(lists)
{
    static const char *const list[] = {"one", "two", NULL};

    ck_assert_int_eq(text_find(list, "one"), 0);
    ck_assert_int_eq(text_find(list, "two"), 1);
    ck_assert_int_eq(text_find(list, "on"), -1);
    ck_assert_int_eq(text_find(list + 2, "one"), -1);
}
END_TEST

START_TEST(numbers)
{
    static const char *const none[] = {"", "-1", "+1", " 1", "1 ", "1.", "0x1", "a"};
    uint64_t v;

    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        ck_assert_int_eq(text_is_digits(none[i]), 0);
        ck_assert_int_eq(text_u64(none[i], &v), 0);
    }
    ck_assert_int_eq(text_u64("0012", &v), 1);
    ck_assert_uint_eq(v, 12);
    ck_assert_int_eq(text_u64("18446744073709551615", &v), 1);
    ck_assert_uint_eq(v, UINT64_MAX);
    ck_assert_int_eq(text_u64("18446744073709551616", &v), 0);
    ck_assert_int_eq(text_is_digits("18446744073709551616"), 1);
}
END_TEST

START_TEST(hexadecimal_digits)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    static const char others[] = "/:@G`g \xff";

    for (int i = 0; i < 32; i++)
        ck_assert_int_eq(hex_digit(digits[i]), i % 16);
    for (size_t i = 0; i < sizeof(others); i++)
        ck_assert_int_eq(hex_digit(others[i]), -1);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("scan");
    TCase *tc = tcase_create("scan");

    tcase_add_test(tc, beginnings_and_endings);
    tcase_add_test(tc, last_parts_of_paths_are_found);
    tcase_add_test(tc, words_are_compared_as_a_whole);
    tcase_add_test(tc, lists);
    tcase_add_test(tc, numbers);
    tcase_add_test(tc, hexadecimal_digits);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
