/* training.h - one run from its first process to its last: wires agents, environments,
 * log, driver, metrics and checkpoints together on a loop of its own.
 *
 * Order    start: run directory (the caller's), experience log, agents, metrics, driver.
 *          End: agents, last checkpoint, log, loop; nothing is left, however it ends.
 * Resume   until the whole checkpoint is loaded, nothing in the run directory changes but
 *          the logs: a failure before that leaves it as it was. Then the run is committed:
 *          config.yaml is written, and the journal records the resume (from the beginning
 *          where the keeper resumes the run by itself).
 * States   life_fsm.h.
 * Keeper   when it is gone the run ends at once. SIGTSTP, which the keeper forwards, stops
 *          the agents, then this process; SIGCONT continues all of them.
 * Signals  the first SIGINT, SIGTERM or SIGHUP stops the run at the next round boundary,
 *          with a checkpoint (or at once while the disk is full); a second one ends it at
 *          once. A run that began without a terminal rereads config.yaml on SIGHUP. SIGINT
 *          and SIGHUP that were ignored when the run began stay ignored.
 * Threads  must be called from the main thread: the agents' parent-death signal is tied
 *          to it.
 */
#ifndef SUPERVISOR_RUN_TRAINING_H
#define SUPERVISOR_RUN_TRAINING_H

#include "common/config/run_config.h"
#include "common/err/err.h"
#include "supervisor/events/run_event.h"
#include "supervisor/events/run_status.h"
#include "supervisor/proc/agent_table.h"
#include "supervisor/proc/binaries.h"
#include "supervisor/proc/keeper.h"
#include "supervisor/rollout/rollout.h"
#include "supervisor/run/change_plan.h"
#include "supervisor/run/policies.h"
#include "supervisor/run/run_dir.h"
#include "supervisor/save/resume.h"

#include <stdint.h>
#include <uv.h>

struct training; /* a run under way; opaque */

#define TRAINING_TICK_MS 100

/* Where to take first weights from. */
struct training_init {
    const char *checkpoints; /* that run's checkpoints/ */
    uint64_t step;
};

/* An observer of a run. All but ctx may be NULL. */
struct training_observer {
    /* Nothing has started yet. From here until on_close the run can be steered, and the
     * observer may have handles of its own on the loop. An error ends the run. */
    int (*on_open)(void *ctx, struct training *t, uv_loop_t *loop, struct err *err);
    /* Everything else is over, the last checkpoint is written: closes those handles. */
    void (*on_close)(void *ctx);
    /* Every TRAINING_TICK_MS, and once before the agents are stopped: a moment to show
     * training_status. */
    void (*on_tick)(void *ctx, struct training *t);
    /* Whatever happens, also before on_open and after on_close. Borrowed for the call. */
    void (*on_event)(void *ctx, const struct run_event *event);
    void *ctx;
};

struct training_args {               /* all borrowed for the call */
    const struct run_config *config; /* to begin with */
    /* What is agreed for later: changes, and config.yaml with them. NULL: nothing. */
    const struct run_config *wanted;
    const struct change_plan *plan;
    struct run_dir *dir;
    const struct binaries *binaries;
    const struct policies *policies;  /* of frozen agents; NULL: there are none */
    const struct training_init *init; /* NULL: fresh weights */
    const struct resume *resume;      /* NULL: from the beginning */
    struct err differs;               /* why it will not end as it would have; code 0 */
    int anyway;                       /* resume with another fingerprint, too */
    const struct training_observer *observers;
    size_t n_observers;
    const struct keeper_link *keeper; /* NULL: nobody keeps this process */
    /* Where a new run is made for the last checkpoint if the run directory is deleted
     * meanwhile; NULL: then it is lost. */
    const char *rescue;
};

enum training_end {
    TRAINING_DONE,
    TRAINING_STOPPED, /* on request, in order */
    TRAINING_CUT_OFF, /* by a second signal */
    TRAINING_FAILED,  /* `err` of training_run says why */
};

/* "done", "stopped", "cut off", "failed": as run_status.h has it. */
const char *training_end_name(enum training_end end);

