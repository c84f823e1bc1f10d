/* reduce.c - sums, means, products and extrema along axes.
 *
 * Every float32 sum has a fixed order: over all elements in lanes and blocks (numerics.h), over
 * leading axes row after row in blocks (dense.h), over trailing axes in lanes and blocks within
 * each row, and anything else in index order. The order depends on the shapes only.
 *
 * Gradients after TensorFlow 1.13's python/ops/math_grad.py and nn_grad.py.
 */
#include "agent/kernels/loops.h"
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"

#include <math.h>
#include <string.h>

/* ---- kernels ---- */

enum reduction { RED_SUM, RED_PROD, RED_MAX, RED_MIN, RED_ALL, RED_ANY };

/* Maps element i of the input to its output element: the output's strides, 0 along
 * reduced axes. */
struct fold {
    int rank;
    int64_t dim[SHAPE_MAX_RANK];
    int64_t stride[SHAPE_MAX_RANK];
};

static void fold_set(struct fold *f, const struct shape *x, const int *reduced)
{
    int64_t stride = 1;

    f->rank = x->rank;
    for (int d = f->rank - 1; d >= 0; d--) {
        f->dim[d] = x->dim[d];
        f->stride[d] = reduced[d] ? 0 : stride;
        stride *= reduced[d] ? 1 : f->dim[d];
    }
}

static void fold_init(struct fold *f, const struct shape *x, const struct tensor *axes)
{
    int reduced[SHAPE_MAX_RANK] = {0};

    for (int64_t i = 0; i < tensor_elements(axes); i++) {
        int64_t axis = tensor_int(axes, i);

        reduced[axis < 0 ? axis + x->rank : axis] = 1;
    }
    fold_set(f, x, reduced);
}

static void fold_init_but(struct fold *f, const struct shape *x, int kept)
{
    int reduced[SHAPE_MAX_RANK] = {0};

    for (int d = 0; d < x->rank; d++)
        reduced[d] = d != kept;
    fold_set(f, x, reduced);
}

/* Joins axes that lie side by side in input and output and drops those of one element, so that
 * the last axis is as long as possible. At least one axis remains. */
static void fold_join(struct fold *f)
{
    int rank = 0;

    for (int d = 0; d < f->rank; d++) {
        if (f->dim[d] == 1)
            continue;
        if (rank > 0 && f->stride[rank - 1] == f->stride[d] * f->dim[d]) {
            f->dim[rank - 1] *= f->dim[d];
        } else {
            f->dim[rank] = f->dim[d];
            rank++;
        }
        f->stride[rank - 1] = f->stride[d];
    }
    if (rank == 0)
        f->dim[rank++] = 1;
    f->rank = rank;
}

/* Returns the output position of the next input row (all elements of the last axis), given that
 * of this one, `at`. */
static int64_t fold_next(const struct fold *f, int64_t *index, int64_t at)
{
    for (int d = f->rank - 2; d >= 0; d--) {
        at += f->stride[d];
        if (++index[d] < f->dim[d])
            return at;
        at -= index[d] * f->stride[d];
        index[d] = 0;
    }
    return at;
}

/* Elements that lie side by side in the output are independent of each other. */
#define FOLD(T, start, expr)                                                             \
    {                                                                                    \
        T *restrict y = out->data;                                                       \
        const T *restrict x = in->data;                                                  \
        for (int64_t i = 0; i < n_out; i++)                                              \
            y[i] = (T)(start);                                                           \
        for (int64_t i = 0, end; i < n; row = fold_next(&f, index, row)) {               \
            int64_t at = row;                                                            \
            end = i + width;                                                             \
            if (is_kept)                                                                 \
                for (; i < end; i++, at++)                                               \
                    y[at] = (T)(expr);                                                   \
            else                                                                         \
                for (; i < end; i++)                                                     \
                    y[at] = (T)(expr);                                                   \
        }                                                                                \
        break;                                                                           \
    }

#define FOLD_NUMBER(T, U, lowest, highest)                                               \
    switch (kind) {                                                                      \
    case RED_SUM:                                                                        \
        FOLD(T, 0, (U)y[at] + (U)x[i])                                                   \
    case RED_PROD:                                                                       \
        FOLD(T, 1, (U)y[at] * (U)x[i])                                                   \
    case RED_MAX:                                                                        \
        FOLD(T, lowest, x[i] > y[at] || x[i] != x[i] ? x[i] : y[at])                     \
    case RED_MIN:                                                                        \
        FOLD(T, highest, x[i] < y[at] || x[i] != x[i] ? x[i] : y[at])                    \
    default:                                                                             \
        break;                                                                           \
    }                                                                                    \
    break;

