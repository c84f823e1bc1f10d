/* sparse.c - sparse tensors: the indices of elements, their values and the shape of the dense tensor
 * that has zeros elsewhere.
 *
 * Indices are (n, rank), values (n), the shape (rank). An index out of bounds is an error in every
 * kernel. "In order" is row by row; of equal indices the first one stays first.
 *
 * Gradients after TensorFlow 1.13's python/ops/sparse_grad.py. */
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- inputs ---- */

/* Three inputs of a kernel, checked. */
struct sparse {
    const struct tensor *indices, *values;
    int64_t n;
    struct shape dense;
};

static int64_t index_at(const struct sparse *s, int64_t i, int d)
{
    return tensor_int(s->indices, i * s->dense.rank + d);
}

/* Reads the sizes of a dense tensor, of which it need not have elements. ERR_ARG, ERR_LIMIT. */
static int read_sizes(const struct kernel_args *a, const struct tensor *t,
                      struct shape *ret)
{
    int64_t n = 1;

    *ret = SHAPE_SCALAR;
    if (tensor_elements(t) > SHAPE_MAX_RANK)
        return err_set(a->err, ERR_LIMIT, "%s: a sparse tensor of %lld dimensions",
                       operation_name(a->op), (long long)tensor_elements(t));
    for (; ret->rank < tensor_elements(t); ret->rank++) {
        const int64_t size = tensor_int(t, ret->rank);

        if (size < 0 || __builtin_mul_overflow(n, size, &n))
            return err_set(a->err, ERR_ARG, "%s: dimension %d of a sparse tensor is %lld",
                           operation_name(a->op), ret->rank, (long long)size);
        ret->dim[ret->rank] = size;
    }
    return 0;
}

/* Reads inputs `indices`, `values` and `shape`; values -1: there are none. */
static int read_sparse(const struct kernel_args *a, int indices, int values, int shape,
                       struct sparse *ret)
{
    int rc;

    *ret = (struct sparse){.indices = a->in[indices],
                           .values = values >= 0 ? a->in[values] : NULL,
                           .n = a->in[indices]->shape.dim[0]};
    rc = read_sizes(a, a->in[shape], &ret->dense);
    for (int64_t i = 0; rc == 0 && i < ret->n; i++)
        for (int d = 0; d < ret->dense.rank; d++)
            if (index_at(ret, i, d) < 0 || index_at(ret, i, d) >= ret->dense.dim[d])
                return err_set(a->err, ERR_ARG,
                               "%s: indices[%lld, %d] = %lld is out of bounds: need 0 <= "
                               "index < %lld",
                               operation_name(a->op), (long long)i, d,
                               (long long)index_at(ret, i, d),
                               (long long)ret->dense.dim[d]);
    return rc;
}

/* Merges what is known of the number of elements and of dimensions; -1: not known. values -1:
 * there are none. */
static int sparse_sizes(const struct shape_args *args, int indices, int values, int shape,
                        int64_t *ret_n, int64_t *ret_rank)
{
    const int64_t n = dim_of(&args->in[indices], 0), rank = dim_of(&args->in[indices], 1);
    const int64_t of_values = values >= 0 ? dim_of(&args->in[values], 0) : -1;
    const int64_t of_shape = dim_of(&args->in[shape], 0);

    *ret_n = n >= 0 ? n : of_values;
    *ret_rank = rank >= 0 ? rank : of_shape;
    if ((of_values >= 0 && of_values != *ret_n) ||
        (of_shape >= 0 && of_shape != *ret_rank))
        return err_set(args->err, ERR_SHAPE,
                       "a sparse tensor of indices %s, shape %s%s%s",
                       shape_text(&args->in[indices]), shape_text(&args->in[shape]),
                       values >= 0 ? ", values " : "",
                       values >= 0 ? shape_text(&args->in[values]) : "");
    return 0;
}

/* ---- order ---- */

/* An element and where it stood. */
struct placed {
    const int64_t *index; /* [rank] */
    const char *value;
    int64_t from;
    int rank;
};

static int compare(const void *x, const void *y)
{
    const struct placed *a = x, *b = y;

    for (int d = 0; d < a->rank; d++)
        if (a->index[d] != b->index[d])
            return a->index[d] < b->index[d] ? -1 : 1;
    return (a->from > b->from) - (a->from < b->from);
}

static struct placed *placed_new(const struct kernel_args *a, int64_t n)
{
    struct placed *ret = calloc((size_t)n + 1, sizeof(*ret));

    if (ret == NULL)
        (void)err_set(a->err, ERR_NOMEM, "%s: no memory for %lld elements",
                      operation_name(a->op), (long long)n);
    return ret;
}

static void sort(struct placed *elements, int64_t n)
{
    qsort(elements, (size_t)n, sizeof(*elements), compare);
}

/* The elements in order. NULL: no memory, which is in the error. free(). */
static struct placed *in_order(const struct kernel_args *a, const struct sparse *s)
{
    struct placed *ret = placed_new(a, s->n);

    for (int64_t i = 0; ret != NULL && i < s->n; i++)
        ret[i] = (struct placed){(const int64_t *)s->indices->data + i * s->dense.rank,
                                 (const char *)s->values->data +
                                     (size_t)i * elem_size(s->values),
                                 i, s->dense.rank};
    if (ret != NULL)
        sort(ret, s->n);
    return ret;
}

static void put_element(const struct placed *e, const struct tensor *indices,
                        const struct tensor *values, int64_t to)
{
    const size_t size = elem_size(values);

    for (int d = 0; d < e->rank; d++)
        ((int64_t *)indices->data)[to * e->rank + d] = e->index[d];
    memcpy((char *)values->data + (size_t)to * size, e->value, size);
}

/* ---- arithmetic ---- */

enum combine { COMBINE_ADD, COMBINE_MULTIPLY };

/* integers wrap around, as unsigned ones */
#define NUMBERS(X)                                                                       \
    X(DT_FLOAT, float, float)                                                            \
    X(DT_DOUBLE, double, double)                                                         \
    X(DT_INT32, int32_t, uint32_t)                                                       \
    X(DT_INT64, int64_t, uint64_t)

#define COMBINE(symbol, T, U)                                                            \
    static void combine_##T(T *y, T x, enum combine how)                                 \
    {                                                                                    \
        *y = (T)(how == COMBINE_ADD ? (U)*y + (U)x : (U)*y * (U)x);                      \
    }                                                                                    \
    static void add_products_##T(T *y, T v, const T *x, int64_t n, int64_t step)         \
    {                                                                                    \
        for (int64_t j = 0; j < n; j++)                                                  \
            y[j] = (T)((U)y[j] + (U)v * (U)x[j * step]);                                 \
    }
