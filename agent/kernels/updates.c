/* Built for REAL float and REAL double, with UPDATES as the name of the table: see updates.h.
 *
 * In the formulas, x is the variable and g its gradient; a, b, c are its slots. */
#include "agent/kernels/updates.h"

#include "agent/kernels/vmath.h"

#include <tgmath.h>

extern const update_fn UPDATES[N_UPDATES];

#define IS_FLOAT (sizeof(REAL) == sizeof(float))

/* A step: its arrays, then a loop over the elements. An array may be another's memory as a
 * whole, never in part. */
#define VARIABLE(i) ((REAL *)u->variable[i])
#define SCALAR(i)   ((REAL)u->scalar[i])
#ifdef __clang__
#define EACH _Pragma("clang loop vectorize(enable)") for (size_t i = 0; i < u->n; i++)
#else
#define EACH _Pragma("GCC ivdep") for (size_t i = 0; i < u->n; i++)
#endif

/* Replaces a subnormal slot with zero, as TensorFlow's threads do with every subnormal
 * result: arithmetic on such numbers costs a hundred cycles each. */
static inline REAL faded(REAL x)
{
    return fabs(x) < (REAL)(IS_FLOAT ? 0x1p-126 : 0x1p-1022) ? 0 : x;
}

static inline REAL sign(REAL x)
{
    return (REAL)((x > 0) - (x < 0));
}

/* The average of x, of which each step takes the part 1 - rho from y. */
static inline REAL averaged(REAL x, REAL y, REAL rho, int is_sparse)
{
    return faded(is_sparse ? x * rho + y * (1 - rho) : x + (y - x) * (1 - rho));
}

/* ---- descent ---- */

static void descent(const struct update *u)
{
    REAL *x = VARIABLE(0);
    const REAL *grad = u->grad, rate = SCALAR(0);

    EACH x[i] -= rate * grad[i];
}

/* The point that a step of descent and then the penalty l1 |x| + l2 x^2 / 2 lead to (Duchi &
 * Singer 2009, Fobos). */
static inline REAL proximal(REAL x, REAL rate, REAL l1, REAL l2)
{
    const REAL size = fabs(x) - rate * l1, kept = size < 0 ? 0 : size;

    return (l1 > 0 ? (x < 0 ? -kept : kept) : x) / (1 + l2 * rate);
}

static void proximal_descent(const struct update *u)
{
    REAL *x = VARIABLE(0);
    const REAL *grad = u->grad, rate = SCALAR(0), l1 = SCALAR(1), l2 = SCALAR(2);

    EACH x[i] = proximal(x[i] - grad[i] * rate, rate, l1, l2);
}

/* Sutskever et al. 2013, with the rate applied after the momentum */
static void momentum(const struct update *u)
{
    REAL *x = VARIABLE(0), *a = VARIABLE(1);
    const REAL *grad = u->grad, rate = SCALAR(0), factor = SCALAR(1);

    EACH
    {
        const REAL g = grad[i];

        a[i] = faded(a[i] * factor + g);
        x[i] -= u->option ? g * rate + a[i] * factor * rate : a[i] * rate;
    }
}

/* Keras's momentum: the rate is applied before it. */
static void keras_momentum(const struct update *u)
{
    REAL *x = VARIABLE(0), *a = VARIABLE(1);
    const REAL *grad = u->grad, rate = SCALAR(0), factor = SCALAR(1);

    EACH
    {
        const REAL g = grad[i];

        a[i] = faded(a[i] * factor - g * rate);
        x[i] += u->option ? a[i] * factor - g * rate : a[i];
    }
}

/* ---- rates by the size of past gradients ---- */

/* a: mean square; b: momentum */
static void rms(const struct update *u)
{
    REAL *x = VARIABLE(0), *a = VARIABLE(1), *b = VARIABLE(2);
    const REAL *grad = u->grad, rate = SCALAR(0), rho = SCALAR(1), factor = SCALAR(2);
    const REAL epsilon = SCALAR(3);

    EACH
    {
        const REAL g = grad[i];

        a[i] = averaged(a[i], g * g, rho, u->is_sparse);
        b[i] = faded(b[i] * factor + g * rate / sqrt(a[i] + epsilon));
        x[i] -= b[i];
    }
}

