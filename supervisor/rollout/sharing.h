/* sharing.h - which agents share parameters (key `share`), and through which ps process.
 *
 * Groups   `share: team`: the agents of one team that have it; a list: the agents on it,
 *          each of which must give the same list. A group of one shares nothing. Groups
 *          are in the order of their first members.
 * Names    of the ps process: "<team>_ps", or for a list "<first member>_ps".
 * Members  have equal spaces and equal settings, but for those that the supervisor applies
 *          to a process (memory_limit, restart, ...), and an algorithm that can share
 *          (algorithms.h). They are never given up: the step of a group needs all.
 * Mixers   of several teams (qmix) run in one central process, which has the settings of
 *          the first agent. The settings for learning must be equal in the first agents
 *          of all these teams.
 * ps       has the settings of the first member. So a setting of the group must be
 *          changed for all members, or under `defaults`.
 */
#ifndef SUPERVISOR_ROLLOUT_SHARING_H
#define SUPERVISOR_ROLLOUT_SHARING_H

#include "common/config/run_config.h"
#include "common/err/err.h"
#include "supervisor/env/env.h"

#include <stddef.h>

struct sharing_group {
    char ps[AGENT_NAME_MAX];
    size_t first; /* its first member */
    size_t n;     /* members */
};

struct sharing {
    size_t n_groups;
    struct sharing_group *groups; /* [n_groups] */
    size_t *group_of;             /* [A] of each agent; SHARING_NONE: it shares nothing */
};
#define SHARING_NONE SIZE_MAX

/* ERR_CONFIG: with the agent's index in *ret_agent (NULL: not wanted) and err->key. */
int sharing_init(struct sharing *ret, const struct run_config *config,
                 const struct env_spec *spec, size_t *ret_agent, struct err *err);
/* Whether sharing_init would succeed. ERR_CONFIG: the message names the agent and the key. */
int sharing_check(const struct run_config *config, const struct env_spec *spec,
                  struct err *err);
void sharing_done(struct sharing *s);

#endif
