/* training_internal.h - one run's own: what its files share. */
#ifndef SUPERVISOR_RUN_TRAINING_INTERNAL_H
#define SUPERVISOR_RUN_TRAINING_INTERNAL_H

#include "supervisor/env/env_host.h"
#include "supervisor/metrics/sinks.h"
#include "supervisor/run/agent_specs.h"
#include "supervisor/run/checkpointer.h"
#include "supervisor/run/graphs.h"
#include "supervisor/run/journal.h"
#include "supervisor/run/restore.h"
#include "supervisor/run/training.h"
#include "supervisor/store/store.h"

#include <uv.h>

enum { TRAINING_N_SIGNALS = 3 };

/* For all agents together, from the first polite word to the last SIGKILL. */
enum { TRAINING_STOP_DEADLINE_MS = 5000 };

/* Calls a callback of every observer that has it. */
#define training_tell(t, callback, ...)                                                  \
    do {                                                                                 \
        for (size_t o_ = 0; o_ < (t)->args->n_observers; o_++) {                         \
            const struct training_observer *to_ = &(t)->args->observers[o_];             \
                                                                                         \
            if (to_->callback != NULL)                                                   \
                to_->callback(to_->ctx __VA_OPT__(, ) __VA_ARGS__);                      \
        }                                                                                \
    } while (0)

struct training_state { /* the driver's, for run.state */
    uint8_t *bytes;     /* NULL: none */
    size_t len;
};

struct training {
    const struct training_args *args;
    const struct run_config *config; /* in force; args->config, or owned */
    struct run_config wanted;        /* with what is agreed for later: config.yaml */
    struct change_plan plan;
    int change_waits; /* the driver stands before a round until an agent is back */
    struct training_result *result;
    struct err failure; /* the first; code 0: none */

    uv_loop_t loop;
    uv_timer_t tick;
    uv_timer_t space; /* until a full disk is tried again */
    uv_signal_t signals[TRAINING_N_SIGNALS];
    int interrupts;
    int has_terminal; /* when it began */
    uv_signal_t terminal_stop;
    uv_poll_t keeper;
    int has_keeper;

    struct vec_env *env;
    struct env_host *env_host;
    int env_stopped;
    struct training_env_exit *env_exits;
    struct store *store;
    uv_poll_t log_watch;
    int log_watch_fd; /* -1: the log is not watched */
    struct metrics *metrics;
    struct csv_sink *csv;
    struct event_sink *events;
    struct journal *journal;
    struct agent_specs specs;
    int agent_fd;
    struct agent_table *agents;
    struct graphs *graphs;
    struct restore *restore;
    struct rollout *rollout;
    struct checkpointer *checkpointer;
    char *config_yaml; /* of the configuration in force */
    int waits_for_space;
    int checkpoint_waits;       /* the driver stands at a boundary until it is taken */
    int64_t saved_step;         /* of the newest committed checkpoint; -1: none */
    struct training_state last; /* waits to be written, as the run's last */
    enum rollout_hold last_hold;
    int gave_up;   /* some agent, at some time */
    int stands;    /* it is the run now; before, a resume that fails changes nothing */
    char *inexact; /* why it will not end as an undisturbed run; NULL: it will */
    char *not_portable; /* why its bytes are promised on this kind of machine only; NULL:
                         * wherever the numerics version is the same */
    int is_under_way;   /* observers were told so */
    int is_gone;        /* the run directory was deleted */
    struct run_dir *rescue; /* what goes on in its place; NULL: nothing does */
    int64_t rescued_step;   /* of the newest checkpoint there; -1: none */
    int stopping;
    int agents_stopped;
    int is_open; /* observers were told so, and not yet that it is over */
    uint64_t began_ns;

    int wants_pause,
        paused;           /* asked for, also before there is a driver; standing still */
    int wants_checkpoint; /* somebody waits for one that is not begun */
    uint64_t checkpoint_next_ms; /* when the next that is asked for may begin */
    struct training_wait *waits;
    struct training_trace *trace; /* NULL: nobody records */
    struct {
        uint64_t at_ms, steps;
        double per_second;
    } rate;
    struct run_agent_status *agent_status; /* [specs.n] as last asked for */
    struct run_agent_status *env_status;   /* of the environments' processes */
    char **last_exit;                      /* [specs.n] NULL: it never ended */
};

