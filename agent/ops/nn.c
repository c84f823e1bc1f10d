/* nn.c - activations, biases, losses.
 *
 * Gradients after TensorFlow 1.13's python/ops/nn_grad.py and math_grad.py. */
#include "agent/kernels/loops.h"
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"

#include <math.h>

/* ---- kernels: softmax and losses ---- */

/* Divides a tensor into rows along its last axis, which the functions below normalise. */
static void rows_of(const struct tensor *t, int64_t *ret_rows, int64_t *ret_n)
{
    *ret_n = t->shape.rank > 0 ? t->shape.dim[t->shape.rank - 1] : 1;
    *ret_rows = *ret_n > 0 ? tensor_elements(t) / *ret_n : 0;
}

static double log_sum_exp(const double *x, int64_t n, double *ret_top)
{
    double top = x[0], sum = 0;

    for (int64_t i = 1; i < n; i++)
        top = x[i] > top ? x[i] : top;
    for (int64_t i = 0; i < n; i++)
        sum += exp(x[i] - top);
    *ret_top = top;
    return top + log(sum);
}

static int softmax_rows(const struct kernel_args *a, int logarithm)
{
    const struct kern_loops *loops = kern_loops();
    int64_t rows, n;

    rows_of(a->in[0], &rows, &n);
    if (rows == 0)
        return 0;
    if (a->in[0]->dtype == DT_FLOAT) {
        (logarithm ? loops->log_softmax : loops->softmax)(a->out[0]->data, a->in[0]->data,
                                                          (size_t)rows, (size_t)n);
        return 0;
    }
    const double *x = a->in[0]->data;
    double *y = a->out[0]->data, top;
    for (int64_t r = 0; r < rows; r++, x += n, y += n) {
        double norm = log_sum_exp(x, n, &top);

        for (int64_t i = 0; i < n; i++)
            y[i] = logarithm ? x[i] - norm : exp(x[i] - norm);
    }
    return 0;
}

int kern_softmax(const struct kernel_args *a)
{
    return softmax_rows(a, 0);
}

int kern_log_softmax(const struct kernel_args *a)
{
    return softmax_rows(a, 1);
}

/* Per row: loss = -sum(labels log softmax(logits)), and its gradient with respect to the
 * logits, softmax(logits) - labels. in: logits, labels (rows, n), or of one row or column; out:
 * loss (rows), backprop (rows, n). */
static int kern_softmax_xent(const struct kernel_args *a)
{
    const struct kernel_args spread = {.in = a->in, .out = a->out + 1};
    const struct tensor *logits = a->in[0];
    int64_t rows, n, row, column;

    rows_of(a->out[1], &rows, &n);
    /* elements from a row, and from a column, to the next: 0 where it is broadcast */
    const struct tensor *t = a->in[1];
    row = t->shape.dim[0] == 1 ? 0 : t->shape.dim[1];
    column = t->shape.dim[1] == 1 ? 0 : 1;
    if (!shape_equal(&logits->shape, &a->out[1]->shape)) {
        (void)kern_broadcast_to(&spread);
        logits = a->out[1];
    }
    if (logits->dtype == DT_FLOAT) {
        const float *labels = a->in[1]->data;
        float *loss = a->out[0]->data, *back = a->out[1]->data;

        kern_loops()->log_softmax(back, logits->data, (size_t)rows, (size_t)n);
        for (int64_t r = 0; r < rows; r++) {
            loss[r] = 0;
            for (int64_t i = 0; i < n; i++) {
                const float label = labels[r * row + i * column];

                loss[r] -= label == 0 ? 0 : label * back[r * n + i];
            }
        }
        kern_loop_find("Exp", DT_FLOAT)
            ->fn(back, back, NULL, NULL, (size_t)(rows * n), 0);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t i = 0; i < n; i++)
                back[r * n + i] -= labels[r * row + i * column];
        return 0;
    }
    const double *x = logits->data, *labels = a->in[1]->data;
    double *loss = a->out[0]->data, *back = a->out[1]->data, top;
    for (int64_t r = 0; r < rows; r++) {
        double norm = log_sum_exp(x + r * n, n, &top);

        loss[r] = 0;
        for (int64_t i = 0; i < n; i++) {
            const double label = labels[r * row + i * column], z = x[r * n + i];

            loss[r] -= label == 0 ? 0 : label * (z - norm);
            back[r * n + i] = exp(z - norm) - label;
        }
    }
    return 0;
}

