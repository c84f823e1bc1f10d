/* Convolutions: names and attributes are TensorFlow's, and every kernel path gives the
 * bits that ops/conv.c defines. */
#include "agent/kernels/dense.h"
#include "common/numerics/cpu_kernels.h"
#include "tests/agent/session_help.h"
#include "tests/support/test_main.h"

#include <math.h>
#include <stdlib.h>

enum { BATCH = 6, SIDE = 13, DEEP = 3, SIZE = 4, STRIDE = 2, FILTERS = 9, OUT = 5 };
enum {
    PIXELS = BATCH * OUT * OUT,
    PATCH = SIZE * SIZE * DEEP,
    IMAGE = BATCH * SIDE * SIDE * DEEP
};

struct nets { /* the operands, and the three results computed one element at a time */
    float image[IMAGE], filter[PATCH * FILTERS], dy[PIXELS * FILTERS];
    float y[PIXELS * FILTERS], to_image[IMAGE], to_filter[PATCH * FILTERS];
};

static int64_t pixel_of(int64_t p, int64_t k)
{
    const int64_t y = p / OUT % OUT * STRIDE + k / (SIZE * DEEP);
    const int64_t x = p % OUT * STRIDE + k / DEEP % SIZE;

    return ((p / OUT / OUT * SIDE + y) * SIDE + x) * DEEP + k % DEEP;
}

static void define(struct nets *t)
{
    float sum;

    for (int i = 0; i < IMAGE; i++)
        t->image[i] = (float)(i * 7919 % 2003 - 1001) / 700.0f;
    for (int i = 0; i < PATCH * FILTERS; i++)
        t->filter[i] = (float)(i * 6007 % 1999 - 999) / 900.0f;
    for (int i = 0; i < PIXELS * FILTERS; i++)
        t->dy[i] = (float)(i * 31 % 1013 - 506) / 300.0f;
    for (int64_t p = 0; p < PIXELS; p++)
        for (int64_t f = 0; f < FILTERS; f++) {
            sum = 0;
            for (int64_t k = 0; k < PATCH; k++)
                sum = fmaf(t->image[pixel_of(p, k)], t->filter[k * FILTERS + f], sum);
            t->y[p * FILTERS + f] = sum;
        }
    for (int64_t p = 0; p < PIXELS; p++)
        for (int64_t k = 0; k < PATCH; k++) {
            sum = 0;
            for (int64_t f = 0; f < FILTERS; f++)
                sum = fmaf(t->dy[p * FILTERS + f], t->filter[k * FILTERS + f], sum);
            t->to_image[pixel_of(p, k)] += sum;
        }
    for (int64_t k = 0; k < PATCH; k++)
        for (int64_t f = 0; f < FILTERS; f++) {
            for (int64_t first = 0; first < PIXELS; first += DENSE_BLOCK) {
                sum = 0;
                for (int64_t p = first; p < first + DENSE_BLOCK && p < PIXELS; p++)
                    sum = fmaf(t->image[pixel_of(p, k)], t->dy[p * FILTERS + f], sum);
                t->to_filter[k * FILTERS + f] += sum;
            }
        }
}

static void check_bits(struct bed *b, struct output x, const float *want, size_t n)
{
    struct tensor t = bed_fetch(b, x);

    ck_assert_uint_eq(tensor_bytes(&t), n * sizeof(*want));
    ck_assert_mem_eq(t.data, want, n * sizeof(*want));
    tensor_free(&t);
}

/* Loop test: each kernel path that this processor has. */
START_TEST(bits_are_the_same_on_every_path)
{
    struct nets *t;
    struct output x, filter, y, dy, d[2];
    struct bed b;

    if (!cpu_kernels_are_here((enum cpu_kernels)_i))
        return;
    setenv(CPU_KERNELS_VARIABLE, cpu_kernels_name((enum cpu_kernels)_i), 1);
    t = calloc(1, sizeof(*t));
    define(t);
    bed_init(&b);
    x = bed_input(&b, SHAPE(-1, SIDE, SIDE, DEEP), t->image,
                  SHAPE(BATCH, SIDE, SIDE, DEEP));
    filter = bed_input(&b, SHAPE(SIZE, SIZE, DEEP, FILTERS), t->filter,
                       SHAPE(SIZE, SIZE, DEEP, FILTERS));
    dy = bed_input(&b, SHAPE(-1, OUT, OUT, FILTERS), t->dy,
                   SHAPE(BATCH, OUT, OUT, FILTERS));
    y = conv2d(b.g, x, filter, STRIDE, "VALID", NULL);
    ck_assert_int_eq(graph_gradients(b.g, &y, 1, (struct output[]){x, filter}, 2, &dy,
                                     NULL, 0, d, &b.err),
                     0);
    check_bits(&b, y, t->y, PIXELS * FILTERS);
    check_bits(&b, d[0], t->to_image, IMAGE);
    check_bits(&b, d[1], t->to_filter, PATCH * FILTERS);
    bed_done(&b);
    free(t);
}
END_TEST

