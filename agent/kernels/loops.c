/* Compiled once for each instruction set, with KERN_LOOPS as the name of the table: see
 * loops.h. */
#include "agent/kernels/loops.h"

#include "agent/kernels/special.h"
#include "agent/kernels/vmath.h"
#include "common/tensor/half.h"

#include <string.h>

/* One formula serves signed and unsigned types: comparisons with 0 may be always true. */
#pragma GCC diagnostic ignored "-Wtype-limits"

extern const struct kern_loops KERN_LOOPS;
extern void DENSE(const struct dense *d);
extern void DENSE_TRANSPOSE(float *dst, const float *src, int64_t n, int64_t k,
                            int64_t ld);

#ifdef __clang__
#define EACH _Pragma("clang loop vectorize(enable)") for (size_t i = 0; i < n; i++)
#else
#define EACH _Pragma("GCC ivdep") for (size_t i = 0; i < n; i++)
#endif

/* Defines one loop with result type D and operand types A, B, C, whose values are x, y,
 * z. */
#define LOOP(name, D, A, B, C, expr)                                                     \
    static void name(void *dst, const void *a, const void *b, const void *c, size_t n,   \
                     float alpha)                                                        \
    {                                                                                    \
        D *d = dst;                                                                      \
        const A *pa = a;                                                                 \
        const B *pb = b;                                                                 \
        const C *pc = c;                                                                 \
        (void)pb, (void)pc, (void)alpha;                                                 \
        EACH                                                                             \
        {                                                                                \
            A x = pa[i];                                                                 \
            d[i] = (D)(expr);                                                            \
            (void)x;                                                                     \
        }                                                                                \
    }
#define Y pb[i]
#define Z pc[i]

typedef float f32;
typedef double f64;
typedef int32_t i32;
typedef int64_t i64;
typedef int16_t i16;
typedef int8_t i8;
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint8_t b8;   /* DT_BOOL */
typedef uint16_t f16; /* DT_HALF */
typedef uint16_t bf16;

#define ID_f32  DT_FLOAT
#define ID_f64  DT_DOUBLE
#define ID_i32  DT_INT32
#define ID_i64  DT_INT64
#define ID_i16  DT_INT16
#define ID_i8   DT_INT8
#define ID_u8   DT_UINT8
#define ID_u16  DT_UINT16
#define ID_b8   DT_BOOL
#define ID_f16  DT_HALF
#define ID_bf16 DT_BFLOAT16

/* Rounds towards minus infinity, as TensorFlow's FloorDiv and FloorMod do. Division by
 * zero gives 0, where TensorFlow fails; the smallest integer divided by -1 wraps. */
static inline int64_t floor_div_int(int64_t x, int64_t y)
{
    if (y == 0)
        return 0;
    if (y == -1)
        return (int64_t)(0u - (uint64_t)x);
    return x / y - (x % y != 0 && (x < 0) != (y < 0));
}
static inline int64_t trunc_div_int(int64_t x, int64_t y)
{
    if (y == 0)
        return 0;
    return y == -1 ? (int64_t)(0u - (uint64_t)x) : x / y;
}
static inline int64_t trunc_mod_int(int64_t x, int64_t y)
{
    return y == 0 || y == -1 ? 0 : x % y;
}
static inline int64_t floor_mod_int(int64_t x, int64_t y)
{
    int64_t m = trunc_mod_int(x, y);

    return m != 0 && (m < 0) != (y < 0) ? m + y : m;
}

/* A function under one name for both float types: M(f32, exp)(x). */
#define M(T, f)      T##_##f
#define f32_exp      vm_expf
#define f32_expm1    vm_expm1f
#define f32_log      vm_logf
#define f32_log1p    vm_log1pf
#define f32_tanh     vm_tanhf
#define f32_sigmoid  vm_sigmoidf
#define f32_softplus vm_softplusf
#define f32_sqrt     sqrtf
#define f32_abs      fabsf
#define f32_floor    floorf
#define f32_ceil     ceilf
#define f32_rint     rintf
#define f32_trunc    truncf
#define f32_pow      powf
#define f32_fmod     fmodf
#define f32_next     nextafterf
#define f64_exp      exp
#define f64_expm1    expm1
#define f64_log      log
#define f64_log1p    log1p
#define f64_tanh     tanh
#define f64_sigmoid  sigmoid_f64
#define f64_softplus softplus_f64
#define f64_sqrt     sqrt
#define f64_abs      fabs
#define f64_floor    floor
#define f64_ceil     ceil
#define f64_rint     rint
#define f64_trunc    trunc
#define f64_pow      pow
#define f64_fmod     fmod
#define f64_next     nextafter

