/* curves.h - reads columns of a run's progress.csv as JSON, only as much as is shown.
 *
 * Position  a reader continues where its last answer ended (growing_file.h). If the file has
 *           been replaced or cut since, the answer starts from its beginning, with
 *           "restart": true.
 * Bounds    an answer has at most CURVES_MAX_BYTES of the file and CURVES_MAX_VALUES
 *           values; if rows are left, "more" is true. A header of at most
 *           CURVES_MAX_HEADER bytes; CURVES_MAX_COLUMNS columns an answer.
 * Threads   any.
 */
#ifndef SUPERVISOR_FACTS_CURVES_H
#define SUPERVISOR_FACTS_CURVES_H

#include "common/err/err.h"
#include "supervisor/metrics/json.h"

#include <stddef.h>

#define CURVES_MAX_BYTES  ((size_t)8 << 20)
#define CURVES_MAX_VALUES ((size_t)200000)
#define CURVES_MAX_HEADER ((size_t)1 << 20)
enum { CURVES_MAX_COLUMNS = 240, CURVES_MAX_NAMES = 65536 };

/* path: a run's directory. Puts the values of these columns from a position on: {"next",
 * "restart", "more", "steps": [...], "columns": [[...], ...]}. A column that the file
 * does not have is full of nulls; fractions have seven digits. from NULL or "": the
 * beginning. A run without rows gives empty lists. -errno, ERR_LIMIT. */
int curves_put(const char *path, const char *const *columns, size_t n, const char *from,
               struct json *j, struct err *err);

/* Puts the list of the names of all columns, the first CURVES_MAX_NAMES. -errno, ERR_LIMIT. */
int curves_put_names(const char *path, struct json *j, struct err *err);

/* Puts a list of at most `points` of the team's returns, at equal distances in the file:
 * those of training or, without any, of evaluations. */
void curves_put_spark(const char *path, size_t points, struct json *j);

#endif
