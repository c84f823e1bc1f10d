/* plans.h - the plans of a session, and the buffer in which they run: the first run of a kind
 * makes its plan, later ones find it.
 *
 * Results  as of session_run; ret_dead: see plan_execute. Fetched resources have no data.
 * Probes   where a shape depends on a value that only a run can compute, a separate run
 *          computes and feeds it first (plan_probe.c).
 * Errors   those of run_check when a plan is made; those of planning and of the kernels.
 */
#ifndef AGENT_PLAN_PLANS_H
#define AGENT_PLAN_PLANS_H

#include "agent/plan/plan.h"

struct plans;

/* The graph and the variables outlive the plans. */
struct plans *plans_new(struct graph *g, struct var_store *vars, enum numerics numerics);
void plans_free(struct plans *ps); /* NULL is fine */
/* fn is called between the steps of a plan; NULL: none. */
void plans_set_progress(struct plans *ps, void (*fn)(void *ctx), void *ctx);

int plans_run(struct plans *ps, const struct run_args *args, struct tensor *ret,
              unsigned char *ret_dead, struct err *err);
/* Runs one plan of a run that is cut into several (flow/stages.h), whose arguments were
 * checked. Reports progress first: the plan of an iteration may have no step that does. */
int plans_run_part(struct plans *ps, const struct run_args *args, struct tensor *ret,
                   unsigned char *ret_dead, struct err *err);
/* The plan for these arguments; NULL: none was made. */
struct plan *plans_find(const struct plans *ps, const struct run_args *args);

#endif
