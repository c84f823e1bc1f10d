/* graph_def.h - the nodes and collections of a MetaGraphDef, for programs that look at a graph
 * without running it.
 *
 * Views    everything points into the message, or into the arena: keep both.
 * Bounds   GRAPH_DEF_MAX_NODES; what refers to nothing is found when it is looked up.
 * Errors   ERR_FORMAT, ERR_LIMIT.
 * Source   tensorflow/core/framework/{graph,node_def,attr_value,tensor}.proto
 */
#ifndef COMMON_CKPT_GRAPH_DEF_H
#define COMMON_CKPT_GRAPH_DEF_H

#include "common/mem/arena.h"
#include "common/tensor/tensor.h"
#include "common/wire/cursor.h"

#include <stddef.h>
#include <stdint.h>

enum { GRAPH_DEF_MAX_NODES = 1 << 20 };

struct graph_node {
    const char *name, *op;
    size_t n_inputs;
    const char *const *inputs; /* "x", "x:1"; without control inputs */
    struct cursor message;     /* the NodeDef */
};

struct graph_def {
    struct graph_node *nodes;
    size_t n;
    struct cursor metagraph;
    struct arena *arena;
    int64_t constants; /* elements of those that were read */
};

int graph_def_read(struct graph_def *ret, struct arena *a, const void *metagraph,
                   size_t len_bytes, struct err *err);

/* The node of "x" or of a tensor "x:1", whose index is *ret_index (may be NULL). NULL: there is
 * none. */
const struct graph_node *graph_def_find(const struct graph_def *g, const char *tensor,
                                        int *ret_index);
/* The first tensor or node of a collection, in the arena; NULL: it has none. */
const char *graph_def_named(const struct graph_def *g, const char *collection);
/* The numbers of a collection: fills up to max, and returns how many there are. */
size_t graph_def_ints(const struct graph_def *g, const char *collection, int64_t *ret,
                      size_t max);

/* Attributes; what is missing, or of another kind, is the default. */
int64_t graph_node_int(const struct graph_node *n, const char *attr, int64_t missing);
float graph_node_float(const struct graph_node *n, const char *attr, float missing);
/* The characters of a string attribute; empty: there is none. */
struct cursor graph_node_text(const struct graph_node *n, const char *attr);
size_t graph_node_ints(const struct graph_node *n, const char *attr, int64_t *ret,
                       size_t max);
/* SHAPE_UNKNOWN: there is none. */
struct shape graph_node_shape(const struct graph_node *n, const char *attr);
/* The value of a Const of float32, int32, int64 or bool, in the arena; integers and bools as
 * int64. ERR_FORMAT, ERR_UNSUPPORTED, ERR_LIMIT. */
int graph_node_constant(struct graph_def *g, const struct graph_node *n,
                        struct tensor *ret, struct err *err);

#endif
