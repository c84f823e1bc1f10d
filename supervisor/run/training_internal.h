/* training_internal.h - struct training, a live run, and the functions that the
 * training_*.c files share. */
#ifndef SUPERVISOR_RUN_TRAINING_INTERNAL_H
#define SUPERVISOR_RUN_TRAINING_INTERNAL_H

#include "common/wire/cursor.h"
#include "supervisor/begin/agent_specs.h"
#include "supervisor/begin/change_proposal.h"
#include "supervisor/begin/renders.h"
#include "supervisor/begin/restore.h"
#include "supervisor/begin/trial.h"
#include "supervisor/env/env_host.h"
#include "supervisor/events/run_model.h"
#include "supervisor/metrics/sinks.h"
#include "supervisor/node/cluster.h"
#include "supervisor/run/life_fsm.h"
#include "supervisor/run/training.h"
#include "supervisor/rundir/journal.h"
#include "supervisor/save/graphs.h"
#include "supervisor/save/run_saver.h"
#include "supervisor/store/store.h"

#include <uv.h>

/* Sends an event (run_event.h) with the present time to the journal, then to the observers.
 *
 *     training_event(t, FULL, .error = err->msg);
 */
#define training_event(t, kind_, ...)                                                    \
    training_event_at(                                                                   \
        (t),                                                                             \
        &(struct run_event){.kind = RUN_EVENT_##kind_,                                   \
                            .env_steps = training_steps(t) __VA_OPT__(, ) __VA_ARGS__},  \
        NULL)

struct training_state { /* the driver's state (rollout_state_save), for run.state */
    uint8_t *bytes;     /* NULL: none */
    size_t len;
};

struct pending_list { /* owns keys and values */
    struct run_pending *list;
    size_t n;
};

/* Configurations, and the requests to change them (training_change.c, training_set.c). */
struct training_changes {
    struct run_config wanted; /* config.yaml: what is in force with the whole plan */
    int is_unwritten;  /* it could not be written; the next checkpoint tries again */
    char *config_yaml; /* cache of training_config_yaml; NULL: stale */
    struct change_plan plan;
    struct pending_list pending, cancelled; /* as last returned to callers */
    const char **agent_names;               /* for the reader of an edited config.yaml */
    struct change_request *requests;        /* in the order in which they came */
    struct live_trial *trial; /* of the first one; NULL: no process tries it */
};

/* What a run's rows and evaluations become; all NULL in a replay (training_report.c). */
struct training_sinks {
    struct csv_sink *csv;
    struct event_sink *events;
    struct event_folder *images, *weights; /* event files of their own */
    struct renders *renders;
};

/* Checkpoints (training_save.c), and requests for one (training_steer.c). */
struct training_saves {
    int64_t step;       /* of the newest committed one; -1: none */
    struct err unsaved; /* why the newest one that failed did; code 0: none did */
    uint64_t unsaved_step;
    struct training_state last;  /* of the last checkpoint, which waits to be written */
    enum rollout_hold last_hold; /* which blocks belong to it */
    int is_wanted;               /* a requested one has not begun */
    uint64_t next_ms;            /* the next requested one may begin at this time */
};

/* The run directory was deleted (training_deleted.c). */
struct training_rescue {
    int is_needed;
    struct run_dir *dir;          /* the new run's; NULL: there is none */
    struct wbuf tags, provenance; /* with args->rescue: these files, as they were last */
    int64_t step;                 /* of the newest checkpoint there; -1: none */
};

/* What training_status returned last (training_status.c). */
struct training_shown {
    struct {
        uint64_t at_ms, steps;
        double per_second;
        int has_learned; /* then */
    } rate;
    struct run_agent_status *agents; /* [specs.n] */
    struct run_agent_status *envs;   /* of the environment's processes */
    struct run_node_status *nodes;
};

/* What a run that leaves files (training_record.c) and a replay (training_replay.c) do
 * differently, in the order in which it is called. */
