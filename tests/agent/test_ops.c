#include "agent/graph/import.h"
#include "common/mem/xmalloc.h"
#include "tests/agent/session_help.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_main.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static struct output op2(struct graph *g, const char *type, struct output x,
                         struct output y)
{
    return binary(g, type, x, y, NULL);
}

/* The sum of y times fixed weights: a loss with a different slope for every element. */
static struct output weighted_sum(struct bed *b, struct output y)
{
    struct tensor t = bed_fetch(b, y), w;
    struct output all;

    ck_assert_int_eq(tensor_alloc(&w, DT_FLOAT, t.shape, NULL), 0);
    for (int64_t i = 0; i < tensor_elements(&w); i++)
        tensor_f32(&w)[i] = 0.5f + 0.25f * (float)(i % 5);
    all = op2(b->g, "Mul", y, constant(b->g, &w, NULL));
    tensor_free(&t);
    tensor_free(&w);
    return reduce(b->g, "Sum", all, NULL, 0, 0, NULL);
}

/* Central differences in float32, which have about three digits. */
static void check_gradient(struct bed *b, struct output y, size_t feed)
{
    struct output loss = weighted_sum(b, y), x = b->feeds[feed].output, d;
    float *data = b->feeds[feed].value.data;
    struct tensor slope;

    ck_assert_msg(graph_gradients(b->g, &loss, 1, &x, 1, NULL, NULL, 0, &d, &b->err) == 0,
                  "%s", b->err.msg);
    slope = bed_fetch(b, d);
    for (int64_t i = 0; i < tensor_elements(&slope); i++) {
        float at = data[i], up, down, h = 0.01f;

        data[i] = at + h;
        up = bed_scalar(b, loss);
        data[i] = at - h;
        down = bed_scalar(b, loss);
        data[i] = at;
        ck_assert_float_eq_tol(tensor_f32(&slope)[i], (up - down) / (2 * h),
                               0.02f + 0.02f * fabsf(tensor_f32(&slope)[i]));
    }
    tensor_free(&slope);
}

static void check_values(struct bed *b, struct output y, const float *want, int64_t n)
{
    struct tensor t = bed_fetch(b, y);

    ck_assert_int_eq(tensor_elements(&t), n);
    for (int64_t i = 0; i < n; i++)
        ck_assert_float_eq_tol(tensor_f32(&t)[i], want[i], 1e-5f);
    tensor_free(&t);
}

/* ---- arithmetic ---- */

START_TEST(div_divides_and_has_a_gradient)
{
    struct bed b;
    float x[6] = {1, -2, 3, 4, 5, -6}, y[3] = {2, -4, 0.5f}, want[6];
    struct output z;

    bed_init(&b);
    z = op2(b.g, "Div", bed_input(&b, SHAPE(2, 3), x, SHAPE(2, 3)),
            bed_input(&b, SHAPE(3), y, SHAPE(3)));
    for (int i = 0; i < 6; i++)
        want[i] = x[i] / y[i % 3];
    check_values(&b, z, want, 6);
    check_gradient(&b, z, 0);
    check_gradient(&b, z, 1);
    bed_done(&b);
}
END_TEST

START_TEST(div_and_mod_of_integers_truncate)
{
    struct bed b;
    const int32_t x[4] = {7, -7, 7, -7}, y[4] = {2, 2, -2, -2};
    struct output a, c, q, m;
    struct tensor t;

    bed_init(&b);
    a = constant_i32s(b.g, x, 4, NULL);
    c = constant_i32s(b.g, y, 4, NULL);
    q = op2(b.g, "Div", a, c);
    m = op2(b.g, "Mod", a, c);
    t = bed_fetch(&b, q);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(((int32_t *)t.data)[i], x[i] / y[i]);
    tensor_free(&t);
    t = bed_fetch(&b, m);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(((int32_t *)t.data)[i], x[i] % y[i]);
    tensor_free(&t);
    bed_done(&b);
}
END_TEST

START_TEST(the_gradient_of_a_reciprocal_is_its_own_op)
{
    struct bed b;
    float x[3] = {1, -2, 0.5f}, want[3] = {1, -0.5f, 2};
    struct output y;

    bed_init(&b);
    y = unary(b.g, "Reciprocal", bed_input(&b, SHAPE(3), x, SHAPE(3)), NULL);
    check_values(&b, y, want, 3);
    check_gradient(&b, y, 0);
    ck_assert_ptr_nonnull(
        graph_operation(b.g, "gradients/Reciprocal_grad/ReciprocalGrad"));
    bed_done(&b);
}
END_TEST

START_TEST(the_gradient_of_reciprocal_grad)
{
    struct bed b;
    float y[3] = {1, -2, 0.5f}, dy[3] = {0.3f, 0.7f, -1}, want[3];
    struct output z;

    bed_init(&b);
    z = op2(b.g, "ReciprocalGrad", bed_input(&b, SHAPE(3), y, SHAPE(3)),
            bed_input(&b, SHAPE(3), dy, SHAPE(3)));
    for (int i = 0; i < 3; i++)
        want[i] = -dy[i] * y[i] * y[i];
    check_values(&b, z, want, 3);
    check_gradient(&b, z, 0);
    check_gradient(&b, z, 1);
    bed_done(&b);
}
END_TEST

