/* session_internal.h - what is inside a session: for this folder, its tests and benchmarks. */
#ifndef AGENT_SESSION_SESSION_INTERNAL_H
#define AGENT_SESSION_SESSION_INTERNAL_H

#include "agent/plan/plans.h"
#include "agent/session/session.h"

struct var_store *session_variables(struct session *s);

/* The matrix products in the plan for these arguments, in order. Returns their number (ret may
 * be NULL). Pointers are those of the last run. */
size_t session_gemms(struct session *s, const struct run_args *args, struct dense *ret,
                     size_t max);

#endif
