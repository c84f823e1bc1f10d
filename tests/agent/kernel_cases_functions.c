/* Elementary and special functions, activations and other operations on single numbers.
 *
 * Tolerances: float32 results that are computed in double are rounded once; the functions of
 * vmath.h promise 4 units. Values in the rows are those of TensorFlow 2.21 in float64.
 */
#include "tests/agent/kernel_cases.h"

#include <math.h>

#define ELEMENT(name, expr)                                                              \
    static double name(const double *x, const struct operation *op)                      \
    {                                                                                    \
        (void)op;                                                                        \
        return (expr);                                                                   \
    }
ELEMENT(log_of_one_more, log1p(x[0]))
ELEMENT(exp_less_one, expm1(x[0]))
ELEMENT(sine, sin(x[0]))
ELEMENT(cosine, cos(x[0]))
ELEMENT(tangent, tan(x[0]))
ELEMENT(arc_sine, asin(x[0]))
ELEMENT(arc_cosine, acos(x[0]))
ELEMENT(arc_tangent, atan(x[0]))
ELEMENT(sine_h, sinh(x[0]))
ELEMENT(cosine_h, cosh(x[0]))
ELEMENT(arc_sine_h, asinh(x[0]))
ELEMENT(arc_cosine_h, acosh(x[0]))
ELEMENT(arc_tangent_h, atanh(x[0]))
ELEMENT(error_function, erf(x[0]))
ELEMENT(rest_of_error, erfc(x[0]))
ELEMENT(angle, atan2(x[0], x[1]))
ELEMENT(x_log_y, x[0] == 0 ? 0 : x[0] * log(x[1]))
ELEMENT(x_log_1_y, x[0] == 0 ? 0 : x[0] * log1p(x[1]))
ELEMENT(x_over_y, x[0] == 0 ? 0 : x[0] / x[1])
ELEMENT(times_or_zero, x[1] == 0 ? 0 : x[0] * x[1])
ELEMENT(truncated_quotient, trunc(x[0] / x[1]))
ELEMENT(truncated_remainder, fmod(x[0], x[1]))
ELEMENT(inverse, 1 / x[0])
ELEMENT(inverse_grad, -x[1] * x[0] * x[0])
ELEMENT(rounded_up, ceil(x[0]))
ELEMENT(rounded, rint(x[0]))
ELEMENT(is_nan, isnan(x[0]))
ELEMENT(is_infinite, isinf(x[0]))
ELEMENT(is_finite, isfinite(x[0]))
ELEMENT(nearly_equal, fabs(x[0] - x[1]) < (double)operation_attr(op, "tolerance")->f)
ELEMENT(sum_of_three, x[0] + x[1] + x[2])
ELEMENT(same, x[0])
ELEMENT(relu6, fmin(fmax(x[0], 0), 6))
ELEMENT(relu6_grad, x[1] > 0 && x[1] < 6 ? x[0] : 0)
ELEMENT(softsign, x[0] / (1 + fabs(x[0])))
ELEMENT(softsign_grad, x[0] / ((1 + fabs(x[1])) * (1 + fabs(x[1]))))
#define SCALE       1.0507009873554804934193349852946
#define SCALE_ALPHA 1.7580993408473768599402175208123
ELEMENT(selu, x[0] < 0 ? SCALE_ALPHA * expm1(x[0]) : SCALE * x[0])
ELEMENT(selu_grad, x[0] * (x[1] < 0 ? x[1] + SCALE_ALPHA : SCALE))
#define BITS(name, operator)                                                             \
    static double name(const double *x, const struct operation *op)                      \
    {                                                                                    \
        return (double)((int64_t)x[0] operator(int64_t) x[1]);                           \
    }
BITS(bits_and, &)
BITS(bits_or, |)
BITS(bits_xor, ^)
ELEMENT(bits_not, -1 - x[0])

#define ROW(op, types, f, low, high, ulps, in, attrs)                                    \
    {                                                                                    \
        op, types, in, attrs, NULL, NULL, f, low, high, ulps, 0                          \
    }
#define UNARY(op, types, f, low, high, ulps)                                             \
    ROW(op, types, f, low, high, ulps, "x(2,3)", NULL),                                  \
        ROW(op, types, f, low, high, ulps, "x", NULL),                                   \
        ROW(op, types, f, low, high, ulps, "x(0,3)", NULL),                              \
        ROW(op, types, f, low, high, ulps, "x(1,37)", NULL)
