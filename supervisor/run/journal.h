/* journal.h - what happened in a run: append-only lines of text.
 *
 *     2026-01-31T12:00:00.123Z step=25600 event=respawn agent=agent_0 pid=4711
 *
 * Events of a run   start, resume (pid, keeper, build, numerics and their version), inexact
 *                   (why: its bytes are not those of an undisturbed run), exact (why: of
 *                   a resume elsewhere, they are), not-portable (why: they are those of
 *                   this kind of machine only), end (state, code, pid, counts);
 *                   supervisor-exit, by its keeper that goes on; checkpoint, pause,
 *                   continue, stop, signal, done, stopped, failed, full, space; set,
 *                   waits, cancel, changed, refused: of its configuration; log-dropped: the
 *                   experience log was, at the end; deleted: the run directory was.
 * Of an agent       spawn, hello, ready (replayed), exit (signal or code, why, lines), respawn,
 *                   wait, give-up.
 *
 * Each line is one write. Values with spaces, quotes or control bytes are quoted and
 * escaped as in JSON, so that a line is always one event.
 */
#ifndef SUPERVISOR_RUN_JOURNAL_H
#define SUPERVISOR_RUN_JOURNAL_H

#include "common/err/err.h"

#include <stdint.h>

struct journal; /* opaque */

/* Its lines wait in memory until it begins; if it never does, they are forgotten. */
struct journal *journal_new(const char *path);
/* Appends to the file, which is made if there is none. Again: nothing. -errno. */
int journal_begin(struct journal *j, struct err *err);
void journal_close(struct journal *j);
/* fn hears of every line from now on, without its newline, borrowed for the call. One
 * listener; NULL: nobody. */
void journal_watch(struct journal *j, void (*fn)(void *ctx, const char *line), void *ctx);
/* event, then pairs of key and value strings up to a NULL key. A failed write is logged:
 * a run does not end because its diary is full. */
void journal_write(struct journal *j, uint64_t env_steps, const char *event, ...)
    __attribute__((sentinel));
/* The same for what must not be forgotten: on the disk when it returns 0, if the journal
 * has begun. -errno. */
int journal_commit(struct journal *j, struct err *err, uint64_t env_steps,
                   const char *event, ...) __attribute__((sentinel));

/* The file's content so far, to another file. -errno. */
int journal_copy(const struct journal *j, const char *path, struct err *err);

/* A line of somebody else's, once the run's supervisor is dead. run: its directory; text:
 * "event=..." and pairs as they shall stand, under 400 bytes. Once log_time was called,
 * nothing is allocated. */
void journal_append(const char *run, const char *text);

#endif
