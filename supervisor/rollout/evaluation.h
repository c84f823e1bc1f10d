/* evaluation.h - plays episodes with the current policies, without changing them.
 *
 * Used for evaluations during training and for `brood eval`. It sends only pure `act`
 * requests, keyed by (seed, episode, time), and takes the world of episode k from the
 * evaluation draws of env.h. So an episode's result does not depend on the number of
 * copies.
 *
 * Returns  per episode, undiscounted, on the environment's scale; summed in the order of
 *          the episode numbers, not in that in which the episodes ended.
 * Threads  loop thread only; no request may be outstanding when it starts.
 */
#ifndef SUPERVISOR_ROLLOUT_EVALUATION_H
#define SUPERVISOR_ROLLOUT_EVALUATION_H

#include "common/config/run_config.h"
#include "common/err/err.h"
#include "common/msg/protocol.h"
#include "supervisor/env/env.h"
#include "supervisor/proc/agent_table.h"

#include <stddef.h>
#include <stdint.h>

struct evaluation; /* opaque */

struct
    evaluation_result { /* the evaluation owns the arrays: valid until its next start */
    uint64_t episodes;  /* that were played: without those that failed (env.on_failure) */
    size_t n_agents;
    const double *return_mean; /* [A] */
    const double *return_std;  /* [A] sample deviation (n - 1); 0 if n is 1 */
    const double *return_se;   /* [A] std / sqrt(n) */
    double length_mean;
    size_t n_metrics;           /* of env.metrics */
    const char *const *metrics; /* [n_metrics] their names */
    const double
        *metric_mean; /* [n_metrics] over episodes that have a value; NaN: none */
    const double *episode_returns;   /* (episodes, A) */
    const uint64_t *episode_numbers; /* [episodes] */
};

struct evaluation_args {
    const struct run_config *config; /* of the agents; borrowed */
    const struct env_config *env;    /* borrowed */
    size_t copies;                   /* 0: env->copies; never more than episodes */
    uint64_t episodes;               /* at least 1 */
    uint64_t max_steps; /* cuts episodes after this many steps; 0: no limit */
    uint64_t seed;      /* of worlds and draws */
    enum act_mode mode; /* ACT_GREEDY or ACT_SAMPLE */
    /* The environment's agents are the table's first ones. Borrowed. */
    struct agent_table *agents;
    struct env_host *env_host; /* for external environments; otherwise NULL */
    void (*on_done)(void *ctx, const struct evaluation_result *result);
    void (*on_failed)(void *ctx, const struct err *err);
    void (*on_cancelled)(void *ctx); /* may be NULL if evaluation_cancel is not used */
    /* For drawing; may be NULL. on_begin: a copy's episode has begun. on_step: after
     * every step, before ended copies are reset; step->ended includes the episodes that
     * max_steps cut. */
    void (*on_begin)(void *ctx, const struct vec_env *env, size_t copy);
    void (*on_step)(void *ctx, const struct vec_env *env, const struct env_step *step);
    void *ctx;
};

#define EVALUATION_MAX_EPISODES 1000000u

int evaluation_new(struct evaluation **ret, const struct evaluation_args *args,
                   struct err *err);
/* Plays episodes 0 .. n-1 with the policies as they are after `step` environment steps of
 * training; may be called again after on_done. Returns an error if it cannot begin; later
 * errors go to on_failed. */
int evaluation_start(struct evaluation *e, uint64_t step, struct err *err);
/* Cancels the evaluation that is playing: waits for outstanding answers, then calls
 * on_cancelled instead of on_done. */
void evaluation_cancel(struct evaluation *e);
void evaluation_free(struct evaluation *e); /* no request may be outstanding */

#endif
