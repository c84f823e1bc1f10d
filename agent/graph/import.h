/* import.h - operations and variables that come from a file instead of a program.
 *
 * What is imported is taken as it is: its name (which must be free), no device, control
 * dependency or colocation from the scopes that are open, no `_class` by itself.
 *
 * An op that the table lacks can still stand in a graph: a foreign op, of which only the
 * signature is known. Its operations are kept, with all attributes, can be exported and
 * fed over; their shapes are unknown, there is no gradient through them, and a session
 * refuses to run them by name.
 */
#ifndef AGENT_GRAPH_IMPORT_H
#define AGENT_GRAPH_IMPORT_H

#include "agent/graph/op_table.h"

/* In the graph's arena; signature as in signature.h, flags of enum op_flags. NULL if the
 * signature cannot be read. */
const struct op_def *op_def_foreign(struct graph *g, const char *type,
                                    const char *signature, unsigned flags);
/* A row of the table, or op_def_foreign of the same graph. */
struct op_builder *op_begin_imported(struct graph *g, const struct op_def *def,
                                     const char *name);
/* Any attribute; what it points to is copied. */
void op_attr(struct op_builder *b, const struct attr *a);
/* Puts another output in the place of an input, for circles (loops), which cannot be
 * built in any order. Types are not checked. */
void operation_replace_input(struct operation *op, int i, struct output x);
/* operation_add_control_input of one that is not there yet, which is not checked: an
 * operation may wait for very many. Both are of one graph. */
void operation_append_control_input(struct operation *op, struct operation *on);
/* The variable whose operations exist already; name, dtype and shape are those of
 * v->ref. In no collection. */
struct variable *variable_import(struct graph *g, const struct variable *v);

#endif
