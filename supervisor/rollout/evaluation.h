/* evaluation.h - plays episodes with the policies as they are; changes nothing.
 *
 * Serves both the evaluations during training and `brood eval`. Requests are pure `act`
 * ones, keyed by (seed, episode, time); episode k's worlds come from the evaluation
 * draws of env.h. So an episode's result does not depend on the number of copies.
 *
 * Returns  per episode, undiscounted, on the environment's scale; reduced in the order of
 *          the episodes, whatever the order they ended in.
 * Threads  loop thread only; the agents must owe nothing when it starts.
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

struct evaluation_result { /* arrays are owned by the evaluation: valid until its next */
    uint64_t episodes;
    size_t n_agents;
    const double *return_mean; /* [A] */
    const double *return_std;  /* [A] of a sample: divided by n - 1; 0 if n is 1 */
    const double *return_se;   /* [A] std / sqrt(n) */
    double length_mean;
    const double *episode_returns; /* (episodes, A) */
};

struct evaluation_args {
    const struct env_config *env; /* borrowed */
    size_t copies;                /* 0: env->copies; never more than episodes */
    uint64_t episodes;            /* at least 1 */
    uint64_t max_steps;           /* an episode is over after so many; 0: when it ends */
    uint64_t seed;                /* of worlds and draws */
    enum act_mode mode;           /* ACT_GREEDY or ACT_SAMPLE */
    /* The environment's agents are the table's first ones. Borrowed. */
    struct agent_table *agents;
    struct env_host *env_host; /* of a foreign environment; otherwise NULL will do */
    void (*on_done)(void *ctx, const struct evaluation_result *result);
    void (*on_failed)(void *ctx, const struct err *err);
    void (*on_broken_off)(void *ctx); /* NULL: evaluation_break_off is not called */
    /* For drawing, may be NULL: a copy's episode has begun; after every step, when the
     * copies that ended are still as they ended (those that max_steps ends are among
     * them). */
    void (*on_begin)(void *ctx, const struct vec_env *env, size_t copy);
    void (*on_step)(void *ctx, const struct vec_env *env, const struct env_step *step);
    void *ctx;
};

#define EVALUATION_MAX_EPISODES 1000000u

int evaluation_new(struct evaluation **ret, const struct evaluation_args *args,
                   struct err *err);
/* Plays episodes 0 .. n-1; may be called again once on_done came. A failure to begin is
 * returned, a later one goes to on_failed. */
int evaluation_start(struct evaluation *e, struct err *err);
/* While it plays: it owes nothing any more once on_broken_off comes, in place of on_done.
 */
void evaluation_break_off(struct evaluation *e);
void evaluation_free(struct evaluation *e); /* no request of it may be outstanding */

#endif
