/* change_read.h - the plan of changes (common/config/change_plan.h) of a new run, and of one that
 * is resumed.
 *
 * Journal  an accepted change is recorded as event=set at=<step>
 *          changes=<KEY=VALUE,...>. One that is cancelled before its step is recorded as
 *          event=cancel changes=<KEY@STEP,...>, or KEY alone if it was waiting for a
 *          respawn. Cancelling a change of a schedule cancels the rest of the schedule,
 *          too. A run that is resumed from an earlier step applies all changes that were
 *          not cancelled again, at the same steps.
 */
#ifndef SUPERVISOR_BEGIN_CHANGE_READ_H
#define SUPERVISOR_BEGIN_CHANGE_READ_H

#include "common/config/change_plan.h"
#include "supervisor/rundir/journal_read.h"

#include <stddef.h>
#include <stdint.h>

/* Adds the changes for later steps that the file of a new run contains. *ret: a copy of
 * the configuration with all of them applied. ERR_CONFIG. */
int change_plan_from_config(struct change_plan *p, const struct run_config *c,
                            struct run_config *ret, struct err *err);

/* Where the events of a journal come from. each: as journal_each_event (journal_read.h). */
struct change_source {
    int (*each)(const void *from, journal_run_event_fn fn, void *ctx, struct err *err);
    const void *from;
    const char *name; /* for messages */
};
struct change_source change_source_of(const char *journal); /* a path, borrowed */

/* Adds to *p the changes of the journal that are not in force at the checkpoint of that step
 * and were not cancelled. Only the first n_events `set` and `cancel` events count (SIZE_MAX: all).
 * of: a configuration of the same run, against which keys are parsed. *ret_n: the number
 * of such events; ret_n may be NULL. A missing journal is empty. ERR_CONFIG: this build
 * does not know a key or value; ERR_FORMAT, -errno. */
int change_plan_read(struct change_plan *p, const struct run_config *of,
                     const struct change_source *journal, uint64_t checkpoint,
                     size_t n_events, size_t *ret_n, struct err *err);

#endif
