/* index.c - ops that select rows by index, sum rows by index, or compute indices.
 *
 * Gradients after TensorFlow 1.13's python/ops/array_grad.py; where TensorFlow builds
 * IndexedSlices, this builds a dense op with the same values. */
#include "agent/ops/index.h"

#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"

#include <string.h>

/* ---- kernels ---- */

/* The number of leading dimensions of indices that are also the first ones of params. */
static int n_batch_dims(const struct operation *op, const struct shape *indices)
{
    const struct attr *a = operation_attr(op, "batch_dims");

    return a == NULL ? 0 : (int)(a->i < 0 ? a->i + indices->rank : a->i);
}

/* in: params, indices, and axis if it is not the first after the batch dimensions */
static int kern_gather(const struct kernel_args *a)
{
    const struct tensor *x = a->in[0], *indices = a->in[1];
    const int batch = n_batch_dims(a->op, &indices->shape);
    const int axis =
        a->n_in > 2 ? positive_axis(tensor_int(a->in[2], 0), x->shape.rank) : batch;
    const int64_t groups = span(&x->shape, 0, batch), rows = x->shape.dim[axis];
    const int64_t outer = span(&x->shape, batch, axis);
    const int64_t n = span(&indices->shape, batch, indices->shape.rank);
    size_t bytes = (size_t)span(&x->shape, axis + 1, x->shape.rank) * elem_size(x);
    char *dst = a->out[0]->data;

    for (int64_t o = 0; o < groups * outer; o++) {
        for (int64_t i = 0; i < n; i++, dst += bytes) {
            int64_t row = tensor_int(indices, o / outer * n + i);

            if (row < 0 || row >= rows)
                return err_set(a->err, ERR_ARG, "%s: index %lld is not in [0, %lld)",
                               operation_name(a->op), (long long)row, (long long)rows);
            if (bytes > 0)
                memcpy(dst, (const char *)x->data + (size_t)(o * rows + row) * bytes,
                       bytes);
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

int64_t piece_at(const struct kernel_args *a, const struct tensor *indices, int k,
                 int64_t row, const struct shape *x)
{
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
    const int last = indices->shape.rank - 1, k = (int)indices->shape.dim[last];
    const int64_t rows = span(&indices->shape, 0, last);
    const size_t bytes = (size_t)span(&x->shape, k, x->shape.rank) * elem_size(x);

    for (int64_t i = 0; i < rows; i++) {
        const int64_t at = piece_at(a, indices, k, i, &x->shape);

        if (at < 0)
            return ERR_ARG;
        if (bytes > 0)
            memcpy((char *)a->out[0]->data + (size_t)i * bytes,
                   (const char *)x->data + (size_t)at * bytes, bytes);
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

/* in: indices, dims; out: for each dimension the indices' places in it */
static int kern_unravel_index(const struct kernel_args *a)
{
    const struct tensor *indices = a->in[0], *dims = a->in[1];
    const int64_t n = tensor_elements(indices), rank = tensor_elements(dims);
    int64_t all = 1;

    for (int64_t d = 0; d < rank; d++)
        if (tensor_int(dims, d) < 0 ||
            __builtin_mul_overflow(all, tensor_int(dims, d), &all))
            return err_set(a->err, ERR_ARG, "%s: dims[%lld] is %lld",
                           operation_name(a->op), (long long)d,
                           (long long)tensor_int(dims, d));
    for (int64_t i = 0; i < n; i++) {
        int64_t at = tensor_int(indices, i);

        if (at < 0 || at >= all)
            return err_set(a->err, ERR_ARG, "%s: index %lld is out of bound as with dims",
                           operation_name(a->op), (long long)at);
        for (int64_t d = rank - 1; d >= 0; d--) {
            tensor_set_int(a->out[0], d * n + i, at % tensor_int(dims, d));
            at /= tensor_int(dims, d);
        }
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
            if (bytes > 0)
                memcpy((char *)y->data + (size_t)row * bytes,
                       (const char *)data->data + (size_t)k * bytes, bytes);
        }
    }
    return 0;
}

/* ---- shapes and gradients ---- */

/* x, the shape of params, with dimension `axis` replaced by the dimensions of indices after the
 * batch dimensions, which are the first ones of both. */
static int gathered_shape(const struct shape_args *args, const struct shape *x,
                          int64_t axis)
{
    const struct shape *at = &args->in[1];
    const int batch = n_batch_dims(args->op, at);
    struct shape out = {0};

    if (x->rank < 0 || at->rank < 0)
        return 0;
    if (batch < 0 || batch > at->rank || batch > x->rank)
        return err_set(args->err, ERR_SHAPE, "%d batch dimensions of %s and %s", batch,
                       shape_text(x), shape_text(at));
    if (x->rank == 0 || axis < -x->rank || axis >= x->rank)
        return err_set(args->err, ERR_SHAPE, "axis %lld of %s", (long long)axis,
                       shape_text(x));
    axis += axis < 0 ? x->rank : 0;
    if (axis < batch)
        return err_set(args->err, ERR_SHAPE, "axis %lld is one of %d batch dimensions",
                       (long long)axis, batch);
    if (x->rank + at->rank - batch - 1 > SHAPE_MAX_RANK)
        return err_set(args->err, ERR_SHAPE, "more than %d dimensions", SHAPE_MAX_RANK);
    for (int i = 0; i < x->rank; i++) {
        if (i != axis)
            out.dim[out.rank++] = x->dim[i];
        for (int k = batch; i == axis && k < at->rank; k++)
            out.dim[out.rank++] = at->dim[k];
    }
    for (int i = 0; i < batch; i++) {
        if (x->dim[i] >= 0 && at->dim[i] >= 0 && x->dim[i] != at->dim[i])
            return err_set(args->err, ERR_SHAPE,
                           "batch dimension %d of %s and %s differs", i, shape_text(x),
                           shape_text(at));
        out.dim[i] = at->dim[i] >= 0 ? at->dim[i] : x->dim[i];
    }
    args->out[0] = out;
    return 0;
}

static int gather_shape(const struct shape_args *args)
{
    return gathered_shape(args, &args->in[0], 0);
}

static int gather_v2_shape(const struct shape_args *args)
{
    int64_t axis;

    if (value_ints(args, 2, &axis, 1) != 1)
        return 0;
    return gathered_shape(args, &args->in[0], axis);
}

static int resource_gather_shape(const struct shape_args *args)
{
    struct shape x;
    const int rc = variable_shape(args, 0, "dtype", &x);

    return rc != 0 ? rc : gathered_shape(args, &x, n_batch_dims(args->op, &args->in[1]));
}

struct output shape_as(struct graph *g, struct output x, struct output like)
{
    const int is_handle = output_dtype(x) == DT_RESOURCE;
    struct op_builder *b = op_begin(g, is_handle ? "VariableShape" : "Shape", NULL);

    op_input(b, x);
    op_attr_type(b, "out_type", output_dtype(like));
    return (struct output){op_finish(b), 0};
}

/* int32 */
static struct output params_shape(struct graph *g, struct output params)
{
    return output_dtype(params) == DT_RESOURCE ? unary(g, "VariableShape", params, NULL)
                                               : shape_of(g, params, NULL);
}

static struct output dim_of_value(struct graph *g, struct output shape, int32_t axis)
{
    return vector_slice(g, shape, axis, axis + 1, "shrink_axis_mask");
}

static struct output permuted(struct graph *g, struct output x, const int32_t *perm,
                              int n)
{
    struct output p = constant_i32s(g, perm, (size_t)n, "transpose/perm");

    return binary(g, "Transpose", x, p, "transpose");
}

/* The gradient of rows gathered along an axis. */
struct gathered {
    struct output grad, ids, shape; /* shape: of params, int32 */
    int rank, at;                   /* of params and indices */
    int axis, batch;
};

/* Moves the gathered dimensions before those between the batch and the axis. */
static struct output rows_first(struct graph *g, const struct gathered *r)
{
    const int n_rows = r->at - r->batch;
    int32_t perm[SHAPE_MAX_RANK];
    int n = 0;

    for (int i = 0; i < r->batch; i++)
        perm[n++] = i;
    for (int i = 0; i < n_rows; i++)
        perm[n++] = r->axis + i;
    for (int i = r->batch; i < r->rank + n_rows - 1; i++)
        if (i < r->axis || i >= r->axis + n_rows)
            perm[n++] = i;
    return permuted(g, r->grad, perm, n);
}

/* Numbers the rows of all batches one after the other: each batch has dim(axis) of them. */
static struct output ids_in_batches(struct graph *g, const struct gathered *r,
                                    struct output batches, struct output n_batches)
{
    struct output first, sizes[2], zero = constant_i32(g, 0, "range/start");

    first =
        ternary(g, "Range", zero, n_batches, constant_i32(g, 1, "range/delta"), "range");
    first = binary(g, "Mul", first, dim_of_value(g, r->shape, r->axis), "mul");
    sizes[0] = batches;
    sizes[1] = ones(g, DT_INT32, &(struct shape){1, {r->at - r->batch}}, NULL);
    first = binary(g, "Reshape", first, concat(g, sizes, 2, 0, NULL), NULL);
    return binary(g, "Add", r->ids, cast(g, first, output_dtype(r->ids), NULL), "add");
}

/* Sums the gradients of each row, and moves the dimensions back. */
static struct output gathered_grad(struct graph *g, const struct gathered *r)
{
    struct output d = r->grad, ids = r->ids, n = dim_of_value(g, r->shape, r->axis);
    int32_t there[SHAPE_MAX_RANK], back[SHAPE_MAX_RANK];

    if (r->axis == 0)
        return ternary(g, "UnsortedSegmentSum", d, ids, n, NULL);
    if (r->axis > r->batch)
        d = rows_first(g, r);
    if (r->batch > 0) {
        struct output batches = vector_slice(g, r->shape, 0, r->batch, "begin_mask");
        struct output n_batches =
            reduce(g, "Prod", batches, (const int32_t[]){0}, 1, 0, NULL);

        ids = ids_in_batches(g, r, batches, n_batches);
        n = binary(g, "Mul", n, n_batches, "mul");
    }
    d = ternary(g, "UnsortedSegmentSum", d, ids, n, NULL);
    for (int i = 0; i < r->rank; i++) {
        there[i] = i < r->batch ? i : i == r->batch ? r->axis : i <= r->axis ? i - 1 : i;
        back[there[i]] = i;
    }
    if (r->batch > 0)
        d = binary(g, "Reshape", d,
                   binary(g, "Gather", r->shape,
                          constant_i32s(g, there, (size_t)r->rank, NULL), NULL),
                   NULL);
    return r->axis > r->batch ? permuted(g, d, back, r->rank) : d;
}

/* rank: of params */
static int gather_rows_grad(struct graph *g, struct operation *op, struct output grad,
                            int rank, int axis, struct output *grad_in)
{
    const struct shape indices = output_shape(input_of(op, 1));
    struct gathered r = {.grad = grad,
                         .ids = input_of(op, 1),
                         .rank = rank,
                         .at = indices.rank,
                         .axis = axis,
                         .batch = n_batch_dims(op, &indices)};

    r.shape = params_shape(g, input_of(op, 0));
    grad_in[0] = gathered_grad(g, &r);
    return grad_done(grad_in, 1);
}

GRAD(gather_grad)
{
    return gather_rows_grad(g, op, grad_out[0], -1, 0, grad_in);
}

static int needs_ranks(struct graph *g, const struct operation *op)
{
    return graph_fail(g, ERR_UNSUPPORTED,
                      "%s: the gradient needs a constant axis and known ranks",
                      operation_name(op));
}

GRAD(gather_v2_grad)
{
    const struct tensor *axis_value = output_constant(input_of(op, 2));
    const int rank = output_shape(input_of(op, 0)).rank;
    int axis;

    if (axis_value == NULL || rank < 1 || output_shape(input_of(op, 1)).rank < 0)
        return needs_ranks(g, op);
    axis = positive_axis(tensor_int(axis_value, 0), rank);
    return gather_rows_grad(g, op, grad_out[0], rank, axis, grad_in);
}

GRAD(resource_gather_grad)
{
    const struct operation *v = operation_behind_handle(input_of(op, 0));
    const struct shape indices = output_shape(input_of(op, 1));
    const int rank = v != NULL ? attr_shape(v, "shape")->rank : -1;

    if (attr_int(op, "batch_dims") != 0 && (rank < 1 || indices.rank < 0))
        return needs_ranks(g, op);
    return gather_rows_grad(g, op, grad_out[0], rank, n_batch_dims(op, &indices),
                            grad_in);
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

/* The length K of the last dimension of indices; -1: not known. */
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

int indexed_shape(const struct shape_args *args, const struct shape *indices,
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

static int resource_gather_nd_shape(const struct shape_args *args)
{
    struct shape x;
    const int rc = variable_shape(args, 0, "dtype", &x);

    return rc != 0 ? rc : indexed_shape(args, &args->in[1], &x, &args->out[0]);
}

/* Adds the gradients of elements that were gathered more than once. */
GRAD(gather_nd_grad)
{
    struct output shape = shape_as(g, input_of(op, 0), input_of(op, 1));

    grad_in[0] = ternary(g, "ScatterNd", input_of(op, 1), grad_out[0], shape, NULL);
    return grad_done(grad_in, 1);
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

/* (dims), or (dims, indices) */
static int unravel_index_shape(const struct shape_args *args)
{
    const int64_t dims = dim_of(&args->in[1], 0);

    if (args->in[0].rank > 1)
        return err_set(args->err, ERR_SHAPE, "The indices can only be scalar or vector");
    if (args->in[0].rank >= 0)
        args->out[0] =
            args->in[0].rank == 0 ? SHAPE(dims) : SHAPE(dims, dim_of(&args->in[0], 0));
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
     "params:Tparams, indices:Tindices, axis:Taxis -> output:Tparams; batch_dims:int=0, "
     "Tparams:type, Tindices:index_type, Taxis:index_type"},
    {"ResourceGather", OP_STATEFUL, resource_gather_shape, resource_gather_grad,
     CALL(kern_gather),
     "resource:resource, indices:Tindices -> output:dtype; batch_dims:int=0, "
     "validate_indices:bool=true, dtype:type, Tindices:index_type"},
    {"GatherNd", 0, gather_nd_shape, gather_nd_grad, CALL(kern_gather_nd),
     "params:Tparams, indices:Tindices -> output:Tparams; Tparams:type, "
     "Tindices:index_type"},
    {"ResourceGatherNd", OP_STATEFUL, resource_gather_nd_shape, gather_nd_grad,
     CALL(kern_gather_nd),
     "resource:resource, indices:Tindices -> output:dtype; dtype:type, "
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
    {"UnravelIndex", OP_NO_GRADIENT, unravel_index_shape, NULL, CALL(kern_unravel_index),
     "indices:Tidx, dims:Tidx -> output:Tidx; Tidx:index_type=int32", .ranks = "?1"},
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
