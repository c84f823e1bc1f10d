/* joint.h - what critics of single rows see (actor_critic.h): observations and actions, of all agents
 *           or of the own one, side by side.
 *
 * Shapes   B rows; J = sum of the seen agents' observations (with the id) and actions, in the
 *          order of seen.h.
 * Apart    the own action of a soft policy is not among them: the critics have a value of each of its
 *          C choices; or, of a box, it joins behind all else (as after_action says, which then is
 *          about the own action alone).
 */
#ifndef AGENT_ALGO_JOINT_H
#define AGENT_ALGO_JOINT_H

#include "agent/algo/kit.h"
#include "agent/algo/seen.h"

struct joint {
    struct kit *kit;
    struct seen seen;
    int is_apart;
    int64_t n_values;     /* of a critic: 1, or C */
    struct obs_form form; /* of what the critic sees */
    struct output *observation,
        *action; /* [seen.n] placeholders; the own one with the id */
    struct output
        observations;   /* the seen ones side by side; apart: all but the own action */
    struct matrix *now; /* (B, J) of the rows */
    struct matrix
        *next; /* (B, J) after them, with the actions that were proposed there */
    /* Apart: the own actions, as action[own] is fed; own_next NULL: it is not. */
    struct matrix *own_now, *own_next;
};

/* A critic: its value, and the tensors that its input is fed into. */
struct critic {
    struct output q, twin; /* (B, 1), or (B, C); OUTPUT_NONE without a second one */
    struct output actions; /* of the seen agents, side by side; apart: the own one */
    struct output input;   /* (B, J) both; OUTPUT_NONE where the actions join later */
};

/* Sets what is seen, and its matrices. proposal: the own action that was computed for the next
 * observation, if the critic sees no other agent's; NULL: output "action" of `propose`, of each
 * agent. */
void joint_init(struct joint *j, struct kit *k, const struct algo_args *args,
                int own_only, int is_apart);
void joint_take_proposals(struct joint *j, struct matrix *proposal);
void joint_done(struct joint *j);

/* ---- while the graph is built ---- */

/* "observation<i>", outside of the agent's scope, and "action<i>", within it. Apart: all within,
 * "observation", "state" and "action"; choices: C, 0 of a box. */
void joint_make_observations(struct joint *j);
void joint_make_actions(struct joint *j, int64_t choices);
/* A critic with `own` in place of the agent's own action. twins: with a second one of the same input,
 * whose scope, "twin", is inside the first one's, so that whatever is done with the first one's
 * variables is done with its own. min: the smaller value of both. */
struct critic joint_critic(struct joint *j, struct output own, const char *scope,
                           enum reuse reuse);
struct critic joint_twins(struct joint *j, struct output own, const char *scope,
                          enum reuse reuse);
struct output joint_min(const struct joint *j, const struct critic *c);

/* ---- runs ---- */

void joint_feed(struct batch *b, const struct joint *j, const struct critic *c,
                enum when when);
/* The rows, but for the own action: what the policy sees, and what its critic does. */
void joint_feed_others(struct batch *b, const struct joint *j);
#endif
