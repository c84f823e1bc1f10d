/* run_model.h - what a run is and what it did, folded from its events one after another.
 *
 * Sources   the journal of a run that is over or does not answer (rundir/run_record.h). A live run
 *           folds the journal that it resumes, then its own events (training_event_at): both say
 *           the same, whoever supervised it.
 * Fold      run_event_fold (run_event.h): the row of a kind in run_event.c names a function below.
 * Of whom   state, end, failure, exits and `restarts` are of the newest supervisor; what began,
 *           counts, deaths and seconds of all.
 * Lost      the time that deaths and slow answers cost: what a process had spent on the request
 *           that it died of, and from its end until the next one had taken its place. A slow
 *           answer, one that took more than half of respond_within, counts in full.
 * Names     environment processes and agents have different ones.
 */
#ifndef SUPERVISOR_EVENTS_RUN_MODEL_H
#define SUPERVISOR_EVENTS_RUN_MODEL_H

#include "supervisor/events/run_event.h"
#include "supervisor/events/run_status.h"

/* The most agents, environment processes and nodes; others are left out. */
#define RUN_MODEL_PROCESSES_MAX 16384

struct run_processes { /* private */
    struct run_agent_status *list;
    size_t n, cap, last;
};

struct run_model {
    struct run_status status; /* as far as events tell it; the model owns its texts */
    uint64_t starts;          /* of supervisors */
    uint64_t deaths; /* of processes, nodes and supervisors; not at the end of the run */
    double seconds;  /* of the supervisors that have ended */

    int gave_up,
        is_open; /* private from here on; is_open: the newest one has no end yet */
    char session[LOG_TIME_BYTES]; /* when it began */
    char newest[LOG_TIME_BYTES];  /* the time of the last event */
    struct run_processes agents, environments;
    struct run_node_status *nodes; /* [status.n_nodes] */
    struct run_return *returns;    /* [RUN_RETURNS_MAX]; NULL: there are none */
};

void run_model_init(struct run_model *m);
void run_model_done(struct run_model *m);

/* Seconds from the newest supervisor's first event to its last; 0 if its end is recorded. */
double run_model_open_seconds(const struct run_model *m);
/* No supervisor is left: neither is a process. */
void run_model_end_processes(struct run_model *m);
/* The agent or environment process of that name, until the next event; NULL: there is none. */
const struct run_agent_status *run_model_process(const struct run_model *m,
                                                 const char *name);

/* Folds, for the table of kinds. state: what the row says of the run, process or node after the
 * event. They return 0 for an event that tells nothing: the first start, an end that everybody
 * expects or that is recorded already. */
typedef int run_fold(struct run_model *m, const struct run_event *e, const char *state);
run_fold run_fold_begin, run_fold_end, run_fold_supervisor_exit, run_fold_run,
    run_fold_done, run_fold_failed, run_fold_stalls, run_fold_inexact,
    run_fold_not_portable;
run_fold run_fold_row;
run_fold run_fold_process, run_fold_spawn, run_fold_ready, run_fold_exit, run_fold_slow,
    run_fold_mode, run_fold_skip, run_fold_node, run_fold_node_lost;
/* Whether a column of the metrics has a team's return. */
int run_model_is_return(const char *column);
/* A value of a column of the metrics: that of a team's return is kept, others are ignored. */
void run_model_note_return(struct run_model *m, const char *column, double value);
/* What every event tells: its time and step. */
void run_model_note(struct run_model *m, const struct run_event *e);

#endif
