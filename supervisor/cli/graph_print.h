/* graph_print.h - what an agent told of an imported graph, checked, and on stdout.
 */
#ifndef SUPERVISOR_CLI_GRAPH_PRINT_H
#define SUPERVISOR_CLI_GRAPH_PRINT_H

#include "common/err/err.h"
#include "common/msg/msg.h"
#include "common/tensor/tensor.h"

#include <stddef.h>
#include <stdint.h>

/* The answer to `import` (protocol.h), every element of the type it should have; borrowed
 * from the message. */
struct graph_view {
    const char *prefix;    /* as asked for */
    const char *no_values; /* why none were restored; NULL: they were */
    char why[512];         /* the agent's reason; "": none */
    uint64_t producer;
    char tensorflow[64];
    const msgpack_object_array *nodes, *collections, *uninitialized, *variables;
};

/* ERR_PROTOCOL. */
int graph_view_init(struct graph_view *ret, const msgpack_object *answer,
                    struct err *err);

/* What "x:0" is, as far as is known; 0: there is no such tensor. */
int graph_view_tensor(const struct graph_view *v, const char *name,
                      enum dtype *ret_dtype);

/* A few lines, or one object. */
void graph_print_summary(const struct graph_view *v, int json);
/* A line or an object for each. */
void graph_print_nodes(const struct graph_view *v, int json);
void graph_print_collections(const struct graph_view *v, int json);

#endif