static inline double sigmoid_f64(double x)
{
    return 1.0 / (1.0 + exp(-x));
}
static inline double softplus_f64(double x)
{
    return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}
static inline double floor_mod_f(double x, double y)
{
    double m = fmod(x, y);

    return m != 0 && (m < 0) != (y < 0) ? m + y : m;
}
static inline int64_t ipow(int64_t x, int64_t y)
{
    uint64_t r = 1, b = (uint64_t)x;

    for (; y > 0; y >>= 1, b *= b)
        if (y & 1)
            r *= b;
    return (int64_t)r;
}

/* The number of bits by which to shift: TensorFlow's, for shifts that C leaves undefined. */
#define SHIFT(T, n)                                                                      \
    ((n) < 0 ? 0 : (n) < (T)(8 * sizeof(T)) ? (n) : (T)(8 * sizeof(T) - 1))

/* The slopes of Selu below and above 0. */
#define SELU_BELOW 1.7580993408473768599402175208123
#define SELU_ABOVE 1.0507009873554804934193349852946

/* X(T, Op, D, A, B, C, expr): operation Op for dtype T. (BiasAddRelu is two operations
 * that the planner fuses.) Every expression is TensorFlow's formula; gradients take their
 * arguments in TensorFlow's order. */
#define FLOAT_UNARY(X, T)                                                                \
    X(T, Exp, T, T, T, T, M(T, exp)(x))                                                  \
    X(T, Log, T, T, T, T, M(T, log)(x))                                                  \
    X(T, Tanh, T, T, T, T, M(T, tanh)(x))                                                \
    X(T, Sigmoid, T, T, T, T, M(T, sigmoid)(x))                                          \
    X(T, Softplus, T, T, T, T, M(T, softplus)(x))                                        \
    X(T, Sqrt, T, T, T, T, M(T, sqrt)(x))                                                \
    X(T, Rsqrt, T, T, T, T, (T)1 / M(T, sqrt)(x))                                        \
    X(T, Reciprocal, T, T, T, T, (T)1 / x)                                               \
    X(T, Elu, T, T, T, T, x < 0 ? M(T, expm1)(x) : x)                                    \
    X(T, Floor, T, T, T, T, M(T, floor)(x))                                              \
    X(T, Ceil, T, T, T, T, M(T, ceil)(x))                                                \
    X(T, Rint, T, T, T, T, M(T, rint)(x))                                                \
    X(T, Round, T, T, T, T, M(T, rint)(x))                                               \
    X(T, Inv, T, T, T, T, (T)1 / x)                                                      \
    X(T, Log1p, T, T, T, T, M(T, log1p)(x))                                              \
    X(T, Expm1, T, T, T, T, M(T, expm1)(x))                                              \
    X(T, Softsign, T, T, T, T, x / ((T)1 + M(T, abs)(x)))                                \
    X(T, Selu, T, T, T, T, x < 0 ? (T)SELU_BELOW * M(T, expm1)(x) : (T)SELU_ABOVE * x)   \
    X(T, IsNan, b8, T, T, T, x != x)                                                     \
    X(T, IsInf, b8, T, T, T, x - x != 0 && x == x)                                       \
    X(T, IsFinite, b8, T, T, T, x - x == 0)                                              \
    X(T, LeakyRelu, T, T, T, T, x > 0 ? x : x * (T)alpha)

