/* journal_read.h - reads a journal (journal.h).
 *
 * A crash may have cut a journal, and anything may have damaged it: malformed lines are
 * skipped, and so is a last line without a newline, which is still being written.
 * Bounds   JOURNAL_LINE_MAX bytes a line, JOURNAL_PAIRS_MAX pairs, JOURNAL_MAX bytes.
 */
#ifndef SUPERVISOR_RUNDIR_JOURNAL_READ_H
#define SUPERVISOR_RUNDIR_JOURNAL_READ_H

#include "common/err/err.h"
#include "supervisor/events/run_event.h"

#include <stddef.h>
#include <stdint.h>

#define JOURNAL_LINE_MAX  ((size_t)4 << 20)
#define JOURNAL_MAX       ((off_t)1 << 30)
#define JOURNAL_PAIRS_MAX 32
#define JOURNAL_NO_STEP   UINT64_MAX

struct journal_pair {
    const char *key, *value; /* unescaped */
};

struct journal_event {
    const char *time;   /* "2026-01-31T12:00:00.123Z", unchecked */
    uint64_t env_steps; /* JOURNAL_NO_STEP: the line has none */
    const char *name;
    size_t n_pairs; /* without time, step and event; in the order of the line */
    struct journal_pair pairs[JOURNAL_PAIRS_MAX];
};

/* Parses one line (without newline, NUL-terminated) in place: it modifies the line, and
 * *ret points into it. ERR_FORMAT, ERR_LIMIT: not a journal's line. */
int journal_parse(char *line, struct journal_event *ret);
/* NULL: the line has no such key. */
const char *journal_value(const struct journal_event *e, const char *key);
/* The value as a number; `otherwise` if the key is missing or the value is no number. */
uint64_t journal_number(const struct journal_event *e, const char *key,
                        uint64_t otherwise);
double journal_real(const struct journal_event *e, const char *key, double otherwise);

/* Called for every event in the order of the file; line counts from 1. A return value
 * other than 0 ends the reading, and journal_each returns it. */
typedef int (*journal_event_fn)(void *ctx, uint64_t line, const struct journal_event *e);
/* ERR_NOT_FOUND: there is no such file; ERR_LIMIT; ERR_CORRUPT and ERR_TIMEOUT: line_reader.h;
 * -errno. */
int journal_each(const char *path, journal_event_fn fn, void *ctx, struct err *err);

/* The same with typed events. The kind is RUN_EVENT_COUNT for an event that this build
 * does not know: then only time and env_steps are set. env_steps may be JOURNAL_NO_STEP. */
typedef int (*journal_run_event_fn)(void *ctx, uint64_t line, const struct run_event *e);
int journal_each_event(const char *path, journal_run_event_fn fn, void *ctx,
                       struct err *err);
/* Folds all events into the model, from the first on (run_event_fold). Errors of journal_each; the
 * model then has the events before. */
int journal_fold(const char *path, struct run_model *m, struct err *err);
/* Converts one line; the event borrows the line's texts. */
void journal_to_event(struct run_event *ret, const struct journal_event *line);

#endif
