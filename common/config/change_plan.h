/* change_plan.h - changes of a live run's configuration that were accepted for a later
 * step.
 *
 * A planned change is a setting (changes.h) and the joint step at which the
 * first round with the new value begins. Changes are applied in the order of their steps;
 * changes of the same step are applied in the order in which they were accepted.
 *
 * Waits    a value that takes a new process (CHANGE_RESPAWN) waits for the respawn of its agent:
 *          one change for each agent, and one for the value of `defaults` from which the agents
 *          have it. These stand behind all steps, and belong to no request.
 * Schedule a setting with a schedule (schedule.h) is one request and becomes a
 *          planned change for each step at which its value moves. A change of the same
 *          key at a later step ends the schedule there, even if it is accepted
 *          afterwards.
 */
#ifndef COMMON_CONFIG_CHANGE_PLAN_H
#define COMMON_CONFIG_CHANGE_PLAN_H

#include "common/config/changes.h"
#include "common/config/run_length.h"

#include <stddef.h>
#include <stdint.h>

/* Which part of its request a change is. */
enum change_part {
    CHANGE_WHOLE,
    CHANGE_BEGINS, /* the first value of a schedule */
    CHANGE_MIDWAY, /* a value between the first and the last */
    CHANGE_ENDS,   /* its last one */
};

#define CHANGE_AT_RESPAWN UINT64_MAX              /* in place of a step: it waits */
#define CHANGE_LAST_STEP  (CHANGE_AT_RESPAWN - 1) /* as a step: all that has one */

struct planned_change {
    uint64_t at;
    uint64_t number; /* of the request that it comes from, in the order of acceptance */
    size_t agent;    /* if it waits: whose respawn; n_agents: it is of `defaults` */
    enum change_part part;
    struct config_setting set;
};

struct change_plan { /* all-zero: empty */
    struct planned_change *list;
    size_t n, cap;
    uint64_t n_requests;
};

void change_plan_done(struct change_plan *p);
/* Inserts a copy of `set` at its place in the order, or the changes of its schedule. */
void change_plan_add(struct change_plan *p, uint64_t at,
                     const struct config_setting *set);
void change_plan_add_all(struct change_plan *p, uint64_t at,
                         const struct config_settings *settings);
void change_plan_copy(struct change_plan *ret, const struct change_plan *p);
/* The step of the first planned change; CHANGE_AT_RESPAWN if there is none. */
uint64_t change_plan_next(const struct change_plan *p);
/* Removes the changes of `step` and earlier, which were applied. */
void change_plan_drop(struct change_plan *p, uint64_t step);
/* Removes change i of the list. */
void change_plan_remove(struct change_plan *p, size_t i);
/* Replaces all changes that wait by those that make `wanted` of `from` with the changes of all
 * steps. ERR_CONFIG: as change_plan_fold. */
int change_plan_wait(struct change_plan *p, const struct run_config *from,
                     const struct run_config *wanted, struct err *err);
/* Removes what waits for the agent's respawn, and appends it to *ret. */
void change_plan_take_waiting(struct change_plan *p, size_t agent,
                              struct config_settings *ret);
/* The index of the first change that waits; all after it wait, too. n: none does. */
size_t change_plan_waiting(const struct change_plan *p);
/* The first change of each request that still has changes in the plan, in the order of
 * acceptance; free() the list. */
const struct planned_change **change_plan_requests(const struct change_plan *p,
                                                   size_t *ret_n);
/* Removes all changes of run.env_steps and run.episodes; of what has no effect on any round
 * (FIELD_OUTPUT). */
void change_plan_drop_lengths(struct change_plan *p);
void change_plan_drop_outputs(struct change_plan *p);
/* Removes the changes after `step`; with only_lengths, those of run.env_steps and run.episodes.
 * Returns what cancels them in the journal, "KEY@STEP,..."; free(). NULL: there were none. */
char *change_plan_cancel_after(struct change_plan *p, uint64_t step, int only_lengths);

/* *ret: a copy of `from` to which the changes of `step` and earlier are applied; with
 * CHANGE_AT_RESPAWN also those that wait. Returns ERR_CONFIG if the configuration after all
 * changes of one step is not valid; *ret is then all-zero. */
int change_plan_fold(const struct change_plan *p, uint64_t step,
                     const struct run_config *from, struct run_config *ret,
                     struct err *err);

/* Calls fn with the configuration that is in force after each step of the plan, which begins
 * with `from`. Stops when fn returns a value below 0, puts the step before its message, and
 * returns it. */
typedef int (*change_plan_step_fn)(void *ctx, uint64_t at, const struct run_config *c,
                                   struct err *err);
int change_plan_each_step(const struct change_plan *p, const struct run_config *from,
                          change_plan_step_fn fn, void *ctx, struct err *err);

/* The length of the run that is in force at the boundary of that step, if `from` is in force
 * before the plan. */
struct run_length change_plan_length(const struct change_plan *p,
                                     const struct run_config *from, uint64_t step);
/* Checks that the run gets to each length of the plan (run_length_check). ERR_CONFIG. */
int change_plan_check_lengths(const struct change_plan *p, const struct run_config *from,
                              uint64_t next, uint64_t episodes, struct err *err);

#endif
