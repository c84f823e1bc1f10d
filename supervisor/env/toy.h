/* toy.h - tiny worlds with known values, for tests of learning.
 *
 * Every agent observes one number and has two discrete actions that change nothing; the
 * reward is 1 each step.
 *   constant_reward  observes 1; only env.max_steps ends it: a value converges to
 *                    1 / (1 - discount)
 *   one_step         the same, but terminated after one step: a value converges to 1
 *   two_step         observes TOY_MARKER at reset, then 1, then 2, then is terminated:
 *                    the marker must never appear as a next observation
 */
#ifndef SUPERVISOR_ENV_TOY_H
#define SUPERVISOR_ENV_TOY_H

#include "common/config/schema.h"

#include <stdint.h>

#define TOY_MARKER (-99.0f)

struct toy {
    float at_reset; /* the observation before the first step */
    float per_step; /* observation after step t: base + per_step * t */
    float base;
    uint64_t terminates; /* terminated after this many steps; 0: never */
};

extern const struct schema toy_params; /* `agents`: the number of agents */
extern const struct toy toy_constant_reward, toy_one_step, toy_two_step;

#endif
