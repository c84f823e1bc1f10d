/* math.c - element-wise arithmetic, comparisons, choices. Their kernels are the loops of
 * kernels/loops.c.
 *
 * Gradients after TensorFlow 1.13's python/ops/math_grad.py.
 */
#include "agent/ops/op_rules.h"

/* ---- two inputs, broadcasting ---- */

/* The last step of most rules: reduces gradients with the output's shape to the shapes of
 * the inputs. */
static int spread_back(struct graph *g, const struct broadcast_args *r, struct output dx,
                       struct output dy, struct output *grad_in)
{
    grad_in[0] = unbroadcast(g, dx, r->axes_x, r->shape_x);
    grad_in[1] = unbroadcast(g, dy, r->axes_y, r->shape_y);
    return grad_done(grad_in, 2);
}

GRAD(add_grad)
{
    struct output x = input_of(op, 0), y = input_of(op, 1);
    struct broadcast_args r;

    if (same_known_shape(x, y)) {
        grad_in[0] = grad_in[1] = grad_out[0];
        return 0;
    }
    r = broadcast_args(g, x, y);
    return spread_back(g, &r, grad_out[0], grad_out[0], grad_in);
}

GRAD(sub_grad)
{
    struct output x = input_of(op, 0), y = input_of(op, 1), sum;
    struct broadcast_args r;

    if (same_known_shape(x, y)) {
        grad_in[0] = grad_out[0];
        grad_in[1] = unary(g, "Neg", grad_out[0], NULL);
        return grad_done(grad_in, 2);
    }
    r = broadcast_args(g, x, y);
    grad_in[0] = unbroadcast(g, grad_out[0], r.axes_x, r.shape_x);
    sum = binary(g, "Sum", grad_out[0], r.axes_y, NULL);
    grad_in[1] = binary(g, "Reshape", unary(g, "Neg", sum, NULL), r.shape_y, NULL);
    return grad_done(grad_in, 2);
}

GRAD(mul_grad)
{
    struct output x = input_of(op, 0), y = input_of(op, 1);
    struct broadcast_args r;

    if (same_known_shape(x, y)) {
        grad_in[0] = binary(g, "Mul", grad_out[0], y, NULL);
        grad_in[1] = binary(g, "Mul", grad_out[0], x, NULL);
        return grad_done(grad_in, 2);
    }
    r = broadcast_args(g, x, y);
    grad_in[0] =
        unbroadcast(g, binary(g, "Mul", grad_out[0], y, NULL), r.axes_x, r.shape_x);
    grad_in[1] =
        unbroadcast(g, binary(g, "Mul", x, grad_out[0], NULL), r.axes_y, r.shape_y);
    return grad_done(grad_in, 2);
}

/* d(x/y): 1/y and -x/y/y, using the op's own type of division. */
static int quotient_grad(struct graph *g, struct operation *op, const char *divide,
                         struct output d, struct output *grad_in)
{
    struct output x = input_of(op, 0), y = input_of(op, 1), dy;
    struct broadcast_args r = broadcast_args(g, x, y);

    grad_in[0] = unbroadcast(g, binary(g, divide, d, y, NULL), r.axes_x, r.shape_x);
    dy = binary(g, divide, binary(g, divide, unary(g, "Neg", x, NULL), y, NULL), y, NULL);
    grad_in[1] = unbroadcast(g, binary(g, "Mul", d, dy, "mul"), r.axes_y, r.shape_y);
    return grad_done(grad_in, 2);
}

GRAD(real_div_grad)
{
    return quotient_grad(g, op, "RealDiv", grad_out[0], grad_in);
}

GRAD(div_grad)
{
    return quotient_grad(g, op, "Div", grad_out[0], grad_in);
}

GRAD(div_no_nan_grad)
{
    return quotient_grad(g, op, "DivNoNan", grad_out[0], grad_in);
}

/* The input that was chosen gets the whole gradient; if both are equal, the first one. */
static int choice_grad(struct graph *g, struct operation *op, const char *compare,
                       struct output d, struct output *grad_in)
{
    struct output x = input_of(op, 0), y = input_of(op, 1);
    struct broadcast_args r = broadcast_args(g, x, y);
    struct output zero = zeros_as(g, d), mask = binary(g, compare, x, y, NULL);
    struct output dy = where(g, mask, zero, d, NULL);
    struct output dx = where(g, mask, d, zero, NULL);

