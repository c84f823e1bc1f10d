/* ops_math.c - element-wise arithmetic, comparisons, matrix product, reductions.
 *
 * Gradients after TensorFlow 1.13's python/ops/math_grad.py.
 */
#include "agent/graph/graph_internal.h"
#include "agent/graph/op_rules.h"

#include <string.h>

/* ---- matrix product ---- */

static int matmul_shape(const struct shape_args *args)
{
    int ta = (int)attr_int(args->op, "transpose_a");
    int tb = (int)attr_int(args->op, "transpose_b");
    const struct shape *a = &args->in[0], *b = &args->in[1];
    int64_t inner_a = dim_of(a, !ta), inner_b = dim_of(b, tb);

    if (want_rank(args, 0, 2) != 0 || want_rank(args, 1, 2) != 0)
        return ERR_SHAPE;
    if (inner_a >= 0 && inner_b >= 0 && inner_a != inner_b)
        return err_set(args->err, ERR_SHAPE,
                       "Dimensions must be equal, but are %lld and %lld: %s%s times %s%s",
                       (long long)inner_a, (long long)inner_b, shape_text(a),
                       ta ? " transposed" : "", shape_text(b), tb ? " transposed" : "");
    args->out[0] = SHAPE(dim_of(a, ta), dim_of(b, !tb));
    return 0;
}

GRAD(matmul_grad)
{
    int ta = (int)attr_int(op, "transpose_a"), tb = (int)attr_int(op, "transpose_b");
    struct output a = input_of(op, 0), b = input_of(op, 1), d = grad_out[0];

    grad_in[0] = ta ? matmul(g, b, d, tb, 1, NULL) : matmul(g, d, b, 0, !tb, NULL);
    grad_in[1] = tb ? matmul(g, d, a, 1, ta, NULL) : matmul(g, a, d, !ta, 0, NULL);
    return grad_done(grad_in, 2);
}

/* ---- batches of products ---- */

/* x (..., M, K) y (..., K, N) -> (..., M, N); adj_x, adj_y: that operand's last two
 * dimensions swapped. BatchMatMul wants equal batches, BatchMatMulV2 broadcasts them. */
static int batch_matmul_shape(const struct shape_args *args)
{
    const struct shape *x = &args->in[0], *y = &args->in[1];
    int tx = (int)attr_int(args->op, "adj_x"), ty = (int)attr_int(args->op, "adj_y"), rc;
    struct shape bx = *x, by = *y, out;
    int64_t inner_x, inner_y;

    if (x->rank < 0 || y->rank < 0)
        return 0;
    if (x->rank < 2 || y->rank < 2)
        return err_set(args->err, ERR_SHAPE, "%s times %s: matrices are needed",
                       shape_text(x), shape_text(y));
    inner_x = x->dim[x->rank - (tx ? 2 : 1)];
    inner_y = y->dim[y->rank - (ty ? 1 : 2)];
    bx.rank -= 2;
    by.rank -= 2;
    if (strcmp(operation_type(args->op), "BatchMatMul") == 0)
        rc = shape_merge(&bx, &by, &out);
    else
        rc = shape_broadcast(&bx, &by, &out);
    if (rc != 0 || (inner_x >= 0 && inner_y >= 0 && inner_x != inner_y))
        return err_set(args->err, ERR_SHAPE, "%s%s does not multiply %s%s", shape_text(x),
                       tx ? " transposed" : "", shape_text(y), ty ? " transposed" : "");
    out.dim[out.rank++] = x->dim[x->rank - (tx ? 1 : 2)];
    out.dim[out.rank++] = y->dim[y->rank - (ty ? 2 : 1)];
    args->out[0] = out;
    return 0;
}

static struct output batch_matmul(struct graph *g, const struct operation *like,
                                  struct output x, struct output y, int tx, int ty)
{
    struct op_builder *b = op_begin(g, operation_type(like), NULL);

    op_input(b, x);
    op_input(b, y);
    op_attr_bool(b, "adj_x", tx);
    op_attr_bool(b, "adj_y", ty);
    return (struct output){op_finish(b), 0};
}

