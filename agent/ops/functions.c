/* functions.c - elementary and special functions of numbers, element by element. Their kernels
 * are the loops of kernels/loops.c, which compute in double what vmath.h lacks.
 *
 * Gradients after TensorFlow's python/ops/math_grad.py; those of the last releases where 1.13 has
 * none.
 */
#include "agent/ops/op_rules.h"

#include <math.h>

#define ROOT_PI 1.77245385090551602730

/* ---- one input ---- */

/* A rule whose nodes, except constants, wait for the gradient d of y = f(x). */
#define GRAD_AFTER(name, gradient)                                                       \
    GRAD(name)                                                                           \
    {                                                                                    \
        struct output x = input_of(op, 0), y = output_of(op, 0), d = grad_out[0];        \
                                                                                         \
        (void)x, (void)y;                                                                \
        control_dependencies_enter(g, &d.op, 1);                                         \
        grad_in[0] = (gradient);                                                         \
        control_dependencies_leave(g);                                                   \
        return grad_done(grad_in, 1);                                                    \
    }

static struct output times(struct graph *g, struct output x, struct output y)
{
    return binary(g, "Mul", x, y, "mul");
}

static struct output minus(struct graph *g, struct output x)
{
    return unary(g, "Neg", x, NULL);
}

static struct output minus_times(struct graph *g, struct output x, struct output y)
{
    return times(g, minus(g, x), y);
}

/* 1 - x^2 or 1 + x^2 */
static struct output one_and_square(struct graph *g, const char *type, struct output x)
{
    struct output square = unary(g, "Square", x, NULL);

    return binary(g, type, constant_like(g, output_dtype(x), 1.0, NULL), square, NULL);
}

static struct output reciprocal(struct graph *g, struct output x)
{
    return unary(g, "Reciprocal", x, NULL);
}

GRAD_AFTER(log1p_grad, times(g, d, reciprocal(g, scalar_with(g, "Add", 1.0, x, "add"))))
GRAD_AFTER(expm1_grad, times(g, d, unary(g, "Exp", x, NULL)))
GRAD_AFTER(sin_grad, times(g, d, unary(g, "Cos", x, NULL)))
GRAD_AFTER(cos_grad, minus_times(g, d, unary(g, "Sin", x, NULL)))
GRAD_AFTER(tan_grad,
           times(g, d, unary(g, "Square", reciprocal(g, unary(g, "Cos", x, NULL)), NULL)))

static struct output arc_slope(struct graph *g, struct output x)
{
    return reciprocal(g, unary(g, "Sqrt", one_and_square(g, "Sub", x), NULL));
}

GRAD_AFTER(asin_grad, times(g, d, arc_slope(g, x)))
GRAD_AFTER(acos_grad, minus_times(g, d, arc_slope(g, x)))
GRAD_AFTER(atan_grad, times(g, d, reciprocal(g, one_and_square(g, "Add", x))))
GRAD_AFTER(sinh_grad, times(g, d, unary(g, "Cosh", x, NULL)))
GRAD_AFTER(cosh_grad, times(g, d, unary(g, "Sinh", x, NULL)))
GRAD_AFTER(asinh_grad, binary(g, "RealDiv", d, unary(g, "Cosh", y, NULL), "truediv"))
GRAD_AFTER(acosh_grad, binary(g, "RealDiv", d, unary(g, "Sinh", y, NULL), "truediv"))
GRAD_AFTER(atanh_grad, times(g, d, reciprocal(g, one_and_square(g, "Sub", x))))
GRAD_AFTER(lgamma_grad, times(g, d, unary(g, "Digamma", x, NULL)))
GRAD_AFTER(digamma_grad,
           times(g, d,
                 binary(g, "Polygamma", constant_like(g, output_dtype(x), 1.0, NULL), x,
                        NULL)))

/* i1e(x) - sign(x) y */
GRAD(bessel_i0e_grad)
{
    struct output x = input_of(op, 0), y = output_of(op, 0), slope;

    slope = unary(g, "BesselI1e", x, NULL);
    slope = binary(g, "Sub", slope, times(g, unary(g, "Sign", x, NULL), y), "sub");
    grad_in[0] = times(g, grad_out[0], slope);
    return grad_done(grad_in, 1);
}

