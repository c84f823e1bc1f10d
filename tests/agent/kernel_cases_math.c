/* Element-wise arithmetic, matrix products and reductions.
 *
 * Tolerances: one rounding is half a unit, so formulas of k roundings get about k; the
 * functions of vmath.h promise 4 units; a sum of n terms gets n.
 */
#include "tests/agent/kernel_cases.h"

#include <math.h>
#include <string.h>

/* ---- element by element ---- */

static int of_integers(const struct operation *op)
{
    return dtype_is_integer(output_dtype(operation_input(op, 0)));
}

#define ELEMENT(name, expr)                                                              \
    static double name(const double *x, const struct operation *op)                      \
    {                                                                                    \
        (void)op;                                                                        \
        return (expr);                                                                   \
    }
ELEMENT(add, x[0] + x[1])
ELEMENT(sub, x[0] - x[1])
ELEMENT(mul, x[0] * x[1])
ELEMENT(quotient, x[0] / x[1])
ELEMENT(quotient_or_zero, x[1] == 0 ? 0 : x[0] / x[1])
ELEMENT(quotient_of_type, of_integers(op) ? trunc(x[0] / x[1]) : x[0] / x[1])
ELEMENT(truncated_remainder, fmod(x[0], x[1]))
ELEMENT(inverse_grad, -x[1] * x[0] * x[0])
ELEMENT(larger, x[0] > x[1] ? x[0] : x[1])
ELEMENT(smaller, x[0] < x[1] ? x[0] : x[1])
ELEMENT(power, pow(x[0], x[1]))
ELEMENT(squared_difference, (x[0] - x[1]) * (x[0] - x[1]))
ELEMENT(floor_quotient, floor(x[0] / x[1]))
ELEMENT(floor_remainder, x[0] - floor(x[0] / x[1]) * x[1])
ELEMENT(negative, -x[0])
ELEMENT(square, x[0] * x[0])
ELEMENT(root, sqrt(x[0]))
ELEMENT(inverse_root, 1 / sqrt(x[0]))
ELEMENT(exponential, exp(x[0]))
ELEMENT(logarithm, log(x[0]))
ELEMENT(magnitude, fabs(x[0]))
ELEMENT(sign, (x[0] > 0) - (x[0] < 0))
ELEMENT(inverse, 1 / x[0])
ELEMENT(rounded_down, floor(x[0]))
ELEMENT(root_grad, x[1] / (2 * x[0]))
ELEMENT(inverse_root_grad, -x[1] * x[0] * x[0] * x[0] / 2)
ELEMENT(same, x[0])
ELEMENT(choice, x[0] != 0 ? x[1] : x[2])
ELEMENT(clipped, x[0]<x[1] ? x[1] : x[0]> x[2] ? x[2] : x[0])
ELEMENT(equal, x[0] == x[1])
ELEMENT(not_equal, x[0] != x[1])
ELEMENT(greater, x[0] > x[1])
ELEMENT(greater_equal, x[0] >= x[1])
ELEMENT(less, x[0] < x[1])
ELEMENT(less_equal, x[0] <= x[1])
ELEMENT(both, x[0] != 0 && x[1] != 0)
ELEMENT(either, x[0] != 0 || x[1] != 0)
ELEMENT(not, x[0] == 0)
ELEMENT(sum_of_three, x[0] + x[1] + x[2])
ELEMENT(truncated, trunc(x[0]))
ELEMENT(not_zero, x[0] != 0)

/* ---- products ---- */

static int flag(const struct reference *r, const char *name)
{
    return operation_attr(r->op, name)->i != 0;
}

static void product(const struct reference *r)
{
    const struct array *a = &r->in[0], *b = &r->in[1];
    int64_t rows = r->out->tensor.shape.dim[0], columns = r->out->tensor.shape.dim[1];
    int ta = flag(r, "transpose_a"), tb = flag(r, "transpose_b");
    int64_t wa = a->tensor.shape.dim[1], wb = b->tensor.shape.dim[1];
    int64_t inner = ta ? a->tensor.shape.dim[0] : wa;

    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            for (int64_t k = 0; k < inner; k++)
                r->out->v[i * columns + j] += a->v[ta ? k * wa + i : i * wa + k] *
                                              b->v[tb ? j * wb + k : k * wb + j];
}

