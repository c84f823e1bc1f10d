/* axes.c - what reverses, rolls or accumulates along axes.
 *
 * Gradients after TensorFlow's python/ops/{math,array,manip}_grad.py.
 */
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"

#include <math.h>

/* ---- kernels: order ---- */

/* Axis number k in input i, as a dimension of input 0; ERR_ARG: it has none such. */
static int axis_at(const struct kernel_args *a, int i, int64_t k)
{
    const int rank = a->in[0]->shape.rank;
    const int64_t axis = tensor_int(a->in[i], k);

    if (axis >= -rank && axis < rank)
        return positive_axis(axis, rank);
    return err_set(a->err, ERR_ARG, "%s: axis %lld, but the input has %d dimensions",
                   operation_name(a->op), (long long)axis, rank);
}

/* Copies x with the marked dimensions reversed. */
static int copy_reversed(const struct kernel_args *a, const int *reversed)
{
    const struct tensor *x = a->in[0], *y = a->out[0];
    const size_t elem = elem_size(x);
    struct copy_plan c = {.rank = x->shape.rank};
    const char *src = x->data;

    if (tensor_elements(x) == 0)
        return 0;
    dense_strides(&x->shape, elem, c.src_stride);
    dense_strides(&y->shape, elem, c.dst_stride);
    for (int d = 0; d < c.rank; d++) {
        c.dim[d] = x->shape.dim[d];
        if (!reversed[d])
            continue;
        src += (c.dim[d] - 1) * c.src_stride[d];
        c.src_stride[d] = -c.src_stride[d];
    }
    copy_strided(y->data, src, &c, elem);
    return 0;
}

static int kern_reverse(const struct kernel_args *a)
{
    const uint8_t *dims = a->in[1]->data;
    int reversed[SHAPE_MAX_RANK];

    for (int d = 0; d < a->in[0]->shape.rank; d++)
        reversed[d] = dims[d];
    return copy_reversed(a, reversed);
}

static int kern_reverse_v2(const struct kernel_args *a)
{
    int reversed[SHAPE_MAX_RANK] = {0};

    for (int64_t i = 0; i < tensor_elements(a->in[1]); i++) {
        const int d = axis_at(a, 1, i);

        if (d < 0)
            return ERR_ARG;
        if (reversed[d]++)
            return err_set(a->err, ERR_ARG, "%s: axis %d is there twice",
                           operation_name(a->op), d);
    }
    return copy_reversed(a, reversed);
}

/* Reverses the first elements of each sequence: as many as the sequence's entry in input 1
 * says. */
static int kern_reverse_sequence(const struct kernel_args *a)
{
    const struct tensor *x = a->in[0], *y = a->out[0];
    const int seq_dim = (int)attr_int(a->op, "seq_dim");
    const int batch_dim = (int)attr_int(a->op, "batch_dim");
    const int64_t steps = x->shape.dim[seq_dim];
    const int last = seq_dim > batch_dim ? seq_dim : batch_dim;
    const size_t bytes = (size_t)span(&x->shape, last + 1, x->shape.rank) * elem_size(x);
    const int64_t rows = span(&x->shape, 0, last + 1);
    /* rows from one step, and from one sequence, to the next */
    const int64_t by_step = span(&x->shape, seq_dim + 1, last + 1);
    const int64_t by_sequence = span(&x->shape, batch_dim + 1, last + 1);

    for (int64_t i = 0; i < tensor_elements(a->in[1]); i++) {
        const int64_t n = tensor_int(a->in[1], i);

        if (n < 0 || n > steps)
            return err_set(
                a->err, ERR_ARG, "%s: length %lld of sequence %lld, not in [0, %lld]",
                operation_name(a->op), (long long)n, (long long)i, (long long)steps);
    }
    for (int64_t r = 0; r < rows && bytes > 0; r++) {
        const int64_t step = r / by_step % steps;
        const int64_t n = tensor_int(a->in[1], r / by_sequence % x->shape.dim[batch_dim]);
        const int64_t from = step < n ? r + (n - 1 - 2 * step) * by_step : r;

        memcpy((char *)y->data + (size_t)r * bytes,
               (const char *)x->data + (size_t)from * bytes, bytes);
    }
    return 0;
}

