/* journal_read.h - a journal (journal.h), read back.
 *
 * A journal is text that a crash may have cut and anything may have damaged: lines that
 * are none of a journal's are passed over, and so is a last one without its newline,
 * which is being written.
 * Bounds   JOURNAL_LINE_MAX bytes a line, JOURNAL_PAIRS_MAX pairs.
 */
#ifndef SUPERVISOR_RUN_JOURNAL_READ_H
#define SUPERVISOR_RUN_JOURNAL_READ_H

#include "common/err/err.h"
#include "supervisor/events/run_event.h"

#include <stddef.h>
#include <stdint.h>

#define JOURNAL_LINE_MAX  ((size_t)4 << 20)
#define JOURNAL_PAIRS_MAX 32
#define JOURNAL_NO_STEP   UINT64_MAX

struct journal_pair {
    const char *key, *value; /* the value as it was given to journal_write */
};

struct journal_event {
    const char *time;   /* "2026-01-31T12:00:00.123Z", unchecked */
    uint64_t env_steps; /* JOURNAL_NO_STEP: the line has none */
    const char *name;
    size_t n_pairs; /* the others, in order */
    struct journal_pair pairs[JOURNAL_PAIRS_MAX];
};

/* One line without its newline, terminated, which is taken apart in place: *ret points
 * into it. ERR_FORMAT, ERR_LIMIT: it is none of a journal's. */
int journal_parse(char *line, struct journal_event *ret);
/* NULL: there is none of that key. */
const char *journal_value(const struct journal_event *e, const char *key);
/* The value as a number; `otherwise` if there is none, or it is no number. */
uint64_t journal_number(const struct journal_event *e, const char *key,
                        uint64_t otherwise);
double journal_real(const struct journal_event *e, const char *key, double otherwise);

/* Of every event in the order of the file; line: from 1. What it returns, if not 0, ends
 * the reading and is returned. */
typedef int (*journal_event_fn)(void *ctx, uint64_t line, const struct journal_event *e);
/* ERR_NOT_FOUND: there is no such file; -errno. */
int journal_each(const char *path, journal_event_fn fn, void *ctx, struct err *err);

/* The same with typed events. RUN_EVENT_COUNT: a kind of another build's, of which only
 * time and step are known. env_steps: JOURNAL_NO_STEP, too. */
typedef int (*journal_run_event_fn)(void *ctx, const struct run_event *e);
int journal_each_event(const char *path, journal_run_event_fn fn, void *ctx,
                       struct err *err);
/* One line, of which the event borrows the texts. */
void journal_to_event(struct run_event *ret, const struct journal_event *line);

#endif