/* Computed in double, by libm and special.c. */
#define FLOAT_FUNCTION(X, T)                                                             \
    X(T, Sin, T, T, T, T, sin((f64)x))                                                   \
    X(T, Cos, T, T, T, T, cos((f64)x))                                                   \
    X(T, Tan, T, T, T, T, tan((f64)x))                                                   \
    X(T, Asin, T, T, T, T, asin((f64)x))                                                 \
    X(T, Acos, T, T, T, T, acos((f64)x))                                                 \
    X(T, Atan, T, T, T, T, atan((f64)x))                                                 \
    X(T, Sinh, T, T, T, T, sinh((f64)x))                                                 \
    X(T, Cosh, T, T, T, T, cosh((f64)x))                                                 \
    X(T, Asinh, T, T, T, T, asinh((f64)x))                                               \
    X(T, Acosh, T, T, T, T, acosh((f64)x))                                               \
    X(T, Atanh, T, T, T, T, atanh((f64)x))                                               \
    X(T, Erf, T, T, T, T, erf((f64)x))                                                   \
    X(T, Erfc, T, T, T, T, erfc((f64)x))                                                 \
    X(T, Erfinv, T, T, T, T, special_erfinv((f64)x))                                     \
    X(T, Ndtri, T, T, T, T, special_ndtri((f64)x))                                       \
    X(T, Lgamma, T, T, T, T, special_lgamma((f64)x))                                     \
    X(T, Digamma, T, T, T, T, special_digamma((f64)x))                                   \
    X(T, BesselI0e, T, T, T, T, special_bessel_i0e((f64)x))                              \
    X(T, BesselI1e, T, T, T, T, special_bessel_i1e((f64)x))                              \
    X(T, Atan2, T, T, T, T, atan2((f64)x, (f64)Y))                                       \
    X(T, Zeta, T, T, T, T, special_zeta((f64)x, (f64)Y))                                 \
    X(T, Polygamma, T, T, T, T, special_polygamma((f64)x, (f64)Y))                       \
    X(T, Igamma, T, T, T, T, special_igamma((f64)x, (f64)Y))                             \
    X(T, Igammac, T, T, T, T, special_igammac((f64)x, (f64)Y))                           \
    X(T, IgammaGradA, T, T, T, T, special_igamma_grad_a((f64)x, (f64)Y))                 \
    X(T, RandomGammaGrad, T, T, T, T, special_gamma_sample_grad((f64)x, (f64)Y))         \
    X(T, Betainc, T, T, T, T, special_betainc((f64)x, (f64)Y, (f64)Z))

#define FLOAT_BINARY(X, T)                                                               \
    X(T, Add, T, T, T, T, x + Y)                                                         \
    X(T, AddV2, T, T, T, T, x + Y)                                                       \
    X(T, BiasAdd, T, T, T, T, x + Y)                                                     \
    X(T, BiasAddRelu, T, T, T, T, x + Y < 0 ? 0 : x + Y)                                 \
    X(T, BiasAddLeakyRelu, T, T, T, T, x + Y > 0 ? x + Y : (x + Y) * (T)alpha)           \
    X(T, Sub, T, T, T, T, x - Y)                                                         \
    X(T, Mul, T, T, T, T, x *Y)                                                          \
    X(T, Div, T, T, T, T, x / Y)                                                         \
    X(T, RealDiv, T, T, T, T, x / Y)                                                     \
    X(T, FloorDiv, T, T, T, T, M(T, floor)(x / Y))                                       \
    X(T, FloorMod, T, T, T, T, floor_mod_f(x, Y))                                        \
    X(T, Mod, T, T, T, T, M(T, fmod)(x, Y))                                              \
    X(T, TruncateDiv, T, T, T, T, M(T, trunc)(x / Y))                                    \
    X(T, TruncateMod, T, T, T, T, M(T, fmod)(x, Y))                                      \
    X(T, DivNoNan, T, T, T, T, Y == 0 ? 0 : x / Y)                                       \
    X(T, MulNoNan, T, T, T, T, Y == 0 ? 0 : x * Y)                                       \
    X(T, Xlogy, T, T, T, T, x == 0 ? 0 : x * M(T, log)(Y))                               \
    X(T, Xlog1py, T, T, T, T, x == 0 ? 0 : x * M(T, log1p)(Y))                           \
    X(T, NextAfter, T, T, T, T, M(T, next)(x, Y))                                        \
    X(T, Xdivy, T, T, T, T, x == 0 ? 0 : x / Y)                                          \
    X(T, ApproximateEqual, b8, T, T, T, M(T, abs)(x - Y) < (T)alpha)                     \
    X(T, Pow, T, T, T, T, M(T, pow)(x, Y))                                               \
    X(T, Neg, T, T, T, T, -x)                                                            \
    X(T, Abs, T, T, T, T, M(T, abs)(x))                                                  \
    X(T, Square, T, T, T, T, x *x)                                                       \
    X(T, SquaredDifference, T, T, T, T, (x - Y) * (x - Y))

/* Argument order of the gradients: (gradient, feature) for ReluGrad, LeakyReluGrad,
 * SoftplusGrad and SoftsignGrad; (y, dy) for TanhGrad, SigmoidGrad, SqrtGrad and the like;
 * (gradient, output) for EluGrad and SeluGrad. */