/* Dimensions before the last two are broadcast (V2) or equal. */
static void batch_of_products(const struct reference *r)
{
    const struct shape *all = &r->out->tensor.shape;
    int ta = flag(r, "adj_x"), tb = flag(r, "adj_y");
    int row = all->rank - 2, column = all->rank - 1;

    for (int64_t i = 0; i < r->out->n; i++) {
        int64_t a[SHAPE_MAX_RANK], b[SHAPE_MAX_RANK];
        const struct shape *sa = &r->in[0].tensor.shape, *sb = &r->in[1].tensor.shape;

        unravel(all, i, a);
        unravel(all, i, b);
        a[ta ? column : row] = a[row];
        b[tb ? row : column] = b[column];
        for (int64_t k = 0; k < sa->dim[sa->rank - (ta ? 2 : 1)]; k++) {
            a[ta ? row : column] = b[tb ? column : row] = k;
            r->out->v[i] +=
                r->in[0].v[ravel(sa, a, all->rank)] * r->in[1].v[ravel(sb, b, all->rank)];
        }
    }
}

/* ---- reductions ---- */

/* The output element to which input element i contributes. */
static int64_t goes_to(const struct reference *r, int64_t i)
{
    const struct shape *s = &r->in[0].tensor.shape;
    int gone[SHAPE_MAX_RANK] = {0};
    int64_t index[SHAPE_MAX_RANK], at = 0;

    for (int64_t k = 0; k < r->in[1].n; k++)
        gone[(int)r->in[1].v[k] + (r->in[1].v[k] < 0 ? s->rank : 0)] = 1;
    unravel(s, i, index);
    for (int d = 0; d < s->rank; d++)
        at = gone[d] ? at : at * s->dim[d] + index[d];
    return at;
}

static void fold(const struct reference *r, double start, element_fn step)
{
    for (int64_t i = 0; i < r->out->n; i++)
        r->out->v[i] = start;
    for (int64_t i = 0; i < r->in[0].n; i++) {
        double *y = &r->out->v[goes_to(r, i)];

        *y = step((double[]){*y, r->in[0].v[i]}, r->op);
    }
}

static void sum(const struct reference *r)
{
    fold(r, 0, add);
}

static void mean(const struct reference *r)
{
    fold(r, 0, add);
    for (int64_t i = 0; i < r->out->n; i++)
        r->out->v[i] /= (double)(r->in[0].n / r->out->n);
}

static void product_of_all(const struct reference *r)
{
    fold(r, 1, mul);
}

static void maximum(const struct reference *r)
{
    fold(r, -INFINITY, larger);
}

static void minimum(const struct reference *r)
{
    fold(r, INFINITY, smaller);
}

static void all(const struct reference *r)
{
    fold(r, 1, both);
}

static void any(const struct reference *r)
{
    fold(r, 0, either);
}

/* The first position of the extremum along the axis. */
static void position(const struct reference *r)
{
    const struct shape *s = &r->in[0].tensor.shape;
    double turn = strcmp(operation_type(r->op), "ArgMax") == 0 ? 1 : -1;
    int axis = (int)r->in[1].v[0] + (r->in[1].v[0] < 0 ? s->rank : 0);
    double best[64];

    for (int i = 0; i < 64; i++)
        best[i] = -INFINITY;
    for (int64_t i = 0; i < r->in[0].n; i++) {
        int64_t index[SHAPE_MAX_RANK], at = goes_to(r, i);

        unravel(s, i, index);
        if (turn * r->in[0].v[i] > best[at]) {
            best[at] = turn * r->in[0].v[i];
            r->out->v[at] = (double)index[axis];
        }
    }
}

/* ---- the rows ---- */

#define ROW1(op, types, f, low, high, ulps, in)                                          \
    {                                                                                    \
        op, types, in, NULL, NULL, NULL, f, low, high, ulps, 0                           \
    }
#define UNARY(op, types, f, low, high, ulps)                                             \
    ROW1(op, types, f, low, high, ulps, "x(2,3)"),                                       \
        ROW1(op, types, f, low, high, ulps, "x"),                                        \
        ROW1(op, types, f, low, high, ulps, "x(0,3)"),                                   \
        ROW1(op, types, f, low, high, ulps, "x(1,37)")
#define ALIKE(op, types, f, low, high, ulps)                                             \
    ROW1(op, types, f, low, high, ulps, "x(2,3) x(2,3)"),                                \
        ROW1(op, types, f, low, high, ulps, "x(0,3) x(0,3)"),                            \
        ROW1(op, types, f, low, high, ulps, "x x")