    return spread_back(g, &r, dx, dy, grad_in);
}

GRAD(maximum_grad)
{
    return choice_grad(g, op, "GreaterEqual", grad_out[0], grad_in);
}

GRAD(minimum_grad)
{
    return choice_grad(g, op, "LessEqual", grad_out[0], grad_in);
}

GRAD(squared_difference_grad)
{
    struct output x = input_of(op, 0), y = input_of(op, 1);
    struct broadcast_args r = broadcast_args(g, x, y);
    struct output twice = scalar_with(g, "Mul", 2.0, grad_out[0], "mul");
    struct output dx = binary(g, "Mul", twice, binary(g, "Sub", x, y, "sub"), "mul");
    struct output dy;

    grad_in[0] = unbroadcast(g, dx, r.axes_x, r.shape_x);
    dy = unbroadcast(g, dx, r.axes_y, r.shape_y);
    grad_in[1] = unary(g, "Neg", dy, NULL);
    return grad_done(grad_in, 2);
}

/* dx = y x^(y-1); dy = z log x, with 0 for log x where x <= 0. */
GRAD(pow_grad)
{
    struct output x = input_of(op, 0), y = input_of(op, 1), d = grad_out[0];
    struct broadcast_args r = broadcast_args(g, x, y);
    struct output less_one, dx, positive, zeros, log_x, dy;

    dx = binary(g, "Mul", d, y, "mul");
    less_one = with_scalar(g, "Sub", y, 1.0, "sub");
    dx = binary(g, "Mul", dx, binary(g, "Pow", x, less_one, NULL), "mul");
    positive = with_scalar(g, "Greater", x, 0.0, "Greater");
    zeros = zeros_like(g, x, NULL);
    log_x = where(g, positive, unary(g, "Log", x, NULL), zeros, NULL);
    dy = binary(g, "Mul", d, output_of(op, 0), "mul");
    dy = binary(g, "Mul", dy, log_x, "mul");
    return spread_back(g, &r, dx, dy, grad_in);
}

GRAD(floor_mod_grad)
{
    struct output x = input_of(op, 0), y = input_of(op, 1);
    struct broadcast_args r = broadcast_args(g, x, y);
    struct output quotient = unary(g, "Neg", binary(g, "FloorDiv", x, y, NULL), NULL);

    return spread_back(g, &r, grad_out[0], binary(g, "Mul", grad_out[0], quotient, "mul"),
                       grad_in);
}

/* ---- one input ---- */

GRAD_ONE(neg_grad, unary(g, "Neg", grad_out[0], NULL))

GRAD(square_grad)
{
    struct output x = input_of(op, 0), two;

    control_dependencies_enter(g, &grad_out[0].op, 1);
    two = constant_like(g, output_dtype(x), 2.0, NULL);
    grad_in[0] = binary(g, "Mul", grad_out[0], binary(g, "Mul", x, two, NULL), NULL);
    control_dependencies_leave(g);
    return grad_done(grad_in, 1);
}

GRAD_ONE(sqrt_grad, binary(g, "SqrtGrad", output_of(op, 0), grad_out[0], NULL))

GRAD_ONE(rsqrt_grad, binary(g, "RsqrtGrad", output_of(op, 0), grad_out[0], NULL))

/* SqrtGrad(y, d) = d / (2 y) */
GRAD(sqrt_grad_grad)
{
    struct output ratio = binary(g, "RealDiv", grad_out[0], input_of(op, 0), "truediv");
    struct output minus = unary(g, "Neg", ratio, NULL);

    grad_in[0] = binary(g, "Mul", minus, output_of(op, 0), "mul");
    grad_in[1] = scalar_with(g, "Mul", 0.5, ratio, "mul");
    return grad_done(grad_in, 2);
}

