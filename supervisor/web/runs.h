/* runs.h - the runs below one or more folders, each with a summary for the list.
 *
 * Walk      the folders and their studies are listed; a run whose files have changed since is
 *           read again, a few at a time. Threads do both (reading.h). A run that cannot be
 *           held, or read in time, has the state "unreadable".
 * Lost      a folder that cannot be held or read has no runs, one that is late those that it had;
 *           why, is said in the list, and once on stderr.
 * Order     the user's own runs are read before those of others.
 * Names     "NAME", or "STUDY/NAME" for a trial; of several folders with a label and a slash before
 *           (folders.h). Only a name that a walk has found is a run: no text of a request becomes
 *           part of a path.
 * Revision  each summary has the number of the change that made it; a list is brought up to
 *           date with those that are newer.
 * Threads   loop thread only.
 */
#ifndef SUPERVISOR_WEB_RUNS_H
#define SUPERVISOR_WEB_RUNS_H

#include "supervisor/events/run_status.h"
#include "supervisor/metrics/json.h"
#include "supervisor/web/folders.h"
#include "supervisor/web/reading.h"

struct runs; /* opaque */

/* on_change: summaries have changed. The folders are borrowed. */
struct runs *runs_new(struct readings *readings, const struct folders *folders,
                      void (*on_change)(void *ctx), void *ctx);
/* Reads no further run. */
void runs_close(struct runs *r);
/* After the loop has ended. */
void runs_free(struct runs *r);

/* The status of a run that cannot be held, or read in time. */
struct run_status runs_unreadable(void);

/* Begins a walk through all folders, or notes that one must follow the one under way; returns its
 * number. One that is late does not hold up the next walk through the others. */
uint64_t runs_walk(struct runs *r);
/* The number of the last walk that has ended. */
uint64_t runs_walked(const struct runs *r);
/* Whether every run that the first walk found has been read. */
int runs_is_complete(const struct runs *r);

/* Where a run is: its directory, and the folder of runs that it is in, be it in a study. */
struct run_place {
    const char *path, *folder;
};

/* The run of that name. Returns 0 if there is none. Valid until the next walk. */
int runs_find(const struct runs *r, const char *name, struct run_place *ret);
/* The path of the study of that name; NULL. */
const char *runs_study_path(const struct runs *r, const char *name);

uint64_t runs_revision(const struct runs *r); /* from 1 on */
/* "runs": [summaries newer than `since`] and, if a run or a folder came or went since then, "names":
 * [all, newest first], "studies": [their names] and "folders": [{"folder": label, "path", "why": it
 * cannot be read, or null}], into an object that is open. */
void runs_put(const struct runs *r, uint64_t since, struct json *j);

#endif
