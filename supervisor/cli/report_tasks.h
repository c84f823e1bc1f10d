/* report_tasks.h - algorithms compared over several tasks (supervisor/metrics/task_stats.h).
 *
 * Value   of a run: the mean of its metric in the last tenth of its steps.
 * Score   (value - low) / (high - low), with the bounds of the run's task: those given or, for a
 *         task without, the lowest and the highest value of all reported runs of the task. An
 *         algorithm's scores are comparable only with those of one report, unless bounds are
 *         given; they may be below 0 or above 1 then.
 * Runs    every algorithm has a run in every task, and equally many in all of them.
 */
#ifndef SUPERVISOR_CLI_REPORT_TASKS_H
#define SUPERVISOR_CLI_REPORT_TASKS_H

#include "supervisor/cli/report_trials.h"
#include "supervisor/metrics/json.h"
#include "supervisor/metrics/task_stats.h"

#include <stddef.h>
#include <stdio.h>

struct report_task {
    const char *name, *metric;
    size_t runs; /* of all algorithms */
    double low, high;
    int is_given; /* the bounds are */
};

struct report_algorithm {
    double *score; /* (T, R), the runs of a task in the order of their seeds */
    struct task_scores scores;
    struct task_stats stats;
};

struct report_tasks {
    struct trials trials;
    struct report_task *task;
    size_t n_tasks;
    struct report_algorithm *algorithm; /* by name */
    size_t n_algorithms;
    struct estimate *improvement; /* (A, A): [x, y] of the row's x over the column's y */
    double tau[TASK_TAUS];        /* from the lowest score or 0 to the highest or 1 */
};

/* Reads bounds, "TASK=LOW,HIGH", of which the name becomes *ret_name_len bytes long. ERR_ARG. */
int report_bounds_read(const char *text, size_t *ret_name_len, double *ret_low,
                       double *ret_high, struct err *err);

/* Arguments and errors as of report_trials_read; bounds: n_bounds texts, as above. Further
 * ERR_ARG: one task or one algorithm; an algorithm without runs in a task, or with more in one than
 * in another; bounds of no task; all values of a task without bounds are equal. */
int report_tasks_make(struct report_tasks *ret, char *const *paths, size_t n,
                      const char *metric, const char *const *bounds, size_t n_bounds,
                      void (*on_left_out)(void *ctx, const struct err *why), void *ctx,
                      struct err *err);
void report_tasks_done(struct report_tasks *r);

void report_tasks_print_text(const struct report_tasks *r, FILE *f);
/* One object: "tasks", "algorithms" with their scores, aggregates and "profile", "improvement", a
 * list of ordered pairs, "resamples". */
void report_tasks_put(const struct report_tasks *r, struct json *j);
/* 720 x 420 pixels: the performance profiles with their bands; a legend. */
void report_tasks_print_svg(const struct report_tasks *r, FILE *f);

#endif
