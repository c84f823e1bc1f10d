/* progress.h - reads a run's progress.csv.
 *
 * Rows are in the order of their steps; a missing value is NaN.
 * Bounds   512 MiB of text, 65536 columns, 64 Mi values (ERR_LIMIT); ERR_TIMEOUT: patience.h.
 *          ERR_FORMAT names the line that does not fit. An
 *          incomplete last line is ignored: the run may be writing it.
 */
#ifndef SUPERVISOR_METRICS_PROGRESS_H
#define SUPERVISOR_METRICS_PROGRESS_H

#include "common/err/err.h"

#include <stddef.h>
#include <stdint.h>

struct progress; /* opaque */

#define PROGRESS_SPEED "time/env_steps_per_second" /* a column */

/* ERR_NOT_FOUND, ERR_FORMAT, ERR_LIMIT, -errno. */
int progress_read(struct progress **ret, const char *path, struct err *err);
/* Reads only the newest rows, as many as fit into 64 KiB, to find out how far a run
 * is. If none of them has a team's return, as many as fit into 64 MiB. */
int progress_read_end(struct progress **ret, const char *path, struct err *err);
/* Whether it has all rows of the file. */
int progress_is_whole(const struct progress *p);
/* Reads the newest rows, and before them, at `places` equal distances in the file, the next row
 * with a team's return in training: of a file of any size, enough to draw its course. Columns but
 * those of the steps, of teams' returns and PROGRESS_SPEED have no values. */
int progress_read_course(struct progress **ret, const char *path, size_t places,
                         struct err *err);
void progress_free(struct progress *p);

size_t progress_n_rows(const struct progress *p);
size_t progress_n_columns(const struct progress *p);
const char *progress_name(const struct progress *p, size_t column);
/* The index of the column of that name, or progress_n_columns if there is none. */
size_t progress_find(const struct progress *p, const char *name);
/* Adds "did you mean 'x'?" to the error if a column, or the last part of one, has a similar name;
 * returns its code. */
int progress_add_nearest(const struct progress *p, const char *name, struct err *err);
double progress_value(const struct progress *p, size_t row, size_t column);
double progress_steps(const struct progress *p, size_t row); /* env_steps */
/* The newest value of a column at or before that step; NaN: there is none. */
double progress_value_at(const struct progress *p, size_t column, uint64_t step);
/* The newest value of a column; NaN: there is none. */
double progress_newest(const struct progress *p, size_t column);
/* The column that measures best how well a team does: the first column of a team's
 * return in evaluations that has a value in the first `rows` rows, or else the first
 * such column of a return in training. progress_n_columns: there is none. */
size_t progress_find_return(const struct progress *p, size_t rows);
/* Whether progress_find_return finds this column also with rows before those of p. */
int progress_is_first_return(const struct progress *p, size_t column);
/* The mean of the teams' returns in training in a row; NaN: it has none. */
double progress_team_return_in(const struct progress *p, size_t row);
/* The same of the newest row that has any; NaN: there is none. */
double progress_team_return(const struct progress *p);

#endif
