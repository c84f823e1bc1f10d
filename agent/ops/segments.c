/* segments.c - sums, products and extrema of the rows of each segment.
 *
 * A row belongs to the segment that its id names. Sorted ids do not decrease, and the last one
 * gives the number of segments. Rows are taken in order.
 *
 * Gradients after TensorFlow 1.13's python/ops/math_grad.py. */
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- rows ---- */

enum fold { FOLD_SUM, FOLD_PROD, FOLD_MAX, FOLD_MIN };

/* integers wrap around, as unsigned ones */
#define FOLD_TYPES(X)                                                                    \
    X(DT_FLOAT, float, float, -FLT_MAX, FLT_MAX)                                         \
    X(DT_DOUBLE, double, double, -DBL_MAX, DBL_MAX)                                      \
    X(DT_INT32, int32_t, uint32_t, INT32_MIN, INT32_MAX)                                 \
    X(DT_INT64, int64_t, uint64_t, INT64_MIN, INT64_MAX)

#define FOLD_ROW(symbol, T, U, lowest, highest)                                          \
    static void fold_##T(T *y, const T *x, int64_t n, enum fold how)                     \
    {                                                                                    \
        for (int64_t i = 0; i < n; i++) {                                                \
            if (how == FOLD_SUM)                                                         \
                y[i] = (T)((U)y[i] + (U)x[i]);                                           \
            else if (how == FOLD_PROD)                                                   \
                y[i] = (T)((U)y[i] * (U)x[i]);                                           \
            else if (how == FOLD_MAX ? x[i] > y[i] : x[i] < y[i])                        \
                y[i] = x[i];                                                             \
        }                                                                                \
    }                                                                                    \
    static void fill_##T(T *y, int64_t n, enum fold how)                                 \
    {                                                                                    \
        const T v = how == FOLD_MAX   ? lowest                                           \
                    : how == FOLD_MIN ? highest                                          \
                                      : (T)(how == FOLD_PROD);                           \
                                                                                         \
        for (int64_t i = 0; i < n; i++)                                                  \
            y[i] = v;                                                                    \
    }                                                                                    \
    static void divide_##T(T *y, int64_t n, T by)                                        \
    {                                                                                    \
        for (int64_t i = 0; i < n; i++)                                                  \
            y[i] = (T)(y[i] / by);                                                       \
    }
FOLD_TYPES(FOLD_ROW)
#undef FOLD_ROW

/* Adds row `from` of x to row `to` of y; multiplies; or keeps the larger or smaller one. */
static void fold_row(const struct tensor *y, int64_t to, const struct tensor *x,
                     int64_t from, int64_t width, enum fold how)
{
    switch (x->dtype) {
#define FOLD_CASE(symbol, T, U, lowest, highest)                                         \
    case symbol:                                                                         \
        fold_##T((T *)y->data + to * width, (const T *)x->data + from * width, width,    \
                 how);                                                                   \
        break;
        FOLD_TYPES(FOLD_CASE)
#undef FOLD_CASE
    default:
        break;
    }
}

static void copy_row(const struct tensor *y, int64_t to, const struct tensor *x,
                     int64_t from, int64_t width)
{
    const size_t bytes = (size_t)width * dtype_size(x->dtype);

    if (bytes > 0)
        memcpy((char *)y->data + (size_t)to * bytes,
               (const char *)x->data + (size_t)from * bytes, bytes);
}

/* What a segment without rows has. */
static void segments_fill(const struct tensor *y, enum fold how)
{
    const int64_t n = tensor_elements(y);

    switch (y->dtype) {
#define FILL_CASE(symbol, T, U, lowest, highest)                                         \
    case symbol:                                                                         \
        fill_##T(y->data, n, how);                                                       \
        break;
        FOLD_TYPES(FILL_CASE)
#undef FILL_CASE
    default:
        break;
    }
}

static void divide_row(const struct tensor *y, int64_t row, int64_t width, double by)
{
    switch (y->dtype) {
#define DIVIDE_CASE(symbol, T, U, lowest, highest)                                       \
    case symbol:                                                                         \
        divide_##T((T *)y->data + row * width, width, (T)by);                            \
        break;
        FOLD_TYPES(DIVIDE_CASE)
#undef DIVIDE_CASE
    default:
        break;
    }
}

static int64_t row_width(const struct tensor *x, int id_rank)
{
    return span(&x->shape, id_rank, x->shape.rank);
}

