/* Sums, products and extremes over any set of axes.
 *
 * Every float32 sum has a fixed order: over all elements in lanes (loops.h), over leading
 * axes row after row in blocks (dense.h), over trailing axes in lanes within each row,
 * and anything else in index order. The order depends on the shapes only. */
#include "agent/session/kernels/kernel.h"
#include "agent/session/kernels/loops.h"

#include <string.h>

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

/* Returns the output position of the next input element, given that of this one, `at`. */
static int64_t fold_next(const struct fold *f, int64_t *index, int64_t at)
{
    for (int d = f->rank - 1; d >= 0; d--) {
        at += f->stride[d];
        if (++index[d] < f->dim[d])
            return at;
        at -= index[d] * f->stride[d];
        index[d] = 0;
    }
    return at;
}

#define FOLD(T, start, expr)                                                             \
    {                                                                                    \
        T *y = out->data;                                                                \
        const T *x = in->data;                                                           \
        for (int64_t i = 0; i < n_out; i++)                                              \
            y[i] = (T)(start);                                                           \
        for (int64_t i = 0; i < n; i++) {                                                \
            y[at] = (T)(expr);                                                           \
            at = fold_next(&f, index, at);                                               \
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

static int reduce(enum reduction kind, const struct kernel_args *a, struct fold f)
{
    const struct tensor *in = a->in[0], *out = a->out[0];
    int64_t n = tensor_elements(in), n_out = tensor_elements(out), at = 0;
    int64_t index[SHAPE_MAX_RANK] = {0};

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
        return reduce(RED_SUM, a, *f);
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
    return kind == RED_SUM ? sum(a, &f) : reduce(kind, a, f);
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

int kern_prod(const struct kernel_args *a)
{
    return reduce_axes(RED_PROD, a);
}

int kern_max(const struct kernel_args *a)
{
    return reduce_axes(RED_MAX, a);
}

int kern_min(const struct kernel_args *a)
{
    return reduce_axes(RED_MIN, a);
}

int kern_all(const struct kernel_args *a)
{
    return reduce_axes(RED_ALL, a);
}

int kern_any(const struct kernel_args *a)
{
    return reduce_axes(RED_ANY, a);
}

/* ---- positions of extremes: the first of equal elements ---- */

/* Whether element i is greater than element k. */
static int is_greater(const struct tensor *t, int64_t i, int64_t k)
{
    switch (t->dtype) {
    case DT_FLOAT:
        return ((const float *)t->data)[i] > ((const float *)t->data)[k];
    case DT_DOUBLE:
        return ((const double *)t->data)[i] > ((const double *)t->data)[k];
    default:
        return tensor_int(t, i) > tensor_int(t, k);
    }
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
        int64_t base = i / inner * n * inner + i % inner, best = 0;

        for (int64_t k = 1; k < n; k++)
            if (sign > 0 ? is_greater(x, base + k * inner, base + best * inner)
                         : is_greater(x, base + best * inner, base + k * inner))
                best = k;
        tensor_set_int(a->out[0], i, best);
    }
    return 0;
}

int kern_arg_max(const struct kernel_args *a)
{
    return arg_extreme(a, 1);
}

int kern_arg_min(const struct kernel_args *a)
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
