/* due.h - what is due at a round boundary; pure arithmetic.
 *
 * Intervals count environment steps, and a round makes several: after a round from step
 * `before` to step `steps`, floor(steps/interval) - floor(before/interval) updates of a group
 * of learners are due, then at most one evaluation, one row of metrics and one checkpoint.
 * Updates that would have been due during warm-up are skipped. The run ends at the first
 * boundary at or after its last step, with a last row and a last checkpoint.
 */
#ifndef SUPERVISOR_ROLLOUT_DUE_H
#define SUPERVISOR_ROLLOUT_DUE_H

#include "common/config/run_config.h"
#include "common/config/run_length.h"

#include <stdint.h>

struct intervals {
    uint64_t evaluate_every; /* also once at the end; here and below, 0: never */
    uint64_t log_every;
    uint64_t checkpoint_every;
    uint64_t checkpoint_every_ns;
    struct run_length length; /* of the run, in force at the boundary */
};

struct update_interval {
    uint64_t warmup; /* rows before the first update */
    uint64_t every;  /* environment steps; 0: never */
};

struct due {
    uint64_t updates; /* set by the caller: due_updates */
    int evaluate, log, checkpoint;
    /* set by a stop: a row of metrics, for people, after the checkpoint; a resume drops
     * it */
    int last_row;
    int stop; /* the run is to stop here, after the work that is due; set by the caller */
    int end;  /* this is the last boundary */
};

struct due_at {
    uint64_t before, steps; /* environment steps at the last boundary and now */
    uint64_t episodes;
    uint64_t since_checkpoint_ns;
};

/* Whether anything but `stop` and `end` is due. */
static inline int due_is_any(const struct due *due)
{
    return due->updates > 0 || due->evaluate || due->log || due->checkpoint;
}

void intervals_init(struct intervals *s, const struct run_config *c);
uint64_t due_updates(const struct update_interval *u, const struct due_at *now);
struct due due_find(const struct intervals *s, const struct due_at *now);

#endif
