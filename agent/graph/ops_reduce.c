/* ops_reduce.c - sums, means, products and extrema along axes.
 *
 * Gradients after TensorFlow 1.13's python/ops/math_grad.py.
 */
#include "agent/graph/graph_internal.h"
#include "agent/graph/op_rules.h"

static int reduce_shape(const struct shape_args *args)
{
    int keep = (int)attr_int(args->op, "keep_dims"), n, gone[SHAPE_MAX_RANK] = {0};
    int64_t axes[SHAPE_MAX_RANK];
    const struct shape *x = &args->in[0];
    struct shape out = {0};

    n = value_ints(args, 1, axes, SHAPE_MAX_RANK);
    if (x->rank < 0)
        return 0;
    if (n < 0) { /* x may be a scalar, and there may be no axes: not known yet */
        args->out[0] = keep && x->rank > 0 ? shape_of_rank(x->rank) : SHAPE_UNKNOWN;
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

/* Whether the operation reduces every axis, as far as is known. */
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

GRAD_ONE(sum_grad, sum_grad_of(g, op, grad_out[0]))

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

/* The elements that equal the extremum share the gradient equally. */
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

/* The product of all other factors, which is y / x_i if no factor is 0. With one zero,
 * the result is the product of the others at its place and 0 elsewhere; with more zeros
 * it is 0. */
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
    /* the number of zeros among the others */
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
    if (value_ints(args, 1, &axis, 1) != 1) { /* the axis cannot be checked yet */
        args->out[0] = out.rank > 1 ? shape_of_rank(out.rank - 1) : SHAPE_UNKNOWN;
        return 0;
    }
    if (wrap_axis(args, out.rank, &axis) != 0)
        return ERR_SHAPE;
    shape_remove(&out, (int)axis);
    args->out[0] = out;
    return 0;
}

/* ---- the rows ---- */

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

const struct op_family ops_of_reduce = OP_FAMILY(rows);
