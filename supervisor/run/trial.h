/* trial.h - whether an agent could begin with a configuration: a process configures itself
 * with it, says what it would be, and ends.
 *
 * Takes some milliseconds, during which the caller's loop stands; at most
 * TRIAL_WITHIN_S if the process does not answer.
 */
#ifndef SUPERVISOR_RUN_TRIAL_H
#define SUPERVISOR_RUN_TRIAL_H

#include "common/config/run_config.h"
#include "common/err/err.h"
#include "supervisor/proc/agent_table.h"

#define TRIAL_WITHIN_S 10.0

/* spec: its name, role and pack_configure; ctx: of the latter. now: the answer to
 * `configure` that the agent gave, which it must give again. ERR_CONFIG: what stands in
 * the way, in the agent's own words if it has any. */
int trial_configure(int agent_exe_fd, const struct agent_spec *spec, void *ctx,
                    const struct msg *now, struct err *err);

/* Tries all agents of a run that is to begin, those that differ in their names alone once:
 * a config_try_fn. What is answered counts, and a death for want of memory (ERR_NOMEM): who
 * dies otherwise may do better in the run itself.
 * Policies of elsewhere (frozen) are not tried. */
int trial_agents(const struct run_config *c, size_t *ret_agent, struct err *err);

#endif