/* i0e(x) - y (sign(x) + 1 / x), and 1/2 at 0 */
GRAD(bessel_i1e_grad)
{
    struct output x = input_of(op, 0), y = output_of(op, 0), at_zero, slope, sum;

    at_zero = with_scalar(g, "Equal", x, 0.0, "Equal");
    sum = unary(g, "Sign", x, NULL);
    sum = binary(g, "Add", sum, reciprocal(g, x), "add");
    slope = unary(g, "BesselI0e", x, NULL);
    slope = binary(g, "Sub", slope, times(g, y, sum), "sub");
    sum = constant_like(g, output_dtype(x), 0.5, NULL);
    slope = ternary(g, "SelectV2", at_zero, sum, slope, NULL);
    grad_in[0] = times(g, grad_out[0], slope);
    return grad_done(grad_in, 1);
}

/* factor d exp(exponent) */
static struct output bell(struct graph *g, double factor, struct output d,
                          struct output exponent)
{
    struct output scaled = times(g, d, constant_like(g, output_dtype(d), factor, NULL));

    return times(g, scaled, unary(g, "Exp", exponent, NULL));
}

static struct output squared(struct graph *g, struct output x)
{
    return unary(g, "Square", x, NULL);
}

GRAD_AFTER(erf_grad, bell(g, 2 / ROOT_PI, d, minus(g, squared(g, x))))
GRAD_AFTER(erfc_grad, bell(g, -2 / ROOT_PI, d, minus(g, squared(g, x))))
GRAD_AFTER(erfinv_grad, bell(g, ROOT_PI / 2, d, squared(g, y)))
GRAD_AFTER(ndtri_grad, bell(g, ROOT_PI *M_SQRT2, d,
                            with_scalar(g, "RealDiv", squared(g, y), 2.0, "truediv")))

/* ---- two inputs, broadcasting ---- */

/* Multiplies the slopes by d and reduces them to the shapes of the inputs; OUTPUT_NONE: the
 * input gets no gradient. */
static int slopes_back(struct graph *g, const struct operation *op, struct output d,
                       struct output slope_x, struct output slope_y,
                       struct output *grad_in)
{
    struct broadcast_args r = broadcast_args(g, input_of(op, 0), input_of(op, 1));

    if (output_valid(slope_x))
        grad_in[0] = unbroadcast(g, times(g, slope_x, d), r.axes_x, r.shape_x);
    grad_in[1] = unbroadcast(g, times(g, slope_y, d), r.axes_y, r.shape_y);
    return output_valid(slope_x) ? grad_done(grad_in, 2) : grad_done(grad_in + 1, 1);
}

/* atan2(y, x): x / (x^2 + y^2) and -y / (x^2 + y^2) */
GRAD(atan2_grad)
{
    struct output y = input_of(op, 0), x = input_of(op, 1), d = grad_out[0], inverse;
    struct broadcast_args r = broadcast_args(g, y, x);

    control_dependencies_enter(g, &d.op, 1);
    inverse = squared(g, x);
    inverse = binary(g, "Add", inverse, squared(g, y), "add");
    inverse = binary(g, "RealDiv", d, inverse, "truediv");
    grad_in[0] = unbroadcast(g, times(g, x, inverse), r.axes_x, r.shape_x);
    grad_in[1] = unbroadcast(g, times(g, minus(g, y), inverse), r.axes_y, r.shape_y);
    control_dependencies_leave(g);
    return grad_done(grad_in, 2);
}

/* 1 where x is not 0 */
static struct output not_zero(struct graph *g, struct output x)
{
    return cast(g, with_scalar(g, "NotEqual", x, 0.0, "NotEqual"), output_dtype(x), NULL);
}

GRAD(xlogy_grad)
{
    struct output x = input_of(op, 0), y = input_of(op, 1);
    struct output slope_x = binary(g, "Xlogy", not_zero(g, x), y, NULL);

    return slopes_back(g, op, grad_out[0], slope_x, binary(g, "Xdivy", x, y, NULL),
                       grad_in);
}

GRAD(xlog1py_grad)
{
    struct output x = input_of(op, 0), y = input_of(op, 1);
    struct output slope_x = binary(g, "Xlog1py", not_zero(g, x), y, NULL);

    y = with_scalar(g, "Add", y, 1.0, "add");
    return slopes_back(g, op, grad_out[0], slope_x, binary(g, "Xdivy", x, y, NULL),
                       grad_in);
}

