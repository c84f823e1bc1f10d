#include "common/tensor/tensor.h"
#include "tests/support/test_main.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

START_TEST(dtypes_have_tensorflows_numbers_and_sizes)
{
    char label[DTYPE_LABEL_BYTES];

    ck_assert_int_eq(DT_FLOAT, 1);
    ck_assert_int_eq(DT_UINT64, 23);
    ck_assert_uint_eq(dtype_size(DT_COMPLEX128), 16);
    ck_assert_uint_eq(dtype_size(DT_STRING), 0);
    ck_assert(dtype_valid(DT_BOOL) && !dtype_valid(0) && !dtype_valid(11));
    for (int number = 0; number < 40; number++) {
        if (dtype_valid(number))
            ck_assert_int_eq(dtype_from_name(dtype_name(number)), number);
    }
    ck_assert_str_eq(dtype_symbol(DT_HALF), "DT_HALF");
    ck_assert_str_eq(dtype_name(99), "invalid");
    ck_assert_str_eq(dtype_label(99, label), "type 99");
    ck_assert_str_eq(dtype_label(DT_HALF, label), "float16");
    ck_assert_int_eq(dtype_from_name("float33"), DT_INVALID);
    ck_assert(dtype_is_floating(DT_HALF) && !dtype_is_floating(DT_COMPLEX64));
    ck_assert(dtype_is_integer(DT_UINT8) && !dtype_is_integer(DT_BOOL));
}
END_TEST

START_TEST(elements_are_counted_or_refused)
{
    ck_assert_int_eq(shape_elements(&SHAPE_SCALAR), 1);
    ck_assert_int_eq(shape_elements(&SHAPE(3, 4)), 12);
    ck_assert_int_eq(shape_elements(&SHAPE(3, -1)), -1);
    ck_assert_int_eq(shape_elements(&SHAPE_UNKNOWN), -1);
    ck_assert_int_eq(shape_elements(&SHAPE(INT64_MAX, 2)), -1);
    ck_assert_int_eq(shape_elements(&SHAPE(INT64_MAX, INT64_MAX, 0)), 0);
}
END_TEST

START_TEST(shapes_merge_or_contradict)
{
    struct shape r = SHAPE_SCALAR;

    ck_assert_int_eq(shape_merge(&SHAPE(-1, 4), &SHAPE(3, -1), &r), 0);
    ck_assert(shape_equal(&r, &SHAPE(3, 4)));
    ck_assert_int_eq(shape_merge(&SHAPE_UNKNOWN, &SHAPE(2), &r), 0);
    ck_assert(shape_equal(&r, &SHAPE(2)));
    ck_assert_int_eq(shape_merge(&SHAPE(2), &SHAPE(3), &r), ERR_SHAPE);
    ck_assert(shape_equal(&r, &SHAPE(2)));
    ck_assert(shape_compatible(&SHAPE(-1), &SHAPE(3)));
    ck_assert(!shape_compatible(&SHAPE(3), &SHAPE(3, 1)));
    ck_assert(!shape_equal(&SHAPE(-1), &SHAPE(3)));
}
END_TEST

START_TEST(shapes_broadcast_as_numpys)
{
    struct shape r;

    ck_assert_int_eq(shape_broadcast(&SHAPE(5, 1, 3), &SHAPE(4, 1), &r), 0);
    ck_assert(shape_equal(&r, &SHAPE(5, 4, 3)));
    ck_assert_int_eq(shape_broadcast(&SHAPE_SCALAR, &SHAPE(-1, 2), &r), 0);
    ck_assert(shape_equal(&r, &SHAPE(-1, 2)));
    ck_assert_int_eq(shape_broadcast(&SHAPE(-1), &SHAPE(7), &r), 0);
    ck_assert(shape_equal(&r, &SHAPE(7)));
    ck_assert_int_eq(shape_broadcast(&SHAPE(-1), &SHAPE(1), &r), 0);
    ck_assert(shape_equal(&r, &SHAPE(-1)));
    ck_assert_int_eq(shape_broadcast(&SHAPE(0), &SHAPE(1), &r), 0);
    ck_assert(shape_equal(&r, &SHAPE(0)));
    ck_assert_int_eq(shape_broadcast(&SHAPE_UNKNOWN, &SHAPE(1), &r), 0);
    ck_assert(shape_equal(&r, &SHAPE_UNKNOWN));
    ck_assert_int_eq(shape_broadcast(&SHAPE(2), &SHAPE(3), &r), ERR_SHAPE);
}
END_TEST

