#include "agent/graph/op_def.h"
#include "agent/graph/ops.h"
#include "tests/agent/session_help.h"
#include "tests/support/test_main.h"

#include <string.h>

static struct output input(struct graph *g, int64_t rows, int64_t columns,
                           const char *name)
{
    struct shape s = SHAPE(rows, columns);

    return placeholder(g, DT_FLOAT, &s, name);
}

static struct output gradient(struct graph *g, struct output y, struct output x)
{
    struct output d;
    struct err err = {0};

    ck_assert_msg(graph_gradients(g, &y, 1, &x, 1, NULL, NULL, 0, &d, &err) == 0, "%s",
                  err.msg);
    return d;
}

static void check_node(const struct graph *g, const char *name, const char *type)
{
    const struct operation *op = graph_operation(g, name);

    ck_assert_msg(op != NULL, "there is no %s", name);
    ck_assert_str_eq(operation_type(op), type);
}

static void check_like(struct output d, struct output x)
{
    struct shape is, want = output_shape(x);

    ck_assert(output_valid(d));
    is = output_shape(d);
    ck_assert_msg(shape_equal(&is, &want), "%s: %s, not %s", operation_name(d.op),
                  shape_text(&is), shape_text(&want));
    ck_assert_int_eq(output_dtype(d), output_dtype(x));
}

START_TEST(nodes_are_named_as_tensorflow_names_them)
{
    struct graph *g = graph_new();
    struct output x = input(g, -1, 3, "x"), w = input(g, 3, 2, "w");
    struct output b = placeholder(g, DT_FLOAT, &SHAPE(2), "b");
    struct output y = matmul(g, x, w, 0, 0, "layer/MatMul"), d[3];
    struct output xs[] = {x, w, b};

    y = unary(g, "Relu", bias_add(g, y, b, "layer/BiasAdd"), "layer/Relu");
    y = reduce(g, "Mean", y, NULL, 0, 0, "loss");
    ck_assert_int_eq(graph_gradients(g, &y, 1, xs, 3, NULL, NULL, 0, d, NULL), 0);
    check_node(g, "gradients/Shape", "Const");
    check_node(g, "gradients/grad_ys_0", "Const");
    check_node(g, "gradients/Fill", "Fill");
    check_node(g, "gradients/loss_grad/Reshape", "Reshape");
    check_node(g, "gradients/loss_grad/Shape", "Shape");
    check_node(g, "gradients/loss_grad/Tile", "Tile");
    check_node(g, "gradients/loss_grad/Prod", "Prod");
    check_node(g, "gradients/loss_grad/Maximum", "Maximum");
    check_node(g, "gradients/loss_grad/floordiv", "FloorDiv");
    check_node(g, "gradients/loss_grad/Cast", "Cast");
    check_node(g, "gradients/loss_grad/truediv", "RealDiv");
    check_node(g, "gradients/layer/Relu_grad/ReluGrad", "ReluGrad");
    check_node(g, "gradients/layer/BiasAdd_grad/BiasAddGrad", "BiasAddGrad");
    check_node(g, "gradients/layer/MatMul_grad/MatMul", "MatMul");
    check_node(g, "gradients/layer/MatMul_grad/MatMul_1", "MatMul");
    for (int i = 0; i < 3; i++)
        check_like(d[i], xs[i]);
    ck_assert_ptr_eq(d[1].op, graph_operation(g, "gradients/layer/MatMul_grad/MatMul_1"));
    (void)gradient(g, y, w);
    check_node(g, "gradients_1/Fill", "Fill");
    graph_free(g);
}
END_TEST

START_TEST(equal_known_shapes_need_no_sums)
{
    struct graph *g = graph_new();
    struct output x = input(g, 4, 3, "x"), y = input(g, 4, 3, "y");

    check_like(gradient(g, binary(g, "Mul", x, y, "product"), x), x);
    check_node(g, "gradients/product_grad/Mul", "Mul");
    ck_assert_ptr_null(graph_operation(g, "gradients/product_grad/Sum"));
    x = input(g, -1, 3, "u");
    check_like(gradient(g, binary(g, "Mul", x, y, "spread"), x), x);
    check_node(g, "gradients_1/spread_grad/BroadcastGradientArgs",
               "BroadcastGradientArgs");
    check_node(g, "gradients_1/spread_grad/Sum", "Sum");
    check_node(g, "gradients_1/spread_grad/Reshape_1", "Reshape");
    graph_free(g);
}
END_TEST

