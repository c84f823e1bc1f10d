/* training.h - one run from its first process to its last: connects agents, environments,
 * experience log, driver, metrics and checkpoints on an event loop of its own.
 *
 * Order    start: run directory (the caller's), experience log, agents, metrics, driver.
 *          End: agents, last checkpoint, log, loop. No process, handle or descriptor is
 *          left, however the run ends.
 * Resume   until the whole checkpoint is loaded, only log files in the run directory
 *          change, so that a failure before that leaves the run as it was. Then the resume
 *          is committed: config.yaml is written, and the journal records the resume. (If
 *          the keeper resumes the run by itself, the journal is written from the start.)
 * States   life_fsm.h.
 * Replay   plays a part of a run again. Nothing in its directory changes: there is no journal,
 *          no metrics, checkpoint, log or socket, and the rows go to a copy of the log.
 * Keeper   when the keeper exits, the run ends at once. SIGTSTP, which the keeper forwards,
 *          stops the agents, then this process; SIGCONT continues all of them.
 * Signals  the first SIGINT, SIGTERM or SIGHUP stops the run at the next round boundary,
 *          with a checkpoint (or at once while the disk is full); a second one ends it at
 *          once. One that arrives before the run begins waits for it, and one that arrives
 *          when it is ending or has failed changes nothing. A run that began without a
 *          terminal rereads config.yaml on SIGHUP. SIGINT and SIGHUP that were ignored when
 *          the run began stay ignored. All of them stay blocked (signals.h) afterwards.
 * Threads  must be called from the main thread: the agents' parent-death signal is tied
 *          to it.
 */
#ifndef SUPERVISOR_RUN_TRAINING_H
#define SUPERVISOR_RUN_TRAINING_H

#include "common/config/run_config.h"
#include "common/err/err.h"
#include "supervisor/begin/change_read.h"
#include "supervisor/begin/policies.h"
#include "supervisor/begin/weights.h"
#include "supervisor/events/run_event.h"
#include "supervisor/events/run_status.h"
#include "supervisor/proc/agent_table.h"
#include "supervisor/proc/binaries.h"
#include "supervisor/proc/keeper.h"
#include "supervisor/rollout/rollout.h"
#include "supervisor/rundir/run_dir.h"
#include "supervisor/save/resume.h"

#include <stdint.h>
#include <uv.h>

struct training; /* a run under way; opaque */

#define TRAINING_TICK_MS 100

/* An observer of a run. All but ctx may be NULL. */
struct training_observer {
    /* Called before any process starts. From here until on_close the run takes requests,
     * and the observer may have handles of its own on the loop. An error ends the run. */
    int (*on_open)(void *ctx, struct training *t, uv_loop_t *loop, struct err *err);
    /* Called when all processes have ended and the last checkpoint is written. The
     * observer must close its handles. */
    void (*on_close)(void *ctx);
    /* Called every TRAINING_TICK_MS, and once before the agents are stopped, for example
     * to show training_status. */
    void (*on_tick)(void *ctx, struct training *t);
    /* Called for every event, also before on_open and after on_close. The event is
     * borrowed for the call. */
    void (*on_event)(void *ctx, const struct run_event *event);
    void *ctx;
};

struct training_replay { /* all borrowed, except the store */
    struct store *store; /* from store_open_copy; NULL once the run has taken it */
    const char *trace; /* file for a recording of the probe's round; NULL: no recording */
    struct err trace_error; /* set by the run if the recording failed; otherwise code 0 */
    /* on_value is called with each value that is added to this column of the metrics;
     * NULL: no column. After it has returned 1, the replay stops at a boundary. */
    const char *column;
    int (*on_value)(void *ctx, const struct rollout_progress *at, double value);
    /* Called after each round, and also when a failure or a stop cuts one short. 1: the replay
     * stops there. An error ends the run. */
    int (*on_round)(void *ctx, const struct store *store, int is_last, struct err *err);
    void *ctx;
};

