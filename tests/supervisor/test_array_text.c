#include "supervisor/cli/array_text.h"
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

#define F32(...) ((const float[]){__VA_ARGS__})
#define VECTOR_F32(...)                                                                  \
    tensor_const_view(DT_FLOAT,                                                          \
                      SHAPE((int64_t)(sizeof(F32(__VA_ARGS__)) / sizeof(float))),        \
                      F32(__VA_ARGS__))

/* The expected text is that of NumPy 1.24. */
START_TEST(floats_stand_below_each_other)
{
    assert_text(VECTOR_F32(1, -2.5f), "[ 1.  -2.5]");
    assert_text(VECTOR_F32(1e-5f, 1), "[1.e-05 1.e+00]");
    assert_text(VECTOR_F32(NAN, 1, INFINITY, -INFINITY), "[ nan   1.  inf -inf]");
    assert_text(VECTOR_F32(NAN), "[nan]");
    assert_text(VECTOR_F32(0, 0), "[0. 0.]");
    assert_text(VECTOR_F32(80573152, 1e6f), "[80573152.  1000000.]");
    assert_text(VECTOR_F32(-3.0075584e-09f, NAN), "[-3.0075584e-09            nan]");
    assert_text(VECTOR_F32(0.1f, 0.01234567891f), "[0.1        0.01234568]");
    assert_text(tensor_const_view(DT_DOUBLE, SHAPE(2), (const double[]){1e10, -1.5e-7}),
                "[ 1.0e+10 -1.5e-07]");
    assert_text(tensor_const_view(DT_DOUBLE, SHAPE(1), (const double[]){1e100}),
                "[1.e+100]");
    assert_text(
        tensor_const_view(DT_HALF, SHAPE(3), (const uint16_t[]){0x3c00, 0xc100, 0x7c00}),
        "[ 1.  -2.5  inf]");
}
END_TEST

START_TEST(scalars_have_as_many_digits_as_they_need)
{
    static const struct {
        float v;
        const char *text;
    } CASES[] = {
        {0.9f, "0.9"},    {1, "1.0"},           {1e-5f, "1e-05"},
        {1e20f, "1e+20"}, {1.5e-7f, "1.5e-07"}, {-0.0f, "-0.0"},
        {NAN, "nan"},     {-INFINITY, "-inf"},  {1.0f / 3, "0.33333334"},
    };
    static const int64_t STEP = -7;
    static const uint8_t YES = 1;

    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++)
        assert_text(tensor_scalar_f32(&CASES[i].v), CASES[i].text);
    assert_text(tensor_scalar_i64(&STEP), "-7");
    assert_text(tensor_const_view(DT_BOOL, SHAPE_SCALAR, &YES), "True");
}
END_TEST

START_TEST(other_kinds_are_printed)
{
    struct tensor_string s[] = {
        {(char[]){"hi"}, 2}, {(char[]){"it's \\ \n"}, 8}, {(char[]){"\x01\"'\xff"}, 4}};

    assert_text(tensor_const_view(DT_INT32, SHAPE(2), (const int32_t[]){1, -20}),
                "[  1 -20]");
    assert_text(tensor_const_view(DT_BOOL, SHAPE(2), (const uint8_t[]){1, 0}),
                "[ True False]");
    assert_text(tensor_const_view(DT_UINT64, SHAPE(1), (const uint64_t[]){UINT64_MAX}),
                "[18446744073709551615]");
    assert_text(tensor_view(DT_STRING, SHAPE(3), s),
                "[b'hi' b\"it's \\\\ \\n\" b'\\x01\"\\'\\xff']");
    assert_text(tensor_const_view(DT_FLOAT, SHAPE(2, 0), NULL), "[]");
}
END_TEST

START_TEST(rows_are_broken_and_nested)
{
    int32_t v[30];

    for (int i = 0; i < 30; i++)
        v[i] = i;
    assert_text(
        tensor_view(DT_INT32, SHAPE(30), v),
        "[ 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20 21 22 23\n"
        " 24 25 26 27 28 29]");
    assert_text(tensor_view(DT_INT32, SHAPE(2, 2, 3), v), "[[[ 0  1  2]\n"
                                                          "  [ 3  4  5]]\n"
                                                          "\n"
                                                          " [[ 6  7  8]\n"
                                                          "  [ 9 10 11]]]");
}
END_TEST

START_TEST(large_arrays_are_summarised)
{
    static int32_t v[40 * 40];

    for (int i = 0; i < 40 * 40; i++)
        v[i] = i;
    assert_text(tensor_view(DT_INT32, SHAPE(1001), v),
                "[   0    1    2 ...  998  999 1000]");
    assert_text(tensor_view(DT_INT32, SHAPE(40, 40), v),
                "[[   0    1    2 ...   37   38   39]\n"
                " [  40   41   42 ...   77   78   79]\n"
                " [  80   81   82 ...  117  118  119]\n"
                " ...\n"
                " [1480 1481 1482 ... 1517 1518 1519]\n"
                " [1520 1521 1522 ... 1557 1558 1559]\n"
                " [1560 1561 1562 ... 1597 1598 1599]]");
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("array_text");
    TCase *tc = tcase_create("array_text");

    tcase_add_test(tc, floats_stand_below_each_other);
    tcase_add_test(tc, scalars_have_as_many_digits_as_they_need);
    tcase_add_test(tc, other_kinds_are_printed);
    tcase_add_test(tc, rows_are_broken_and_nested);
    tcase_add_test(tc, large_arrays_are_summarised);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
