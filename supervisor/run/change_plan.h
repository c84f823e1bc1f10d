/* change_plan.h - changes of a live run's configuration that are agreed and not yet made.
 *
 * A planned change is a setting (common/config/changes.h) and the joint step of the round
 * that is the first to see it. Changes are made in the order of their steps, and as they
 * were agreed where steps are equal.
 *
 * Journal  a change is written down as it is agreed: event=set at=<step>
 *          changes=<KEY=VALUE,...>; one that is cancelled before its step:
 *          event=cancel changes=<KEY@STEP,...>, or KEY alone where it waited for a
 *          respawn. A run that is resumed from an earlier step makes the others again, at
 *          their steps.
 */
#ifndef SUPERVISOR_RUN_CHANGE_PLAN_H
#define SUPERVISOR_RUN_CHANGE_PLAN_H

#include "common/config/changes.h"

#include <stddef.h>
#include <stdint.h>

struct planned_change {
    uint64_t at;
    struct config_setting set;
};

struct change_plan { /* all-zero: empty */
    struct planned_change *list;
    size_t n, cap;
};

void change_plan_done(struct change_plan *p);
/* A copy of it, in its place. */
void change_plan_add(struct change_plan *p, uint64_t at,
                     const struct config_setting *set);
void change_plan_add_all(struct change_plan *p, uint64_t at,
                         const struct config_settings *settings);
void change_plan_copy(struct change_plan *ret, const struct change_plan *p);
/* The step of the first one; UINT64_MAX: there is none. */
uint64_t change_plan_next(const struct change_plan *p);
/* Those up to and at `step` are made. */
void change_plan_drop(struct change_plan *p, uint64_t step);
/* It is cancelled. */
void change_plan_remove(struct change_plan *p, size_t i);
/* How long the run is, and whether its log is kept, is no longer changed by any. */
void change_plan_drop_lengths(struct change_plan *p);

/* `from` with all changes up to and at `step` made; those of one step must go together
 * with what was before. ERR_CONFIG; *ret is then all-zero. */
int change_plan_fold(const struct change_plan *p, uint64_t step,
                     const struct run_config *from, struct run_config *ret,
                     struct err *err);

/* What the first n_events of the journal that set or cancel (SIZE_MAX: all) have left for
 * `from` or later; of: whose keys they are. *ret_n: how many such events there are; NULL
 * is fine. No journal: nothing. ERR_CONFIG: a key or value that this build does not have;
 * ERR_FORMAT, -errno. */
int change_plan_read(struct change_plan *p, const struct run_config *of,
                     const char *journal, uint64_t from, size_t n_events, size_t *ret_n,
                     struct err *err);

#endif
