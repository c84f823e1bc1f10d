/* ops_index.c - ops that select or add rows by index, and ops that compute indices.
 *
 * Gradients after TensorFlow 1.13's python/ops/array_grad.py; where TensorFlow builds
 * IndexedSlices, this builds a dense op with the same values. */
#include "agent/graph/graph_internal.h"
#include "agent/graph/op_rules.h"

/* params with dimension `axis` replaced by the dimensions of indices. */
static int gathered_shape(const struct shape_args *args, int64_t axis)
{
    const struct shape *x = &args->in[0], *at = &args->in[1];
    struct shape out = {0};

    if (x->rank < 0 || at->rank < 0)
        return 0;
    if (x->rank == 0 || wrap_axis(args, x->rank, &axis) != 0)
        return err_set(args->err, ERR_SHAPE, "axis %lld of %s", (long long)axis,
                       shape_text(x));
    if (x->rank + at->rank - 1 > SHAPE_MAX_RANK)
        return err_set(args->err, ERR_SHAPE, "more than %d dimensions", SHAPE_MAX_RANK);
    for (int i = 0; i < x->rank; i++) {
        if (i != axis)
            out.dim[out.rank++] = x->dim[i];
        for (int k = 0; i == axis && k < at->rank; k++)
            out.dim[out.rank++] = at->dim[k];
    }
    args->out[0] = out;
    return 0;
}

static int gather_shape(const struct shape_args *args)
{
    return gathered_shape(args, 0);
}

static int gather_v2_shape(const struct shape_args *args)
{
    int64_t axis;

    if (value_ints(args, 2, &axis, 1) != 1)
        return 0;
    return gathered_shape(args, axis);
}

static struct output dim_value(struct graph *g, struct output x, int32_t axis)
{
    return vector_slice(g, shape_of(g, x, NULL), axis, axis + 1, "shrink_axis_mask");
}

GRAD(gather_grad)
{
    struct output rows = dim_value(g, input_of(op, 0), 0);

    grad_in[0] =
        ternary(g, "UnsortedSegmentSum", grad_out[0], input_of(op, 1), rows, NULL);
    return grad_done(grad_in, 1);
}

static struct output permuted(struct graph *g, struct output x, const int32_t *perm,
                              int n)
{
    struct output p = constant_i32s(g, perm, (size_t)n, "transpose/perm");

    return binary(g, "Transpose", x, p, "transpose");
}

/* Along an axis other than 0: moves the gathered dimensions to the front, sums, and moves
 * them back. */
GRAD(gather_v2_grad)
{
    const struct tensor *axis_value = output_constant(input_of(op, 2));
    int rank = output_shape(input_of(op, 0)).rank;
    int at = output_shape(input_of(op, 1)).rank, n = 0;
    int32_t axis, there[SHAPE_MAX_RANK], back[SHAPE_MAX_RANK];
    struct output d;

    if (axis_value == NULL || axis_value->dtype != DT_INT32 || rank < 1 || at < 0)
        return graph_fail(g, ERR_UNSUPPORTED,
                          "%s: the gradient needs a constant axis and known ranks",
                          operation_name(op));
    axis = *(const int32_t *)axis_value->data;
    axis += axis < 0 ? rank : 0;
    if (axis == 0)
        return gather_grad(g, op, grad_out, grad_in);
    for (int i = 0; i < at; i++)
        there[n++] = axis + i;
    for (int i = 0; i < rank + at - 1; i++)
        if (i < axis || i >= axis + at)
            there[n++] = i;
    for (int i = 0; i < rank; i++)
        back[i] = i < axis ? i + 1 : i == axis ? 0 : i;
    d = permuted(g, grad_out[0], there, n);
    d = ternary(g, "UnsortedSegmentSum", d, input_of(op, 1),
                dim_value(g, input_of(op, 0), axis), NULL);
    grad_in[0] = permuted(g, d, back, rank);
    return grad_done(grad_in, 1);
}

