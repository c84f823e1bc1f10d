/* status_pack.h - a run's status as the map that `status` answers, and that `brood status
 * --json` prints.
 *
 *     run, state, exit_code?, pid, keeper_pid, round?, env_steps, episodes?, total_steps,
 *     total_episodes, steps_per_second, elapsed_seconds, checkpoint_step,
 *     team_return_mean?, exact, numerics?, not_portable?, agents: [{name, pid, state,
 *     given_up?, restarts, rss_bytes, update?, last_exit?}], environments: the same,
 *     pending: [{key, value, at_step?, agent?}]: changes that are agreed and not yet in
 *     force; without at_step it waits for a respawn of its agent
 *
 * Those with a question mark are nil where they are not known or there are none.
 */
#ifndef SUPERVISOR_CONTROL_STATUS_PACK_H
#define SUPERVISOR_CONTROL_STATUS_PACK_H

#include "common/msg/msg.h"
#include "supervisor/run/run_status.h"

/* One map object. */
void status_pack(struct msg_out *o, const struct run_status *s);
/* The list that `pending` is. */
void status_pack_pending(struct msg_out *o, const struct run_pending *list, size_t n);

#endif