GRAD(batch_matmul_grad)
{
    int tx = (int)attr_int(op, "adj_x"), ty = (int)attr_int(op, "adj_y");
    struct output x = input_of(op, 0), y = input_of(op, 1), d = grad_out[0];

    grad_in[0] =
        tx ? batch_matmul(g, op, y, d, ty, 1) : batch_matmul(g, op, d, y, 0, !ty);
    grad_in[1] =
        ty ? batch_matmul(g, op, d, x, 1, tx) : batch_matmul(g, op, x, d, !tx, 0);
    return grad_done(grad_in, 2);
}

/* All dimensions but the last two. */
static struct output batch_shape(struct graph *g, struct output x)
{
    struct output shape = shape_of(g, x, NULL), from, to, by;
    struct op_builder *b;

    name_scope_enter(g, "strided_slice");
    from = constant_i32s(g, (const int32_t[]){0}, 1, "stack");
    to = constant_i32s(g, (const int32_t[]){-2}, 1, "stack_1");
    by = constant_i32s(g, (const int32_t[]){1}, 1, "stack_2");
    b = op_begin(g, "StridedSlice", graph_name_scope(g));
    op_input(b, shape);
    op_input(b, from);
    op_input(b, to);
    op_input(b, by);
    op_attr_int(b, "begin_mask", 1);
    name_scope_leave(g);
    return (struct output){op_finish(b), 0};
}

GRAD(batch_matmul_v2_grad)
{
    struct output x = input_of(op, 0), y = input_of(op, 1), axes;

    if (batch_matmul_grad(g, op, grad_out, grad_in) != 0)
        return -1;
    axes = binary(g, "BroadcastGradientArgs", batch_shape(g, x), batch_shape(g, y), NULL);
    if (!output_valid(axes))
        return -1;
    grad_in[0] = unbroadcast(g, grad_in[0], axes, shape_of(g, x, NULL));
    grad_in[1] =
        unbroadcast(g, grad_in[1], (struct output){axes.op, 1}, shape_of(g, y, NULL));
    return grad_done(grad_in, 2);
}

/* ---- two inputs, broadcasting ---- */

/* The usual end: what each input would get, were both of the output's shape. */
static int spread_back(struct graph *g, const struct broadcast_args *r, struct output dx,
                       struct output dy, struct output *grad_in)
{
    grad_in[0] = unbroadcast(g, dx, r->axes_x, r->shape_x);
    grad_in[1] = unbroadcast(g, dy, r->axes_y, r->shape_y);
    return grad_done(grad_in, 2);
}

GRAD(add_grad)
{
    struct output x = input_of(op, 0), y = input_of(op, 1);
    struct broadcast_args r;

    if (same_known_shape(x, y)) {
        grad_in[0] = grad_in[1] = grad_out[0];
        return 0;
    }
    r = broadcast_args(g, x, y);
    return spread_back(g, &r, grad_out[0], grad_out[0], grad_in);
}

GRAD(sub_grad)
{
    struct output x = input_of(op, 0), y = input_of(op, 1), sum;
    struct broadcast_args r;

    if (same_known_shape(x, y)) {
        grad_in[0] = grad_out[0];
        grad_in[1] = unary(g, "Neg", grad_out[0], NULL);
        return grad_done(grad_in, 2);
    }
    r = broadcast_args(g, x, y);
    grad_in[0] = unbroadcast(g, grad_out[0], r.axes_x, r.shape_x);
    sum = binary(g, "Sum", grad_out[0], r.axes_y, NULL);
    grad_in[1] = binary(g, "Reshape", unary(g, "Neg", sum, NULL), r.shape_y, NULL);
    return grad_done(grad_in, 2);
}

GRAD(mul_grad)
{
    struct output x = input_of(op, 0), y = input_of(op, 1);
    struct broadcast_args r;

    if (same_known_shape(x, y)) {
        grad_in[0] = binary(g, "Mul", grad_out[0], y, NULL);
        grad_in[1] = binary(g, "Mul", grad_out[0], x, NULL);
        return grad_done(grad_in, 2);
    }
    r = broadcast_args(g, x, y);
    grad_in[0] =
        unbroadcast(g, binary(g, "Mul", grad_out[0], y, NULL), r.axes_x, r.shape_x);
    grad_in[1] =
        unbroadcast(g, binary(g, "Mul", x, grad_out[0], NULL), r.axes_y, r.shape_y);
    return grad_done(grad_in, 2);
}

/* d(x/y): 1/y and -x/y/y, with the division of the op itself. */
static int quotient_grad(struct graph *g, struct operation *op, const char *divide,
                         struct output d, struct output *grad_in)
{
    struct output x = input_of(op, 0), y = input_of(op, 1), dy;
    struct broadcast_args r = broadcast_args(g, x, y);