static int fold_all(enum reduction kind, const struct kernel_args *a, struct fold f)
{
    const struct tensor *in = a->in[0], *out = a->out[0];
    int64_t n = tensor_elements(in), n_out = tensor_elements(out), row = 0, width;
    int64_t index[SHAPE_MAX_RANK] = {0};
    int is_kept; /* the last axis, whose elements are then side by side in the output */

    fold_join(&f);
    width = f.dim[f.rank - 1];
    is_kept = f.stride[f.rank - 1] == 1;
    switch (in->dtype) {
    case DT_FLOAT:
        FOLD_NUMBER(float, float, -__builtin_inff(), __builtin_inff())
    case DT_DOUBLE:
        FOLD_NUMBER(double, double, -__builtin_inf(), __builtin_inf())
    case DT_INT32:
        FOLD_NUMBER(int32_t, uint32_t, INT32_MIN, INT32_MAX)
    case DT_INT64:
        FOLD_NUMBER(int64_t, uint64_t, INT64_MIN, INT64_MAX)
    case DT_BOOL:
        if (kind == RED_ALL)
            FOLD(uint8_t, 1, y[at] && x[i])
        FOLD(uint8_t, 0, y[at] || x[i])
    default:
        return err_set(a->err, ERR_UNSUPPORTED, "%s: no %s of %s", operation_name(a->op),
                       operation_type(a->op), dtype_name(in->dtype));
    }
    return 0;
}

/* Finds out whether the reduced axes are the leading ones or the trailing ones.
 * ret_rows: number of kept elements; ret_n: number of elements in each sum. Axes of one
 * element count as either. */
static int fold_pattern(const struct fold *f, size_t *ret_rows, size_t *ret_n)
{
    int changes = 0, reduced_first = -1, before = -1;
    size_t rows = 1, n = 1;

    for (int d = 0; d < f->rank; d++) {
        if (f->dim[d] == 1)
            continue;
        int reduced = f->stride[d] == 0;
        changes += before >= 0 && reduced != before;
        if (reduced_first < 0)
            reduced_first = reduced;
        before = reduced;
        *(reduced ? &n : &rows) *= (size_t)f->dim[d];
    }
    *ret_rows = rows;
    *ret_n = n;
    return changes > 1                          ? SUM_OTHER
           : reduced_first == 1 && changes == 1 ? SUM_COLUMNS
                                                : SUM_ROWS;
}

static int pattern_of(const struct fold *f, size_t *ret_period)
{
    size_t rows, n;
    int pattern = fold_pattern(f, &rows, &n);

    *ret_period = pattern == SUM_COLUMNS ? rows : n;
    return pattern;
}

int sum_pattern(const struct shape *x, const struct tensor *axes, size_t *ret_period)
{
    struct fold f;

    fold_init(&f, x, axes);
    return pattern_of(&f, ret_period);
}

int sum_pattern_but(const struct shape *x, int kept, size_t *ret_period)
{
    struct fold f;

    fold_init_but(&f, x, kept);
    return pattern_of(&f, ret_period);
}

void sum_column_blocks(float *y, float *part, const float *x, size_t start, size_t n,
                       size_t period, size_t total)
{
    const size_t block = DENSE_BLOCK * period;

    while (n > 0) {
        const size_t at = start % block, room = block - at, some = n < room ? n : room;
        float *to = start < block ? y : part; /* the first block's sums are formed in y */

        if (at == 0)
            memset(to, 0, period * sizeof(float));
        kern_loops()->sum_columns(to, x, at, some, period);
        start += some;
        if (to == part && (at + some == block || start == total))
            for (size_t i = 0; i < period; i++)
                y[i] += part[i];
        x += some;
        n -= some;
    }
}

/* columns that are summed at a time, so that their sums fit on the stack */
#define STRIP 256

static void sum_strip(float *y, const float *x, size_t rows, size_t width, size_t ld)
{
    float part[STRIP];

    for (size_t first = 0; first < rows; first += DENSE_BLOCK) {
        const size_t end = rows - first < DENSE_BLOCK ? rows : first + DENSE_BLOCK;

        memset(part, 0, width * sizeof(float));
        for (size_t r = first; r < end; r++)
            for (size_t i = 0; i < width; i++)
                part[i] += x[r * ld + i];
        for (size_t i = 0; i < width; i++)
            y[i] = first == 0 ? part[i] : y[i] + part[i];
    }
}