/* Sums the rows of data with id k in row k; ids may have several dimensions. */
static int segment_sum_shape(const struct shape_args *args)
{
    const struct shape *data = &args->in[0], *ids = &args->in[1];
    struct shape out = {.rank = 1};
    int64_t n = -1;

    if (data->rank < 0 || ids->rank < 0)
        return 0;
    for (int i = 0; i < ids->rank; i++)
        if (i >= data->rank ||
            (data->dim[i] >= 0 && ids->dim[i] >= 0 && data->dim[i] != ids->dim[i]))
            return err_set(args->err, ERR_SHAPE, "data %s does not begin with ids %s",
                           shape_text(data), shape_text(ids));
    if (value_ints(args, 2, &n, 1) == 1 && n < 0)
        return err_set(args->err, ERR_SHAPE, "%lld segments", (long long)n);
    if (1 + data->rank - ids->rank > SHAPE_MAX_RANK)
        return err_set(args->err, ERR_SHAPE, "more than %d dimensions", SHAPE_MAX_RANK);
    out.dim[0] = n;
    for (int i = ids->rank; i < data->rank; i++)
        out.dim[out.rank++] = data->dim[i];
    args->out[0] = out;
    return 0;
}

/* Each row gets the gradient of the sum that it was added to; rows with negative ids get
 * 0. */
GRAD(segment_sum_grad)
{
    struct output ids = input_of(op, 1), rows, there, shape;
    int extra = output_shape(input_of(op, 0)).rank - output_shape(ids).rank;
    enum dtype dtype = output_dtype(grad_out[0]);

    if (output_shape(input_of(op, 0)).rank < 0 || output_shape(ids).rank < 0)
        return graph_fail(g, ERR_UNSUPPORTED, "%s: the gradient needs known ranks",
                          operation_name(op));
    rows = binary(g, "Maximum", ids, zeros_like(g, ids, NULL), NULL);
    rows = binary(g, "Gather", grad_out[0], rows, NULL);
    there =
        cast(g, with_scalar(g, "GreaterEqual", ids, 0.0, "GreaterEqual"), dtype, NULL);
    if (extra > 0) {
        struct output sizes[2];

        sizes[0] = shape_of(g, ids, NULL);
        sizes[1] = ones(g, DT_INT32, &(struct shape){1, {extra}}, NULL);
        shape = concat(g, sizes, 2, 0, NULL);
        there = binary(g, "Reshape", there, shape, NULL);
    }
    grad_in[0] = binary(g, "Mul", rows, there, "mul");
    return grad_done(grad_in, 1);
}

/* The length K of the last dimension of indices, each row of which is a place among the
 * first K dimensions of x; -1: not known. */
static int index_length(const struct shape_args *args, const struct shape *indices,
                        const struct shape *x, int64_t *ret)
{
    *ret = -1;
    if (indices->rank == 0)
        return err_set(args->err, ERR_SHAPE, "indices are a scalar");
    if (indices->rank > 0)
        *ret = indices->dim[indices->rank - 1];
    if (x->rank >= 0 && *ret > x->rank)
        return err_set(args->err, ERR_SHAPE, "an index of %lld into %s", (long long)*ret,
                       shape_text(x));
    return 0;
}

/* indices without their last dimension, then x without its first K. */
static int indexed_shape(const struct shape_args *args, const struct shape *indices,
                         const struct shape *x, struct shape *ret)
{
    struct shape out = {0};
    int64_t k;

    *ret = SHAPE_UNKNOWN;
    if (index_length(args, indices, x, &k) != 0)
        return ERR_SHAPE;
    if (k < 0 || x->rank < 0)
        return 0;
    if (indices->rank - 1 + x->rank - k > SHAPE_MAX_RANK)
        return err_set(args->err, ERR_SHAPE, "more than %d dimensions", SHAPE_MAX_RANK);
    for (int i = 0; i < indices->rank - 1; i++)
        out.dim[out.rank++] = indices->dim[i];
    for (int64_t i = k; i < x->rank; i++)
        out.dim[out.rank++] = x->dim[i];
    *ret = out;
    return 0;
}