static void check_strings(const struct operation *op, const char *name, const char *want)
{
    ck_assert_str_eq(operation_attr(op, name)->s, want);
}

START_TEST(nodes_and_attributes_are_tensorflows)
{
    struct graph *g = graph_new();
    struct output x = placeholder(g, DT_FLOAT, &SHAPE(-1, 84, 84, 4), "x");
    struct output w = placeholder(g, DT_FLOAT, &SHAPE(8, 8, 4, 32), "w"), d;
    struct output y = conv2d(g, x, w, 4, "SAME", "Conv");
    struct shape shape = output_shape(y);
    const char *const grads[] = {"gradients/Conv_grad/Conv2DBackpropInput",
                                 "gradients/Conv_grad/Conv2DBackpropFilter"};
    const struct shape want = SHAPE(-1, 21, 21, 32);

    ck_assert(shape_equal(&shape, &want));
    ck_assert_int_eq(graph_gradients(g, &y, 1, &w, 1, NULL, NULL, 0, &d, NULL), 0);
    ck_assert_ptr_nonnull(graph_operation(g, "gradients/Conv_grad/ShapeN"));
    ck_assert_ptr_eq(d.op, graph_operation(g, grads[1]));
    for (int i = 0; i < 3; i++) {
        const struct operation *op = i < 2 ? graph_operation(g, grads[i]) : y.op;
        const struct attr *strides = operation_attr(op, "strides");
        const struct attr *dilations = operation_attr(op, "dilations");

        ck_assert_uint_eq(strides->n, 4);
        ck_assert(strides->list_i[0] == 1 && strides->list_i[1] == 4 &&
                  strides->list_i[2] == 4 && strides->list_i[3] == 1);
        check_strings(op, "padding", "SAME");
        check_strings(op, "data_format", "NHWC");
        ck_assert_int_eq(operation_attr(op, "use_cudnn_on_gpu")->i, 1);
        ck_assert(dilations->n == 4 && dilations->list_i[1] == 1);
    }
    graph_free(g);
}
END_TEST

/* The first of equal elements gets the whole gradient, as in TensorFlow. */
START_TEST(a_pool_gives_its_gradient_to_the_first_maximum)
{
    const int64_t ones[] = {1, 2, 2, 1};
    float image[8] = {3, 1, 3, 3, 2, 2, 0, 2}, want[8] = {1, 0, 0, 0, 1, 0, 0, 0};
    struct op_builder *o;
    struct output x, y, d;
    struct bed b;

    bed_init(&b);
    x = bed_input(&b, SHAPE(-1, 2, 2, 1), image, SHAPE(2, 2, 2, 1));
    o = op_begin(b.g, "MaxPool", NULL);
    op_input(o, x);
    op_attr_ints(o, "ksize", ones, 4);
    op_attr_ints(o, "strides", ones, 4);
    op_attr_string(o, "padding", "VALID");
    y = (struct output){op_finish(o), 0};
    check_bits(&b, y, (float[]){3, 2}, 2);
    ck_assert_int_eq(graph_gradients(b.g, &y, 1, &x, 1, NULL, NULL, 0, &d, &b.err), 0);
    check_bits(&b, d, want, 8);
    bed_done(&b);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("conv");
    TCase *tc = tcase_create("conv");

    tcase_add_loop_test(tc, bits_are_the_same_on_every_path, 0, CPU_KERNELS_COUNT);
    tcase_add_test(tc, nodes_and_attributes_are_tensorflows);
    tcase_add_test(tc, a_pool_gives_its_gradient_to_the_first_maximum);
    suite_add_tcase(suite, tc);
    return suite;
}
TEST_MAIN(make_suite)
