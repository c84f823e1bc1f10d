/* obs_norm.h - observations normalised by their running mean and deviation (setting
 * normalize_observations), so that networks see numbers of about the same size whatever an
 * environment's units are.
 *
 *     x~ = clip((x - mean) / sqrt(variance + 1e-8), -10, 10)
 *
 * Counted  every row of a window in which the agent is alive, once, after the update that learns
 *          from it: so a window is learnt with the statistics that it was played with. Rows are
 *          counted as they are stored. Before the first update x~ = x, clipped. Agents that share
 *          parameters, and their ps, have the same statistics, of the rows of all of them, each
 *          column with that of the others in its place: one after the other, each counts what all
 *          have summarised.
 * State    `<scope>/observation_norm/statistics` (1 + 2 S) of doubles: the number of rows, then
 *          mean and summed squared distance from it of each column; `mean` and `scale` (S) of
 *          floats, which the graph uses. Saved with the other variables, not trained.
 * Shapes   S columns: what the critic sees of observations, the own one first, so that the policy
 *          uses the first of them.
 * Source   Chan, Golub, LeVeque 1979 (means of two sets joined); Andrychowicz et al. 2021, "What
 *          matters in on-policy reinforcement learning?", choice C64; VecNormalize of
 *          Stable-Baselines3 for clip and epsilon.
 */
#ifndef AGENT_ALGO_OBS_NORM_H
#define AGENT_ALGO_OBS_NORM_H

#include "agent/session/session.h"

struct obs_norm {
    int64_t columns; /* S */
    struct variable *statistics, *mean,
        *scale; /* NULL: observations are not normalised */
};

/* Makes the variables in the current variable scope. */
struct obs_norm obs_norm_new(struct graph *g, int64_t columns);
/* x (B, n + rest), the first n of the columns, n at most S, normalised, the others as they are. */
struct output obs_norm_apply(const struct obs_norm *o, struct graph *g, struct output x,
                             int64_t n);
/* Summarises n rows (n, S), `stride` floats apart, whose weight is not 0, as the statistics have
 * it: ret (1 + 2 S). */
void obs_norm_summarize(const struct obs_norm *o, const float *rows, int64_t n,
                        int64_t stride, const float *weight, double *ret);
/* Counts rows that were summarised. */
int obs_norm_count(const struct obs_norm *o, struct session *s, const double *summary,
                   struct err *err);

#endif
