/* op_table.h - one row for each op: what it takes, gives and differentiates to.
 *
 * Names, attributes and semantics are TensorFlow's (op_def registry). A new op is one row
 * here, one kernel row (session/kernels/kern_table.c) and one row in its test.
 */
#ifndef AGENT_GRAPH_OP_TABLE_H
#define AGENT_GRAPH_OP_TABLE_H

#include "agent/graph/graph.h"

/* A shape rule runs twice: when the operation is built (dimensions may be -1, values
 * mostly unknown) and when a plan is made for fed sizes (all known). */
struct shape_args {
    const struct operation *op;
    int n_in;
    const struct shape *in;
    /* value[i]: the input's value where it is known (constants, shapes), else NULL */
    const struct tensor *const *value;
    struct shape *out; /* [n_outputs], preset to SHAPE_UNKNOWN */
    struct err *err;
};
typedef int (*shape_fn)(const struct shape_args *args); /* 0, ERR_SHAPE, ERR_ARG */

/* Adds the nodes of d(inputs) given d(outputs); grad_in[i] is preset to OUTPUT_NONE, and
 * an absent grad_out is OUTPUT_NONE. */
typedef int (*grad_fn)(struct graph *g, struct operation *op,
                       const struct output *grad_out, struct output *grad_in);

enum op_flags {
    OP_STATEFUL = 1,    /* draws or touches a variable: never merged or dropped */
    OP_WRITES = 2,      /* changes the variable behind input 0 (optimisers: 0..k) */
    OP_NO_GRADIENT = 4, /* TensorFlow has none either */
    OP_FOREIGN = 8,     /* not of the table: cannot be run (import.h) */
    OP_AWAITED = 16,    /* writes no variable, but to wait for it makes a difference: it
                         * touches files, checks values, or decides what is alive */
    OP_LIBM = 32,       /* its kernel calls libm, whose last bits differ between machines:
                          * for float32 and float64 */
    OP_LIBM_DOUBLE = 64, /* for float64 alone: that of float32 is ours */
};

struct op_def {
    const char *type;
    unsigned flags;
    shape_fn shape;
    grad_fn grad;          /* NULL with OP_NO_GRADIENT */
    const char *signature; /* "x:T, y:T -> z:T; T:type", see signature.h */
};

const struct op_def *op_def_find(const char *type); /* NULL: unknown op */
const struct op_def *op_def_at(size_t i);           /* NULL past the end */
/* Does it stand for a variable's place: VariableV2, Variable, VarHandleOp? All have
 * attributes `dtype` and `shape`. */
int operation_is_variable(const struct operation *op);
/* The VarHandleOp whose handle this is, perhaps passed on by others; NULL: none. */
const struct operation *operation_behind_handle(struct output handle);
const struct op_def *operation_def(const struct operation *op);
/* The first operation whose values are libm's: what the graph computes may end with other
 * bits on another machine. NULL: there is none. */
const struct operation *graph_first_libm(const struct graph *g);

#endif
