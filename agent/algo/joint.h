/* joint.h - what the critics of maddpg and matd3 see: observations and actions, of all agents or
 *           of the own one, side by side.
 *
 * Shapes   B rows; J = sum of the seen agents' observations (with the id) and actions, in the
 *          order of seen.h.
 */
#ifndef AGENT_ALGO_JOINT_H
#define AGENT_ALGO_JOINT_H

#include "agent/algo/kit.h"
#include "agent/algo/seen.h"

struct joint {
    struct kit *kit;
    struct seen seen;
    struct obs_form form; /* of what the critic sees */
    struct output *observation,
        *action;                /* [seen.n] placeholders; the own one with the id */
    struct output observations; /* the seen ones side by side */
    struct matrix *now;         /* (B, J) of the rows */
    struct matrix
        *next; /* (B, J) after them, with the actions that were proposed there */
};

/* A critic: its value, and the tensors that its input is fed into. */
struct critic {
    struct output q;       /* (B, 1) */
    struct output actions; /* of the seen agents, side by side */
    struct output input;   /* (B, J) both; OUTPUT_NONE where the actions join later */
};

/* Sets what is seen, and its matrices. proposal: the own action that was computed for the next
 * observation, if the critic sees no other agent's; NULL: output "action" of `propose`, of each
 * agent. */
void joint_init(struct joint *j, struct kit *k, const struct algo_args *args,
                int own_only);
void joint_take_proposals(struct joint *j, struct matrix *proposal);
void joint_done(struct joint *j);

/* ---- while the graph is built ---- */

/* "observation<i>"; outside of the agent's scope. */
void joint_make_observations(struct joint *j);
/* "action<i>", within it. */
void joint_make_actions(struct joint *j);
/* A critic with `own` in place of the agent's own action. twin: a second one of the same input,
 * whose scope is inside the first one's, so that whatever is done with the first one's variables
 * is done with its own. */
struct critic joint_critic(struct joint *j, struct output own, const char *scope,
                           enum reuse reuse);
struct output joint_twin(struct joint *j, const struct critic *c, const char *scope);

/* ---- runs ---- */

void joint_feed(struct batch *b, const struct joint *j, const struct critic *c,
                struct matrix *m);
/* The rows, but for the own action: what the policy sees, and what its critic does. */
void joint_feed_others(struct batch *b, const struct joint *j);
#endif
