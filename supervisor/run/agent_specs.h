/* agent_specs.h - the processes a run consists of: a learner for each agent of the
 * environment, in its order, and, where an algorithm has central stages, one more.
 *
 * Owns     the array; the names belong to the environment's spec, log paths to the run
 *          directory.
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

/* Does the algorithm of any agent have stages of a central process? */
int agent_specs_need_central(const struct run_config *config);

/* What `agent` of the configuration says about its process. */
struct agent_limits agent_specs_limits(const struct agent_config *agent);

/* central: adds the process "central", of the role "central",
 * with the limits of `defaults`. dir: where each has its
 * logs/<name>.log; NULL: output is kept in memory only. pack: agent_spec.pack_configure.
 */
void agent_specs_init(struct agent_specs *ret, const struct run_config *config,
                      const struct env_spec *env, int central, struct run_dir *dir,
                      void (*pack)(void *ctx, size_t agent, int restored,
                                   struct msg_out *o));
void agent_specs_done(struct agent_specs *s);

#endif