struct training_kind {
    void (*begin)(struct training *t);
    /* There are metrics, but no agents yet: opens the experience log. */
    int (*open_files)(struct training *t, struct err *err);
    /* All agents are ready. training_start_rollout follows. */
    void (*on_ready)(struct training *t);
    /* Everything is loaded. */
    int (*commit_resume)(struct training *t, struct err *err);
    /* The driver exists. */
    int (*open_outputs)(struct training *t, struct err *err);
    /* Before the first round and at each boundary. An error has ended the run. */
    int (*begin_round)(struct training *t, uint64_t env_steps);
    int (*on_row)(void *ctx, const struct metrics_row *row, struct err *err);
    int (*on_checkpoint)(void *ctx, const struct rollout_progress *at, struct err *err);
    /* All rounds are played. LIFE_EV_DONE follows. */
    void (*on_done)(struct training *t);
    /* Before the driver and the agents are stopped. */
    void (*on_failed)(struct training *t);
    /* No process is left. rc: what training_run returns. */
    void (*finish)(struct training *t, int rc);
};
extern const struct training_kind training_recorded, training_replayed;

struct training {
    enum life_state state; /* written by training_feed alone */
    const struct training_kind *kind;
    const struct training_args *args;
    struct training_result *result;
    struct err failure; /* the first error; code 0: none */
    uint64_t began_ns;

    const struct run_config *config; /* in force; args->config, or owned */
    struct training_changes changes;

    uv_loop_t loop;
    int has_loop;
    uv_timer_t tick;
    uv_timer_t space; /* retries to write to a full disk (training_life.c) */

    /* Signals and descriptors that the run watches (training_watch.c). */
    struct {
        uv_poll_t poll;
        int fd; /* of the signals that stop a run (signals.h) */
        uv_signal_t terminal_stop;
        int n_interrupts[2]; /* from others, from the keeper */
    } signals;
    struct {
        uv_poll_t poll;
        int is_watched;
    } keeper;
    struct {
        uv_poll_t poll;
        int fd; /* -1: the log is not watched */
    } log_watch;
    uv_timer_t memory_watch; /* data NULL: there is no limit */

    /* The run's parts, in the order in which training.c creates them; NULL: not yet. */
    struct journal *journal;
    struct vec_env *env;
    int draws_env;        /* evaluations of an external environment are drawn */
    int metrics_are_seen; /* whether env.metrics come was looked at */
    struct metrics *metrics;
    struct store *store;
    struct agent_specs specs;
    int agent_fd;            /* the agent executable */
    struct run_dir *logs_in; /* NULL: output of processes is kept in memory only */
    struct env_host *env_host;
    struct cluster *cluster; /* NULL: all processes run on this machine */
    struct agent_table *agents;
    struct run_saver *saver;
    struct graphs *graphs;
    struct restore *restore;
    struct training_asking *asking; /* of a replay (training_replay.c) */
    int replay_is_over;             /* on_value or on_round has returned 1 */
    struct rollout *rollout;
    struct training_sinks sinks;
    struct training_saves saves;
    struct training_rescue rescue;

    /* Whether the run will end with the bytes of an undisturbed run. */
    int committed; /* a resume is committed (always 1 in a new run): before that, nothing
                    * in the run directory changes */
    char *inexact; /* why it will not; NULL: it will */

    struct training_wait
        *waits; /* requests that wait for their answers (training_steer.c) */
    struct training_trace *trace; /* NULL: nothing is recorded (training_trace.c) */
    int lost_agent;               /* one was given up since the last tick */

    int sent_under_way;     /* RUN_EVENT_UNDER_WAY was sent */
    struct run_model model; /* what all events say, those of former supervisors, too */
    struct training_shown shown;
};

/* ---- training.c ---- */

/* The agents are ready: makes and starts the driver. */
void training_start_rollout(struct training *t);

/* ---- training_life.c: performs the actions of life_fsm.h ---- */

/* Feeds an event into the state machine. why: the error of LIFE_EV_FULL; otherwise NULL. */
void training_feed(struct training *t, enum life_event event, const struct err *why);
/* Stops the run with an error. Only the first error is kept. */
void training_fail(struct training *t, const struct err *err);
/* Callbacks of the driver. */
void training_on_paused(void *ctx, const struct rollout_progress *at);
void training_on_full(void *ctx, const struct err *why);
void training_on_done(void *ctx, int stopped);
/* Also called for a failed agent: saves a last checkpoint, if possible, before it fails. */
void training_on_failed(void *ctx, const struct err *why);

/* ---- training_watch.c: signals, the keeper, other processes that write to the log ---- */

