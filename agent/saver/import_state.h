/* import_state.h - an import under way, in four files; for metagraph_import.c alone.
 *
 *     import_define.c       a node's attributes and the definition that it is built by
 *     import_nodes.c        NodeDefs to operations, in an order that inputs allow
 *     import_collections.c  collections, the variables among them
 *     import_scope.c        names inside their messages
 *
 * All return 0, or an error that names the node or the collection.
 */
#ifndef AGENT_SAVER_IMPORT_STATE_H
#define AGENT_SAVER_IMPORT_STATE_H

#include "agent/graph/graph.h"
#include "agent/graph/import.h"
#include "agent/graph/name_table.h"
#include "agent/saver/message.h"

enum visit { TO_BUILD, OPEN, BUILT };

struct import_node {
    const Tf__NodeDef *def;
    enum visit visit;
    size_t next_input; /* to look at while it is open */
    size_t control_of; /* the newest node that waits for it, from 1 on */
    int n_outputs;     /* as far as others ask for them */
    struct operation *op;
};

/* A loop: input i of a Merge is a NextIteration that can only be built after it. */
struct back_edge {
    size_t node;
    const char *input;
    int place; /* among the inputs that are data */
};

struct import {
    struct arena arena;
    struct graph *g;
    struct err *err;
    const char *scope; /* "" or "s/" */
    int clear_devices, producer;
    size_t constant_bytes; /* left */
    const Tf__MetaGraphDef *meta;
    const Tf__OpList *ops; /* definitions in the file, or NULL */
    struct import_node *nodes;
    size_t n_nodes;
    struct name_table by_name;     /* count: index */
    struct name_table definitions; /* foreign ops by type */
    struct name_table listed;      /* Tf__OpDef of `ops` by type */
    struct back_edge *back_edges;
    size_t n_back_edges;
    struct variable **variables; /* by id of the operation that is it */
    int n_operations;            /* of the graph, once all nodes are there */
};

#define import_fail(im, code, ...) err_set((im)->err, (code), __VA_ARGS__)

struct import_attrs {
    struct attr *items;
    size_t n;
};

/* The definition by which the node is built, and its attributes to match. */
int import_define(struct import *im, const struct import_node *node,
                  const struct op_def **ret, struct import_attrs *attrs);
/* Every node becomes an operation. */
int import_nodes(struct import *im);
int import_collections(struct import *im);

/* With the scope of the import before it. */
const char *import_scoped(struct import *im, const char *name);
/* A message of a collection (cond_context, while_context, savers) with the scope before
 * the names in it; others as they are. In the import's arena. */
ProtobufCBinaryData import_scoped_bytes(struct import *im, const char *key,
                                        ProtobufCBinaryData bytes);
/* The graph's own error, as the import's. */
int import_graph_failed(struct import *im);

#endif