/* ---- unsorted ids ---- */

/* in: data, segment_ids, num_segments. Rows with negative ids are ignored. */
static int fold_unsorted(const struct kernel_args *a, enum fold how)
{
    const struct tensor *x = a->in[0], *ids = a->in[1], *y = a->out[0];
    const int64_t rows = y->shape.dim[0], width = row_width(x, ids->shape.rank);

    if (want_number(a) != 0)
        return ERR_UNSUPPORTED;
    segments_fill(y, how);
    for (int64_t i = 0; i < tensor_elements(ids); i++) {
        const int64_t row = tensor_int(ids, i);

        if (row >= rows)
            return err_set(a->err, ERR_ARG, "%s: id %lld is not below %lld",
                           operation_name(a->op), (long long)row, (long long)rows);
        if (row >= 0)
            fold_row(y, row, x, i, width, how);
    }
    return 0;
}

#define UNSORTED(name, how)                                                              \
    static int name(const struct kernel_args *a)                                         \
    {                                                                                    \
        return fold_unsorted(a, how);                                                    \
    }
UNSORTED(kern_unsorted_max, FOLD_MAX)
UNSORTED(kern_unsorted_min, FOLD_MIN)
UNSORTED(kern_unsorted_prod, FOLD_PROD)

/* ---- sorted ids ---- */

/* What the sum of a segment of n rows is divided by. */
enum norm { NORM_NONE, NORM_MEAN, NORM_SQRT };

static double norm_of(enum norm norm, int64_t n)
{
    return norm == NORM_MEAN ? (double)n : norm == NORM_SQRT ? sqrt((double)n) : 1;
}

/* Row of data i of the segments: indices[i], or i. -1 after an error. */
static int64_t row_at(const struct kernel_args *a, const struct tensor *indices,
                      int64_t i)
{
    const int64_t row = indices != NULL ? tensor_int(indices, i) : i;
    const int64_t rows = a->in[0]->shape.dim[0];

    if (row >= 0 && row < rows)
        return row;
    (void)err_set(a->err, ERR_ARG, "%s: indices[%lld] == %lld out of range [0, %lld)",
                  operation_name(a->op), (long long)i, (long long)row, (long long)rows);
    return -1;
}

/* Checks that id i is not below the one before, and that the result has a row for it. */
static int check_id(const struct kernel_args *a, const struct tensor *ids, int64_t i,
                    int64_t rows)
{
    const int64_t id = tensor_int(ids, i);

    if (id < 0 || id >= rows)
        return err_set(a->err, ERR_ARG, "%s: segment id %lld is not in [0, %lld)",
                       operation_name(a->op), (long long)id, (long long)rows);
    if (i > 0 && id < tensor_int(ids, i - 1))
        return err_set(a->err, ERR_ARG, "%s: segment ids are not increasing",
                       operation_name(a->op));
    return 0;
}

/* Segments without rows get 0, or 1 for products. indices NULL: all rows in order. */
static int fold_sorted(const struct kernel_args *a, const struct tensor *indices,
                       const struct tensor *ids, enum fold how, enum norm norm)
{
    const struct tensor *x = a->in[0], *y = a->out[0];
    const int64_t n = tensor_elements(ids), width = row_width(x, 1);
    int64_t begin = 0;

    if (want_number(a) != 0)
        return ERR_UNSUPPORTED;
    segments_fill(y, how == FOLD_PROD ? FOLD_PROD : FOLD_SUM);
    for (int64_t i = 0; i < n; i++) {
        int64_t id, row;

        if (check_id(a, ids, i, y->shape.dim[0]) != 0)
            return ERR_ARG;
        id = tensor_int(ids, i);
        row = row_at(a, indices, i);
        if (row < 0)
            return ERR_ARG;
        if (i == 0 || tensor_int(ids, i - 1) != id) {
            begin = i;
            copy_row(y, id, x, row, width);
        } else {
            fold_row(y, id, x, row, width, how);
        }
        if (norm != NORM_NONE && (i + 1 == n || tensor_int(ids, i + 1) != id))
            divide_row(y, id, width, norm_of(norm, i + 1 - begin));
    }
    return 0;
}

#define SORTED(name, how, norm)                                                          \
    static int name(const struct kernel_args *a)                                         \
    {                                                                                    \
        return fold_sorted(a, NULL, a->in[1], how, norm);                                \
    }