#define FLOAT_GRADIENT(X, T)                                                             \
    X(T, ReluGrad, T, T, T, T, Y > 0 ? x : 0)                                            \
    X(T, SeluGrad, T, T, T, T, Y < 0 ? x * (Y + (T)SELU_BELOW) : x * (T)SELU_ABOVE)      \
    X(T, SoftsignGrad, T, T, T, T, x / (((T)1 + M(T, abs)(Y)) * ((T)1 + M(T, abs)(Y))))  \
    X(T, LeakyReluGrad, T, T, T, T, Y > 0 ? x : x * (T)alpha)                            \
    X(T, EluGrad, T, T, T, T, Y < 0 ? x * (Y + 1) : x)                                   \
    X(T, SoftplusGrad, T, T, T, T, x *M(T, sigmoid)(Y))                                  \
    X(T, TanhGrad, T, T, T, T, Y *((T)1 - x * x))                                        \
    X(T, SigmoidGrad, T, T, T, T, Y *(x * ((T)1 - x)))                                   \
    X(T, SqrtGrad, T, T, T, T, Y == 0 ? Y : Y * (T)0.5 / x)                              \
    X(T, RsqrtGrad, T, T, T, T, Y == 0 ? Y : (T)-0.5 * Y * (x * x * x))                  \
    X(T, ReciprocalGrad, T, T, T, T, -Y *(x * x))                                        \
    X(T, InvGrad, T, T, T, T, -Y *(x * x))

/* Integers wrap on overflow: the arithmetic is unsigned. */
#define U64(v) ((uint64_t)(v))
#define INTEGER(X, T)                                                                    \
    X(T, Add, T, T, T, T, U64(x) + U64(Y))                                               \
    X(T, AddV2, T, T, T, T, U64(x) + U64(Y))                                             \
    X(T, BiasAdd, T, T, T, T, U64(x) + U64(Y))                                           \
    X(T, Sub, T, T, T, T, U64(x) - U64(Y))                                               \
    X(T, Mul, T, T, T, T, U64(x) * U64(Y))                                               \
    X(T, Neg, T, T, T, T, 0 - U64(x))                                                    \
    X(T, Abs, T, T, T, T, x < 0 ? 0 - U64(x) : U64(x))                                   \
    X(T, Square, T, T, T, T, U64(x) * U64(x))                                            \
    X(T, SquaredDifference, T, T, T, T, (U64(x) - U64(Y)) * (U64(x) - U64(Y)))           \
    X(T, Div, T, T, T, T, trunc_div_int(x, Y))                                           \
    X(T, FloorDiv, T, T, T, T, floor_div_int(x, Y))                                      \
    X(T, FloorMod, T, T, T, T, floor_mod_int(x, Y))                                      \
    X(T, Mod, T, T, T, T, trunc_mod_int(x, Y))                                           \
    X(T, TruncateDiv, T, T, T, T, trunc_div_int(x, Y))                                   \
    X(T, TruncateMod, T, T, T, T, trunc_mod_int(x, Y))                                   \
    X(T, Round, T, T, T, T, x)                                                           \
    X(T, Invert, T, T, T, T, ~x)                                                         \
    X(T, BitwiseAnd, T, T, T, T, x &Y)                                                   \
    X(T, BitwiseOr, T, T, T, T, x | Y)                                                   \
    X(T, BitwiseXor, T, T, T, T, x ^ Y)                                                  \
    X(T, LeftShift, T, T, T, T, U64(x) << SHIFT(T, Y))                                   \
    X(T, RightShift, T, T, T, T, x >> SHIFT(T, Y))                                       \
    X(T, Pow, T, T, T, T, ipow(x, Y))

#define NUMBER(X, T)                                                                     \
    X(T, Maximum, T, T, T, T, x > Y || x != x ? x : Y)                                   \
    X(T, Minimum, T, T, T, T, x < Y || x != x ? x : Y)                                   \
    X(T, Relu, T, T, T, T, x < 0 ? 0 : x)                                                \
    X(T, Relu6, T, T, T, T, x<0 ? 0 : x> 6 ? 6 : x)                                      \
    X(T, Relu6Grad, T, T, T, T, Y > 0 && Y < 6 ? x : 0)                                  \
    X(T, Sign, T, T, T, T, x != x ? x : (x > 0) - (x < 0))                               \
    X(T, ClipByValue, T, T, T, T, x<Y ? Y : x> Z ? Z : x)                                \
    X(T, Less, b8, T, T, T, x < Y)                                                       \
    X(T, LessEqual, b8, T, T, T, x <= Y)                                                 \
    X(T, Greater, b8, T, T, T, x > Y)                                                    \
    X(T, GreaterEqual, b8, T, T, T, x >= Y)

