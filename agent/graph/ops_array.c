/* ops_array.c - constants, placeholders, ops on shapes, and changes of shape.
 *
 * Gradients after TensorFlow 1.13's python/ops/array_grad.py. */
#include "agent/graph/graph_internal.h"
#include "agent/graph/op_rules.h"

#include <math.h>

/* ---- constants and pass-through ---- */

static int const_shape(const struct shape_args *args)
{
    const struct tensor *value = &operation_attr(args->op, "value")->tensor;

    if (value->dtype != (enum dtype)attr_int(args->op, "dtype"))
        return err_set(args->err, ERR_DTYPE, "a value of type %s in a Const of type %s",
                       dtype_name(value->dtype),
                       dtype_name((enum dtype)attr_int(args->op, "dtype")));
    args->out[0] = value->shape;
    return 0;
}

static int placeholder_with_default_shape(const struct shape_args *args)
{
    const struct shape *shape = attr_shape(args->op, "shape");

    if (!shape_compatible(&args->in[0], shape))
        return err_set(args->err, ERR_SHAPE, "a default of shape %s for shape %s",
                       shape_text(&args->in[0]), shape_text(shape));
    args->out[0] = *shape;
    return 0;
}

GRAD(identity_grad)
{
    grad_in[0] = grad_out[0];
    return 0;
}

GRAD(check_numerics_grad)
{
    struct op_builder *b = op_begin(g, "CheckNumerics", NULL);

    op_input(b, grad_out[0]);
    op_attr_string(b, "message",
                   "Not a number (NaN) or infinity (Inf) values detected in gradient.");
    grad_in[0] = (struct output){op_finish(b), 0};
    return grad_done(grad_in, 1);
}

/* ---- shapes as values ---- */

static int shape_of_shape(const struct shape_args *args)
{
    for (int i = 0; i < args->n_in; i++)
        args->out[i] = SHAPE(args->in[i].rank);
    return 0;
}

/* The inputs are vectors of one length, and so are the outputs: ConcatOffset,
 * InvertPermutation. */
static int concat_offset_shape(const struct shape_args *args)
{
    for (int i = 1; i < args->n_in; i++) {
        if (want_rank(args, i, 1) != 0)
            return ERR_SHAPE;
        if (!shape_compatible(&args->in[1], &args->in[i]))
            return err_set(args->err, ERR_SHAPE, "shapes of ranks %s and %s differ",
                           shape_text(&args->in[1]), shape_text(&args->in[i]));
        args->out[i - 1] = args->in[i].rank < 0 ? SHAPE(-1) : args->in[i];
    }
    return want_rank(args, 0, 0);
}

static int invert_permutation_shape(const struct shape_args *args)
{
    args->out[0] = args->in[0].rank < 0 ? SHAPE(-1) : args->in[0];
    return 0;
}

/* The value of a known floating-point scalar. */
static int value_real(const struct shape_args *args, int i, double *ret)
{
    const struct tensor *t = args->value[i];

    if (t == NULL || (t->dtype != DT_FLOAT && t->dtype != DT_DOUBLE))
        return 0;
    *ret =
        t->dtype == DT_FLOAT ? (double)*(const float *)t->data : *(const double *)t->data;
    return 1;
}

static int real_range_shape(const struct shape_args *args)
{
    double start, limit, delta, n;

    if (!value_real(args, 0, &start) || !value_real(args, 1, &limit) ||
        !value_real(args, 2, &delta))
        return 0;
    if (delta == 0)
        return err_set(args->err, ERR_ARG, "delta must not be 0");
    /* in the elements' type, as TensorFlow's kernel does */
    n = args->value[0]->dtype == DT_FLOAT
            ? (double)ceilf(((float)limit - (float)start) / (float)delta)
            : ceil((limit - start) / delta);
    if (!(n < 0x1p53))
        return err_set(args->err, ERR_LIMIT, "a range of %g elements", n);
    args->out[0].dim[0] = n > 0 ? (int64_t)n : 0;
    return 0;
}

static int range_shape(const struct shape_args *args)
{
    int64_t start, limit, delta;
    uint64_t n;

    args->out[0] = SHAPE(-1);
    if (value_ints(args, 0, &start, 1) != 1 || value_ints(args, 1, &limit, 1) != 1 ||
        value_ints(args, 2, &delta, 1) != 1)
        return real_range_shape(args);
    if (delta == 0)
        return err_set(args->err, ERR_ARG, "delta must not be 0");
    n = range_length(start, limit, delta);
    if (n > INT64_MAX)
        return err_set(args->err, ERR_LIMIT, "a range of %llu elements",
                       (unsigned long long)n);
    args->out[0].dim[0] = (int64_t)n;
    return 0;
}

