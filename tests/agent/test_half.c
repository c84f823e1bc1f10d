/* float16 and bfloat16: conversions, and operations that compute in float32. */
#include "agent/graph/ops.h"
#include "common/tensor/half.h"
#include "tests/agent/session_help.h"
#include "tests/support/test_main.h"

/* The nearest float16 by searching all of them: a tie goes to the even one. */
static uint16_t nearest_half(float x)
{
    uint16_t best = 0;
    double least = INFINITY;

    for (unsigned h = 0; h < 0x7c00; h++) {
        const double d = fabs((double)half_to_f32((uint16_t)h) - fabs((double)x));

        if (d < least || (d <= least && h % 2 == 0)) {
            least = d;
            best = (uint16_t)h;
        }
    }
    return best | (signbit(x) ? 0x8000 : 0);
}

START_TEST(half_is_converted_exactly_and_rounded)
{
    static const float odd[] = {
        0.0f,      -0.0f,        0x1p-24f, 0x1p-25f,       0x1.8p-25f,   1e-7f,
        -3.1e-5f,  0x1.ffcp-15f, 1.0f,     1.00048828125f, 1.001464844f, 0.1f,
        -65504.0f, 65519.0f,     123.456f, 2049.0f,        2051.0f};

    for (unsigned h = 0; h < 0x10000; h++) {
        const float f = half_to_f32((uint16_t)h);
        const int e = (int)(h >> 10 & 31), m = (int)(h & 1023);
        const double want = e == 0 ? ldexp(m, -24) : ldexp(1024 + m, e - 25);

        if (e == 31) {
            ck_assert(m == 0 ? isinf(f) : isnan(f));
            continue;
        }
        ck_assert(fabs((double)f) == want && !!signbit(f) == (int)(h >> 15));
        ck_assert_uint_eq(half_from_f32(f), h);
    }
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
        ck_assert_msg(half_from_f32(odd[i]) == nearest_half(odd[i]), "%a",
                      (double)odd[i]);
    ck_assert_uint_eq(half_from_f32(65520.0f), 0x7c00);
    ck_assert_uint_eq(half_from_f32(-1e30f), 0xfc00);
    ck_assert_uint_eq(half_from_f32(INFINITY), 0x7c00);
    ck_assert_uint_eq(half_from_f32(NAN) & 0x7fff, 0x7e00);
}
END_TEST

START_TEST(bfloat16_is_converted_exactly_and_rounded)
{
    for (unsigned b = 0; b < 0x10000; b++) {
        const float f = bfloat16_to_f32((uint16_t)b);

        ck_assert(isnan(f) || bfloat16_from_f32(f) == b);
    }
    ck_assert_uint_eq(bfloat16_from_f32(0x1.01p0f), 0x3f80); /* ties to even */
    ck_assert_uint_eq(bfloat16_from_f32(0x1.03p0f), 0x3f82);
    ck_assert_uint_eq(bfloat16_from_f32(0x1.010002p0f), 0x3f81);
    ck_assert_uint_eq(bfloat16_from_f32(3.4e38f), 0x7f80);
    ck_assert_uint_eq(bfloat16_from_f32(NAN) & 0x7fff, 0x7fc0);
}
END_TEST

static struct output half_input(struct bed *b, enum dtype dtype, struct shape shape,
                                uint16_t *data)
{
    struct output x = placeholder(b->g, dtype, &shape, NULL);

    b->feeds[b->n_feeds++] = (struct feed){x, tensor_view(dtype, shape, data)};
    return x;
}

static uint16_t from_f32(enum dtype dtype, float x)
{
    return dtype == DT_HALF ? half_from_f32(x) : bfloat16_from_f32(x);
}

static float to_f32(enum dtype dtype, uint16_t h)
{
    return dtype == DT_HALF ? half_to_f32(h) : bfloat16_to_f32(h);
}

static void check(struct bed *b, struct output x, const float *want, size_t n)
{
    struct tensor t = bed_fetch(b, x);

    ck_assert_uint_eq((size_t)tensor_elements(&t), n);
    for (size_t i = 0; i < n; i++) {
        const float got = t.dtype == DT_FLOAT ? tensor_f32(&t)[i]
                          : t.dtype == DT_INT32
                              ? (float)((const int32_t *)t.data)[i]
                              : to_f32(t.dtype, ((const uint16_t *)t.data)[i]);

        ck_assert_msg(got == want[i], "%s %zu: %a, not %a", operation_name(x.op), i,
                      (double)got, (double)want[i]);
    }
    tensor_free(&t);
}

