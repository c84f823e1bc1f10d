/* random_laws.c - gamma, Poisson and truncated normal numbers with parameters, by rejection: try t
 * of element i draws element i with the operation's key and the label of the try, so that no
 * number depends on how many tries another one needed.
 *
 * Source   gamma: Marsaglia, Tsang, "A simple method for generating gamma variables", ACM TOMS
 *          2000. Poisson: Knuth, TAOCP 2, 3.4.1, below a rate of 10; Hoermann, "The
 *          transformed rejection method for generating Poisson random variables", 1993 (PTRS).
 *          Truncated normal: Robert, "Simulation of truncated normal variables", 1995. */
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"

#include <math.h>
#include <stdio.h>

/* ---- tries ---- */

enum { KEPT_KEYS = 32 };

/* The keys of the first tries; those of later ones are derived each time. */
struct tries {
    struct rng_key base;
    uint64_t counter;
    int n;
    struct rng_key keys[KEPT_KEYS];
};

static struct rng_key key_of_try(struct tries *t, int number)
{
    char label[32];

    while (t->n <= number && t->n < KEPT_KEYS) {
        (void)snprintf(label, sizeof(label), "try %d", t->n);
        t->keys[t->n++] = rng_key_derive(t->base, label);
    }
    if (number < KEPT_KEYS)
        return t->keys[number];
    (void)snprintf(label, sizeof(label), "try %d", number);
    return rng_key_derive(t->base, label);
}

static struct tries tries_of(const struct kernel_args *a, const char *what)
{
    return (struct tries){.base = rng_key_derive(a->key, what), .counter = a->counter};
}

/* In (0, 1]. */
static double uniform(struct tries *t, int number, int64_t i)
{
    double u;

    rng_uniform_f64(key_of_try(t, number), t->counter, (uint64_t)i, &u, 1);
    return 1 - u;
}

static double normal(struct tries *t, int number, int64_t i)
{
    double x;

    rng_normal_f64(key_of_try(t, number), t->counter, (uint64_t)i, &x, 1);
    return x;
}

/* ---- parameters and results ---- */

/* Integers are cut to the range of their type; NaN is 0. */
static void store(const struct tensor *t, int64_t i, double v)
{
    const double most = t->dtype == DT_INT32 ? 0x1p31 : 0x1p63;

    if (t->dtype == DT_FLOAT)
        ((float *)t->data)[i] = (float)v;
    else if (t->dtype == DT_DOUBLE)
        ((double *)t->data)[i] = v;
    else if (!(v < most))
        tensor_set_int(t, i, isnan(v) ? 0 : t->dtype == DT_INT32 ? INT32_MAX : INT64_MAX);
    else
        tensor_set_int(t, i, (int64_t)v);
}

/* ---- gamma ---- */

static double draw_gamma(struct tries *normals, struct tries *uniforms, double alpha,
                         int64_t i)
{
    const double d = (alpha < 1 ? alpha + 1 : alpha) - 1.0 / 3, c = 1 / sqrt(9 * d);

    for (int t = 1;; t++) {
        const double x = normal(normals, t, i), u = uniform(uniforms, t, i);
        double v = 1 + c * x;

        if (v <= 0)
            continue;
        v = v * v * v;
        if (u < 1 - 0.0331 * x * x * x * x || log(u) < 0.5 * x * x + d * (1 - v + log(v)))
            return alpha < 1 ? d * v * pow(uniform(uniforms, 0, i), 1 / alpha) : d * v;
    }
}

/* in: shape, alpha; out: shape, then the dimensions of alpha */
static int kern_gamma(const struct kernel_args *a)
{
    struct tries normals = tries_of(a, "normal"), uniforms = tries_of(a, "uniform");
    const int64_t n = tensor_elements(a->in[1]);

    for (int64_t i = 0; i < tensor_elements(a->out[0]); i++) {
        const double alpha = tensor_number(a->in[1], i % n);

        store(a->out[0], i,
              alpha > 0 ? draw_gamma(&normals, &uniforms, alpha, i) : (double)NAN);
    }
    return 0;
}