GRAD(fill_grad)
{
    grad_in[1] = reduce(g, "Sum", grad_out[0], NULL, 0, 0, NULL);
    return grad_done(grad_in + 1, 1);
}

/* The dimensions of data[i] after its first ones, which are those of indices[i]. */
static int stitched_row(const struct shape_args *args, int i, struct shape *ret)
{
    const struct shape *at = &args->in[i], *data = &args->in[args->n_in / 2 + i];
    struct shape begin = *data;

    *ret = SHAPE_UNKNOWN;
    if (at->rank < 0 || data->rank < 0)
        return 0;
    begin.rank = at->rank;
    if (data->rank < at->rank || !shape_compatible(&begin, at))
        return err_set(args->err, ERR_SHAPE, "data %s does not begin with indices %s",
                       shape_text(data), shape_text(at));
    ret->rank = data->rank - at->rank;
    for (int d = 0; d < ret->rank; d++)
        ret->dim[d] = data->dim[at->rank + d];
    return 0;
}

/* data[k] goes to row indices[k]; the largest index gives the number of rows. */
static int dynamic_stitch_shape(const struct shape_args *args)
{
    int64_t largest = -1;
    struct shape all = SHAPE_UNKNOWN, row;

    for (int i = 0; i < args->n_in / 2; i++) {
        int64_t index[64];
        int count = value_ints(args, i, index, 64);

        if (stitched_row(args, i, &row) != 0)
            return ERR_SHAPE;
        if (shape_merge(&all, &row, &all) != 0)
            return err_set(args->err, ERR_SHAPE, "rows of shapes %s and %s differ",
                           shape_text(&all), shape_text(&row));
        if (count < 0)
            largest = INT64_MAX;
        for (int k = 0; k < count; k++)
            largest = index[k] > largest ? index[k] : largest;
    }
    if (all.rank < 0)
        return 0;
    if (all.rank == SHAPE_MAX_RANK)
        return err_set(args->err, ERR_SHAPE, "more than %d dimensions", SHAPE_MAX_RANK);
    args->out[0].rank = all.rank + 1;
    for (int d = 0; d < all.rank; d++)
        args->out[0].dim[d + 1] = all.dim[d];
    args->out[0].dim[0] = largest == INT64_MAX ? -1 : largest + 1;
    return 0;
}

GRAD(dynamic_stitch_grad)
{
    int n = operation_n_inputs(op) / 2;

    for (int i = 0; i < n; i++)
        grad_in[n + i] = binary(g, "Gather", grad_out[0], input_of(op, i), NULL);
    return grad_done(grad_in + n, n);
}

/* ---- changing the shape ---- */

static int reshape_shape(const struct shape_args *args)
{
    int64_t have = shape_elements(&args->in[0]), known = 1;
    struct shape out;
    int hole = -1;

    if (value_shape(args, 1, &out) != 0)
        return ERR_SHAPE;
    for (int i = 0; i < out.rank; i++) {
        if (out.dim[i] < -1)
            return err_set(args->err, ERR_SHAPE, "a dimension of %lld",
                           (long long)out.dim[i]);
        if (out.dim[i] >= 0 && __builtin_mul_overflow(known, out.dim[i], &known))
            return err_set(args->err, ERR_LIMIT, "%s has too many elements",
                           shape_text(&out));
        if (out.dim[i] >= 0)
            continue;
        if (args->value[1] != NULL && hole >= 0)
            return err_set(args->err, ERR_SHAPE, "more than one unknown dimension");
        hole = hole < 0 ? i : SHAPE_MAX_RANK;
    }
    args->out[0] = out;
    if (out.rank < 0 || have < 0 || hole == SHAPE_MAX_RANK)
        return 0;
    if (hole < 0 ? known != have : known == 0 ? have != 0 : have % known != 0)
        return err_set(args->err, ERR_SHAPE, "cannot reshape %s to %s",
                       shape_text(&args->in[0]), shape_text(&out));
    if (hole >= 0)
        args->out[0].dim[hole] = known == 0 ? 0 : have / known;
    return 0;
}

static int reshape_to_input(struct graph *g, struct operation *op, struct output d,
                            struct output *grad_in)
{
    grad_in[0] = binary(g, "Reshape", d, shape_of(g, input_of(op, 0), NULL), NULL);
    return grad_done(grad_in, 1);
}

