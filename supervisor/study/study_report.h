/* study_report.h - the results of a study: every trial with its value and its settings.
 *
 * Value     the mean over the seeds at the last rung that the trial has reached.
 * Order     by rung, last first, whatever the values: they are compared within a rung, best
 *           first; then those without.
 * Round     with pbt, the value and the settings in the last round that is over, which takes
 *           the place of the rung; lineage_report.h adds who came from whom.
 * Failure   why a trial has no value, or none at a later rung: one of its runs failed.
 * Effect    of each key, over the trials of the first rung or round: Spearman's rank
 *           correlation of value and setting for keys with numbers; for keys with choices the
 *           share of the values' variance that lies between them, and for each its trials' mean.
 */
#ifndef SUPERVISOR_STUDY_STUDY_REPORT_H
#define SUPERVISOR_STUDY_STUDY_REPORT_H

#include "supervisor/metrics/json.h"
#include "supervisor/metrics/seed_stats.h"
#include "supervisor/study/lineage.h"

#include <stdio.h>

struct study_row {
    size_t trial; /* from 0 */
    size_t rung;  /* the last one that it has reached, from 0 */
    int is_reached;
    struct seed_stats value;
    char *failure; /* of the first run that failed, "1-s1 at step 100: ..."; or NULL */
};

struct study_report {
    const struct study *study;
    struct lineage lineage; /* of pbt; otherwise all-zero */
    char *name;             /* owned */
    struct study_row *row;  /* [n], in order */
    size_t n;
    double *first; /* [study->trials]: at the first rung; NaN: none */
};

/* dir: the study's folder. Reads how far all of its runs are. study is borrowed. ERR_FORMAT:
 * rounds.csv is damaged. */
int study_report_make(struct study_report *ret, const struct study *study,
                      const char *dir, struct err *err);
void study_report_done(struct study_report *r);

/* rows: how many at most; 0: all. */
void study_report_print(const struct study_report *r, size_t rows, FILE *f);
void study_report_print_csv(const struct study_report *r, FILE *f);
void study_report_print_json(const struct study_report *r, FILE *f);
/* The same object. */
void study_report_put(const struct study_report *r, struct json *j);
/* "best": {"trial", "value", "settings"}, into an object that is open; null without one. */
void study_report_put_best(const struct study_report *r, struct json *j);
/* Parallel coordinates: an axis for each key and one for the value, a line for each trial;
 * below them, for each key alone, the values at the first rung over its settings, and the mean
 * of each choice. Of pbt, the lineage. */
void study_report_print_svg(const struct study_report *r, FILE *f);

#endif
