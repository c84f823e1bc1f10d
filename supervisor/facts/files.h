/* files.h - what the page shows of a run's files, as JSON.
 *
 * path: a run's directory. Each puts one value into the JSON, unless it fails.
 * Threads   any.
 */
#ifndef SUPERVISOR_FACTS_FILES_H
#define SUPERVISOR_FACTS_FILES_H

#include "common/config/run_config.h"
#include "common/err/err.h"
#include "supervisor/metrics/json.h"
#include "supervisor/metrics/progress.h"

enum { FILES_MAX_LOGS = 20000, FILES_MAX_CHECKPOINTS = 1000, FILES_MAX_RETURNS = 4 };

/* Reads config.yaml; executes nothing that it names. run_config_done afterwards. */
int files_read_config(struct run_config *ret, const char *path, struct err *err);
/* The keys of config.yaml and their values: [["run.name", "small", live], ...]; live: whether
 * the value can change while the run lives. */
int files_put_config(const char *path, struct json *j, struct err *err);
/* The newest FILES_MAX_CHECKPOINTS checkpoints, newest first: [{"step", "time", "bytes", "best"},
 * ...]; best: whether it is RUN@best. */
int files_put_checkpoints(const char *path, struct json *j, struct err *err);
/* The newest `max`, each with "returns": {column: value, ...}, those of the teams at its step. p:
 * the rows that were read; NULL: without returns. */
int files_put_checkpoints_with(const char *path, const struct progress *p, size_t max,
                               struct json *j, struct err *err);
/* The names of its logs, of at most FILES_MAX_LOGS files: ["journal", "supervisor", "agent_0",
 * ...]. */
int files_put_logs(const char *path, struct json *j, struct err *err);
/* The files in its folder renders/ (begin/renders.h), the newest first: ["480.gif", ...]. */
int files_put_pictures(const char *path, struct json *j, struct err *err);
/* The path of a file that a page reads itself, free(): FILES_ROWS, a log, by one of these names, or
 * "renders/480.gif". ERR_NOT_FOUND: there is no such file. */
#define FILES_ROWS "metrics/progress.csv"
int files_find(const char *path, const char *name, char **ret, struct err *err);

#endif
