/* graph_print.h - checks an agent's description of an imported graph and prints it.
 */
#ifndef SUPERVISOR_CLI_GRAPH_PRINT_H
#define SUPERVISOR_CLI_GRAPH_PRINT_H

#include "common/ckpt/saved_model.h"
#include "common/err/err.h"
#include "common/msg/msg.h"
#include "common/tensor/tensor.h"

#include <stddef.h>
#include <stdint.h>

/* The checked answer to `import` (protocol.h); pointers are borrowed from the message. */
struct graph_view {
    const char *prefix;    /* as given on the command line */
    const char *no_values; /* why no values were restored; NULL: they were restored */
    char why[512];         /* the agent's reason; "": it gave none */
    uint64_t producer;
    char tensorflow[64];
    char main_op[512]; /* why the graph's main op failed; "": it has none, or it ran */
    struct signatures signatures; /* of the graph's file */
    /* nodes with outputs; those of them that can run */
    uint64_t fetchable, runnable;
    const msgpack_object_array *nodes, *collections, *uninitialized, *variables;
    /* for each node that is unknown: how many need it, and why it cannot run */
    const msgpack_object_array *kept, *reasons;
};

/* ERR_PROTOCOL: an element is missing or has the wrong type. */
int graph_view_init(struct graph_view *ret, const msgpack_object *answer,
                    struct err *err);

/* Finds tensor "x:0" and stores its dtype if that is known. Returns 0 if there is no such
 * tensor. */
int graph_view_tensor(const struct graph_view *v, const char *name,
                      enum dtype *ret_dtype);

/* Prints a few lines, or one JSON object. */
void graph_print_summary(const struct graph_view *v, int json);
/* Print one line, or one JSON object, per node or collection. */
void graph_print_nodes(const struct graph_view *v, int json);
void graph_print_collections(const struct graph_view *v, int json);

#endif
