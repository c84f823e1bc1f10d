/* seen.h - whose observations and actions a critic sees, in what order, and the agent's id.
 *
 * Order    the environment's. But a network that several agents share, or that gets an
 *          id, must find its own agent in a fixed place: then the own one is first, next
 *          those that it shares parameters with, next all others, each in the
 *          environment's order. A ps sees what its first member sees, with itself in that
 *          member's place.
 * Id       with the setting agent_id: which of its team the agent is, one-hot, right
 *          after its own observation; so a policy's input is one piece of its critic's.
 */
#ifndef AGENT_ALGO_SEEN_H
#define AGENT_ALGO_SEEN_H

#include "agent/algo/algo.h"
#include "agent/algo/rows.h"
#include "agent/nn/nn.h"

struct agent_id {
    int64_t width; /* agents of the team; 0: there is no id */
    int64_t place; /* among them */
};

struct seen {
    const struct space *agents; /* algo_args.agents, borrowed */
    size_t n;
    size_t *agent; /* [n] indices in agents */
    size_t own;    /* place of the own agent in the list */
    struct agent_id id;
    int64_t input;   /* width of the own observation and the id */
    int64_t obs;     /* ... of all observations and the id */
    int64_t own_obs; /* first column of the own one among them */
};

/* own_only: the critic sees no other agent. */
void seen_init(struct seen *s, const struct algo_args *args, int own_only);
void seen_done(struct seen *s);

/* The form of what policy and critic see (parts.h). ERR_CONFIG: an id would be in the
 * middle of several agents' observations, which go through layers of their own. */
int seen_forms(const struct seen *s, const struct agent_config *c,
               struct obs_form *ret_actor, struct obs_form *ret_critic, struct err *err);

/* Which of its team the agent is; of_learners: of those that learn together. */
struct agent_id agent_id_of(const struct algo_args *args, int of_learners);
/* Writes the id into n rows, `stride` floats apart; x: its first column in the first row.
 * Without an id nothing happens. */
void agent_id_put(const struct agent_id *id, float *x, int64_t n, int64_t stride);

/* The observations to act on, `obs` wide, with the id after each, in x (E, obs + id);
 * without an id the request's own. */
const float *agent_id_behind(const struct agent_id *id, const struct act_args *args,
                             int64_t obs, float *x);

#endif