START_TEST(select_v2_broadcasts)
{
    struct bed b;
    float x[6] = {1, 2, 3, 4, 5, 6}, y[2] = {-1, -2}, want[6];
    uint8_t c[3] = {1, 0, 1};
    struct tensor cond = tensor_view(DT_BOOL, SHAPE(1, 3), c);
    struct output z;

    bed_init(&b);
    z = ternary(b.g, "SelectV2", constant(b.g, &cond, NULL),
                bed_input(&b, SHAPE(2, 3), x, SHAPE(2, 3)),
                bed_input(&b, SHAPE(2, 1), y, SHAPE(2, 1)), NULL);
    for (int i = 0; i < 6; i++)
        want[i] = c[i % 3] ? x[i] : y[i / 3];
    check_values(&b, z, want, 6);
    check_gradient(&b, z, 0);
    check_gradient(&b, z, 1);
    bed_done(&b);
}
END_TEST

/* Loop test: bit 0 adj_x, bit 1 adj_y, bit 2: V2 with y's batch repeated. */
START_TEST(batches_of_products)
{
    int tx = _i & 1, ty = _i >> 1 & 1, v2 = _i >> 2;
    float x[2 * 2 * 3], y[2 * 3 * 2], want[2 * 2 * 2] = {0};
    struct shape sx = tx ? SHAPE(2, 3, 2) : SHAPE(2, 2, 3);
    struct shape sy = ty ? SHAPE(2, 2, 3) : SHAPE(2, 3, 2);
    struct op_builder *o;
    struct output z;
    struct bed b;

    bed_init(&b);
    for (int i = 0; i < 12; i++) {
        x[i] = (float)(i % 7) - 3;
        y[i] = (float)(i % 5) * 0.5f - 1;
    }
    if (v2)
        sy.dim[0] = 1;
    o = op_begin(b.g, v2 ? "BatchMatMulV2" : "BatchMatMul", NULL);
    op_input(o, bed_input(&b, sx, x, sx));
    op_input(o, bed_input(&b, sy, y, sy));
    op_attr_bool(o, "adj_x", tx);
    op_attr_bool(o, "adj_y", ty);
    z = (struct output){op_finish(o), 0};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 2; j++)
                for (int l = 0; l < 3; l++)
                    want[k * 4 + i * 2 + j] +=
                        x[k * 6 + (tx ? l * 2 + i : i * 3 + l)] *
                        y[(v2 ? 0 : k * 6) + (ty ? j * 3 + l : l * 2 + j)];
    check_values(&b, z, want, 8);
    check_gradient(&b, z, 0);
    check_gradient(&b, z, 1);
    bed_done(&b);
}
END_TEST

/* ---- pieces ---- */

static struct output old_concat(struct graph *g, struct output x, struct output y)
{
    struct op_builder *o = op_begin(g, "Concat", NULL);

    op_input(o, constant_i32(g, 1, NULL));
    op_input(o, x);
    op_input(o, y);
    return (struct output){op_finish(o), 0};
}

START_TEST(the_old_concat_takes_its_axis_first)
{
    struct bed b;
    float x[4] = {1, 2, 3, 4}, y[2] = {5, 6}, want[6] = {1, 2, 5, 3, 4, 6};
    const float both[8] = {1, 2, 5, 5, 3, 4, 6, 6};
    struct output z, last;

    bed_init(&b);
    z = old_concat(b.g, bed_input(&b, SHAPE(2, 2), x, SHAPE(2, 2)),
                   last = bed_input(&b, SHAPE(2, 1), y, SHAPE(2, 1)));
    check_values(&b, z, want, 6);
    check_gradient(&b, z, 0);
    check_gradient(&b, z, 1);
    /* one within another, and within a new one */
    check_values(&b, old_concat(b.g, z, last), both, 8);
    check_values(&b, concat(b.g, (struct output[]){z, last}, 2, 1, NULL), both, 8);
    bed_done(&b);
}
END_TEST

/* Values of an imported file that no rank can have. */
START_TEST(shapes_of_too_many_dimensions_are_refused)
{
    const int32_t nine[9] = {0, 1, 2, 3, 4, 5, 6, 7, 8}, two[2] = {1, 1};
    const struct shape eight = {8, {1, 1, 1, 1, 1, 1, 1, 1}};
    struct graph *g = graph_new();
    struct output x = placeholder(g, DT_FLOAT, &SHAPE(2, 2), "x");

    ck_assert_ptr_null(ternary(g, "Slice", x, constant_i32s(g, nine, 9, NULL),
                               constant_i32s(g, two, 2, NULL), NULL)
                           .op);
    graph_free(g);
    g = graph_new();
    ck_assert_ptr_null(
        op2(g, "Transpose", constant_f32(g, 1, NULL), constant_i32s(g, nine, 9, NULL))
            .op);
    graph_free(g);
    g = graph_new();
    x = placeholder(g, DT_FLOAT, &eight, "x");
    ck_assert_ptr_null(ternary(g, "UnsortedSegmentSum", x, constant_i32(g, 0, NULL),
                               constant_i32(g, 1, NULL), NULL)
                           .op);
    graph_free(g);
}
END_TEST

START_TEST(pad_puts_zeros_around)
{
    struct bed b;
    float x[4] = {1, 2, 3, 4}, want[12] = {0, 0, 0, 0, 1, 2, 0, 0, 3, 4, 0, 0};
    int32_t pads[4] = {1, 0, 0, 2};
    struct tensor p = tensor_view(DT_INT32, SHAPE(2, 2), pads);
    struct output z;

    bed_init(&b);
    z = op2(b.g, "Pad", bed_input(&b, SHAPE(2, 2), x, SHAPE(2, 2)),
            constant(b.g, &p, NULL));
    check_values(&b, z, want, 12);
    check_gradient(&b, z, 0);
    bed_done(&b);
}
END_TEST