NUMBERS(COMBINE)
#undef COMBINE

/* Adds element j of x to element i of y, or multiplies by it. */
static void combine(const struct tensor *y, int64_t i, const struct tensor *x, int64_t j,
                    enum combine how)
{
    switch (y->dtype) {
#define COMBINE_CASE(symbol, T, U)                                                       \
    case symbol:                                                                         \
        combine_##T((T *)y->data + i, ((const T *)x->data)[j], how);                     \
        break;
        NUMBERS(COMBINE_CASE)
#undef COMBINE_CASE
    default:
        break;
    }
}

/* Adds element v of `values` times n elements of x, `step` apart, to n of y. */
static void add_products(const struct tensor *y, int64_t to, const struct tensor *values,
                         int64_t v, const struct tensor *x, int64_t from, int64_t n,
                         int64_t step)
{
    switch (y->dtype) {
#define PRODUCTS_CASE(symbol, T, U)                                                      \
    case symbol:                                                                         \
        add_products_##T((T *)y->data + to, ((const T *)values->data)[v],                \
                         (const T *)x->data + from, n, step);                            \
        break;
        NUMBERS(PRODUCTS_CASE)
#undef PRODUCTS_CASE
    default:
        break;
    }
}

static int check_type(const struct kernel_args *a)
{
    const enum dtype t = a->out[0]->dtype;

    if (t == DT_FLOAT || t == DT_DOUBLE || t == DT_INT32 || t == DT_INT64)
        return 0;
    return err_set(a->err, ERR_UNSUPPORTED, "%s: no %s of %s", operation_name(a->op),
                   operation_type(a->op), dtype_name(t));
}

/* ---- products ---- */

/* a (M, K) b (K, N) -> (M, N); adjoint_a: a is (K, M), adjoint_b: b is (N, K) */
static int matmul_shape(const struct shape_args *args)
{
    const int ta = (int)attr_int(args->op, "adjoint_a");
    const int tb = (int)attr_int(args->op, "adjoint_b");
    const int64_t k = dim_of(&args->in[3], tb);
    struct shape dense;
    int64_t n, rank;

    if (sparse_sizes(args, 0, 1, 2, &n, &rank) != 0 || value_sizes(args, 2, &dense) != 0)
        return ERR_SHAPE;
    if (rank >= 0 && rank != 2)
        return err_set(args->err, ERR_SHAPE, "a sparse tensor of %lld dimensions",
                       (long long)rank);
    if (dim_of(&dense, !ta) >= 0 && k >= 0 && dim_of(&dense, !ta) != k)
        return err_set(args->err, ERR_SHAPE,
                       "Cannot multiply A and B because inner dimension does not match: "
                       "%lld vs. %lld",
                       (long long)dim_of(&dense, !ta), (long long)k);
    args->out[0] = SHAPE(dim_of(&dense, ta), dim_of(&args->in[3], !tb));
    return 0;
}

static int kern_matmul(const struct kernel_args *a)
{
    const int ta = (int)attr_int(a->op, "adjoint_a");
    const int tb = (int)attr_int(a->op, "adjoint_b");
    const struct tensor *b = a->in[3], *y = a->out[0];
    const int64_t width = y->shape.dim[1], cols = b->shape.dim[1];
    struct sparse x;
    int rc = check_type(a);

    if (rc == 0)
        rc = read_sparse(a, 0, 1, 2, &x);
    if (rc != 0)
        return rc;
    clear(y);
    for (int64_t i = 0; i < x.n; i++) {
        const int64_t row = index_at(&x, i, ta), k = index_at(&x, i, !ta);

        add_products(y, row * width, x.values, i, b, tb ? k : k * cols, width,
                     tb ? cols : 1);
    }
    return 0;
}

/* x[:, i] of indices */
static struct output column(struct graph *g, struct output x, int32_t i)
{
    struct output from, to, by;
    struct op_builder *b;

    name_scope_enter(g, "strided_slice");
    from = constant_i32s(g, (const int32_t[]){0, i}, 2, "stack");
    to = constant_i32s(g, (const int32_t[]){0, i + 1}, 2, "stack_1");
    by = constant_i32s(g, (const int32_t[]){1, 1}, 2, "stack_2");
    b = op_begin(g, "StridedSlice", graph_name_scope(g));
    op_input(b, x);
    op_input(b, from);
    op_input(b, to);
    op_input(b, by);
    op_attr_int(b, "begin_mask", 1);
    op_attr_int(b, "end_mask", 1);
    op_attr_int(b, "shrink_axis_mask", 2);
    name_scope_leave(g);
    return (struct output){op_finish(b), 0};
}

static struct output transposed(struct graph *g, struct output x)
{
    return binary(g, "Transpose", x,
                  constant_i32s(g, (const int32_t[]){1, 0}, 2, "transpose/perm"),
                  "transpose");
}

GRAD(matmul_grad)
{
    const int ta = (int)attr_int(op, "adjoint_a"), tb = (int)attr_int(op, "adjoint_b");
    struct output rows, cols, y = input_of(op, 3), d;
    struct op_builder *b = op_begin(g, "SparseTensorDenseMatMul", NULL);

    for (int i = 0; i < 3; i++)
        op_input(b, input_of(op, i));
    op_input(b, grad_out[0]);
    op_attr_bool(b, "adjoint_a", !ta);
    d = (struct output){op_finish(b), 0};
    grad_in[3] = tb ? transposed(g, d) : d;
    rows = column(g, input_of(op, 0), ta);
    cols = column(g, input_of(op, 0), !ta);
    d = gather_rows(g, grad_out[0], rows);
    d = binary(g, "Mul", d, gather_rows(g, tb ? transposed(g, y) : y, cols), "mul");
    grad_in[1] = reduce(g, "Sum", d, (const int32_t[]){1}, 1, 0, NULL);
    return output_valid(grad_in[1]) && output_valid(grad_in[3]) ? 0 : -1;
}

/* ---- the same elements: reshaped, in order ---- */

static int reshape_shape(const struct shape_args *args)
{
    int64_t n, rank;

    if (sparse_sizes(args, 0, -1, 1, &n, &rank) != 0)
        return ERR_SHAPE;
    args->out[0] = SHAPE(n, dim_of(&args->in[2], 0));
    args->out[1] = SHAPE(dim_of(&args->in[2], 0));
    return 0;
}