static const enum dtype halves[] = {DT_HALF, DT_BFLOAT16};

/* Each result is that of float32, rounded once. */
START_TEST(operations_compute_in_float32)
{
    static const float xs[6] = {1.5f, -2.25f, 3.1f, 0.3f, -0.01f, 100.0f};
    const enum dtype t = halves[_i];
    const int32_t axis = 1;
    uint16_t data[6];
    float x[6], want[6];
    struct output in, y;
    struct bed b;

    bed_init(&b);
    for (int i = 0; i < 6; i++) {
        data[i] = from_f32(t, xs[i]);
        x[i] = to_f32(t, data[i]);
    }
    in = half_input(&b, t, SHAPE(2, 3), data);
    for (int i = 0; i < 6; i++)
        want[i] = to_f32(t, from_f32(t, x[i] + x[i]));
    check(&b, binary(b.g, "AddV2", in, in, NULL), want, 6);
    for (int i = 0; i < 6; i++)
        want[i] = to_f32(t, from_f32(t, x[i] * x[i]));
    check(&b, unary(b.g, "Square", in, NULL), want, 6);
    check(&b, binary(b.g, "Mul", in, in, NULL), want, 6);
    for (int i = 0; i < 6; i++)
        want[i] = x[i] > 0 ? x[i] : 0;
    check(&b, unary(b.g, "Relu", in, NULL), want, 6);
    check(&b, cast(b.g, in, DT_FLOAT, NULL), x, 6);
    for (int i = 0; i < 6; i++)
        want[i] = (float)(int32_t)x[i];
    check(&b, cast(b.g, in, DT_INT32, NULL), want, 6);
    y = cast(b.g, cast(b.g, in, DT_DOUBLE, NULL), t, NULL);
    check(&b, y, x, 6);
    for (int i = 0; i < 2; i++)
        want[i] = to_f32(t, from_f32(t, x[3 * i] + x[3 * i + 1] + x[3 * i + 2]));
    check(&b, binary(b.g, "Sum", in, constant_i32s(b.g, &axis, 1, NULL), NULL), want, 2);
    /* what only moves elements */
    check(&b, reshape(b.g, in, &SHAPE(6), NULL), x, 6);
    bed_done(&b);
}
END_TEST

/* TensorFlow rounds the product of rate and gradient, too. */
START_TEST(variables_of_half_are_updated)
{
    const enum dtype t = halves[_i];
    uint16_t start[2] = {from_f32(t, 0.7f), from_f32(t, -3.3f)};
    uint16_t grad[2] = {from_f32(t, 0.123f), from_f32(t, 11.7f)};
    const uint16_t rate = from_f32(t, 0.1f);
    const struct tensor value = tensor_view(t, SHAPE(2), start);
    const struct tensor step = tensor_const_view(t, SHAPE_SCALAR, &rate);
    struct op_builder *o;
    struct variable *v;
    struct output g, read;
    float want[2];
    struct bed b;

    bed_init(&b);
    v = variable_new(b.g, constant(b.g, &value, NULL), "v", 0);
    g = half_input(&b, t, SHAPE(2), grad);
    o = op_begin(b.g, "ApplyGradientDescent", "step");
    op_input(o, v->ref);
    op_input(o, constant(b.g, &step, NULL));
    op_input(o, g);
    (void)op_finish(o);
    (void)binary(b.g, "AssignAdd", v->ref, g, "more");
    bed_init_variables(&b);
    bed_target(&b, graph_operation(b.g, "step"));
    read = v->read;
    for (int i = 0; i < 2; i++) {
        const float product =
            to_f32(t, from_f32(t, to_f32(t, rate) * to_f32(t, grad[i])));

        want[i] = to_f32(t, from_f32(t, to_f32(t, start[i]) - product));
    }
    check(&b, read, want, 2);
    bed_target(&b, graph_operation(b.g, "more"));
    for (int i = 0; i < 2; i++)
        want[i] = to_f32(t, from_f32(t, want[i] + to_f32(t, grad[i])));
    check(&b, read, want, 2);
    bed_done(&b);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("half");
    TCase *tc = tcase_create("half");

    tcase_add_test(tc, half_is_converted_exactly_and_rounded);
    tcase_add_test(tc, bfloat16_is_converted_exactly_and_rounded);
    tcase_add_loop_test(tc, operations_compute_in_float32, 0, 2);
    tcase_add_loop_test(tc, variables_of_half_are_updated, 0, 2);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