    grad_in[0] = unbroadcast(g, binary(g, divide, d, y, NULL), r.axes_x, r.shape_x);
    dy = binary(g, divide, binary(g, divide, unary(g, "Neg", x, NULL), y, NULL), y, NULL);
    grad_in[1] = unbroadcast(g, binary(g, "Mul", d, dy, "mul"), r.axes_y, r.shape_y);
    return grad_done(grad_in, 2);
}

GRAD(real_div_grad)
{
    return quotient_grad(g, op, "RealDiv", grad_out[0], grad_in);
}

GRAD(div_grad)
{
    return quotient_grad(g, op, "Div", grad_out[0], grad_in);
}

GRAD(div_no_nan_grad)
{
    return quotient_grad(g, op, "DivNoNan", grad_out[0], grad_in);
}

/* The input that was chosen gets all; at equality the first one. */
static int choice_grad(struct graph *g, struct operation *op, const char *compare,
                       struct output d, struct output *grad_in)
{
    struct output x = input_of(op, 0), y = input_of(op, 1);
    struct broadcast_args r = broadcast_args(g, x, y);
    struct output zero = zeros_as(g, d), mask = binary(g, compare, x, y, NULL);

    return spread_back(g, &r, where(g, mask, d, zero, NULL),
                       where(g, mask, zero, d, NULL), grad_in);
}

GRAD(maximum_grad)
{
    return choice_grad(g, op, "GreaterEqual", grad_out[0], grad_in);
}

GRAD(minimum_grad)
{
    return choice_grad(g, op, "LessEqual", grad_out[0], grad_in);
}

GRAD(squared_difference_grad)
{
    struct output x = input_of(op, 0), y = input_of(op, 1);
    struct broadcast_args r = broadcast_args(g, x, y);
    struct output twice = scalar_with(g, "Mul", 2.0, grad_out[0], "mul");
    struct output dx = binary(g, "Mul", twice, binary(g, "Sub", x, y, "sub"), "mul");
    struct output dy;

    grad_in[0] = unbroadcast(g, dx, r.axes_x, r.shape_x);
    dy = unbroadcast(g, dx, r.axes_y, r.shape_y);
    grad_in[1] = unary(g, "Neg", dy, NULL);
    return grad_done(grad_in, 2);
}

/* dx = y x^(y-1); dy = z log x, with 0 for log x where x <= 0. */
GRAD(pow_grad)
{
    struct output x = input_of(op, 0), y = input_of(op, 1), d = grad_out[0];
    struct broadcast_args r = broadcast_args(g, x, y);
    struct output less_one, dx, positive, log_x, dy;

    dx = binary(g, "Mul", d, y, "mul");
    less_one = with_scalar(g, "Sub", y, 1.0, "sub");
    dx = binary(g, "Mul", dx, binary(g, "Pow", x, less_one, NULL), "mul");
    positive = with_scalar(g, "Greater", x, 0.0, "Greater");
    log_x = where(g, positive, unary(g, "Log", x, NULL), zeros_like(g, x, NULL), NULL);
    dy = binary(g, "Mul", d, output_of(op, 0), "mul");
    dy = binary(g, "Mul", dy, log_x, "mul");
    return spread_back(g, &r, dx, dy, grad_in);
}

GRAD(floor_mod_grad)
{
    struct output x = input_of(op, 0), y = input_of(op, 1);
    struct broadcast_args r = broadcast_args(g, x, y);
    struct output quotient = unary(g, "Neg", binary(g, "FloorDiv", x, y, NULL), NULL);

    return spread_back(g, &r, grad_out[0], binary(g, "Mul", grad_out[0], quotient, "mul"),
                       grad_in);
}

/* ---- one input ---- */

GRAD(neg_grad)
{
    grad_in[0] = unary(g, "Neg", grad_out[0], NULL);
    return grad_done(grad_in, 1);
}

GRAD(square_grad)
{
    struct output x = input_of(op, 0), two;

    control_dependencies_enter(g, &grad_out[0].op, 1);
    two = constant_like(g, output_dtype(x), 2.0, NULL);
    grad_in[0] = binary(g, "Mul", grad_out[0], binary(g, "Mul", x, two, NULL), NULL);
    control_dependencies_leave(g);
    return grad_done(grad_in, 1);
}