/* Select's operands are (condition, then, else). */
#define ANY(X, T)                                                                        \
    X(T, Equal, b8, T, T, T, x == Y)                                                     \
    X(T, NotEqual, b8, T, T, T, x != Y)                                                  \
    X(T, ZerosLike, T, T, T, T, 0)                                                       \
    X(T, OnesLike, T, T, T, T, 1)                                                        \
    X(T, Select, T, b8, T, T, x ? Y : Z)

#define LOGICAL(X, T)                                                                    \
    X(T, LogicalAnd, T, T, T, T, x &&Y)                                                  \
    X(T, LogicalOr, T, T, T, T, x || Y)                                                  \
    X(T, LogicalNot, T, T, T, T, !x)

#define FLOAT(X, T)                                                                      \
    FLOAT_UNARY(X, T)                                                                    \
    FLOAT_FUNCTION(X, T) FLOAT_BINARY(X, T) FLOAT_GRADIENT(X, T) NUMBER(X, T) ANY(X, T)
#define EVERYTHING(X)                                                                    \
    FLOAT(X, f32)                                                                        \
    FLOAT(X, f64)                                                                        \
    INTEGER(X, i32)                                                                      \
    NUMBER(X, i32)                                                                       \
    ANY(X, i32)                                                                          \
    INTEGER(X, i64)                                                                      \
    NUMBER(X, i64)                                                                       \
    ANY(X, i64)                                                                          \
    INTEGER(X, i16)                                                                      \
    NUMBER(X, i16)                                                                       \
    ANY(X, i16)                                                                          \
    INTEGER(X, i8)                                                                       \
    NUMBER(X, i8)                                                                        \
    ANY(X, i8)                                                                           \
    INTEGER(X, u8)                                                                       \
    NUMBER(X, u8)                                                                        \
    ANY(X, u8) INTEGER(X, u16) NUMBER(X, u16) ANY(X, u16) ANY(X, b8) LOGICAL(X, b8)

#define DEFINE(T, op, D, A, B, C, expr) LOOP(T##_loop_##op, D, A, B, C, expr)
EVERYTHING(DEFINE)

#define ROW(T, op, D, A, B, C, expr) {#op, ID_##T, ID_##D, T##_loop_##op},
static const struct loop_row rows[] = {EVERYTHING(ROW){NULL}};

/* ---- casts ---- */

/* Values out of range give the smallest integer, as on x86; in C the conversion is
 * undefined. */
static inline int64_t to_i64(double x)
{
    return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN;
}
static inline int32_t to_i32(double x)
{
    return x > -0x1p31 - 1 && x < 0x1p31 ? (int32_t)x : INT32_MIN;
}

#define CAST_ROW(X, A)                                                                   \
    X(A, f32, (f32)x)                                                                    \
    X(A, f64, (f64)x) X(A, b8, x != 0)
#define FROM_INT(X, A)                                                                   \
    CAST_ROW(X, A)                                                                       \
    X(A, i64, x) X(A, i32, x) X(A, i16, x) X(A, i8, x) X(A, u8, x) X(A, u16, x)
#define FROM_REAL(X, A)                                                                  \
    CAST_ROW(X, A)                                                                       \
    X(A, i64, to_i64(x))                                                                 \
    X(A, i32, to_i32(x))                                                                 \
    X(A, i16, to_i32(x)) X(A, i8, to_i32(x)) X(A, u8, to_i32(x)) X(A, u16, to_i32(x))
#define CASTS(X)                                                                         \
    FROM_REAL(X, f32)                                                                    \
    FROM_REAL(X, f64)                                                                    \
    FROM_INT(X, i64)                                                                     \
    FROM_INT(X, i32)                                                                     \
    FROM_INT(X, i16) FROM_INT(X, i8) FROM_INT(X, u8) FROM_INT(X, u16) FROM_INT(X, b8)
/* Other types are converted by way of float32. */
#define HALF_CASTS(X)                                                                    \
    X(f16, f32, half_to_f32(x))                                                          \
    X(bf16, f32, bfloat16_to_f32(x))                                                     \
    X(f32, f16, half_from_f32(x)) X(f32, bf16, bfloat16_from_f32(x))

#define DEFINE_CAST(A, D, expr) LOOP(cast_##A##_##D, D, A, A, A, expr)
CASTS(DEFINE_CAST)
HALF_CASTS(DEFINE_CAST)

#define CAST_ENTRY(A, D, expr) {#A, ID_##A, ID_##D, cast_##A##_##D},
static const struct loop_row casts[] = {CASTS(CAST_ENTRY) HALF_CASTS(CAST_ENTRY){NULL}};

