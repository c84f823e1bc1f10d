/* change_plan.h - changes of a live run's configuration that are agreed and not yet made.
 *
 * A change is assignments "KEY=VALUE,..." (common/config/changes.h) and the joint step of
 * the round that is the first to see it. Changes are made in the order of their steps,
 * and as they were agreed where steps are equal.
 *
 * Journal  each is written down as it is agreed: event=set at=<step>
 *          changes=<assignments>. A run that is resumed from an earlier step makes it
 *          again, at that step.
 */
#ifndef SUPERVISOR_RUN_CHANGE_PLAN_H
#define SUPERVISOR_RUN_CHANGE_PLAN_H

#include "common/config/run_config.h"

#include <stddef.h>
#include <stdint.h>

struct planned_change {
    uint64_t at;
    char *text; /* assignments */
};

struct change_plan { /* all-zero: empty */
    struct planned_change *list;
    size_t n, cap;
};

void change_plan_done(struct change_plan *p);
void change_plan_add(struct change_plan *p, uint64_t at, const char *text);
/* The step of the first one; UINT64_MAX: there is none. */
uint64_t change_plan_next(const struct change_plan *p);
/* Those up to and at `step` are made. */
void change_plan_drop(struct change_plan *p, uint64_t step);
/* How long the run is, and whether its log is kept, is no longer changed by any. */
void change_plan_drop_lengths(struct change_plan *p);

/* `from` with all changes up to and at `step` made, each checked as it comes. ERR_CONFIG;
 * *ret is then all-zero. */
int change_plan_fold(const struct change_plan *p, uint64_t step,
                     const struct run_config *from, config_env_names_fn env_names,
                     struct run_config *ret, struct err *err);

/* Appends what the journal says was agreed for `from` or later, in the order of the
 * journal, not of the steps. No journal: nothing. ERR_FORMAT, -errno. */
int change_plan_read(struct change_plan *p, const char *journal, uint64_t from,
                     struct err *err);

#endif