START_TEST(several_uses_are_added)
{
    struct graph *g = graph_new();
    struct output x = input(g, 2, 2, "x");
    struct output y =
        binary(g, "Add", unary(g, "Tanh", x, NULL), unary(g, "Exp", x, NULL), NULL);
    struct output d = gradient(g, y, x);

    ck_assert_str_eq(operation_type(d.op), "AddN");
    ck_assert_str_eq(operation_name(d.op), "gradients/AddN");
    ck_assert_int_eq(operation_n_inputs(d.op), 2);
    d = gradient(g, binary(g, "Mul", x, x, "square"), x);
    ck_assert_str_eq(operation_type(d.op), "AddN");
    graph_free(g);
}
END_TEST

START_TEST(only_ops_between_are_differentiated)
{
    struct graph *g = graph_new();
    struct output x = input(g, 2, 2, "x"), u = input(g, 2, 2, "u"), d[2];
    struct output side = unary(g, "Exp", u, "side"), xs[2];
    struct output y = binary(g, "Add", unary(g, "Tanh", x, "tanh"), side, "sum");
    int before;

    (void)gradient(g, y, x);
    check_node(g, "gradients/tanh_grad/TanhGrad", "TanhGrad");
    ck_assert_ptr_null(graph_operation(g, "gradients/side_grad/mul"));
    ck_assert(!output_valid(gradient(g, side, x)));
    before = graph_n_operations(g);
    xs[0] = y; /* d(y)/d(y) is one; the graph below y is not searched */
    xs[1] = x;
    ck_assert_int_eq(graph_gradients(g, &y, 1, xs, 2, NULL, &y, 1, d, NULL), 0);
    ck_assert(output_valid(d[0]) && !output_valid(d[1]));
    ck_assert_int_eq(graph_n_operations(g), before + 3);
    graph_free(g);
}
END_TEST

START_TEST(gradients_stop_where_they_are_told)
{
    struct graph *g = graph_new();
    struct output x = input(g, 2, 2, "x");
    struct output kept = unary(g, "Tanh", x, "kept");
    struct output y = binary(g, "Mul", kept, unary(g, "Exp", x, "exp"), "y"), d;

    ck_assert(!output_valid(gradient(g, stop_gradient(g, kept, NULL), x)));
    ck_assert_int_eq(graph_gradients(g, &y, 1, &x, 1, NULL, &kept, 1, &d, NULL), 0);
    ck_assert_str_eq(operation_name(d.op), "gradients_1/exp_grad/mul");
    ck_assert_ptr_null(graph_operation(g, "gradients_1/kept_grad/TanhGrad"));
    ck_assert(!output_valid(gradient(g, cast(g, x, DT_INT32, NULL), x)));
    graph_free(g);
}
END_TEST

static void check_waits(const struct graph *g, const char *name, const char *on)
{
    const struct operation *op = graph_operation(g, name);

    for (int i = 0; i < operation_n_control_inputs(op); i++)
        if (strcmp(operation_name(operation_control_input(op, i)), on) == 0)
            return;
    ck_abort_msg("%s does not wait for %s", name, on);
}

