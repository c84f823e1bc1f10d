/* policies.h - the policies of frozen agents, and the graphs that agents host.
 *
 * A frozen agent may have been a program in the run that it comes from. It is that program
 * again (program_policy.h), and its values are sent to it as to an agent of a new run that
 * begins with another run's weights.
 *
 * A new run finds the policy or graph that settings.from names and copies its MetaGraph into
 * its own directory, as policies/<agent>.meta; the values are in the run's checkpoints from
 * step 0 on. So respawns, resumes and evaluations need no other run's files.
 */
#ifndef SUPERVISOR_BEGIN_POLICIES_H
#define SUPERVISOR_BEGIN_POLICIES_H

#include "common/config/run_config.h"
#include "supervisor/begin/policy_source.h"
#include "supervisor/rollout/rollout.h"
#include "supervisor/rundir/run_dir.h"
#include "supervisor/save/checkpoint_read.h"

struct policies; /* opaque; owns all its data */

/* For a new run, before its directory is created. A frozen agent needs a checkpoint with values;
 * if it belongs to a run, that run must have had the same environment: all keys with
 * FIELD_MEANING are compared, but not those of external environments. ERR_CONFIG names file,
 * line and key. */
int policies_find(struct policies **ret, const struct run_config *c,
                  const struct policy_search *search, struct err *err);
/* ERR_ARG if one of them lies in the run of that name, which would lose it if it was replaced
 * (run_dir_refuse_within). */
int policies_refuse_within(const struct policies *p, const char *runs_dir,
                           const char *name, struct err *err);
/* Writes the MetaGraphs into the new run's directory. */
int policies_keep(const struct policies *p, struct run_dir *dir, struct err *err);
/* Loads them from the directory `path` of an existing run; prefixes are NULL. */
int policies_load(struct policies **ret, const struct run_config *c, const char *path,
                  struct err *err);
void policies_free(struct policies *p); /* NULL is fine */

/* NULL: the agent builds its own graph. p may be NULL: they all do. */
const struct rollout_policy *policies_of(const struct policies *p, size_t agent);
/* The values that an agent begins with that is a program and acts as a checkpoint does; only
 * after policies_find. NULL: it is none. */
const struct checkpoint_values *policies_values(const struct policies *p, size_t agent);

#endif