/* Before anything else; the signals stay blocked. */
int training_take_signals(struct training *t, struct err *err);
void training_watch(struct training *t);
void training_unwatch(struct training *t);
/* The experience log, for writes by other processes. */
void training_watch_log(struct training *t);

/* ---- training_status.c: training_status ---- */

/* Updates the smoothed number of steps per second. */
void training_update_rate(struct training *t);
void training_free_status(struct training *t);

/* ---- training_steer.c: requests, and their answers ---- */

/* Ends the delays of restarts: starts these agents now, so that a request for a round
 * boundary need not wait for the delays, too. */
void training_end_restart_delays(struct training *t);
/* Asks the driver for the requested checkpoint, if there is one and it is due. */
void training_begin_checkpoint(struct training *t);
/* Answer the requests of that kind that wait. why NULL: the run has paused, or the
 * checkpoint of `step` is on the disk; otherwise the error. */
void training_answer_pause(struct training *t, const struct err *why);
void training_answer_checkpoint(struct training *t, uint64_t step, const struct err *why);
void training_answer_respawn(struct training *t, size_t agent);
/* The agent was given up before it was ready. */
void training_refuse_respawn(struct training *t, size_t agent, const char *why);
void training_answer_env_respawn(struct training *t, const char *process);
void training_answer_all(struct training *t);
/* Passes the requests from before the driver existed to the driver. */
void training_begin_requests(struct training *t);

/* ---- training_trace.c ---- */

/* At the beginning of a round: begins or ends the requested recording, if there is one. */
void training_trace_round(struct training *t, uint64_t round);
/* At the end of the run: answers the request of an unfinished recording with an error. */
void training_trace_end(struct training *t);

/* ---- training_processes.c: events of agents and of environment processes ---- */

void training_make_env_host(struct training *t);
void training_free_env_host(struct training *t);
/* Resuming: plans the mode changes that the journal records after the checkpoint. */
int training_plan_mode_changes(struct training *t, struct err *err);
/* Callback of the agent table. */
void training_on_agent_event(void *ctx, const struct agent_event *e);

/* ---- training_cluster.c: the nodes of a cluster ---- */

/* Listens for them, if the configuration has any, and places the agents. */
int training_open_cluster(struct training *t, struct err *err);
/* Passes the columns of the log that each agent reads from the driver to the cluster. */
void training_pass_reads(struct training *t);

/* ---- training_report.c: events and messages for journal and observers ---- */

/* Sets the event's time. Returns an error if the event must be committed
 * (RUN_EVENT_COMMITTED) and the journal could not be written. */
int training_event_at(struct training *t, const struct run_event *e, struct err *err);
/* Of a resume, before its first event: folds those of the supervisors before. */
void training_read_history(struct training *t);
/* Send a supervisor's first and last event; rc: the return value of training_run. */
void training_journal_begin(struct training *t);
void training_journal_end(struct training *t, int rc);
/* Records why the run fails. */
void training_record_failure(struct training *t, const struct err *why);
/* Once the agents are ready: records in the journal, and so in the model, if only this kind
 * of machine gives these bytes. */