/* As in an optimiser's request: gradients of two inputs of one op go through a tuple. */
START_TEST(gradients_of_several_inputs_come_together)
{
    struct graph *g = graph_new();
    struct output x = input(g, 2, 3, "x"), w = input(g, 3, 2, "w"), d[2];
    struct output xs[] = {x, w}, y = matmul(g, unary(g, "Tanh", x, NULL), w, 0, 0, "m");
    const struct attr *class;

    ck_assert_int_eq(graph_gradients_gated(g, y, xs, 2, d, NULL), 0);
    ck_assert_str_eq(operation_name(d[0].op), "gradients/Tanh_grad/TanhGrad");
    ck_assert_str_eq(operation_name(d[1].op),
                     "gradients/m_grad/tuple/control_dependency_1");
    ck_assert_ptr_eq(operation_input(d[1].op, 0).op,
                     graph_operation(g, "gradients/m_grad/MatMul_1"));
    check_waits(g, operation_name(d[1].op), "gradients/m_grad/tuple/group_deps");
    check_waits(g, "gradients/m_grad/tuple/group_deps", "gradients/m_grad/MatMul");
    check_waits(g, "gradients/m_grad/tuple/group_deps", "gradients/m_grad/MatMul_1");
    class = operation_attr(d[1].op, "_class");
    ck_assert_str_eq(class->list_s[0].bytes, "loc:@gradients/m_grad/MatMul_1");
    check_like(d[0], x);
    check_like(d[1], w);
    graph_free(g);
}
END_TEST

START_TEST(given_gradients_are_the_start)
{
    struct graph *g = graph_new();
    struct output x = input(g, 2, 2, "x"), dy = input(g, 2, 2, "dy"), d;
    struct output y = unary(g, "Tanh", x, NULL);

    ck_assert_int_eq(graph_gradients(g, &y, 1, &x, 1, &dy, NULL, 0, &d, NULL), 0);
    check_node(g, "gradients/grad_ys_0", "Identity");
    ck_assert_ptr_null(graph_operation(g, "gradients/Fill"));
    ck_assert_ptr_eq(operation_input(d.op, 1).op,
                     graph_operation(g, "gradients/grad_ys_0"));
    graph_free(g);
}
END_TEST

START_TEST(variables_are_differentiated_through_their_read)
{
    struct graph *g = graph_new();
    struct variable *w = get_variable(g, "w", DT_FLOAT, &SHAPE(3, 2), NULL, 0);
    struct output x = input(g, -1, 3, "x"), y = matmul(g, x, w->read, 0, 0, NULL);

    check_like(gradient(g, y, w->ref), w->read);
    check_like(gradient(g, y, w->read), w->read);
    graph_free(g);
}
END_TEST

START_TEST(gradients_of_gradients)
{
    static const char *const types[] = {
        "Tanh",       "Sigmoid", "Relu",       "Elu",       "Softplus", "Exp",
        "Log",        "Sqrt",    "Rsqrt",      "Square",    "Abs",      "Neg",
        "Reciprocal", "Softmax", "LogSoftmax", "LeakyRelu", "L2Loss"};

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        struct graph *g = graph_new();
        struct output x = input(g, -1, 3, "x"), first, second;

        first = gradient(g, unary(g, types[i], x, NULL), x);
        check_like(first, x);
        second = gradient(g, first, x);
        if (strcmp(types[i], "Neg") != 0)
            check_like(second, x);
        ck_assert_msg(graph_error(g) == NULL, "%s: %s", types[i], graph_error(g)->msg);
        graph_free(g);
    }
}
END_TEST

/* Reductions, joins and pieces: the gradient has its input's shape, even if the batch
 * size is unknown. */