static loop_fn find_cast(enum dtype from, enum dtype to)
{
    for (const struct loop_row *r = casts; r->type != NULL; r++)
        if (r->dtype == from && r->ret == to)
            return r->fn;
    return NULL;
}

/* ---- sums: the order does not depend on how the input is divided into calls ---- */

static void add_to_lanes(float *lanes, const float *x, size_t start, size_t n)
{
    size_t i = 0;

    for (; i < n && (start + i) % SUM_LANES; i++)
        lanes[(start + i) % SUM_LANES] += x[i];
    float acc[SUM_LANES];
    memcpy(acc, lanes, sizeof(acc));
    for (; i + SUM_LANES <= n; i += SUM_LANES)
        for (size_t k = 0; k < SUM_LANES; k++)
            acc[k] += x[i + k];
    for (size_t k = 0; i + k < n; k++)
        acc[k] += x[i + k];
    memcpy(lanes, acc, sizeof(acc));
}

static void sum_lanes(struct lane_sums *sums, const float *x, size_t start, size_t n)
{
    while (n > 0) {
        const size_t at = start % SUM_BLOCK, room = SUM_BLOCK - at;
        const size_t some = n < room ? n : room;

        for (size_t k = 0; at == 0 && start > 0 && k < SUM_LANES; k++) {
            sums->total[k] = (start > SUM_BLOCK ? sums->total[k] : 0) + sums->lane[k];
            sums->lane[k] = 0;
        }
        add_to_lanes(sums->lane, x, start, some);
        start += some;
        x += some;
        n -= some;
    }
}

#define FEW_COLUMNS 16

/* Sums whole rows with few columns; the sums stay in registers. */
static void sum_few_columns(float *acc, const float *x, size_t n, size_t period)
{
    float sum[FEW_COLUMNS];

    memcpy(sum, acc, period * sizeof(float));
    for (size_t row = 0; row < n; row += period)
        for (size_t i = 0; i < period; i++)
            sum[i] += x[row + i];
    memcpy(acc, sum, period * sizeof(float));
}

#define COLUMN_TILE 32

/* acc[i] += x[i] for each of rows_ rows, which are `period` elements apart, for
 * COLUMN_TILE columns, whose sums stay in registers. */
static void sum_tile(float *acc, const float *x, size_t rows_, size_t period)
{
    float sum[COLUMN_TILE];

    memcpy(sum, acc, sizeof(sum));
    for (size_t r = 0; r < rows_; r++)
        for (size_t i = 0; i < COLUMN_TILE; i++)
            sum[i] += x[r * period + i];
    memcpy(acc, sum, sizeof(sum));
}

static void sum_whole_rows(float *acc, const float *x, size_t rows_, size_t period)
{
    size_t column = 0;

    for (; column + COLUMN_TILE <= period; column += COLUMN_TILE)
        sum_tile(acc + column, x + column, rows_, period);
    for (size_t r = 0; r < rows_ && column < period; r++)
        for (size_t i = column; i < period; i++)
            acc[i] += x[r * period + i];
}

static void sum_columns(float *acc, const float *x, size_t start, size_t n, size_t period)
{
    if (period < FEW_COLUMNS && start % period == 0 && n % period == 0) {
        sum_few_columns(acc, x, n, period);
        return;
    }
    size_t column = start % period;
    size_t first = column == 0 ? 0 : period - column < n ? period - column : n;
    size_t rows_ = (n - first) / period, done = first + rows_ * period;
    for (size_t i = 0; i < first; i++)
        acc[column + i] += x[i];
    sum_whole_rows(acc, x + first, rows_, period);
    for (size_t i = done; i < n; i++)
        acc[i - done] += x[i];
}

static inline float as_is(float x)
{
    return x;
}

/* The sum of f(x), element after element. */
static inline __attribute__((always_inline)) float sum_chain(const float *x, size_t n,
                                                             float (*f)(float))
{
    float sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += f(x[i]);
    return sum;
}

/* The sum in chains of SUM_CHAIN. */
static inline __attribute__((always_inline)) float sum_row(const float *x, size_t n,
                                                           float (*f)(float))
{
    float sum = 0;

    for (; n > SUM_CHAIN; x += SUM_CHAIN, n -= SUM_CHAIN)
        sum += sum_chain(x, SUM_CHAIN, f);
    return sum + sum_chain(x, n, f);
}

/* A single row is summed in lanes whatever its length, since sums fused into an
 * element-wise loop do the same. */
