/* journal.h - what happened in a run: append-only lines of text.
 *
 *     2026-01-31T12:00:00.123Z step=25600 event=respawn agent=agent_0 pid=4711
 *
 * The events and their fields: supervisor/events/run_event.h.
 *
 * Each line is one write. Values with spaces, quotes or control bytes are quoted and
 * escaped as in JSON, so that a line is always one event.
 */
#ifndef SUPERVISOR_RUN_JOURNAL_H
#define SUPERVISOR_RUN_JOURNAL_H

#include "common/err/err.h"
#include "supervisor/events/run_event.h"

#include <stdint.h>

struct journal; /* opaque */

/* Its lines wait in memory until it begins; if it never does, they are forgotten. */
struct journal *journal_new(const char *path);
/* Appends to the file, which is made if there is none. Again: nothing. -errno. */
int journal_begin(struct journal *j, struct err *err);
void journal_close(struct journal *j);
/* Appends an event of a kind that the journal has; others are ignored. Those that are to be
 * committed are on the disk when it returns 0, if the journal has begun; else -errno. A
 * failed write of another is logged and returns 0: a run does not end because its journal
 * is full. */
int journal_write(struct journal *j, const struct run_event *e, struct err *err);

/* The file's content so far, to another file. -errno. */
int journal_copy(const struct journal *j, const char *path, struct err *err);

/* A line of somebody else's, once the run's supervisor is dead. run: its directory; text:
 * "event=..." and pairs as they shall stand, under 400 bytes. Once log_time was called,
 * nothing is allocated. */
void journal_append(const char *run, const char *text);

#endif