/* Reads the new shape, of which one dimension may be -1. */
static int read_new_shape(const struct kernel_args *a, const struct shape *from,
                          struct shape *ret)
{
    const int64_t n = shape_elements(from);
    int64_t others = 1;
    int unknown = -1;

    *ret = SHAPE_SCALAR;
    if (tensor_elements(a->in[2]) > SHAPE_MAX_RANK)
        return err_set(a->err, ERR_LIMIT, "%s: %lld dimensions", operation_name(a->op),
                       (long long)tensor_elements(a->in[2]));
    for (; ret->rank < tensor_elements(a->in[2]); ret->rank++) {
        const int64_t size = ret->dim[ret->rank] = tensor_int(a->in[2], ret->rank);

        if (size == -1 && unknown < 0)
            unknown = ret->rank;
        else if (size < 0 || __builtin_mul_overflow(others, size, &others))
            return err_set(a->err, ERR_ARG, "%s: dimension %d of the new shape is %lld",
                           operation_name(a->op), ret->rank, (long long)size);
    }
    if (unknown >= 0 && others > 0)
        ret->dim[unknown] = n / others;
    if (unknown >= 0 ? others == 0 || n % others != 0 : n != others)
        return err_set(a->err, ERR_ARG,
                       "%s: Input to reshape is a tensor with %lld dense values, but the "
                       "requested shape has %s%lld",
                       operation_name(a->op), (long long)n,
                       unknown >= 0 ? "a multiple of " : "", (long long)others);
    return 0;
}

static int kern_reshape(const struct kernel_args *a)
{
    struct sparse x;
    struct shape to;
    int rc = read_sparse(a, 0, -1, 1, &x);

    if (rc == 0)
        rc = read_new_shape(a, &x.dense, &to);
    if (rc != 0)
        return rc;
    for (int d = 0; d < to.rank; d++)
        tensor_set_int(a->out[1], d, to.dim[d]);
    for (int64_t i = 0; i < x.n; i++) {
        int64_t at = 0;

        for (int d = 0; d < x.dense.rank; d++)
            at = at * x.dense.dim[d] + index_at(&x, i, d);
        for (int d = to.rank - 1; d >= 0; d--) {
            tensor_set_int(a->out[0], i * to.rank + d, at % to.dim[d]);
            at /= to.dim[d];
        }
    }
    return 0;
}

static int reorder_shape(const struct shape_args *args)
{
    int64_t n, rank;

    if (sparse_sizes(args, 0, 1, 2, &n, &rank) != 0)
        return ERR_SHAPE;
    args->out[0] = SHAPE(n, rank);
    args->out[1] = SHAPE(n);
    return 0;
}

static int kern_reorder(const struct kernel_args *a)
{
    struct placed *elements;
    struct sparse x;
    int rc = read_sparse(a, 0, 1, 2, &x);

    if (rc != 0)
        return rc;
    elements = in_order(a, &x);
    if (elements == NULL)
        return ERR_NOMEM;
    for (int64_t i = 0; i < x.n; i++)
        put_element(&elements[i], a->out[0], a->out[1], i);
    free(elements);
    return 0;
}

/* The numbers of the elements, put in the same order, say where each came from. */
GRAD(reorder_grad)
{
    struct output indices = input_of(op, 0), n, first, step, places;

    if (!output_valid(grad_out[1]))
        return 0;
    n = vector_slice(g, shape_of(g, indices, NULL), 0, 1, "shrink_axis_mask");
    first = constant_i32(g, 0, "range/start");
    step = constant_i32(g, 1, "range/delta");
    places = ternary(g, "Range", first, n, step, "range");
    places = ternary(g, "SparseReorder", indices, places, input_of(op, 2), NULL);
    places.index = 1;
    places = unary(g, "InvertPermutation", places, NULL);
    grad_in[1] = gather_rows(g, grad_out[1], places);
    return grad_done(grad_in + 1, 1);
}

/* ---- sums ---- */

/* Which dimensions are summed over: bits. ERR_ARG. */
static int read_axes(const struct tensor *t, int rank, unsigned *ret, struct err *err)
{
    *ret = 0;
    for (int64_t i = 0; i < tensor_elements(t); i++) {
        const int64_t axis = tensor_int(t, i);

        if (axis < -rank || axis >= rank)
            return err_set(err, ERR_ARG,
                           "Invalid reduction dimension %lld, for input with %d "
                           "dimension(s)",
                           (long long)axis, rank);
        *ret |= 1u << positive_axis(axis, rank);
    }
    return 0;
}

static int reduce_shape(const struct shape_args *args)
{
    const int keeps = (int)attr_int(args->op, "keep_dims");
    struct shape dense, out = {0};
    int64_t n, rank;
    unsigned axes;

    if (sparse_sizes(args, 0, 1, 2, &n, &rank) != 0 || value_sizes(args, 2, &dense) != 0)
        return ERR_SHAPE;
    if (keeps && rank >= 0 && rank <= SHAPE_MAX_RANK)
        args->out[0] = shape_of_rank((int)rank);
    if (args->value[3] == NULL || dense.rank < 0)
        return 0;
    if (read_axes(args->value[3], dense.rank, &axes, args->err) != 0)
        return ERR_ARG;
    for (int d = 0; d < dense.rank; d++)
        if ((axes >> d & 1) == 0)
            out.dim[out.rank++] = dense.dim[d];
        else if (keeps)
            out.dim[out.rank++] = 1;
    args->out[0] = out;
    return 0;
}

static int kern_reduce_sum(const struct kernel_args *a)
{
    struct sparse x;
    unsigned axes = 0;
    int rc = check_type(a);

    if (rc == 0)
        rc = read_sparse(a, 0, 1, 2, &x);
    if (rc == 0)
        rc = read_axes(a->in[3], x.dense.rank, &axes, a->err);
    if (rc != 0)
        return rc;
    clear(a->out[0]);
    for (int64_t i = 0; i < x.n; i++) {
        int64_t to = 0;

        for (int d = 0; d < x.dense.rank; d++)
            if ((axes >> d & 1) == 0)
                to = to * x.dense.dim[d] + index_at(&x, i, d);
        combine(a->out[0], to, x.values, i, COMBINE_ADD);
    }
    return 0;
}

static struct output floor_div(struct graph *g, struct output x, struct output y)
{
    return binary(g, "FloorDiv", x, y, "floordiv");
}