static int sum(const struct kernel_args *a, const struct fold *f)
{
    const struct kern_loops *loops = kern_loops();
    const float *x = a->in[0]->data;
    float *y = a->out[0]->data;
    size_t rows, n;
    int pattern = fold_pattern(f, &rows, &n);

    if (a->in[0]->dtype != DT_FLOAT || pattern == SUM_OTHER)
        return fold_all(RED_SUM, a, *f);
    if (pattern == SUM_ROWS) {
        loops->sum_rows(y, x, rows, n);
    } else {
        memset(y, 0, rows * sizeof(float));
        for (size_t i = 0; i < rows; i += STRIP)
            sum_strip(y + i, x + i, n, rows - i < STRIP ? rows - i : STRIP, rows);
    }
    return 0;
}

/* Reduces input 0 along the axes in input 1. */
static int reduce_axes(enum reduction kind, const struct kernel_args *a)
{
    struct fold f;

    fold_init(&f, &a->in[0]->shape, a->in[1]);
    return kind == RED_SUM ? sum(a, &f) : fold_all(kind, a, f);
}

int kern_sum(const struct kernel_args *a)
{
    return reduce_axes(RED_SUM, a);
}

int kern_mean(const struct kernel_args *a)
{
    int rc = kern_sum(a);
    int64_t n_out = tensor_elements(a->out[0]);
    int64_t n = n_out > 0 ? tensor_elements(a->in[0]) / n_out : 0;

    for (int64_t i = 0; rc == 0 && i < n_out; i++) {
        switch (a->out[0]->dtype) {
        case DT_FLOAT:
            tensor_f32(a->out[0])[i] /= (float)n;
            break;
        case DT_DOUBLE:
            ((double *)a->out[0]->data)[i] /= (double)n;
            break;
        default:
            tensor_set_int(a->out[0], i, n ? tensor_int(a->out[0], i) / n : 0);
        }
    }
    return rc;
}

/* The root of the sum. It completes EuclideanNorm, whose squares the planner computes before. */
int kern_root_sum(const struct kernel_args *a)
{
    const struct tensor *y = a->out[0];
    int rc = kern_sum(a);

    for (int64_t i = 0; rc == 0 && i < tensor_elements(y); i++) {
        if (y->dtype == DT_FLOAT)
            tensor_f32(y)[i] = sqrtf(tensor_f32(y)[i]);
        else if (y->dtype == DT_DOUBLE)
            ((double *)y->data)[i] = sqrt(((double *)y->data)[i]);
        else
            tensor_set_int(y, i, (int64_t)sqrt((double)tensor_int(y, i)));
    }
    return rc;
}

static int kern_prod(const struct kernel_args *a)
{
    return reduce_axes(RED_PROD, a);
}

static int kern_max(const struct kernel_args *a)
{
    return reduce_axes(RED_MAX, a);
}

static int kern_min(const struct kernel_args *a)
{
    return reduce_axes(RED_MIN, a);
}

static int kern_all(const struct kernel_args *a)
{
    return reduce_axes(RED_ALL, a);
}

static int kern_any(const struct kernel_args *a)
{
    return reduce_axes(RED_ANY, a);
}

/* ---- positions of extremes: the first of equal elements ---- */

/* Whether element i is greater (sign 1) or less (-1) than element k; than any number if k
 * is -1. NaN is neither. */
static int is_more(const struct tensor *t, int64_t i, int64_t k, int sign)
{
    double x, y;

    if (t->dtype != DT_FLOAT && t->dtype != DT_DOUBLE)
        return k < 0 || (sign > 0 ? tensor_int(t, i) > tensor_int(t, k)
                                  : tensor_int(t, i) < tensor_int(t, k));
    x = t->dtype == DT_FLOAT ? (double)((const float *)t->data)[i]
                             : ((const double *)t->data)[i];
    if (k < 0)
        return x == x;
    y = t->dtype == DT_FLOAT ? (double)((const float *)t->data)[k]
                             : ((const double *)t->data)[k];
    return sign > 0 ? x > y : x < y;
}

static int arg_extreme(const struct kernel_args *a, int sign)
{
    const struct tensor *x = a->in[0];
    int64_t axis = tensor_int(a->in[1], 0), outer = 1, inner = 1;

    axis += axis < 0 ? x->shape.rank : 0;
    for (int d = 0; d < x->shape.rank; d++)
        *(d < axis ? &outer : &inner) *= d == axis ? 1 : x->shape.dim[d];
    int64_t n = x->shape.dim[axis];
    if (n == 0 && outer * inner > 0)
        return err_set(a->err, ERR_ARG, "%s: dimension %lld of %s has no elements",
                       operation_name(a->op), (long long)axis, shape_text(&x->shape));
    for (int64_t i = 0; i < outer * inner; i++) {
        int64_t base = i / inner * n * inner + i % inner, best = -1;

        for (int64_t k = 0; k < n; k++)
            if (is_more(x, base + k * inner, best < 0 ? -1 : base + best * inner, sign))
                best = k;
        tensor_set_int(a->out[0], i, best < 0 ? 0 : best);
    }
    return 0;
}

