/* value_norm.h - returns normalised by their running mean and deviation, so that a critic
 * learns numbers of about the same size whatever the rewards are.
 *
 * Source   van Hasselt et al. 2016, "Learning values across many orders of magnitude"
 *          (PopArt); the running form of Yu et al. 2022 (on_policy.h):
 *            m1 = b m1 + (1 - b) mean of G,  m2 = b m2 + (1 - b) mean of G^2,
 *            d = b d + (1 - b),  b = 0.99999
 *            mean = m1 / max(d, 1e-5),  variance = max(m2 / max(d, 1e-5) - mean^2, 0.01)
 * Pitfall  the running form can run away, as values are part of the returns and grow with their
 *          scale: with windows much shorter than 1 / (1 - discount) and few passes over them
 *          (seen: 8 steps, discount 0.99, one pass). popart grows far more slowly.
 * State    m1, m2, d: variable `<scope>/value_norm/statistics` (3) of doubles, saved with
 *          the others, not trained. Changed by value_norm_update alone.
 */
#ifndef AGENT_ALGO_VALUE_NORM_H
#define AGENT_ALGO_VALUE_NORM_H

#include "agent/algo/settings.h"
#include "agent/session/session.h"

struct value_layer { /* a network's last layer; NULL: there is no such network */
    struct variable *weights, *biases;
};

struct value_norm {
    enum value_norm_kind kind;
    struct variable *statistics;      /* NULL: VALUE_NORM_NONE */
    struct value_layer value, target; /* of the critic and of its target; popart only */
};

struct value_scale {
    double mean, deviation; /* 0 and 1: not normalised */
};

/* Makes the variable in the current variable scope. Sets `statistics`; the caller sets
 * the last layers. */
struct value_norm value_norm_new(struct graph *g, enum value_norm_kind kind);

/* Before the first update: 0 and 0.1, as the formulas have it. */
int value_norm_scale(const struct value_norm *v, struct session *s,
                     struct value_scale *ret, struct err *err);

/* Updates the statistics with the mean of the returns, and of their squares, as `times`
 * equal steps of the formulas. popart: the last layers then give the same values as
 * before when they are scaled back (weights (H, V), biases (V), V values); values that were
 * computed before have to be mapped by value_rescaled. */
int value_norm_update(const struct value_norm *v, struct session *s, double mean,
                      double squares, int64_t times, struct err *err);

static inline float value_normalized(const struct value_scale *v, float x)
{
    return (float)(((double)x - v->mean) / v->deviation);
}

/* The normalised value x of the scale `was` in the scale `is`. */
static inline float value_rescaled(const struct value_scale *was,
                                   const struct value_scale *is, float x)
{
    return (float)(((double)x * was->deviation + was->mean - is->mean) / is->deviation);
}

static inline float value_scaled_back(const struct value_scale *v, float x)
{
    return (float)((double)x * v->deviation + v->mean);
}

#endif