START_TEST(the_gradient_of_a_slice_is_a_pad)
{
    struct bed b;
    float x[6] = {1, 2, 3, 4, 5, 6}, want[4] = {2, 3, 5, 6};
    struct output y;

    bed_init(&b);
    y = slice_columns(b.g, bed_input(&b, SHAPE(-1, 3), x, SHAPE(2, 3)), 1, 2, NULL);
    check_values(&b, y, want, 4);
    check_gradient(&b, y, 0);
    ck_assert_ptr_nonnull(graph_operation(b.g, "gradients/Slice_grad/Pad"));
    bed_done(&b);
}
END_TEST

/* ---- Assert, Switch and Merge ---- */

/* tf.Assert(x > 0, ["x is", x]): operations that wait for it fail; in a branch that is
 * not taken it does not run. */
START_TEST(assertions_are_checked)
{
    struct bed b;
    struct tensor_string words = {(char[]){"x is"}, 4};
    struct tensor says = tensor_view(DT_STRING, SHAPE_SCALAR, &words);
    struct output x, y, on, pred;
    struct operation *check;
    float value = 1;
    uint8_t taken = 1;

    bed_init(&b);
    x = bed_input(&b, SHAPE_SCALAR, &value, SHAPE_SCALAR);
    pred = placeholder(b.g, DT_BOOL, &SHAPE_SCALAR, NULL);
    b.feeds[b.n_feeds++] =
        (struct feed){pred, tensor_view(DT_BOOL, SHAPE_SCALAR, &taken)};
    on = op2(b.g, "Switch", x, pred);
    on.index = 1;
    struct op_builder *builder = op_begin(b.g, "Assert", NULL);
    op_input(builder, op2(b.g, "Greater", on, constant_f32(b.g, 0, NULL)));
    op_input(builder, constant(b.g, &says, NULL));
    op_input(builder, on);
    check = op_finish(builder);
    control_dependencies_enter(b.g, &check, 1);
    y = unary(b.g, "Neg", on, NULL);
    control_dependencies_leave(b.g);
    y = op2(b.g, "Merge", (struct output){on.op, 0}, y);
    ck_assert_float_eq(bed_scalar(&b, y), -1);
    value = -2;
    ck_assert_int_eq(bed_try(&b, y), ERR_ARG);
    ck_assert_str_eq(b.err.msg, "Assert: assertion failed: x is");
    taken = 0;
    ck_assert_float_eq(bed_scalar(&b, y), -2);
    bed_done(&b);
}
END_TEST

START_TEST(a_dead_branch_does_not_run)
{
    struct bed b;
    uint8_t taken = 1;
    struct output pred, on[2], merged, x;
    struct operation *gated, *both[2], *pivot;
    struct variable *v;
    float want[2] = {-3, 9};

    bed_init(&b);
    v = bed_variable(&b, 0, "v");
    x = constant_f32(b.g, 3, NULL);
    pred = placeholder(b.g, DT_BOOL, &SHAPE_SCALAR, NULL);
    on[0] = op2(b.g, "Switch", x, pred);
    on[1] = (struct output){on[0].op, 1};
    merged = op2(b.g, "Merge", unary(b.g, "Neg", on[0], NULL),
                 unary(b.g, "Square", on[1], NULL));
    pivot = unary(b.g, "Identity", on[1], NULL).op;
    control_dependencies_enter(b.g, &pivot, 1);
    gated = variable_assign_add(v, constant_f32(b.g, 1, NULL), NULL).op;
    control_dependencies_leave(b.g);
    bed_init_variables(&b);
    b.feeds[b.n_feeds++] =
        (struct feed){pred, tensor_view(DT_BOOL, SHAPE_SCALAR, &taken)};
    both[0] = merged.op;
    both[1] = gated;
    for (int k = 0; k < 4; k++) {
        struct run_args args = bed_args(&b);
        struct tensor t = TENSOR_NONE;

        taken = (uint8_t)(k % 2);
        args.fetches = &merged;
        args.n_fetches = 1;
        args.targets = both;
        args.n_targets = 2;
        ck_assert_msg(session_run(b.s, &args, &t, &b.err) == 0, "%s", b.err.msg);
        ck_assert_float_eq(tensor_f32(&t)[0], want[taken]);
        tensor_free(&t);
        ck_assert_int_eq(bed_try(&b, on[!taken]), ERR_ARG);
        ck_assert_ptr_nonnull(strstr(b.err.msg, "does not have value"));
    }
    b.n_feeds = 0;
    ck_assert_float_eq(bed_scalar(&b, v->read), 2);
    bed_done(&b);
}
END_TEST

START_TEST(merge_says_which_input_it_took)
{
    struct bed b;
    uint8_t taken = 0;
    struct output pred, s, m;
    struct tensor t;

    bed_init(&b);
    pred = placeholder(b.g, DT_BOOL, &SHAPE_SCALAR, NULL);
    s = op2(b.g, "Switch", constant_f32(b.g, 3, NULL), pred);
    m = op2(b.g, "Merge", s, (struct output){s.op, 1});
    b.feeds[b.n_feeds++] =
        (struct feed){pred, tensor_view(DT_BOOL, SHAPE_SCALAR, &taken)};
    for (int k = 0; k < 2; k++) {
        taken = (uint8_t)k;
        t = bed_fetch(&b, (struct output){m.op, 1});
        ck_assert_int_eq(*(int32_t *)t.data, k);
        tensor_free(&t);
    }
    bed_done(&b);
}
END_TEST

/* One plan: x (2, 3) cannot be reshaped to (4), which is an error whenever that branch is taken,
 * and nothing of the branch is done then. */
