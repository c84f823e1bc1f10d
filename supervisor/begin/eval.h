/* eval.h - plays episodes with the policies of a checkpoint (`brood eval`). It starts agent
 * processes, which compute the actions.
 *
 * Threads  main thread: the agents' parent-death signal is tied to it.
 */
#ifndef SUPERVISOR_BEGIN_EVAL_H
#define SUPERVISOR_BEGIN_EVAL_H

#include "common/config/run_config.h"
#include "common/err/err.h"
#include "supervisor/begin/policies.h"
#include "supervisor/begin/weights.h"
#include "supervisor/env/env.h"
#include "supervisor/proc/binaries.h"
#include "supervisor/rollout/evaluation.h"

#include <stddef.h>
#include <stdint.h>

struct eval_args {                   /* all borrowed for the call */
    const struct run_config *config; /* the run's, resolved */
    const struct policies *policies; /* NULL: no agent is frozen */
    const struct binaries *binaries;
    /* Of a checkpoint of the run, with every agent (weights_add). */
    const struct weights *weights;
    int resized;   /* the environment may have other numbers of agents than the run's */
    uint64_t step; /* of that checkpoint */
    uint64_t episodes, seed;
    size_t copies; /* of the environment; 0: as many as the configuration has */
    enum act_mode mode;
    /* Called once with the result; borrowed for the call. */
    void (*on_result)(void *ctx, const struct env_spec *spec,
                      const struct evaluation_result *result);
    /* The callbacks of evaluation.h; may be NULL. */
    void (*on_begin)(void *ctx, const struct vec_env *env, size_t copy);
    void (*on_step)(void *ctx, const struct vec_env *env, const struct env_step *step);
    void *ctx;
};

/* Returns when all episodes were played and all processes have ended. */
int eval_run(const struct eval_args *args, struct err *err);

#endif