GRAD(reduce_sum_grad)
{
    struct output shape = input_of(op, 2), kept, d, scale;

    kept = kept_shape(g, cast(g, shape, DT_INT32, NULL), input_of(op, 3));
    d = binary(g, "Reshape", grad_out[0], kept, NULL);
    scale = floor_div(g, shape, cast(g, kept, DT_INT64, NULL));
    grad_in[1] = binary(g, "GatherNd", d, floor_div(g, input_of(op, 0), scale), NULL);
    return grad_done(grad_in + 1, 1);
}

/* ---- rows without elements ---- */

/* The number of elements of each row, [rows]. ERR_ARG, ERR_NOMEM. free(). */
static int count_rows(const struct tensor *indices, int64_t rows, int64_t **ret,
                      struct err *err)
{
    const int64_t rank = indices->shape.dim[1];
    int64_t *counts = calloc((size_t)rows + 1, sizeof(*counts));

    *ret = counts;
    if (counts == NULL)
        return err_set(err, ERR_NOMEM, "no memory for %lld rows", (long long)rows);
    for (int64_t i = 0; i < indices->shape.dim[0]; i++) {
        const int64_t row = tensor_int(indices, i * rank);

        if (row < 0 || row >= rows)
            return err_set(err, ERR_ARG, "indices(%lld, 0) is invalid: %lld >= %lld",
                           (long long)i, (long long)row, (long long)rows);
        counts[row]++;
    }
    return 0;
}

static int fill_shape(const struct shape_args *args)
{
    const int knows =
        args->is_planning && args->value[0] != NULL && args->value[2] != NULL;
    int64_t n, rank, rows = -1, all = -1, *counts = NULL;
    int rc = 0;

    if (sparse_sizes(args, 0, 1, 2, &n, &rank) != 0)
        return ERR_SHAPE;
    if (rank == 0)
        return err_set(args->err, ERR_SHAPE, "a sparse tensor without rows");
    if (args->value[2] != NULL && tensor_elements(args->value[2]) > 0)
        rows = tensor_int(args->value[2], 0);
    if (rows < -1 || (rows == -1 && args->value[2] != NULL) || rows == INT64_MAX)
        return err_set(args->err, ERR_ARG, "%lld rows", (long long)rows);
    if (knows) {
        rc = count_rows(args->value[0], rows, &counts, args->err);
        all = n;
        for (int64_t i = 0; rc == 0 && i < rows; i++)
            all += counts[i] == 0;
        free(counts);
    }
    args->out[0] = SHAPE(all, rank);
    args->out[1] = SHAPE(all);
    args->out[2] = SHAPE(rows);
    args->out[3] = SHAPE(n);
    return rc;
}

/* in: a sparse tensor, default_value; out: its indices and values with an element in each row,
 * the first one of an empty row; which rows were empty; where each element went */
static int kern_fill_empty_rows(const struct kernel_args *a)
{
    const int64_t rows = a->out[2]->shape.dim[0];
    int64_t *next = NULL, to = 0; /* next: of each row, the place of its next element */
    struct sparse x;
    int rc = read_sparse(a, 0, 1, 2, &x);

    if (rc == 0)
        rc = count_rows(x.indices, rows, &next, a->err);
    for (int64_t row = 0; rc == 0 && row < rows; row++) {
        const int64_t count = next[row];

        ((uint8_t *)a->out[2]->data)[row] = count == 0;
        next[row] = to;
        if (count == 0) {
            const int64_t index[SHAPE_MAX_RANK] = {row};

            put_element(&(struct placed){index, a->in[3]->data, 0, x.dense.rank},
                        a->out[0], a->out[1], to);
        }
        to += count > 0 ? count : 1;
    }
    for (int64_t i = 0; rc == 0 && i < x.n; i++) {
        const int64_t place = next[index_at(&x, i, 0)]++;
        const struct placed e = {(const int64_t *)x.indices->data + i * x.dense.rank,
                                 (const char *)x.values->data +
                                     (size_t)i * elem_size(x.values),
                                 i, x.dense.rank};

        put_element(&e, a->out[0], a->out[1], place);
        tensor_set_int(a->out[3], i, place);
    }
    free(next);
    return rc;
}

static int fill_grad_shape(const struct shape_args *args)
{
    args->out[0] = SHAPE(dim_of(&args->in[0], 0));
    args->out[1] = SHAPE_SCALAR;
    return 0;
}

/* in: reverse_index_map, grad_values; out: the gradients of the values that were there, and the
 * sum of the others */
static int kern_fill_grad(const struct kernel_args *a)
{
    const struct tensor *map = a->in[0], *grad = a->in[1];
    const int64_t n = tensor_elements(map), all = tensor_elements(grad);
    unsigned char *is_there;
    int rc = check_type(a);

    if (rc != 0)
        return rc;
    is_there = calloc((size_t)all + 1, 1);
    if (is_there == NULL)
        return err_set(a->err, ERR_NOMEM, "%s: no memory for %lld elements",
                       operation_name(a->op), (long long)all);
    clear(a->out[0]);
    clear(a->out[1]);
    for (int64_t i = 0; rc == 0 && i < n; i++) {
        const int64_t from = tensor_int(map, i);

        if (from < 0 || from >= all) {
            rc = err_set(a->err, ERR_ARG,
                         "%s: Elements in reverse index must be in [0, %lld) but got "
                         "%lld",
                         operation_name(a->op), (long long)all, (long long)from);
            break;
        }
        combine(a->out[0], i, grad, from, COMBINE_ADD);
        is_there[from] = 1;
    }
    for (int64_t i = 0; rc == 0 && i < all; i++)
        if (!is_there[i])
            combine(a->out[1], 0, grad, i, COMBINE_ADD);
    free(is_there);
    return rc;
}

GRAD(fill_grad)
{
    struct output d;

    if (!output_valid(grad_out[1]))
        return 0;
    d = binary(g, "SparseFillEmptyRowsGrad", output_of(op, 3), grad_out[1], NULL);
    grad_in[1] = d;
    grad_in[3] = (struct output){d.op, 1};
    return output_valid(d) ? 0 : -1;
}

/* ---- softmax ---- */

static int softmax_shape(const struct shape_args *args)
{
    int64_t n, rank;

    if (sparse_sizes(args, 0, 1, 2, &n, &rank) != 0)
        return ERR_SHAPE;
    if (rank >= 0 && rank < 2)
        return err_set(args->err, ERR_SHAPE, "a sparse tensor of %lld dimensions",
                       (long long)rank);
    args->out[0] = SHAPE(n);
    return 0;
}