START_TEST(shapes_are_written_for_people)
{
    char tiny[6];

    ck_assert_str_eq(shape_text(&SHAPE(3, -1)), "(3, ?)");
    ck_assert_str_eq(shape_text(&SHAPE_SCALAR), "()");
    ck_assert_str_eq(shape_text(&SHAPE_UNKNOWN), "<unknown>");
    ck_assert_str_eq(shape_format(&SHAPE(123, 456), tiny, sizeof(tiny)), "(123,");
}
END_TEST

START_TEST(owners_own_and_views_look)
{
    float x[6] = {1, 2, 3, 4, 5, 6};
    struct tensor view = tensor_const_view(DT_FLOAT, SHAPE(2, 3), x);
    struct tensor copy;
    struct err err;

    ck_assert_int_eq(tensor_copy(&copy, &view, &err), 0);
    ck_assert(tensor_equal(&copy, &view));
    ck_assert_uint_eq((uintptr_t)copy.data % 64, 0);
    ck_assert_uint_eq(tensor_bytes(&copy), 24);
    x[5] = 7;
    ck_assert(!tensor_equal(&copy, &view));
    ck_assert(tensor_f32(&copy)[5] == 6);
    tensor_free(&view);
    ck_assert(x[0] == 1);
    tensor_free(&copy);
    ck_assert_ptr_null(copy.data);
    tensor_free(&copy);
}
END_TEST

START_TEST(strings_are_copied_deeply)
{
    struct tensor_string names[3] = {
        {(char[]){"hi"}, 2}, {NULL, 0}, {(char[]){"abc"}, 3}};
    struct tensor view = tensor_view(DT_STRING, SHAPE(3), names);
    struct tensor copy;

    ck_assert_int_eq(tensor_copy(&copy, &view, NULL), 0);
    ck_assert(tensor_equal(&copy, &view));
    ck_assert_uint_eq(tensor_bytes(&copy), 0);
    names[0].bytes[1] = 'o';
    ck_assert(!tensor_equal(&copy, &view));
    tensor_free(&copy);
}
END_TEST

START_TEST(what_cannot_be_held_is_refused)
{
    struct tensor t = TENSOR_NONE;
    struct err err;

    ck_assert_int_eq(tensor_alloc(&t, DT_RESOURCE, SHAPE(1), &err), ERR_DTYPE);
    ck_assert_int_eq(tensor_alloc(&t, DT_FLOAT, SHAPE(-1), &err), ERR_SHAPE);
    ck_assert_int_eq(tensor_alloc(&t, DT_FLOAT, SHAPE(INT64_MAX, 3), &err), ERR_SHAPE);
    ck_assert_int_eq(tensor_alloc(&t, DT_DOUBLE, SHAPE(INT64_MAX), &err), ERR_SHAPE);
    ck_assert_int_eq(tensor_alloc(&t, DT_FLOAT, SHAPE(0, 5), &err), 0);
    ck_assert_ptr_null(t.data);
    ck_assert(tensor_equal(&t, &t));
    tensor_free(&t);
}
END_TEST

START_TEST(one_number_that_is_not_finite_is_found)
{
    const float bad[] = {INFINITY, -INFINITY, NAN, -NAN};
    float x[37] = {FLT_MAX, -FLT_MAX, FLT_TRUE_MIN, -0.0f};

    ck_assert(tensor_finite_f32(x, 37));
    ck_assert(tensor_finite_f32(NULL, 0));
    for (size_t i = 0; i < 37; i++) {
        const float kept = x[i];

        x[i] = bad[i % 4];
        ck_assert(!tensor_finite_f32(x, 37));
        ck_assert(tensor_finite_f32(x, i));
        x[i] = kept;
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("tensor");
    TCase *tc = tcase_create("tensor");

    tcase_add_test(tc, dtypes_have_tensorflows_numbers_and_sizes);
    tcase_add_test(tc, elements_are_counted_or_refused);
    tcase_add_test(tc, shapes_merge_or_contradict);
    tcase_add_test(tc, shapes_broadcast_as_numpys);
    tcase_add_test(tc, shapes_are_written_for_people);
    tcase_add_test(tc, owners_own_and_views_look);
    tcase_add_test(tc, strings_are_copied_deeply);
    tcase_add_test(tc, what_cannot_be_held_is_refused);
    tcase_add_test(tc, one_number_that_is_not_finite_is_found);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