START_TEST(a_branch_that_cannot_run_fails_when_it_is_taken)
{
    struct bed b;
    float data[6] = {1, 2, 3, 4, 5, 6};
    const int32_t size = 4;
    struct tensor sizes = tensor_const_view(DT_INT32, SHAPE(1), &size);
    uint8_t taken = 0;
    struct output x, pred, on, impossible, y, writes;
    struct variable *v;

    bed_init(&b);
    v = bed_variable(&b, 0, "v");
    bed_init_variables(&b);
    x = bed_input(&b, SHAPE_UNKNOWN, data, SHAPE(2, 3));
    pred = placeholder(b.g, DT_BOOL, &SHAPE_SCALAR, NULL);
    b.feeds[b.n_feeds++] =
        (struct feed){pred, tensor_view(DT_BOOL, SHAPE_SCALAR, &taken)};
    on = op2(b.g, "Switch", x, pred);
    impossible =
        op2(b.g, "Reshape", (struct output){on.op, 1}, constant(b.g, &sizes, NULL));
    control_dependencies_enter(b.g, &impossible.op, 1);
    writes = variable_assign_add(v, constant_f32(b.g, 1, NULL), NULL);
    control_dependencies_leave(b.g);
    y = op2(b.g, "Merge", unary(b.g, "Neg", on, NULL),
            unary(b.g, "Neg", impossible, NULL));
    for (int k = 0; k < 6; k++) {
        struct run_args args = bed_args(&b);
        struct tensor t = TENSOR_NONE;
        int rc;

        taken = (uint8_t)(k % 2);
        args.fetches = &y;
        args.n_fetches = 1;
        args.targets = &writes.op;
        args.n_targets = 1;
        rc = session_run(b.s, &args, &t, &b.err);
        ck_assert_int_eq(rc, taken ? ERR_SHAPE : 0);
        if (taken)
            ck_assert_str_eq(b.err.msg, "Reshape: cannot reshape (2, 3) to (4)");
        else
            ck_assert_float_eq(tensor_f32(&t)[5], -6);
        tensor_free(&t);
        rc = bed_try(&b, impossible);
        ck_assert_int_eq(rc, taken ? ERR_SHAPE : ERR_ARG);
    }
    b.n_feeds = 0;
    ck_assert_float_eq(bed_scalar(&b, v->read), 0);
    bed_done(&b);
}
END_TEST

/* y = pred ? x * x : 3 x + w, and the gradients of y^2 by x and w, which are those of the
 * branch that was taken; also as optimisers request them. */
START_TEST(gradients_go_through_the_branch_taken)
{
    struct bed b;
    uint8_t taken = 0;
    struct output pred, x, w, on, off, once, y, loss, d[4];

    bed_init(&b);
    x = bed_variable(&b, 5, "x")->read;
    w = bed_variable(&b, 2, "w")->read;
    bed_init_variables(&b);
    pred = placeholder(b.g, DT_BOOL, &SHAPE_SCALAR, NULL);
    on = op2(b.g, "Switch", x, pred);
    on.index = 1;
    off = op2(b.g, "Switch", x, pred);
    once = op2(b.g, "Switch", w, pred);
    off = op2(b.g, "Add", op2(b.g, "Mul", off, constant_f32(b.g, 3, NULL)), once);
    y = op2(b.g, "Merge", off, op2(b.g, "Mul", on, on));
    loss = unary(b.g, "Square", y, NULL);
    ck_assert_int_eq(graph_gradients(b.g, &loss, 1, (struct output[]){x, w}, 2, NULL,
                                     NULL, 0, d, &b.err),
                     0);
    ck_assert_int_eq(
        graph_gradients_gated(b.g, loss, (struct output[]){x, w}, 2, d + 2, &b.err), 0);
    b.feeds[b.n_feeds++] =
        (struct feed){pred, tensor_view(DT_BOOL, SHAPE_SCALAR, &taken)};
    for (int k = 0; k < 8; k++) {
        taken = (uint8_t)(k / 4);
        /* y is 25 or 17 */
        float want[2] = {taken ? 2 * 25 * 10 : 2 * 17 * 3, taken ? 0 : 2 * 17};

        ck_assert_float_eq(bed_scalar(&b, d[k % 4]), want[k % 2]);
    }
    bed_done(&b);
}
END_TEST

/* ---- resource variables ---- */

/* A handle enters a branch, where the variable is read. */
START_TEST(gradients_reach_handles_in_branches)
{
    struct bed b;
    uint8_t taken = 0;
    struct variable *v;
    struct output pred, s, read, y, d;
    struct op_builder *o;

    bed_init(&b);
    v = variable_new(b.g, constant_f32(b.g, 5, NULL), "v", VARIABLE_RESOURCE);
    bed_init_variables(&b);
    pred = placeholder(b.g, DT_BOOL, &SHAPE_SCALAR, NULL);
    s = op2(b.g, "Switch", v->ref, pred);
    o = op_begin(b.g, "ReadVariableOp", NULL);
    op_input(o, (struct output){s.op, 1});
    op_attr_type(o, "dtype", DT_FLOAT);
    read = (struct output){op_finish(o), 0};
    y = op2(b.g, "Merge",
            (struct output){op2(b.g, "Switch", constant_f32(b.g, 1, NULL), pred).op, 0},
            unary(b.g, "Square", read, NULL));
    ck_assert_int_eq(graph_gradients(b.g, &y, 1, &v->ref, 1, NULL, NULL, 0, &d, &b.err),
                     0);
    b.feeds[b.n_feeds++] =
        (struct feed){pred, tensor_view(DT_BOOL, SHAPE_SCALAR, &taken)};
    for (int k = 0; k < 2; k++) {
        taken = (uint8_t)k;
        ck_assert_float_eq(bed_scalar(&b, d), k != 0 ? 10 : 0);
    }
    bed_done(&b);
}
END_TEST

