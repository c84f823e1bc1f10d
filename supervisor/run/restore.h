/* restore.h - sends agents the values of a checkpoint in `restore` requests.
 *
 * Used by `brood eval` and by a new run that begins with another run's weights. Variables
 * are matched by name; one that the checkpoint lacks keeps its initial value.
 */
#ifndef SUPERVISOR_RUN_RESTORE_H
#define SUPERVISOR_RUN_RESTORE_H

#include "common/config/run_config.h"
#include "common/err/err.h"
#include "supervisor/proc/agent_table.h"
#include "supervisor/run/weights.h"

struct restore; /* opaque */

/* Sends every agent its values; calls on_done when all have
 * responded. learners_of: skips the agents that do not learn in this configuration; NULL:
 * skips none. Every agent must be ready, with no request outstanding. *ret is set also on
 * failure. */
int restore_start(struct restore **ret, struct agent_table *agents,
                  const struct weights *weights, const struct run_config *learners_of,
                  void (*on_done)(void *ctx), void *ctx, struct err *err);
void restore_free(
    struct restore *r); /* NULL is fine; not while requests are outstanding */

#endif