GRAD(sqrt_grad)
{
    grad_in[0] = binary(g, "SqrtGrad", output_of(op, 0), grad_out[0], NULL);
    return grad_done(grad_in, 1);
}

GRAD(rsqrt_grad)
{
    grad_in[0] = binary(g, "RsqrtGrad", output_of(op, 0), grad_out[0], NULL);
    return grad_done(grad_in, 1);
}

/* SqrtGrad(y, d) = d / (2 y) */
GRAD(sqrt_grad_grad)
{
    struct output ratio = binary(g, "RealDiv", grad_out[0], input_of(op, 0), "truediv");
    struct output minus = unary(g, "Neg", ratio, NULL);

    grad_in[0] = binary(g, "Mul", minus, output_of(op, 0), "mul");
    grad_in[1] = scalar_with(g, "Mul", 0.5, ratio, "mul");
    return grad_done(grad_in, 2);
}

/* RsqrtGrad(y, d) = -d y^3 / 2 */
GRAD(rsqrt_grad_grad)
{
    struct output y = input_of(op, 0), dy = input_of(op, 1);
    struct output part = scalar_with(g, "Mul", -1.5, grad_out[0], "mul");

    part = binary(g, "Mul", part, dy, "mul");
    grad_in[0] = binary(g, "Mul", part, unary(g, "Square", y, NULL), "mul");
    grad_in[1] = binary(g, "RsqrtGrad", y, grad_out[0], NULL);
    return grad_done(grad_in, 2);
}

GRAD(exp_grad)
{
    grad_in[0] = binary(g, "Mul", grad_out[0], output_of(op, 0), "mul");
    return grad_done(grad_in, 1);
}

GRAD(log_grad)
{
    struct output inverse;

    control_dependencies_enter(g, &grad_out[0].op, 1);
    inverse = unary(g, "Reciprocal", input_of(op, 0), NULL);
    grad_in[0] = binary(g, "Mul", grad_out[0], inverse, "mul");
    control_dependencies_leave(g);
    return grad_done(grad_in, 1);
}

GRAD(abs_grad)
{
    struct output sign = unary(g, "Sign", input_of(op, 0), NULL);

    grad_in[0] = binary(g, "Mul", grad_out[0], sign, "mul");
    return grad_done(grad_in, 1);
}

GRAD(sign_grad)
{
    grad_in[0] = zeros_as(g, input_of(op, 0));
    return grad_done(grad_in, 1);
}

GRAD(reciprocal_grad)
{
    grad_in[0] = binary(g, "ReciprocalGrad", output_of(op, 0), grad_out[0], NULL);
    return grad_done(grad_in, 1);
}

/* ReciprocalGrad(y, d) = -d y^2 */
GRAD(reciprocal_grad_grad)
{
    struct output y = input_of(op, 0), dy = input_of(op, 1);
    struct output part = with_scalar(g, "Mul", grad_out[0], -2.0, "mul");

    part = binary(g, "Mul", part, dy, "mul");
    grad_in[0] = binary(g, "Mul", part, y, "mul");
    grad_in[1] = binary(g, "ReciprocalGrad", y, grad_out[0], NULL);
    return grad_done(grad_in, 2);
}

GRAD(add_n_grad)
{
    for (int i = 0; i < operation_n_inputs(op); i++)
        grad_in[i] = grad_out[0];
    return 0;
}

GRAD(cast_grad)
{
    enum dtype from = output_dtype(input_of(op, 0));

    if (!dtype_is_floating(from) || !dtype_is_floating(output_dtype(grad_out[0])))
        return 0;
    grad_in[0] = cast(g, grad_out[0], from, NULL);
    return grad_done(grad_in, 1);
}

static int select_shape(const struct shape_args *args)
{
    const struct shape *c = &args->in[0];

    if (shape_merge(&args->in[1], &args->in[2], &args->out[0]) != 0)
        return err_set(args->err, ERR_SHAPE, "shapes %s and %s differ",
                       shape_text(&args->in[1]), shape_text(&args->in[2]));
    if (c->rank <= 0 || args->out[0].rank < 0 || shape_compatible(c, &args->out[0]))
        return 0;
    if (c->rank == 1 && args->out[0].rank > 0 &&
        (c->dim[0] < 0 || args->out[0].dim[0] < 0 || c->dim[0] == args->out[0].dim[0]))
        return 0;
    return err_set(args->err, ERR_SHAPE, "a condition of shape %s does not fit %s",
                   shape_text(c), shape_text(&args->out[0]));
}

