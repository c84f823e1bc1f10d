/* fixed.h - agents that act and never learn: random, noop, heuristic, frozen.
 *
 * Each is a policy: a function from observations (and keyed draws) to actions. `act`
 * returns these in every mode. Other agents' critics need the policy's next actions:
 * stage `propose` (propose.h).
 *
 * Shared by these algorithms only.
 */
#ifndef AGENT_ALGO_FIXED_H
#define AGENT_ALGO_FIXED_H

#include "agent/algo/algo.h"

struct fixed_policy {
    /* Checks that the policy can act in this agent's space; *ret, its own state, is passed
     * to the functions below. NULL: it can act in every space, without a state. */
    int (*open)(void **ret, const struct algo_args *args, struct err *err);
    void (*close)(void *policy); /* NULL: nothing to free */
    /* Sets the first values of its variables; NULL: it has none. */
    int (*init)(void *policy, struct session *s, struct err *err);
    /* H, of a recurrent one; NULL: it carries nothing. */
    int64_t (*carry_width)(const void *policy);
    /* Sets ret's actions and carry. */
    int (*decide)(void *policy, const struct space *self, struct session *s,
                  const struct act_args *args, struct act_result *ret, struct err *err);
};

extern const struct fixed_policy frozen_policy, heuristic_policy;

#endif
