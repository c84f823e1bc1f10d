#include "common/mem/xmalloc.h"
#include "supervisor/cli/tensor_text.h"
#include "supervisor/export/npy.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_main.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct tensor parsed(const char *text, enum dtype dtype)
{
    struct tensor t = TENSOR_NONE;
    struct err err = {0};

    ck_assert_msg(tensor_text_read(&t, text, strlen(text), dtype, &err) == 0, "%s: %s",
                  text, err.msg);
    ck_assert_int_eq(t.dtype, dtype);
    return t;
}

static void assert_refused(const char *text, enum dtype dtype, const char *says)
{
    struct tensor t = TENSOR_NONE;
    struct err err = {0};

    ck_assert_msg(tensor_text_read(&t, text, strlen(text), dtype, &err) < 0, "%s", text);
    ck_assert_msg(strstr(err.msg, says) != NULL, "%s: %s", text, err.msg);
    ck_assert_ptr_null(t.data);
}

START_TEST(shapes_come_from_brackets)
{
    static const struct {
        const char *text;
        struct shape shape;
    } CASES[] = {
        {" 0.5 ", SHAPE_SCALAR},
        {"[1, 2, 3]", {1, {3}}},
        {"[[1., 2.],\n [3, 4],\n [5, 6]]", {2, {3, 2}}},
        {"[[[1],[2]]]", {3, {1, 2, 1}}},
        {"[1, 2,]", {1, {2}}},
        {"[]", {1, {0}}},
        {"[[], []]", {2, {2, 0}}},
    };

    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        struct tensor t = parsed(CASES[i].text, DT_FLOAT);

        ck_assert_msg(shape_equal(&t.shape, &CASES[i].shape), "%s: %s", CASES[i].text,
                      shape_text(&t.shape));
        for (int64_t k = 0; k < tensor_elements(&t) && t.shape.rank > 0; k++)
            ck_assert_double_eq((double)tensor_f32(&t)[k], (double)k + 1);
        tensor_free(&t);
    }
}
END_TEST

START_TEST(numbers_are_of_their_dtype)
{
    struct tensor t = parsed("[nan, -inf, 1e-3, 0x1.8p1]", DT_FLOAT);

    ck_assert(isnan(tensor_f32(&t)[0]) && isinf(tensor_f32(&t)[1]));
    ck_assert_float_eq(tensor_f32(&t)[2], 1e-3f);
    ck_assert_float_eq(tensor_f32(&t)[3], 3);
    tensor_free(&t);
    t = parsed("[True, false, 1]", DT_BOOL);
    ck_assert_mem_eq(t.data, ((uint8_t[]){1, 0, 1}), 3);
    tensor_free(&t);
    t = parsed("[-128, 127]", DT_INT8);
    ck_assert_mem_eq(t.data, ((int8_t[]){-128, 127}), 2);
    tensor_free(&t);
    t = parsed("18446744073709551615", DT_UINT64);
    ck_assert_uint_eq(*(uint64_t *)t.data, UINT64_MAX);
    tensor_free(&t);
    t = parsed("-9223372036854775808", DT_INT64);
    ck_assert_int_eq(*(int64_t *)t.data, INT64_MIN);
    tensor_free(&t);
}
END_TEST

