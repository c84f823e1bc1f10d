/* loops.h - the while loops of a graph: their parts, found from an Exit. Private to
 * agent/flow.
 *
 * A loop is the operations that one LoopCond decides about. For each of its variables it has
 *
 *     Enter -> Merge -> Switch -> Exit          (the condition is false: the loop's result)
 *                ^         `----> body -> NextIteration
 *                `--------------------------------'
 *
 * and an Enter with is_constant for each value from outside that does not change. Only
 * the variables that a run needs are found: those whose Exit it uses, and those they
 * depend on.
 *
 * Errors   ERR_FORMAT, naming the operation, if the parts are not connected like this.
 * Source   tensorflow/python/ops/control_flow_ops.py (WhileContext)
 */
#ifndef AGENT_FLOW_LOOPS_H
#define AGENT_FLOW_LOOPS_H

#include "agent/graph/graph.h"
#include "common/mem/arena.h"

struct loop_variable {
    struct operation *enter, *merge, *next;
    struct operation *exit;  /* NULL: the run does not use it */
    struct operation *taken; /* its Switch; NULL: the body does not use the variable */
};

struct while_loop {
    const char *frame;            /* of its Enters */
    const struct operation *cond; /* LoopCond */
    int n_variables, cap_variables;
    struct loop_variable *variables;
    int n_constants, cap_constants;
    struct operation **constants; /* Enters */
    /* The outputs from outside that the loop needs, in the order in which they were
     * found; index -1: an operation that the loop waits for. */
    int n_needs, cap_needs;
    struct output *needs;
    int draws;             /* its operations use random numbers */
    unsigned char *inside; /* by operation id */
    struct while_loop *next;
};

enum { LOOPS_MAX_DEPTH = 64 };

struct loop_finder {
    const struct graph *graph;
    struct arena *arena; /* of the result; `inside` is in the scratch arena */
    struct arena *scratch;
    const unsigned char *effects; /* plan_effects */
    const struct output *given;   /* [n_given] outputs whose values the run is given */
    size_t n_given;
    int64_t n_left; /* operations to look at before giving up */
    struct err *err;
    const struct operation *open[LOOPS_MAX_DEPTH]; /* LoopConds */
    int depth;
};

/* Adds the variable of the Exit, and everything it needs, to the loop that the Exit
 * leaves: the one in *list with the same LoopCond, or a new one. Returns 0 or an
 * error. */
int loop_find(struct loop_finder *f, struct while_loop **list, struct operation *exit,
              struct while_loop **ret);

/* Whether the Merge is that of a loop's variable. */
int loop_is_merge(const struct operation *op);
/* Whether the Enter passes on a variable's reference or handle, or a constant that is not
 * among the n_given outputs. Plans inside the loop then read the outside value directly. */
int loop_is_transparent(const struct operation *enter, const struct output *given,
                        size_t n_given);

#endif