/* RsqrtGrad(y, d) = -d y^3 / 2 */
GRAD(rsqrt_grad_grad)
{
    struct output y = input_of(op, 0), dy = input_of(op, 1);
    struct output part = scalar_with(g, "Mul", -1.5, grad_out[0], "mul");

    part = binary(g, "Mul", part, dy, "mul");
    grad_in[0] = binary(g, "Mul", part, unary(g, "Square", y, NULL), "mul");
    grad_in[1] = binary(g, "RsqrtGrad", y, grad_out[0], NULL);
    return grad_done(grad_in, 2);
}

GRAD_ONE(exp_grad, binary(g, "Mul", grad_out[0], output_of(op, 0), "mul"))

GRAD(log_grad)
{
    struct output inverse;

    control_dependencies_enter(g, &grad_out[0].op, 1);
    inverse = unary(g, "Reciprocal", input_of(op, 0), NULL);
    grad_in[0] = binary(g, "Mul", grad_out[0], inverse, "mul");
    control_dependencies_leave(g);
    return grad_done(grad_in, 1);
}

GRAD(abs_grad)
{
    struct output sign = unary(g, "Sign", input_of(op, 0), NULL);

    grad_in[0] = binary(g, "Mul", grad_out[0], sign, "mul");
    return grad_done(grad_in, 1);
}

GRAD_ONE(sign_grad, zeros_as(g, input_of(op, 0)))

GRAD_ONE(reciprocal_grad,
         binary(g, "ReciprocalGrad", output_of(op, 0), grad_out[0], NULL))

/* ReciprocalGrad(y, d) = -d y^2 */
GRAD(reciprocal_grad_grad)
{
    struct output y = input_of(op, 0), dy = input_of(op, 1);
    struct output part = with_scalar(g, "Mul", grad_out[0], -2.0, "mul");

    part = binary(g, "Mul", part, dy, "mul");
    grad_in[0] = binary(g, "Mul", part, y, "mul");
    grad_in[1] = binary(g, "ReciprocalGrad", y, grad_out[0], NULL);
    return grad_done(grad_in, 2);
}

GRAD(add_n_grad)
{
    for (int i = 0; i < operation_n_inputs(op); i++)
        grad_in[i] = grad_out[0];
    return 0;
}

GRAD(cast_grad)
{
    enum dtype from = output_dtype(input_of(op, 0));

    if (!dtype_is_floating(from) || !dtype_is_floating(output_dtype(grad_out[0])))
        return 0;
    grad_in[0] = cast(g, grad_out[0], from, NULL);
    return grad_done(grad_in, 1);
}

static int select_shape(const struct shape_args *args)
{
    const struct shape *c = &args->in[0];

    if (shape_merge(&args->in[1], &args->in[2], &args->out[0]) != 0)
        return err_set(args->err, ERR_SHAPE, "shapes %s and %s differ",
                       shape_text(&args->in[1]), shape_text(&args->in[2]));
    if (c->rank <= 0 || args->out[0].rank < 0 || shape_compatible(c, &args->out[0]))
        return 0;
    if (c->rank == 1 && args->out[0].rank > 0 &&
        (c->dim[0] < 0 || args->out[0].dim[0] < 0 || c->dim[0] == args->out[0].dim[0]))
        return 0;
    return err_set(args->err, ERR_SHAPE, "a condition of shape %s does not fit %s",
                   shape_text(c), shape_text(&args->out[0]));
}

GRAD(select_grad)
{
    struct output c = input_of(op, 0), zero = zeros_like(g, input_of(op, 1), NULL);

    grad_in[1] = where(g, c, grad_out[0], zero, NULL);
    grad_in[2] = where(g, c, zero, grad_out[0], NULL);
    return grad_done(grad_in + 1, 2);
}

/* SelectV2: all three broadcast. */
static int select_v2_shape(const struct shape_args *args)
{
    struct shape branches;

    if (shape_broadcast(&args->in[1], &args->in[2], &branches) != 0 ||
        shape_broadcast(&args->in[0], &branches, &args->out[0]) != 0)
        return err_set(args->err, ERR_SHAPE, "shapes %s, %s and %s do not broadcast",
                       shape_text(&args->in[0]), shape_text(&args->in[1]),
                       shape_text(&args->in[2]));
    return 0;
}