SORTED(kern_sum_segments, FOLD_SUM, NORM_NONE)
SORTED(kern_mean_segments, FOLD_SUM, NORM_MEAN)
SORTED(kern_prod_segments, FOLD_PROD, NORM_NONE)
SORTED(kern_max_segments, FOLD_MAX, NORM_NONE)
SORTED(kern_min_segments, FOLD_MIN, NORM_NONE)

#define SPARSE(name, norm)                                                               \
    static int name(const struct kernel_args *a)                                         \
    {                                                                                    \
        return fold_sorted(a, a->in[1], a->in[2], FOLD_SUM, norm);                       \
    }
SPARSE(kern_sparse_sum, NORM_NONE)
SPARSE(kern_sparse_mean, NORM_MEAN)
SPARSE(kern_sparse_sqrt, NORM_SQRT)

/* ---- the gradients of the sparse ones ---- */

static void add_scaled(const struct tensor *y, int64_t to, const struct tensor *x,
                       int64_t from, int64_t width, double scale)
{
    for (int64_t k = 0; k < width; k++) {
        const int64_t i = to * width + k, j = from * width + k;

        if (x->dtype == DT_FLOAT)
            tensor_f32(y)[i] += tensor_f32(x)[j] * (float)scale;
        else
            ((double *)y->data)[i] += ((const double *)x->data)[j] * scale;
    }
}

static int compare(const void *x, const void *y)
{
    const int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;

    return (a > b) - (a < b);
}

/* The different indices, in order; *ret_n: their number. NULL: no memory. free(). */
static int64_t *sorted_unique(const struct tensor *indices, int64_t *ret_n)
{
    const int64_t n = tensor_elements(indices);
    int64_t *ret = calloc((size_t)n + 1, sizeof(*ret));

    *ret_n = 0;
    if (ret == NULL)
        return NULL;
    for (int64_t i = 0; i < n; i++)
        ret[i] = tensor_int(indices, i);
    qsort(ret, (size_t)n, sizeof(*ret), compare);
    for (int64_t i = 0; i < n; i++)
        if (i == 0 || ret[i] != ret[i - 1])
            ret[(*ret_n)++] = ret[i];
    return ret;
}

/* in: grad, indices, segment_ids, output_dim0. Adds row segment_ids[i] of grad, divided as the
 * segment was, to row indices[i]; or, of the n different `rows`, to that which is indices[i]. */
static int spread_segments(const struct kernel_args *a, enum norm norm,
                           const int64_t *rows, int64_t n_rows)
{
    const struct tensor *grad = a->in[0], *at = a->in[1], *ids = a->in[2], *y = a->out[0];
    const int64_t n = tensor_elements(ids), width = row_width(grad, 1);
    const int64_t limit = tensor_int(a->in[3], 0);

    if (grad->dtype != DT_FLOAT && grad->dtype != DT_DOUBLE)
        return err_set(a->err, ERR_UNSUPPORTED, "%s: no %s of %s", operation_name(a->op),
                       operation_type(a->op), dtype_name(grad->dtype));
    clear(y);
    for (int64_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && tensor_int(ids, end) == tensor_int(ids, i); end++)
            if (check_id(a, ids, end, grad->shape.dim[0]) != 0)
                return ERR_ARG;
        for (int64_t k = i; k < end; k++) {
            int64_t to = tensor_int(at, k);

            if (to < 0 || to >= limit)
                return err_set(a->err, ERR_ARG, "%s: index %lld is not in [0, %lld)",
                               operation_name(a->op), (long long)to, (long long)limit);
            if (rows != NULL)
                to = (const int64_t *)bsearch(&to, rows, (size_t)n_rows, sizeof(*rows),
                                              compare) -
                     rows;
            add_scaled(y, to, grad, tensor_int(ids, k), width,
                       1 / norm_of(norm, end - i));
        }
    }
    return 0;
}

/* Computes only the rows that get something; out: these rows, and their numbers. */
static int spread_to_some(const struct kernel_args *a, enum norm norm)
{
    int64_t n, *rows = sorted_unique(a->in[1], &n);
    int rc;

    if (rows == NULL)
        return err_set(a->err, ERR_NOMEM, "%s: no memory for the rows",
                       operation_name(a->op));
    for (int64_t i = 0; i < n; i++)
        tensor_set_int(a->out[1], i, rows[i]);
    rc = spread_segments(a, norm, rows, n);
    free(rows);
    return rc;
}