START_TEST(what_is_no_array_is_refused)
{
    struct xstream uneven;
    FILE *f = xstream_begin(&uneven);

    /* would be a tensor of 40,000 rows of 40,000 elements */
    (void)fputs("[[1", f);
    for (int i = 1; i < 80000; i++)
        (void)fputs(i == 40000 ? "], 1" : ", 1", f);
    (void)fputs("]", f);
    assert_refused(xstream_end(&uneven), DT_FLOAT, "different numbers of elements");
    free(uneven.text);
    assert_refused("", DT_FLOAT, "'' is no float32");
    assert_refused("[1, 2", DT_FLOAT, "not YAML");
    assert_refused("]", DT_FLOAT, "not YAML");
    assert_refused("[1] 2", DT_FLOAT, "not YAML");
    assert_refused("[1,,2]", DT_FLOAT, "not YAML");
    assert_refused("{a: 1}", DT_FLOAT, "equally many brackets");
    assert_refused("[[1, 2], [3]]", DT_FLOAT, "rows of 2 and of 1");
    assert_refused("[[1], 2]", DT_FLOAT, "equally many brackets");
    assert_refused("[1, [2]]", DT_FLOAT, "equally many brackets");
    assert_refused("[1, []]", DT_FLOAT, "equally many brackets");
    assert_refused("[[], 1]", DT_FLOAT, "equally many brackets");
    assert_refused("[1, 2, ..., 8, 9]", DT_FLOAT, "'...' is no float32");
    assert_refused("[1. 2.]", DT_FLOAT, "'1. 2.' is no float32");
    assert_refused("one", DT_FLOAT, "'one' is no float32");
    assert_refused("1.5", DT_INT32, "'1.5' is no int32");
    assert_refused("128", DT_INT8, "'128' is no int8");
    assert_refused("-1", DT_UINT8, "'-1' is no uint8");
    assert_refused("99999999999999999999", DT_INT64, "is no int64");
    assert_refused("2", DT_BOOL, "is no bool");
    assert_refused("[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]", DT_FLOAT, "dimensions");
}
END_TEST

/* ---- files ---- */

static const char *file_of(struct temp_dir *d, const void *bytes, size_t len)
{
    const char *path = temp_dir_file(d, "array");
    FILE *f = fopen(path, "wb");

    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(bytes, 1, len, f), len);
    ck_assert_int_eq(fclose(f), 0);
    return path;
}

/* The file that numpy.save writes for `header` and `data`. */
static const char *npy_of(struct temp_dir *d, const char *header, const void *data,
                          size_t len)
{
    static char bytes[512];
    size_t n = strlen(header);

    memcpy(bytes, "\x93NUMPY\x01\x00", 8);
    bytes[8] = (char)n;
    bytes[9] = 0;
    memcpy(bytes + 10, header, n);
    memcpy(bytes + 10 + n, data, len);
    return file_of(d, bytes, 10 + n + len);
}

/* NumPy has no bfloat16. */
START_TEST(bfloat16_is_written_as_float32)
{
    static const uint16_t values[] = {0x3fc0, 0xc100}; /* 1.5, -8 */
    static const float wide[] = {1.5f, -8.0f};
    struct temp_dir d;
    struct tensor t;
    struct npz *z;
    struct err err = {0};
    const char *path;
    char *file;
    size_t len;

    temp_dir_init(&d);
    path = temp_dir_file(&d, "x.npz");
    ck_assert(npz_widens(DT_BFLOAT16) && !npz_widens(DT_HALF));
    ck_assert_int_eq(tensor_alloc(&t, DT_BFLOAT16, SHAPE(2), &err), 0);
    memcpy(t.data, values, sizeof(values));
    ck_assert_int_eq(npz_begin(&z, path, &err), 0);
    ck_assert_int_eq(npz_end(z, npz_add(z, "x", &t, &err), &err), 0);
    tensor_free(&t);
    file = temp_dir_read(path, &len);
    ck_assert_ptr_nonnull(memmem(file, len, "'descr': '<f4'", 14));
    ck_assert_ptr_nonnull(memmem(file, len, wide, sizeof(wide)));
    free(file);
    temp_dir_done(&d);
}
END_TEST