struct training_result {
    enum training_end end;
    int signum;    /* CUT_OFF: the signal */
    int exit_code; /* enum run_exit */
    uint64_t env_steps, episodes, restarts;
    int64_t checkpoint_step; /* of the newest committed one; -1: none */
    /* Of the newest from which the run can go on; -1: none. Another one than that only
     * where the experience log is damaged, cut or gone. */
    int64_t resume_step;
    int as_it_was; /* it was not resumed: nothing of it has changed */
    double wall_seconds;
    double team_return_mean; /* of the last row with finished episodes; NaN: none */
};

/* Where it stands; pointers are good until the next call and the next return to the loop.
 */
void training_status(struct training *t, struct run_status *ret);

/* ---- steering: from on_open until on_close, also before the rounds begin ---- */

/* The answer to a request: it was fulfilled at environment step `step`, or why it never
 * will be. May come from within the requesting call. */
typedef void (*training_done_fn)(void *ctx, uint64_t step, const struct err *why);

/* Requests for the next round boundary, answered when the run stands still; when a
 * checkpoint of that boundary (or a later one) is on the disk; when every agent has ended
 * and the last checkpoint is written. However many checkpoints are requested, at most one
 * begins per TRAINING_TICK_MS. ERR_STATE: the run is stopping; then fn is not called. */
int training_pause(struct training *t, training_done_fn fn, void *ctx, struct err *err);
int training_checkpoint(struct training *t, training_done_fn fn, void *ctx,
                        struct err *err);
void training_stop(struct training *t, training_done_fn fn, void *ctx);
int training_continue(struct training *t, struct err *err);
/* Also a process of a foreign environment, by its name. ERR_NOT_FOUND, naming the agents
 * that there are. */
int training_find_agent(const struct training *t, const char *name, size_t *ret,
                        struct err *err);
/* Ends the agent's process; what follows is its restart policy's business. */
int training_kill(struct training *t, size_t agent, struct err *err);
/* Replaces the agent's process, with the configuration that waits for that; answers when
 * the new one stands where the old one did. ERR_STATE: also where a configuration waits,
 * which begins with a round, and the run is paused. */
int training_respawn(struct training *t, size_t agent, training_done_fn fn, void *ctx,
                     struct err *err);

/* The run has no environment: clients drive its agents. */
int training_is_driven(const struct training *t);
/* A client's request to an agent of a run without an environment: rollout_run. */
int training_drive(struct training *t, size_t agent, const msgpack_object *params,
                   rollout_run_fn fn, void *ctx, struct err *err);

/* ---- tracing: training_trace.c ---- */

struct training_trace_result {
    const char *path; /* of the file in Chrome's trace event format; borrowed */
    uint64_t rounds;
    double seconds;         /* that they took */
    double waiting_seconds; /* of them, in which the supervisor had nothing to do */
    uint64_t left_out;      /* spans for which there was no room */
};
/* NULL and why: there is no recording. For the call trace_shares has the shares. */
typedef void (*training_trace_fn)(void *ctx, const struct training_trace_result *result,
                                  const struct err *why);
/* Records the next rounds (supervisor/trace/trace.h) and writes trace.json into the run's
 * directory; fn comes once, from the loop. ERR_STATE: the run has no rounds or is ending,
 * or a recording is under way. */
int training_trace(struct training *t, uint64_t rounds, training_trace_fn fn, void *ctx,
                   struct err *err);

/* ---- changes ---- */

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
 * applied, as a length that is past by then, and nothing has changed; ERR_STATE: the run
 * is ending, or does not yet stand where it is resumed. */
int training_set(struct training *t, const char *const *set, size_t n, uint64_t at,
                 struct training_set_result *ret, struct err *err);
void training_set_result_done(struct training_set_result *r);
/* Takes back changes that are agreed and not yet in force: those of the keys given, n 0:
 * all of them; "defaults.KEY" also means the agents that wait for a respawn with it.
 * config.yaml and the journal follow. *ret: what it was, good until the next call; n 0 and
 * nothing pending: none. ERR_CONFIG: nothing is pending for a key, or it is being made;
 * nothing has changed then. */
int training_cancel(struct training *t, const char *const *keys, size_t n,
                    const struct run_pending **ret, size_t *ret_n, struct err *err);
/* The same as training_set for a config.yaml that somebody edited: the difference is made.
 */
int training_reread(struct training *t, struct training_set_result *ret, struct err *err);

/* Runs to the end. Returns 0, or the failure with err set; result is filled either way.
 */
int training_run(const struct training_args *args, struct training_result *ret,
                 struct err *err);

#endif