/* ---- Poisson ---- */

static double draw_small(struct tries *us, double rate, int64_t i)
{
    const double least = exp(-rate);
    double product = 1;

    for (int t = 0;; t++) {
        product *= uniform(us, t, i);
        if (product <= least)
            return t;
    }
}

static double draw_large(struct tries *us, struct tries *vs, double rate, int64_t i)
{
    const double b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b;
    const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);

    for (int t = 0;; t++) {
        const double u = uniform(us, t, i) - 0.5, v = uniform(vs, t, i);
        const double side = 0.5 - fabs(u);
        const double k = floor((2 * a / side + b) * u + rate + 0.43);

        if (side >= 0.07 && v <= 0.9277 - 3.6224 / (b - 2))
            return k;
        if (!(k >= 0) || (side < 0.013 && v > side))
            continue;
        if (log(v * inverse_alpha / (a / (side * side) + b)) <=
            -rate + k * log(rate) - lgamma(k + 1))
            return k;
    }
}

/* in: shape, rate; out: shape, then the dimensions of rate. A rate that is negative or not finite
 * gives NaN. */
static int kern_poisson(const struct kernel_args *a)
{
    struct tries us = tries_of(a, "uniform"), vs = tries_of(a, "accept");
    const int64_t n = tensor_elements(a->in[1]);

    for (int64_t i = 0; i < tensor_elements(a->out[0]); i++) {
        const double rate = tensor_number(a->in[1], i % n);

        store(a->out[0], i,
              !(rate >= 0) || isinf(rate) ? (double)NAN
              : rate < 10                 ? draw_small(&us, rate, i)
                                          : draw_large(&us, &vs, rate, i));
    }
    return 0;
}

/* ---- truncated normal ---- */

/* Above it, a normal number is exponential to the last bit, and its square loses the ones. */
#define FAR 1e7

/* Draws a standard normal number in [low, high], where -low <= high: 0 lies between them, or
 * both are positive. */
static double draw_between(struct tries *us, struct tries *vs, double low, double high,
                           int64_t i)
{
    const double from = low > 0 ? low : 0, root = sqrt(low * low + 4);
    const double slope = (low + root) / 2;
    const int is_narrow =
        low > 0 ? high - low < 2 * exp(0.5 + (low * low - low * root) / 4) / (low + root)
                : high - low < sqrt(2 * M_PI);

    if (low > FAR)
        return fmin(high, low - log(uniform(us, 0, i)) / low);
    for (int t = 0;; t++) {
        double x, chance;

        if (is_narrow) {
            x = low + (high - low) * uniform(us, t, i);
            chance = exp((from * from - x * x) / 2);
        } else if (low > 0) {
            x = low - log(uniform(us, t, i)) / slope;
            chance = exp(-(x - slope) * (x - slope) / 2);
        } else {
            x = normal(us, t, i);
            chance = 1;
        }
        if (x >= low && x <= high && uniform(vs, t, i) <= chance)
            return x;
    }
}

/* in: shape (batches, ...), means, stdevs, minvals, maxvals: one number, or one for each
 * batch */
static int kern_bounded_normal(const struct kernel_args *a)
{
    struct tries us = tries_of(a, "x"), vs = tries_of(a, "accept");
    const struct tensor *y = a->out[0];
    const int64_t n = tensor_elements(y), batches = n > 0 ? y->shape.dim[0] : 1;
    double p[4];

    for (int64_t i = 0; i < n; i++) {
        double low, high, x;

        for (int k = 0; k < 4; k++)
            p[k] = tensor_number(
                a->in[k + 1], tensor_elements(a->in[k + 1]) == 1 ? 0 : i / (n / batches));
        low = (p[2] - p[0]) / p[1];
        high = (p[3] - p[0]) / p[1];
        if (!(p[1] != 0 && p[2] < p[3]) || isnan(low) || isnan(high))
            return err_set(
                a->err, ERR_ARG,
                "%s: no normal numbers of mean %g and deviation %g in [%g, %g]",
                operation_name(a->op), p[0], p[1], p[2], p[3]);
        x = fmin(low, high);
        high = fmax(low, high);
        low = x;
        x = high > -low ? draw_between(&us, &vs, low, high, i)
                        : -draw_between(&us, &vs, -high, -low, i);
        store(y, i, p[0] + p[1] * x);
    }
    return 0;
}

