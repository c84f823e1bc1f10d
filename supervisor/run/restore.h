/* restore.h - brings agents to the values of a checkpoint, through their requests.
 *
 * For evaluation and for new training from old weights: variables are matched by name;
 * what a checkpoint lacks keeps its initial value.
 */
#ifndef SUPERVISOR_RUN_RESTORE_H
#define SUPERVISOR_RUN_RESTORE_H

#include "common/config/run_config.h"
#include "common/err/err.h"
#include "supervisor/proc/agent_table.h"

#include <stdint.h>

struct restore; /* opaque */

/* Sends every agent its values of checkpoints_dir/<step>; on_done when all have answered.
 * learners_of: only those agents that learn in this configuration; NULL: all. The table
 * must be ready and owe nothing. */
int restore_start(struct restore **ret, struct agent_table *agents,
                  const char *checkpoints_dir, uint64_t step,
                  const struct run_config *learners_of, void (*on_done)(void *ctx),
                  void *ctx, struct err *err);
void restore_free(struct restore *r); /* NULL is fine; agents owe nothing or are gone */

#endif
