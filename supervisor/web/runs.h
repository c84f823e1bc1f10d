/* runs.h - the runs below a folder, each with a summary for the list.
 *
 * Walk      the folder and its studies are listed; a run whose files have changed since is
 *           read again, a few at a time. Threads do both (reading.h). A run that cannot be
 *           held, or read in time, has the state "unreadable".
 * Order     the user's own runs are read before those of others.
 * Names     "NAME", or "STUDY/NAME" for a trial. Only a name that a walk has found is a run:
 *           no text of a request becomes part of a path.
 * Revision  each summary has the number of the change that made it; a list is brought up to
 *           date with those that are newer.
 * Threads   loop thread only.
 */
#ifndef SUPERVISOR_WEB_RUNS_H
#define SUPERVISOR_WEB_RUNS_H

#include "supervisor/events/run_status.h"
#include "supervisor/metrics/json.h"
#include "supervisor/web/reading.h"

struct runs; /* opaque */

/* on_change: summaries have changed. dir is borrowed. */
struct runs *runs_new(struct readings *readings, const char *dir,
                      void (*on_change)(void *ctx), void *ctx);
/* Reads no further run. */
void runs_close(struct runs *r);
/* After the loop has ended. */
void runs_free(struct runs *r);

/* The status of a run that cannot be held, or read in time. */
struct run_status runs_unreadable(void);

/* Begins a walk, or notes that one must follow the one under way; returns its number. */
uint64_t runs_walk(struct runs *r);
/* The number of the last walk that has ended. */
uint64_t runs_walked(const struct runs *r);
/* Whether every run that the first walk found has been read. */
int runs_is_complete(const struct runs *r);

/* The path of the run of that name; NULL: there is none. Valid until the next walk. */
const char *runs_path(const struct runs *r, const char *name);
/* The path of the study of that name; NULL. */
const char *runs_study_path(const struct runs *r, const char *name);

uint64_t runs_revision(const struct runs *r); /* from 1 on */
/* "runs": [summaries newer than `since`], and "names": [all, newest first] if one came or
 * went since then, into an object that is open. */
void runs_put(const struct runs *r, uint64_t since, struct json *j);

#endif
