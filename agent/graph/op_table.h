/* op_table.h - one row per op type: its signature, shape rule and gradient rule.
 *
 * Names, attributes and semantics are those of TensorFlow (op_def registry). A new op is
 * one row here, one kernel row (session/kernels/kern_table.c) and one row in its test.
 */
#ifndef AGENT_GRAPH_OP_TABLE_H
#define AGENT_GRAPH_OP_TABLE_H

#include "agent/graph/graph.h"

/* A shape rule runs twice: when the operation is built (dimensions may be -1, most values
 * are unknown) and when a plan is made for fed sizes (all dimensions are known). */
struct shape_args {
    const struct operation *op;
    int n_in;
    const struct shape *in;
    /* value[i]: the input's value if it is known (constants, shapes), otherwise NULL */
    const struct tensor *const *value;
    struct shape *out; /* [n_outputs], preset to SHAPE_UNKNOWN */
    struct err *err;
    int is_planning; /* the shapes and values are those of a run, in which any may be fed */
};
typedef int (*shape_fn)(const struct shape_args *args); /* 0, ERR_SHAPE, ERR_ARG */

/* Builds the nodes that compute the gradients of the inputs from those of the outputs.
 * grad_in[i] is preset to OUTPUT_NONE; a missing grad_out is OUTPUT_NONE. */
typedef int (*grad_fn)(struct graph *g, struct operation *op,
                       const struct output *grad_out, struct output *grad_in);

enum op_flags {
    OP_STATEFUL = 1,    /* draws or uses a variable: never merged or removed */
    OP_WRITES = 2,      /* changes the variable behind input 0 (optimisers: 0..k) */
    OP_NO_GRADIENT = 4, /* TensorFlow has no gradient either */
    OP_FOREIGN = 8,     /* not in the table: cannot run (import.h) */
    /* writes no variable, but has effects that a control edge must order: uses files,
     * checks values, or decides which branch runs */
    OP_AWAITED = 16,
    /* its kernel calls libm, whose last bits differ between machines; for float32 and
     * float64 */
    OP_LIBM = 32,
    /* the same for float64 only; the float32 kernel does not call libm */
    OP_LIBM_DOUBLE = 64,
    /* no plan computes it: the session runs it between plans (session/stages.h) */
    OP_STAGED = 128,
};

struct op_def {
    const char *type;
    unsigned flags;
    shape_fn shape;
    grad_fn grad;          /* NULL with OP_NO_GRADIENT */
    const char *signature; /* "x:T, y:T -> z:T; T:type", see signature.h */
    /* The ranks that the first inputs must have, checked before `shape`: "?0": input 1 is a
     * scalar, all others are of any rank. NULL: any. */
    const char *ranks;
};

const struct op_def *op_def_find(const char *type); /* NULL: unknown op */
const struct op_def *op_def_at(size_t i);           /* NULL past the end */
/* Whether the operation is that of a variable: VariableV2, Variable or VarHandleOp. All
 * have the attributes `dtype` and `shape`. */
int operation_is_variable(const struct operation *op);
/* The VarHandleOp of this handle, which other operations may have passed on; NULL if
 * there is none. */
const struct operation *operation_behind_handle(struct output handle);
const struct op_def *operation_def(const struct operation *op);
/* Checks the ranks of the inputs and applies the shape rule. 0, ERR_SHAPE, ERR_ARG. */
int operation_infer_shapes(const struct shape_args *args);
/* The first operation whose kernel calls libm, so that the graph's results may have other
 * bits on another machine. NULL if there is none. */
const struct operation *graph_first_libm(const struct graph *g);

#endif