GRAD(select_grad)
{
    struct output c = input_of(op, 0), zero = zeros_like(g, input_of(op, 1), NULL);

    grad_in[1] = where(g, c, grad_out[0], zero, NULL);
    grad_in[2] = where(g, c, zero, grad_out[0], NULL);
    return grad_done(grad_in + 1, 2);
}

/* SelectV2: all three broadcast. */
static int select_v2_shape(const struct shape_args *args)
{
    struct shape branches;

    if (shape_broadcast(&args->in[1], &args->in[2], &branches) != 0 ||
        shape_broadcast(&args->in[0], &branches, &args->out[0]) != 0)
        return err_set(args->err, ERR_SHAPE, "shapes %s, %s and %s do not broadcast",
                       shape_text(&args->in[0]), shape_text(&args->in[1]),
                       shape_text(&args->in[2]));
    return 0;
}

/* The sum of grad over what x was repeated along, in the shape of x. */
static struct output summed_to(struct graph *g, struct output grad, struct output x,
                               struct output result)
{
    struct output shape = shape_of(g, x, NULL);
    struct output axes =
        binary(g, "BroadcastGradientArgs", shape, shape_of(g, result, NULL), NULL);

    return unbroadcast(g, grad, axes, shape);
}

GRAD(select_v2_grad)
{
    struct output c = input_of(op, 0), d = grad_out[0], y = output_of(op, 0);
    struct output zero = constant_like(g, output_dtype(d), 0.0, "zeros");

    grad_in[1] =
        summed_to(g, ternary(g, "SelectV2", c, d, zero, NULL), input_of(op, 1), y);
    grad_in[2] =
        summed_to(g, ternary(g, "SelectV2", c, zero, d, NULL), input_of(op, 2), y);
    return grad_done(grad_in + 1, 2);
}

static int clip_shape(const struct shape_args *args)
{
    struct shape with_min;

    if (shape_broadcast(&args->in[0], &args->in[1], &with_min) != 0 ||
        shape_broadcast(&with_min, &args->in[2], &args->out[0]) != 0 ||
        !shape_compatible(&args->out[0], &args->in[0]))
        return err_set(args->err, ERR_SHAPE, "bounds of shapes %s and %s do not fit %s",
                       shape_text(&args->in[1]), shape_text(&args->in[2]),
                       shape_text(&args->in[0]));
    return shape_merge(&args->out[0], &args->in[0], &args->out[0]);
}

GRAD(clip_grad)
{
    struct output x = input_of(op, 0), low = input_of(op, 1), high = input_of(op, 2);
    struct output d = grad_out[0], zero = zeros_as(g, d);
    struct output below = binary(g, "Less", x, low, NULL);
    struct output above = binary(g, "Greater", x, high, NULL);
    struct broadcast_args r = broadcast_args(g, x, low), s = broadcast_args(g, x, high);
    struct output outside = binary(g, "LogicalOr", below, above, NULL);
    struct output inside = where(g, outside, zero, d, NULL);

    grad_in[0] = unbroadcast(g, inside, r.axes_x, r.shape_x);
    grad_in[1] = unbroadcast(g, where(g, below, d, zero, NULL), r.axes_y, r.shape_y);
    grad_in[2] = unbroadcast(g, where(g, above, d, zero, NULL), s.axes_y, s.shape_y);
    return grad_done(grad_in, 3);
}

/* ---- reductions ---- */

static int reduce_shape(const struct shape_args *args)
{
    int keep = (int)attr_int(args->op, "keep_dims"), n, gone[SHAPE_MAX_RANK] = {0};
    int64_t axes[SHAPE_MAX_RANK];
    const struct shape *x = &args->in[0];
    struct shape out = {0};

    n = value_ints(args, 1, axes, SHAPE_MAX_RANK);
    if (x->rank < 0)
        return 0;
    if (n < 0) {
        for (int i = 0; keep && i < x->rank; i++)
            out.dim[i] = -1;
        out.rank = keep ? x->rank : -1;
        args->out[0] = out;
        return 0;
    }
    for (int i = 0; i < n; i++) {
        if (wrap_axis(args, x->rank, &axes[i]) != 0)
            return ERR_SHAPE;
        gone[axes[i]] = 1;
    }
    for (int i = 0; i < x->rank; i++)
        if (keep || !gone[i])
            out.dim[out.rank++] = gone[i] ? 1 : x->dim[i];
    args->out[0] = out;
    return 0;
}