#define SPREAD(name, name_of_some, norm)                                                 \
    static int name(const struct kernel_args *a)                                         \
    {                                                                                    \
        return spread_segments(a, norm, NULL, 0);                                        \
    }                                                                                    \
    static int name_of_some(const struct kernel_args *a)                                 \
    {                                                                                    \
        return spread_to_some(a, norm);                                                  \
    }
SPREAD(kern_spread_sum, kern_spread_sum_to_some, NORM_NONE)
SPREAD(kern_spread_mean, kern_spread_mean_to_some, NORM_MEAN)
SPREAD(kern_spread_sqrt, kern_spread_sqrt_to_some, NORM_SQRT)

/* ---- shapes ---- */

/* (n segments, the dimensions of a row) */
static int segment_rows(const struct shape_args *args, int ids, int64_t n)
{
    const struct shape *data = &args->in[0];

    if (data->rank == 0)
        return err_set(args->err, ERR_SHAPE, "data is a scalar, without rows");
    if (n < -1)
        return err_set(args->err, ERR_SHAPE, "%lld segments", (long long)n);
    if (data->rank < 0)
        return 0;
    if (ids == 1 && dim_of(data, 0) >= 0 && dim_of(&args->in[1], 0) >= 0 &&
        dim_of(data, 0) != dim_of(&args->in[1], 0))
        return err_set(args->err, ERR_SHAPE, "%s rows of data have %s ids",
                       shape_text(data), shape_text(&args->in[1]));
    if (ids == 2 && dim_of(&args->in[1], 0) >= 0 && dim_of(&args->in[2], 0) >= 0 &&
        dim_of(&args->in[1], 0) != dim_of(&args->in[2], 0))
        return err_set(args->err, ERR_SHAPE, "%s indices have %s ids",
                       shape_text(&args->in[1]), shape_text(&args->in[2]));
    args->out[0] = *data;
    args->out[0].dim[0] = n;
    return 0;
}

/* One more than the last id, which is the largest; -1: not known, or no valid id. */
static int64_t last_id(const struct shape_args *args, int i)
{
    const struct tensor *ids = args->is_planning ? args->value[i] : NULL;
    int64_t n = ids != NULL ? tensor_elements(ids) : 0;

    if (ids == NULL)
        return -1;
    if (n == 0)
        return 0;
    n = tensor_int(ids, n - 1);
    return n >= 0 && n < INT64_MAX ? n + 1 : -2;
}

static int sorted_shape(const struct shape_args *args)
{
    return segment_rows(args, 1, last_id(args, 1));
}

static int sparse_shape(const struct shape_args *args)
{
    return segment_rows(args, 2, last_id(args, 2));
}

/* The number of rows is the value of input 3. */
static int numbered_shape(const struct shape_args *args)
{
    int64_t n = -1;

    if (value_ints(args, 3, &n, 1) == 1 && n < 0)
        return err_set(args->err, ERR_SHAPE, "%lld segments", (long long)n);
    return segment_rows(args, 2, n);
}

/* As many rows as there are different indices, and which they are. */
static int some_rows_shape(const struct shape_args *args)
{
    const struct tensor *indices = args->is_planning ? args->value[1] : NULL;
    int64_t n = -1;

    if (indices != NULL) {
        int64_t *rows = sorted_unique(indices, &n);

        if (rows == NULL)
            return err_set(args->err, ERR_NOMEM, "no memory for the rows");
        free(rows);
    }
    args->out[1] = SHAPE(n);
    return segment_rows(args, 2, n);
}

/* ---- gradients ---- */

static struct output rows_of(struct graph *g, struct output x)
{
    return vector_slice(g, shape_of(g, x, NULL), 0, 1, "shrink_axis_mask");
}

GRAD(sum_segments_grad)
{
    grad_in[0] = gather_rows(g, grad_out[0], input_of(op, 1));
    return grad_done(grad_in, 1);
}

/* The shape of ids, then ones for the other dimensions of data. */
static struct output ones_beside(struct graph *g, struct output data, struct output ids)
{
    struct output rank = rank_of(g, data), parts[2];
    struct output more = with_scalar(g, "Sub", rank, 1, "sub"), axis;

