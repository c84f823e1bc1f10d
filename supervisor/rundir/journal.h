/* journal.h - the log of a run's events: an append-only file of text lines.
 *
 *     2026-01-31T12:00:00.123Z step=25600 event=respawn agent=agent_0 pid=4711
 *
 * The events and their fields: supervisor/events/run_event.h.
 *
 * Each line is written by one write(). Values with spaces, quotes or control bytes are
 * quoted and escaped as in JSON, so that a line is always one event.
 */
#ifndef SUPERVISOR_RUNDIR_JOURNAL_H
#define SUPERVISOR_RUNDIR_JOURNAL_H

#include "common/err/err.h"
#include "supervisor/events/run_event.h"

#include <stdint.h>

struct journal; /* opaque */

/* Lines are kept in memory until journal_begin; without that call, journal_close drops
 * them. The functions below take NULL, too: a journal that ignores all events. */
struct journal *journal_new(const char *path);
/* Opens the file, or creates it, and appends the lines so far. A second call does nothing.
 * -errno. */
int journal_begin(struct journal *j, struct err *err);
void journal_close(struct journal *j);
/* Appends the event; kinds that the journal does not have are ignored. If the journal has
 * begun, an event with RUN_EVENT_COMMITTED is fsynced before this returns 0; returns
 * -errno if it could not be, and removes its line again. For other events a failed write is
 * logged and 0 is returned: a run does not end because the disk of its journal is full. */
int journal_write(struct journal *j, const struct run_event *e, struct err *err);

/* Copies what was written so far to the file `path`. -errno. */
int journal_copy(const struct journal *j, const char *path, struct err *err);

/* Appends a line from another process, the keeper. run: the run directory; text: "event=..."
 * and the pairs, quoted already, under 400 bytes; is_dead: the run's supervisor is, so that a
 * line that it left incomplete is cut off first. Allocates nothing if log_time was called
 * before. */
void journal_append(const char *run, const char *text, int is_dead);

#endif