struct training_args {               /* all borrowed for the call */
    const struct run_config *config; /* in force at the beginning */
    /* For a run with changes for later steps: a resumed one (resume_config.h), or one
     * whose file has such changes (change_plan_from_config). NULL: there are none. */
    const struct run_config *wanted;
    const struct change_plan *plan;
    /* Of a resumed run (resume_config.h): changes that it adds to the journal; may be NULL. */
    const struct config_settings *given;
    const char *cancelled;
    struct run_dir *dir;
    const struct binaries *binaries;
    const struct policies *policies; /* of frozen agents; NULL: there are none */
    const struct weights *init;  /* the first ones (`--init-from`); NULL: fresh weights */
    const struct resume *resume; /* NULL: from the beginning */
    struct err differs;          /* why a resume is not exact; code 0: it is exact */
    int anyway;                  /* resume on another fingerprint, too */
    const struct training_observer *observers;
    size_t n_observers;
    const struct keeper_link *keeper; /* NULL: this process has no keeper */
    /* Limit on the private resident memory (resident.h) of the supervisor, the agents and
     * the environment processes together. The agents' blocks, which the supervisor maps,
     * too, count only for the agents. Above the limit, the run fails. 0: no limit. */
    int64_t memory_limit_bytes;
    struct training_replay *replay; /* NULL: not a replay */
    const struct probe *probe;      /* what to show of a round; NULL: nothing */
    uint64_t until; /* stops at the first boundary at or after that step; 0: at none */
    /* The folder in which a new run with the last checkpoint is created if the run
     * directory is deleted while the run is live; NULL: the checkpoint is then lost. */
    const char *rescue;
};

enum training_end {
    TRAINING_DONE,
    TRAINING_STOPPED, /* on request, with a checkpoint */
    TRAINING_CUT_OFF, /* by a second signal */
    TRAINING_FAILED,  /* training_run returns the error */
};

/* "done", "stopped", "cut off", "failed": run_status.state. */
const char *training_end_name(enum training_end end);

struct training_result {
    enum training_end end;
    int signum;         /* CUT_OFF: the signal */
    int is_interrupted; /* a signal asked for the end, perhaps of a run that was ending */
    int exit_code;      /* enum run_exit */
    uint64_t env_steps, episodes, restarts;
    int64_t checkpoint_step; /* of the newest committed one; -1: none */
    /* Of the newest checkpoint from which the run can be resumed; -1: none, or not known. It
     * differs from checkpoint_step only if the experience log is damaged, cut or missing. */
    int64_t resume_step;
    struct err unread; /* why resume_step is not known; code 0: it is known */
    int is_unchanged;  /* a resume failed before it changed the run directory */
    double wall_seconds;
    /* Of all supervisors of the run; wall_seconds and restarts are of this one. */
    double total_seconds;
    uint64_t total_restarts;
    double team_return_mean; /* of the last row with finished episodes; NaN: none */
    char returns[RUN_RETURN_TEXT_BYTES]; /* run_status_returns */
    char done_why[RUN_DONE_WHY_BYTES];   /* run_status.done_why; "": none */
};

/* The run's status. Its pointers are valid until the next call, and until control returns
 * to the loop. */
void training_status(struct training *t, struct run_status *ret);

/* ---- requests: from on_open until on_close, also before the rounds begin ---- */

/* Answers a request. why NULL: the request was fulfilled at environment step `step` (the
 * step of the checkpoint, if it asked for one); otherwise why it never will be. May be
 * called from within the requesting function. */
typedef void (*training_done_fn)(void *ctx, uint64_t step, const struct err *why);

/* Requests for the next round boundary. training_pause is answered when the run has paused,
 * training_checkpoint when a checkpoint of that boundary or a later one is on the disk,
 * training_stop when every agent has ended and the last checkpoint is written. At most one
 * checkpoint begins per TRAINING_TICK_MS, however many are requested. ERR_STATE: the run is
 * stopping; fn is not called. */
int training_pause(struct training *t, training_done_fn fn, void *ctx, struct err *err);
int training_checkpoint(struct training *t, training_done_fn fn, void *ctx,
                        struct err *err);
void training_stop(struct training *t, training_done_fn fn, void *ctx);
int training_continue(struct training *t, struct err *err);
/* Finds an agent or a process of an external environment by its name; *ret is the number
 * that the next two functions take. ERR_NOT_FOUND lists the agents. */
