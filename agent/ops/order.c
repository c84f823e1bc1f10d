/* order.c - what depends on the order of values: the largest ones, places in sorted rows,
 * counts of equal integers.
 *
 * Gradients after TensorFlow 1.13's python/ops/nn_grad.py. */
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"

#include <math.h>
#include <string.h>

/* ---- comparisons; NaN is below everything ---- */

#define ORDER_TYPES(X)                                                                   \
    X(DT_FLOAT, float)                                                                   \
    X(DT_DOUBLE, double)                                                                 \
    X(DT_INT32, int32_t)                                                                 \
    X(DT_INT64, int64_t)

/* -1, 0 or 1: element i of x is less than element k of y, equal, greater */
static int compare(const struct tensor *x, int64_t i, const struct tensor *y, int64_t k)
{
    switch (x->dtype) {
#define ORDER_CASE(symbol, T)                                                            \
    case symbol: {                                                                       \
        const T a = ((const T *)x->data)[i], b = ((const T *)y->data)[k];                \
                                                                                         \
        if (a != a || b != b)                                                            \
            return (b != b) - (a != a);                                                  \
        return (a > b) - (a < b);                                                        \
    }
        ORDER_TYPES(ORDER_CASE)
#undef ORDER_CASE
    default:
        return 0;
    }
}

/* ---- TopK ---- */

/* The k best elements of a row so far, by number: a heap whose root is the worst. */
struct best {
    const struct tensor *x;
    int64_t row; /* the first element of the row in x */
    const struct tensor *at;
    int64_t begin, n; /* the heap's elements in `at` */
};

/* Whether element i of the row comes after element k: it is smaller, or equal and later. */
static int is_worse(const struct best *b, int64_t i, int64_t k)
{
    const int c = compare(b->x, b->row + i, b->x, b->row + k);

    return c != 0 ? c < 0 : i > k;
}

static int64_t get(const struct best *b, int64_t i)
{
    return tensor_int(b->at, b->begin + i);
}

static void order_put(const struct best *b, int64_t i, int64_t element)
{
    tensor_set_int(b->at, b->begin + i, element);
}

/* Lets `element` sink from place i to where all below it are better. */
static void sink(const struct best *b, int64_t i, int64_t element)
{
    for (int64_t child; (child = 2 * i + 1) < b->n; i = child) {
        if (child + 1 < b->n && is_worse(b, get(b, child + 1), get(b, child)))
            child++;
        if (!is_worse(b, get(b, child), element))
            break;
        order_put(b, i, get(b, child));
    }
    order_put(b, i, element);
}

/* Fills the heap's places with the numbers of the best elements of n, the best first. */
static void find_best(struct best *b, int64_t n)
{
    const int64_t k = b->n;

    for (int64_t i = 0; i < k; i++)
        order_put(b, i, i);
    for (int64_t i = k / 2; i > 0; i--)
        sink(b, i - 1, get(b, i - 1));
    for (int64_t i = k; i < n && k > 0; i++)
        if (is_worse(b, get(b, 0), i))
            sink(b, 0, i);
    while (b->n > 1) {
        const int64_t worst = get(b, 0), last = get(b, --b->n);

        order_put(b, b->n, worst);
        sink(b, 0, last);
    }
}

/* in: input, perhaps k; out: values, indices */
static int kern_top_k(const struct kernel_args *a)
{
    const struct tensor *x = a->in[0], *y = a->out[0], *at = a->out[1];
    const int last = x->shape.rank - 1;
    const int64_t n = x->shape.dim[last], k = y->shape.dim[last];
    const size_t elem = elem_size(x);

    for (int64_t row = 0; row < span(&x->shape, 0, last); row++) {
        struct best b = {x, row * n, at, row * k, k};

        find_best(&b, n);
        for (int64_t i = 0; i < k; i++)
            memcpy((char *)y->data + (size_t)(row * k + i) * elem,
                   (const char *)x->data +
                       (size_t)(row * n + tensor_int(at, row * k + i)) * elem,
                   elem);
    }
    return 0;
}

