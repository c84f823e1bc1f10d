/* op_table.h - the operation types of brood, one file of rows for each family.
 *
 * A row has all that is known of an operation: signature, shape rule, gradient rule, kernel.
 * graph_new() (graph.h) makes a graph with these types.
 */
#ifndef AGENT_OPS_OP_TABLE_H
#define AGENT_OPS_OP_TABLE_H

#include "agent/graph/op_def.h"

extern const struct op_table op_table;

#endif