/* The sum of grad over the axes along which x was broadcast, in the shape of x. */
static struct output summed_to(struct graph *g, struct output grad, struct output x,
                               struct output result)
{
    struct output shape = shape_of(g, x, NULL);
    struct output axes =
        binary(g, "BroadcastGradientArgs", shape, shape_of(g, result, NULL), NULL);

    return unbroadcast(g, grad, axes, shape);
}

GRAD(select_v2_grad)
{
    struct output c = input_of(op, 0), d = grad_out[0], y = output_of(op, 0);
    struct output zero = constant_like(g, output_dtype(d), 0.0, "zeros");

    grad_in[1] =
        summed_to(g, ternary(g, "SelectV2", c, d, zero, NULL), input_of(op, 1), y);
    grad_in[2] =
        summed_to(g, ternary(g, "SelectV2", c, zero, d, NULL), input_of(op, 2), y);
    return grad_done(grad_in + 1, 2);
}

static int clip_shape(const struct shape_args *args)
{
    struct shape with_min;

    if (shape_broadcast(&args->in[0], &args->in[1], &with_min) != 0 ||
        shape_broadcast(&with_min, &args->in[2], &args->out[0]) != 0 ||
        !shape_compatible(&args->out[0], &args->in[0]))
        return err_set(args->err, ERR_SHAPE, "bounds of shapes %s and %s do not fit %s",
                       shape_text(&args->in[1]), shape_text(&args->in[2]),
                       shape_text(&args->in[0]));
    return shape_merge(&args->out[0], &args->in[0], &args->out[0]);
}

GRAD(clip_grad)
{
    struct output x = input_of(op, 0), low = input_of(op, 1), high = input_of(op, 2);
    struct output d = grad_out[0], zero = zeros_as(g, d);
    struct output below = binary(g, "Less", x, low, NULL);
    struct output above = binary(g, "Greater", x, high, NULL);
    struct broadcast_args r = broadcast_args(g, x, low), s = broadcast_args(g, x, high);
    struct output outside = binary(g, "LogicalOr", below, above, NULL);
    struct output inside = where(g, outside, zero, d, NULL);

    grad_in[0] = unbroadcast(g, inside, r.axes_x, r.shape_x);
    grad_in[1] = unbroadcast(g, where(g, below, d, zero, NULL), r.axes_y, r.shape_y);
    grad_in[2] = unbroadcast(g, where(g, above, d, zero, NULL), s.axes_y, s.shape_y);
    return grad_done(grad_in, 3);
}

/* ---- the rows ---- */

#define UNARY(type, kind, grad)                                                          \
    {                                                                                    \
        type, 0, shape_same, grad, LOOP, "x:T -> y:T; T:" kind                           \
    }
#define LIBM(type, grad)                                                                 \
    {                                                                                    \
        type, OP_LIBM_DOUBLE, shape_same, grad, LOOP, "x:T -> y:T; T:float_type"         \
    }
#define BINARY(type, kind, grad)                                                         \
    {                                                                                    \
        type, 0, shape_broadcast_inputs, grad, LOOP, "x:T, y:T -> z:T; T:" kind          \
    }
#define GRAD_OP(type, grad)                                                              \
    {                                                                                    \
        type, 0, shape_merged, grad, LOOP, "y:T, dy:T -> z:T; T:float_type"              \
    }
#define COMPARE(type, kind)                                                              \
    {                                                                                    \
        type, OP_NO_GRADIENT, shape_broadcast_inputs, NULL, LOOP,                        \
            "x:T, y:T -> z:bool; T:" kind                                                \
    }
#define CLASSIFY(type)                                                                   \
    {                                                                                    \
        type, OP_NO_GRADIENT, shape_same, NULL, LOOP, "x:T -> y:bool; T:float_type"      \
    }
#define BITS(type)                                                                       \
    {                                                                                    \
        type, OP_NO_GRADIENT, shape_broadcast_inputs, NULL, LOOP,                        \
            "x:T, y:T -> z:T; T:number_type"                                             \
    }