/* Whether the value of class `target` is among the k largest of the row of n; not if the row
 * has a value that is not finite. */
static int is_in_top(const float *row, int64_t n, int64_t target, int64_t k)
{
    int64_t above = 0;

    if (target < 0 || target >= n)
        return 0;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(row[i]))
            return 0;
        above += row[i] > row[target];
    }
    return above < k;
}

/* in: predictions (batch, classes), targets (batch), perhaps k */
static int kern_in_top_k(const struct kernel_args *a)
{
    const struct shape *s = &a->in[0]->shape;
    const int64_t k = a->n_in > 2 ? tensor_int(a->in[2], 0) : attr_int(a->op, "k");

    for (int64_t i = 0; i < s->dim[0]; i++)
        ((uint8_t *)a->out[0]->data)[i] = (uint8_t)is_in_top(
            tensor_f32(a->in[0]) + i * s->dim[1], s->dim[1], tensor_int(a->in[1], i), k);
    return 0;
}

/* ---- places in sorted rows ---- */

/* in: sorted_inputs (rows, n), values (rows, m). How many elements of the sorted row are below
 * the value, or not above it (least: 0 or 1). */
static int find_places(const struct kernel_args *a, int least)
{
    const struct tensor *sorted = a->in[0], *values = a->in[1];
    const int64_t n = sorted->shape.dim[1], m = values->shape.dim[1];

    if (sorted->dtype != DT_FLOAT && sorted->dtype != DT_DOUBLE &&
        sorted->dtype != DT_INT32 && sorted->dtype != DT_INT64)
        return err_set(a->err, ERR_UNSUPPORTED, "%s: no %s of %s", operation_name(a->op),
                       operation_type(a->op), dtype_name(sorted->dtype));
    for (int64_t i = 0; i < tensor_elements(values); i++) {
        const int64_t row = i / m * n;
        int64_t low = 0, high = n;

        while (low < high) {
            const int64_t mid = low + (high - low) / 2;

            if (compare(sorted, row + mid, values, i) < least)
                low = mid + 1;
            else
                high = mid;
        }
        tensor_set_int(a->out[0], i, low);
    }
    return 0;
}

static int kern_lower_bound(const struct kernel_args *a)
{
    return find_places(a, 0);
}

static int kern_upper_bound(const struct kernel_args *a)
{
    return find_places(a, 1);
}

/* ---- counts ---- */

/* Adds the weight of element i (weights without elements: 1) to bin `to`. */
static void count(const struct tensor *bins, int64_t to, const struct tensor *weights,
                  int64_t i, int is_binary)
{
    const int one = is_binary || tensor_elements(weights) == 0;

    switch (bins->dtype) {
    case DT_FLOAT: {
        float *at = tensor_f32(bins) + to;
        const float w = one ? 1 : tensor_f32(weights)[i];

        *at = is_binary ? w : *at + w;
        break;
    }
    case DT_DOUBLE: {
        double *at = (double *)bins->data + to;
        const double w = one ? 1 : ((const double *)weights->data)[i];

        *at = is_binary ? w : *at + w;
        break;
    }
    default: /* wraps around */
        tensor_set_int(bins, to,
                       is_binary
                           ? 1
                           : (int64_t)((uint64_t)tensor_int(bins, to) +
                                       (uint64_t)(one ? 1 : tensor_int(weights, i))));
    }
}

/* in: integers, size, weights. Element i of a row counts in the bin of its value, if there is
 * one. */
static int kern_bincount(const struct kernel_args *a)
{
    const struct tensor *x = a->in[0], *weights = a->in[2], *y = a->out[0];
    const struct attr *binary = operation_attr(a->op, "binary_output");
    const int is_binary = binary != NULL && binary->i != 0;
    const int64_t size = y->shape.dim[y->shape.rank - 1];
    const int64_t width = y->shape.rank == 2 ? x->shape.dim[1] : tensor_elements(x);

    clear(y);
    for (int64_t i = 0; i < tensor_elements(x); i++) {
        const int64_t bin = tensor_int(x, i);

        if (bin < 0)
            return err_set(a->err, ERR_ARG, "%s: %lld, but no integer may be negative",
                           operation_name(a->op), (long long)bin);
        if (bin < size)
            count(y, (y->shape.rank == 2 ? i / width * size : 0) + bin, weights, i,
                  is_binary);
    }
    return 0;
}