#define ALIKE(op, types, f, low, high, ulps)                                             \
    ROW(op, types, f, low, high, ulps, "x(2,3) x(2,3)", NULL),                           \
        ROW(op, types, f, low, high, ulps, "x(0,3) x(0,3)", NULL),                       \
        ROW(op, types, f, low, high, ulps, "x x", NULL)
#define BINARY(op, types, f, low, high, ulps)                                            \
    ALIKE(op, types, f, low, high, ulps),                                                \
        ROW(op, types, f, low, high, ulps, "x(2,3) x(3)", NULL),                         \
        ROW(op, types, f, low, high, ulps, "x(2,1) x(1,19)", NULL)
/* The values of the row; `ulps` of them, since TensorFlow's own algorithms err, too. */
#define GOLDEN(op, types, in, out)                                                       \
    {                                                                                    \
        op, types, in, NULL, out, NULL, NULL, .ulps = 40                                 \
    }
/* At values where it is not differentiable. */
#define STEPS(op, types, f, in, attrs)                                                   \
    {                                                                                    \
        op, types, in, attrs, NULL, NULL, f, .ulps = 4, .flags = CASE_NO_DIFFERENCE      \
    }
#define INTEGERS "ilscuw"

#define NUMBERS   "f(6)=-3,-0.75,0.25,0.75,1.75,9"
#define GRADIENTS "f(6)=1,2,3,4,5,6 "
#define BITS_2    "num_bits=2"
#define QUANTIZED(op, in, attrs, out)                                                    \
    {                                                                                    \
        op, "f", in, attrs, out, NULL, NULL, -3, 3, 0, CASE_NO_DIFFERENCE                \
    }

