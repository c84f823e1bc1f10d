/* weights.h - histograms of the agents' weights, for TensorBoard.
 *
 * Weights  the float32 variables of a checkpoint but for scalars and for what optimisers keep
 *          of each: `<agent>/.../<variable>/<slot>`.
 */
#ifndef SUPERVISOR_SAVE_WEIGHTS_H
#define SUPERVISOR_SAVE_WEIGHTS_H

#include "supervisor/metrics/sinks.h"
#include "supervisor/save/checkpoint_write.h"

/* Writes one event, unless one of this step or a later one is there. ERR_PROTOCOL: an agent's
 * description is malformed. */
int weights_write(struct event_folder *to, const struct checkpoint_agent *agents,
                  size_t n_agents, uint64_t step, double wall_time, struct err *err);

#endif