static const struct op_def rows[] = {
    BINARY("Add", "number_type", add_grad),
    BINARY("AddV2", "number_type", add_grad),
    BINARY("Sub", "number_type", sub_grad),
    BINARY("Mul", "number_type", mul_grad),
    BINARY("RealDiv", "number_type", real_div_grad),
    BINARY("Div", "number_type", div_grad),
    BINARY("DivNoNan", "float_type", div_no_nan_grad),
    BINARY("Maximum", "number_type", maximum_grad),
    BINARY("Minimum", "number_type", minimum_grad),
    {"Pow", OP_LIBM, shape_broadcast_inputs, pow_grad, LOOP,
     "x:T, y:T -> z:T; T:number_type"},
    BINARY("SquaredDifference", "number_type", squared_difference_grad),
    BINARY("FloorDiv", "number_type", grad_none),
    BINARY("FloorMod", "number_type", floor_mod_grad),
    BINARY("Mod", "number_type", grad_missing),
    BINARY("TruncateDiv", "number_type", grad_none),
    BINARY("TruncateMod", "number_type", grad_missing),
    BITS("BitwiseAnd"),
    BITS("BitwiseOr"),
    BITS("BitwiseXor"),
    BITS("LeftShift"),
    BITS("RightShift"),
    {"Invert", OP_NO_GRADIENT, shape_same, NULL, LOOP, "x:T -> y:T; T:number_type"},
    UNARY("Neg", "number_type", neg_grad),
    UNARY("Square", "number_type", square_grad),
    UNARY("Sqrt", "float_type", sqrt_grad),
    UNARY("Rsqrt", "float_type", rsqrt_grad),
    LIBM("Exp", exp_grad),
    LIBM("Log", log_grad),
    UNARY("Abs", "number_type", abs_grad),
    UNARY("Sign", "number_type", sign_grad),
    UNARY("Reciprocal", "float_type", reciprocal_grad),
    UNARY("Inv", "float_type", reciprocal_grad),
    UNARY("Floor", "float_type", grad_none),
    UNARY("Ceil", "float_type", grad_none),
    UNARY("Rint", "float_type", grad_none),
    UNARY("Round", "number_type", grad_none),
    GRAD_OP("SqrtGrad", sqrt_grad_grad),
    GRAD_OP("RsqrtGrad", rsqrt_grad_grad),
    GRAD_OP("ReciprocalGrad", reciprocal_grad_grad),
    GRAD_OP("InvGrad", reciprocal_grad_grad),
    {"AddN", 0, shape_merged, add_n_grad, LOOP, "inputs:N*T -> sum:T; N:int, T:sum_type"},
    {"AccumulateNV2", 0, shape_merged, add_n_grad, LOOP,
     "inputs:N*T -> sum:T; N:int, T:number_type, shape:shape"},
    {"Cast", 0, shape_same, cast_grad, LOOP,
     "x:SrcT -> y:DstT; SrcT:type, DstT:type, Truncate:bool=false"},
    {"Select", 0, select_shape, select_grad, LOOP,
     "condition:bool, t:T, e:T -> output:T; T:type"},
    {"SelectV2", 0, select_v2_shape, select_v2_grad, LOOP,
     "condition:bool, t:T, e:T -> output:T; T:type"},
    {"ClipByValue", 0, clip_shape, clip_grad, LOOP,
     "t:T, clip_value_min:T, clip_value_max:T -> output:T; T:number_type"},
    COMPARE("Equal", "type"),
    COMPARE("NotEqual", "type"),
    COMPARE("Greater", "number_type"),
    COMPARE("GreaterEqual", "number_type"),
    COMPARE("Less", "number_type"),
    COMPARE("LessEqual", "number_type"),
    COMPARE("ApproximateEqual", "float_type, tolerance:float=1e-05"),
    CLASSIFY("IsNan"),
    CLASSIFY("IsInf"),
    CLASSIFY("IsFinite"),
    {"LogicalAnd", OP_NO_GRADIENT, shape_broadcast_inputs, NULL, LOOP,
     "x:bool, y:bool -> z:bool"},
    {"LogicalOr", OP_NO_GRADIENT, shape_broadcast_inputs, NULL, LOOP,
     "x:bool, y:bool -> z:bool"},
    {"LogicalNot", OP_NO_GRADIENT, shape_same, NULL, LOOP, "x:bool -> y:bool"},
};

const struct op_family ops_of_math = OP_FAMILY(rows);