/* The shape of a reduction's result with the reduced dimensions kept as 1. */
static struct output kept_shape(struct graph *g, struct output shape, struct output axes)
{
    struct output rank, start, delta, all, ones, wrapped, r;
    struct op_builder *b;

    axes = cast(g, axes, DT_INT32, NULL);
    rank = unary(g, "Size", shape, NULL);
    wrapped = binary(g, "Add", axes, rank, "add");
    wrapped = binary(g, "FloorMod", wrapped, rank, "mod");
    name_scope_enter(g, "range");
    start = constant_i32(g, 0, "start");
    delta = constant_i32(g, 1, "delta");
    all = ternary(g, "Range", start, rank, delta, graph_name_scope(g));
    name_scope_leave(g);
    name_scope_enter(g, "Fill");
    r = constant_i32(g, 1, "value");
    ones = binary(g, "Fill", shape_of(g, wrapped, "Shape"), r, graph_name_scope(g));
    name_scope_leave(g);
    b = op_begin(g, "DynamicStitch", NULL);
    op_input(b, all);
    op_input(b, wrapped);
    op_input(b, shape);
    op_input(b, ones);
    return (struct output){op_finish(b), 0};
}

/* x // max(y, 1) */
static struct output shape_ratio(struct graph *g, struct output x, struct output y)
{
    return binary(g, "FloorDiv", x, with_scalar(g, "Maximum", y, 1.0, "Maximum"),
                  "floordiv");
}

/* Does the operation reduce every axis, as far as can be seen now? */
static int reduces_all(const struct operation *op)
{
    int rank = output_shape(input_of(op, 0)).rank;
    const struct tensor *axes = output_constant(input_of(op, 1));

    if (rank < 0 || axes == NULL || axes->dtype != DT_INT32 ||
        tensor_elements(axes) != rank)
        return 0;
    for (int i = 0; i < rank; i++)
        if (((const int32_t *)axes->data)[i] != i)
            return 0;
    return 1;
}

static struct output sum_grad_of(struct graph *g, struct operation *op, struct output d)
{
    struct output x = input_of(op, 0), shape, kept, times;

    if (reduces_all(op)) {
        struct shape ones = output_shape(x);

        for (int i = 0; i < ones.rank; i++)
            ones.dim[i] = 1;
        d = reshape(g, d, &ones, NULL);
        return binary(g, "Tile", d, shape_of(g, x, NULL), NULL);
    }
    shape = shape_of(g, x, NULL);
    kept = kept_shape(g, shape, input_of(op, 1));
    times = shape_ratio(g, shape, kept);
    return binary(g, "Tile", binary(g, "Reshape", d, kept, NULL), times, NULL);
}

GRAD(sum_grad)
{
    grad_in[0] = sum_grad_of(g, op, grad_out[0]);
    return grad_done(grad_in, 1);
}

GRAD(mean_grad)
{
    struct output x = input_of(op, 0), y = output_of(op, 0), factor;
    struct output d = sum_grad_of(g, op, grad_out[0]);
    struct shape from = output_shape(x), to = output_shape(y);

    if (!output_valid(d))
        return -1;
    if (shape_known(&from) && shape_known(&to)) {
        int64_t kept = shape_elements(&to);

        factor =
            constant_like(g, output_dtype(d),
                          (double)(shape_elements(&from) / (kept > 0 ? kept : 1)), NULL);
    } else {
        struct output in = shape_of(g, x, NULL), out = shape_of(g, y, NULL);

        in = reduce(g, "Prod", in, NULL, 0, 0, NULL);
        out = reduce(g, "Prod", out, NULL, 0, 0, NULL);
        factor = cast(g, shape_ratio(g, in, out), output_dtype(d), NULL);
    }
    grad_in[0] = binary(g, "RealDiv", d, factor, "truediv");
    return grad_done(grad_in, 1);
}