    parts[0] = shape_of(g, ids, NULL);
    axis = constant_i32(g, 0, "ExpandDims/dim");
    more = binary(g, "ExpandDims", more, axis, NULL);
    parts[1] = binary(g, "Fill", more, constant_i32(g, 1, "Fill/value"), NULL);
    return concat(g, parts, 2, 0, NULL);
}

GRAD(mean_segments_grad)
{
    struct output ids = input_of(op, 1), shape = ones_beside(g, input_of(op, 0), ids);
    struct output one = constant_like(g, output_dtype(grad_out[0]), 1, "Const");
    struct output n =
        binary(g, "SegmentSum", binary(g, "Fill", shape, one, NULL), ids, NULL);

    grad_in[0] = gather_rows(g, binary(g, "RealDiv", grad_out[0], n, "truediv"), ids);
    return grad_done(grad_in, 1);
}

/* The gradient of a segment is shared by the rows that have its extremum. */
GRAD(extremum_segments_grad)
{
    struct output x = input_of(op, 0), ids = input_of(op, 1);
    struct output none = zeros_like(g, x, NULL);
    struct output most = gather_rows(g, output_of(op, 0), ids);
    struct output is = binary(g, "Equal", x, most, NULL), n, d;

    n = binary(g, "SegmentSum", cast(g, is, output_dtype(grad_out[0]), NULL), ids, NULL);
    d = binary(g, "RealDiv", grad_out[0], n, "truediv");
    grad_in[0] = where(g, is, gather_rows(g, d, ids), none, NULL);
    return grad_done(grad_in, 1);
}

/* The product divided by the element; if the element is the only 0 of its segment, the product
 * of the others; and 0 in a segment with more zeros. TensorFlow has it since 2.3. */
GRAD(prod_segments_grad)
{
    struct output x = input_of(op, 0), ids = input_of(op, 1), d = grad_out[0];
    struct output is_zero = with_scalar(g, "Equal", x, 0, "Equal"), zeros, product,
                  others;

    zeros = binary(g, "SegmentSum", cast(g, is_zero, DT_INT32, NULL), ids, NULL);
    zeros = with_scalar(g, "Greater", zeros, 1, "Greater");
    d = where(g, zeros, zeros_like(g, d, NULL), d, NULL);
    others = where(g, is_zero, ones_like(g, x, NULL), x, NULL);
    others = binary(g, "SegmentProd", others, ids, NULL);
    product = gather_rows(g, output_of(op, 0), ids);
    others = gather_rows(g, others, ids);
    product = binary(g, "RealDiv", product, x, "truediv");
    product = where(g, is_zero, others, product, NULL);
    grad_in[0] = binary(g, "Mul", gather_rows(g, d, ids), product, "mul");
    return grad_done(grad_in, 1);
}

/* Ids without the negative ones, and which rows of data have an id. */
struct ids {
    struct output clipped, has_one;
};

/* The rows of x that the ids name, and zeros where an id is negative. */
static struct output gather_positive(struct graph *g, struct output x, struct output ids,
                                     int extra, struct ids *known)
{
    struct output rows;

    if (!output_valid(known->clipped))
        known->clipped = binary(g, "Maximum", ids, zeros_like(g, ids, NULL), NULL);
    rows = gather_rows(g, x, known->clipped);
    if (!output_valid(known->has_one)) {
        struct output is = with_scalar(g, "GreaterEqual", ids, 0, "GreaterEqual"), all;

        for (int i = 0; i < extra; i++) {
            struct output axis = constant_i32(g, -1, "ExpandDims/dim");

            is = binary(g, "ExpandDims", is, axis, NULL);
        }
        all = cast(g, ones_like(g, rows, NULL), DT_BOOL, NULL);
        known->has_one = binary(g, "LogicalAnd", is, all, "and");
    }
    return where(g, known->has_one, rows, zeros_like(g, rows, NULL), NULL);
}

/* How many more dimensions data has than its ids; -1, with an error: not known. */
static int extra_dimensions(struct graph *g, struct operation *op)
{
    const int rank = output_shape(input_of(op, 0)).rank;
    const int of_ids = output_shape(input_of(op, 1)).rank;

    if (rank >= 0 && of_ids >= 0)
        return rank - of_ids;
    (void)graph_fail(g, ERR_UNSUPPORTED, "%s: the gradient needs known ranks",
                     operation_name(op));
    return -1;
}