static int same_row(const struct placed *a, const struct placed *b)
{
    return memcmp(a->index, b->index, (size_t)(a->rank - 1) * sizeof(*a->index)) == 0;
}

/* The softmax of n elements that are in one row. */
static void softmax_row(const struct kernel_args *a, const struct placed *row, int64_t n)
{
    const struct tensor *x = a->in[1], *y = a->out[0];
    double most = -(double)INFINITY, sum = 0;

    for (int64_t i = 0; i < n; i++)
        most = fmax(most, tensor_number(x, row[i].from));
    for (int64_t i = 0; i < n; i++)
        sum += exp(tensor_number(x, row[i].from) - most);
    for (int64_t i = 0; i < n; i++) {
        const double v = exp(tensor_number(x, row[i].from) - most) / sum;

        if (y->dtype == DT_FLOAT)
            tensor_f32(y)[row[i].from] = (float)v;
        else
            ((double *)y->data)[row[i].from] = v;
    }
}

static int kern_softmax_of_rows(const struct kernel_args *a)
{
    struct placed *elements;
    struct sparse x;
    int rc = read_sparse(a, 0, 1, 2, &x);

    if (rc != 0)
        return rc;
    elements = in_order(a, &x);
    if (elements == NULL)
        return ERR_NOMEM;
    for (int64_t i = 0, end; i < x.n; i = end) {
        for (end = i + 1; end < x.n && same_row(&elements[i], &elements[end]);)
            end++;
        softmax_row(a, elements + i, end - i);
    }
    free(elements);
    return 0;
}

/* An operation of a sparse tensor with the indices and the shape of op, and another input. */
static struct output with_values(struct graph *g, const char *type, struct operation *op,
                                 struct output values, struct output other)
{
    struct op_builder *b = op_begin(g, type, NULL);

    op_input(b, input_of(op, 0));
    op_input(b, values);
    op_input(b, input_of(op, 2));
    op_input(b, other);
    if (strcmp(type, "SparseReduceSum") == 0)
        op_attr_bool(b, "keep_dims", 1);
    return (struct output){op_finish(b), 0};
}

/* y (d - the sum of y d in its row) */
GRAD(softmax_grad)
{
    struct output y = output_of(op, 0), sum, axis;

    sum = binary(g, "Mul", y, grad_out[0], "mul");
    axis = constant_i32s(g, (const int32_t[]){-1}, 1, "SparseReduceSum/reduction_axes");
    sum = with_values(g, "SparseReduceSum", op, sum, axis);
    sum = unary(g, "Neg", sum, NULL);
    sum = with_values(g, "SparseDenseCwiseAdd", op, grad_out[0], sum);
    grad_in[1] = binary(g, "Mul", sum, y, "mul");
    return grad_done(grad_in + 1, 1);
}

/* ---- several tensors, and parts of one ---- */

/* inputs: n indices, n values, n shapes */
static int concat_shape(const struct shape_args *args)
{
    const int n = args->n_in / 3;
    int64_t all = 0, rank = -1;

    for (int i = 0; i < n; i++) {
        int64_t elements, dims;

        if (want_rank(args, i, 2) != 0 || want_rank(args, n + i, 1) != 0 ||
            want_rank(args, 2 * n + i, 1) != 0 ||
            sparse_sizes(args, i, n + i, 2 * n + i, &elements, &dims) != 0)
            return ERR_SHAPE;
        if (rank >= 0 && dims >= 0 && dims != rank)
            return err_set(args->err, ERR_SHAPE,
                           "sparse tensors of %lld and %lld dimensions", (long long)rank,
                           (long long)dims);
        rank = rank < 0 ? dims : rank;
        all = all < 0 || elements < 0 ? -1 : all + elements;
    }
    args->out[0] = SHAPE(all, rank);
    args->out[1] = SHAPE(all);
    args->out[2] = SHAPE(rank);
    return 0;
}

/* Checks that x fits to `whole` but along the axis, where its size is added. */
static int add_part(const struct kernel_args *a, struct shape *whole,
                    const struct shape *x, int axis)
{
    for (int d = 0; d < x->rank; d++)
        if (d != axis && x->dim[d] != whole->dim[d])
            return err_set(a->err, ERR_ARG,
                           "%s: Concat dimensions must match: expected %lld but got %lld "
                           "for dimension %d",
                           operation_name(a->op), (long long)whole->dim[d],
                           (long long)x->dim[d], d);
    if (__builtin_add_overflow(whole->dim[axis], x->dim[axis], &whole->dim[axis]))
        return err_set(a->err, ERR_LIMIT, "%s: a dimension above 2^63",
                       operation_name(a->op));
    return 0;
}

static int kern_concat_sparse(const struct kernel_args *a)
{
    const int n = a->n_in / 3, rank = (int)tensor_elements(a->out[2]);
    const int64_t all = tensor_elements(a->out[1]);
    const int64_t concat_dim = attr_int(a->op, "concat_dim");
    const int axis = positive_axis(concat_dim, rank);
    int64_t *indices, to = 0; /* indices: those of all, moved */
    struct placed *elements;
    struct shape whole = {0};
    int rc = 0;

    if (axis < 0 || axis >= rank)
        return err_set(a->err, ERR_ARG,
                       "%s: Concat dimension must be in range [%d, %d), got %lld",
                       operation_name(a->op), -rank, rank, (long long)concat_dim);
    indices = calloc((size_t)(all * rank) + 1, sizeof(*indices));
    elements = placed_new(a, all);
    if (indices == NULL || elements == NULL)
        rc = err_set(a->err, ERR_NOMEM, "%s: no memory for %lld elements",
                     operation_name(a->op), (long long)all);
    for (int k = 0; rc == 0 && k < n; k++) {
        struct sparse x;

        rc = read_sparse(a, k, n + k, 2 * n + k, &x);
        if (rc == 0 && k == 0) {
            whole = x.dense;
            whole.dim[axis] = 0;
        }
        for (int64_t i = 0; rc == 0 && i < x.n; i++, to++) {
            int64_t *at = indices + to * rank;

            for (int d = 0; d < rank; d++)
                at[d] = index_at(&x, i, d) + (d == axis ? whole.dim[axis] : 0);
            elements[to] = (struct placed){
                at, (const char *)x.values->data + (size_t)i * elem_size(x.values), to,
                rank};
        }
        if (rc == 0)
            rc = add_part(a, &whole, &x.dense, axis);
    }
    if (rc == 0)
        sort(elements, all);
    for (int64_t i = 0; rc == 0 && i < all; i++)
        put_element(&elements[i], a->out[0], a->out[1], i);
    for (int d = 0; rc == 0 && d < rank; d++)
        tensor_set_int(a->out[2], d, whole.dim[d]);
    free(indices);
    free(elements);
    return rc;
}

