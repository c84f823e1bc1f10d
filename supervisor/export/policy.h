/* policy.h - the network of an agent's policy, as it acts greedily: what `brood eval` plays.
 *
 * Inputs   observation  (N, what the agent sees: env.stack observations of the environment)
 *          mask         (N, choices), 1 or 0: of an agent whose choices are not always possible
 *          state        (N, H): 0 when an episode begins, then the next_state of the step before.
 *                       Of a recurrent policy, or one that sees its last action.
 * Outputs  logits       (N, scores): of each choice of each part of the action, or of each
 *                       combination of them; values of a Q-network. None of a box.
 *          action       (N, U) as the environment gets it: one-hot for each part, then numbers
 *          next_state   (N, H)
 * Inside   clipping (env.clip_observations, bounds of actions), normalisation, the agent's id,
 *          memory.
 * Which    tensors of the graph are the policy's is said by its collections (agent/algo/parts.h).
 */
#ifndef SUPERVISOR_EXPORT_POLICY_H
#define SUPERVISOR_EXPORT_POLICY_H

#include "supervisor/env/env.h"
#include "supervisor/export/network.h"

struct policy_of {
    const char *prefix; /* of the checkpoint */
    const char *run;
    const struct env_spec *spec;
    size_t agent;
};

/* ret: all-zero; network_done, also after an error. ERR_UNSUPPORTED: the agent has no policy, or
 * one with an operation that has no translation; errors of reading the checkpoint. */
int policy_network(struct network *ret, const struct policy_of *of, struct err *err);

#endif
