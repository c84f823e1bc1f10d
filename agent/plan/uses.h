/* uses.h - who uses the bytes of a variable. For agent/plan and agent/flow.
 *
 * A reference variable (VariableV2) is one piece of memory, as in TensorFlow: its reference
 * and everything that passes the reference's bytes on (an Identity, v/read; a Reshape; both
 * branches of a Switch; a Merge; what enters or leaves a loop; the output of a write) is that
 * memory under another name, not a copy. An operation that computes from those bytes is a
 * use. It sees the bytes that are there when it runs; what it has computed does not change
 * any more. A resource variable (VarHandleOp) is used by its ReadVariableOp, whose result is
 * a value like any other, and by what computes from the handle (ResourceGather).
 *
 * The order of the uses of a variable and of the writes to it:
 *     1. A use sees every write from which a path leads to it: inputs, control inputs, or
 *        both. Passing the bytes on is no use, so it does not matter where on the path the
 *        Identity stands.
 *     2. A use sees no other write: it runs before it. If several such orders exclude each
 *        other (together they would close a cycle), those of the write that was created
 *        first count, and then those of the use that was created first.
 *     3. Of writes that nothing orders, one that can run first and was created first runs
 *        first.
 *     4. The iterations of a loop run one after another; a run cut into stages keeps 1 and 2
 *        between stages (flow/stages.h).
 *     5. A fetched reference, or what passes one on, shows the end of the run.
 * In TensorFlow the order of what no path orders is a race. Each order that these rules give
 * is one that TensorFlow may take.
 *
 * Not as in TensorFlow: an operation that computes never shares memory with its input, even
 * where TensorFlow's kernel does (a Slice of all elements, a Sum over no axes, a Tile by 1);
 * tensor arrays, stacks and resource variables keep copies of what they are given. As in
 * TensorFlow, a write to parts of a reference variable (ScatterUpdate) whose values are the
 * variable's own bytes sees what it has already written (but not behind a Merge, whose result
 * is copied first); one to a resource variable does not.
 */
#ifndef AGENT_PLAN_USES_H
#define AGENT_PLAN_USES_H

#include "agent/graph/graph.h"
#include "common/mem/arena.h"

/* A list of operations, by their ids, or of blocks (flow/stages.h). */
struct edge {
    int to;
    struct edge *next;
};
/* Adds it at the list's beginning. */
void edge_add(struct arena *arena, struct edge **list, int to);

/* What can only run after something. */
struct reach {
    struct edge *const *after; /* by number: those that come after it */
    int *mark, n_marks;        /* by number: the last walk that met it */
    int *stack;                /* at least as many as there are numbers */
};
/* Marks all that comes after `from`, and itself. */
void reach_from(struct reach *r, int from);
/* Whether the last call of reach_from met it. */
int reach_has(const struct reach *r, int to);

/* Whether the operation passes the bytes (or the handle) of input i on: see
 * op_carries. */
int op_passes_on(const struct operation *op, int i);
/* Whether this output of an operation that passes bytes on is one that has them. */
int op_carries(struct output x);
/* Whether the operation changes the variable behind input i. */
int op_writes(const struct operation *op, int i);
/* Whether argument i of the operation is a variable's reference ("&" in its signature) or
 * handle. */
int takes_reference(const struct operation *op, int i);

/* Finds what uses the bytes that leave some operations. */
struct uses_walk {
    const struct graph *graph;
    /* by operation id: operations that use one of its outputs, or only wait for it */
    struct edge *const *users;
    /* Whether the output's value comes from elsewhere (a feed). */
    int (*is_cut)(const void *ctx, struct output x);
    const void *ctx;
    int n_walks;
    int *mark; /* [operations] the last walk that met it */
    int *used; /* [operations] the last walk that found it to be a use */
    int *stack;
    int depth;
};
void uses_begin(struct uses_walk *w, struct arena *arena, const struct graph *g);
void uses_restart(struct uses_walk *w); /* a new walk */
/* Adds a user's input i to the walk: it is a use, or passes the bytes on. Returns 1 if it is
 * a use that the walk has not met. */
int uses_meet(struct uses_walk *w, const struct operation *user, int i);
/* Follows the bytes from `from` and from what was met. The uses are prepended to *ret. */
void uses_follow(struct uses_walk *w, struct arena *arena, const struct operation *from,
                 struct edge **ret);

#endif