START_TEST(npy_files_are_read_and_converted)
{
    static const double DATA[] = {0.1, -2, 3, 4, 5, 6e10};
    struct temp_dir d;
    struct tensor t = TENSOR_NONE;
    struct err err = {0};
    const char *path;

    temp_dir_init(&d);
    path = npy_of(&d, "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }\n",
                  DATA, sizeof(DATA));
    ck_assert_msg(tensor_file_read(&t, path, DT_FLOAT, &err) == 0, "%s", err.msg);
    ck_assert(shape_equal(&t.shape, &SHAPE(2, 3)));
    for (int64_t i = 0; i < 6; i++)
        ck_assert_float_eq(tensor_f32(&t)[i], (float)DATA[i]);
    tensor_free(&t);
    ck_assert_int_lt(tensor_file_read(&t, path, DT_INT32, &err), 0);
    path = npy_of(&d, "{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }\n", DATA,
                  sizeof(DATA));
    ck_assert_int_eq(tensor_file_read(&t, path, DT_DOUBLE, &err), ERR_FORMAT);
    path = npy_of(&d, "{'descr': '<f8', 'fortran_order': True, 'shape': (2, 3), }\n",
                  DATA, sizeof(DATA));
    ck_assert_int_eq(tensor_file_read(&t, path, DT_DOUBLE, &err), ERR_UNSUPPORTED);
    path = npy_of(&d, "{'descr': '<f8'", DATA, 8);
    ck_assert_int_eq(tensor_file_read(&t, path, DT_DOUBLE, &err), ERR_FORMAT);
    path = file_of(&d, "\x93NUMPY\x01\x00\xff\xff", 10);
    ck_assert_int_eq(tensor_file_read(&t, path, DT_DOUBLE, &err), ERR_FORMAT);
    temp_dir_done(&d);
}
END_TEST

START_TEST(text_files_are_read)
{
    static const struct {
        const char *text;
        struct shape shape;
    } CASES[] = {
        {"1\n", SHAPE_SCALAR},
        {"1 2 3\n", {1, {3}}},
        {"1\n2\n3\n", {1, {3}}},
        {"1,2\r\n3,4\r\n\n", {2, {2, 2}}},
        {"[[1, 2],\n [3, 4]]\n", {2, {2, 2}}},
    };
    struct temp_dir d;
    struct tensor t = TENSOR_NONE;
    struct err err = {0};

    temp_dir_init(&d);
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        const char *path = file_of(&d, CASES[i].text, strlen(CASES[i].text));

        ck_assert_msg(tensor_file_read(&t, path, DT_INT32, &err) == 0, "%s", err.msg);
        ck_assert_msg(shape_equal(&t.shape, &CASES[i].shape), "%s", CASES[i].text);
        for (int64_t k = 0; k < tensor_elements(&t); k++)
            ck_assert_int_eq(((int32_t *)t.data)[k], k + 1);
        tensor_free(&t);
    }
    ck_assert_int_lt(tensor_file_read(&t, file_of(&d, "1 2\n3\n", 6), DT_FLOAT, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.msg, "rows of 2 and of 1"));
    ck_assert_int_lt(tensor_file_read(&t, file_of(&d, "", 0), DT_FLOAT, &err), 0);
    ck_assert_int_lt(tensor_file_read(&t, "/nowhere/x.npy", DT_FLOAT, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.msg, "/nowhere/x.npy"));
    temp_dir_done(&d);
}
END_TEST

START_TEST(strings_are_read)
{
    static const struct {
        const char *text;
        struct shape shape;
        const char *first;
    } cases[] = {
        {"plain text, [with] brackets", {0}, "plain text, [with] brackets"},
        {"", {0}, ""},
        {"[\"a b\", 'c,]', \"\"]", {1, {3}}, "a b"},
        {"[[\"\\x41\\n\\u00e9'\"]\n, [x]]", {2, {2, 1}}, "A\n\xc3\xa9'"},
        {"[]", {1, {0}}, NULL},
    };
    static const char *const bad[] = {"['a', ['b']]", "['a'",    "['a] ",
                                      "[\"\\q\"]",    "['a'] b", "[['a', 'b'], ['c']]",
                                      "[\"\\0\"]"};
    struct tensor t = TENSOR_NONE;
    struct err err = {0};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct tensor_string *s;

        ck_assert_msg(tensor_text_read(&t, cases[i].text, strlen(cases[i].text),
                                       DT_STRING, &err) == 0,
                      "%s: %s", cases[i].text, err.msg);
        ck_assert_msg(shape_equal(&t.shape, &cases[i].shape), "%s", cases[i].text);
        s = t.data;
        if (cases[i].first != NULL)
            ck_assert(s->len_bytes == strlen(cases[i].first) &&
                      (s->len_bytes == 0 ||
                       memcmp(s->bytes, cases[i].first, s->len_bytes) == 0));
        tensor_free(&t);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        ck_assert_msg(tensor_text_read(&t, bad[i], strlen(bad[i]), DT_STRING, &err) < 0,
                      "%s", bad[i]);
}
END_TEST

