#include "supervisor/cli/tensor_print.h"
#include "tests/support/test_main.h"

#include <math.h>
#include <string.h>

static void assert_text(struct tensor t, const char *want)
{
    struct wbuf b = {0};

    array_text_put(&b, &t);
    wbuf_u8(&b, 0);
    ck_assert_str_eq((const char *)b.data, want);
    wbuf_done(&b);
}

START_TEST(numbers_are_the_shortest_that_read_back)
{
    static const struct {
        float v;
        const char *text;
    } cases[] = {
        {0.9f, "0.9"},          {1, "1"},
        {1e-5f, "1e-05"},       {1e20f, "1e+20"},
        {-0.0f, "-0"},          {NAN, "nan"},
        {-INFINITY, "-inf"},    {1.0f / 3, "0.33333334"},
        {16777216, "16777216"},
    };
    static const double third = 1.0 / 3;
    static const int64_t step = -7;
    static const uint8_t yes = 1;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_text(tensor_scalar_f32(&cases[i].v), cases[i].text);
    assert_text(tensor_const_view(DT_DOUBLE, SHAPE_SCALAR, &third), "0.3333333333333333");
    assert_text(tensor_scalar_i64(&step), "-7");
    assert_text(tensor_const_view(DT_BOOL, SHAPE_SCALAR, &yes), "true");
    assert_text(
        tensor_const_view(DT_HALF, SHAPE(3), (const uint16_t[]){0x3c00, 0xc100, 0x7c00}),
        "[1, -2.5, inf]");
}
END_TEST

START_TEST(other_kinds_are_printed)
{
    struct tensor_string s[] = {
        {(char[]){"hi"}, 2}, {(char[]){"it's \\ \n"}, 8}, {(char[]){"\x01\"'\xff"}, 4}};

    assert_text(tensor_const_view(DT_INT32, SHAPE(2), (const int32_t[]){1, -20}),
                "[1, -20]");
    assert_text(tensor_const_view(DT_BOOL, SHAPE(2), (const uint8_t[]){1, 0}),
                "[true, false]");
    assert_text(tensor_const_view(DT_UINT64, SHAPE(1), (const uint64_t[]){UINT64_MAX}),
                "[18446744073709551615]");
    assert_text(tensor_view(DT_STRING, SHAPE(3), s),
                "[\"hi\", \"it's \\\\ \\n\", \"\\x01\\\"'\\xff\"]");
    assert_text(tensor_const_view(DT_FLOAT, SHAPE(INT64_C(1) << 40, 0), NULL), "[]");
}
END_TEST

START_TEST(rows_are_broken_and_nested)
{
    int32_t v[40];

    for (int i = 0; i < 40; i++)
        v[i] = i;
    assert_text(
        tensor_view(DT_INT32, SHAPE(40), v),
        "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, "
        "21, 22, 23, 24, 25, 26,\n"
        " 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39]");
    assert_text(tensor_view(DT_INT32, SHAPE(2, 2, 3), v), "[[[0, 1, 2],\n"
                                                          "  [3, 4, 5]],\n"
                                                          " [[6, 7, 8],\n"
                                                          "  [9, 10, 11]]]");
}
END_TEST

START_TEST(large_arrays_are_summarised)
{
    static int32_t v[40 * 40];

    for (int i = 0; i < 40 * 40; i++)
        v[i] = i;
    assert_text(tensor_view(DT_INT32, SHAPE(1001), v), "[0, 1, 2, ..., 998, 999, 1000]");
    assert_text(tensor_view(DT_INT32, SHAPE(40, 40), v),
                "[[0, 1, 2, ..., 37, 38, 39],\n"
                " [40, 41, 42, ..., 77, 78, 79],\n"
                " [80, 81, 82, ..., 117, 118, 119], ...,\n"
                " [1480, 1481, 1482, ..., 1517, 1518, 1519],\n"
                " [1520, 1521, 1522, ..., 1557, 1558, 1559],\n"
                " [1560, 1561, 1562, ..., 1597, 1598, 1599]]");
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("array_text");
    TCase *tc = tcase_create("array_text");

    tcase_add_test(tc, numbers_are_the_shortest_that_read_back);
    tcase_add_test(tc, other_kinds_are_printed);
    tcase_add_test(tc, rows_are_broken_and_nested);
    tcase_add_test(tc, large_arrays_are_summarised);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