GRAD(reshape_grad)
{
    return reshape_to_input(g, op, grad_out[0], grad_in);
}

static int expand_dims_shape(const struct shape_args *args)
{
    int64_t axis;

    return insert_axis(args, &args->in[0],
                       value_ints(args, 1, &axis, 1) == 1 ? &axis : NULL, 1);
}

static int squeeze_shape(const struct shape_args *args)
{
    const struct attr *dims = operation_attr(args->op, "squeeze_dims");
    const struct shape *x = &args->in[0];
    int gone[SHAPE_MAX_RANK] = {0};
    struct shape out = {0};

    if (x->rank < 0)
        return 0;
    for (size_t i = 0; i < dims->n; i++) {
        int64_t axis = dims->list_i[i];

        if (wrap_axis(args, x->rank, &axis) != 0)
            return ERR_SHAPE;
        if (x->dim[axis] > 1 || x->dim[axis] == 0)
            return err_set(args->err, ERR_SHAPE, "cannot squeeze dimension %lld of %s",
                           (long long)axis, shape_text(x));
        gone[axis] = 1;
    }
    for (int i = 0; i < x->rank; i++) {
        if (dims->n == 0 && x->dim[i] < 0)
            return 0; /* cannot be checked yet */
        if (dims->n == 0 ? x->dim[i] != 1 : !gone[i])
            out.dim[out.rank++] = x->dim[i];
    }
    args->out[0] = out;
    return 0;
}

static int transpose_shape(const struct shape_args *args)
{
    int64_t perm[SHAPE_MAX_RANK];
    const struct shape *x = &args->in[0];
    struct shape out = *x;
    int n = value_ints(args, 1, perm, SHAPE_MAX_RANK), seen[SHAPE_MAX_RANK] = {0};

    if (x->rank < 0)
        return 0;
    if (args->value[1] != NULL && n != x->rank) /* -1: of more than any rank */
        return err_set(args->err, ERR_SHAPE, "a permutation of %d dimensions for %s", n,
                       shape_text(x));
    for (int i = 0; i < x->rank; i++) {
        if (n < 0) {
            out.dim[i] = -1;
            continue;
        }
        if (perm[i] < 0 || perm[i] >= n || seen[perm[i]]++)
            return err_set(args->err, ERR_ARG, "not a permutation of %d dimensions", n);
        out.dim[i] = x->dim[perm[i]];
    }
    args->out[0] = out;
    return 0;
}

GRAD(transpose_grad)
{
    struct output back = unary(g, "InvertPermutation", input_of(op, 1), NULL);

    grad_in[0] = binary(g, "Transpose", grad_out[0], back, "transpose");
    return grad_done(grad_in, 1);
}

static int tile_shape(const struct shape_args *args)
{
    int64_t times[SHAPE_MAX_RANK];
    int n = value_ints(args, 1, times, SHAPE_MAX_RANK);
    struct shape out = args->in[0];

    if (out.rank < 0)
        return 0;
    if (n >= 0 && n != out.rank)
        return err_set(args->err, ERR_SHAPE, "%d multiples for %s", n, shape_text(&out));
    for (int i = 0; i < out.rank; i++) {
        if (n >= 0 && times[i] < 0)
            return err_set(args->err, ERR_ARG, "a multiple of %lld", (long long)times[i]);
        if (n < 0 || out.dim[i] < 0)
            out.dim[i] = -1;
        else if (__builtin_mul_overflow(out.dim[i], times[i], &out.dim[i]))
            return err_set(args->err, ERR_LIMIT, "too many copies of %s",
                           shape_text(&args->in[0]));
    }
    args->out[0] = out;
    return 0;
}

static struct output stack2(struct graph *g, struct output a, struct output b)
{
    struct op_builder *p = op_begin(g, "Pack", "stack");

    op_input(p, a);
    op_input(p, b);
    return (struct output){op_finish(p), 0};
}

/* Reshapes the gradient to (multiple 0, dim 0, multiple 1, ...) and sums over the
 * multiples. */
