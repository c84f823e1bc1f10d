/* report_series.h - one run's values of a metric, without missing ones. */
#ifndef SUPERVISOR_CLI_REPORT_SERIES_H
#define SUPERVISOR_CLI_REPORT_SERIES_H

#include "common/err/err.h"
#include "supervisor/events/run_status.h"

#include <stddef.h>

struct report_series {
    const char *run; /* the last part of its path */
    double *steps, *value;
    size_t n;
    double end; /* its last step, with or without a value */
    struct process_count count;
};

/* Reads those of the run at `path`, which is borrowed. *metric NULL: the team's return in
 * evaluations or, without any, in training, whose name becomes *metric; free(). ERR_NOT_FOUND: no
 * such metric, or no values; ERR_FORMAT, -errno. */
int report_series_read(struct report_series *s, const char *path, char **metric,
                       struct err *err);
void report_series_done(struct report_series *s); /* all-zero is fine */
/* The mean of its values in the last tenth of its steps. */
double report_series_final(const struct report_series *s);

#endif