/* ---- printing ---- */

/* free() */
static char *text_of(const struct tensor *t)
{
    struct xstream text;

    tensor_text_write(t, xstream_begin(&text));
    return xstream_end(&text);
}

static void assert_text(struct tensor t, const char *want)
{
    char *text = text_of(&t);

    ck_assert_str_eq(text, want);
    free(text);
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
    const float z[] = {1, -2, 0.5f, 0};

    assert_text(tensor_const_view(DT_INT32, SHAPE(2), (const int32_t[]){1, -20}),
                "[1, -20]");
    assert_text(tensor_const_view(DT_BOOL, SHAPE(2), (const uint8_t[]){1, 0}),
                "[true, false]");
    assert_text(tensor_const_view(DT_UINT64, SHAPE(1), (const uint64_t[]){UINT64_MAX}),
                "[18446744073709551615]");
    assert_text(tensor_view(DT_STRING, SHAPE(3), s),
                "[\"hi\", \"it's \\\\ \\n\", \"\\u0001\\\"'\\ufffd\"]");
    assert_text(tensor_const_view(DT_COMPLEX64, SHAPE(2), z), "[[1, -2], [0.5, 0]]");
    assert_text(tensor_const_view(DT_FLOAT, SHAPE(INT64_C(1) << 40, 0), NULL), "[]");
}
END_TEST

START_TEST(lists_are_nested)
{
    int32_t v[12];

    for (int i = 0; i < 12; i++)
        v[i] = i;
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

START_TEST(printed_tensors_read_back)
{
    struct tensor_string s[] = {{(char[]){"it's \\ \n"}, 8},
                                {(char[]){"\x01\"\xc3\xa9"}, 4}};
    const struct tensor given[] = {
        tensor_const_view(DT_DOUBLE, SHAPE(2, 3),
                          (const double[]){0.1, -2, 1e300, 5e-324, INFINITY, 1.0 / 3}),
        tensor_const_view(DT_INT8, SHAPE(1, 3), (const int8_t[]){-128, 0, 127}),
        tensor_const_view(DT_BOOL, SHAPE(2), (const uint8_t[]){1, 0}),
        tensor_view(DT_STRING, SHAPE(2, 1), s)};

    for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
        char *text = text_of(&given[i]);
        struct tensor t = parsed(text, given[i].dtype);

        ck_assert(shape_equal(&t.shape, &given[i].shape));
        assert_text(t, text);
        if (given[i].dtype != DT_STRING)
            ck_assert_mem_eq(t.data, given[i].data, tensor_bytes(&t));
        tensor_free(&t);
        free(text);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("tensor_text");
    TCase *tc = tcase_create("tensor_text");

    tcase_add_test(tc, shapes_come_from_brackets);
    tcase_add_test(tc, numbers_are_of_their_dtype);
    tcase_add_test(tc, what_is_no_array_is_refused);
    tcase_add_test(tc, npy_files_are_read_and_converted);
    tcase_add_test(tc, bfloat16_is_written_as_float32);
    tcase_add_test(tc, text_files_are_read);
    tcase_add_test(tc, strings_are_read);
    tcase_add_test(tc, numbers_are_the_shortest_that_read_back);
    tcase_add_test(tc, other_kinds_are_printed);
    tcase_add_test(tc, lists_are_nested);
    tcase_add_test(tc, large_arrays_are_summarised);
    tcase_add_test(tc, printed_tensors_read_back);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