/* ---- shapes ---- */

/* The last dimension of the input is replaced by k, the attribute or input 1. */
static int top_k_shape(const struct shape_args *args)
{
    const struct shape *x = &args->in[0];
    int64_t k = -1;

    if (args->n_in == 1)
        k = attr_int(args->op, "k");
    else if (value_ints(args, 1, &k, 1) != 1)
        k = -1;
    else if (k < 0)
        return err_set(args->err, ERR_SHAPE, "the %lld largest elements", (long long)k);
    if (x->rank < 0)
        return 0;
    if (x->rank == 0)
        return err_set(args->err, ERR_SHAPE, "a scalar has no last dimension");
    if (x->dim[x->rank - 1] >= 0 && k > x->dim[x->rank - 1])
        return err_set(args->err, ERR_SHAPE, "the %lld largest elements of %s",
                       (long long)k, shape_text(x));
    args->out[0] = *x;
    args->out[0].dim[x->rank - 1] = k;
    args->out[1] = args->out[0];
    return 0;
}

static int in_top_k_shape(const struct shape_args *args)
{
    const int64_t n = dim_of(&args->in[0], 0), m = dim_of(&args->in[1], 0);

    if (n >= 0 && m >= 0 && n != m)
        return err_set(args->err, ERR_SHAPE, "%lld targets for %lld predictions",
                       (long long)m, (long long)n);
    args->out[0] = SHAPE(n >= 0 ? n : m);
    return 0;
}

static int places_shape(const struct shape_args *args)
{
    const int64_t n = dim_of(&args->in[0], 0), m = dim_of(&args->in[1], 0);

    if (n >= 0 && m >= 0 && n != m)
        return err_set(args->err, ERR_SHAPE, "%lld rows of values for %lld sorted rows",
                       (long long)m, (long long)n);
    args->out[0] = args->in[1];
    return 0;
}

static int bin_number(const struct shape_args *args, int64_t *ret)
{
    *ret = -1;
    if (value_ints(args, 1, ret, 1) == 1 && *ret < 0)
        return err_set(args->err, ERR_SHAPE, "%lld bins", (long long)*ret);
    /* weights: as the integers, or none */
    const struct shape *x = &args->in[0], *w = &args->in[2];
    if (!shape_known(w) || shape_elements(w) == 0 || shape_compatible(x, w))
        return 0;
    return err_set(args->err, ERR_SHAPE, "weights %s for %s", shape_text(w),
                   shape_text(x));
}

static int bincount_shape(const struct shape_args *args)
{
    int64_t n;

    if (bin_number(args, &n) != 0)
        return ERR_SHAPE;
    args->out[0] = SHAPE(n);
    return 0;
}

/* Bins for each row of a matrix, or those of a vector. */
static int dense_bincount_shape(const struct shape_args *args)
{
    const struct shape *x = &args->in[0];
    int64_t n;

    if (bin_number(args, &n) != 0)
        return ERR_SHAPE;
    if (x->rank < 0)
        return 0;
    if (x->rank < 1 || x->rank > 2)
        return err_set(args->err, ERR_SHAPE, "%s is no vector or matrix", shape_text(x));
    args->out[0] = *x;
    args->out[0].dim[x->rank - 1] = n;
    return 0;
}

/* ---- gradients ---- */

/* The last number of a shape, as int64. */
static struct output last_dimension(struct graph *g, struct output shape)
{
    struct output wide = cast(g, shape, DT_INT64, NULL);
    struct output last = with_scalar(g, "Sub", unary(g, "Size", shape, NULL), 1, "sub");

    return gather_rows(g, wide, last);
}

static struct output flat(struct graph *g, struct output x)
{
    return reshape(g, x, &SHAPE(-1), NULL);
}

