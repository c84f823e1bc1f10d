/* acting.h - one action from every agent: sends all `act` requests, gathers the answers.
 *
 * Shapes   E copies; agent a: O_a observation, U_a action, H_a carry width; X a column's.
 * Owns     actions, carry and columns: valid until the next acting_begin.
 * Masks    where the environment has some, each agent is told what it may choose; a choice
 *          that it may not (of an agent that does nothing) becomes the first it may.
 * Checks   answers come from other processes: dtype, shape and finiteness, ERR_PROTOCOL
 *          or ERR_NONFINITE naming agent, value and copy.
 */
#ifndef SUPERVISOR_ROLLOUT_ACTING_H
#define SUPERVISOR_ROLLOUT_ACTING_H

#include "common/err/err.h"
#include "common/msg/protocol.h"
#include "supervisor/env/env.h"
#include "supervisor/proc/agent_table.h"
#include "supervisor/rollout/description.h"

#include <stddef.h>
#include <stdint.h>

struct acting; /* opaque */

struct acting_args {            /* all borrowed */
    struct agent_table *agents; /* the environment's agents first */
    const struct env_spec *spec;
    const struct description *descriptions; /* [A] */
    size_t copies;
    int with_columns; /* the columns that agents add to a row are wanted */
    void (*on_done)(void *ctx);
    void (*on_failed)(void *ctx, const struct err *err);
    void *ctx;
};

struct acting_call {
    enum act_mode mode;
    uint64_t step; /* environment step of copy 0; copy e is at step + e */
    const struct vec_env *env;
    /* An evaluation's: draws are keyed by (seed, episode, time). NULL: by step. */
    const uint64_t *episode, *time; /* (E) */
    uint64_t seed;
};

struct acting *acting_new(const struct acting_args *args);
void acting_free(struct acting *a); /* no request may be outstanding */

/* One of on_done and on_failed comes later, from the loop, unless an error is returned.
 */
int acting_begin(struct acting *a, const struct acting_call *call, struct err *err);

const float *const *acting_actions(const struct acting *a);              /* [A] (E, U) */
const float *acting_column(const struct acting *a, size_t agent, int i); /* (E, X) */
float *acting_carry(struct acting *a, size_t agent);                     /* (E, H) */

#endif
