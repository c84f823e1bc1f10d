/* symmetry.h - shows rows of the log as a symmetric world would have made them.
 *
 * An environment may declare a group of symmetries (common/msg/symmetry_msg.h). Each of its
 * elements turns every agent's observation (a signed permutation of its elements) and action
 * (a permutation; signed only for continuous actions), and changes no reward. With
 * `settings: {symmetry: env}` an algorithm shows each joint row of a batch under an element
 * that is drawn for it: the row is as good a sample of the task as the one that was stored.
 *
 * Use      in a stage, with args->symmetry. NULL is no symmetry: every function then does
 *          nothing, so that algorithms call them in any case.
 *
 *              symmetry_draw(args->symmetry, args->update, first, n, err)   once per batch
 *              store_view_gather(..., x, stride);
 *              symmetry_obs(args->symmetry, agent, n, x, stride);           each block
 *
 *          Observation, next observation, action and masks of a row must all be shown under
 *          the same draw. In a batch of sequences a draw's row is a sequence: call once per
 *          time, with the stride from sequence to sequence.
 * Draws    keyed (seed, the name of the group of learners: "experience" unless teams are mixed,
 *          "symmetry"), counter: the update, or where an update has several steps,
 *          update x (epochs x minibatches) + the step, counted over all epochs; index: the
 *          row's number in the batch (G, B). So every process of a group draws the same elements: factors
 *          that are shared turn all agents of a row alike, those of one agent's view are
 *          drawn for each agent.
 * Shapes   B rows, O observation and U action width of an agent, N agents.
 * Owns     the draw and tables of the group, kept from call to call.
 * Source   van der Pol et al. 2020, "MDP homomorphic networks" (group-structured MDPs); Laskin
 *          et al. 2020, "Reinforcement learning with augmented data".
 */
#ifndef AGENT_ALGO_SYMMETRY_H
#define AGENT_ALGO_SYMMETRY_H

#include "common/err/err.h"
#include "common/rng/rng.h"

#include <stddef.h>
#include <stdint.h>

struct space;
struct symmetry; /* opaque */
struct symmetry_group;

/* group, agents (n_agents): borrowed, must outlive *ret. ERR_PROTOCOL: the group does not fit
 * the agents' spaces. ERR_LIMIT: its generators give too many elements. */
int symmetry_new(struct symmetry **ret, const struct symmetry_group *group,
                 const struct space *agents, size_t n_agents, struct rng_key key,
                 struct err *err);
void symmetry_free(struct symmetry *s);

/* Draws an element for each of the rows numbered first .. first+n-1 at `counter`. The
 * functions below refer to the newest draw; row i is row first + i. Drawing the same rows
 * again at once costs nothing. ERR_NOMEM. */
int symmetry_draw(struct symmetry *s, uint64_t counter, uint64_t first, size_t n,
                  struct err *err);

/* Shows row i of the newest draw as it is stored. */
void symmetry_leave(struct symmetry *s, size_t i);

/* Turns the observations, or actions, of one agent in the draw's first n rows in place:
 * x (n, O) or (n, U), `stride` floats from row to row. An action is one-hot heads, soft
 * vectors of them, or the numbers of a box. */
void symmetry_obs(struct symmetry *s, size_t agent, size_t n, float *x, size_t stride);
void symmetry_action(struct symmetry *s, size_t agent, size_t n, float *x, size_t stride);
/* Turns masks of actions, (n, U), rows side by side. */
void symmetry_mask(struct symmetry *s, size_t agent, size_t n, uint8_t *x);
#endif