static int kern_arg_max(const struct kernel_args *a)
{
    return arg_extreme(a, 1);
}

static int kern_arg_min(const struct kernel_args *a)
{
    return arg_extreme(a, -1);
}

/* ---- sums of particular operations ---- */

/* Sums over all axes except the channels. */
int kern_bias_add_grad(const struct kernel_args *a)
{
    struct fold f;

    fold_init_but(&f, &a->in[0]->shape, channel_axis(a->op, a->in[0]->shape.rank));
    return sum(a, &f);
}

/* Half the sum of all elements. It completes L2Loss, whose squares the planner computes
 * before. */
int kern_half_sum(const struct kernel_args *a)
{
    struct fold f;
    int reduced[SHAPE_MAX_RANK];

    for (int d = 0; d < SHAPE_MAX_RANK; d++)
        reduced[d] = 1;
    fold_set(&f, &a->in[0]->shape, reduced);
    int rc = sum(a, &f);
    if (a->out[0]->dtype == DT_FLOAT)
        *tensor_f32(a->out[0]) /= 2.0f;
    else
        *(double *)a->out[0]->data /= 2.0;
    return rc;
}

/* ---- shapes and gradients ---- */

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

struct output kept_shape(struct graph *g, struct output shape, struct output axes)
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

/* d x / y */
GRAD(euclidean_norm_grad)
{
    struct output x = input_of(op, 0), y = output_of(op, 0), d = grad_out[0];

    if (!attr_int(op, "keep_dims")) {
        struct output kept = kept_shape(g, shape_of(g, x, NULL), input_of(op, 1));

        y = binary(g, "Reshape", y, kept, NULL);
        d = binary(g, "Reshape", d, kept, NULL);
    }
    y = binary(g, "RealDiv", y, d, "truediv");
    grad_in[0] = binary(g, "RealDiv", x, y, "truediv");
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

GRAD_ONE(l2_loss_grad, binary(g, "Mul", input_of(op, 0), grad_out[0], "mul"))

/* ---- the rows ---- */

#define REDUCE(type, kernel, kind, grad)                                                 \
    {                                                                                    \
        type, OP_SAME_IF_WHOLE, reduce_shape, grad, kernel,                              \
            "input:T, reduction_indices:Tidx -> output:T; keep_dims:bool=false, T:" kind \
            ", Tidx:index_type=int32"                                                    \
    }
#define REDUCE_BOOL(type, kernel)                                                        \
    {                                                                                    \
        type, OP_SAME_IF_WHOLE | OP_NO_GRADIENT, reduce_shape, NULL, kernel,             \
            "input:bool, reduction_indices:Tidx -> output:bool; keep_dims:bool=false, "  \
            "Tidx:index_type=int32"                                                      \
    }
#define ARG_EXTREMUM(type, kernel)                                                       \
    {                                                                                    \
        type, OP_NO_GRADIENT, arg_extremum_shape, NULL, kernel,                          \
            "input:T, dimension:Tidx -> output:output_type; T:number_type, "             \
            "Tidx:index_type=int32, "                                                    \
            "output_type:index_type=int64"                                               \
    }

static const struct op_def rows[] = {
    REDUCE("Sum", CALL(kern_sum), "number_type", sum_grad),
    REDUCE("Mean", CALL(kern_mean), "number_type", mean_grad),
    REDUCE("Max", CALL(kern_max), "number_type", extremum_grad),
    REDUCE("Min", CALL(kern_min), "number_type", extremum_grad),
    REDUCE("Prod", CALL(kern_prod), "number_type", prod_grad),
    {"EuclideanNorm", 0, reduce_shape, euclidean_norm_grad, CALL(kern_root_sum),
     "input:T, reduction_indices:Tidx -> output:T; keep_dims:bool=false, T:number_type, "
     "Tidx:index_type=int32"},
    REDUCE_BOOL("All", CALL(kern_all)),
    REDUCE_BOOL("Any", CALL(kern_any)),
    ARG_EXTREMUM("ArgMax", CALL(kern_arg_max)),
    ARG_EXTREMUM("ArgMin", CALL(kern_arg_min)),
    {"L2Loss", 0, shape_scalar, l2_loss_grad, CALL(kern_half_sum),
     "t:T -> output:T; T:float_type"},
};

const struct op_family ops_of_reduce = OP_FAMILY(rows);