/* The places of the values in the flat input: as TensorFlow, in int32. */
static struct output places_of_best(struct graph *g, struct operation *op,
                                    struct output in_shape)
{
    const int64_t all = -1;
    struct output at = output_of(op, 1), n, parts[2], rows, first, axis;
    struct tensor t = tensor_scalar_i64(&all);

    parts[1] = last_dimension(g, shape_of(g, at, NULL));
    parts[0] = constant(g, &t, "stack/0");
    at = cast(g, at, DT_INT32, NULL);
    at = binary(g, "Reshape", at, stacked(g, parts, 2, "stack"), NULL);
    n = last_dimension(g, in_shape);
    rows = vector_slice(g, shape_of(g, at, NULL), 0, 1, "shrink_axis_mask");
    rows = binary(g, "Mul", cast(g, rows, DT_INT64, NULL), n, "mul");
    first = constant_like(g, DT_INT64, 0, "range/start");
    rows = ternary(g, "Range", first, rows, n, "range");
    axis = constant_i32(g, -1, "ExpandDims/dim");
    rows = binary(g, "ExpandDims", rows, axis, NULL);
    rows = cast(g, rows, DT_INT32, NULL);
    return flat(g, binary(g, "Add", at, rows, "add"));
}

GRAD(top_k_grad)
{
    struct output in_shape = shape_of(g, input_of(op, 0), NULL), at, d, n, axis;

    if (!output_valid(grad_out[0]))
        return 0;
    at = places_of_best(g, op, in_shape);
    axis = constant_i32(g, -1, "ExpandDims/dim");
    at = binary(g, "ExpandDims", at, axis, NULL);
    d = flat(g, grad_out[0]);
    n = reduce(g, "Prod", in_shape, (const int32_t[]){0}, 1, 0, NULL);
    d = ternary(g, "ScatterNd", at, d, stacked(g, &n, 1, "ScatterNd/shape"), NULL);
    grad_in[0] = binary(g, "Reshape", d, in_shape, NULL);
    return grad_done(grad_in, 1);
}

/* ---- the rows ---- */

static const struct op_def rows[] = {
    {"TopK", 0, top_k_shape, top_k_grad, CALL(kern_top_k),
     "input:T -> values:T, indices:int32; k:int, sorted:bool=true, T:number_type"},
    {"TopKV2", 0, top_k_shape, top_k_grad, CALL(kern_top_k),
     "input:T, k:Tk -> values:T, indices:index_type; sorted:bool=true, T:number_type, "
     "Tk:index_type=int32, index_type:index_type=int32",
     .ranks = "?0"},
    {"InTopK", OP_NO_GRADIENT, in_top_k_shape, NULL, CALL(kern_in_top_k),
     "predictions:float32, targets:T -> precision:bool; k:int, T:index_type=int32",
     .ranks = "21"},
    {"InTopKV2", OP_NO_GRADIENT, in_top_k_shape, NULL, CALL(kern_in_top_k),
     "predictions:float32, targets:T, k:T -> precision:bool; T:index_type=int32",
     .ranks = "210"},
    {"LowerBound", OP_NO_GRADIENT, places_shape, NULL, CALL(kern_lower_bound),
     "sorted_inputs:T, values:T -> output:out_type; T:type, out_type:index_type=int32",
     .ranks = "22"},
    {"UpperBound", OP_NO_GRADIENT, places_shape, NULL, CALL(kern_upper_bound),
     "sorted_inputs:T, values:T -> output:out_type; T:type, out_type:index_type=int32",
     .ranks = "22"},
    {"Bincount", 0, bincount_shape, grad_missing, CALL(kern_bincount),
     "arr:int32, size:int32, weights:T -> bins:T; T:number_type", .ranks = "?0",
     .sized_by = "size"},
    {"DenseBincount", 0, dense_bincount_shape, grad_missing, CALL(kern_bincount),
     "input:Tidx, size:Tidx, weights:T -> output:T; Tidx:index_type, T:number_type, "
     "binary_output:bool=false",
     .ranks = "?0", .sized_by = "size"},
};

const struct op_family ops_of_order = OP_FAMILY(rows);
