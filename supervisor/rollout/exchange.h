/* exchange.h - outputs of stages, kept for the stages after them.
 *
 * A stage names what it reads; the request of its runner then carries these outputs as
 * inputs {"agent/name": tensor} ("central/name" from the central process). Outputs that
 * nobody reads are not kept. Buffers are reused from update to update.
 *
 * Runners are numbered 0 .. n_learners-1, and n_learners is the central process.
 */
#ifndef SUPERVISOR_ROLLOUT_EXCHANGE_H
#define SUPERVISOR_ROLLOUT_EXCHANGE_H

#include "common/err/err.h"
#include "common/msg/msg.h"
#include "common/wire/cursor.h"
#include "supervisor/rollout/description.h"

#include <stddef.h>

#define EXCHANGE_MAX_OUTPUTS 8 /* of one stage of one runner */

struct exchange; /* opaque */

/* stages and names ([n_learners]) are borrowed. */
struct exchange *exchange_new(const struct stage_list *stages, const char *const *names,
                              size_t n_learners);
void exchange_free(struct exchange *x);

/* Copies the outputs of a runner's answer (a map, or NULL: none), in place of those it
 * gave before. finite: float outputs must be. ERR_PROTOCOL, ERR_NONFINITE. */
int exchange_put(struct exchange *x, int stage, size_t runner,
                 const msgpack_object *outputs, int finite, struct err *err);
/* The runner has given up and answers no more: what it gave before, or else a peer, says
 * of which shape its outputs are; they are zero from now on. */
void exchange_put_nothing(struct exchange *x, int stage, size_t runner);
/* The names and shapes of what everybody gave last, which say what those who have given up
 * since would give; load: all zero, into a new exchange. ERR_FORMAT. */
void exchange_state_save(const struct exchange *x, struct wbuf *b);
int exchange_state_load(struct exchange *x, struct cursor *c, struct err *err);
/* Packs the map of inputs of a stage's runner. ERR_PROTOCOL names an output that was not
 * given. */
int exchange_pack(struct exchange *x, int stage, size_t runner, struct msg_out *o,
                  struct err *err);

#endif