/* a: mean; b: mean square; c: momentum */
static void rms_centered(const struct update *u)
{
    REAL *x = VARIABLE(0), *a = VARIABLE(1), *b = VARIABLE(2), *c = VARIABLE(3);
    const REAL *grad = u->grad, rate = SCALAR(0), rho = SCALAR(1), factor = SCALAR(2);
    const REAL epsilon = SCALAR(3);

    EACH
    {
        const REAL g = grad[i];

        b[i] = averaged(b[i], g * g, rho, u->is_sparse);
        a[i] = averaged(a[i], g, rho, u->is_sparse);
        const REAL square = a[i] * a[i];
        const REAL variance =
            u->is_sparse ? (b[i] + epsilon) - square : (b[i] - square) + epsilon;
        c[i] = faded(c[i] * factor + g * rate / sqrt(variance));
        x[i] -= c[i];
    }
}

/* Duchi et al. 2011. a: sum of squares */
static void adagrad(const struct update *u)
{
    REAL *x = VARIABLE(0), *a = VARIABLE(1);
    const REAL *grad = u->grad, rate = SCALAR(0);

    EACH
    {
        const REAL g = grad[i];

        a[i] = u->option ? faded(a[i] + g * g) : a[i];
        x[i] -= g * rate / sqrt(a[i]);
    }
}

static void adagrad_v2(const struct update *u)
{
    REAL *x = VARIABLE(0), *a = VARIABLE(1);
    const REAL *grad = u->grad, rate = SCALAR(0), epsilon = SCALAR(1);

    EACH
    {
        const REAL g = grad[i];

        a[i] = u->option ? faded(a[i] + g * g) : a[i];
        x[i] -= g * rate / (sqrt(a[i]) + epsilon);
    }
}

static void proximal_adagrad(const struct update *u)
{
    REAL *x = VARIABLE(0), *a = VARIABLE(1);
    const REAL *grad = u->grad, rate = SCALAR(0), l1 = SCALAR(1), l2 = SCALAR(2);

    EACH
    {
        const REAL g = grad[i];

        a[i] = faded(a[i] + g * g);
        const REAL own = rate / sqrt(a[i]);
        x[i] = proximal(x[i] - g * own, own, l1, l2);
    }
}

/* Dual averaging. a: sum of gradients; b: sum of their squares */
static void adagrad_da(const struct update *u)
{
    REAL *x = VARIABLE(0), *a = VARIABLE(1), *b = VARIABLE(2);
    const REAL *grad = u->grad, rate = SCALAR(0), l1 = SCALAR(1), l2 = SCALAR(2);
    const REAL n_steps = SCALAR(3);

    EACH
    {
        const REAL g = grad[i];

        a[i] = faded(a[i] + g);
        b[i] = faded(b[i] + g * g);
        const REAL size = fabs(a[i]) - n_steps * l1, kept = size < 0 ? 0 : size;
        const REAL sum = l1 > 0 ? (a[i] < 0 ? -kept : kept) : a[i];
        x[i] = -rate * sum / (l2 * (n_steps * rate) + sqrt(b[i]));
    }
}

/* Zeiler 2012. a: mean square; b: mean square of the updates */
static void adadelta(const struct update *u)
{
    REAL *x = VARIABLE(0), *a = VARIABLE(1), *b = VARIABLE(2);
    const REAL *grad = u->grad, rate = SCALAR(0), rho = SCALAR(1), epsilon = SCALAR(2);

    EACH
    {
        const REAL g = grad[i];

        a[i] = faded(a[i] * rho + g * g * (1 - rho));
        const REAL by = sqrt(b[i] + epsilon) / sqrt(a[i] + epsilon) * g;
        x[i] -= by * rate;
        b[i] = faded(b[i] * rho + by * by * (1 - rho));
    }
}

/* McMahan et al. 2013. a: sum of squares; b: linear; exponent: -lr_power */
static inline void follow_the_leader(const struct update *u, REAL shrinkage,
                                     REAL exponent)
{
    REAL *x = VARIABLE(0), *a = VARIABLE(1), *b = VARIABLE(2);
    const REAL *grad = u->grad, rate = SCALAR(0);
    /* with multiply_linear_by_lr, `linear` is in units of 1 / rate */
    const REAL unit = u->option ? rate : 1, divisor = u->option ? 1 : rate;
    const REAL l1 = SCALAR(1) * unit, l2 = 2 * SCALAR(2) * unit;
    const int is_root = exponent == (REAL)0.5;

    EACH
    {
        const REAL g = grad[i], sum = a[i] + g * g;
        const REAL power = is_root ? sqrt(sum) : pow(sum, exponent);
        const REAL before = is_root ? sqrt(a[i]) : pow(a[i], exponent);
        const REAL pull = (g + 2 * shrinkage * x[i]) * unit;

        b[i] = faded(b[i] + (pull - (power - before) / divisor * x[i]));
        x[i] = fabs(b[i]) > l1 ? (l1 * sign(b[i]) - b[i]) / (power / divisor + l2) : 0;
        a[i] = faded(sum);
    }
}