/* Shared equally by the elements that attain the extremum. */
GRAD(extremum_grad)
{
    struct output x = input_of(op, 0), axes = input_of(op, 1), y, d, attained, n;
    struct output kept = kept_shape(g, shape_of(g, x, NULL), axes);

    y = binary(g, "Reshape", output_of(op, 0), kept, NULL);
    d = binary(g, "Reshape", grad_out[0], kept, NULL);
    attained = cast(g, binary(g, "Equal", y, x, NULL), output_dtype(grad_out[0]), NULL);
    n = binary(g, "Reshape", binary(g, "Sum", attained, axes, NULL), kept, NULL);
    grad_in[0] = binary(g, "Mul", binary(g, "RealDiv", attained, n, "truediv"), d, "mul");
    return grad_done(grad_in, 1);
}

/* The product of all others: y / x_i, without dividing where factors are zero. With one
 * zero it is the product of the rest, there alone; with two or more it is zero. */
GRAD(prod_grad)
{
    struct output x = input_of(op, 0), axes = input_of(op, 1);
    struct output kept = kept_shape(g, shape_of(g, x, NULL), axes), is_zero, n_zeros,
                  rest;
    struct output safe, product, d, no_zero, at_zero;
    enum dtype dtype = output_dtype(x);

    is_zero = with_scalar(g, "Equal", x, 0.0, "Equal");
    safe = where(g, is_zero, ones_like(g, x, NULL), x, NULL);
    product = binary(g, "Reshape", binary(g, "Prod", safe, axes, NULL), kept, NULL);
    rest = binary(g, "RealDiv", product, safe, "truediv");
    at_zero = cast(g, is_zero, dtype, NULL);
    n_zeros = binary(g, "Reshape", binary(g, "Sum", at_zero, axes, NULL), kept, NULL);
    /* zeros among the others */
    n_zeros = binary(g, "Sub", n_zeros, at_zero, "sub");
    no_zero = cast(g, with_scalar(g, "Equal", n_zeros, 0.0, "Equal"), dtype, NULL);
    d = binary(g, "Reshape", grad_out[0], kept, NULL);
    grad_in[0] = binary(g, "Mul", binary(g, "Mul", rest, no_zero, "mul"), d, "mul");
    return grad_done(grad_in, 1);
}

static int arg_extremum_shape(const struct shape_args *args)
{
    struct shape out = args->in[0];
    int64_t axis;

    if (out.rank < 0)
        return 0;
    if (value_ints(args, 1, &axis, 1) != 1) {
        out.rank--;
        for (int i = 0; i < out.rank; i++)
            out.dim[i] = -1;
        args->out[0] = out.rank >= 0 ? out : SHAPE_UNKNOWN;
        return 0;
    }
    if (wrap_axis(args, out.rank, &axis) != 0)
        return ERR_SHAPE;
    for (int i = (int)axis; i + 1 < out.rank; i++)
        out.dim[i] = out.dim[i + 1];
    out.rank--;
    args->out[0] = out;
    return 0;
}

/* ---- the rows ---- */

#define UNARY(type, kind, grad)                                                          \
    {                                                                                    \
        type, 0, shape_same, grad, "x:T -> y:T; T:" kind                                 \
    }
#define BINARY(type, kind, grad)                                                         \
    {                                                                                    \
        type, 0, shape_broadcast_inputs, grad, "x:T, y:T -> z:T; T:" kind                \
    }
#define GRAD_OP(type, grad)                                                              \
    {                                                                                    \
        type, 0, shape_merged, grad, "y:T, dy:T -> z:T; T:float_type"                    \
    }
#define COMPARE(type, kind)                                                              \
    {                                                                                    \
        type, OP_NO_GRADIENT, shape_broadcast_inputs, NULL,                              \
            "x:T, y:T -> z:bool; T:" kind                                                \
    }
#define REDUCE(type, kind, grad)                                                         \
    {                                                                                    \
        type, 0, reduce_shape, grad,                                                     \
            "input:T, reduction_indices:Tidx -> output:T; keep_dims:bool=false, T:" kind \
            ", Tidx:index_type=int32"                                                    \
    }
#define REDUCE_BOOL(type)                                                                \
    {                                                                                    \
        type, OP_NO_GRADIENT, reduce_shape, NULL,                                        \
            "input:bool, reduction_indices:Tidx -> output:bool; keep_dims:bool=false, "  \
            "Tidx:index_type=int32"                                                      \
    }
#define ARG_EXTREMUM(type)                                                               \
    {                                                                                    \
        type, OP_NO_GRADIENT, arg_extremum_shape, NULL,                                  \
            "input:T, dimension:Tidx -> output:output_type; T:number_type, "             \
            "Tidx:index_type=int32, "                                                    \
            "output_type:index_type=int64"                                               \
    }

