/* study_view.h - shows a person how a study is doing, on a terminal: a view that redraws
 * itself below the messages.
 *
 *     lr  ###....   42 %  rung 1 of 3  9 of 24 runs  12,400/s  0:29 left
 *     best so far: 7 with -19.86, learning_rate 0.003, discount 0.95
 *     trial  state           step     value  learning_rate  discount
 *         8  running        8,200         -         0.0012       0.9
 *         7  done          12,800    -19.86          0.003      0.95
 *     +22 more: 1 running, 6 done, 15 waiting
 *
 * Order    running trials first, then those with a value, the best first, then the others.
 *          Lines are cut at the terminal's width, and columns that do not fit are left out.
 * Steps    of a trial with several seeds: the mean. Live runs are asked for theirs once a
 *          second.
 */
#ifndef SUPERVISOR_CLI_STUDY_VIEW_H
#define SUPERVISOR_CLI_STUDY_VIEW_H

#include "common/wire/cursor.h"
#include "supervisor/study/study_stage.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- the layout; no I/O ---- */

struct study_view_trial {
    size_t trial;
    const char *state; /* "running", "done", "failed", "stopped", "waiting" */
    double steps;
    double value; /* NaN: not known */
};

struct study_frame {
    const char *name;
    const char *stage;                    /* "rung 1 of 3"; "": there is only one */
    double part;                          /* of all steps, 0 to 1; below 0: not known */
    size_t n_ended, n_all;                /* runs */
    double rate, seconds_left;            /* steps per second; NaN: not known */
    const struct study_view_trial *trial; /* in order */
    size_t n;
    const struct study_view_trial *best; /* NULL: none has a value */
    size_t n_keys;
    const char *(*key)(void *ctx, size_t key); /* its short name */
    const char *(*setting)(void *ctx, size_t trial, size_t key);
    void *ctx;
    int columns, rows; /* of the terminal */
    int colour, utf8;
    size_t top; /* how many trials are scrolled past */
};

/* Appends at most rows - 1 lines to *ret, and returns how many; *ret_shown: how many trials
 * have one. */
int study_layout(const struct study_frame *f, struct wbuf *ret, size_t *ret_shown);

/* ---- the view ---- */

struct study_view; /* opaque */

/* at: the rung or round, which may go on to the next before study_view_begin. run_steps: of
 * each run; 0: not known. is_drawn: the view is drawn on stderr; returns NULL if that is no
 * terminal that can redraw. Otherwise only study_view_print shows it. at and name are
 * borrowed. */
struct study_view *study_view_new(const struct study_stage *at, const char *name,
                                  uint64_t run_steps, int is_drawn);
void study_view_free(struct study_view *v); /* clears it; NULL is fine */
/* Begins the stage: looks at all of its runs. */
void study_view_begin(struct study_view *v);
/* Stores how far a run of the stage is that has begun or ended; state: as in struct
 * study_view_trial. */
void study_view_run(struct study_view *v, size_t run, const char *state, uint64_t steps,
                    double value);
/* Prints a line above the view. */
void study_view_message(struct study_view *v, const char *text, size_t len);
/* Call it ten times a second: reads keys, and now and then how far live runs are. */
void study_view_tick(struct study_view *v);
/* How many runs of the stage have come to its end, failed or were stopped. */
size_t study_view_n_ended(const struct study_view *v);
/* Prints the view with all trials or, is_short, its first two lines. state: of the study,
 * "running", "stopped" or "done". */
void study_view_print(struct study_view *v, const char *state, int is_short, FILE *to);
/* Prints an object with the same, and all trials, on stdout. */
void study_view_print_json(struct study_view *v, const char *state);
/* Before this process stops: leaves the terminal as it was. The next tick continues. */
void study_view_suspend(struct study_view *v);

#endif
