/* metagraph_export.h - a graph as TensorFlow's MetaGraphDef, the content of a `.meta`.
 *
 * Content  nodes in order of creation, collections, saver_def, the definitions of all ops
 *          used, versions { producer 27 } (TensorFlow 1.13).
 * Bytes    are a function of the graph: entries of maps are in order of their keys (in
 *          TensorFlow's own files in any order). The graph that metagraph_import builds
 *          from them is exported to the same bytes.
 * Accepted by tf.train.import_meta_graph: every attribute of the op is there, references
 *          come from variables, all names in collections exist
 *          (tests/support/metagraph_check.h checks it).
 */
#ifndef AGENT_SAVER_METAGRAPH_EXPORT_H
#define AGENT_SAVER_METAGRAPH_EXPORT_H

#include "agent/graph/graph.h"
#include "common/wire/cursor.h"

enum { GRAPH_PRODUCER = 27 };

struct saver_def; /* saver.h */

struct metagraph_export_options {
    int strip_default_attrs; /* leave out attributes that have their default */
    int clear_devices;
};

/* Appends the MetaGraphDef; saver and o may be NULL. Does not modify the graph. Omits
 * collections with items of different kinds, which a MetaGraphDef cannot represent, as
 * TensorFlow does. */
void metagraph_export(struct wbuf *b, struct graph *g, const struct saver_def *saver,
                      const struct metagraph_export_options *o);

/* Appends TensorFlow's GraphDebugInfo: every node, as "name@" (in no function). No call
 * stacks are recorded, so each trace is empty. */
void graph_debug_info_export(struct wbuf *b, struct graph *g);

/* Whether the elements of the collection are VariableDefs. */
int is_variable_collection(const char *key);

#endif
