/* reward_scale.h - rewards divided by their running deviation (setting reward_scale), so
 * that values are of about the same size whatever the rewards are.
 *
 *     running    r~ = r / sqrt(variance + 1e-8)
 *     standard   r~ = (r - mean) / sqrt(variance + 1e-8)
 *
 * While all rewards are equal, r~ = r. The mean is for tasks that never terminate: where they
 * do, it makes the end of an episode worth something by itself.
 *
 * Counted  every row of the log before the request's step, once, in the order of the log;
 *          of each, the rewards of all `agents` that were alive: the agent itself, its
 *          team where that learns one value, or those it shares parameters with.
 * State    local variable `<scope>/reward_scale/statistics` (4) of doubles: rows counted,
 *          and the number, the sum and the sum of squares of their rewards. Only writing
 *          stages store it; pure ones count the new rows again. So both scale alike in
 *          one update.
 * Source   Papoudakis et al. 2021 (EPyMARL's standardise_rewards, which counts the rows that
 *          are drawn, and subtracts the mean).
 */
#ifndef AGENT_ALGO_REWARD_SCALE_H
#define AGENT_ALGO_REWARD_SCALE_H

#include "agent/algo/algo.h"

struct reward_scale {
    enum reward_scale_kind kind;
    struct variable *statistics; /* NULL: rewards count as they are */
    const struct space *agents;  /* borrowed */
    size_t *counted;             /* [n] indices of the agents whose rewards are counted */
    size_t n;
    int *reward, *alive; /* [n] places in the log */
};

/* Creates the variable in the current variable scope. counted: copied. */
void reward_scale_init(struct reward_scale *r, struct graph *g,
                       enum reward_scale_kind kind, const struct space *agents,
                       const size_t *counted, size_t n);
void reward_scale_done(struct reward_scale *r);
/* Declares the columns that it reads (reads.h). */
void reward_scale_reads(struct reward_scale *r, struct reads *reads);

struct reward_scaling {
    float mean, factor; /* 0 and 1: rewards are not changed */
};
/* Computes the scaling of this request's rewards; r NULL: they are not scaled; ret NULL: nobody
 * wants it. Writing stages store the statistics. Fails if the log does not have the rows. */
int reward_scale_read(struct reward_scale *r, struct session *s,
                      const struct stage_args *args, struct reward_scaling *ret,
                      struct err *err);
/* x[i] = (x[i] - mean) factor, i < n */
void reward_scale_apply(const struct reward_scaling *by, float *x, int64_t n);

#endif