static void sum_rows(float *dst, const float *x, size_t rows_, size_t n)
{
    for (size_t r = 0; r < rows_; r++) {
        if (n < FEW_COLUMNS && rows_ > 1) {
            dst[r] = sum_chain(x + r * n, n, as_is);
            continue;
        }
        struct lane_sums sums;
        memset(sums.lane, 0, sizeof(sums.lane));
        if (n <=
            SUM_BLOCK) /* start 0 is known to the compiler: a fifth faster for short rows */
            add_to_lanes(sums.lane, x + r * n, 0, n);
        else
            sum_lanes(&sums, x + r * n, 0, n);
        dst[r] = loop_sum_finish(&sums, n);
    }
}

/* ---- softmax ---- */

/* Subtracts each row's largest element. A NaN makes the whole row NaN, whichever element
 * is found to be the largest. */
static void shift_rows(float *dst, const float *x, size_t rows_, size_t n)
{
    for (size_t r = 0; r < rows_; r++) {
        const float *row = x + r * n;
        float top = row[0];

        for (size_t i = 1; i < n; i++)
            top = row[i] > top ? row[i] : top;
        for (size_t i = 0; i < n; i++)
            dst[r * n + i] = row[i] - top;
    }
}

#define SIDE_BY_SIDE 64

/* Rows with few columns, at most SIDE_BY_SIDE of them, become columns, so that the
 * vectoriser works on many rows side by side: columns[i * SIDE_BY_SIDE + r]. Each row keeps
 * its own largest element (top), its own sum, and the order of its sum. */
static void transpose_few(float *columns, float *top, const float *x, size_t rows_,
                          size_t n)
{
    for (size_t r = 0; r < SIDE_BY_SIDE; r++)
        top[r] = r < rows_ ? x[r * n] : 0;
    for (size_t i = 0; i < n; i++)
        for (size_t r = 0; r < SIDE_BY_SIDE; r++)
            columns[i * SIDE_BY_SIDE + r] = r < rows_ ? x[r * n + i] : 0;
    for (size_t i = 1; i < n; i++)
        for (size_t r = 0; r < SIDE_BY_SIDE; r++) {
            float e = columns[i * SIDE_BY_SIDE + r];

            top[r] = e > top[r] ? e : top[r];
        }
}

static void softmax_few(float *dst, const float *x, size_t rows_, size_t n)
{
    float columns[FEW_COLUMNS * SIDE_BY_SIDE], top[SIDE_BY_SIDE], sum[SIDE_BY_SIDE] = {0};

    transpose_few(columns, top, x, rows_, n);
    for (size_t i = 0; i < n; i++)
        for (size_t r = 0; r < SIDE_BY_SIDE; r++) {
            float *e = &columns[i * SIDE_BY_SIDE + r];

            *e = vm_expf(*e - top[r]);
            sum[r] += *e;
        }
    for (size_t r = 0; r < SIDE_BY_SIDE; r++)
        sum[r] = 1.0f / sum[r];
    for (size_t r = 0; r < rows_; r++)
        for (size_t i = 0; i < n; i++)
            dst[r * n + i] = columns[i * SIDE_BY_SIDE + r] * sum[r];
}

static void log_softmax_few(float *dst, const float *x, size_t rows_, size_t n)
{
    float columns[FEW_COLUMNS * SIDE_BY_SIDE], top[SIDE_BY_SIDE], sum[SIDE_BY_SIDE] = {0};

    transpose_few(columns, top, x, rows_, n);
    for (size_t i = 0; i < n; i++)
        for (size_t r = 0; r < SIDE_BY_SIDE; r++) {
            float *e = &columns[i * SIDE_BY_SIDE + r];

            *e -= top[r];
            sum[r] += vm_expf(*e);
        }
    for (size_t r = 0; r < SIDE_BY_SIDE; r++)
        sum[r] = vm_logf(sum[r]);
    for (size_t r = 0; r < rows_; r++)
        for (size_t i = 0; i < n; i++)
            dst[r * n + i] = columns[i * SIDE_BY_SIDE + r] - sum[r];
}

/* Calls `few` for SIDE_BY_SIDE rows at a time and advances dst and x. Returns the number
 * of rows left, which are too few for another call. */
static size_t run_few(void (*few)(float *dst, const float *x, size_t rows_, size_t n),
                      float **dst, const float **x, size_t rows_, size_t n)
{
    while (n > 0 && n < FEW_COLUMNS && rows_ >= SIDE_BY_SIDE / 2) {
        size_t some = rows_ < SIDE_BY_SIDE ? rows_ : SIDE_BY_SIDE;

        few(*dst, *x, some, n);
        *dst += some * n;
        *x += some * n;
        rows_ -= some;
    }
    return rows_;
}