/* Like kern_softmax_xent, with a class index for each row instead of labels. */
static int kern_sparse_softmax_xent(const struct kernel_args *a)
{
    int64_t rows, n;

    rows_of(a->in[0], &rows, &n);
    /* backprop holds log softmax(logits) until it is complete */
    struct kernel_args logs = *a;
    logs.out = a->out + 1;
    (void)softmax_rows(&logs, 1);
    for (int64_t r = 0; r < rows; r++) {
        int64_t label = tensor_int(a->in[1], r);

        if (label < 0 || label >= n)
            return err_set(a->err, ERR_ARG, "%s: label %lld is not in [0, %lld)",
                           operation_name(a->op), (long long)label, (long long)n);
        if (a->in[0]->dtype == DT_FLOAT) {
            float *back = tensor_f32(a->out[1]) + r * n;

            tensor_f32(a->out[0])[r] = -back[label];
            kern_loop_find("Exp", DT_FLOAT)->fn(back, back, NULL, NULL, (size_t)n, 0);
            back[label] -= 1.0f;
        } else {
            double *back = (double *)a->out[1]->data + r * n;

            ((double *)a->out[0]->data)[r] = -back[label];
            for (int64_t i = 0; i < n; i++)
                back[i] = exp(back[i]) - (i == label);
        }
    }
    return 0;
}

/* ---- shapes and gradients: biases ---- */

static int bias_add_shape(const struct shape_args *args)
{
    const struct shape *x = &args->in[0], *bias = &args->in[1];
    struct shape out = *x;
    int64_t width = dim_of(bias, 0), *channels;

    args->out[0] = out;
    if (x->rank < 0)
        return 0;
    if (x->rank < 2)
        return err_set(args->err, ERR_SHAPE,
                       "%s needs at least 2 dimensions for a bias %s", shape_text(x),
                       shape_text(bias));
    channels = &out.dim[channel_axis(args->op, x->rank)];
    if (*channels >= 0 && width >= 0 && *channels != width)
        return err_set(args->err, ERR_SHAPE, "a bias of shape %s does not fit %s",
                       shape_text(bias), shape_text(x));
    if (*channels < 0)
        *channels = width;
    args->out[0] = out;
    return 0;
}

static const char *data_format(const struct operation *op)
{
    return operation_attr(op, "data_format")->s;
}

GRAD(bias_add_grad)
{
    struct op_builder *b = op_begin(g, "BiasAddGrad", NULL);

    op_input(b, grad_out[0]);
    op_attr_string(b, "data_format", data_format(op));
    grad_in[0] = grad_out[0];
    grad_in[1] = (struct output){op_finish(b), 0};
    return grad_done(grad_in, 2);
}

static int bias_add_grad_shape(const struct shape_args *args)
{
    const struct shape *x = &args->in[0];

    if (x->rank == 0 || x->rank == 1)
        return err_set(args->err, ERR_SHAPE, "%s needs at least 2 dimensions",
                       shape_text(x));
    args->out[0] = SHAPE(x->rank < 0 ? -1 : dim_of(x, channel_axis(args->op, x->rank)));
    return 0;
}

GRAD(bias_add_grad_grad)
{
    struct output zero = zeros_like(g, input_of(op, 0), NULL);
    struct op_builder *b = op_begin(g, "BiasAdd", NULL);

    op_input(b, zero);
    op_input(b, grad_out[0]);
    op_attr_string(b, "data_format", data_format(op));
    grad_in[0] = (struct output){op_finish(b), 0};
    return grad_done(grad_in, 1);
}

/* BiasAddV1, of TensorFlow before 0.6: the channels are last */
static int kern_bias_add_v1(const struct kernel_args *a)
{
    const struct loop_row *add = kern_loop_find("Add", a->out[0]->dtype);
    const int64_t n = tensor_elements(a->in[1]);
    const size_t row = (size_t)n * dtype_size(a->out[0]->dtype);
    const char *x = a->in[0]->data;
    char *y = a->out[0]->data;

    if (add == NULL)
        return want_f32(a);
    for (int64_t i = 0; i < tensor_elements(a->out[0]); i += n, x += row, y += row)
        add->fn(y, x, a->in[1]->data, NULL, (size_t)n, 0);
    return 0;
}

GRAD(bias_add_v1_grad)
{
    struct output last = with_scalar(g, "Sub", rank_of(g, grad_out[0]), 1, "sub");

    grad_in[0] = grad_out[0];
    grad_in[1] = binary(g, "Sum", grad_out[0], range_to(g, last), NULL);
    return grad_done(grad_in, 2);
}

/* ---- gradients of activations: <Op>Grad(gradients, features or outputs) ---- */

GRAD_ONE(relu_grad, binary(g, "ReluGrad", grad_out[0], output_of(op, 0), NULL))

