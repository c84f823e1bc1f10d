/* training_internal.h - a live run: what the training_*.c files share. */
#ifndef SUPERVISOR_RUN_TRAINING_INTERNAL_H
#define SUPERVISOR_RUN_TRAINING_INTERNAL_H

#include "supervisor/env/env_host.h"
#include "supervisor/metrics/sinks.h"
#include "supervisor/run/agent_specs.h"
#include "supervisor/run/journal.h"
#include "supervisor/run/life_fsm.h"
#include "supervisor/run/restore.h"
#include "supervisor/run/training.h"
#include "supervisor/save/graphs.h"
#include "supervisor/save/run_saver.h"
#include "supervisor/store/store.h"

#include <uv.h>

enum { TRAINING_N_SIGNALS = 3 };

/* Something happens now (run_event.h): the journal has it, then the observers.
 *
 *     training_event(t, FAILED, .error = err->msg);
 */
#define training_event(t, kind_, ...)                                                    \
    training_event_at(                                                                   \
        (t),                                                                             \
        &(struct run_event){.kind = RUN_EVENT_##kind_,                                   \
                            .env_steps = training_steps(t) __VA_OPT__(, ) __VA_ARGS__},  \
        NULL)

enum training_process { TRAINING_AGENT, TRAINING_ENVIRONMENT };

struct training_state { /* the driver's, for run.state */
    uint8_t *bytes;     /* NULL: none */
    size_t len;
};

struct pending_list { /* owns keys and values */
    struct run_pending *list;
    size_t n;
};

struct training {
    enum life_state state; /* written by training_feed alone */
    const struct training_args *args;
    struct training_result *result;
    struct err failure; /* the first; code 0: none */
    uint64_t began_ns;

    /* Configurations (training_change.c). */
    const struct run_config *config; /* in force; args->config, or owned */
    char *config_yaml;               /* the same as YAML; NULL: to be written */
    struct run_config wanted;        /* with what is agreed for later: config.yaml */
    struct change_plan plan;
    struct pending_list pending, cancelled; /* as told last */
    const char **agent_names;               /* for who reads config.yaml again */

    uv_loop_t loop;
    uv_timer_t tick;
    uv_timer_t space; /* until a full disk is tried again (training_life.c) */

    /* What comes from outside (training_watch.c). */
    struct {
        uv_signal_t handles[TRAINING_N_SIGNALS], terminal_stop;
        int n_interrupts;
        int had_terminal; /* when it began */
    } signals;
    struct {
        uv_poll_t poll;
        int is_watched;
    } keeper;
    struct {
        uv_poll_t poll;
        int fd; /* -1: the log is not watched */
    } log_watch;

    /* Its parts, in the order in which training.c makes them; NULL: not made yet. */
    struct journal *journal;
    struct vec_env *env;
    struct metrics *metrics;
    struct store *store;
    struct agent_specs specs;
    int agent_fd; /* the agent executable */
    struct env_host *env_host;
    struct agent_table *agents;
    struct run_saver *saver;
    struct graphs *graphs;
    struct restore *restore;
    struct rollout *rollout;
    struct csv_sink *csv;
    struct event_sink *events;

    /* Checkpoints (training_save.c). */
    int64_t saved_step;          /* of the newest committed one; -1: none */
    struct training_state last;  /* waits to be written, as the run's last */
    enum rollout_hold last_hold; /* which blocks go with it */

    /* The run directory was deleted (training_gone.c). */
    int is_gone;
    struct run_dir *rescue; /* what goes on in its place; NULL: nothing does */
    int64_t rescued_step;   /* of the newest checkpoint there; -1: none */

    /* Whether it ends with the bytes of an undisturbed run, and where. */
    int committed; /* from here on the run directory may change; before, a resume that
                     * fails leaves it as it was */
    char *inexact; /* why it will not end as an undisturbed run; NULL: it will */
    int gave_up;   /* some agent, at some time */
    char *not_portable; /* why its bytes are promised on this kind of machine only; NULL:
                         * wherever the numerics version is the same */

    /* Requests (training_steer.c, training_trace.c). */
    struct training_wait *waits;
    int wants_checkpoint;         /* somebody waits for one that has not begun */
    uint64_t checkpoint_next_ms;  /* when the next that is asked for may begin */
    struct training_trace *trace; /* NULL: nobody records */

    /* What others see of it (training_status.c, training_report.c). */
    int told_under_way; /* RUN_EVENT_UNDER_WAY was sent */
    struct {
        uint64_t at_ms, steps;
        double per_second;
    } rate;
    struct run_agent_status *agent_status; /* [specs.n] as last asked for */
    struct run_agent_status *env_status;   /* of the environments' processes */
    char **last_exit;                      /* [specs.n] NULL: it never ended */
    struct training_env_exit *env_exits;
};

/* ---- training_life.c: what happens, and what follows from it ---- */

/* why: of FULL; otherwise NULL. */
void training_feed(struct training *t, enum life_event event, const struct err *why);
/* The run cannot go on: the first failure is kept, and everything is stopped. */
void training_fail(struct training *t, const struct err *err);
/* Callbacks of the driver. */
void training_on_paused(void *ctx, const struct rollout_progress *at);
void training_on_full(void *ctx, const struct err *why);
void training_on_done(void *ctx, int stopped);
/* Also of the agents: where the run stands can be saved, as far as it is known. */
void training_on_failed(void *ctx, const struct err *why);

