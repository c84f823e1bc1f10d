/* agent_specs.h - which agent processes a run starts: one learner for each agent of the
 * environment, in the environment's order, and one more process, "central", if an
 * algorithm has central stages.
 *
 * Owns     the arrays. The names belong to the environment's spec, the log paths to the
 *          run directory.
 */
#ifndef SUPERVISOR_RUN_AGENT_SPECS_H
#define SUPERVISOR_RUN_AGENT_SPECS_H

#include "common/config/run_config.h"
#include "supervisor/env/env.h"
#include "supervisor/proc/agent_table.h"
#include "supervisor/run/run_dir.h"

#include <stddef.h>

struct agent_specs {
    struct agent_spec *spec;     /* [n] */
    struct agent_limits *limits; /* [n] */
    size_t n;
};

/* 1 if the algorithm of some agent has stages that run in a central process. */
int agent_specs_need_central(const struct run_config *config);

/* Restart policy, memory limit and response deadline that `agent` configures. */
struct agent_limits agent_specs_limits(const struct agent_config *agent);

/* central: adds the process "central", with role "central" and the limits of `defaults`.
 * dir: the run directory, in which each process writes logs/<name>.log; NULL: output is
 * kept in memory only. pack: agent_spec.pack_configure. */
void agent_specs_init(struct agent_specs *ret, const struct run_config *config,
                      const struct env_spec *env, int central, struct run_dir *dir,
                      void (*pack)(void *ctx, size_t agent, int restored,
                                   struct msg_out *o));
void agent_specs_done(struct agent_specs *s);

#endif