START_TEST(resource_variables_hold_values)
{
    struct bed b;
    struct variable *v;
    struct output there, two;
    struct operation *add;
    struct tensor t;

    bed_init(&b);
    two = constant_f32(b.g, 2, NULL);
    v = variable_new(b.g, two, "v", VARIABLE_RESOURCE);
    ck_assert_ptr_nonnull(graph_operation(b.g, "v/Read/ReadVariableOp"));
    there = variable_is_initialized(v, NULL);
    add = variable_assign_add(v, two, NULL).op;
    t = bed_fetch(&b, there);
    ck_assert_int_eq(*(uint8_t *)t.data, 0);
    tensor_free(&t);
    ck_assert_int_eq(bed_try(&b, v->read), ERR_UNINITIALIZED);
    ck_assert_float_eq(bed_scalar(&b, variable_initialized_value(v)), 2);
    bed_init_variables(&b);
    bed_target(&b, add);
    ck_assert_float_eq(bed_scalar(&b, v->read), 4);
    ck_assert_float_eq(bed_scalar(&b, variable_initialized_value(v)), 4);
    bed_target(&b, variable_assign_sub(v, constant_f32(b.g, 1, NULL), NULL).op);
    ck_assert_float_eq(bed_scalar(&b, v->read), 3);
    bed_target(&b, variable_assign(v, constant_f32(b.g, 7, NULL), NULL).op);
    ck_assert_float_eq(bed_scalar(&b, v->read), 7);
    bed_done(&b);
}
END_TEST

/* ---- checkpoints from within the graph ---- */

static struct output strings(struct graph *g, const char *const *texts, int64_t n)
{
    struct tensor_string s[4];
    struct tensor t = tensor_view(DT_STRING, SHAPE(n), s);

    for (int64_t i = 0; i < n; i++)
        s[i] = (struct tensor_string){(char *)(uintptr_t)texts[i], strlen(texts[i])};
    return constant(g, &t, NULL);
}

static struct output string(struct graph *g, const char *text)
{
    struct tensor_string s = {(char *)(uintptr_t)text, strlen(text)};
    struct tensor t = tensor_view(DT_STRING, SHAPE_SCALAR, &s);

    return constant(g, &t, NULL);
}

/* Strings are picked, joined and cut out like numbers. */
START_TEST(strings_are_moved)
{
    static const char *const names[] = {"weights", "", "b", "m"};
    static const char *const want[] = {"b", "weights", "", "b", "m"};
    const int32_t picked[] = {2, 0};
    const struct tensor_string *s;
    struct output all, x;
    struct tensor t;
    struct bed b;

    bed_init(&b);
    all = strings(b.g, names, 4);
    x = ternary(b.g, "GatherV2", all, constant_i32s(b.g, picked, 2, NULL),
                constant_i32(b.g, 0, NULL), NULL);
    all = ternary(b.g, "Slice", all, constant_i32s(b.g, (int32_t[]){1}, 1, NULL),
                  constant_i32s(b.g, (int32_t[]){3}, 1, NULL), NULL);
    t = bed_fetch(&b, concat(b.g, (struct output[]){x, all}, 2, 0, NULL));
    ck_assert_int_eq(tensor_elements(&t), 5);
    s = t.data;
    for (int i = 0; i < 5; i++) {
        ck_assert_uint_eq(s[i].len_bytes, strlen(want[i]));
        ck_assert(s[i].len_bytes == 0 ||
                  memcmp(s[i].bytes, want[i], s[i].len_bytes) == 0);
    }
    tensor_free(&t);
    x = ternary(b.g, "GatherV2", all, constant_i32(b.g, 9, NULL),
                constant_i32(b.g, 0, NULL), NULL);
    ck_assert_int_eq(bed_try(&b, x), ERR_ARG);
    bed_done(&b);
}
END_TEST

START_TEST(save_and_restore_nodes_run)
{
    static const char *const names[] = {"a", "b"}, *const slices[] = {"", ""};
    struct temp_dir dir;
    struct variable *a, *b2;
    struct output prefix, restored[2], part, merged_names, whole;
    struct operation *save, *merge, *sets[2];
    struct op_builder *o;
    struct bed b;
    char *path, *to;

    temp_dir_init(&dir);
    path = xasprintf("%s/tmp_x/part", dir.path);
    to = xasprintf("%s/model", dir.path);
    bed_init(&b);
    a = bed_variable(&b, 6, "a");
    b2 = bed_variable(&b, 7, "b");
    o = op_begin(b.g, "StringJoin", NULL);
    op_input(o, string(b.g, dir.path));
    op_input(o, string(b.g, "/tmp_x/part"));
    part = (struct output){op_finish(o), 0};
    prefix = ternary(b.g, "ShardedFilename", part, constant_i32(b.g, 0, NULL),
                     constant_i32(b.g, 1, NULL), NULL);
    o = op_begin(b.g, "SaveV2", NULL);
    op_input(o, prefix);
    op_input(o, strings(b.g, names, 2));
    op_input(o, strings(b.g, slices, 2));
    op_input(o, a->ref);
    op_input(o, b2->ref);
    save = op_finish(o);
    o = op_begin(b.g, "Pack", NULL);
    op_input(o, prefix);
    merged_names = (struct output){op_finish(o), 0};
    o = op_begin(b.g, "MergeV2Checkpoints", NULL);
    op_input(o, merged_names);
    whole = placeholder(b.g, DT_STRING, &SHAPE_SCALAR, NULL);
    op_input(o, whole);
    op_control_input(o, save);
    merge = op_finish(o);
    o = op_begin(b.g, "RestoreV2", NULL);
    op_input(o, whole);
    op_input(o, strings(b.g, names, 2));
    op_input(o, strings(b.g, slices, 2));
    op_attr(o, &(struct attr){.name = "dtypes",
                              .kind = ATTR_LIST_TYPE,
                              .list_i = (const int64_t[]){DT_FLOAT, DT_FLOAT},
                              .n = 2});
    restored[0] = (struct output){op_finish(o), 0};
    restored[1] = (struct output){restored[0].op, 1};
    sets[0] = variable_assign(a, restored[0], NULL).op;
    sets[1] = variable_assign(b2, restored[1], NULL).op;
    bed_init_variables(&b);
    struct tensor_string s = {to, strlen(to)};
    b.feeds[b.n_feeds++] = (struct feed){whole, tensor_view(DT_STRING, SHAPE_SCALAR, &s)};
    bed_target(&b, merge);
    bed_target(&b, variable_assign(a, constant_f32(b.g, 0, NULL), NULL).op);
    bed_target(&b, group(b.g, sets, 2, NULL));
    ck_assert_float_eq(bed_scalar(&b, a->read), 6);
    ck_assert_float_eq(bed_scalar(&b, b2->read), 7);
    s.len_bytes--; /* another prefix, which does not exist */
    ck_assert_int_eq(bed_try(&b, restored[0]), ERR_NOT_FOUND);
    bed_done(&b);
    free(path);
    free(to);
    temp_dir_done(&dir);
}
END_TEST

