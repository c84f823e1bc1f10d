/* trial.h - starts a process to check that an agent accepts its configuration.
 *
 * The process responds to `configure` and is then ended. That takes some milliseconds, or
 * TRIAL_WITHIN_S if it does not respond. For a new run, the caller waits meanwhile (ask.h); a
 * live run goes on (trial_begin).
 */
#ifndef SUPERVISOR_BEGIN_TRIAL_H
#define SUPERVISOR_BEGIN_TRIAL_H

#include "common/config/change_plan.h"
#include "common/config/run_config.h"
#include "common/err/err.h"
#include "supervisor/begin/estimate.h"
#include "supervisor/begin/first_weights.h"
#include "supervisor/begin/policies.h"
#include "supervisor/proc/agent_table.h"

#define TRIAL_WITHIN_S 10.0

/* A process that tries a changed configuration of a live agent; opaque. */
struct live_trial;

struct live_trial_args { /* borrowed until fn is called, except the struct itself */
    uv_loop_t *loop;
    int agent_exe_fd;
    const struct agent_spec *spec; /* only name, role and pack_configure are used */
    const struct msg
        *now; /* the live agent's response to `configure`: the trial's must be equal */
    /* Called once from the loop, when nothing of the process is left. why NULL: it accepts the
     * configuration. ERR_CONFIG names the agent and quotes the process's error message, if it
     * sent one. */
    void (*fn)(void *ctx, const struct err *why);
    void *ctx; /* for fn and pack_configure */
};

/* A process that a signal from outside ends is started anew, twice at most. */
int trial_begin(struct live_trial **ret, const struct live_trial_args *args,
                struct err *err);
/* Ends the process at once, without a call of fn. The loop has to run until it is gone. */
void trial_abandon(struct live_trial *x);

/* Whether agents i and i - 1, i at least 1, differ only in their names. */
int trial_is_like_last(const struct run_config *c, const struct env_spec *spec, size_t i);

/* For trial_agents. */
struct trial {
    const char *runs_dir; /* whose disk the run will use */
    int no_start; /* agents that are programs are left out, and all in an external environment */
    struct estimate estimate; /* result: what the run takes */
    /* Result, if it is not NULL: the variables of the agents that were tried. */
    struct first_variables *variables;
};

/* Tries the agents of a new run, one of each group that differs only in its names; this is
 * a config_try_fn, whose ctx is a struct trial. Fails if a process refuses its configuration
 * (ERR_CONFIG) or has too little memory for it (ERR_NOMEM), if no update can be made of the
 * stages and rows that the agents declare (rollout_check), or if the machine is too small
 * (estimate.h). Any other exit is no failure here, because the run would start the process
 * again. Frozen agents and hosted graphs are tried later, by trial_policies. */
int trial_agents(void *ctx, const struct run_config *c, size_t *ret_agent,
                 struct err *err);
/* Checks that agents which share parameters, or whose targets one mixer computes, have one
 * value of each setting (sharing.h) also after each step of the plan. ERR_CONFIG names the
 * step, the agent and the key. */
int trial_plan(const struct run_config *c, const struct change_plan *plan,
               struct err *err);
/* Tries the frozen agents with their policies, whose tensors may be missing or have another
 * width, and the agents that host a graph. ERR_CONFIG: file, line and key. */
int trial_policies(const struct run_config *c, const struct policies *policies,
                   struct err *err);

#endif