static void softmax(float *dst, const float *x, size_t rows_, size_t n)
{
    rows_ = run_few(softmax_few, &dst, &x, rows_, n);
    shift_rows(dst, x, rows_, n);
    f32_loop_Exp(dst, dst, NULL, NULL, rows_ * n, 0);
    for (size_t r = 0; r < rows_; r++) {
        float scale = 1.0f / sum_row(dst + r * n, n, as_is);

        for (size_t i = 0; i < n; i++)
            dst[r * n + i] *= scale;
    }
}

static void log_softmax(float *dst, const float *x, size_t rows_, size_t n)
{
    rows_ = run_few(log_softmax_few, &dst, &x, rows_, n);
    shift_rows(dst, x, rows_, n);
    for (size_t r = 0; r < rows_; r++) {
        float *row = dst + r * n;
        const float log_sum = vm_logf(sum_row(row, n, vm_expf));

        for (size_t i = 0; i < n; i++)
            row[i] -= log_sum;
    }
}

/* ---- optimisers ---- */

/* Applied to what a step stores in its variables: faded() replaces subnormal moments with
 * zero, since arithmetic on each would cost a hundred cycles; canonical() replaces every
 * NaN with the canonical one. */
static inline float faded(float x)
{
    const int32_t bits = vm_bits(x);

    return vm_float((bits & 0x7f800000) != 0 ? bits : 0);
}
static inline float canonical(float x)
{
    return x != x ? __builtin_nanf("") : x;
}

static void canonical_nan(float *dst, const float *x, size_t n)
{
    EACH dst[i] = canonical(x[i]);
}

/* A variable, its moments and the values after them lie one behind another in memory,
 * often a whole number of pages apart. Zen 4 then takes twice as long with 64-byte
 * vectors, as if loads waited for stores to the same offset in another page. */
#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__)
#define BY_32_BYTES __attribute__((target("prefer-vector-width=256")))
#else
#define BY_32_BYTES
#endif

/* A NaN in a moment makes the variable NaN, too, so only the variable is checked. */
static inline __attribute__((always_inline)) void
adam_block(float *restrict var, float *restrict m, float *restrict v, const float *grad,
           size_t n, const struct adam_args *a, const int nesterov)
{
    const float c1 = 1.0f - a->beta1, c2 = 1.0f - a->beta2;
    const float rate = a->rate, beta1 = a->beta1, epsilon = a->epsilon;
    uint32_t nans = 0;

    EACH
    {
        const float g = grad[i];
        const float x = faded(m[i] + (g - m[i]) * c1);
        const float y = faded(v[i] + (g * g - v[i]) * c2);
        const float step = rate * (nesterov ? x * beta1 + g * c1 : x);
        const float moved = var[i] - step / (sqrtf(y) + epsilon);

        nans |= moved != moved;
        m[i] = x;
        v[i] = y;
        var[i] = moved;
    }
    if (nans) {
        canonical_nan(var, var, n);
        canonical_nan(m, m, n);
        canonical_nan(v, v, n);
    }
}

/* so that a block is still in the first-level cache when its NaNs are replaced */
#define ADAM_BLOCK 512

BY_32_BYTES static void adam(float *var, float *m, float *v, const float *grad, size_t n,
                             const struct adam_args *a)
{
    for (size_t i = 0; i < n; i += ADAM_BLOCK) {
        const size_t some = n - i < ADAM_BLOCK ? n - i : ADAM_BLOCK;

        if (a->nesterov)
            adam_block(var + i, m + i, v + i, grad + i, some, a, 1);
        else
            adam_block(var + i, m + i, v + i, grad + i, some, a, 0);
    }
}

BY_32_BYTES static void follow(float *dst, const float *x, float p, const float *y,
                               float q, size_t n)
{
    EACH dst[i] = canonical(x[i] * p + y[i] * q);
}

const struct kern_loops KERN_LOOPS = {
    .isa = KERN_ISA,
    .dense = DENSE,
    .transpose = DENSE_TRANSPOSE,
    .rows = rows,
    .cast = find_cast,
    .sum_lanes = sum_lanes,
    .sum_columns = sum_columns,
    .sum_rows = sum_rows,
    .softmax = softmax,
    .log_softmax = log_softmax,
    .canonical_nan = canonical_nan,
    .adam = adam,
    .follow = follow,
};
