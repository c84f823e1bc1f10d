/* learning_groups.h - which agents learn together, that is, are updated with the same rows.
 *
 * Group    the agents that learn by one algorithm, from the same kind of rows, with equal
 *          sections `experience` of their own (run_config_experience), and that either share
 *          no parameters (sharing.h) or share them with equal epochs and minibatches. Agents
 *          that do not learn (random, frozen, ...) are in none.
 * Order    of groups: that of their first members, in the environment's order.
 * Draws    of rows, turns and symmetries are keyed by the group's name: "experience" for the
 *          first group, the only name if all agents learn alike; "experience/<first
 *          member>" for each further one. Their counter is the group's number of updates.
 *          So no group's draws depend on later groups, nor on what other groups do.
 */
#ifndef SUPERVISOR_ROLLOUT_LEARNING_GROUPS_H
#define SUPERVISOR_ROLLOUT_LEARNING_GROUPS_H

#include "common/config/run_config.h"
#include "supervisor/rollout/sharing.h"

#include <stddef.h>

#define LEARNING_NONE SIZE_MAX

struct learning_group {
    size_t first;                    /* its first member */
    char draws[AGENT_NAME_MAX + 16]; /* its name in the keys of draws */
};

struct learning_groups {
    size_t n;
    struct learning_group *group; /* [n] */
    size_t *group_of;             /* [A]; LEARNING_NONE: the agent does not learn */
};

/* A: config->n_agents. */
void learning_groups_init(struct learning_groups *ret, const struct run_config *config,
                          const struct sharing *sharing);
void learning_groups_done(struct learning_groups *g);

#endif