GRAD(relu_grad_grad)
{
    grad_in[0] = binary(g, "ReluGrad", grad_out[0], input_of(op, 1), NULL);
    grad_in[1] = zeros_as(g, input_of(op, 1));
    return grad_done(grad_in, 2);
}

GRAD_ONE(relu6_grad, binary(g, "Relu6Grad", grad_out[0], output_of(op, 0), NULL))

GRAD(relu6_grad_grad)
{
    grad_in[0] = binary(g, "Relu6Grad", grad_out[0], input_of(op, 1), NULL);
    grad_in[1] = zeros_as(g, input_of(op, 1));
    return grad_done(grad_in, 2);
}

GRAD_ONE(softsign_grad, binary(g, "SoftsignGrad", grad_out[0], input_of(op, 0), NULL))

static struct output leaky_grad_node(struct graph *g, const struct operation *op,
                                     struct output d, struct output features)
{
    struct op_builder *b = op_begin(g, "LeakyReluGrad", NULL);

    op_input(b, d);
    op_input(b, features);
    op_attr_float(b, "alpha", operation_attr(op, "alpha")->f);
    return (struct output){op_finish(b), 0};
}

GRAD_ONE(leaky_relu_grad, leaky_grad_node(g, op, grad_out[0], input_of(op, 0)))

GRAD(leaky_relu_grad_grad)
{
    grad_in[0] = leaky_grad_node(g, op, grad_out[0], input_of(op, 1));
    grad_in[1] = zeros_as(g, input_of(op, 1));
    return grad_done(grad_in, 2);
}

GRAD_ONE(elu_grad, binary(g, "EluGrad", grad_out[0], output_of(op, 0), NULL))
GRAD_ONE(selu_grad, binary(g, "SeluGrad", grad_out[0], output_of(op, 0), NULL))

/* EluGrad(d, y) = d (y + 1) below zero, d above; SeluGrad has other constants than 1. */
GRAD(elu_grad_grad)
{
    struct output d = input_of(op, 0), y = input_of(op, 1), below, inner;

    grad_in[0] = binary(g, operation_type(op), grad_out[0], y, NULL);
    below = with_scalar(g, "Less", y, 0.0, "Less");
    inner = binary(g, "Mul", grad_out[0], d, "mul");
    grad_in[1] = where(g, below, inner, zeros_as(g, y), NULL);
    return grad_done(grad_in, 2);
}

GRAD_ONE(softplus_grad, binary(g, "SoftplusGrad", grad_out[0], input_of(op, 0), NULL))

/* SoftplusGrad(d, x) = d sigmoid(x); sigmoid' = 1 / (exp(-x) + 2 + exp(x)) */
GRAD(softplus_grad_grad)
{
    struct output d = input_of(op, 0), x = input_of(op, 1), slope, inner;

    grad_in[0] = binary(g, "SoftplusGrad", grad_out[0], x, NULL);
    slope = unary(g, "Exp", unary(g, "Neg", x, NULL), NULL);
    slope = with_scalar(g, "Add", slope, 2.0, "add");
    slope = binary(g, "Add", slope, unary(g, "Exp", x, NULL), "add");
    inner = binary(g, "Mul", grad_out[0], d, "mul");
    grad_in[1] = binary(g, "RealDiv", inner, slope, "truediv");
    return grad_done(grad_in, 2);
}

GRAD_ONE(tanh_grad, binary(g, "TanhGrad", output_of(op, 0), grad_out[0], NULL))

/* TanhGrad(y, d) = d (1 - y^2) */
GRAD(tanh_grad_grad)
{
    struct output y = input_of(op, 0), d = input_of(op, 1);
    struct output part = with_scalar(g, "Mul", grad_out[0], -2.0, "mul");

    part = binary(g, "Mul", part, d, "mul");
    grad_in[0] = binary(g, "Mul", part, y, "mul");
    grad_in[1] = binary(g, "TanhGrad", y, grad_out[0], NULL);
    return grad_done(grad_in, 2);
}

GRAD_ONE(sigmoid_grad, binary(g, "SigmoidGrad", output_of(op, 0), grad_out[0], NULL))

/* SigmoidGrad(y, d) = d y (1 - y) */
GRAD(sigmoid_grad_grad)
{
    struct output y = input_of(op, 0), d = input_of(op, 1);
    struct output gd = binary(g, "Mul", grad_out[0], d, "mul");
    struct output twice = scalar_with(g, "Mul", 2.0, gd, "mul");

    grad_in[0] = binary(g, "Sub", gd, binary(g, "Mul", twice, y, "mul"), "sub");
    grad_in[1] = binary(g, "SigmoidGrad", y, grad_out[0], NULL);
    return grad_done(grad_in, 2);
}

