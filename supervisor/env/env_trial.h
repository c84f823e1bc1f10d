/* env_trial.h - plays a few random steps of an external environment before a run does.
 *
 * Finds out what would end the run later: an exception, an agent without an observation, a
 * mask of the wrong length, a number that is not finite. With env.verify, two processes play
 * the same two episodes, in opposite order: if their answers differ, the environment is not
 * a function of its seed and actions, and no process could take the place of a dead one.
 *
 * Errors   the first failure of a process, which is not restarted; ERR_INTERRUPTED as in
 *          ask.h. The caller's loop does not run meanwhile.
 */
#ifndef SUPERVISOR_ENV_ENV_TRIAL_H
#define SUPERVISOR_ENV_ENV_TRIAL_H

#include "common/config/run_config.h"
#include "common/err/err.h"

#include <stddef.h>
#include <stdint.h>

struct env_verdict {
    int differs; /* the two processes answered differently */
    size_t step; /* the first step with different answers; 0: the reset */
};

/* What the trial finds that is no failure: one line each, as in env_host_args. */
struct env_trial_listener {
    void (*on_warning)(void *ctx, const char *line);
    void *ctx;
};

/* Does nothing for a built-in environment. seed: of the episodes and the random actions. listener:
 * NULL: nobody is told. */
int env_trial(const struct env_config *config, uint64_t seed,
              const struct env_trial_listener *listener, struct env_verdict *ret,
              struct err *err);

/* A clause for messages: "this environment is not reproducible: ...". */
const char *env_verdict_text(const struct env_verdict *v, char *ret, size_t size);

#endif