#define BINARY(op, types, f, low, high, ulps)                                            \
    ALIKE(op, types, f, low, high, ulps),                                                \
        ROW1(op, types, f, low, high, ulps, "x(2,3) x(3)"),                              \
        ROW1(op, types, f, low, high, ulps, "x x(2,3)"),                                 \
        ROW1(op, types, f, low, high, ulps, "x(2,1) x(1,19)"),                           \
        ROW1(op, types, f, low, high, ulps, "x(4,1,3) x(2,1)"),                          \
        ROW1(op, types, f, low, high, ulps, "x(1,3) x(0,1)")
#define REDUCE1(op, types, f, low, high, ulps, in, attrs, out)                           \
    {                                                                                    \
        op, types, in, attrs, out, f, NULL, low, high, ulps, 0                           \
    }
#define KEEP "keep_dims=true"
#define REDUCE(op, types, f, low, high, ulps)                                            \
    REDUCE1(op, types, f, low, high, ulps, "x(2,3,4) I(1)=1", NULL, "(2,4)"),            \
        REDUCE1(op, types, f, low, high, ulps, "x(2,3,4) I(2)=0,1", NULL, "(4)"),        \
        REDUCE1(op, types, f, low, high, ulps, "x(2,3,4) I(2)=-1,1", KEEP, "(2,1,1)"),   \
        REDUCE1(op, types, f, low, high, ulps, "x(2,3,4) I(2)=0,2", NULL, "(3)"),        \
        REDUCE1(op, types, f, low, high, ulps, "x(2,3) I(0)", NULL, "(2,3)"),            \
        REDUCE1(op, types, f, low, high, ulps, "x(2,3) I=-2", NULL, "(3)"),              \
        REDUCE1(op, types, f, low, high, ulps, "x(5,1) L(2)=0,1", NULL, "."),            \
        REDUCE1(op, types, f, low, high, ulps, "x(3,1,2) I(1)=1", KEEP, "(3,1,2)"),      \
        REDUCE1(op, types, f, low, high, ulps, "x I(0)", NULL, "."),                     \
        REDUCE1(op, types, f, low, high, ulps, "x(70) I(1)=0", NULL, ".")
#define REDUCE_EMPTY(op, types, f)                                                       \
    REDUCE1(op, types, f, 0, 1, 0, "x(0,3) I(1)=0", NULL, "(3)"),                        \
        REDUCE1(op, types, f, 0, 1, 0, "x(0,3) I(1)=1", KEEP, "(0,1)")
#define NUMBERS "fdilscuw"