/* Copies the pieces into which the rolled dimensions are cut: of each, what stays before the
 * end, and what wraps to the beginning. */
static int kern_roll(const struct kernel_args *a)
{
    const struct tensor *x = a->in[0], *y = a->out[0];
    const size_t elem = elem_size(x);
    const int rank = x->shape.rank;
    int64_t by[SHAPE_MAX_RANK] = {0};

    for (int64_t i = 0; i < tensor_elements(a->in[2]); i++) {
        const int d = axis_at(a, 2, i);
        const int64_t dim = d < 0 ? 0 : x->shape.dim[d];

        if (d < 0)
            return ERR_ARG;
        if (dim == 0)
            continue;
        by[d] = ((by[d] + tensor_int(a->in[1], i) % dim) % dim + dim) % dim;
    }
    for (int corner = 0; tensor_elements(x) > 0 && corner < 1 << rank; corner++) {
        struct copy_plan c = {.rank = rank};
        const char *src = x->data;
        char *dst = y->data;

        dense_strides(&x->shape, elem, c.src_stride);
        dense_strides(&y->shape, elem, c.dst_stride);
        for (int d = 0; d < rank; d++) {
            const int wraps = corner >> d & 1;

            c.dim[d] = wraps ? by[d] : x->shape.dim[d] - by[d];
            src += wraps ? (x->shape.dim[d] - by[d]) * c.src_stride[d] : 0;
            dst += wraps ? 0 : by[d] * c.dst_stride[d];
        }
        copy_strided(dst, src, &c, elem);
    }
    return 0;
}

/* ---- kernels: running sums, products, and logarithms of sums of exponentials ---- */

static double add_logs(double x, double y)
{
    const double top = x > y ? x : y, low = x > y ? y : x;

    return x != x || y != y ? x + y : isinf(top) ? top : top + log1p(exp(low - top));
}

/* Each result is that of the one before, in the direction of the sum, and of one element. */
#define RUN(T, start, expr)                                                              \
    {                                                                                    \
        const T *x = a->in[0]->data;                                                     \
        T *y = a->out[0]->data;                                                          \
                                                                                         \
        for (int64_t line = 0; line < outer * inner; line++) {                           \
            int64_t at = line / inner * n * inner + line % inner;                        \
            T sum = (T)(start);                                                          \
                                                                                         \
            at += backwards ? (n - 1) * inner : 0;                                       \
            for (int64_t k = 0; k < n; k++, at += backwards ? -inner : inner) {          \
                const T before = sum;                                                    \
                                                                                         \
                sum = (T)(expr);                                                         \
                y[at] = exclusive ? before : sum;                                        \
            }                                                                            \
        }                                                                                \
        return 0;                                                                        \
    }
#define RUN_NUMBERS(start, op)                                                           \
    switch (a->in[0]->dtype) {                                                           \
    case DT_FLOAT:                                                                       \
        RUN(float, start, before op x[at])                                               \
    case DT_DOUBLE:                                                                      \
        RUN(double, start, before op x[at])                                              \
    case DT_INT32:                                                                       \
        RUN(int32_t, start, (uint32_t)before op(uint32_t) x[at])                         \
    default:                                                                             \
        RUN(int64_t, start, (uint64_t)before op(uint64_t) x[at])                         \
    }

enum running { SUM, PRODUCT, LOG_SUM };

static int run_along(const struct kernel_args *a, enum running kind)
{
    const struct shape *s = &a->in[0]->shape;
    const int axis = axis_at(a, 1, 0);
    const int exclusive = (int)attr_int(a->op, "exclusive");
    const int backwards = (int)attr_int(a->op, "reverse");
    int64_t n, outer, inner;

    if (axis < 0)
        return ERR_ARG;
    n = s->dim[axis];
    outer = span(s, 0, axis);
    inner = span(s, axis + 1, s->rank);
    if (kind == SUM)
        RUN_NUMBERS(0, +)
    if (kind == PRODUCT)
        RUN_NUMBERS(1, *)
    if (a->in[0]->dtype == DT_FLOAT)
        RUN(float, -INFINITY, add_logs((double)before, (double)x[at]))
    RUN(double, -INFINITY, add_logs(before, x[at]))
}

