/* op_bind.h - what was given to a builder, bound to the signature of its op.
 *
 * Inputs determine attributes that were not given (T, N, ...), attributes the types and the
 * number of the outputs. For op_build.c, which calls them in order; each function returns
 * 0, or the code of the graph's error.
 */
#ifndef AGENT_GRAPH_OP_BIND_H
#define AGENT_GRAPH_OP_BIND_H

#include "agent/graph/graph_internal.h"
#include "agent/graph/signature.h"

struct binding {
    struct op_builder *b;
    struct graph *g;
    const struct signature *sig;
    int next_input;
};

#define bind_fail(bind, code, fmt, ...)                                                  \
    graph_fail((bind)->g, (code), "%s '%s': " fmt, (bind)->b->type,                      \
               (bind)->b->name __VA_OPT__(, ) __VA_ARGS__)

/* Inputs are there, and of this graph. */
int bind_check_inputs(struct binding *bind);
/* Attributes are the op's, and of its kinds. */
int bind_check_attrs(struct binding *bind);
int bind_inputs(struct binding *bind);
/* Into the operation: in the order of the signature, defaults for what is not given. */
int bind_attrs(struct binding *bind, struct operation *op);
int bind_outputs(struct binding *bind, struct operation *op);

/* A new attribute of the builder, its value to be set; name: of len bytes. op_attrs.c */
struct attr *builder_add_attr(struct op_builder *b, const char *name, size_t len,
                              enum attr_kind kind);

#endif