void training_check_portable(struct training *t);
/* Records what agents may do by their key `confine`. */
void training_note_opened(struct training *t);
double training_now_unix(void);
/* The joint environment steps so far. */
uint64_t training_steps(const struct training *t);
/* Sends one line to the log and, as an event, to the observers. */
void training_log(struct training *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* training_log of an error that does not end the run. */
void training_log_error(struct training *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Calls on_tick of the observers. */
void training_refresh(struct training *t);
/* Callbacks of the driver; ctx: struct training. */
void training_on_evaluation(void *ctx, const struct evaluation_result *result);
void training_on_evaluation_begin(void *ctx, const struct vec_env *env, size_t copy);
void training_on_evaluation_step(void *ctx, const struct vec_env *env,
                                 const struct env_step *step);

/* ---- training_set.c: requests to change the configuration ---- */

/* When the run ends: answers those that wait. */
void training_refuse_changes(struct training *t);

/* ---- training_change.c: configurations, and the changes that take effect ---- */

struct live_config training_live(const struct training *t); /* borrows from t */
void training_pending_done(struct pending_list *p);
void training_pending_add(struct pending_list *p, const struct training *t,
                          const struct planned_change *c);
/* At the end of a run that is done: reports the changes that were accepted and never made. */
void training_tell_left(struct training *t);
/* Records the plan of a new run in the journal, where a resume finds it. */
int training_journal_plan(struct training *t, struct err *err);
/* Writes SET or WAITS with these settings into the journal, if there are any. at:
 * MEMBER_NO_U64 if they have no step. */
int training_write_settings(struct training *t, enum run_event_kind kind, uint64_t at,
                            const struct config_settings *s, struct err *err);

/* Whether the configuration is possible after each step of the plan. ERR_CONFIG. */
int training_check_plan(struct training *t, const struct change_plan *p, struct err *err);
/* Adds to *plan, a copy of p, what waits there for the agent's respawn, as changes of the next
 * round; *ret: these, or none. Checks the plan, if there are any. ERR_CONFIG. */
int training_plan_waiting(struct training *t, const struct change_plan *p, size_t agent,
                          struct change_plan *plan, struct config_settings *ret,
                          struct err *err);
/* Plans the changes that wait for a respawn of this agent for the next round; a new
 * process then begins with them. Returns 1, or 0 if there are none. */
int training_apply_waiting(struct training *t, size_t agent, struct err *err);
int training_begin_config(struct training *t, struct err *err);
void training_end_config(struct training *t);
/* Passes the step of the next planned change to the driver, once that exists. */
void training_plan_changes(struct training *t);
/* Replaces the run's plan by *p, which it takes. */
void training_take_plan(struct training *t, struct change_plan *p);
/* Tells the keeper run.watchdog. */
void training_send_watchdog(const struct training *t);
/* Callbacks of the driver. */
int training_on_change(void *ctx, const struct rollout_progress *at, struct err *err);
struct run_length training_length(void *ctx, uint64_t env_steps);
/* Applies the change that could not be applied before, if it now can be, and lets the
 * driver continue. */
void training_retry_change(struct training *t);

/* The configuration in force as YAML, for a checkpoint; valid until it changes. */
const char *training_config_yaml(struct training *t);
/* Writes t->wanted to config.yaml. */
int training_write_config(struct training *t, struct err *err);

/* ---- training_replay.c ---- */

void training_replay_free(struct training *t);

/* ---- training_resume.c: resuming from a checkpoint ---- */

/* Called when the journal exists, before journal_begin. A new run is committed at once. */
int training_begin_resume(struct training *t, struct err *err);
/* Records that the run will not end with the bytes of an undisturbed one, because there is another
 * process of an agent with `exact: reported`; since: "a process was replaced". */
void training_lose_bits(struct training *t, const char *agent, const char *since);
/* Called before the agents start: hands them their blocks and positions. */
int training_preload(struct training *t, struct err *err);
/* Called when the driver exists, before it starts: loads its state, then commits. */
int training_load_state(struct training *t, struct err *err);
/* Begins to change the run directory: config.yaml, journal; removes later checkpoints and
 * rows. */
int training_commit_resume(struct training *t, struct err *err);

/* ---- training_deleted.c: the run directory was deleted ---- */

/* If it was deleted, stops the run at the next round boundary. */
void training_check_dir(struct training *t);
/* If the newest checkpoint was deleted with it, begins to write it again, into
 * args->rescue. Returns 1, or 0: there is nothing to rescue. */
int training_rescue(struct training *t);
/* Sets the result and the failure of a run whose directory was deleted. */
void training_fail_if_deleted(struct training *t);
void training_end_rescue(struct training *t);

/* ---- training_save.c: checkpoints ---- */

void training_make_saver(struct training *t);
/* Callback of the driver. */
int training_on_checkpoint(void *ctx, const struct rollout_progress *at, struct err *err);
/* Takes the checkpoint that could not be taken before, if it now can be, and lets the
 * driver continue. */
void training_retry_checkpoint(struct training *t);
/* A run that is done or stopped has failed if the checkpoint of its last step could not be
 * written. Called before requests that wait for its end are answered. */
void training_fail_if_unsaved(struct training *t);
/* After a failure: saves the present state as a last checkpoint, or logs why it cannot.
 * Must be called before the driver and the agents are stopped. */
void training_save_last(struct training *t);
/* Writes that checkpoint if it had to wait for another one. */
void training_write_last(struct training *t);

#endif