static struct output merged(struct graph *g, struct output a, struct output b2)
{
    struct op_builder *o = op_begin(g, "MergeSummary", NULL);

    op_input(o, a);
    op_input(o, b2);
    return (struct output){op_finish(o), 0};
}

static void check_summary(struct bed *b, struct output x, const char *want, size_t n)
{
    struct tensor t = bed_fetch(b, x);
    const struct tensor_string *s = t.data;

    ck_assert_uint_eq(s->len_bytes, n);
    ck_assert_mem_eq(s->bytes, want, n);
    tensor_free(&t);
}

/* As TensorFlow writes it since 2.9; the shape is always checked. */
/* Kernels read one string from each of them. */
START_TEST(names_and_summaries_are_scalars)
{
    static const char *const none[1] = {""};
    static const char *const types[] = {"MergeSummary", "ShardedFilename", "SaveV2",
                                        "RestoreV2"};

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        struct graph *g = graph_new();
        struct op_builder *b = op_begin(g, types[i], NULL);
        struct output empty = strings(g, none, 0);

        ck_assert_ptr_nonnull(empty.op);
        op_input(b, empty);
        if (i == 1) {
            op_input(b, constant_i32(g, 0, NULL));
            op_input(b, constant_i32(g, 1, NULL));
        } else if (i >= 2) {
            op_input(b, empty);
            op_input(b, empty);
        }
        if (i == 2)
            op_input(b, constant_f32(g, 1, NULL));
        if (i == 3)
            op_attr(b, &(struct attr){.name = "dtypes",
                                      .kind = ATTR_LIST_TYPE,
                                      .list_i = (const int64_t[]){DT_FLOAT},
                                      .n = 1});
        ck_assert_msg(op_finish(b) == NULL, "%s", types[i]);
        ck_assert_int_eq(graph_error(g)->code, ERR_SHAPE);
        graph_free(g);
    }
}
END_TEST

START_TEST(resources_are_assigned_with_validate_shape)
{
    for (int validate = 0; validate < 2; validate++) {
        struct operation *handle, *set;
        struct op_builder *o;
        struct variable v = {0};
        struct output read;
        struct tensor t;
        struct bed b;

        bed_init(&b);
        o = op_begin(b.g, "VarHandleOp", "v");
        op_attr_type(o, "dtype", DT_INT32);
        op_attr_shape(o, "shape", &SHAPE(2));
        handle = op_finish(o);
        v.ref = (struct output){handle, 0};
        o = op_begin(b.g, "AssignVariableOp", "set");
        op_input(o, v.ref);
        op_input(o, constant_i32s(b.g, (int32_t[]){1, 2}, 2, NULL));
        op_attr_bool(o, "validate_shape", validate);
        set = op_finish(o);
        ck_assert_msg(set != NULL, "%s", graph_error(b.g)->msg);
        o = op_begin(b.g, "ReadVariableOp", NULL);
        op_input(o, v.ref);
        op_attr_type(o, "dtype", DT_INT32);
        read = (struct output){op_finish(o), 0};
        v.initializer = set;
        v.read = read;
        v.dtype = DT_INT32;
        v.shape = SHAPE(2);
        (void)variable_import(b.g, &v);
        bed_target(&b, set);
        t = bed_fetch(&b, read);
        ck_assert_int_eq(((const int32_t *)t.data)[1], 2);
        tensor_free(&t);
        o = op_begin(b.g, "AssignVariableOp", "bad");
        op_input(o, v.ref);
        op_input(o, constant_i32(b.g, 1, NULL));
        op_attr_bool(o, "validate_shape", validate);
        ck_assert_ptr_null(op_finish(o));
        graph_clear_error(b.g);
        bed_done(&b);
    }
}
END_TEST

/* Serialised messages Summary {1: value {1: tag, 2: float}}, also of values that the run
 * computes, or reads after writing them. */
