/* policy.h - what policies draw from, and the pieces of policy-gradient losses: they only
 * build nodes.
 *
 * Shapes   B rows, A choices, U action width. Per row there is one log-probability or
 *          entropy: (B, 1), summed over the dimensions of an action.
 * Draws    a distribution's `noise` is a random op of the graph, a pure function of the
 *          run's key and counter (session.h). To act, feed it, so that the numbers of a
 *          row do not depend on the other rows (rng_normal_rows_f32); zeros give the
 *          greedy action.
 */
#ifndef AGENT_NN_POLICY_H
#define AGENT_NN_POLICY_H

#include "agent/graph/graph.h"

/* ---- one of several choices: logits (B, A) ---- */

/* Lowers the logits of choices that are not allowed by 1e8, so that their probability is 0
 * exactly. allowed (B, A): 1 or 0. Every row must allow some choice. */
struct output forbid_choices(struct graph *g, struct output logits,
                             struct output allowed);

/* ---- diagonal normal: mean (B, U), log_std (B, U) or (U) ---- */

/* log of the density at x (B, U). */
struct output normal_log_prob(struct graph *g, struct output mean, struct output log_std,
                              struct output x);
/* sum log std + U (1 + log 2 pi) / 2. rows: a tensor of B rows and U columns. */
struct output normal_entropy(struct graph *g, struct output rows, struct output log_std);

/* ---- the same, squashed into (low, high) by tanh: Haarnoja et al. 2018, appendix C ----
 *
 *     x = mean + exp(log_std) noise,  action = (low + high)/2 + (high - low)/2 tanh(x)
 *     log pi = log N(x) - sum log((high - low)/2 (1 - tanh(x)^2))
 * with log(1 - tanh(x)^2) = 2 (log 2 - x - softplus(-2 x)), which neither overflows nor loses
 * its digits where tanh(x) rounds to 1. */
struct squashed_normal {
    struct output noise;    /* (B, U), standard normal; may be fed */
    struct output action;   /* (B, U); gradients go through to mean and log_std */
    struct output log_prob; /* (B, 1), of `action` */
};
struct squashed_normal squashed_normal(struct graph *g, struct output mean,
                                       struct output log_std, double low, double high);

/* SAC's bounds of log_std, for clip_by_value. */
#define LOG_STD_MIN -20.0
#define LOG_STD_MAX 2.0

/* ---- losses ---- */

/* tf.losses.huber_loss, element by element: e^2 / 2 up to |e| = delta, from there linear,
 * delta (|e| - delta / 2). */
struct output huber(struct graph *g, struct output error, double delta);

#endif