static int gather_nd_shape(const struct shape_args *args)
{
    return indexed_shape(args, &args->in[1], &args->in[0], &args->out[0]);
}

static int scatter_nd_shape(const struct shape_args *args)
{
    struct shape updates;

    if (value_sizes(args, 2, &args->out[0]) != 0 ||
        indexed_shape(args, &args->in[0], &args->out[0], &updates) != 0)
        return ERR_SHAPE;
    if (!shape_compatible(&args->in[1], &updates))
        return err_set(args->err, ERR_SHAPE, "updates %s, expected %s",
                       shape_text(&args->in[1]), shape_text(&updates));
    return 0;
}

/* Adds the gradients of elements that were gathered more than once. */
GRAD(gather_nd_grad)
{
    struct op_builder *b = op_begin(g, "Shape", NULL);
    struct output shape;

    op_input(b, input_of(op, 0));
    op_attr_type(b, "out_type", output_dtype(input_of(op, 1)));
    shape = (struct output){op_finish(b), 0};
    grad_in[0] = ternary(g, "ScatterNd", input_of(op, 1), grad_out[0], shape, NULL);
    return grad_done(grad_in, 1);
}

GRAD(scatter_nd_grad)
{
    grad_in[1] = binary(g, "GatherNd", grad_out[0], input_of(op, 0), NULL);
    return grad_done(grad_in + 1, 1);
}

static int one_hot_shape(const struct shape_args *args)
{
    const int64_t axis = attr_int(args->op, "axis");
    int64_t depth = -1;

    if (args->in[0].rank >= 0 && value_ints(args, 1, &depth, 1) == 1 && depth < 0)
        return err_set(args->err, ERR_SHAPE, "a depth of %lld", (long long)depth);
    return insert_axis(args, &args->in[0], &axis, depth);
}

/* (number of true elements, rank); only a run knows the number */
static int where_shape(const struct shape_args *args)
{
    args->out[0] = SHAPE(-1, args->in[0].rank);
    return 0;
}

/* ---- the rows ---- */

static const struct op_def rows[] = {
    {"Gather", 0, gather_shape, gather_grad,
     "params:Tparams, indices:Tindices -> output:Tparams; validate_indices:bool=true, "
     "Tparams:type, Tindices:index_type"},
    {"GatherV2", 0, gather_v2_shape, gather_v2_grad,
     "params:Tparams, indices:Tindices, axis:Taxis -> output:Tparams; Tparams:type, "
     "Tindices:index_type, Taxis:index_type"},
    {"GatherNd", 0, gather_nd_shape, gather_nd_grad,
     "params:Tparams, indices:Tindices -> output:Tparams; Tparams:type, "
     "Tindices:index_type"},
    {"ScatterNd", 0, scatter_nd_shape, scatter_nd_grad,
     "indices:Tindices, updates:T, shape:Tindices -> output:T; T:number_type, "
     "Tindices:index_type"},
    {"UnsortedSegmentSum", 0, segment_sum_shape, segment_sum_grad,
     "data:T, segment_ids:Tindices, num_segments:Tnumsegments -> output:T; "
     "T:number_type, "
     "Tindices:index_type, Tnumsegments:index_type=int32",
     .ranks = "??0"},
    {"OneHot", OP_NO_GRADIENT, one_hot_shape, NULL,
     "indices:TI, depth:int32, on_value:T, off_value:T -> output:T; axis:int=-1, T:type, "
     "TI:type=int64",
     .ranks = "?000"},
    {"Where", OP_NO_GRADIENT, where_shape, NULL, "input:T -> index:int64; T:type=bool"},
};

const struct op_family ops_of_index = OP_FAMILY(rows);
