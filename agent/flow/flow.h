/* flow.h - runs of graphs that one plan cannot run: those with while loops, tensor arrays,
 * stacks, lists, and results whose sizes only values decide.
 *
 * No algorithm of brood builds such a graph; imported ones have them. Any other run goes to
 * one plan (plan/plans.h) at once, so that a reader of the session that trains may skip this
 * folder. In reading order:
 *     flow.c           decides whether a run must be cut into stages
 *     stages.h         what a stage is; stages.c cuts, stages_uses.c orders what uses variables,
 *                      stages_run.c runs the stages
 *     loops.h          finds the parts of while loops
 *     containers.h     tensor arrays and stacks
 *     lists.h          tensor lists and optionals
 *     string_feeds.h   variables of strings, which plans only know as constants
 */
#ifndef AGENT_FLOW_FLOW_H
#define AGENT_FLOW_FLOW_H

#include "agent/flow/string_feeds.h"
#include "agent/plan/plans.h"

struct flow;

/* The graph, the variables and the plans outlive it. max_iterations: of all loops of a run. */
struct flow *flow_new(struct graph *g, struct var_store *vars, struct plans *plans,
                      int64_t max_iterations);
void flow_free(struct flow *f); /* NULL is fine */

/* Runs one plan, or, if none can do it, several in stages. Results and errors as of
 * session_run; ret_dead: see plan_execute. */
int flow_run(struct flow *f, const struct run_args *args, struct tensor *ret,
             unsigned char *ret_dead, struct err *err);

/* NULL: the graph has no variables of strings. */
struct string_feeds *flow_string_feeds(struct flow *f);

/* For each operation of the graph, in how many while loops it is: free(). An Exit counts as
 * outside of the loop that it leaves. NULL: the run has no loops. */
int *flow_loop_depths(struct flow *f, const struct run_args *args);

#endif