/* ---- shapes and gradients: softmax and losses ---- */

static int at_least_vector(const struct shape_args *args)
{
    if (args->in[0].rank == 0)
        return err_set(args->err, ERR_SHAPE,
                       "logits must have at least one dimension: %s",
                       shape_text(&args->in[0]));
    return shape_same(args);
}

/* (d - sum(d y)) y */
GRAD(softmax_grad)
{
    struct output y = output_of(op, 0), d = grad_out[0];
    struct output sum = sum_last_axis(g, binary(g, "Mul", d, y, "mul"));

    grad_in[0] = binary(g, "Mul", binary(g, "Sub", d, sum, "sub"), y, "mul");
    return grad_done(grad_in, 1);
}

/* d - sum(d) exp(y) */
GRAD(log_softmax_grad)
{
    struct output d = grad_out[0], y = unary(g, "Exp", output_of(op, 0), NULL);
    struct output spread = binary(g, "Mul", sum_last_axis(g, d), y, "mul");

    grad_in[0] = binary(g, "Sub", d, spread, "sub");
    return grad_done(grad_in, 1);
}

static int cross_entropy_shape(const struct shape_args *args)
{
    struct shape both;

    if (shape_broadcast(&args->in[0], &args->in[1], &both) != 0)
        return err_set(args->err, ERR_SHAPE, "logits %s and labels %s do not broadcast",
                       shape_text(&args->in[0]), shape_text(&args->in[1]));
    args->out[0] = SHAPE(dim_of(&both, 0));
    args->out[1] = both.rank == 2 ? both : SHAPE(-1, -1);
    return 0;
}

static int sparse_cross_entropy_shape(const struct shape_args *args)
{
    struct shape rows = SHAPE(dim_of(&args->in[0], 0));

    if (shape_merge(&rows, &args->in[1], &rows) != 0)
        return err_set(args->err, ERR_SHAPE, "logits %s do not fit labels %s",
                       shape_text(&args->in[0]), shape_text(&args->in[1]));
    args->out[0] = rows;
    args->out[1] = SHAPE(rows.dim[0], dim_of(&args->in[0], 1));
    return 0;
}

/* Multiplies each row of a matrix by its element of a vector. */
static struct output times_rows(struct graph *g, struct output vector,
                                struct output matrix)
{
    struct output column =
        binary(g, "ExpandDims", vector, constant_i32(g, -1, "ExpandDims/dim"), NULL);

    return binary(g, "Mul", column, matrix, "mul");
}

/* d(loss) = backprop; d(backprop) = d(softmax), for gradients of gradients. */
static struct output logits_grad(struct graph *g, struct operation *op,
                                 const struct output *grad_out)
{
    struct output p, d = OUTPUT_NONE, inner, sum;

    if (output_valid(grad_out[0]))
        d = times_rows(g, grad_out[0], output_of(op, 1));
    if (!output_valid(grad_out[1]))
        return d;
    p = softmax(g, input_of(op, 0), NULL);
    sum = sum_last_axis(g, binary(g, "Mul", grad_out[1], p, "mul"));
    inner = binary(g, "Mul", binary(g, "Sub", grad_out[1], sum, "sub"), p, "mul");
    return output_valid(d) ? binary(g, "Add", d, inner, "add") : inner;
}

/* Whether input i is known to have one row or column where the results may have more. */
static int is_spread(struct operation *op, int i)
{
    const struct shape x = output_shape(input_of(op, i));
    const struct shape y = output_shape(output_of(op, 1));
    int ret = 0;

    for (int d = 0; d < x.rank; d++)
        ret |= x.dim[d] == 1 && dim_of(&y, d) != 1;
    return ret;
}

/* TensorFlow has no gradient by what is broadcast: it would have too many rows. */
GRAD(cross_entropy_grad)
{
    struct output log_p;
    struct broadcast_args r;
    int n = 1;

    grad_in[0] = logits_grad(g, op, grad_out);
    if (output_valid(grad_out[0])) {
        log_p = unary(g, "LogSoftmax", input_of(op, 0), NULL);
        grad_in[n++] = times_rows(g, grad_out[0], unary(g, "Neg", log_p, NULL));
    }
    if (is_spread(op, 0) || is_spread(op, 1)) {
        r = broadcast_args(g, input_of(op, 0), input_of(op, 1));
        grad_in[0] = unbroadcast(g, grad_in[0], r.axes_x, r.shape_x);
        if (n == 2)
            grad_in[1] = unbroadcast(g, grad_in[1], r.axes_y, r.shape_y);
    }
    return grad_done(grad_in, n);
}