START_TEST(summaries_are_messages)
{
    static const char one[] = "\x0a\x0a\x0a\x03one\x15\0\0\xc0\x3f";
    static const char both[] = "\x0a\x0a\x0a\x03one\x15\0\0\xc0\x3f"
                               "\x0a\x08\x0a\x01v\x15\0\0\x20\x40";
    struct output x, tag_x, tag_v, summary_x, summary_v, all;
    struct variable *v;
    struct bed b;
    float fed = 1.5f;

    bed_init(&b);
    x = bed_input(&b, SHAPE_SCALAR, &fed, SHAPE_SCALAR);
    v = bed_variable(&b, 2, "v");
    tag_x = string(b.g, "one");
    tag_v = string(b.g, "v");
    summary_x = binary(b.g, "ScalarSummary", tag_x, x, NULL);
    summary_v = binary(b.g, "ScalarSummary", tag_v, v->read, NULL);
    all = merged(b.g, summary_x, summary_v);
    bed_init_variables(&b);
    bed_target(&b, variable_assign(v, constant_f32(b.g, 2.5f, NULL), NULL).op);
    check_summary(&b, summary_x, one, sizeof(one) - 1);
    check_summary(&b, all, both, sizeof(both) - 1);
    bed_target(&b, all.op);
    fed = 3; /* 0x40400000 */
    check_summary(&b, summary_x, "\x0a\x0a\x0a\x03one\x15\0\0\x40\x40", 12);
    all = merged(b.g, summary_x, summary_x);
    ck_assert_int_eq(bed_try(&b, all), ERR_ARG);
    ck_assert_ptr_nonnull(strstr(b.err.msg, "Duplicate tag one found"));
    bed_done(&b);
}
END_TEST

/* The message that TensorFlow writes of these values. */
static const unsigned char histogram[] = {
    0x0a, 0xd7, 0x01, 0x0a, 0x01, 0x68, 0x2a, 0xd1, 0x01, 0x09, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x08, 0xc0, 0x11, 0x00, 0x00, 0x00, 0x40, 0x59, 0x3e, 0x29, 0x46, 0x19,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x1c, 0x40, 0x21, 0x00, 0x00, 0x00, 0x40, 0x59,
    0x3e, 0x29, 0x46, 0x29, 0x80, 0xec, 0xd0, 0xee, 0xe4, 0xe9, 0x63, 0x4c, 0x32, 0x50,
    0x0d, 0x9c, 0xc5, 0xa0, 0x29, 0x55, 0x09, 0xc0, 0x68, 0xbc, 0x10, 0x35, 0x9a, 0x07,
    0x07, 0xc0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x11, 0xea, 0x2d, 0x81,
    0x99, 0x97, 0x71, 0x3d, 0x08, 0x99, 0x69, 0x19, 0x15, 0x5a, 0xed, 0x3f, 0x2b, 0x14,
    0xfa, 0xcd, 0xbe, 0x24, 0xf0, 0x3f, 0xdc, 0x94, 0xcd, 0x2e, 0x8d, 0x75, 0xff, 0x3f,
    0xe0, 0x11, 0xf1, 0x0c, 0x74, 0x4d, 0x01, 0x40, 0x4c, 0x54, 0x9f, 0x02, 0x23, 0x83,
    0x15, 0x44, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xef, 0x7f, 0x3a, 0x50, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xf0, 0x3f,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x40, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0xf0, 0x3f, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x40, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xf0, 0x3f,
};

/* Histograms have as many bytes as they need; a merge of them, too. */
START_TEST(histograms_are_messages)
{
    static const char empty[] =
        "\x0a\x2b\x0a\x01h*&\x09\xff\xff\xff\xff\xff\xff\xef\x7f"
        "\x11\xff\xff\xff\xff\xff\xff\xef\xff"
        "2\x08\xff\xff\xff\xff\xff\xff\xef\x7f:\x08\0\0\0\0\0\0\0";
    float values[] = {1, 2, 2, -3, 0, 1e-13f, 1e30f};
    struct output x, h, s, all;
    struct tensor merged_bytes;
    struct bed b;

    bed_init(&b);
    x = bed_input(&b, SHAPE(-1), values, SHAPE(7));
    h = binary(b.g, "HistogramSummary", string(b.g, "h"), x, NULL);
    s = reduce(b.g, "Sum", x, NULL, 0, 0, NULL);
    s = binary(b.g, "ScalarSummary", string(b.g, "s"), s, NULL);
    all = merged(b.g, s, h);
    for (int time = 0; time < 2; time++) {
        check_summary(&b, h, (const char *)histogram, sizeof(histogram));
        merged_bytes = bed_fetch(&b, all);
        ck_assert_uint_eq(((struct tensor_string *)merged_bytes.data)->len_bytes,
                          10 + sizeof(histogram));
        tensor_free(&merged_bytes);
    }
    values[0] = 2;
    merged_bytes = bed_fetch(&b, all); /* one bucket less */
    ck_assert_uint_lt(((struct tensor_string *)merged_bytes.data)->len_bytes,
                      10 + sizeof(histogram));
    tensor_free(&merged_bytes);
    values[1] = NAN;
    ck_assert_int_eq(bed_try(&b, h), ERR_NONFINITE);
    b.feeds[0].value.shape = SHAPE(0);
    check_summary(&b, h, empty, sizeof(empty));
    bed_done(&b);
}
END_TEST

START_TEST(tensors_are_summaries)
{
    static const char want[] =
        "\x0a\x23\x0a\x02ttB\x16\x08\x01\x12\x08\x12\x02\x08\x01\x12\x02"
        "\x08\x02\"\x08\0\0\x80?\0\0\0@J\x05\x0a\x03\x0a\x01x";
    float values[] = {1, 2};
    struct output x, y;
    struct bed b;

    bed_init(&b);
    x = bed_input(&b, SHAPE(-1, 2), values, SHAPE(1, 2));
    y = ternary(b.g, "TensorSummaryV2", string(b.g, "tt"), x,
                string(b.g, "\x0a\x03\x0a\x01x"), NULL);
    check_summary(&b, y, want, sizeof(want) - 1);
    y = unary(b.g, "TensorSummary", x, "node");
    check_summary(
        &b, y,
        "\x0a\x1e:\x04node"
        "B\x16\x08\x01\x12\x08\x12\x02\x08\x01\x12\x02\x08\x02\"\x08\0\0\x80?\0\0\0@",
        32);
    bed_done(&b);
}
END_TEST