/* Whether element i of the indices is in a slice. */
static int is_inside(const struct tensor *indices, int64_t i, const struct tensor *start,
                     const struct tensor *size)
{
    const int64_t rank = tensor_elements(start);

    for (int64_t d = 0; d < rank; d++) {
        const int64_t x = tensor_int(indices, i * rank + d), from = tensor_int(start, d);

        if (x < from || x - from >= tensor_int(size, d))
            return 0;
    }
    return 1;
}

static int slice_shape(const struct shape_args *args)
{
    const struct tensor *const *v = args->value;
    const int knows = args->is_planning && v[0] != NULL && v[3] != NULL && v[4] != NULL;
    int64_t n, rank, kept = knows ? 0 : -1;

    if (sparse_sizes(args, 0, 1, 2, &n, &rank) != 0)
        return ERR_SHAPE;
    for (int i = 3; i < 5; i++)
        if (rank >= 0 && dim_of(&args->in[i], 0) >= 0 && dim_of(&args->in[i], 0) != rank)
            return err_set(args->err, ERR_SHAPE, "a slice %s of %lld dimensions",
                           shape_text(&args->in[i]), (long long)rank);
    for (int i = 3; i < 5; i++)
        for (int64_t d = 0; v[i] != NULL && d < tensor_elements(v[i]); d++)
            if (tensor_int(v[i], d) < 0)
                return err_set(args->err, ERR_ARG, "a %s of %lld",
                               i == 3 ? "start" : "size", (long long)tensor_int(v[i], d));
    for (int64_t i = 0; knows && i < n; i++)
        kept += is_inside(v[0], i, v[3], v[4]);
    args->out[0] = SHAPE(kept, rank);
    args->out[1] = SHAPE(kept);
    args->out[2] = SHAPE(rank);
    return 0;
}

/* in: a sparse tensor, start, size; what lies beyond the tensor is cut off */
static int kern_slice_sparse(const struct kernel_args *a)
{
    const struct tensor *start = a->in[3], *size = a->in[4];
    const size_t bytes = elem_size(a->in[1]);
    struct sparse x;
    int64_t to = 0;
    int rc = read_sparse(a, 0, 1, 2, &x);

    if (rc != 0)
        return rc;
    for (int d = 0; d < x.dense.rank; d++) {
        const int64_t left = x.dense.dim[d] - tensor_int(start, d);
        const int64_t most = left > 0 ? left : 0, wanted = tensor_int(size, d);

        tensor_set_int(a->out[2], d, wanted < most ? wanted : most);
    }
    for (int64_t i = 0; i < x.n; i++) {
        if (!is_inside(x.indices, i, start, size))
            continue;
        for (int d = 0; d < x.dense.rank; d++)
            tensor_set_int(a->out[0], to * x.dense.rank + d,
                           index_at(&x, i, d) - tensor_int(start, d));
        memcpy((char *)a->out[1]->data + (size_t)to * bytes,
               (const char *)x.values->data + (size_t)i * bytes, bytes);
        to++;
    }
    return 0;
}

static int slice_grad_shape(const struct shape_args *args)
{
    const int64_t rank = dim_of(&args->in[1], 1), n = dim_of(&args->in[0], 0);

    if ((rank >= 0 && dim_of(&args->in[2], 0) >= 0 && rank != dim_of(&args->in[2], 0)) ||
        (rank >= 0 && dim_of(&args->in[3], 1) >= 0 && rank != dim_of(&args->in[3], 1)) ||
        (n >= 0 && dim_of(&args->in[3], 0) >= 0 && n != dim_of(&args->in[3], 0)))
        return err_set(args->err, ERR_SHAPE,
                       "gradients %s of a slice of indices %s, start %s, indices %s",
                       shape_text(&args->in[0]), shape_text(&args->in[1]),
                       shape_text(&args->in[2]), shape_text(&args->in[3]));
    args->out[0] = SHAPE(dim_of(&args->in[1], 0));
    return 0;
}

/* in: backprop_val_grad, input_indices, input_start, output_indices, which are some of the input
 * indices in the same order, moved */
static int kern_slice_grad(const struct kernel_args *a)
{
    const struct tensor *grad = a->in[0], *from = a->in[1], *start = a->in[2],
                        *to = a->in[3];
    const int64_t n = from->shape.dim[0], rank = from->shape.dim[1],
                  kept = tensor_elements(grad);
    int64_t k = 0;

    if (check_type(a) != 0)
        return ERR_UNSUPPORTED;
    clear(a->out[0]);
    for (int64_t i = 0; i < n && k < kept; i++) {
        int is_kept = 1;

        for (int64_t d = 0; d < rank; d++)
            is_kept &=
                (uint64_t)tensor_int(from, i * rank + d) ==
                (uint64_t)tensor_int(to, k * rank + d) + (uint64_t)tensor_int(start, d);
        if (is_kept)
            combine(a->out[0], i, grad, k++, COMBINE_ADD);
    }
    if (k < kept)
        return err_set(a->err, ERR_ARG,
                       "%s: Elements of backprop_val_grad aren't all propagated",
                       operation_name(a->op));
    return 0;
}

GRAD(slice_grad)
{
    struct op_builder *b;

    if (!output_valid(grad_out[1]))
        return 0;
    b = op_begin(g, "SparseSliceGrad", NULL);
    op_input(b, grad_out[1]);
    op_input(b, input_of(op, 0));
    op_input(b, input_of(op, 3));
    op_input(b, output_of(op, 0));
    grad_in[1] = (struct output){op_finish(b), 0};
    return grad_done(grad_in + 1, 1);
}

/* ---- with a dense tensor ---- */

static int cwise_shape(const struct shape_args *args)
{
    int64_t n, rank;

    if (sparse_sizes(args, 0, 1, 2, &n, &rank) != 0)
        return ERR_SHAPE;
    args->out[0] = SHAPE(n);
    return 0;
}

/* The element of a dense tensor that is under an element, if the former is broadcast. */
static int64_t element_under(const struct sparse *x, int64_t i, const struct shape *dense)
{
    const int more = x->dense.rank - dense->rank;
    int64_t at = 0;

    for (int d = 0; d < dense->rank; d++)
        at = at * dense->dim[d] + (dense->dim[d] == 1 ? 0 : index_at(x, i, more + d));
    return at;
}