GRAD(extremum_unsorted_grad)
{
    struct output x = input_of(op, 0), at = input_of(op, 1), most, is, n, d;
    struct ids known = {OUTPUT_NONE, OUTPUT_NONE};
    const int extra = extra_dimensions(g, op);

    if (extra < 0)
        return ERR_UNSUPPORTED;
    most = gather_positive(g, output_of(op, 0), at, extra, &known);
    is = binary(g, "Equal", x, most, NULL);
    is = binary(g, "LogicalAnd", is, known.has_one, NULL);
    n = ternary(g, "UnsortedSegmentSum", cast(g, is, output_dtype(grad_out[0]), NULL), at,
                input_of(op, 2), NULL);
    d = binary(g, "RealDiv", grad_out[0], n, "truediv");
    d = gather_positive(g, d, at, extra, &known);
    grad_in[0] = where(g, is, d, zeros_like(g, d, NULL), NULL);
    return grad_done(grad_in, 1);
}

/* The product divided by the element; if the element is the only 0 of its segment, the product
 * of the others; and 0 in a segment with more zeros. */
GRAD(prod_unsorted_grad)
{
    struct output x = input_of(op, 0), at = input_of(op, 1), n = input_of(op, 2);
    struct ids known = {OUTPUT_NONE, OUTPUT_NONE};
    struct output d = grad_out[0], is_zero, zeros, nonzero, product, others;
    const int extra = extra_dimensions(g, op);

    if (extra < 0)
        return ERR_UNSUPPORTED;
    is_zero = with_scalar(g, "Equal", x, 0, "Equal");
    zeros =
        ternary(g, "UnsortedSegmentSum", cast(g, is_zero, DT_INT32, NULL), at, n, NULL);
    zeros = with_scalar(g, "Greater", zeros, 1, "Greater");
    d = where(g, zeros, zeros_like(g, d, NULL), d, NULL);
    nonzero = where(g, is_zero, ones_like(g, x, NULL), x, NULL);
    others = ternary(g, "UnsortedSegmentProd", nonzero, at, n, NULL);
    known.clipped = binary(g, "Maximum", at, zeros_like(g, at, NULL), NULL);
    product = gather_rows(g, output_of(op, 0), known.clipped);
    others = gather_rows(g, others, known.clipped);
    product = binary(g, "RealDiv", product, x, "truediv");
    product = where(g, is_zero, others, product, NULL);
    d = gather_positive(g, d, at, extra, &known);
    grad_in[0] = binary(g, "Mul", d, product, "mul");
    return grad_done(grad_in, 1);
}

GRAD(sparse_sum_grad)
{
    struct output rows = rows_of(g, input_of(op, 0));
    struct output d = gather_rows(g, grad_out[0], input_of(op, 2));

    grad_in[0] = ternary(g, "UnsortedSegmentSum", d, input_of(op, 1), rows, NULL);
    return grad_done(grad_in, 1);
}

static int spread_grad(struct graph *g, const char *type, struct operation *op,
                       struct output d, struct output *grad_in)
{
    struct output rows = rows_of(g, input_of(op, 0));
    struct op_builder *b = op_begin(g, type, NULL);

    op_input(b, d);
    op_input(b, input_of(op, 1));
    op_input(b, input_of(op, 2));
    op_input(b, rows);
    grad_in[0] = (struct output){op_finish(b), 0};
    return grad_done(grad_in, 1);
}

GRAD(sparse_mean_grad)
{
    return spread_grad(g, "SparseSegmentMeanGrad", op, grad_out[0], grad_in);
}

GRAD(sparse_sqrt_grad)
{
    return spread_grad(g, "SparseSegmentSqrtNGrad", op, grad_out[0], grad_in);
}

/* ---- the rows ---- */

#define SORTED_ROW(type, grad, kernel)                                                   \
    {                                                                                    \
        type, 0, sorted_shape, grad, CALL(kernel),                                       \
            "data:T, segment_ids:Tindices -> output:T; T:number_type, "                  \
            "Tindices:index_type",                                                       \
            .ranks = "?1", .sized_by = "segment_ids"                                     \
    }
#define UNSORTED_ROW(type, grad, kernel)                                                 \
    {                                                                                    \
        type, 0, shape_unsorted_segments, grad, CALL(kernel),                            \
            "data:T, segment_ids:Tindices, num_segments:Tnumsegments -> output:T; "      \
            "T:number_type, Tindices:index_type, Tnumsegments:index_type=int32",         \
            .ranks = "??0"                                                               \
    }
