/* training.h - one run from its first process to its last: wires agents, environments,
 * log, driver, metrics and checkpoints together on a loop of its own.
 *
 * Order    start: run directory (the caller's), experience log, agents, metrics, driver.
 *          End: agents, last checkpoint, log, loop; nothing is left, however it ends.
 * Keeper   when it is gone the run ends at once. SIGTSTP, which comes through it, stops
 * the agents, then this process; the SIGCONT after it lets all go on. Signals  the first
 * SIGINT, SIGTERM or SIGHUP stops the run at the next round boundary, with a checkpoint;
 * a second one ends it at once. Without a terminal, SIGHUP says that config.yaml was
 * edited. Threads  must be called from the main thread: the agents' parent-death signal
 * is tied to it.
 */
#ifndef SUPERVISOR_RUN_TRAINING_H
#define SUPERVISOR_RUN_TRAINING_H

#include "common/config/run_config.h"
#include "common/err/err.h"
#include "supervisor/metrics/metrics.h"
#include "supervisor/proc/agent_table.h"
#include "supervisor/proc/keeper.h"
#include "supervisor/rollout/rollout.h"
#include "supervisor/run/binaries.h"
#include "supervisor/run/change_plan.h"
#include "supervisor/run/resume.h"
#include "supervisor/run/run_dir.h"

#include <stdint.h>
#include <uv.h>

struct training; /* a run under way; opaque */

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
    /* Another configuration is in force, until the next of these. */
    void (*on_config)(void *ctx, const struct run_config *config);
    void (*on_agent)(void *ctx, const struct agent_event *event, const char *name);
    uint64_t tick_ms;
    void *ctx;
};

/* What others reach the run by, on its loop: opened before the agents start, closed when
 * they are gone. All NULL: nothing. An error of open is told, and the run goes on. */
struct training_service {
    int (*open)(void *ctx, uv_loop_t *loop, struct training *t, struct err *err);
    void (*close)(void *ctx);
    void *ctx;
};

struct training_args {               /* all borrowed for the call */
    const struct run_config *config; /* to begin with */
    /* What is agreed for later: changes, and config.yaml with them. NULL: nothing. */
    const struct run_config *wanted;
    const struct change_plan *plan;
    struct run_dir *dir;
    const struct binaries *binaries;
    const struct training_init *init; /* NULL: fresh weights */
    const struct resume *resume;      /* NULL: from the beginning */
    int anyway;                       /* resume with another fingerprint, too */
    struct training_observer observer;
    struct training_service service;
    const struct keeper_link *keeper; /* NULL: nobody keeps this process */
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

#define TRAINING_SOON UINT64_MAX

struct training_set_result {
    uint64_t at; /* joint step of the first round that sees it */
    /* Assignments, comma between, "" for none: those made at that step, and those that
     * wait for a respawn of their agent. free() both. */
    char *changes, *waits;
};

/* Changes the configuration: assignments "KEY=VALUE" over what is agreed so far, checked
 * as at start, written into the journal and onto the disk, then made before the first
 * round at or after step `at` (TRAINING_SOON: the next round). ERR_CONFIG: cannot be
 * applied, and nothing has changed. */
int training_set(struct training *t, const char *const *set, size_t n, uint64_t at,
                 struct training_set_result *ret, struct err *err);
void training_set_result_done(struct training_set_result *r);
/* The same for a config.yaml that somebody edited: the difference is made. */
int training_reread(struct training *t, struct training_set_result *ret, struct err *err);

/* A client's request to an agent of a run without an environment: rollout_run. */
int training_drive(struct training *t, size_t agent, const msgpack_object *params,
                   rollout_run_fn fn, void *ctx, void *client, struct err *err);
void training_forget_client(struct training *t, void *client); /* rollout_forget */

/* Where it stands; the agents are borrowed. */
const struct agent_table *training_look(const struct training *t,
                                        struct rollout_progress *ret);
const char *training_name(const struct training *t);
/* At the next boundary; the answer does not wait for it. ERR_STATE: the run is ending. */
int training_ask_checkpoint(struct training *t, struct err *err);
int training_ask_stop(struct training *t, struct err *err);
/* A new process for the agent, with what waits for it (training_set): made before the
 * next round then, otherwise at once. */
int training_respawn_agent(struct training *t, size_t agent, struct err *err);

/* Runs to the end. Returns 0, or the failure with err set; result is filled either way.
 */
int training_run(const struct training_args *args, struct training_result *ret,
                 struct err *err);

#endif
