/* report.h - learning curves over seeds; runs with different seeds form one group.
 *
 * Group    runs whose names differ only in the suffix that --seeds or the numbering
 *          appended: trial-s1 and trial-s2 form "trial", simple_spread-1 and
 *          simple_spread-2 form "simple_spread".
 * Curve    one point per step at which any run of the group has a value: the mean and 95 %
 *          interval of every run's newest value at that step. The curve begins at the
 *          first step at which all runs have a value.
 * Final    for each run, the mean of its values in the last tenth of its steps.
 */
#ifndef SUPERVISOR_CLI_REPORT_H
#define SUPERVISOR_CLI_REPORT_H

#include "common/err/err.h"
#include "supervisor/events/run_status.h"
#include "supervisor/metrics/json.h"
#include "supervisor/metrics/progress.h"
#include "supervisor/metrics/seed_stats.h"

#include <stddef.h>
#include <stdio.h>

struct report_point {
    double steps;
    struct seed_stats over; /* the runs */
};

struct report_group {
    char *name;
    size_t n_runs;
    struct report_point *point;
    size_t n_points;
    struct seed_stats final;
    struct process_count count; /* of all processes of the runs */
};

struct report {
    char *metric;
    struct report_group *group;
    size_t n_groups;
};

/* paths: the directories of n runs, in the order to show them. metric NULL: the team's
 * return in evaluations or, without any, in training. Runs that cannot be used (no such
 * metric, no values, a damaged file) are left out, and on_left_out is called with the reason
 * for each; if that leaves none, the first reason is the error: ERR_NOT_FOUND, ERR_FORMAT,
 * -errno. */
int report_make(struct report **ret, char *const *paths, size_t n, const char *metric,
                void (*on_left_out)(void *ctx, const struct err *why), void *ctx,
                struct err *err);
/* Thins every curve to about `points` points, among them all high and low ones. */
void report_thin(struct report *r, size_t points);
void report_free(struct report *r);

/* Whether runs of these names form one group. */
int report_same_group(const char *a, const char *b);

/* columns: those of the terminal, on which long names are shortened; 0: there is none. */
void report_print_text(const struct report *r, int columns, FILE *f);
void report_print_csv(const struct report *r, FILE *f); /* every point of every curve */
void report_print_json(const struct report *r, FILE *f);
/* What report_print_json prints of a group, into an object that is open. */
void report_put_group(const struct report *r, const struct report_group *g,
                      struct json *j);
/* 720 x 420 pixels: for each group a line of means and a band of intervals; a legend. */
void report_print_svg(const struct report *r, FILE *f);

#endif
