/* inline.h - replaces the nodes that call functions by the functions' nodes. Private to
 * agent/saver.
 *
 * TensorFlow 2 writes conditions, loops and calls as single nodes that name functions of the
 * file's library (functions.h). They become what TensorFlow 1 writes, before the graph is built:
 *
 *     If, Case (and Stateless...)     Switch, the branches' nodes, Merge
 *     While (and StatelessWhile)      Enter, Merge, LoopCond, Switch, NextIteration, Exit
 *     PartitionedCall, ..., a node
 *     whose op is a function          the function's nodes
 *
 * Names      of the nodes of node n: "n/then/x", "n/else/x", "n/branch2/x", "n/cond/x",
 *            "n/body/x", "n/call/x"; made unique. A node with the name n remains, an IdentityN (an
 *            Identity, a NoOp) of its results, so that "n:2" names what it did; other nodes
 *            use the results directly.
 * Effects    nodes that a function must run, whoever uses its results (control_ret), run before
 *            its results are used, in a loop before the next iteration.
 * Loops      a variable that the body returns unchanged is a constant of the loop.
 * Remaining  a node that cannot be replaced stays as it is (import.h: a foreign operation),
 *            with the reason: its function is not in the file, cannot be read (library_find), or
 *            does not fit the node. So a graph that was exported and is imported again has the
 *            same nodes.
 * Bounds     ERR_LIMIT: the graph would have more than METAGRAPH_MAX_NODES nodes, or these
 *            would take more than INLINE_MAX_BYTES.
 * Source     tensorflow/core/common_runtime/{lower_if_op,lower_while_op,inline_function_utils}.cc
 */
#ifndef AGENT_SAVER_INLINE_H
#define AGENT_SAVER_INLINE_H

#include "agent/saver/functions.h"

enum { INLINE_MAX_BYTES = 1 << 28 };

/* Sets im->defs and im->n_nodes: the nodes of the graph to build, and im->reasons. */
int inline_functions(struct import *im);

/* ---- for inline_nodes.c and inline_flow.c ---- */

struct inliner {
    struct import *im;
    struct library library;
    int rc; /* the first error: after it, all calls do nothing */
    Tf__NodeDef **nodes;
    size_t n, cap;
    size_t bytes;
    struct name_table names; /* of all nodes; count: the next suffix */
    struct name_table
        forwards; /* struct forward by the name of a node that was replaced */
};

/* What calls functions: a node, in a function or in the graph. */
struct site {
    const Tf__NodeDef *node;
    const char *pivot;   /* "^x": what nodes without inputs wait for; NULL: nothing */
    const char **inputs; /* [n_inputs] tensors */
    int n_inputs;
    const char **controls; /* [n_controls] "^x" */
    int n_controls;
};

/* One function at a site. */
struct instance {
    const struct function *f;
    struct call_attrs attrs;
    const char *part;  /* "body" */
    const char **args; /* [f->n_inputs] tensors */
    const char *pivot;
    const char **results;  /* the answer: [f->n_results] tensors */
    const char **controls; /* [f->n_controls] "^x" */
};

/* ---- inline_nodes.c ---- */

/* Counts bytes that the functions take. Returns in->rc. ERR_LIMIT. */
int inline_charge(struct inliner *in, size_t bytes);
/* The name "outer/part_number/name", made unique; number -1 and an empty name: without. */
const char *inline_claim(struct inliner *in, const char *outer, const char *part,
                         int number, const char *name);
/* Adds a node to the graph's. */
void inline_put(struct inliner *in, Tf__NodeDef *node);
/* Finds the function that an attribute of the node names. Returns NULL with *ret_reason, or a
 * function with `n_inputs` inputs and `n_results` results. */
const struct function *inline_find(struct inliner *in, const struct site *s,
                                   const Tf__AttrValue *value, int n_inputs,
                                   int n_results, struct instance *ret,
                                   const char **ret_reason);

/* A new node; inputs and controls are copied. */
struct made {
    const char *op;
    const char *part; /* its name is "n/part" */
    int number;       /* "n/part_number"; -1: none */
    const char *const *inputs;
    int n_inputs;
    const char *const *controls;
    int n_controls;
    int type; /* attribute T; 0: none */
};
Tf__NodeDef *inline_make(struct inliner *in, const struct site *s, const struct made *m);
/* Adds an attribute, whose value is to be set. */
Tf__AttrValue *inline_attr(struct inliner *in, Tf__NodeDef *node, const char *name,
                           int kind);
const char *inline_tensor(struct inliner *in, const char *name, int index); /* "name:1" */
const char *inline_control(struct inliner *in, const char *tensor);         /* "^name" */
/* Puts an IdentityN of the results in the node's place. The results wait for `controls`, as
 * what uses the node does. Returns in->rc, as the calls below. */
int inline_finish(struct inliner *in, const struct site *s, const char **results,
                  const int *types, int n, const char *const *controls, int n_controls);

/* Names the results of replaced nodes in the inputs of all others. */
int inline_forward(struct inliner *in);

/* ---- inline_flow.c: what stands before, between and after the functions' nodes. The calls
 * that begin return -1 with *ret_reason if the node stays. ---- */

/* A condition with n branches. Level k of Switches, for all branches but the last, decides
 * between branch k (output 1) and the next levels (output 0). */
struct branches {
    int n, n_in, n_out;
    const int *in_types, *out_types;
    struct instance *x;   /* [n] */
    const char **decides; /* [n - 1] booleans */
};
int flow_begin_branches(struct inliner *in, const struct site *s, struct branches *b,
                        const char **ret_reason);
int flow_end_branches(struct inliner *in, const struct site *s, struct branches *b);

struct loop {
    int n;
    const int *types;
    struct instance cond, body;
    const char **constant; /* [n] the Enter of a constant; NULL: a variable */
    Tf__NodeDef **merge;   /* [n] of a variable */
    const char **left;     /* [n] its Switch */
    int first;             /* the first variable */
};
int flow_begin_loop(struct inliner *in, const struct site *s, struct loop *l,
                    const char **ret_reason);
/* After the nodes of the condition. */
void flow_begin_body(struct inliner *in, const struct site *s, struct loop *l);
int flow_end_loop(struct inliner *in, const struct site *s, struct loop *l);

#endif