/* The run cannot go on: the first failure is kept, and everything is stopped. */
void training_fail(struct training *t, const struct err *err);

void training_stop_agents(struct training *t, uint64_t deadline_ms);
/* Agents and environments have ended: one of the two. */
void training_on_processes_stopped(struct training *t);

/* Nothing is left to wait for: observers are told, and those who asked for something. */
void training_close_if_over(struct training *t);

/* ---- training_status.c: where it stands ---- */

void training_take_rate(struct training *t);
/* "SIGKILL", "code 3" or "memory_limit" instead of what *text was. */
void training_note_exit(char **text, const struct agent_event *e);
void training_free_status(struct training *t);

/* ---- training_steer.c: what others ask for ---- */

/* Callback of the driver. */
/* The checkpoint that somebody waits for, if it is time. */
void training_begin_checkpoint(struct training *t);
void training_on_paused(void *ctx, const struct rollout_progress *at);
/* A checkpoint is on the disk, or not (why). */
void training_settle_checkpoint(struct training *t, uint64_t step, const struct err *why);
void training_settle_respawn(struct training *t, size_t agent);
void training_settle_env_respawn(struct training *t, const char *process);
void training_settle_end(struct training *t);
/* The driver is there, and not yet started: what was asked for before. */
void training_begin_requests(struct training *t);

/* ---- training_trace.c ---- */

/* A round begins: it is the first to be recorded, or the first that is not. */
void training_trace_round(struct training *t, uint64_t round);
/* The run ends: who waits for a recording gets none. */
void training_trace_end(struct training *t);

/* ---- training_env.c: the processes that a foreign environment lives in ---- */

void training_make_env_host(struct training *t);
void training_free_env_host(struct training *t);
/* The last exit of a process, or NULL. */
const char *training_env_last_exit(const struct training *t, const char *process);

/* ---- training_log.c: others who write into the experience log ---- */

void training_watch_log(struct training *t);
void training_unwatch_log(struct training *t);

/* ---- training_keeper.c ---- */

void training_watch_keeper(struct training *t);
void training_unwatch_keeper(struct training *t);

/* ---- training_report.c: what is told ---- */

/* The first and the last line of a supervisor in the journal (run_file_status reads
 * them); rc: what training_run returns. No journal: nothing. */
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
/* Journal and lines of a process: kind is "agent" or "environment". */
void training_note_process(struct training *t, const char *kind, const char *name,
                           const struct agent_event *e);
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
/* What a change waited for may be over. */
void training_retry_change(struct training *t);

/* config.yaml is what is agreed. */
int training_write_config(struct training *t, struct err *err);

/* ---- training_resume.c: going on from a checkpoint ---- */

/* The journal is there, and has not begun. A run that is not resumed stands at once. */
int training_begin_resume(struct training *t, struct err *err);
/* The driver is there, and not yet started. */
int training_load_state(struct training *t, struct err *err);

/* ---- training_gone.c: the run directory is deleted meanwhile ---- */

/* If it was, the run ends at the next round boundary. */
void training_check_dir(struct training *t);
/* What was written last went with it: it is written once more, elsewhere. 0: it did not,
 * or cannot be. */
int training_rescue(struct training *t);
/* All is over, but for the journal: what has become of it. */
void training_fail_if_gone(struct training *t);
void training_end_rescue(struct training *t);

/* ---- training_turns.c: agents that are given up, or taken back ---- */

void training_note_turn(struct training *t, const char *name,
                        const struct agent_event *e);
/* Those that the journal tells of, after the checkpoint, are made again. */
int training_plan_turns(struct training *t, struct err *err);

/* ---- training_save.c: checkpoints ---- */

void training_make_checkpointer(struct training *t);
/* Callback of the driver. */
int training_on_checkpoint(void *ctx, const struct rollout_progress *at, struct err *err);
/* What a checkpoint waited for may be over. */
void training_retry_checkpoint(struct training *t);
/* Something failed: what can be saved of where the run stands is, or it is said why not.
 * To be called before the driver and the agents are stopped. */
void training_save_last(struct training *t);
/* Callback of the driver: there is no space for its rows. It tries again now and then. */
void training_on_full(void *ctx, const struct err *why);
/* Asked to stop, it need not wait any longer. */
void training_stop_without_space(struct training *t);

#endif
