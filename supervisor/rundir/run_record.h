/* run_record.h - the status of a run, read from the files in its directory: for a run that
 * is over, or whose supervisor does not answer.
 *
 * Sources  lock (is it live), journal (how it ended, its agents), config.yaml (its
 *          length), metrics/progress.csv (how far it came), checkpoints/. What a missing
 *          or damaged file would have contained is unknown.
 * Executes nothing: a run can be looked at before it is trusted.
 * State    from the newest supervisor's lines in the journal: its end; "killed" if it wrote
 *          no end and does not live any more; "no permission" if the caller may not read
 *          the lock and so cannot know whether it lives; "unreadable" if the journal is
 *          there but cannot be read, or is no text, so that an end may be recorded. The first
 *          end of a supervisor counts: one that is killed after it wrote its end was not killed.
 */
#ifndef SUPERVISOR_RUNDIR_RUN_RECORD_H
#define SUPERVISOR_RUNDIR_RUN_RECORD_H

#include "common/err/err.h"
#include "supervisor/events/run_model.h"
#include "supervisor/proc/stall.h"
#include "supervisor/rollout/rollout.h"

struct run_record {
    struct run_status status; /* points into the record */
    int is_live;              /* a supervisor holds the lock */
    int has_end;              /* the journal records how the run ended */
    int is_unreadable;        /* the journal; the exit code is then RUN_EXIT_FAILED */
    int is_denied; /* no end is recorded and the lock is not readable: it may be live */

    struct run_model model; /* private from here on */
    char *name;
    char stalled_why[STALL_TEXT_BYTES];
};

/* path: a run's directory. */
void run_record_read(struct run_record *ret, const char *path);
/* The supervisor of a live run does not answer: sets the state, since when and why. */
void run_record_note_silence(struct run_record *r);
void run_record_done(struct run_record *r);

/* Reads only how the run ended: enum run_exit, or 128 + SIGKILL if no end is recorded
 * (*ret_has_end 0). -1: a supervisor holds the lock, or the lock is not readable. */
int run_record_exit_code(const char *path, int *ret_has_end);

/* For a run whose newest checkpoint is its last, at `at`, although its supervisor did not
 * end as "done": it was killed, or failed, before it had written so. Appends the missing
 * `end` to the journal, unless it is there, and why it came before the run's length (NULL: it did
 * not). The caller holds the run's lock. -errno. */
int run_record_mark_done(const char *path, const struct rollout_progress *at,
                         const char *why, struct err *err);

#endif