/* in: a sparse tensor, dense, which may be broadcast */
static int cwise(const struct kernel_args *a, enum combine how)
{
    const struct tensor *y = a->in[3], *out = a->out[0];
    const size_t bytes = tensor_bytes(out);
    struct shape both;
    struct sparse x;
    int rc = check_type(a);

    if (rc == 0)
        rc = read_sparse(a, 0, 1, 2, &x);
    if (rc != 0)
        return rc;
    if (shape_broadcast(&x.dense, &y->shape, &both) != 0 || !shape_equal(&both, &x.dense))
        return err_set(a->err, ERR_ARG,
                       "%s: SparseDenseBinaryOpShared broadcasts dense to sparse only; "
                       "got incompatible shapes: %s vs. %s",
                       operation_name(a->op), shape_text(&x.dense),
                       shape_text(&y->shape));
    if (bytes > 0)
        memcpy(out->data, x.values->data, bytes);
    for (int64_t i = 0; i < x.n; i++)
        combine(out, i, y, element_under(&x, i, &y->shape), how);
    return 0;
}

static int kern_cwise_add(const struct kernel_args *a)
{
    return cwise(a, COMBINE_ADD);
}

static int kern_cwise_mul(const struct kernel_args *a)
{
    return cwise(a, COMBINE_MULTIPLY);
}

GRAD(cwise_mul_grad)
{
    struct output y = input_of(op, 3), shape, added, scale, indices, parts[2], d, axis;
    struct op_builder *b;

    shape = cast(g, shape_of(g, y, NULL), DT_INT64, NULL);
    added = unary(g, "Size", input_of(op, 2), NULL);
    added = binary(g, "Sub", added, unary(g, "Size", shape, NULL), "sub");
    axis = constant_i32(g, 0, "ExpandDims/dim");
    added = binary(g, "ExpandDims", added, axis, NULL);
    d = constant_like(g, DT_INT64, 1, "ones/Const");
    parts[0] = binary(g, "Fill", added, d, "ones");
    parts[1] = shape;
    scale = floor_div(g, input_of(op, 2), concat(g, parts, 2, 0, NULL));
    indices = floor_div(g, input_of(op, 0), scale);
    parts[0] = constant_i32s(g, (const int32_t[]){0}, 1, "concat/values_0");
    parts[1] = added;
    d = concat(g, parts, 2, 0, NULL); /* where the last dimensions begin */
    axis = constant_i32s(g, (const int32_t[]){-1, -1}, 2, "Slice/size");
    indices = ternary(g, "Slice", indices, d, axis, NULL);
    d = binary(g, "GatherNd", y, indices, NULL);
    grad_in[1] = binary(g, "Mul", grad_out[0], d, "mul");
    d = binary(g, "Mul", grad_out[0], input_of(op, 1), "mul");
    b = op_begin(g, "SparseTensorDenseAdd", NULL);
    op_input(b, indices);
    op_input(b, d);
    op_input(b, shape);
    op_input(b, zeros_like(g, y, NULL));
    grad_in[3] = (struct output){op_finish(b), 0};
    return output_valid(grad_in[1]) && output_valid(grad_in[3]) ? 0 : -1;
}

static int dense_add_shape(const struct shape_args *args)
{
    int64_t n, rank;

    if (sparse_sizes(args, 0, 1, 2, &n, &rank) != 0)
        return ERR_SHAPE;
    if (rank >= 0 && args->in[3].rank >= 0 && rank != args->in[3].rank)
        return err_set(args->err, ERR_SHAPE,
                       "a sparse tensor of %lld dimensions, dense %s", (long long)rank,
                       shape_text(&args->in[3]));
    args->out[0] = args->in[3];
    return 0;
}

static int kern_dense_add(const struct kernel_args *a)
{
    const struct tensor *y = a->in[3], *out = a->out[0];
    const size_t bytes = tensor_bytes(out);
    struct sparse x;
    int rc = check_type(a);

    if (rc == 0)
        rc = read_sparse(a, 0, 1, 2, &x);
    if (rc != 0)
        return rc;
    if (!shape_equal(&x.dense, &y->shape))
        return err_set(
            a->err, ERR_ARG,
            "%s: no broadcasting is supported: sparse side %s vs dense side %s",
            operation_name(a->op), shape_text(&x.dense), shape_text(&y->shape));
    if (bytes > 0)
        memcpy(out->data, y->data, bytes);
    for (int64_t i = 0; i < x.n; i++)
        combine(out, element_under(&x, i, &x.dense), x.values, i, COMBINE_ADD);
    return 0;
}

GRAD(dense_add_grad)
{
    grad_in[1] = binary(g, "GatherNd", grad_out[0], input_of(op, 0), NULL);
    grad_in[3] = grad_out[0];
    return grad_done(grad_in + 1, 1);
}

/* ---- elements at places ---- */

static int sparse_to_dense_shape(const struct shape_args *args)
{
    if (args->in[0].rank > 2 || args->in[2].rank > 1)
        return err_set(args->err, ERR_SHAPE, "indices %s, values %s",
                       shape_text(&args->in[0]), shape_text(&args->in[2]));
    return value_sizes(args, 1, &args->out[0]);
}

/* The place of element i in the dense tensor; -1: it lies outside. */
static int64_t place_of(const struct tensor *indices, const struct shape *dense,
                        int64_t i)
{
    int64_t at = 0;

    for (int d = 0; d < dense->rank; d++) {
        const int64_t x = tensor_int(indices, i * dense->rank + d);

        if (x < 0 || x >= dense->dim[d])
            return -1;
        at = at * dense->dim[d] + x;
    }
    return at;
}

