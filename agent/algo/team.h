/* team.h - the agents of a team that learn together, whose values vdn and qmix mix. */
#ifndef AGENT_ALGO_TEAM_H
#define AGENT_ALGO_TEAM_H

#include "agent/algo/matrix.h"

struct team {
    const struct space *agents; /* borrowed */
    size_t n;                   /* N */
    size_t *member;             /* [N] their indices, in the environment's order */
};

/* All agents of that team that learn together. */
void team_init(struct team *t, const struct space *agents, size_t n_agents,
               const char *name);
void team_done(struct team *t);
/* Whether the agent is the first one of its team among those that learn together. */
int team_begins(const struct space *agents, size_t agent);
/* The number of teams of agents that learn together, and which of them `team` is (NULL: none). */
size_t teams_count(const struct space *agents, size_t n_agents, const char *team,
                   size_t *ret_place);
/* A matrix (n, N) of the members' outputs of one number, 0 for one that sent none. */
struct matrix *team_outputs(const struct team *t, struct matrices *all, const char *name);

/* The settings of EPyMARL (Papoudakis et al. 2021). */
extern const struct algorithm_default team_defaults[];

#endif