/* ---- shapes ---- */

/* The value of input 0, then the dimensions of input 1. */
static int shape_and_parameters(const struct shape_args *args)
{
    const struct shape *more = &args->in[1];
    struct shape s;

    if (value_sizes(args, 0, &s) != 0)
        return ERR_SHAPE;
    if (s.rank < 0 || more->rank < 0)
        return 0;
    if (s.rank + more->rank > SHAPE_MAX_RANK)
        return err_set(args->err, ERR_SHAPE, "more than %d dimensions", SHAPE_MAX_RANK);
    for (int d = 0; d < more->rank; d++)
        s.dim[s.rank++] = more->dim[d];
    args->out[0] = s;
    return 0;
}

static int bounded_normal_shape(const struct shape_args *args)
{
    struct shape s;

    if (value_sizes(args, 0, &s) != 0)
        return ERR_SHAPE;
    if (s.rank == 0)
        return err_set(args->err, ERR_SHAPE,
                       "the shape must have a dimension of batches");
    for (int k = 1; k < 5; k++) {
        const int64_t n = args->in[k].rank == 0 ? 1 : dim_of(&args->in[k], 0);

        if (args->in[k].rank > 1 ||
            (n >= 0 && n != 1 && s.rank > 0 && s.dim[0] >= 0 && n != s.dim[0]))
            return err_set(args->err, ERR_SHAPE, "parameters of shape %s for %s",
                           shape_text(&args->in[k]), shape_text(&s));
    }
    args->out[0] = s;
    return 0;
}

/* By alpha: the quantiles of the samples stay. */
GRAD(gamma_grad)
{
    struct output alpha = input_of(op, 1), n, slope;

    n = vector_slice(g, shape_of(g, input_of(op, 0), NULL), 0, 1, "shrink_axis_mask");
    slope = binary(g, "RandomGammaGrad", alpha, output_of(op, 0), NULL);
    slope = binary(g, "Mul", grad_out[0], slope, "mul");
    grad_in[1] = binary(g, "Sum", slope, range_to(g, n), NULL);
    return grad_done(grad_in + 1, 1);
}

/* ---- the rows ---- */

#define DRAWS (OP_STATEFUL | OP_DRAWS | OP_LIBM)
#define SEEDS "seed:int=0, seed2:int=0"

static const struct op_def rows[] = {
    {"RandomGamma", DRAWS, shape_and_parameters, gamma_grad, CALL(kern_gamma),
     "shape:S, alpha:T -> output:T; " SEEDS ", S:index_type, T:float_type"},
    {"RandomPoisson", DRAWS | OP_NO_GRADIENT, shape_and_parameters, NULL,
     CALL(kern_poisson),
     "shape:S, rate:dtype -> output:dtype; " SEEDS ", S:index_type, dtype:float_type"},
    {"RandomPoissonV2", DRAWS | OP_NO_GRADIENT, shape_and_parameters, NULL,
     CALL(kern_poisson),
     "shape:S, rate:R -> output:dtype; " SEEDS ", S:index_type, R:number_type=float64, "
     "dtype:number_type=int64"},
    {"ParameterizedTruncatedNormal", DRAWS | OP_NO_GRADIENT, bounded_normal_shape, NULL,
     CALL(kern_bounded_normal),
     "shape:T, means:dtype, stdevs:dtype, minvals:dtype, maxvals:dtype -> "
     "output:dtype; " SEEDS ", dtype:float_type, T:index_type"},
};

const struct op_family ops_of_random_laws = OP_FAMILY(rows);
