/* ops_nn.c - activations, biases, losses, and the update ops of the optimisers.
 *
 * Gradients after TensorFlow 1.13's python/ops/nn_grad.py and math_grad.py. */
#include "agent/graph/op_rules.h"
#include "agent/graph/signature.h"
#include "common/err/check.h"

/* ---- biases ---- */

/* The dimension of the channels: the last one, or the second with NCHW. */
static int channel_axis(const struct operation *op, int rank)
{
    return operation_attr(op, "data_format")->s[1] == 'C' ? 1 : rank - 1;
}

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

/* ---- activations: <Op>Grad(gradients, features or outputs) ---- */

GRAD_ONE(relu_grad, binary(g, "ReluGrad", grad_out[0], output_of(op, 0), NULL))

GRAD(relu_grad_grad)
{
    grad_in[0] = binary(g, "ReluGrad", grad_out[0], input_of(op, 1), NULL);
    grad_in[1] = zeros_as(g, input_of(op, 1));
    return grad_done(grad_in, 2);
}

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

/* EluGrad(d, y) = d (y + 1) below zero, d above */
GRAD(elu_grad_grad)
{
    struct output d = input_of(op, 0), y = input_of(op, 1), below, inner;

    grad_in[0] = binary(g, "EluGrad", grad_out[0], y, NULL);
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

/* ---- softmax and losses ---- */

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

GRAD_ONE(l2_loss_grad, binary(g, "Mul", input_of(op, 0), grad_out[0], "mul"))

static int cross_entropy_shape(const struct shape_args *args)
{
    struct shape both;

    if (shape_merge(&args->in[0], &args->in[1], &both) != 0)
        return err_set(args->err, ERR_SHAPE, "logits %s and labels %s differ",
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

GRAD(cross_entropy_grad)
{
    struct output log_p;

    grad_in[0] = logits_grad(g, op, grad_out);
    if (!output_valid(grad_out[0]))
        return grad_done(grad_in, 1);
    log_p = unary(g, "LogSoftmax", input_of(op, 0), NULL);
    grad_in[1] = times_rows(g, grad_out[0], unary(g, "Neg", log_p, NULL));
    return grad_done(grad_in, 2);
}

GRAD_ONE(sparse_cross_entropy_grad, logits_grad(g, op, grad_out))

/* ---- update ops of optimisers ---- */

/* The number of the input that is the gradient, called `grad` or `delta`. */
static int gradient_input(const struct operation *op)
{
    struct signature_room room;
    struct signature sig;
    int i = 0;

    CHECK(signature_parse(&sig, &room, operation_def(op)->signature) == 0, "%s",
          operation_type(op));
    while (!span_is(sig.in[i].name, "grad") && !span_is(sig.in[i].name, "delta"))
        i++;
    return i;
}

/* The shape of the variable that a reference or a handle refers to. */
static struct shape shape_behind(const struct shape_args *args, int i)
{
    const struct output x = operation_input(args->op, i);
    const struct operation *v;

    if (output_dtype(x) != DT_RESOURCE)
        return args->in[i];
    v = operation_behind_handle(x);
    return v != NULL ? *attr_shape(v, "shape") : SHAPE_UNKNOWN;
}

/* The variable, its slots and the gradient have the same shape; all other inputs are
 * scalars. */
static int apply_shape(const struct shape_args *args)
{
    const int gradient = gradient_input(args->op);
    struct shape all = SHAPE_UNKNOWN;

    for (int i = 0; i < args->n_in; i++) {
        const struct output x = operation_input(args->op, i);
        const struct operation *v =
            output_dtype(x) == DT_RESOURCE ? operation_behind_handle(x) : NULL;
        struct shape s = shape_behind(args, i);

        if (v != NULL && attr_int(v, "dtype") != attr_int(args->op, "T"))
            return err_set(args->err, ERR_DTYPE, "variable %s is %s, not %s",
                           operation_name(v),
                           dtype_name((enum dtype)attr_int(v, "dtype")),
                           dtype_name((enum dtype)attr_int(args->op, "T")));
        if (i != gradient && !output_is_ref(x) && output_dtype(x) != DT_RESOURCE) {
            if (want_rank(args, i, 0) != 0)
                return ERR_SHAPE;
        } else if (shape_merge(&all, &s, &all) != 0) {
            return err_set(args->err, ERR_SHAPE, "input %d is %s, but the variable is %s",
                           i, shape_text(&s), shape_text(&all));
        }
    }
    if (operation_n_outputs(args->op) > 0)
        args->out[0] = all;
    return 0;
}

/* ---- the rows ---- */

#define ACTIVATION(type, grad)                                                           \
    {                                                                                    \
        type, OP_LIBM_DOUBLE, shape_same, grad,                                          \
            "features:T -> activations:T; T:float_type"                                  \
    }
#define ACTIVATION_GRAD(type, grad, other)                                               \
    {                                                                                    \
        type, 0, shape_merged, grad,                                                     \
            "gradients:T, " other ":T -> backprops:T; T:float_type"                      \
    }
#define Y_DY_GRAD(type, grad)                                                            \
    {                                                                                    \
        type, 0, shape_merged, grad, "y:T, dy:T -> z:T; T:float_type"                    \
    }
/* One row for a variable and slots given by reference, and one for handles. */
#define APPLY(type, variables, inputs, attrs)                                            \
    {type, OP_STATEFUL | OP_WRITES | OP_NO_GRADIENT, apply_shape, NULL,                  \
     variables("&T") inputs " -> out:&T; T:number_type, use_locking:bool=false" attrs},  \
    {                                                                                    \
        "Resource" type, OP_STATEFUL | OP_WRITES | OP_NO_GRADIENT, apply_shape, NULL,    \
            variables("resource") inputs                                                 \
            " ->; T:number_type, use_locking:bool=false" attrs                           \
    }
#define VAR(t)        "var:" t ", "
#define VAR_ACCUM(t)  VAR(t) "accum:" t ", "
#define VAR_MS_MOM(t) VAR(t) "ms:" t ", mom:" t ", "
#define VAR_M_V(t)    VAR(t) "m:" t ", v:" t ", "

static const struct op_def rows[] = {
    {"BiasAdd", 0, bias_add_shape, bias_add_grad,
     "value:T, bias:T -> output:T; T:number_type, data_format:string=NHWC",
     .ranks = "?1"},
    {"BiasAddGrad", 0, bias_add_grad_shape, bias_add_grad_grad,
     "out_backprop:T -> output:T; T:number_type, data_format:string=NHWC"},
    {"Relu", 0, shape_same, relu_grad, "features:T -> activations:T; T:number_type"},
    ACTIVATION_GRAD("ReluGrad", relu_grad_grad, "features"),
    {"LeakyRelu", 0, shape_same, leaky_relu_grad,
     "features:T -> activations:T; alpha:float=0.2, T:float_type=float32"},
    {"LeakyReluGrad", 0, shape_merged, leaky_relu_grad_grad,
     "gradients:T, features:T -> backprops:T; alpha:float=0.2, T:float_type=float32"},
    ACTIVATION("Elu", elu_grad),
    ACTIVATION_GRAD("EluGrad", elu_grad_grad, "outputs"),
    ACTIVATION("Softplus", softplus_grad),
    {"SoftplusGrad", OP_LIBM_DOUBLE, shape_merged, softplus_grad_grad,
     "gradients:T, features:T -> backprops:T; T:float_type"},
    {"Tanh", OP_LIBM_DOUBLE, shape_same, tanh_grad, "x:T -> y:T; T:float_type"},
    Y_DY_GRAD("TanhGrad", tanh_grad_grad),
    {"Sigmoid", OP_LIBM_DOUBLE, shape_same, sigmoid_grad, "x:T -> y:T; T:float_type"},
    Y_DY_GRAD("SigmoidGrad", sigmoid_grad_grad),
    {"Softmax", OP_LIBM_DOUBLE, at_least_vector, softmax_grad,
     "logits:T -> softmax:T; T:float_type"},
    {"LogSoftmax", OP_LIBM_DOUBLE, at_least_vector, log_softmax_grad,
     "logits:T -> logsoftmax:T; T:float_type"},
    {"L2Loss", 0, shape_scalar, l2_loss_grad, "t:T -> output:T; T:float_type"},
    {"SoftmaxCrossEntropyWithLogits", OP_LIBM_DOUBLE, cross_entropy_shape,
     cross_entropy_grad, "features:T, labels:T -> loss:T, backprop:T; T:float_type",
     .ranks = "22"},
    {"SparseSoftmaxCrossEntropyWithLogits", OP_LIBM_DOUBLE, sparse_cross_entropy_shape,
     sparse_cross_entropy_grad,
     "features:T, labels:Tlabels -> loss:T, backprop:T; T:float_type, "
     "Tlabels:index_type=int64",
     .ranks = "21"},
    APPLY("ApplyGradientDescent", VAR, "alpha:T, delta:T", ""),
    APPLY("ApplyMomentum", VAR_ACCUM, "lr:T, grad:T, momentum:T",
          ", use_nesterov:bool=false"),
    APPLY("ApplyRMSProp", VAR_MS_MOM, "lr:T, rho:T, momentum:T, epsilon:T, grad:T", ""),
    APPLY("ApplyAdam", VAR_M_V,
          "beta1_power:T, beta2_power:T, lr:T, beta1:T, beta2:T, epsilon:T, grad:T",
          ", use_nesterov:bool=false"),
};

const struct op_family ops_of_nn = OP_FAMILY(rows);
