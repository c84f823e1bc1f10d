/* op_bind.h - matches the inputs and attributes given to a builder with the op's
 * signature.
 *
 * Inputs determine attributes that were not given (T, N, ...); attributes determine types
 * and number of the outputs. For op_build.c, which calls these functions in order; each
 * returns 0, or the code of the graph's error.
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

/* Checks that all inputs exist and belong to this graph. */
int bind_check_inputs(struct binding *bind);
/* Checks that the op has the attributes, and their kinds. */
int bind_check_attrs(struct binding *bind);
int bind_inputs(struct binding *bind);
/* Stores the attributes in the operation, in the order of the signature, with
 * defaults. */
int bind_attrs(struct binding *bind, struct operation *op);
int bind_outputs(struct binding *bind, struct operation *op);

/* Adds an attribute to the builder; the caller sets its value. name: len bytes. */
struct attr *builder_add_attr(struct op_builder *b, const char *name, size_t len,
                              enum attr_kind kind);

#endif