GRAD_ONE(sparse_cross_entropy_grad, logits_grad(g, op, grad_out))

/* ---- the rows ---- */

#define ACTIVATION(type, grad)                                                           \
    {                                                                                    \
        type, OP_LIBM_DOUBLE, shape_same, grad, LOOP,                                    \
            "features:T -> activations:T; T:float_type"                                  \
    }
#define ACTIVATION_GRAD(type, grad, other)                                               \
    {                                                                                    \
        type, 0, shape_merged, grad, LOOP,                                               \
            "gradients:T, " other ":T -> backprops:T; T:float_type"                      \
    }
#define Y_DY_GRAD(type, grad)                                                            \
    {                                                                                    \
        type, 0, shape_merged, grad, LOOP, "y:T, dy:T -> z:T; T:float_type"              \
    }
static const struct op_def rows[] = {
    {"BiasAdd", 0, bias_add_shape, bias_add_grad, LOOP,
     "value:T, bias:T -> output:T; T:number_type, data_format:string=NHWC",
     .ranks = "?1"},
    {"BiasAddV1", 0, bias_add_shape, bias_add_v1_grad, CALL(kern_bias_add_v1),
     "value:T, bias:T -> output:T; T:number_type", .ranks = "?1"},
    {"BiasAddGrad", 0, bias_add_grad_shape, bias_add_grad_grad, CALL(kern_bias_add_grad),
     "out_backprop:T -> output:T; T:number_type, data_format:string=NHWC"},
    {"Relu", 0, shape_same, relu_grad, LOOP,
     "features:T -> activations:T; T:number_type"},
    ACTIVATION_GRAD("ReluGrad", relu_grad_grad, "features"),
    {"LeakyRelu", 0, shape_same, leaky_relu_grad, LOOP,
     "features:T -> activations:T; alpha:float=0.2, T:float_type=float32"},
    {"LeakyReluGrad", 0, shape_merged, leaky_relu_grad_grad, LOOP,
     "gradients:T, features:T -> backprops:T; alpha:float=0.2, T:float_type=float32"},
    {"Relu6", 0, shape_same, relu6_grad, LOOP,
     "features:T -> activations:T; T:number_type"},
    ACTIVATION_GRAD("Relu6Grad", relu6_grad_grad, "features"),
    ACTIVATION("Selu", selu_grad),
    ACTIVATION_GRAD("SeluGrad", elu_grad_grad, "outputs"),
    {"Softsign", 0, shape_same, softsign_grad, LOOP,
     "features:T -> activations:T; T:float_type"},
    ACTIVATION_GRAD("SoftsignGrad", grad_missing, "features"),
    ACTIVATION("Elu", elu_grad),
    ACTIVATION_GRAD("EluGrad", elu_grad_grad, "outputs"),
    ACTIVATION("Softplus", softplus_grad),
    {"SoftplusGrad", OP_LIBM_DOUBLE, shape_merged, softplus_grad_grad, LOOP,
     "gradients:T, features:T -> backprops:T; T:float_type"},
    {"Tanh", OP_LIBM_DOUBLE, shape_same, tanh_grad, LOOP, "x:T -> y:T; T:float_type"},
    Y_DY_GRAD("TanhGrad", tanh_grad_grad),
    {"Sigmoid", OP_LIBM_DOUBLE, shape_same, sigmoid_grad, LOOP,
     "x:T -> y:T; T:float_type"},
    Y_DY_GRAD("SigmoidGrad", sigmoid_grad_grad),
    {"Softmax", OP_LIBM_DOUBLE, at_least_vector, softmax_grad, CALL(kern_softmax),
     "logits:T -> softmax:T; T:float_type"},
    {"LogSoftmax", OP_LIBM_DOUBLE, at_least_vector, log_softmax_grad,
     CALL(kern_log_softmax), "logits:T -> logsoftmax:T; T:float_type"},
    {"SoftmaxCrossEntropyWithLogits", OP_LIBM_DOUBLE, cross_entropy_shape,
     cross_entropy_grad, CALL(kern_softmax_xent),
     "features:T, labels:T -> loss:T, backprop:T; T:float_type", .ranks = "22"},
    {"SparseSoftmaxCrossEntropyWithLogits", OP_LIBM_DOUBLE, sparse_cross_entropy_shape,
     sparse_cross_entropy_grad, CALL(kern_sparse_softmax_xent),
     "features:T, labels:Tlabels -> loss:T, backprop:T; T:float_type, "
     "Tlabels:index_type=int64",
     .ranks = "21"},
};

const struct op_family ops_of_nn = OP_FAMILY(rows);