const struct kernel_case function_cases[] = {
    UNARY("Log1p", "fd", log_of_one_more, -0.9, 5, 4),
    UNARY("Expm1", "fd", exp_less_one, -3, 3, 8),
    STEPS("Log1p", "fd", log_of_one_more, "x(7)=-2,-1,0,1e-30,-1e-9,inf,nan", NULL),
    UNARY("Sin", "fd", sine, -9, 9, 1),
    UNARY("Cos", "fd", cosine, -9, 9, 1),
    UNARY("Tan", "fd", tangent, -1.2, 1.2, 1),
    UNARY("Asin", "fd", arc_sine, -0.9, 0.9, 1),
    UNARY("Acos", "fd", arc_cosine, -0.9, 0.9, 1),
    UNARY("Atan", "fd", arc_tangent, -9, 9, 1),
    UNARY("Sinh", "fd", sine_h, -3, 3, 1),
    UNARY("Cosh", "fd", cosine_h, -3, 3, 1),
    UNARY("Asinh", "fd", arc_sine_h, -9, 9, 1),
    UNARY("Acosh", "fd", arc_cosine_h, 1.2, 9, 1),
    UNARY("Atanh", "fd", arc_tangent_h, -0.9, 0.9, 1),
    UNARY("Erf", "fd", error_function, -3, 3, 1),
    UNARY("Erfc", "fd", rest_of_error, -3, 3, 1),
    GOLDEN("Digamma", "fd", "x(6)=-2.5,-0.25,0.5,1.25,7,40",
           "(6)=1.1031566406452433,2.914139120213528,-1.9635100260214227,"
           "-0.2274535333762655,1.8727843350984674,3.6763273740348428"),
    GOLDEN("Lgamma", "fd", "x(6)=-2.5,-0.25,0.5,1.25,7,40",
           "(6)=-0.05624371649767407,1.589575312551186,0.5723649429247001,"
           "-0.09827183642181316,6.579251212010101,106.63176026064346"),
    /* TensorFlow has no gradient for x, n, a and b */
    GOLDEN("Zeta", "d", "d(5)=2,1.5,4,2.5,3 x(5)=1,0.5,9.5,2.25,-0.5",
           "(5)=1.6449340668482266,4.776537947554834,0.0004544548058395416,"
           "0.2750185524577397,0.41439832211716"),
    GOLDEN("Zeta", "f", "f(2)=2,4 x(1)=1", "(2)=1.6449340668482266,1.0823232337111382"),
    GOLDEN("Polygamma", "d", "d(5)=0,1,2,3,1 x(5)=1.5,0.5,2.25,9.5,-0.5",
           "(5)=0.03648997397857645,4.93480220054468,-0.3037399375369204,"
           "0.0027267288350372497,8.934802200544679"),
    GOLDEN("Polygamma", "f", "f(2)=0,1 x=0.5",
           "(2)=-1.9635100260214235,4.93480220054468"),
    GOLDEN("Igamma", "fd", "x(5)=0.5,2,3.5,10,20 x(5)=0.25,3,1.5,9,30",
           "(5)=0.5204998778130466,0.8008517265285442,0.11499776835684938,"
           "0.4125917556680593,0.9781265315586091"),
    GOLDEN("Igammac", "fd", "x(5)=0.5,2,3.5,10,20 x(5)=0.25,3,1.5,9,30",
           "(5)=0.47950012218695337,0.1991482734714558,0.8850022316431506,"
           "0.5874082443319407,0.02187346844139091"),
    GOLDEN("IgammaGradA", "fd", "x(5)=0.5,2,3.5,10,20 x(5)=0.25,3,1.5,9,30",
           "(5)=-0.797947316783223,-0.19742541957920223,-0.12309102771819105,"
           "-0.12703651192426865,-0.010966166487459603"),
    GOLDEN("Betainc", "d",
           "d(4)=0.5,2,3.5,10 d(4)=0.5,3,1.25,4 x(4)=0.25,0.5,0.875,0.625",
           "(4)=0.33333333333333337,0.6875,0.7258115469586138,0.2190603254348382"),
    GOLDEN("Betainc", "f", "f=2 f=3 x(2)=0.5,0.25", "(2)=0.6875,0.26171875"),
    GOLDEN("RandomGammaGrad", "fd", "x(5)=0.5,2,3.5,10,20 x(5)=0.25,3,1.5,9,30",
           "(5)=0.9080144917641114,1.3217985181779608,0.665297944052771,"
           "0.9641827242847961,1.2265353616537997"),
    GOLDEN("BesselI0e", "fd", "x(6)=-3,0.25,0.5,19,25,100",
           "(6)=0.24300035416182536,0.7910171621397193,0.6450352704491502,"
           "0.09214465721171874,0.0801967735474367,0.03994437929909669"),
    GOLDEN("BesselI1e", "fd", "x(6)=-3,0.25,0.5,19,25,100",
           "(6)=-0.19682671329730084,0.09811262869736825,0.15642080318487162,0."
           "08968605682161496,"
           "0.07857611331929276,0.039744153025130256"),
    GOLDEN("Ndtri", "fd", "x(4)=0.03125,0.25,0.625,0.9375",
           "(4)=-1.8627318674216515,-0.6744897501960817,0.31863936396437514,"
           "1.5341205443525463"),
    GOLDEN("Erfinv", "fd", "x(4)=-0.875,-0.25,0.0625,0.5",
           "(4)=-1.0847870400692832,-0.2253120550121781,0.05544594877278202,"
           "0.4769362762044699"),
    BINARY("Atan2", "fd", angle, 0.5, 5, 1),
    STEPS("Atan2", "fd", angle, "x(6)=0,-0.0,1,-1,-1,0 x(6)=-1,-1,0,0,-2,0", NULL),
    BINARY("Xlogy", "fd", x_log_y, 0.5, 5, 8),
    STEPS("Xlogy", "fd", x_log_y, "x(4)=0,0,1,0 x(4)=0,-1,2,nan", NULL),
    BINARY("Xlog1py", "fd", x_log_1_y, 0.5, 5, 8),
    STEPS("Xlog1py", "fd", x_log_1_y, "x(4)=0,0,1,0 x(4)=-1,-2,2,nan", NULL),
    BINARY("Xdivy", "fd", x_over_y, 0.5, 5, 1),
    STEPS("Xdivy", "fd", x_over_y, "x(4)=0,0,1,0 x(4)=0,-1,2,nan", NULL),
    BINARY("MulNoNan", "fd", times_or_zero, 0.5, 5, 1),
    STEPS("MulNoNan", "fd", times_or_zero, "x(4)=inf,nan,1,0 x(4)=0,0,2,1", NULL),
    BINARY("TruncateDiv", "fd", truncated_quotient, 1, 9, 0),
    BINARY("TruncateDiv", INTEGERS, truncated_quotient, 1, 9, 0),
    STEPS("TruncateDiv", "fdil", truncated_quotient, "x(4)=7,-7,7,-7 x(4)=2,2,-2,-2",
          NULL),
    BINARY("TruncateMod", "fd" INTEGERS, truncated_remainder, 1, 9, 1),
    STEPS("TruncateMod", "fdil", truncated_remainder, "x(4)=7,-7,7,-7 x(4)=2,2,-2,-2",
          NULL),
    BINARY("BitwiseAnd", INTEGERS, bits_and, -100, 100, 0),
    BINARY("BitwiseOr", INTEGERS, bits_or, -100, 100, 0),
    BINARY("BitwiseXor", INTEGERS, bits_xor, -100, 100, 0),
    UNARY("Invert", INTEGERS, bits_not, -100, 100, 0),
    GOLDEN("LeftShift", "i", "i(4)=1,-1,5,3 i(4)=40,-3,2,0", "(4)=-2147483648,-1,20,3"),
    GOLDEN("LeftShift", "sw", "x(3)=1,3,5 x(1)=2", "(3)=4,12,20"),
    GOLDEN("RightShift", "i", "i(4)=-8,8,7,9 i(4)=1,99,-1,2", "(4)=-4,0,7,2"),
    UNARY("Inv", "fd", inverse, 0.2, 5, 1),
    ALIKE("InvGrad", "fd", inverse_grad, 0.5, 2, 2),
    UNARY("Ceil", "fd", rounded_up, -5, 5, 0),
    UNARY("Rint", "fd", rounded, -5, 5, 0),
    UNARY("Round", "fdil", rounded, -5, 5, 0),
    STEPS("Round", "fd", rounded, "x(5)=0.5,1.5,2.5,-0.5,-1.5", NULL),
    STEPS("Rint", "fd", rounded, "x(5)=0.5,1.5,2.5,-0.5,-1.5", NULL),
    STEPS("IsNan", "fd", is_nan, "x(5)=0,nan,inf,-inf,1e38", NULL),
    STEPS("IsInf", "fd", is_infinite, "x(5)=0,nan,inf,-inf,1e38", NULL),
    STEPS("IsFinite", "fd", is_finite, "x(5)=0,nan,inf,-inf,1e38", NULL),
    BINARY("ApproximateEqual", "fd", nearly_equal, 0, 2, 0),
    ROW("ApproximateEqual", "fd", nearly_equal, 0, 9, 0, "x(4,9) x(4,9)",
        "tolerance=3.0"),
    ROW("AccumulateNV2", "fdil", sum_of_three, -5, 5, 2, "x(2,3) x(2,3) x(2,3)",
        "shape=(2,3)"),
    ROW("AccumulateNV2", "fdil", same, -5, 5, 0, "x(4)", "shape=(4)"),
    UNARY("Relu6", "fdil", relu6, -9, 9, 0),
    ALIKE("Relu6Grad", "fd", relu6_grad, -9, 9, 0),
    UNARY("Selu", "fd", selu, -3, 3, 6),
    ALIKE("SeluGrad", "fd", selu_grad, -0.9, 0.9, 3),
    UNARY("Softsign", "fd", softsign, -3, 3, 2),
    ALIKE("SoftsignGrad", "fd", softsign_grad, -3, 3, 4),
    QUANTIZED("FakeQuantWithMinMaxArgs", NUMBERS, BITS_2 " min=-1.0 max=2.0",
              "(6)=-1,-1,0,1,2,2"),
    QUANTIZED("FakeQuantWithMinMaxArgsGradient", GRADIENTS NUMBERS,
              BITS_2 " min=-1.0 max=2.0", "(6)=0,2,3,4,5,0"),
    QUANTIZED("FakeQuantWithMinMaxVars", NUMBERS " f=-1 f=2", BITS_2,
              "(6)=-1,-1,0,1,2,2"),
    QUANTIZED("FakeQuantWithMinMaxVars", NUMBERS " f=0 f=0", NULL, "(6)=0,0,0,0,0,0"),
    QUANTIZED("FakeQuantWithMinMaxVarsGradient", GRADIENTS NUMBERS " f=-1 f=2", BITS_2,
              "(6)=0,2,3,4,5,0 .=1 .=6"),
    QUANTIZED("FakeQuantWithMinMaxVarsPerChannel",
              "f(2,2)=-3,3,0.75,3 f(2)=-1,0 f(2)=2,6", BITS_2, "(2,2)=-1,4,1,4"),
    QUANTIZED("FakeQuantWithMinMaxVarsPerChannelGradient",
              "f(2,2)=1,2,3,4 f(2,2)=-3,3,0.75,9 f(2)=-1,0 f(2)=2,6", BITS_2,
              "(2,2)=0,2,3,0 (2)=1,0 (2)=0,4"),
    {NULL},
};
