/* run_saver.h - writes a run's checkpoints in the background, one at a time.
 *
 * Begin    At a round boundary: copies the agents' blocks and the run's sections of
 *          run.state. Training waits only for these copies.
 * Write    On a thread of libuv's pool, which only touches files: checkpoint_write, then
 *          older checkpoints and rows are removed (retention.h).
 * Sides    A resume does not make again what a run wrote up to the checkpoint: rows, events,
 *          pictures. So the write begins only when all of that is written (is_ready), and
 *          syncs it first.
 * Sync     After a failed sync of the log or of these files, the kernel may have dropped what
 *          it could not write, and a later sync does not say so: ERR_CORRUPT.
 * Log      A checkpoint is committed only if every row that updates can have drawn since
 *          the previous checkpoint is still as it was appended. So lasting damage to the
 *          file affects neither the weights nor the window of a committed checkpoint.
 * Loss     A caller that begins a checkpoint at each due boundary, and waits there while
 *          another is being written, loses at most one interval in a crash; while one is
 *          being written, at most two.
 * End      uv_run does not return while a checkpoint is being written.
 * Threads  loop thread, except for the writing.
 */
#ifndef SUPERVISOR_SAVE_RUN_SAVER_H
#define SUPERVISOR_SAVE_RUN_SAVER_H

#include "common/numerics/numerics.h"
#include "supervisor/metrics/sinks.h"
#include "supervisor/save/checkpoint_write.h"
#include "supervisor/save/retention.h"

#include <uv.h>

struct run_saver; /* opaque */

struct run_saver_args { /* all borrowed until run_saver_free */
    uv_loop_t *loop;
    const char *dir; /* the run's checkpoints/ */
    const char
        *sides[2]; /* the run's metrics/ and renders/, which may be missing; or NULL */
    struct event_folder *weights; /* for histograms; NULL: there are none */
    struct store *store;
    struct retention keep;
    /* Whether all that the run wrote beside up to that step is in its files; run_saver_ready
     * is called when that may have become so. NULL: it always is. */
    int (*is_ready)(void *ctx, uint64_t step);
    /* Called from the loop when a checkpoint was committed (why NULL) or has failed.
     * ERR_CORRUPT: the experience log, or a file of `sides`, is damaged; every later one fails
     * likewise. */
    void (*on_written)(void *ctx, uint64_t step, const struct err *why);
    /* Called from the loop after run_saver_check_log; why NULL: the log is intact. */
    void (*on_log_checked)(void *ctx, const struct err *why);
    void *ctx;
};

struct run_saver *run_saver_new(const struct run_saver_args *args);
void run_saver_free(struct run_saver *s); /* not busy; NULL is fine */

/* A checkpoint is being written, or the log is being checked. NULL: 0. */
int run_saver_is_busy(const struct run_saver *s);

/* A run at a round boundary. Borrowed for the call, except the agents' names,
 * descriptions and graphs, which are borrowed until the checkpoint is written. */
struct save_point {
    uint64_t step;
    const struct checkpoint_agent *agents; /* the same ones each time */
    size_t n_agents;
    const void *rollout; /* rollout_state_save */
    size_t rollout_bytes;
    const char *build_id, *fingerprint, *config_yaml;
    enum numerics numerics;
    const char *inexact;      /* NULL: the run is exact */
    const void *evaluations;  /* verdict_save */
    uint64_t best;            /* retention.best, from this checkpoint on */
    size_t evaluations_bytes; /* 0: no section */
    /* Writes histograms of the agents' weights to the event files, tagged by the variables' names,
     * if the time, in seconds since 1970, is not 0. A failure is a warning. */
    double histograms_unix;
};
/* Copies p and begins to write it; not while busy. ERR_NOMEM: no write has begun. */
int run_saver_begin(struct run_saver *s, const struct save_point *p, struct err *err);

/* Begins a write that waits for args.is_ready, if it is ready. */
void run_saver_ready(struct run_saver *s);

/* Verifies the log's window without writing a checkpoint, as soon as the saver is free. */
void run_saver_check_log(struct run_saver *s);

/* For a run whose directory was deleted: writes later checkpoints to `dir`, and after
 * each a copy of the experience log to the path `log`. Both are borrowed, as args are. */
void run_saver_redirect(struct run_saver *s, const char *dir, const char *log);
/* 1 if the newest checkpoint that was begun went to that directory. */
int run_saver_is_redirected(const struct run_saver *s);
/* Begins to write the newest checkpoint again; borrows the same as run_saver_begin.
 * Returns 0 if there is none, or the saver is busy. */
int run_saver_repeat(struct run_saver *s);

#endif