GRAD(xdivy_grad)
{
    struct output x = input_of(op, 0), y = input_of(op, 1);
    struct output slope_x = binary(g, "Xdivy", not_zero(g, x), y, NULL);

    x = minus(g, x);
    return slopes_back(g, op, grad_out[0], slope_x,
                       binary(g, "Xdivy", x, squared(g, y), NULL), grad_in);
}

GRAD(mul_no_nan_grad)
{
    struct output x = input_of(op, 0), y = input_of(op, 1), d = grad_out[0];
    struct broadcast_args r = broadcast_args(g, x, y);

    grad_in[0] = unbroadcast(g, binary(g, "MulNoNan", d, y, NULL), r.axes_x, r.shape_x);
    grad_in[1] = unbroadcast(g, binary(g, "MulNoNan", x, d, NULL), r.axes_y, r.shape_y);
    return grad_done(grad_in, 2);
}

/* 1 for x, 0 for y */
GRAD(next_after_grad)
{
    struct output one = ones_like(g, input_of(op, 0), NULL);

    return slopes_back(g, op, grad_out[0], one, zeros_like(g, input_of(op, 1), NULL),
                       grad_in);
}

/* -x zeta(x + 1, q) for q; TensorFlow has none for x */
GRAD(zeta_grad)
{
    struct output x = input_of(op, 0), q = input_of(op, 1);
    struct output next = binary(g, "Zeta", with_scalar(g, "Add", x, 1.0, "add"), q, NULL);

    return slopes_back(g, op, grad_out[0], OUTPUT_NONE, times(g, minus(g, x), next),
                       grad_in);
}

/* polygamma(n + 1, x) for x */
GRAD(polygamma_grad)
{
    struct output n = with_scalar(g, "Add", input_of(op, 0), 1.0, "add");

    return slopes_back(g, op, grad_out[0], OUTPUT_NONE,
                       binary(g, "Polygamma", n, input_of(op, 1), NULL), grad_in);
}

/* By x: exp(-x + (a - 1) log x - lgamma(a)). */
GRAD(igamma_grad)
{
    struct output a = input_of(op, 0), x = input_of(op, 1), slope_a, slope_x;

    slope_a = binary(g, "IgammaGradA", a, x, NULL);
    slope_x = with_scalar(g, "Sub", a, 1.0, "sub");
    slope_x = times(g, slope_x, unary(g, "Log", x, NULL));
    slope_x = binary(g, "Add", minus(g, x), slope_x, "add");
    slope_x = binary(g, "Sub", slope_x, unary(g, "Lgamma", a, NULL), "sub");
    return slopes_back(g, op, grad_out[0], slope_a, unary(g, "Exp", slope_x, NULL),
                       grad_in);
}

GRAD(igammac_grad)
{
    int rc = igamma_grad(g, op, grad_out, grad_in);

    for (int i = 0; rc == 0 && i < 2; i++)
        grad_in[i] = minus(g, grad_in[i]);
    return rc;
}

/* ---- betainc: three inputs, of which scalars go with any others ---- */

static int betainc_shape(const struct shape_args *args)
{
    struct shape all = SHAPE_SCALAR;

    for (int i = 0; i < 3; i++) {
        const struct shape *s = &args->in[i];

        if (s->rank < 0 && all.rank == 0)
            all = *s;
        if (s->rank <= 0)
            continue;
        if (all.rank == 0)
            all = *s;
        else if (shape_merge(&all, s, &all) != 0)
            return err_set(args->err, ERR_SHAPE, "shapes %s and %s differ",
                           shape_text(&all), shape_text(s));
    }
    args->out[0] = all;
    return 0;
}

/* By x: exp((b - 1) log(1 - x) + (a - 1) log x - log beta(a, b)); TensorFlow has none for a
 * and b. */
