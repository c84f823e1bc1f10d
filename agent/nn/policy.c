#include "agent/nn/policy.h"

#include "agent/graph/arithmetic.h"

#include <math.h>

#define FORBIDDEN 1e8f
#define LOG_2     0.6931471805599453
#define LOG_2_PI  1.8378770664093453

/* x `type` c, and c `type` x. */
static struct output with(struct graph *g, const char *type, struct output x, double c)
{
    return binary(g, type, x, constant_f32(g, (float)c, NULL), NULL);
}

static struct output from(struct graph *g, const char *type, double c, struct output x)
{
    return binary(g, type, constant_f32(g, (float)c, NULL), x, NULL);
}

/* ---- choices ---- */

struct output forbid_choices(struct graph *g, struct output logits, struct output allowed)
{
    struct output lowered;

    name_scope_enter(g, "forbid");
    lowered = with(g, "Mul", with(g, "Sub", allowed, 1), (double)FORBIDDEN);
    logits = binary(g, "Add", logits, lowered, NULL);
    name_scope_leave(g);
    return logits;
}

/* ---- diagonal normal ---- */

/* log N at z standard deviations from the mean, summed over the row. */
static struct output standard_log_prob(struct graph *g, struct output z,
                                       struct output log_std)
{
    struct output far = with(g, "Mul", square(g, z), -0.5);

    far = binary(g, "Sub", far, log_std, NULL);
    return sum_of_row(g, with(g, "Sub", far, LOG_2_PI / 2));
}

static struct output deviations(struct graph *g, struct output mean,
                                struct output log_std, struct output x)
{
    struct output inverse = unary(g, "Exp", negative(g, log_std), NULL);

    return binary(g, "Mul", binary(g, "Sub", x, mean, NULL), inverse, NULL);
}

struct output normal_log_prob(struct graph *g, struct output mean, struct output log_std,
                              struct output x)
{
    struct output log_p;

    name_scope_enter(g, "log_prob");
    log_p = standard_log_prob(g, deviations(g, mean, log_std, x), log_std);
    name_scope_leave(g);
    return log_p;
}

struct output normal_entropy(struct graph *g, struct output rows, struct output log_std)
{
    struct output each;

    name_scope_enter(g, "entropy");
    each = zeros_like(g, rows, NULL); /* broadcasts a log_std (U) to (B, U) */
    each = binary(g, "Add", each, log_std, NULL);
    each = sum_of_row(g, with(g, "Add", each, (1 + LOG_2_PI) / 2));
    name_scope_leave(g);
    return each;
}

/* ---- squashed ---- */

/* sum log(half (1 - tanh(x)^2)) */
static struct output log_slope(struct graph *g, struct output x, double half)
{
    struct output tail = unary(g, "Softplus", with(g, "Mul", x, -2), NULL);

    x = from(g, "Sub", LOG_2 + log(half) / 2, binary(g, "Add", x, tail, NULL));
    return sum_of_row(g, with(g, "Mul", x, 2));
}

struct squashed_normal squashed_normal(struct graph *g, struct output mean,
                                       struct output log_std, double low, double high)
{
    const double half = (high - low) / 2;
    struct squashed_normal s;
    struct output x;

    name_scope_enter(g, "squashed_normal");
    s.noise = random_normal(g, shape_of(g, mean, NULL), 0, 1, NULL);
    if (output_valid(s.noise)) /* random_normal is noise * stddev + mean */
        s.noise = operation_input(operation_input(s.noise.op, 0).op, 0);
    x = binary(g, "Mul", s.noise, unary(g, "Exp", log_std, NULL), NULL);
    x = binary(g, "Add", x, mean, NULL);
    s.action = with(g, "Mul", unary(g, "Tanh", x, NULL), half);
    s.action = with(g, "Add", s.action, low + half);
    s.log_prob = standard_log_prob(g, s.noise, log_std);
    s.log_prob = binary(g, "Sub", s.log_prob, log_slope(g, x, half), NULL);
    name_scope_leave(g);
    return s;
}

/* ---- losses ---- */

struct output huber(struct graph *g, struct output error, double delta)
{
    struct output size, near, rest;

    name_scope_enter(g, "huber_loss");
    size = absolute(g, error);
    near = with(g, "Minimum", size, delta);
    rest = with(g, "Mul", binary(g, "Sub", size, near, NULL), delta);
    near = with(g, "Mul", square(g, near), 0.5);
    near = binary(g, "Add", near, rest, NULL);
    name_scope_leave(g);
    return near;
}