static int kern_cumsum(const struct kernel_args *a)
{
    return run_along(a, SUM);
}

static int kern_cumprod(const struct kernel_args *a)
{
    return run_along(a, PRODUCT);
}

static int kern_cumulative_logsumexp(const struct kernel_args *a)
{
    return run_along(a, LOG_SUM);
}

/* ---- shapes ---- */

/* The shape of input 0. The axes in input i are checked if they are known; otherwise the kernel
 * does it. */
static int same_with_axes(const struct shape_args *args, int i)
{
    int64_t axes[SHAPE_MAX_RANK];
    const int rank = args->in[0].rank, n = value_ints(args, i, axes, SHAPE_MAX_RANK);

    args->out[0] = args->in[0];
    for (int k = 0; k < n && rank >= 0; k++)
        if (wrap_axis(args, rank, &axes[k]) != 0)
            return ERR_SHAPE;
    return 0;
}

static int reverse_shape(const struct shape_args *args)
{
    const int64_t n = dim_of(&args->in[1], 0);

    args->out[0] = args->in[0];
    if (n < 0 || args->in[0].rank < 0 || n == args->in[0].rank)
        return 0;
    return err_set(args->err, ERR_SHAPE, "%lld marks for the dimensions of %s",
                   (long long)n, shape_text(&args->in[0]));
}

static int along_axis_shape(const struct shape_args *args)
{
    return same_with_axes(args, 1);
}

static int reverse_sequence_shape(const struct shape_args *args)
{
    const int64_t seq = attr_int(args->op, "seq_dim");
    const int64_t batch = attr_int(args->op, "batch_dim");
    const struct shape *x = &args->in[0];
    const int64_t n = dim_of(&args->in[1], 0);

    args->out[0] = *x;
    if (seq < 0 || batch < 0 || seq == batch ||
        (x->rank >= 0 && (seq >= x->rank || batch >= x->rank)))
        return err_set(args->err, ERR_SHAPE, "seq_dim %lld and batch_dim %lld of %s",
                       (long long)seq, (long long)batch, shape_text(x));
    if (x->rank < 0 || n < 0 || x->dim[batch] < 0 || n == x->dim[batch])
        return 0;
    return err_set(args->err, ERR_SHAPE, "%lld lengths for %lld sequences", (long long)n,
                   (long long)x->dim[batch]);
}

static int roll_shape(const struct shape_args *args)
{
    const struct shape *shift = &args->in[1], *axis = &args->in[2];

    if (args->in[0].rank == 0)
        return err_set(args->err, ERR_SHAPE, "a scalar cannot be rolled");
    if (shift->rank > 1 || axis->rank > 1 || !shape_compatible(shift, axis))
        return err_set(args->err, ERR_SHAPE, "shifts %s for axes %s", shape_text(shift),
                       shape_text(axis));
    return same_with_axes(args, 2);
}

/* ---- gradients ---- */

GRAD(reverse_grad)
{
    grad_in[0] = binary(g, operation_type(op), grad_out[0], input_of(op, 1), NULL);
    return grad_done(grad_in, 1);
}

GRAD(reverse_sequence_grad)
{
    struct op_builder *b = op_begin(g, "ReverseSequence", NULL);

    op_input(b, grad_out[0]);
    op_input(b, input_of(op, 1));
    op_attr_int(b, "seq_dim", attr_int(op, "seq_dim"));
    op_attr_int(b, "batch_dim", attr_int(op, "batch_dim"));
    grad_in[0] = (struct output){op_finish(b), 0};
    return grad_done(grad_in, 1);
}

GRAD(roll_grad)
{
    struct output back = unary(g, "Neg", input_of(op, 1), NULL);

    grad_in[0] = ternary(g, "Roll", grad_out[0], back, input_of(op, 2), NULL);
    return grad_done(grad_in, 1);
}

