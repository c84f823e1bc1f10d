/* exchange.h - stores the outputs of stages and passes them to the stages that read them.
 *
 * A stage declares which outputs it reads; the request for the stage carries those of the
 * runners that ran the earlier stage (update_plan.h) as
 * inputs {"agent/name": tensor} ("central/name" from the central process, "ps/name" from
 * the ps of the reader's group). Outputs that no stage reads are dropped. Buffers are
 * reused from update to update.
 *
 * Runners are the processes that run stages: the learners 0 .. n_learners-1, then the
 * central process, n_learners, then the ps of each group. A ps reads its members' outputs.
 */
#ifndef SUPERVISOR_ROLLOUT_EXCHANGE_H
#define SUPERVISOR_ROLLOUT_EXCHANGE_H

#include "common/err/err.h"
#include "common/msg/msg.h"
#include "common/wire/cursor.h"
#include "supervisor/env/env.h"
#include "supervisor/rollout/sharing.h"
#include "supervisor/rollout/update_plan.h"

#include <stddef.h>

#define EXCHANGE_MAX_OUTPUTS 8 /* of one stage of one runner */

struct exchange; /* opaque */

/* Borrows all. names: [n_learners]. spec: of the learners' actions. */
struct exchange *exchange_new(const struct update_plan *plan, const char *const *names,
                              const struct env_spec *spec, const struct sharing *sharing);
void exchange_free(struct exchange *x);

/* Copies the outputs of a runner's answer (a map, or NULL: none) over its previous ones.
 * finite: refuse non-finite float outputs. ERR_PROTOCOL, ERR_NONFINITE. */
int exchange_put(struct exchange *x, int stage, size_t runner,
                 const msgpack_object *outputs, int finite, struct err *err);
/* For a runner that was given up: from now on its outputs are zero. Its actions have the
 * shape of the reader's rows, others that of its previous outputs or, if it has none, of
 * another runner's, or else of the rows. */
void exchange_put_nothing(struct exchange *x, int stage, size_t runner);
/* Saves the names and shapes of the newest outputs of all runners, from which the shapes
 * of given-up runners' outputs are known after a resume. load: into a new exchange, as
 * zeros. ERR_FORMAT. */
void exchange_state_save(const struct exchange *x, struct wbuf *b);
int exchange_state_load(struct exchange *x, struct cursor *c, struct err *err);
/* For a stage of turns: the learners whose turn is over, the newest last. The first learner
 * gets a tensor of ones for each row in place of outputs. */
struct exchange_turn {
    const uint32_t *before; /* [n] */
    size_t n;
};
/* Packs the map of inputs for one runner of a stage. turn: NULL if the stage has no turns.
 * rows: the shape (G,B,L) of the request's rows. ERR_PROTOCOL names an output that is
 * missing. */
int exchange_pack(struct exchange *x, int stage, size_t runner,
                  const struct exchange_turn *turn, const struct shape *rows,
                  struct msg_out *o, struct err *err);

#endif