static const struct op_def rows[] = {
    {"MatMul", 0, matmul_shape, matmul_grad,
     "a:T, b:T -> product:T; transpose_a:bool=false, transpose_b:bool=false, "
     "T:number_type"},
    BINARY("Add", "number_type", add_grad),
    BINARY("AddV2", "number_type", add_grad),
    BINARY("Sub", "number_type", sub_grad),
    BINARY("Mul", "number_type", mul_grad),
    {"BatchMatMul", 0, batch_matmul_shape, batch_matmul_grad,
     "x:T, y:T -> output:T; T:number_type, adj_x:bool=false, adj_y:bool=false"},
    {"BatchMatMulV2", 0, batch_matmul_shape, batch_matmul_v2_grad,
     "x:T, y:T -> output:T; T:number_type, adj_x:bool=false, adj_y:bool=false"},
    BINARY("RealDiv", "number_type", real_div_grad),
    BINARY("Div", "number_type", div_grad),
    BINARY("DivNoNan", "float_type", div_no_nan_grad),
    BINARY("Maximum", "number_type", maximum_grad),
    BINARY("Minimum", "number_type", minimum_grad),
    BINARY("Pow", "number_type", pow_grad),
    BINARY("SquaredDifference", "number_type", squared_difference_grad),
    BINARY("FloorDiv", "number_type", grad_none),
    BINARY("FloorMod", "number_type", floor_mod_grad),
    BINARY("Mod", "number_type", grad_missing),
    UNARY("Neg", "number_type", neg_grad),
    UNARY("Square", "number_type", square_grad),
    UNARY("Sqrt", "float_type", sqrt_grad),
    UNARY("Rsqrt", "float_type", rsqrt_grad),
    UNARY("Exp", "float_type", exp_grad),
    UNARY("Log", "float_type", log_grad),
    UNARY("Abs", "number_type", abs_grad),
    UNARY("Sign", "number_type", sign_grad),
    UNARY("Reciprocal", "float_type", reciprocal_grad),
    UNARY("Floor", "float_type", grad_none),
    GRAD_OP("SqrtGrad", sqrt_grad_grad),
    GRAD_OP("RsqrtGrad", rsqrt_grad_grad),
    GRAD_OP("ReciprocalGrad", reciprocal_grad_grad),
    {"AddN", 0, shape_merged, add_n_grad, "inputs:N*T -> sum:T; N:int, T:number_type"},
    {"Cast", 0, shape_same, cast_grad,
     "x:SrcT -> y:DstT; SrcT:type, DstT:type, Truncate:bool=false"},
    {"Select", 0, select_shape, select_grad,
     "condition:bool, t:T, e:T -> output:T; T:type"},
    {"SelectV2", 0, select_v2_shape, select_v2_grad,
     "condition:bool, t:T, e:T -> output:T; T:type"},
    {"ClipByValue", 0, clip_shape, clip_grad,
     "t:T, clip_value_min:T, clip_value_max:T -> output:T; T:number_type"},
    COMPARE("Equal", "type"),
    COMPARE("NotEqual", "type"),
    COMPARE("Greater", "number_type"),
    COMPARE("GreaterEqual", "number_type"),
    COMPARE("Less", "number_type"),
    COMPARE("LessEqual", "number_type"),
    {"LogicalAnd", OP_NO_GRADIENT, shape_broadcast_inputs, NULL,
     "x:bool, y:bool -> z:bool"},
    {"LogicalOr", OP_NO_GRADIENT, shape_broadcast_inputs, NULL,
     "x:bool, y:bool -> z:bool"},
    {"LogicalNot", OP_NO_GRADIENT, shape_same, NULL, "x:bool -> y:bool"},
    REDUCE("Sum", "number_type", sum_grad),
    REDUCE("Mean", "number_type", mean_grad),
    REDUCE("Max", "number_type", extremum_grad),
    REDUCE("Min", "number_type", extremum_grad),
    REDUCE("Prod", "number_type", prod_grad),
    REDUCE_BOOL("All"),
    REDUCE_BOOL("Any"),
    ARG_EXTREMUM("ArgMax"),
    ARG_EXTREMUM("ArgMin"),
};

const struct op_family ops_of_math = OP_FAMILY(rows);
