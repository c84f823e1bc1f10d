/* progress.h - a run's progress.csv, read back.
 *
 * Rows are in the order of their steps; a value that is missing is NaN.
 * Bounds   64 MiB of text, 4096 columns. What is no such table is ERR_FORMAT, naming the
 *          line; a last line that is cut off (the run goes on) is left out.
 */
#ifndef SUPERVISOR_METRICS_PROGRESS_H
#define SUPERVISOR_METRICS_PROGRESS_H

#include "common/err/err.h"

#include <stddef.h>

struct progress; /* opaque */

/* ERR_NOT_FOUND, ERR_FORMAT, ERR_LIMIT, -errno. */
int progress_read(struct progress **ret, const char *path, struct err *err);
void progress_free(struct progress *p);

size_t progress_n_rows(const struct progress *p);
size_t progress_n_columns(const struct progress *p);
const char *progress_name(const struct progress *p, size_t column);
/* The column's number, or progress_n_columns if there is none of that name. */
size_t progress_find(const struct progress *p, const char *name);
double progress_value(const struct progress *p, size_t row, size_t column);
double progress_steps(const struct progress *p, size_t row); /* env_steps */
/* The newest mean over the teams' returns; NaN: there is none. */
double progress_team_return(const struct progress *p);

#endif