/* ---- training_watch.c: signals, the keeper, others who write into the log ---- */

void training_watch(struct training *t);
void training_unwatch(struct training *t);

/* ---- training_status.c: where it stands ---- */

void training_take_rate(struct training *t);
void training_free_status(struct training *t);

/* ---- training_steer.c: requests, and their answers ---- */

/* Starts agents that wait for the delay of a restart: whoever waits for a boundary is not
 * to wait for that, too. */
void training_hurry(struct training *t);
/* The checkpoint that somebody waits for, if it is time. */
void training_begin_checkpoint(struct training *t);
/* Answers: the run stands still, or somebody let it continue (why). */
void training_settle_pause(struct training *t, const struct err *why);
/* Answers: a checkpoint is on the disk, or failed (why). */
void training_settle_checkpoint(struct training *t, uint64_t step, const struct err *why);
void training_settle_respawn(struct training *t, size_t agent);
void training_settle_env_respawn(struct training *t, const char *process);
void training_settle_end(struct training *t);
/* Hands the driver the requests from before it existed. */
void training_begin_requests(struct training *t);

/* ---- training_trace.c ---- */

/* A round begins: the recording begins or ends with it, if one is wanted. */
void training_trace_round(struct training *t, uint64_t round);
/* The run ends: a recording that is not finished is answered with an error. */
void training_trace_end(struct training *t);

/* ---- training_processes.c: environment processes; agents given up, or taken back ---- */

void training_make_env_host(struct training *t);
void training_free_env_host(struct training *t);
/* The last exit of a process of an external environment (run_event_exit_text): NULL there, or
 * malloc'd. */
char **training_env_last_exit(struct training *t, const char *process);
/* Events GIVE_UP, TAKE_BACK and TURNED: journal and messages. */
void training_note_mode_change(struct training *t, const char *name,
                               const struct agent_event *e);
/* Resuming: plans the mode changes that the journal has from after the checkpoint. */
int training_plan_mode_changes(struct training *t, struct err *err);

/* ---- training_report.c: what happens, for journal and observers ---- */

/* The time is set here. Returns an error where the event's kind is committed, and the
 * journal could not be written. */
int training_event_at(struct training *t, const struct run_event *e, struct err *err);
/* A supervisor's first event and its last one; rc: what training_run returns. */
void training_journal_begin(struct training *t);
void training_journal_end(struct training *t, int rc);
/* The agents are ready: finds out, and writes down, whether the run's bytes are those of
 * every machine. */
void training_judge_portable(struct training *t);
double training_now_unix(void);
/* Where the run stands: joint steps. */
uint64_t training_steps(const struct training *t);
/* One line for the observers and for the log. */
void training_say(struct training *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* The same of something that went wrong, and that the run lives with. */
void training_complain(struct training *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Lets the observer see where the run stands. */
void training_show(struct training *t);
/* Callbacks of the driver (ctx: struct training) and of the agents. */
/* Events and lines of a process. */
void training_note_process(struct training *t, enum training_process whose,
                           const char *name, const struct agent_event *e);
int training_on_row(void *ctx, const struct metrics_row *row, struct err *err);
void training_on_evaluation(void *ctx, const struct evaluation_result *result);
void training_on_agent_event(void *ctx, const struct agent_event *e);

/* ---- training_change.c: the configuration changes ---- */

/* What waits for a respawn of this agent is made before the next round, by a new process
 * of it. Returns 1, or 0: nothing waits. */
int training_apply_waiting(struct training *t, size_t agent, struct err *err);
int training_begin_config(struct training *t, struct err *err);
void training_end_config(struct training *t);
/* The driver is there: it is told of what is planned. */
void training_plan_changes(struct training *t);
/* Callback of the driver. */
int training_on_change(void *ctx, const struct rollout_progress *at, struct err *err);
/* What the change waited for may be over: makes it then, and the driver goes on. */
void training_retry_change(struct training *t);

/* The configuration in force as YAML, for a checkpoint; good until it changes. */
const char *training_config_yaml(struct training *t);
/* config.yaml is what is agreed. */
int training_write_config(struct training *t, struct err *err);

/* ---- training_resume.c: going on from a checkpoint ---- */

/* The journal is there, and has not begun. A run that is not resumed stands at once. */
int training_begin_resume(struct training *t, struct err *err);
/* The driver is there, and not yet started. */
int training_load_state(struct training *t, struct err *err);

/* ---- training_gone.c: the run directory is deleted meanwhile ---- */

/* If it was deleted, the run stops at the next round boundary. */
void training_check_dir(struct training *t);
/* If the newest checkpoint was deleted with it, begins to write that once more, into
 * args->rescue. Returns 1, or 0: there is nothing to rescue. */
int training_rescue(struct training *t);
/* The result of a run whose directory was deleted is a failure. */
void training_fail_if_gone(struct training *t);
void training_end_rescue(struct training *t);

/* ---- training_save.c: checkpoints ---- */

void training_make_saver(struct training *t);
/* Callback of the driver. */
int training_on_checkpoint(void *ctx, const struct rollout_progress *at, struct err *err);
/* What the checkpoint waited for may be over: takes it then, and the driver goes on. */
void training_retry_checkpoint(struct training *t);
/* Something failed: what can be saved of where the run stands is, or it is said why not.
 * To be called before the driver and the agents are stopped. */
void training_save_last(struct training *t);
/* What that could not write, because another was being written. */
void training_write_last(struct training *t);

#endif
