/* program_policy.h - frozen agents that were programs in the run that they come from.
 *
 * Such an agent is that program again, started from the files that the run keeps, with the
 * settings that it had there; a->policy says which checkpoint it acts as. It is asked anew what
 * it is, because other versions of packages may be installed by now: a new run need not repeat
 * the bits of another one.
 *
 * Threads  main thread, as in supervisor/ask/describe.h.
 */
#ifndef SUPERVISOR_BEGIN_PROGRAM_POLICY_H
#define SUPERVISOR_BEGIN_PROGRAM_POLICY_H

#include "common/config/run_config.h"

/* A config_policy_fn; ctx: a struct policy_search. What is not found in a run is left as it is:
 * policies_find tells the errors of a checkpoint. ERR_CONFIG: the program cannot be started, or
 * another user may have written it. */
int program_policy_take(void *ctx, struct agent_config *a, struct arena *arena,
                        struct err *err);

#endif
