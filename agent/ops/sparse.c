/* sparse.c - sparse tensors: what their operations share, and arithmetic.
 *
 * Gradients after TensorFlow 1.13's python/ops/sparse_grad.py. */
#include "agent/ops/sparse.h"
#include "common/numerics/elementary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- inputs ---- */

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

int sparse_read(const struct kernel_args *a, int indices, int values, int shape,
                struct sparse *ret)
{
    int rc;

    *ret = (struct sparse){.indices = a->in[indices],
                           .values = values >= 0 ? a->in[values] : NULL,
                           .n = a->in[indices]->shape.dim[0]};
    rc = read_sizes(a, a->in[shape], &ret->dense);
    for (int64_t i = 0; rc == 0 && i < ret->n; i++)
        for (int d = 0; d < ret->dense.rank; d++)
            if (sparse_index(ret, i, d) < 0 ||
                sparse_index(ret, i, d) >= ret->dense.dim[d])
                return err_set(a->err, ERR_ARG,
                               "%s: indices[%lld, %d] = %lld is out of bounds: need 0 <= "
                               "index < %lld",
                               operation_name(a->op), (long long)i, d,
                               (long long)sparse_index(ret, i, d),
                               (long long)ret->dense.dim[d]);
    return rc;
}

int sparse_sizes(const struct shape_args *args, int indices, int values, int shape,
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

static int compare(const void *x, const void *y)
{
    const struct placed *a = x, *b = y;

    for (int d = 0; d < a->rank; d++)
        if (a->index[d] != b->index[d])
            return a->index[d] < b->index[d] ? -1 : 1;
    return (a->from > b->from) - (a->from < b->from);
}

struct placed *placed_new(const struct kernel_args *a, int64_t n)
{
    struct placed *ret = calloc((size_t)n + 1, sizeof(*ret));

    if (ret == NULL)
        (void)err_set(a->err, ERR_NOMEM, "%s: no memory for %lld elements",
                      operation_name(a->op), (long long)n);
    return ret;
}

void placed_sort(struct placed *elements, int64_t n)
{
    qsort(elements, (size_t)n, sizeof(*elements), compare);
}

struct placed placed_at(const struct sparse *s, int64_t i)
{
    return (struct placed){(const int64_t *)s->indices->data + i * s->dense.rank,
                           (const char *)s->values->data +
                               (size_t)i * elem_size(s->values),
                           i, s->dense.rank};
}

struct placed *placed_in_order(const struct kernel_args *a, const struct sparse *s)
{
    struct placed *ret = placed_new(a, s->n);

    for (int64_t i = 0; ret != NULL && i < s->n; i++)
        ret[i] = placed_at(s, i);
    if (ret != NULL)
        placed_sort(ret, s->n);
    return ret;
}

void placed_put(const struct placed *e, const struct tensor *indices,
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

void sparse_add(const struct tensor *y, int64_t i, const struct tensor *x, int64_t j)
{
    combine(y, i, x, j, COMBINE_ADD);
}

/* Reads inputs 0 to 2 of an operation that computes. */
static int read_numbers(const struct kernel_args *a, struct sparse *ret)
{
    const int rc = want_number(a);

    return rc != 0 ? rc : sparse_read(a, 0, 1, 2, ret);
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
    int rc = read_numbers(a, &x);

    if (rc != 0)
        return rc;
    clear(y);
    for (int64_t i = 0; i < x.n; i++) {
        const int64_t row = sparse_index(&x, i, ta), k = sparse_index(&x, i, !ta);

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
    int rc = read_numbers(a, &x);

    if (rc == 0)
        rc = read_axes(a->in[3], x.dense.rank, &axes, a->err);
    if (rc != 0)
        return rc;
    clear(a->out[0]);
    for (int64_t i = 0; i < x.n; i++) {
        int64_t to = 0;

        for (int d = 0; d < x.dense.rank; d++)
            if ((axes >> d & 1) == 0)
                to = to * x.dense.dim[d] + sparse_index(&x, i, d);
        sparse_add(a->out[0], to, x.values, i);
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
        sum += exp_f64(tensor_number(x, row[i].from) - most);
    for (int64_t i = 0; i < n; i++) {
        const double v = exp_f64(tensor_number(x, row[i].from) - most) / sum;

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
    int rc = sparse_read(a, 0, 1, 2, &x);

    if (rc != 0)
        return rc;
    elements = placed_in_order(a, &x);
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

/* Begins an operation of a sparse tensor with the indices and the shape of op, and another
 * input. */
static struct op_builder *with_values(struct graph *g, const char *type,
                                      struct operation *op, struct output values,
                                      struct output other)
{
    struct op_builder *b = op_begin(g, type, NULL);

    op_input(b, input_of(op, 0));
    op_input(b, values);
    op_input(b, input_of(op, 2));
    op_input(b, other);
    return b;
}

/* y (d - the sum of y d in its row) */
GRAD(softmax_grad)
{
    struct output y = output_of(op, 0), sum, axis;
    struct op_builder *b;

    sum = binary(g, "Mul", y, grad_out[0], "mul");
    axis = constant_i32s(g, (const int32_t[]){-1}, 1, "SparseReduceSum/reduction_axes");
    b = with_values(g, "SparseReduceSum", op, sum, axis);
    op_attr_bool(b, "keep_dims", 1);
    sum = unary(g, "Neg", (struct output){op_finish(b), 0}, NULL);
    b = with_values(g, "SparseDenseCwiseAdd", op, grad_out[0], sum);
    grad_in[1] = binary(g, "Mul", (struct output){op_finish(b), 0}, y, "mul");
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
        at = at * dense->dim[d] + (dense->dim[d] == 1 ? 0 : sparse_index(x, i, more + d));
    return at;
}

/* in: a sparse tensor, dense, which may be broadcast */
static int cwise(const struct kernel_args *a, enum combine how)
{
    const struct tensor *y = a->in[3], *out = a->out[0];
    const size_t bytes = tensor_bytes(out);
    struct shape both;
    struct sparse x;
    int rc = read_numbers(a, &x);

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
    int rc = read_numbers(a, &x);

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
        sparse_add(out, sparse_place(&x, i), x.values, i);
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

/* tf.reduce_sum(x) */
static struct output sum_of_all(struct graph *g, struct output x)
{
    const int32_t all[SHAPE_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    const int rank = output_shape(x).rank;
    struct output axes;

    if (rank >= 0) {
        axes = constant_i32s(g, all, (size_t)rank, "Const");
    } else {
        const struct output start = constant_i32(g, 0, "range/start");
        const struct output n = unary(g, "Rank", x, "Rank");
        const struct output delta = constant_i32(g, 1, "range/delta");

        axes = ternary(g, "Range", start, n, delta, "range");
    }
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
    {"SparseReduceSum", 0, reduce_shape, reduce_sum_grad, CALL(kern_reduce_sum),
     "input_indices:int64, input_values:T, input_shape:int64, reduction_axes:int32 -> "
     "output:T; keep_dims:bool=false, T:number_type",
     .ranks = "211", .sized_by = "input_shape reduction_axes"},
    {"SparseSoftmax", 0, softmax_shape, softmax_grad, CALL(kern_softmax_of_rows),
     "sp_indices:int64, sp_values:T, sp_shape:int64 -> output:T; T:float_type",
     .ranks = "211"},
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
