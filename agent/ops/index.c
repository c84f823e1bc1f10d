/* index.c - ops that select or add rows by index, and ops that compute indices.
 *
 * Gradients after TensorFlow 1.13's python/ops/array_grad.py; where TensorFlow builds
 * IndexedSlices, this builds a dense op with the same values. */
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"

#include <string.h>

/* ---- kernels ---- */

static int kern_gather(const struct kernel_args *a)
{
    const struct tensor *x = a->in[0], *indices = a->in[1];
    int axis = a->n_in > 2 ? positive_axis(tensor_int(a->in[2], 0), x->shape.rank) : 0;
    int64_t outer = span(&x->shape, 0, axis), rows = x->shape.dim[axis];
    size_t bytes = (size_t)span(&x->shape, axis + 1, x->shape.rank) * elem_size(x);
    int64_t n = tensor_elements(indices);
    char *dst = a->out[0]->data;

    for (int64_t o = 0; o < outer; o++) {
        for (int64_t i = 0; i < n; i++, dst += bytes) {
            int64_t row = tensor_int(indices, i);

            if (row < 0 || row >= rows)
                return err_set(a->err, ERR_ARG, "%s: index %lld is not in [0, %lld)",
                               operation_name(a->op), (long long)row, (long long)rows);
            memcpy(dst, (const char *)x->data + (size_t)(o * rows + row) * bytes, bytes);
        }
    }
    return 0;
}

static void add_elements(const struct tensor *y, int64_t to, const struct tensor *x,
                         int64_t from, int64_t n)
{
    for (int64_t i = 0; i < n; i++, to++, from++) {
        if (x->dtype == DT_FLOAT)
            tensor_f32(y)[to] += tensor_f32(x)[from];
        else if (x->dtype == DT_DOUBLE)
            ((double *)y->data)[to] += ((const double *)x->data)[from];
        else
            tensor_set_int(y, to, tensor_int(y, to) + tensor_int(x, from));
    }
}

/* The gradient of Gather (UnsortedSegmentSum): row r of the output is the sum of the rows
 * i of x with ids[i] = r. Rows with negative ids are ignored. */
static int kern_segment_sum(const struct kernel_args *a)
{
    const struct tensor *x = a->in[0], *ids = a->in[1], *y = a->out[0];
    int64_t n = tensor_elements(ids), rows = y->shape.dim[0];
    int64_t width = n > 0 ? tensor_elements(x) / n : 0;

    clear(y);
    for (int64_t i = 0; i < n; i++) {
        int64_t row = tensor_int(ids, i);

        if (row >= rows)
            return err_set(a->err, ERR_ARG, "%s: id %lld is not below %lld",
                           operation_name(a->op), (long long)row, (long long)rows);
        if (row < 0)
            continue;
        add_elements(y, row * width, x, i * width, width);
    }
    return 0;
}

/* Returns the number of the piece of x that row `row` of indices names: the row's K
 * indices are for the first K dimensions of x. -1 after an error. */
static int64_t piece_at(const struct kernel_args *a, const struct tensor *indices,
                        int64_t row, const struct shape *x)
{
    const int k = (int)indices->shape.dim[indices->shape.rank - 1];
    int64_t at = 0;

    for (int d = 0; d < k; d++) {
        const int64_t i = tensor_int(indices, row * k + d);

        if (i < 0 || i >= x->dim[d]) {
            (void)err_set(a->err, ERR_ARG,
                          "%s: index %lld of dimension %d is not in [0, %lld)",
                          operation_name(a->op), (long long)i, d, (long long)x->dim[d]);
            return -1;
        }
        at = at * x->dim[d] + i;
    }
    return at;
}

static int kern_gather_nd(const struct kernel_args *a)
{
    const struct tensor *x = a->in[0], *indices = a->in[1];
    const int last = indices->shape.rank - 1;
    const int64_t rows = span(&indices->shape, 0, last);
    const size_t bytes =
        (size_t)span(&x->shape, (int)indices->shape.dim[last], x->shape.rank) *
        elem_size(x);

    for (int64_t i = 0; i < rows; i++) {
        const int64_t at = piece_at(a, indices, i, &x->shape);

        if (at < 0)
            return ERR_ARG;
        if (bytes > 0)
            memcpy((char *)a->out[0]->data + (size_t)i * bytes,
                   (const char *)x->data + (size_t)at * bytes, bytes);
    }
    return 0;
}