const struct kernel_case math_cases[] = {
    BINARY("Add", NUMBERS, add, -5, 5, 1),
    BINARY("AddV2", NUMBERS, add, -5, 5, 1),
    BINARY("Sub", NUMBERS, sub, -5, 5, 1),
    BINARY("Mul", NUMBERS, mul, -5, 5, 1),
    BINARY("RealDiv", "fd", quotient, 0.5, 5, 1),
    BINARY("Div", NUMBERS, quotient_of_type, 1, 9, 1),
    BINARY("Mod", "fd", truncated_remainder, 1, 9, 1),
    BINARY("Mod", "ilscuw", truncated_remainder, 1, 9, 0),
    BINARY("DivNoNan", "fd", quotient_or_zero, 0.5, 5, 1),
    /* zero divisors, whose results are zero */
    {"DivNoNan", "fd", "x(3)=1,0,-2 x(3)=0,0,4", NULL, NULL, NULL, quotient_or_zero,
     .ulps = 1, .flags = CASE_NO_DIFFERENCE},
    BINARY("Maximum", NUMBERS, larger, -5, 5, 0),
    BINARY("Minimum", NUMBERS, smaller, -5, 5, 0),
    /* the kernel calls libm's powf */
    BINARY("Pow", "fd", power, 0.5, 3, 2),
    BINARY("Pow", "il", power, 0, 5, 2),
    BINARY("SquaredDifference", "fdil", squared_difference, -5, 5, 3),
    BINARY("FloorDiv", "fd", floor_quotient, 1, 9, 0),
    BINARY("FloorDiv", "ilscuw", floor_quotient, 1, 9, 0),
    {"FloorDiv", "fdil", "x(6)=7,-7,7,-7,6,-6 x(6)=2,2,-2,-2,3,3", NULL, NULL, NULL,
     floor_quotient, .flags = CASE_NO_DIFFERENCE},
    BINARY("FloorMod", "fd", floor_remainder, 1, 9, 10),
    BINARY("FloorMod", "ilscuw", floor_remainder, 1, 9, 0),
    {"FloorMod", "fdil", "x(6)=7,-7,7,-7,6,-6 x(6)=2,2,-2,-2,4,4", NULL, NULL, NULL,
     floor_remainder},
    UNARY("Neg", NUMBERS, negative, -5, 5, 0),
    UNARY("Square", NUMBERS, square, -5, 5, 1),
    UNARY("Sqrt", "fd", root, 0.1, 9, 1),
    UNARY("Rsqrt", "fd", inverse_root, 0.1, 9, 2),
    UNARY("Exp", "fd", exponential, -3, 3, 4),
    UNARY("Log", "fd", logarithm, 0.1, 9, 4),
    UNARY("Abs", "fdilsc", magnitude, -5, 5, 0),
    UNARY("Sign", "fdilsc", sign, -5, 5, 0),
    UNARY("Reciprocal", "fd", inverse, 0.2, 5, 1),
    UNARY("Floor", "fd", rounded_down, -5, 5, 0),
    ALIKE("SqrtGrad", "fd", root_grad, 0.5, 3, 2),
    ALIKE("ReciprocalGrad", "fd", inverse_grad, 0.5, 2, 2),
    ALIKE("RsqrtGrad", "fd", inverse_root_grad, 0.5, 2, 4),
    ROW1("AddN", "fdil", sum_of_three, -5, 5, 2, "x(2,3) x(2,3) x(2,3)"),
    ROW1("AddN", "fdil", sum_of_three, -5, 5, 2, "x(0) x(0) x(0)"),
    ROW1("AddN", "fdil", same, -5, 5, 0, "x(4)"),
    ROW1("Select", "fdilb", choice, -5, 5, 0, "b(2,3) x(2,3) x(2,3)"),
    ROW1("Select", "fdilb", choice, -5, 5, 0, "b x(2,3) x(2,3)"),
    ROW1("Select", "fd", choice, -5, 5, 0, "b x x"),
    ROW1("Select", "fd", choice, -5, 5, 0, "b(0,2) x(0,2) x(0,2)"),
    ROW1("SelectV2", "fdilb", choice, -5, 5, 0, "b(2,3) x(2,3) x(2,3)"),
    ROW1("SelectV2", "fdilb", choice, -5, 5, 0, "b(2,1) x(3) x"),
    ROW1("ClipByValue", "fdil", clipped, -9, 9, 0, "x(4,9) x=-5 x=5"),
    ROW1("ClipByValue", "fdil", clipped, -9, 9, 0, "x(2,3) x(3)=-5,-1,-2 x(2,1)=1,5"),
    {"Cast", "fdlb", "i(2,3)", "DstT=@x", NULL, NULL, same, -5, 5, 0, 0},
    /* differences of rounded numbers do not give the derivative */
    {"Cast", NUMBERS, "x(2,3)", "DstT=@f", NULL, NULL, same, -5, 5, 1,
     CASE_NO_DIFFERENCE},
    {"Cast", NUMBERS "b", "x(2,3)", "DstT=@d", NULL, NULL, same, -5, 5, 0, 0},
    {"Cast", NUMBERS, "x(2,3)", "DstT=@i", NULL, NULL, truncated, -5, 5, 0, 0},
    {"Cast", NUMBERS "b", "x(2,3)", "DstT=@l", NULL, NULL, truncated, -5, 5, 0, 0},
    {"Cast", NUMBERS "b", "x(2,3)", "DstT=@b", NULL, NULL, not_zero, -5, 5, 0, 0},
    BINARY("Equal", NUMBERS "b", equal, 0, 2, 0),
    BINARY("NotEqual", NUMBERS "b", not_equal, 0, 2, 0),
    BINARY("Greater", NUMBERS, greater, 0, 3, 0),
    BINARY("GreaterEqual", NUMBERS, greater_equal, 0, 3, 0),
    BINARY("Less", NUMBERS, less, 0, 3, 0),
    BINARY("LessEqual", NUMBERS, less_equal, 0, 3, 0),
    BINARY("LogicalAnd", "b", both, 0, 1, 0),
    BINARY("LogicalOr", "b", either, 0, 1, 0),
    UNARY("LogicalNot", "b", not, 0, 1, 0),
    {"MatMul", "fdil", "x(2,3) x(3,4)", NULL, "(2,4)", product, NULL, -3, 3, 20, 0},
    {"MatMul", "fd", "x(3,2) x(3,4)", "transpose_a=true", "(2,4)", product, NULL, -3, 3,
     20, 0},
    {"MatMul", "fd", "x(2,3) x(4,3)", "transpose_b=true", "(2,4)", product, NULL, -3, 3,
     20, 0},
    {"MatMul", "fdi", "x(3,2) x(4,3)", "transpose_a=true transpose_b=true", "(2,4)",
     product, NULL, -3, 3, 20, 0},
    {"MatMul", "fd", "x(1,1) x(1,1)", NULL, "(1,1)", product, NULL, -3, 3, 20, 0},
    {"MatMul", "fd", "x(0,3) x(3,2)", NULL, "(0,2)", product, NULL, -3, 3, 20, 0},
    /* an empty sum is zero */
    {"MatMul", "fd", "x(2,0) x(0,3)", NULL, "(2,3)", product, NULL, -3, 3, 20, 0},
    {"MatMul", "fd", "x(0,2) x(0,3)", "transpose_a=true", "(2,3)", product, NULL, -3, 3,
     20, 0},
    /* longer than a chunk of the batch (DENSE_BLOCK) */
    {"MatMul", "f", "x(131,2) x(131,3)", "transpose_a=true", "(2,3)", product, NULL, -1,
     1, 131, 0},
    {"MatMul", "f", "x(131,3) x(3,1)", NULL, "(131,1)", product, NULL, -1, 1, 20, 0},
    {"BatchMatMul", "fd", "x(2,2,3) x(2,3,4)", NULL, "(2,2,4)", batch_of_products, NULL,
     -3, 3, 20, 0},
    {"BatchMatMul", "fd", "x(2,3,2) x(2,4,3)", "adj_x=true adj_y=true", "(2,2,4)",
     batch_of_products, NULL, -3, 3, 20, 0},
    {"BatchMatMul", "fd", "x(2,3) x(3,4)", NULL, "(2,4)", batch_of_products, NULL, -3, 3,
     20, 0},
    {"BatchMatMulV3", "fd", "x(2,1,2,3) x(3,3,4)", "Tout=@x", "(2,3,2,4)",
     batch_of_products, NULL, -3, 3, 20, 0},
    {"BatchMatMulV2", "fd", "x(2,1,2,3) x(3,3,4)", NULL, "(2,3,2,4)", batch_of_products,
     NULL, -3, 3, 20, 0},
    {"BatchMatMulV2", "fd", "x(2,3) x(2,4,3)", "adj_y=true", "(2,2,4)", batch_of_products,
     NULL, -3, 3, 20, 0},
    REDUCE("Sum", "fdil", sum, -5, 5, 70),
    REDUCE_EMPTY("Sum", "fdil", sum),
    REDUCE("Mean", "fd", mean, -5, 5, 20),
    REDUCE("Max", "fdil", maximum, -5, 5, 0),
    REDUCE("Min", "fdil", minimum, -5, 5, 0),
    REDUCE("Prod", "fd", product_of_all, 0.8, 1.25, 70),
    REDUCE1("Prod", "il", product_of_all, 1, 3, 9, "x(2,3,4) I(1)=1", NULL, "(2,4)"),
    REDUCE1("Prod", "fdil", product_of_all, 0, 0, 9, "x(2,3)=1,0,3,0,5,0 I(1)=1", NULL,
            "(2)"),
    REDUCE_EMPTY("Prod", "fdil", product_of_all),
    REDUCE("All", "b", all, 0, 1, 0),
    REDUCE_EMPTY("All", "b", all),
    REDUCE("Any", "b", any, 0, 1, 0),
    REDUCE_EMPTY("Any", "b", any),
    REDUCE1("ArgMax", "fdil", position, 0, 5, 0, "x(2,3,4) I=1", NULL, "(2,4)"),
    REDUCE1("ArgMax", "fdil", position, -5, 5, 0, "x(2,3,4) I=-1", "output_type=@i",
            "(2,3)"),
    REDUCE1("ArgMax", "fd", position, -5, 5, 0, "x(5)=1,7,7,2,7 L=0", NULL, "."),
    REDUCE1("ArgMax", "fd", position, -5, 5, 0, "x(0,3) I=1", NULL, "(0)"),
    REDUCE1("ArgMin", "fdil", position, 0, 5, 0, "x(2,3,4) I=0", NULL, "(3,4)"),
    REDUCE1("ArgMin", "fdil", position, -5, 5, 0, "x(4,1) I=-2", "output_type=@i", "(1)"),
    {NULL},
};