static void check_text(struct bed *b, struct output x, const char *want)
{
    check_summary(b, x, want, strlen(want));
}

static struct output formatted(struct graph *g, struct output x, const char *template,
                               int64_t summarize)
{
    struct op_builder *o = op_begin(g, "StringFormat", NULL);

    op_input(o, x);
    op_attr_string(o, "template", template);
    op_attr_int(o, "summarize", summarize);
    return (struct output){op_finish(o), 0};
}

/* As TensorFlow formats them, of values that the run computes. */
START_TEST(values_are_formatted_and_printed)
{
    float values[8] = {1.0f / 3, 123456792, 1e-7f, -0.0f, 0.1f, NAN, 1, 2};
    struct output x, y;
    struct op_builder *o;
    struct bed b;

    bed_init(&b);
    x = bed_input(&b, SHAPE(-1), values, SHAPE(8));
    y = formatted(b.g, x, "x: %s.", 2);
    check_text(&b, y, "x: [0.333333343 123456792 ... 1 2].");
    y = formatted(b.g, x, "%s", -1);
    check_text(&b, y, "[0.333333343 123456792 1e-07 -0 0.1 nan 1 2]");
    o = op_begin(b.g, "PrintV2", NULL);
    op_input(o, y);
    bed_target(&b, op_finish(o));
    y = reshape(b.g, x, &SHAPE(2, 2, 2), NULL);
    y = cast(b.g, binary(b.g, "Greater", y, constant_f32(b.g, 1.5f, NULL), NULL),
             DT_INT32, NULL);
    check_text(&b, formatted(b.g, y, "%s", 3), "[[[0 1]\n  [0 0]]\n\n [[0 0]\n  [0 1]]]");
    y = formatted(b.g, reshape(b.g, x, &SHAPE(8, 1), NULL), "%s", 1);
    check_text(&b, y, "[[0.333333343]\n ...\n [2]]");
    check_text(&b, formatted(b.g, string(b.g, "a\n\"b"), "%s", 3), "\"a\\n\\\"b\"");
    b.feeds[0].value.shape = SHAPE(1);
    y = unary(b.g, "AsString", x, NULL);
    check_text(&b, y, "0.333333");
    bed_done(&b);
}
END_TEST

/* The loss of a class with a probability near 0 is large, not infinite. */
START_TEST(sparse_cross_entropy_of_the_unlikely)
{
    for (int k = 0; k < 2; k++) {
        struct bed b;
        int32_t labels[2] = {1, 0};
        float logits[4] = {0, -200, 3, 3};
        bed_init(&b);
        struct output x = bed_input(&b, SHAPE(-1, 2), logits, SHAPE(2, 2));
        struct output at = placeholder(b.g, DT_INT32, &SHAPE(-1), NULL);
        b.feeds[b.n_feeds++] = (struct feed){at, tensor_view(DT_INT32, SHAPE(2), labels)};
        if (k == 1)
            x = cast(b.g, x, DT_DOUBLE, NULL);
        struct output loss = op2(b.g, "SparseSoftmaxCrossEntropyWithLogits", x, at);
        struct output back = {loss.op, 1};
        check_values(&b, cast(b.g, loss, DT_FLOAT, NULL), (float[]){200, 0.6931472f}, 2);
        check_values(&b, cast(b.g, back, DT_FLOAT, NULL), (float[]){1, -1, -0.5f, 0.5f},
                     4);
        labels[0] = 2;
        ck_assert_int_eq(bed_try(&b, loss), ERR_ARG);
        bed_done(&b);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("ops");
    TCase *tc = tcase_create("ops");

    tcase_add_test(tc, div_divides_and_has_a_gradient);
    tcase_add_test(tc, div_and_mod_of_integers_truncate);
    tcase_add_test(tc, the_gradient_of_a_reciprocal_is_its_own_op);
    tcase_add_test(tc, the_gradient_of_reciprocal_grad);
    tcase_add_test(tc, select_v2_broadcasts);
    tcase_add_loop_test(tc, batches_of_products, 0, 8);
    tcase_add_test(tc, shapes_of_too_many_dimensions_are_refused);
    tcase_add_test(tc, the_old_concat_takes_its_axis_first);
    tcase_add_test(tc, pad_puts_zeros_around);
    tcase_add_test(tc, the_gradient_of_a_slice_is_a_pad);
    tcase_add_test(tc, assertions_are_checked);
    tcase_add_test(tc, a_dead_branch_does_not_run);
    tcase_add_test(tc, a_branch_that_cannot_run_fails_when_it_is_taken);
    tcase_add_test(tc, merge_says_which_input_it_took);
    tcase_add_test(tc, gradients_go_through_the_branch_taken);
    tcase_add_test(tc, gradients_reach_handles_in_branches);
    tcase_add_test(tc, resource_variables_hold_values);
    tcase_add_test(tc, strings_are_moved);
    tcase_add_test(tc, save_and_restore_nodes_run);
    tcase_add_test(tc, names_and_summaries_are_scalars);
    tcase_add_test(tc, resources_are_assigned_with_validate_shape);
    tcase_add_test(tc, summaries_are_messages);
    tcase_add_test(tc, histograms_are_messages);
    tcase_add_test(tc, tensors_are_summaries);
    tcase_add_test(tc, values_are_formatted_and_printed);
    tcase_add_test(tc, sparse_cross_entropy_of_the_unlikely);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