#define SPARSE_TYPES                                                                     \
    "Tidx:index_type=int32, Tsegmentids:index_type=int32, sparse_gradient:bool=false"
#define SPARSE_ROW(type, grad, kernel, T)                                                \
    {                                                                                    \
        type, 0, sparse_shape, grad, CALL(kernel),                                       \
            "data:T, indices:Tidx, segment_ids:Tsegmentids -> output:T; T:" T            \
            ", " SPARSE_TYPES,                                                           \
            .ranks = "?11", .sized_by = "segment_ids"                                    \
    }
#define NUMBERED_ROW(type, grad, kernel, T)                                              \
    {                                                                                    \
        type, 0, numbered_shape, grad, CALL(kernel),                                     \
            "data:T, indices:Tidx, segment_ids:Tsegmentids, num_segments:Tnumsegments "  \
            "-> output:T; T:" T ", Tnumsegments:index_type=int32, " SPARSE_TYPES,        \
            .ranks = "?110"                                                              \
    }
#define SPREAD_ROW(type, kernel)                                                         \
    {                                                                                    \
        type, OP_NO_GRADIENT, numbered_shape, NULL, CALL(kernel),                        \
            "grad:T, indices:Tidx, segment_ids:Tsegmentids, output_dim0:int32 -> "       \
            "output:T; T:float_type, Tidx:index_type=int32, "                            \
            "Tsegmentids:index_type=int32",                                              \
            .ranks = "?110"                                                              \
    }

/* What a gradient of rows that are in IndexedSlices is. */
#define SOME_ROW(type, kernel)                                                           \
    {                                                                                    \
        type, OP_NO_GRADIENT, some_rows_shape, NULL, CALL(kernel),                       \
            "grad:T, indices:Tidx, segment_ids:Tsegmentids, dense_output_dim0:int32 "    \
            "-> output:T, sorted_unique_indices:Tidx; T:float_type, "                    \
            "Tidx:index_type=int32, Tsegmentids:index_type=int32",                       \
            .ranks = "?110", .sized_by = "indices"                                       \
    }

static const struct op_def rows[] = {
    SORTED_ROW("SegmentSum", sum_segments_grad, kern_sum_segments),
    SORTED_ROW("SegmentMean", mean_segments_grad, kern_mean_segments),
    SORTED_ROW("SegmentProd", prod_segments_grad, kern_prod_segments),
    SORTED_ROW("SegmentMax", extremum_segments_grad, kern_max_segments),
    SORTED_ROW("SegmentMin", extremum_segments_grad, kern_min_segments),
    UNSORTED_ROW("UnsortedSegmentMax", extremum_unsorted_grad, kern_unsorted_max),
    UNSORTED_ROW("UnsortedSegmentMin", extremum_unsorted_grad, kern_unsorted_min),
    UNSORTED_ROW("UnsortedSegmentProd", prod_unsorted_grad, kern_unsorted_prod),
    SPARSE_ROW("SparseSegmentSum", sparse_sum_grad, kern_sparse_sum, "number_type"),
    SPARSE_ROW("SparseSegmentMean", sparse_mean_grad, kern_sparse_mean, "float_type"),
    SPARSE_ROW("SparseSegmentSqrtN", sparse_sqrt_grad, kern_sparse_sqrt, "float_type"),
    NUMBERED_ROW("SparseSegmentSumWithNumSegments", sparse_sum_grad, kern_sparse_sum,
                 "number_type"),
    NUMBERED_ROW("SparseSegmentMeanWithNumSegments", sparse_mean_grad, kern_sparse_mean,
                 "float_type"),
    NUMBERED_ROW("SparseSegmentSqrtNWithNumSegments", sparse_sqrt_grad, kern_sparse_sqrt,
                 "float_type"),
    SPREAD_ROW("SparseSegmentSumGrad", kern_spread_sum),
    SPREAD_ROW("SparseSegmentMeanGrad", kern_spread_mean),
    SPREAD_ROW("SparseSegmentSqrtNGrad", kern_spread_sqrt),
    SOME_ROW("SparseSegmentSumGradV2", kern_spread_sum_to_some),
    SOME_ROW("SparseSegmentMeanGradV2", kern_spread_mean_to_some),
    SOME_ROW("SparseSegmentSqrtNGradV2", kern_spread_sqrt_to_some),
};

const struct op_family ops_of_segments = OP_FAMILY(rows);