/* The operation of the type, along the axis of op; turned: in the other direction. */
static struct output along(struct graph *g, const struct operation *op, const char *type,
                           struct output x, int turned)
{
    struct op_builder *b = op_begin(g, type, NULL);

    op_input(b, x);
    op_input(b, input_of(op, 1));
    op_attr_bool(b, "exclusive", (int)attr_int(op, "exclusive"));
    op_attr_bool(b, "reverse", (attr_int(op, "reverse") != 0) != turned);
    return (struct output){op_finish(b), 0};
}

GRAD_ONE(cumsum_grad, along(g, op, "Cumsum", grad_out[0], 1))

GRAD(cumprod_grad)
{
    struct output x = input_of(op, 0), product = along(g, op, "Cumprod", x, 0);

    product = binary(g, "Mul", product, grad_out[0], "mul");
    product = along(g, op, "Cumsum", product, 1);
    grad_in[0] = binary(g, "DivNoNan", product, x, "div_no_nan");
    return grad_done(grad_in, 1);
}

/* exp(x + cumulative_logsumexp(log d - y)) for the positive part d of the gradient. */
static struct output log_part(struct graph *g, struct operation *op, struct output d)
{
    const double lowest =
        output_dtype(d) == DT_FLOAT ? -3.402823466e38 : -1.7976931348623157e308;
    struct output is_positive = with_scalar(g, "Greater", d, 0.0, "Greater");
    struct output logs = unary(g, "Log", d, NULL);

    logs = ternary(g, "SelectV2", is_positive, logs,
                   constant_like(g, output_dtype(d), lowest, NULL), NULL);
    logs = binary(g, "Sub", logs, output_of(op, 0), "sub");
    logs = along(g, op, "CumulativeLogsumexp", logs, 1);
    return unary(g, "Exp", binary(g, "Add", logs, input_of(op, 0), "add"), NULL);
}

GRAD(cumulative_logsumexp_grad)
{
    struct output positive = log_part(g, op, grad_out[0]);
    struct output negative = unary(g, "Neg", grad_out[0], NULL);

    negative = log_part(g, op, negative);
    grad_in[0] = binary(g, "Sub", positive, negative, "sub");
    return grad_done(grad_in, 1);
}

/* ---- the rows ---- */

#define CUMULATIVE(type, flags, grad, kernel, kind)                                      \
    {                                                                                    \
        type, flags, along_axis_shape, grad, CALL(kernel),                               \
            "x:T, axis:Tidx -> out:T; exclusive:bool=false, reverse:bool=false, T:" kind \
            ", Tidx:index_type=int32",                                                   \
            .ranks = "?0"                                                                \
    }

static const struct op_def rows[] = {
    {"Reverse", 0, reverse_shape, reverse_grad, CALL(kern_reverse),
     "tensor:T, dims:bool -> output:T; T:type", .ranks = "?1"},
    {"ReverseV2", 0, along_axis_shape, reverse_grad, CALL(kern_reverse_v2),
     "tensor:T, axis:Tidx -> output:T; Tidx:index_type=int32, T:type", .ranks = "?1"},
    {"ReverseSequence", 0, reverse_sequence_shape, reverse_sequence_grad,
     CALL(kern_reverse_sequence),
     "input:T, seq_lengths:Tlen -> output:T; seq_dim:int, batch_dim:int=0, T:type, "
     "Tlen:index_type=int64",
     .ranks = "?1"},
    {"Roll", 0, roll_shape, roll_grad, CALL(kern_roll),
     "input:T, shift:Tshift, axis:Taxis -> output:T; T:type, Tshift:index_type, "
     "Taxis:index_type"},
    CUMULATIVE("Cumsum", 0, cumsum_grad, kern_cumsum, "number_type"),
    CUMULATIVE("Cumprod", 0, cumprod_grad, kern_cumprod, "number_type"),
    CUMULATIVE("CumulativeLogsumexp", OP_LIBM, cumulative_logsumexp_grad,
               kern_cumulative_logsumexp, "float_type"),
};

const struct op_family ops_of_axes = OP_FAMILY(rows);
