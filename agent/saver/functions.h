/* functions.h - the function library of a file (GraphDef.library). Private to agent/saver.
 *
 * A FunctionDef is a graph of its own, whose nodes name their inputs otherwise than those of a
 * graph: "x" is an input of the function, "n:y:1" the second tensor of the output `y` of node
 * n, "^n" a control input. Here these names are resolved once for each function.
 *
 * Bounds   as for all messages of the file (message.h); names are resolved when a function is
 *          first used, in time linear in its size.
 * Source   tensorflow/core/framework/function.proto
 */
#ifndef AGENT_SAVER_FUNCTIONS_H
#define AGENT_SAVER_FUNCTIONS_H

#include "agent/saver/import_state.h"

enum { FUNCTIONS_MAX_DEPTH = 64 };

/* What an input, a result or a control result of a function names. */
struct function_ref {
    int at;    /* an input of the function, or n_inputs + the number of a node */
    int index; /* of the node's output, over all outputs; -1: a control input */
};

struct function {
    const char *name;
    const Tf__FunctionDef *def;
    int n_inputs, n_results, n_controls;
    struct function_ref **refs;   /* [nodes][inputs of the node] */
    struct function_ref *results; /* [n_results] */
    int *controls; /* [n_controls] nodes that must run, whoever uses the results */
    int n_callees;
    struct function **callees; /* that its nodes call, each as often as it is called */
    int height; /* calls in calls: 1 for a function that calls none; 0: unknown */
    int is_read, is_open;
    const char *reason; /* why it cannot be used; NULL: it can */
};

struct library {
    struct import *im;
    struct name_table functions; /* struct function by name */
};

/* Lists the file's functions; one that cannot be read is missing. */
void library_init(struct library *l, struct import *im);
void library_done(struct library *l);
/* NULL if the file has no such function. The result may have a `reason`: it is malformed, uses an
 * op that nothing defines, calls itself, or its calls are more than FUNCTIONS_MAX_DEPTH deep. A
 * function that calls one with a reason need not have one. */
const struct function *library_find(struct library *l, const char *name);

/* The attributes of a call: those that name the function (NULL: none), then the node's. */
struct call_attrs {
    const Tf__NodeDef *node;
    const Tf__NameAttrList *list;
};
const Tf__AttrValue *node_attr(const Tf__NodeDef *node, const char *name); /* or NULL */
const Tf__AttrValue *call_attr(const struct call_attrs *c,
                               const char *name); /* or NULL */
/* The type of the function's input i, or, from n_inputs on, of its results; 0: it depends on
 * an attribute that the call does not have. */
int function_type(const struct function *f, int i, const struct call_attrs *c);
/* Whether the function's result i is its input i, unchanged. */
int function_passes_on(const struct function *f, int i);

#endif
