/* import.h - adds operations and variables that come from a file.
 *
 * An imported operation keeps its name, which must be unused. The current scopes add no
 * device, control dependency or colocation to it, nor is a `_class` added.
 *
 * A foreign op is an op that is not in the table, of which only the signature is known.
 * Its operations are kept with all attributes; they can be exported and fed. Their shapes
 * are unknown, they have no gradient, and a session that needs one fails with its
 * name.
 */
#ifndef AGENT_GRAPH_IMPORT_H
#define AGENT_GRAPH_IMPORT_H

#include "agent/graph/op_def.h"

/* Allocated in the graph's arena. signature: see signature.h; flags: enum op_flags. NULL
 * if the signature is malformed. */
const struct op_def *op_def_foreign(struct graph *g, const char *type,
                                    const char *signature, unsigned flags);
/* A row of the table with more attributes at the end of its signature, which files have and
 * which its rules and its kernel ignore. Borrows `signature`; NULL as above. */
const struct op_def *op_def_widened(struct graph *g, const struct op_def *row,
                                    const char *signature);
/* def: a row of the table, or an op_def_foreign or op_def_widened of the same graph. */
struct op_builder *op_begin_imported(struct graph *g, const struct op_def *def,
                                     const char *name);
/* Adds any attribute; copies what it points to. */
void op_attr(struct op_builder *b, const struct attr *a);
/* Replaces an input by another output, for cycles (loops), which cannot be built in
 * order. Types are not checked. */
void operation_replace_input(struct operation *op, int i, struct output x);
/* Makes the shape of output 0 unknown. For the Merge of a loop, whose value may change
 * shape: a stand-in, perhaps of another shape, replaced the input that closes the
 * loop. */
void operation_forget_shape(struct operation *op);
/* Why a session cannot run a foreign operation, for its error; the text is copied. */
void operation_explain(struct operation *op, const char *reason);
const char *operation_reason(const struct operation *op); /* NULL: it was not explained */
/* Adds a control input without checking whether the operation already has it, since it
 * may have very many. Both must belong to the same graph. */
void operation_append_control_input(struct operation *op, struct operation *on);
/* Adds a variable whose operations exist; name, dtype and shape are those of v->ref. It
 * is in no collection. */
struct variable *variable_import(struct graph *g, const struct variable *v);

/* Parts of a MetaGraphDef that nothing here uses, but that belong to the graph: an export writes
 * them again. */
enum graph_part {
    GRAPH_LIBRARY,    /* GraphDef.library; several are one after the other */
    GRAPH_SIGNATURE,  /* an entry of signature_def */
    GRAPH_ASSET_FILE, /* an asset_file_def */
};
struct graph_part_bytes {
    enum graph_part part;
    const void *data; /* serialised; in the graph's arena */
    size_t len;
};
void graph_add_part(struct graph *g, enum graph_part part, const void *data, size_t len);
/* Part i of all that were added, in that order; NULL past the last. */
const struct graph_part_bytes *graph_part_at(const struct graph *g, size_t i);

#endif
