/* metagraph_import.h - a TensorFlow 1 MetaGraphDef (`.meta`) as a graph.
 *
 * Nodes      may be in any order, from any producer since TensorFlow 0.12, also 2.x (with
 *            tf.compat.v1). Attributes that the table's op lacks are kept and ignored if they
 *            only describe, or have the default of the file's own definition of the op. Nodes of
 *            ops, or with other attributes or types, that the table lacks, and dilated
 *            convolutions become foreign operations (graph/import.h): they can be
 *            inspected, replaced by feeds and exported; only a run that needs one fails,
 *            with an error that names node, op and attribute.
 * Functions  nodes that call functions (If, Case, While, PartitionedCall, ...) are replaced by
 *            what the functions do (inline.h), and are exported as that.
 * Old files  up to producer 21, shape {} of a Placeholder means an unknown shape. Missing
 *            attributes get the defaults of their op.
 * Names      are those of the file; names that the graph already has get "_1", "_2", ...,
 *            also where collections and the Saver refer to them.
 * Variables  of the collections become struct variable, shared by all collections that
 *            list them, whether as messages or by name. Those of VarHandleOp have a
 *            resource as `ref`.
 * Bounds     unpacked messages are bounded by the file's size (message.h), constants by
 *            max_constant_bytes, inputs of a node by 65536, nodes by METAGRAPH_MAX_NODES.
 * Time       linear in the file's size.
 * Missing    an element of a collection that names something that the graph lacks is left
 *            out, with a warning in the text log.
 * Errors     ERR_FORMAT, ERR_LIMIT, ERR_NOT_FOUND, ERR_EXISTS, ..., naming the node or
 *            the collection. The graph then has part of the file and should be freed.
 * Source     tensorflow/python/framework/{meta_graph,importer}.py
 */
#ifndef AGENT_SAVER_METAGRAPH_IMPORT_H
#define AGENT_SAVER_METAGRAPH_IMPORT_H

#include "agent/graph/graph.h"
#include "agent/saver/saver.h"
#include "common/mem/arena.h"

enum { METAGRAPH_MAX_NODES = 1 << 20 };

struct metagraph_import_options {
    const char *import_scope; /* "s": all names get "s/"; made unique. NULL: none */
    int clear_devices;
    size_t max_constant_bytes; /* of all constants; 0: 1 GiB */
};

struct metagraph_info {
    struct arena arena;
    int producer;
    const char *tensorflow_version; /* "" if the file does not say */
    const char *scope;              /* "" or "s/" */
    int is_saved_model;             /* it has tags */
    int has_saver;
    struct saver_def saver; /* names as in the graph, without the scope */
};

/* ret may be NULL; otherwise metagraph_info_done frees it, after success. */
int metagraph_import(struct graph *g, const void *data, size_t len_bytes,
                     const struct metagraph_import_options *o, struct metagraph_info *ret,
                     struct err *err);
void metagraph_info_done(struct metagraph_info *info);
/* The Saver that an imported file describes; one for all variables if it describes none;
 * NULL without variables. ERR_UNSUPPORTED: it saves tensors that are not variables. */
int metagraph_saver(struct saver **ret, struct graph *g,
                    const struct metagraph_info *info, struct err *err);

/* Runs what a SavedModel's graph wants to run after its variables are restored: the operation
 * in its collection saved_model_main_op, or else legacy_init_op. Nothing for other graphs. */
int metagraph_run_main_op(struct graph *g, struct session *s,
                          const struct metagraph_info *info, struct rng_key key,
                          struct err *err);

/* tf.train.import_meta_graph: imports a file and creates its metagraph_saver. */
int import_meta_graph(struct saver **ret, struct graph *g, const char *path,
                      const struct metagraph_import_options *o, struct err *err);
/* import_meta_graph from a file's bytes; ret_info as in metagraph_import. */
int import_meta_graph_bytes(struct saver **ret, struct graph *g, const void *data,
                            size_t len_bytes, const struct metagraph_import_options *o,
                            struct metagraph_info *ret_info, struct err *err);

#endif