int training_find_agent(const struct training *t, const char *name, size_t *ret,
                        struct err *err);
/* Kills the agent's process. Its restart policy decides what follows. */
int training_kill(struct training *t, size_t agent, struct err *err);
/* Replaces the agent's process and applies the changes that wait for its respawn.
 * Answered when the new process has replayed the old one's requests. ERR_STATE: the run
 * is stopping, or it is paused and such changes exist, which take effect only at the
 * start of a round. */
int training_respawn(struct training *t, size_t agent, training_done_fn fn, void *ctx,
                     struct err *err);

/* 1 if the run has no environment, so that clients drive its agents. */
int training_is_driven(const struct training *t);
/* A client's request to an agent of a run without an environment: rollout_run. */
int training_drive(struct training *t, size_t agent, const msgpack_object *params,
                   rollout_run_fn fn, void *ctx, struct err *err);

/* ---- tracing: training_trace.c ---- */

struct training_trace_result {
    const char *path; /* of the file in Chrome's trace event format; borrowed */
    uint64_t rounds;
    double seconds;         /* duration of these rounds */
    double waiting_seconds; /* the part in which the supervisor was idle */
    uint64_t left_out;      /* spans that did not fit into the buffer */
};
/* result NULL: the recording failed, for the reason why. During the call, trace_shares
 * returns the shares. */
typedef void (*training_trace_fn)(void *ctx, const struct training_trace_result *result,
                                  const struct err *why);
/* Records the next rounds (supervisor/trace/trace.h) and writes them to the file `path`, or, if
 * it is NULL, to trace.json in the run's directory; fn is called once, from the loop. is_awaited:
 * asked before each round; 0 ends the recording without a file. NULL: always 1. ERR_STATE: the run
 * has no rounds or is ending, or a recording is in progress. */
int training_trace(struct training *t, uint64_t rounds, const char *path,
                   training_trace_fn fn, int (*is_awaited)(void *ctx), void *ctx,
                   struct err *err);

/* ---- changes ---- */

#define TRAINING_SOON UINT64_MAX

struct training_set_result { /* borrowed for the call */
    uint64_t at;             /* joint step of the first round with the new values */
    /* Assignments "KEY=VALUE,...", "" for none: those that take effect at that step, and
     * those that wait for a respawn of their agent. */
    const char *changes, *waits;
    const struct run_pending *cancelled; /* [n_cancelled], of training_cancel */
    size_t n_cancelled;
};
/* why NULL: the request was fulfilled; otherwise it has changed nothing. May be called from
 * within the requesting function. */
typedef void (*training_set_fn)(void *ctx, const struct training_set_result *result,
                                const struct err *why);

/* Changes the configuration: applies the assignments "KEY=VALUE" to the configuration with
 * all pending changes, checks the result as at the start of a run, records it in the
 * journal (fsynced), and puts it in force before the first round at or after step `at`
 * (TRAINING_SOON: the next round). While processes try what agents would get with a respawn
 * (trial.h), the run goes on, and later requests wait. ERR_CONFIG: the change is refused, for
 * example a length that the run has exceeded already. ERR_STATE: the run is ending, or its
 * resume is not committed yet. */
void training_set(struct training *t, const char *const *set, size_t n, uint64_t at,
                  training_set_fn fn, void *ctx);
/* Cancels pending changes: those of the n keys given, or all of them if n is 0.
 * "defaults.KEY" also means the changes of agents that wait for a respawn because of it.
 * Updates config.yaml and the journal. None is cancelled if n is 0 and nothing was pending.
 * ERR_CONFIG: nothing is pending for a key, or the change is being applied. */
void training_cancel(struct training *t, const char *const *keys, size_t n,
                     training_set_fn fn, void *ctx);
/* As training_set, with the differences between config.yaml, which a user has edited, and
 * the configuration with all pending changes. */
void training_reread(struct training *t, training_set_fn fn, void *ctx);

/* Runs to the end. Returns 0, or the error that ended the run; *ret is filled either
 * way. */
int training_run(const struct training_args *args, struct training_result *ret,
                 struct err *err);

#endif