START_TEST(gradients_have_the_shape_of_their_input)
{
    static const char *const reductions[] = {"Sum", "Mean", "Max", "Min", "Prod"};
    struct graph *g = graph_new();
    struct output x = input(g, -1, 4, "x"), b = placeholder(g, DT_FLOAT, &SHAPE(4), "b");
    struct output joined =
        concat(g, (struct output[]){x, input(g, -1, 2, NULL)}, 2, 1, NULL);
    struct output ids = placeholder(g, DT_INT32, &SHAPE(-1), "ids");
    struct output one = constant_f32(g, 1.0f, NULL);
    static const char *const spread[] = {
        "Add",      "Sub",     "Mul", "RealDiv",
        "Maximum",  "Minimum", "Pow", "SquaredDifference",
        "DivNoNan", "FloorMod"};

    for (size_t i = 0; i < sizeof(reductions) / sizeof(reductions[0]); i++) {
        check_like(gradient(g, reduce(g, reductions[i], x, NULL, 0, 0, NULL), x), x);
        check_like(
            gradient(g, reduce(g, reductions[i], x, (int32_t[]){1}, 1, 0, NULL), x), x);
    }
    for (size_t i = 0; i < sizeof(spread) / sizeof(spread[0]); i++) {
        struct output y = binary(g, spread[i], x, b, NULL);

        check_like(gradient(g, y, x), x);
        check_like(gradient(g, y, b), b);
    }
    check_like(gradient(g, joined, x), x);
    check_like(gradient(g, slice_columns(g, joined, 1, 3, NULL), x), x);
    check_like(gradient(g, reshape(g, x, &SHAPE(-1, 2), NULL), x), x);
    check_like(gradient(g, binary(g, "Gather", x, ids, NULL), x), x);
    check_like(
        gradient(g,
                 ternary(g, "UnsortedSegmentSum", x, ids, constant_i32(g, 5, NULL), NULL),
                 x),
        x);
    check_like(
        gradient(g,
                 binary(g, "Tile", x, constant_i32s(g, (int32_t[]){2, 3}, 2, NULL), NULL),
                 x),
        x);
    check_like(gradient(g,
                        binary(g, "Transpose", x,
                               constant_i32s(g, (int32_t[]){1, 0}, 2, NULL), NULL),
                        x),
               x);
    check_like(gradient(g, ternary(g, "ClipByValue", x, one, one, NULL), x), x);
    check_like(gradient(g, clip_by_norm(g, x, one, NULL), x), x);
    check_like(gradient(g, where(g, binary(g, "Greater", x, one, NULL), x, x, NULL), x),
               x);
    ck_assert_ptr_null(graph_error(g));
    graph_free(g);
}
END_TEST

/* The gradient is the product of the other factors, zeros or not; bools and floats are
 * mixed in one fused loop. */
START_TEST(a_product_s_gradient_is_the_product_of_the_others)
{
    float x[] = {1.0f, 2.0f, 3.0f, 0.0f, 4.0f, 5.0f, 0.0f, 6.0f, 0.0f};
    const float want[] = {6.0f, 3.0f, 2.0f, 20.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    struct bed b;
    struct output in;
    struct tensor d;

    bed_init(&b);
    in = bed_input(&b, SHAPE(-1, 3), x, SHAPE(3, 3));
    d = bed_fetch(&b,
                  gradient(b.g, reduce(b.g, "Prod", in, (int32_t[]){1}, 1, 0, NULL), in));
    for (int i = 0; i < 9; i++)
        ck_assert_float_eq_tol(tensor_f32(&d)[i], want[i], 1e-5f);
    tensor_free(&d);
    bed_done(&b);
}
END_TEST

START_TEST(foreign_and_missing_tensors_are_refused)
{
    struct graph *g = graph_new(), *other = graph_new();
    struct output x = input(g, 2, 2, "x"), y = input(other, 2, 2, "y"), d;
    struct err err = {0};

    ck_assert_int_eq(graph_gradients(g, &y, 1, &x, 1, NULL, NULL, 0, &d, &err), ERR_ARG);
    ck_assert_str_eq(err.msg, "Tensor \"y:0\" is not an element of this graph.");
    y = OUTPUT_NONE;
    ck_assert_int_eq(graph_gradients(g, &y, 1, &x, 1, NULL, NULL, 0, &d, &err), ERR_ARG);
    ck_assert(!output_valid(d));
    graph_free(g);
    graph_free(other);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("gradients");
    TCase *tc = tcase_create("gradients");

    tcase_add_test(tc, nodes_are_named_as_tensorflow_names_them);
    tcase_add_test(tc, equal_known_shapes_need_no_sums);
    tcase_add_test(tc, several_uses_are_added);
    tcase_add_test(tc, only_ops_between_are_differentiated);
    tcase_add_test(tc, gradients_stop_where_they_are_told);
    tcase_add_test(tc, gradients_of_several_inputs_come_together);
    tcase_add_test(tc, given_gradients_are_the_start);
    tcase_add_test(tc, variables_are_differentiated_through_their_read);
    tcase_add_test(tc, gradients_of_gradients);
    tcase_add_test(tc, gradients_have_the_shape_of_their_input);
    tcase_add_test(tc, a_product_s_gradient_is_the_product_of_the_others);
    tcase_add_test(tc, foreign_and_missing_tensors_are_refused);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
