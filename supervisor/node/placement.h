/* placement.h - which node gets which process, and on which host it is.
 *
 * Device   agents.<a>.device, as TensorFlow writes it: /job:worker/task:2. Parts that are missing
 *          match all. There is one job, "worker", whose task k is node k.
 * Default  agents in blocks over the nodes, in the environment's order.
 * Groups   agents that share parameters, and their ps process, are on one node, that of the
 *          first member with a task, or else the first member's; but for members with another
 *          task, which are there. The central process is on the node of the first agent.
 */
#ifndef SUPERVISOR_NODE_PLACEMENT_H
#define SUPERVISOR_NODE_PLACEMENT_H

#include "common/config/run_config.h"
#include "common/mem/words.h"
#include "supervisor/proc/agent_table.h"

#include <stddef.h>

/* ret: [n], the node of each process, below `nodes`. ERR_CONFIG, with err->key: a device names no
 * node. */
int placement_make(const struct run_config *config, size_t nodes,
                   const struct agent_spec *specs, size_t n, size_t *ret,
                   struct err *err);
/* The host of that node in the configuration; "" if it names none. */
const char *placement_host(const struct cluster_config *config, size_t node);
/* Appends the options of the launcher that leads there; they must stay valid. */
void placement_add_options(const struct cluster_config *config, struct words *w);

#endif
