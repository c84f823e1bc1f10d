/* agent_specs.h - which agent processes a run starts: one learner for each agent of the
 * environment, in the environment's order; then one more process, "central", if an
 * algorithm has central stages; then a ps process for each group of agents that share
 * parameters (sharing.h).
 *
 * Owns     the arrays, and the memory of the groups. The names belong to the environment's
 *          spec, the log paths to the run directory.
 */
#ifndef SUPERVISOR_BEGIN_AGENT_SPECS_H
#define SUPERVISOR_BEGIN_AGENT_SPECS_H

#include "common/config/run_config.h"
#include "supervisor/env/env.h"
#include "supervisor/proc/agent_table.h"
#include "supervisor/proc/block.h"
#include "supervisor/rollout/sharing.h"
#include "supervisor/rundir/run_dir.h"

#include <stddef.h>

struct agent_specs {
    struct agent_spec *spec;     /* [n] */
    struct agent_limits *limits; /* [n] */
    /* Of agents that are programs, of which a process can be prepared: [n]; frame NULL: none. */
    struct agent_program *programs;
    size_t n;
    struct sharing sharing;
    struct block *shared; /* [sharing.n_groups] */
};

/* Restart policy, memory limit and response deadline of process i. A process that is not
 * a learner has those of `defaults`; the run stops if a parameter server is given up. */
struct agent_limits agent_specs_limits_at(const struct agent_specs *s,
                                          const struct run_config *config, size_t i);

/* central, ps: whether to add those processes. dir: the run directory, in which each process
 * writes logs/<name>.log; NULL: output is kept in memory only. pack:
 * agent_spec.pack_configure. ERR_CONFIG: agents cannot share (sharing.h); -errno. */
int agent_specs_init(struct agent_specs *ret, const struct run_config *config,
                     const struct env_spec *env, int central, int ps, struct run_dir *dir,
                     void (*pack)(void *ctx, size_t agent, int restored,
                                  struct msg_out *o),
                     struct err *err);
void agent_specs_done(struct agent_specs *s);

#endif