static int kern_sparse_to_dense(const struct kernel_args *a)
{
    const struct tensor *indices = a->in[0], *values = a->in[2], *out = a->out[0];
    const size_t size = elem_size(out);
    const int64_t n = indices->shape.rank > 0 ? indices->shape.dim[0] : 1;
    const int64_t rank = indices->shape.rank > 1 ? indices->shape.dim[1] : 1;
    const int64_t n_values = tensor_elements(values);
    const struct copy_plan all = {1, {tensor_elements(out)}, {0}, {(int64_t)size}};
    int64_t before = -1;

    if (rank != out->shape.rank || (values->shape.rank > 0 && n_values != n))
        return err_set(a->err, ERR_SHAPE, "%s: indices %s and values %s for a tensor %s",
                       operation_name(a->op), shape_text(&indices->shape),
                       shape_text(&values->shape), shape_text(&out->shape));
    copy_strided(out->data, a->in[3]->data, &all, size);
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = place_of(indices, &out->shape, i);
        const int is_late = attr_int(a->op, "validate_indices") && i > 0 && at <= before;

        if (at < 0 || is_late)
            return err_set(a->err, ERR_ARG, "%s: indices[%lld] is %s",
                           operation_name(a->op), (long long)i,
                           at < 0         ? "out of bounds"
                           : at == before ? "repeated"
                                          : "out of order");
        memcpy((char *)out->data + (size_t)at * size,
               (const char *)values->data +
                   (values->shape.rank > 0 ? (size_t)i * size : 0),
               size);
        before = at;
    }
    return 0;
}

static struct output range_of_rank(struct graph *g, struct output x)
{
    const struct output start = constant_i32(g, 0, "range/start");
    const struct output rank = unary(g, "Rank", x, "Rank");
    const struct output delta = constant_i32(g, 1, "range/delta");

    return ternary(g, "Range", start, rank, delta, "range");
}

/* tf.reduce_sum(x) */
static struct output sum_of_all(struct graph *g, struct output x)
{
    const int32_t all[SHAPE_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    const int rank = output_shape(x).rank;
    struct output axes;

    if (rank >= 0)
        axes = constant_i32s(g, all, (size_t)rank, "Const");
    else
        axes = range_of_rank(g, x);
    return binary(g, "Sum", x, axes, NULL);
}

GRAD(sparse_to_dense_grad)
{
    const struct output values =
        binary(g, "GatherNd", grad_out[0], input_of(op, 0), NULL);
    const struct output all = sum_of_all(g, grad_out[0]), given = sum_of_all(g, values);

    grad_in[2] = values;
    grad_in[3] = binary(g, "Sub", all, given, "sub");
    return grad_done(grad_in + 2, 2);
}

/* ---- the rows ---- */

/* A sparse tensor's indices are (n, rank), its values (n), its shape (rank). */
#define CWISE(type, grad, kernel)                                                        \
    {                                                                                    \
        type, 0, cwise_shape, grad, CALL(kernel),                                        \
            "sp_indices:int64, sp_values:T, sp_shape:int64, dense:T -> output:T; "       \
            "T:number_type",                                                             \
            .ranks = "211"                                                               \
    }

static const struct op_def rows[] = {
    {"SparseTensorDenseMatMul", 0, matmul_shape, matmul_grad, CALL(kern_matmul),
     "a_indices:Tindices, a_values:T, a_shape:int64, b:T -> product:T; T:number_type, "
     "Tindices:index_type=int64, adjoint_a:bool=false, adjoint_b:bool=false",
     .ranks = "2112", .sized_by = "a_shape"},
    {"SparseReshape", OP_NO_GRADIENT, reshape_shape, NULL, CALL(kern_reshape),
     "input_indices:int64, input_shape:int64, new_shape:int64 -> output_indices:int64, "
     "output_shape:int64",
     .ranks = "211"},
    {"SparseReorder", 0, reorder_shape, reorder_grad, CALL(kern_reorder),
     "input_indices:int64, input_values:T, input_shape:int64 -> output_indices:int64, "
     "output_values:T; T:type",
     .ranks = "211"},
    {"SparseReduceSum", 0, reduce_shape, reduce_sum_grad, CALL(kern_reduce_sum),
     "input_indices:int64, input_values:T, input_shape:int64, reduction_axes:int32 -> "
     "output:T; keep_dims:bool=false, T:number_type",
     .ranks = "211", .sized_by = "input_shape reduction_axes"},
    {"SparseFillEmptyRows", 0, fill_shape, fill_grad, CALL(kern_fill_empty_rows),
     "indices:int64, values:T, dense_shape:int64, default_value:T -> "
     "output_indices:int64, output_values:T, empty_row_indicator:bool, "
     "reverse_index_map:int64; T:type",
     .ranks = "2110", .sized_by = "indices dense_shape"},
    {"SparseFillEmptyRowsGrad", OP_NO_GRADIENT, fill_grad_shape, NULL,
     CALL(kern_fill_grad),
     "reverse_index_map:int64, grad_values:T -> d_values:T, d_default_value:T; "
     "T:number_type",
     .ranks = "11"},
    {"SparseSoftmax", OP_LIBM, softmax_shape, softmax_grad, CALL(kern_softmax_of_rows),
     "sp_indices:int64, sp_values:T, sp_shape:int64 -> output:T; T:float_type",
     .ranks = "211"},
    {"SparseConcat", OP_NO_GRADIENT, concat_shape, NULL, CALL(kern_concat_sparse),
     "indices:N*int64, values:N*T, shapes:N*int64 -> output_indices:int64, "
     "output_values:T, output_shape:int64; concat_dim:int, N:int, T:type"},
    {"SparseSlice", 0, slice_shape, slice_grad, CALL(kern_slice_sparse),
     "indices:int64, values:T, shape:int64, start:int64, size:int64 -> "
     "output_indices:int64, output_values:T, output_shape:int64; T:type",
     .ranks = "21111", .sized_by = "indices start size"},
    {"SparseSliceGrad", OP_NO_GRADIENT, slice_grad_shape, NULL, CALL(kern_slice_grad),
     "backprop_val_grad:T, input_indices:int64, input_start:int64, "
     "output_indices:int64 -> val_grad:T; T:number_type",
     .ranks = "1212"},
    CWISE("SparseDenseCwiseAdd", grad_missing, kern_cwise_add),
    CWISE("SparseDenseCwiseMul", cwise_mul_grad, kern_cwise_mul),
    {"SparseTensorDenseAdd", 0, dense_add_shape, dense_add_grad, CALL(kern_dense_add),
     "a_indices:Tindices, a_values:T, a_shape:Tindices, b:T -> output:T; T:number_type, "
     "Tindices:index_type",
     .ranks = "211"},
    {"SparseToDense", 0, sparse_to_dense_shape, sparse_to_dense_grad,
     CALL(kern_sparse_to_dense),
     "sparse_indices:Tindices, output_shape:Tindices, sparse_values:T, default_value:T "
     "-> "
     "dense:T; validate_indices:bool=true, T:type, Tindices:index_type",
     .ranks = "?1?0", .sized_by = "output_shape"},
};

const struct op_family ops_of_sparse = OP_FAMILY(rows);
