/* update_plan.h - the stages of an update and the agents that run each of them: a function of
 * the agents' descriptions.
 *
 * Stages   those that the groups of learners (learning_groups.h) declare, one group after the
 *          other. A group whose update is not due takes no part in it, and its stages are
 *          skipped.
 * Agents   a group's members run its stages; a stage that reads from "every learner"
 *          reads from the agents that ran the earlier stage. Every agent of the run runs
 *          the stage `propose` of each group, which asks what an agent would do at the
 *          rows' next observations: members run it as they declare it, others as they act
 *          (protocol.h).
 * Central  one group at most may have stages of the central process, because there is one.
 */
#ifndef SUPERVISOR_ROLLOUT_UPDATE_PLAN_H
#define SUPERVISOR_ROLLOUT_UPDATE_PLAN_H

#include "common/err/err.h"
#include "supervisor/rollout/description.h"
#include "supervisor/rollout/learning_groups.h"

#include <stddef.h>
#include <stdint.h>

struct update_plan {
    int n;
    struct stage_decl *stage; /* [n]; indices in reads and repeat_from are of this list */
    uint8_t *plays;           /* (n, A): 1 if the agent runs the stage */
    size_t n_agents;          /* A */
    /* [groups] its rows as its members declare them; NULL: none of them learns */
    const struct description **of;
};

/* names, descriptions: [A]; descriptions must outlive the plan. ERR_CONFIG names the agents
 * that do not fit together. */
int update_plan_init(struct update_plan *ret, const struct learning_groups *groups,
                     const struct description *descriptions, const char *const *names,
                     size_t n_agents, struct err *err);
void update_plan_done(struct update_plan *p);
int update_plan_plays(const struct update_plan *p, int stage, size_t agent);
/* 1 if a stage needs the central process. */
int update_plan_has_central(const struct update_plan *p);

#endif