GRAD(tile_grad)
{
    struct output x = input_of(op, 0), start, delta, axes, split, r;
    struct shape flat = SHAPE(-1), known = output_shape(x);
    const int32_t swap[] = {1, 0};

    split = cast(g, input_of(op, 1), DT_INT32, NULL);
    split = stack2(g, split, shape_of(g, x, NULL));
    split = binary(g, "Transpose", split, constant_i32s(g, swap, 2, "transpose/perm"),
                   "transpose");
    split = reshape(g, split, &flat, NULL);
    start = constant_i32(g, 0, "range/start");
    delta = constant_i32(g, 2, "range/delta");
    axes = ternary(g, "Range", start, unary(g, "Size", split, NULL), delta, "range");
    r = binary(g, "Sum", binary(g, "Reshape", grad_out[0], split, NULL), axes, NULL);
    if (!output_valid(r))
        return -1;
    grad_in[0] = r;
    return output_set_shape(r, &known);
}

/* ---- the rows ---- */

static const struct op_def rows[] = {
    {"Placeholder", OP_NO_GRADIENT, shape_declared, NULL,
     "-> output:dtype; dtype:type, shape:shape=unknown"},
    {"PlaceholderWithDefault", 0, placeholder_with_default_shape, identity_grad,
     "input:dtype -> output:dtype; dtype:type, shape:shape"},
    {"Const", OP_NO_GRADIENT, const_shape, NULL,
     "-> output:dtype; value:tensor, dtype:type"},
    {"Identity", 0, shape_same, identity_grad, "input:T -> output:T; T:type"},
    {"StopGradient", OP_NO_GRADIENT, shape_same, NULL, "input:T -> output:T; T:type"},
    {"Assert", OP_AWAITED | OP_NO_GRADIENT, shape_none, NULL,
     "condition:bool, data:T ->; T:list(type), summarize:int=3"},
    {"CheckNumerics", OP_AWAITED, shape_same, check_numerics_grad,
     "tensor:T -> output:T; T:float_type, message:string"},
    {"NoOp", OP_NO_GRADIENT, shape_none, NULL, "->"},
    {"ZerosLike", OP_NO_GRADIENT, shape_same, NULL, "x:T -> y:T; T:type"},
    {"OnesLike", OP_NO_GRADIENT, shape_same, NULL, "x:T -> y:T; T:type"},
    {"Shape", OP_NO_GRADIENT, shape_of_shape, NULL,
     "input:T -> output:out_type; T:type, out_type:index_type=int32"},
    {"ShapeN", OP_NO_GRADIENT, shape_of_shape, NULL,
     "input:N*T -> output:N*out_type; N:int, T:type, out_type:index_type=int32"},
    {"Size", OP_NO_GRADIENT, shape_scalar, NULL,
     "input:T -> output:out_type; T:type, out_type:index_type=int32"},
    {"Rank", OP_NO_GRADIENT, shape_scalar, NULL, "input:T -> output:int32; T:type"},
    {"BroadcastGradientArgs", OP_NO_GRADIENT, shape_vector, NULL,
     "s0:T, s1:T -> r0:T, r1:T; T:index_type=int32"},
    {"ConcatOffset", OP_NO_GRADIENT, concat_offset_shape, NULL,
     "concat_dim:int32, shape:N*int32 -> offset:N*int32; N:int"},
    {"InvertPermutation", OP_NO_GRADIENT, invert_permutation_shape, NULL,
     "x:T -> y:T; T:index_type=int32", .ranks = "1"},
    {"Range", OP_NO_GRADIENT, range_shape, NULL,
     "start:Tidx, limit:Tidx, delta:Tidx -> output:Tidx; Tidx:number_type=int32",
     .ranks = "000"},
    {"Fill", 0, shape_of_value, fill_grad,
     "dims:index_type, value:T -> output:T; T:type, index_type:index_type=int32",
     .ranks = "?0"},
    {"DynamicStitch", 0, dynamic_stitch_shape, dynamic_stitch_grad,
     "indices:N*int32, data:N*T -> merged:T; N:int, T:type"},
    {"Reshape", 0, reshape_shape, reshape_grad,
     "tensor:T, shape:Tshape -> output:T; T:type, Tshape:index_type=int32"},
    {"ExpandDims", 0, expand_dims_shape, reshape_grad,
     "input:T, dim:Tdim -> output:T; T:type, Tdim:index_type=int32"},
    {"Squeeze", 0, squeeze_shape, reshape_grad,
     "input:T -> output:T; T:type, squeeze_dims:list(int)=[]"},
    {"Transpose", 0, transpose_shape, transpose_grad,
     "x:T, perm:Tperm -> y:T; T:type, Tperm:index_type=int32"},
    {"Tile", 0, tile_shape, tile_grad,
     "input:T, multiples:Tmultiples -> output:T; T:type, Tmultiples:index_type=int32"},
};

const struct op_family ops_of_array = OP_FAMILY(rows);