/* in: indices, updates, shape. Updates of the same place are added in their order. */
static int kern_scatter_nd(const struct kernel_args *a)
{
    const struct tensor *indices = a->in[0], *y = a->out[0];
    const int last = indices->shape.rank - 1;
    const int64_t rows = span(&indices->shape, 0, last);
    const int64_t width = span(&y->shape, (int)indices->shape.dim[last], y->shape.rank);

    clear(y);
    for (int64_t i = 0; i < rows; i++) {
        const int64_t at = piece_at(a, indices, i, &y->shape);

        if (at < 0)
            return ERR_ARG;
        add_elements(y, at * width, a->in[1], i * width, width);
    }
    return 0;
}

/* Whether the element is not zero; -0.0 is zero. */
static int is_true(const struct tensor *x, int64_t i)
{
    static const char zeros[sizeof(double)];
    const size_t bytes = dtype_size(x->dtype);

    if (x->dtype == DT_FLOAT)
        return ((const float *)x->data)[i] != 0;
    if (x->dtype == DT_DOUBLE)
        return ((const double *)x->data)[i] != 0;
    return memcmp((const char *)x->data + (size_t)i * bytes, zeros, bytes) != 0;
}

/* Writes the index of each true element as a row. */
static int kern_where(const struct kernel_args *a)
{
    const struct tensor *x = a->in[0];
    int64_t *row = a->out[0]->data;

    for (int64_t i = 0; i < tensor_elements(x); i++) {
        int64_t rest = i;

        if (!is_true(x, i))
            continue;
        for (int d = x->shape.rank - 1; d >= 0; d--) {
            row[d] = rest % x->shape.dim[d];
            rest /= x->shape.dim[d];
        }
        row += x->shape.rank;
    }
    return 0;
}

static int kern_invert_permutation(const struct kernel_args *a)
{
    int64_t n = tensor_elements(a->in[0]);

    for (int64_t i = 0; i < n; i++)
        tensor_set_int(a->out[0], i, -1);
    for (int64_t i = 0; i < n; i++) {
        int64_t p = tensor_int(a->in[0], i);

        if (p < 0 || p >= n || tensor_int(a->out[0], p) >= 0)
            return err_set(a->err, ERR_ARG, "%s: %lld in a permutation of %lld, %s",
                           operation_name(a->op), (long long)p, (long long)n,
                           p < 0 || p >= n ? "not an index" : "twice");
        tensor_set_int(a->out[0], p, i);
    }
    return 0;
}

static int kern_one_hot(const struct kernel_args *a)
{
    const struct tensor *indices = a->in[0], *out = a->out[0];
    size_t elem = elem_size(out);
    int axis = positive_axis(attr_int(a->op, "axis"), out->shape.rank);
    int64_t depth = out->shape.dim[axis];
    int64_t inner = span(&out->shape, axis + 1, out->shape.rank);
    int64_t n = tensor_elements(indices);
    struct copy_plan c = {1, {tensor_elements(out)}, {0}, {(int64_t)elem}};

    if (indices->dtype != DT_UINT8 && indices->dtype != DT_INT32 &&
        indices->dtype != DT_INT64)
        return err_set(a->err, ERR_UNSUPPORTED, "%s: no OneHot of %s",
                       operation_name(a->op), dtype_name(indices->dtype));
    copy_strided(out->data, a->in[3]->data, &c, elem);
    for (int64_t i = 0; i < n; i++) {
        int64_t hot = indices->dtype == DT_UINT8 ? ((const uint8_t *)indices->data)[i]
                                                 : tensor_int(indices, i);

        if (hot < 0 || hot >= depth)
            continue;
        int64_t at = ((i / inner) * depth + hot) * inner + i % inner;
        memcpy((char *)out->data + (size_t)at * elem, a->in[2]->data, elem);
    }
    return 0;
}

/* in: n tensors of indices, then n of data. Row indices[i][k] of the result is row k of
 * data i. Rows that no index names are zero. */
static int kern_dynamic_stitch(const struct kernel_args *a)
{
    const struct tensor *y = a->out[0];
    int64_t rows = y->shape.dim[0];
    size_t bytes = rows > 0 ? tensor_bytes(y) / (size_t)rows : 0;

    clear(y);
    for (int i = 0; i < a->n_in / 2; i++) {
        const struct tensor *indices = a->in[i], *data = a->in[a->n_in / 2 + i];

        for (int64_t k = 0; k < tensor_elements(indices); k++) {
            int64_t row = tensor_int(indices, k);

            if (row < 0 || row >= rows)
                return err_set(a->err, ERR_ARG, "%s: index %lld is not in [0, %lld)",
                               operation_name(a->op), (long long)row, (long long)rows);
            memcpy((char *)y->data + (size_t)row * bytes,
                   (const char *)data->data + (size_t)k * bytes, bytes);
        }
    }
    return 0;
}