static void ftrl(const struct update *u)
{
    follow_the_leader(u, 0, -SCALAR(3));
}

static void ftrl_v2(const struct update *u)
{
    follow_the_leader(u, SCALAR(3), -SCALAR(4));
}

/* ---- moments ---- */

/* Kingma & Ba 2015, and with `top` Reddi et al. 2018. a, b: moments; top: the largest b */
static inline void moments(const struct update *u, REAL *top)
{
    REAL *x = VARIABLE(0), *a = VARIABLE(1), *b = VARIABLE(2);
    const REAL *grad = u->grad, beta1 = SCALAR(3), beta2 = SCALAR(4), epsilon = SCALAR(5);
    const REAL rate = SCALAR(2) * sqrt(1 - SCALAR(1)) / (1 - SCALAR(0));

    EACH
    {
        const REAL g = grad[i];

        a[i] = faded(a[i] + (g - a[i]) * (1 - beta1));
        b[i] = faded(b[i] + (g * g - b[i]) * (1 - beta2));
        const REAL step = u->option ? a[i] * beta1 + g * (1 - beta1) : a[i];
        if (top != NULL)
            top[i] = top[i] > b[i] ? top[i] : b[i];
        x[i] -= rate * step / (sqrt(top != NULL ? top[i] : b[i]) + epsilon);
    }
}

static void adam(const struct update *u)
{
    moments(u, NULL);
}

static void adam_amsgrad(const struct update *u)
{
    moments(u, VARIABLE(3));
}

/* Kingma & Ba 2015, section 7.1. a: mean; b: largest gradient */
static void adamax(const struct update *u)
{
    REAL *x = VARIABLE(0), *a = VARIABLE(1), *b = VARIABLE(2);
    const REAL *grad = u->grad, beta1 = SCALAR(2), beta2 = SCALAR(3), epsilon = SCALAR(4);
    const REAL rate = SCALAR(1) / (1 - SCALAR(0));

    EACH
    {
        const REAL g = grad[i], size = fabs(g), past = beta2 * b[i];

        a[i] = faded(a[i] + (g - a[i]) * (1 - beta1));
        b[i] = faded(past > size ? past : size);
        x[i] -= rate * (a[i] / (b[i] + epsilon));
    }
}

/* ---- signs: Bello et al. 2017. a: mean ---- */

static inline void by_signs(const struct update *u, REAL beta, const REAL factor[3])
{
    REAL *x = VARIABLE(0), *a = VARIABLE(1);
    const REAL *grad = u->grad, rate = SCALAR(0);

    EACH
    {
        const REAL g = grad[i];

        a[i] = faded(a[i] * beta + g * (1 - beta));
        x[i] -= rate * factor[1 + (int)(sign(g) * sign(a[i]))] * g;
    }
}

static void add_sign(const struct update *u)
{
    const REAL alpha = SCALAR(1), decay = SCALAR(2);

    by_signs(u, SCALAR(3), (REAL[3]){alpha - decay, alpha, alpha + decay});
}

static void power_sign(const struct update *u)
{
    const REAL x = SCALAR(1) * SCALAR(2);

    by_signs(u, SCALAR(3),
             (REAL[3]){IS_FLOAT ? (REAL)vm_expf((float)-x) : exp(-x), 1,
                       IS_FLOAT ? (REAL)vm_expf((float)x) : exp(x)});
}

const update_fn UPDATES[N_UPDATES] = {
    [UPDATE_DESCENT] = descent,
    [UPDATE_PROXIMAL_DESCENT] = proximal_descent,
    [UPDATE_MOMENTUM] = momentum,
    [UPDATE_KERAS_MOMENTUM] = keras_momentum,
    [UPDATE_RMS] = rms,
    [UPDATE_RMS_CENTERED] = rms_centered,
    [UPDATE_ADAGRAD] = adagrad,
    [UPDATE_ADAGRAD_V2] = adagrad_v2,
    [UPDATE_PROXIMAL_ADAGRAD] = proximal_adagrad,
    [UPDATE_ADAGRAD_DA] = adagrad_da,
    [UPDATE_ADADELTA] = adadelta,
    [UPDATE_FTRL] = ftrl,
    [UPDATE_FTRL_V2] = ftrl_v2,
    [UPDATE_ADAM] = adam,
    [UPDATE_ADAM_AMSGRAD] = adam_amsgrad,
    [UPDATE_ADAMAX] = adamax,
    [UPDATE_ADD_SIGN] = add_sign,
    [UPDATE_POWER_SIGN] = power_sign,
};
