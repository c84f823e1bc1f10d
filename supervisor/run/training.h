/* training.h - one run from its first process to its last: wires agents, environments,
 * log, driver, metrics and checkpoints together on a loop of its own.
 *
 * Order    start: run directory (the caller's), experience log, agents, metrics, driver.
 *          End: agents, last checkpoint, log, loop; nothing is left, however it ends.
 * Signals  the first SIGINT, SIGTERM or SIGHUP stops the run at the next round boundary,
 *          with a checkpoint; a second one ends it at once.
 * Threads  must be called from the main thread: the agents' parent-death signal is tied
 *          to it.
 */
#ifndef SUPERVISOR_RUN_TRAINING_H
#define SUPERVISOR_RUN_TRAINING_H

#include "common/config/run_config.h"
#include "common/err/err.h"
#include "supervisor/metrics/metrics.h"
#include "supervisor/proc/agent_table.h"
#include "supervisor/rollout/rollout.h"
#include "supervisor/run/binaries.h"
#include "supervisor/run/resume.h"
#include "supervisor/run/run_dir.h"

#include <stdint.h>

/* Where to take first weights from. */
struct training_init {
    const char *checkpoints; /* that run's checkpoints/ */
    uint64_t step;
};

/* What somebody who watches is told; borrowed for the call. All but ctx may be NULL. */
struct training_observer {
    void (*on_start)(void *ctx, const struct agent_table *agents);
    /* Now and then, every `tick_ms`, and once before the agents are stopped. */
    void (*on_tick)(void *ctx, const struct agent_table *agents,
                    const struct rollout_progress *at);
    void (*on_row)(void *ctx, const struct metrics_row *row);
    void (*on_evaluation)(void *ctx, uint64_t env_steps,
                          const struct evaluation_result *result);
    /* Something to know, one line: a death and its respawn, an interrupt, a checkpoint
     * that could not be written. */
    void (*on_message)(void *ctx, const char *line);
    void (*on_agent)(void *ctx, const struct agent_event *event, const char *name);
    uint64_t tick_ms;
    void *ctx;
};

struct training_args { /* all borrowed for the call */
    const struct run_config *config;
    struct run_dir *dir;
    const struct binaries *binaries;
    const struct training_init *init; /* NULL: fresh weights */
    const struct resume *resume;      /* NULL: from the beginning */
    int anyway;                       /* resume with another fingerprint, too */
    struct training_observer observer;
};

enum training_end {
    TRAINING_DONE,
    TRAINING_STOPPED, /* on request, in order */
    TRAINING_CUT_OFF, /* by a second signal */
    TRAINING_FAILED,  /* `err` of training_run says why */
};

struct training_result {
    enum training_end end;
    int signum; /* CUT_OFF: the signal */
    uint64_t env_steps, episodes, restarts;
    double wall_seconds;
    double team_return_mean; /* of the last row with finished episodes; NaN: none */
};

/* Runs to the end. Returns 0, or the failure with err set; result is filled either way.
 */
int training_run(const struct training_args *args, struct training_result *ret,
                 struct err *err);

#endif
