/* import_state.h - the state of an import; private to agent/saver.
 *
 *     old_stacks.c          stacks of the first TensorFlow as those of today
 *     inline.c              nodes that call functions to those of the functions
 *     import_nodes.c        NodeDefs to operations, each after its inputs
 *     import_collections.c  collections, including variables
 *
 * All functions return 0, or an error that names the node or the collection.
 */
#ifndef AGENT_SAVER_IMPORT_STATE_H
#define AGENT_SAVER_IMPORT_STATE_H

#include "agent/graph/graph.h"
#include "agent/graph/import.h"
#include "agent/graph/name_table.h"
#include "agent/saver/message.h"

enum visit { TO_BUILD, OPEN, BUILT };

/* A data input of a node. */
struct import_use {
    const Tf__NodeDef *by;
    int place, index; /* input `place` of `by` is output `index` */
    struct import_use *next;
};

struct import_node {
    const Tf__NodeDef *def;
    const char *name; /* in the graph: with the scope, and unique */
    enum visit visit;
    size_t next_input;       /* the next input to look at while the node is open */
    size_t control_of;       /* the last node that added it as a control input, plus 1 */
    int n_outputs;           /* number of outputs that others use */
    struct import_use *uses; /* in the file's order */
    struct operation *op;
};

/* A loop: input i of a Merge is a NextIteration, which can only be built after it. */
struct back_edge {
    size_t node;
    const char *input;
    int place; /* index among the data inputs */
};

struct import {
    struct arena arena;
    struct graph *g;
    struct err *err;
    const char *scope; /* "" or "s/" */
    int is_renamed;    /* some nodes have other names than the file's */
    int clear_devices, producer;
    size_t constant_bytes; /* rest of the budget */
    const Tf__MetaGraphDef *meta;
    const Tf__OpList *ops;    /* definitions in the file, or NULL */
    Tf__NodeDef *const *defs; /* [n_nodes] in the file's order */
    struct import_node *nodes;
    size_t n_nodes;
    struct name_table
        reasons; /* why a node of `defs` still calls a function: text by name */
    struct name_table by_name;     /* count: index */
    struct name_table definitions; /* foreign ops by type; widened rows by op_def_widen */
    struct name_table listed;      /* Tf__OpDef of `ops` by type */
    struct back_edge *back_edges;
    size_t n_back_edges;
    struct variable **variables; /* by id of the variable's operation */
    int n_operations;            /* of the graph, after all nodes are built */
};

#define import_fail(im, code, ...) err_set((im)->err, (code), __VA_ARGS__)

enum { IMPORT_MAX_INPUTS = 65536 }; /* of a node or a function */

/* The file's own definition of an op; NULL if it has none. */
const Tf__OpDef *import_listed(const struct import *im, const char *type);
/* Changes `defs`: Stack, StackPush, StackPop and StackClose to StackV2 and the others. */
int import_old_stacks(struct import *im);
/* Builds an operation for every node. */
int import_nodes(struct import *im);
int import_collections(struct import *im);

/* The name that a node ("x"), a tensor ("x:0") or anything else in the file has in the
 * graph. */
const char *import_scoped(struct import *im, const char *name);
/* Returns the graph's error as the error of the import. */
int import_graph_failed(struct import *im);

#endif
