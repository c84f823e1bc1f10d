/* trial.h - starts a process with an agent's configuration, to see whether it takes it.
 *
 * The process answers `configure` and is ended: some milliseconds, at most TRIAL_WITHIN_S
 * where it does not answer. The caller's loop stands still meanwhile (ask.h).
 */
#ifndef SUPERVISOR_RUN_TRIAL_H
#define SUPERVISOR_RUN_TRIAL_H

#include "common/config/run_config.h"
#include "common/err/err.h"
#include "supervisor/proc/agent_table.h"

#define TRIAL_WITHIN_S 10.0

/* spec: its name, role and pack_configure count; ctx: of the latter. now: what the agent
 * answered to `configure`, and must answer again. ERR_CONFIG names the agent, and says in
 * the process's own words, where it has any, what is wrong. */
int trial_configure(int agent_exe_fd, const struct agent_spec *spec, void *ctx,
                    const struct msg *now, struct err *err);

/* Tries the agents of a run that is to begin (of those that differ only in name, one): a
 * config_try_fn. Fails where a process refuses its configuration (ERR_CONFIG) or has no
 * memory for it (ERR_NOMEM). Other deaths are no failure here: in the run, the process is
 * started again. Frozen agents are not tried. */
int trial_agents(const struct run_config *c, size_t *ret_agent, struct err *err);

#endif