/* ---- shapes and gradients ---- */

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
int shape_unsorted_segments(const struct shape_args *args)
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
    const struct tensor *x = args->is_planning ? args->value[0] : NULL;
    int64_t n = x != NULL ? 0 : -1;

    if (x != NULL && !dtype_is_integer(x->dtype) && x->dtype != DT_BOOL &&
        x->dtype != DT_FLOAT && x->dtype != DT_DOUBLE)
        return err_set(args->err, ERR_UNSUPPORTED, "no Where of %s",
                       dtype_name(x->dtype));
    for (int64_t i = 0; x != NULL && i < tensor_elements(x); i++)
        n += is_true(x, i);
    args->out[0] = SHAPE(n, args->in[0].rank);
    return 0;
}

static int invert_permutation_shape(const struct shape_args *args)
{
    args->out[0] = args->in[0].rank < 0 ? SHAPE(-1) : args->in[0];
    return 0;
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
        const struct tensor *at = args->value[i];

        if (stitched_row(args, i, &row) != 0)
            return ERR_SHAPE;
        if (shape_merge(&all, &row, &all) != 0)
            return err_set(args->err, ERR_SHAPE, "rows of shapes %s and %s differ",
                           shape_text(&all), shape_text(&row));
        if (at == NULL)
            largest = INT64_MAX;
        for (int64_t k = 0; at != NULL && k < tensor_elements(at); k++)
            largest = tensor_int(at, k) > largest ? tensor_int(at, k) : largest;
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

/* ---- the rows ---- */

static const struct op_def rows[] = {
    {"Gather", 0, gather_shape, gather_grad, CALL(kern_gather),
     "params:Tparams, indices:Tindices -> output:Tparams; validate_indices:bool=true, "
     "Tparams:type, Tindices:index_type"},
    {"GatherV2", 0, gather_v2_shape, gather_v2_grad, CALL(kern_gather),
     "params:Tparams, indices:Tindices, axis:Taxis -> output:Tparams; Tparams:type, "
     "Tindices:index_type, Taxis:index_type"},
    {"GatherNd", 0, gather_nd_shape, gather_nd_grad, CALL(kern_gather_nd),
     "params:Tparams, indices:Tindices -> output:Tparams; Tparams:type, "
     "Tindices:index_type"},
    {"ScatterNd", 0, scatter_nd_shape, scatter_nd_grad, CALL(kern_scatter_nd),
     "indices:Tindices, updates:T, shape:Tindices -> output:T; T:number_type, "
     "Tindices:index_type"},
    {"UnsortedSegmentSum", 0, shape_unsorted_segments, segment_sum_grad,
     CALL(kern_segment_sum),
     "data:T, segment_ids:Tindices, num_segments:Tnumsegments -> output:T; "
     "T:number_type, "
     "Tindices:index_type, Tnumsegments:index_type=int32",
     .ranks = "??0"},
    {"OneHot", OP_NO_GRADIENT, one_hot_shape, NULL, CALL(kern_one_hot),
     "indices:TI, depth:int32, on_value:T, off_value:T -> output:T; axis:int=-1, T:type, "
     "TI:type=int64",
     .ranks = "?000"},
    {"InvertPermutation", OP_NO_GRADIENT, invert_permutation_shape, NULL,
     CALL(kern_invert_permutation), "x:T -> y:T; T:index_type=int32", .ranks = "1"},
    {"DynamicStitch", 0, dynamic_stitch_shape, dynamic_stitch_grad,
     CALL(kern_dynamic_stitch), "indices:N*int32, data:N*T -> merged:T; N:int, T:type",
     .sized_by = "indices"},
    {"ParallelDynamicStitch", 0, dynamic_stitch_shape, dynamic_stitch_grad,
     CALL(kern_dynamic_stitch), "indices:N*int32, data:N*T -> merged:T; N:int, T:type",
     .sized_by = "indices"},
    {"Where", OP_NO_GRADIENT, where_shape, NULL, CALL(kern_where),
     "input:T -> index:int64; T:type=bool", .sized_by = "input"},
};

const struct op_family ops_of_index = OP_FAMILY(rows);