GRAD(betainc_grad)
{
    struct output a = input_of(op, 0), b = input_of(op, 1), x = input_of(op, 2);
    struct output log_beta, slope, sum = binary(g, "Add", a, b, "add");
    struct broadcast_args r = broadcast_args(g, a, x);

    log_beta = unary(g, "Lgamma", a, NULL);
    log_beta = binary(g, "Add", log_beta, unary(g, "Lgamma", b, NULL), "add");
    log_beta = binary(g, "Sub", log_beta, unary(g, "Lgamma", sum, NULL), "sub");
    b = with_scalar(g, "Sub", b, 1.0, "sub");
    a = with_scalar(g, "Sub", a, 1.0, "sub");
    slope = binary(g, "Xlog1py", b, minus(g, x), NULL);
    slope = binary(g, "Add", slope, binary(g, "Xlogy", a, x, NULL), "add");
    slope = unary(g, "Exp", binary(g, "Sub", slope, log_beta, "sub"), NULL);
    grad_in[2] = unbroadcast(g, times(g, slope, grad_out[0]), r.axes_y, r.shape_y);
    return grad_done(grad_in + 2, 1);
}

/* ---- the rows ---- */

#define FUNCTION(type, grad)                                                             \
    {                                                                                    \
        type, OP_LIBM, shape_same, grad, LOOP, "x:T -> y:T; T:float_type"                \
    }
#define FUNCTION_OF_TWO(type, flags, grad, x, y)                                         \
    {                                                                                    \
        type, flags, shape_broadcast_inputs, grad, LOOP,                                 \
            x ":T, " y ":T -> z:T; T:float_type"                                         \
    }

static const struct op_def rows[] = {
    {"Log1p", OP_LIBM_DOUBLE, shape_same, log1p_grad, LOOP, "x:T -> y:T; T:float_type"},
    {"Expm1", OP_LIBM_DOUBLE, shape_same, expm1_grad, LOOP, "x:T -> y:T; T:float_type"},
    FUNCTION("Sin", sin_grad),
    FUNCTION("Cos", cos_grad),
    FUNCTION("Tan", tan_grad),
    FUNCTION("Asin", asin_grad),
    FUNCTION("Acos", acos_grad),
    FUNCTION("Atan", atan_grad),
    FUNCTION("Sinh", sinh_grad),
    FUNCTION("Cosh", cosh_grad),
    FUNCTION("Asinh", asinh_grad),
    FUNCTION("Acosh", acosh_grad),
    FUNCTION("Atanh", atanh_grad),
    FUNCTION("Erf", erf_grad),
    FUNCTION("Erfc", erfc_grad),
    FUNCTION("Erfinv", erfinv_grad),
    FUNCTION("Ndtri", ndtri_grad),
    FUNCTION("Lgamma", lgamma_grad),
    FUNCTION("Digamma", digamma_grad),
    FUNCTION("BesselI0e", bessel_i0e_grad),
    FUNCTION("BesselI1e", bessel_i1e_grad),
    FUNCTION_OF_TWO("Atan2", OP_LIBM, atan2_grad, "y", "x"),
    FUNCTION_OF_TWO("Zeta", OP_LIBM, zeta_grad, "x", "q"),
    FUNCTION_OF_TWO("Polygamma", OP_LIBM, polygamma_grad, "a", "x"),
    FUNCTION_OF_TWO("Igamma", OP_LIBM, igamma_grad, "a", "x"),
    FUNCTION_OF_TWO("Igammac", OP_LIBM, igammac_grad, "a", "x"),
    FUNCTION_OF_TWO("IgammaGradA", OP_LIBM, grad_missing, "a", "x"),
    {"RandomGammaGrad", OP_LIBM, shape_broadcast_inputs, grad_missing, LOOP,
     "alpha:T, sample:T -> output:T; T:float_type"},
    FUNCTION_OF_TWO("Xlogy", OP_LIBM_DOUBLE, xlogy_grad, "x", "y"),
    FUNCTION_OF_TWO("Xlog1py", OP_LIBM_DOUBLE, xlog1py_grad, "x", "y"),
    FUNCTION_OF_TWO("Xdivy", 0, xdivy_grad, "x", "y"),
    FUNCTION_OF_TWO("MulNoNan", 0, mul_no_nan_grad, "x", "y"),
    {"NextAfter", 0, shape_broadcast_inputs, next_after_grad, LOOP,
     "x1:T, x2:T -> output:T; T:float_type=float32"},
    {"Betainc", OP_LIBM, betainc_shape, betainc_grad, LOOP,
     "a:T, b:T, x:T -> z:T; T:float_type"},
};

const struct op_family ops_of_functions = OP_FAMILY(rows);
