/* acting.h - gets one action from every agent: sends the `act` requests, checks and
 * stores the answers.
 *
 * Shapes   E copies; agent a: O_a observation, U_a action, H_a carry width; X the width
 *          of a column.
 * Owns     actions, carry and columns: valid until the next acting_begin.
 * Masks    if the environment has action masks, each request carries the agent's mask. A
 *          forbidden choice (such as the all-zero action of a given-up agent) is replaced
 *          with the first allowed one.
 * Modes    that of the call; a program that acts as a checkpoint does has one of its own.
 * Checks   answers come from other processes: dtype, shape and finiteness are checked.
 *          ERR_PROTOCOL or ERR_NONFINITE names agent, value and element.
 */
#ifndef SUPERVISOR_ROLLOUT_ACTING_H
#define SUPERVISOR_ROLLOUT_ACTING_H

#include "common/config/run_config.h"
#include "common/err/err.h"
#include "common/msg/protocol.h"
#include "supervisor/env/env.h"
#include "supervisor/proc/agent_table.h"
#include "supervisor/rollout/description.h"
#include "supervisor/rollout/probe.h"

#include <stddef.h>
#include <stdint.h>

struct acting; /* opaque */

struct acting_args {            /* all borrowed */
    struct agent_table *agents; /* the environment's agents first */
    const struct env_spec *spec;
    const struct description *descriptions; /* [A] */
    const struct run_config *config;        /* of the agents */
    size_t copies;
    int with_columns; /* whether to read the columns that agents add to a row */
    void (*on_done)(void *ctx);
    void (*on_failed)(void *ctx, const struct err *err);
    void *ctx;
};

struct acting_call {
    enum act_mode mode;
    uint64_t step; /* of the run; in training that of copy 0, and copy e is at step + e */
    const struct vec_env *env;
    /* In an evaluation, draws are keyed by (seed, episode, time). NULL: by step. */
    const uint64_t *episode, *time; /* (E) */
    uint64_t seed;
    const struct probe *probe; /* of a replay, if this is its round; otherwise NULL */
};

/* For who packs requests of its own: the mode that an agent acts in (Modes); and the (rows, width)
 * floats of an answer, checked (Checks). */
enum act_mode acting_mode(const struct agent_config *agent, enum act_mode mode);
int acting_take(const msgpack_object *answer, const char *key, size_t rows, size_t width,
                float *ret, struct err *err);

struct acting *acting_new(const struct acting_args *args);
void acting_free(struct acting *a); /* no request may be outstanding */

/* Sends the requests. Unless it returns an error, the loop later calls on_done or
 * on_failed. */
int acting_begin(struct acting *a, const struct acting_call *call, struct err *err);

/* After on_done: the carries are again as they were before the call. */
void acting_undo(struct acting *a);

const float *const *acting_actions(const struct acting *a);              /* [A] (E, U) */
const float *acting_column(const struct acting *a, size_t agent, int i); /* (E, X) */
float *acting_carry(struct acting *a, size_t agent);                     /* (E, H) */

#endif
