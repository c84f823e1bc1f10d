/* op_list.h - inputs, outputs and attributes of ops: converts between OpDef messages and
 * signatures (graph/signature.h).
 *
 * A `.meta` lists the definition of every op it uses. Exported definitions are made from
 * the signatures in the op table; they omit fields that only document or restrict
 * (descriptions, allowed values). Definitions of ops that the table lacks become foreign
 * ops (graph/import.h).
 */
#ifndef AGENT_SAVER_OP_LIST_H
#define AGENT_SAVER_OP_LIST_H

#include "agent/graph/import.h"
#include "agent/graph/name_table.h"
#include "agent/saver/message.h"

Tf__OpDef *op_def_to_proto(struct arena *a, const struct op_def *def);

/* NULL if it is malformed or larger than a signature may be. */
const struct op_def *op_def_from_proto(struct graph *g, const Tf__OpDef *p);

/* For a node whose op is not defined. The types of its inputs and outputs are attributes
 * of the node, with these names; attrs: names and kinds of all other attributes. NULL if
 * there are too many. */
#define GUESSED_INPUT_TYPES  "_input_types"
#define GUESSED_OUTPUT_TYPES "_output_types"
const struct op_def *op_def_guess(struct graph *g, const char *type,
                                  const struct attr *attrs, size_t n_attrs);
/* The row with the attributes of a node that it lacks, defined as the file does (p: its
 * definition of the op, or NULL). `known` has those made before. NULL: no signature can express
 * them. */
const struct op_def *op_def_widen(struct graph *g, struct name_table *known,
                                  const struct op_def *row, const Tf__OpDef *p,
                                  const struct attr *attrs, size_t n_attrs);
/* The type that a node says its data input number `place` has, by its attributes and its op's
 * signature; DT_INVALID: it does not say. */
enum dtype op_def_input_type(const struct signature *sig, const Tf__NodeDef *node,
                             int place);
int op_def_is_guess(const struct op_def *def);

const Tf__OpDef__AttrDef *op_def_attr(const Tf__OpDef *p, const char *name);

#endif
