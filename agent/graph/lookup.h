/* lookup.h - tensors and operations by names that people type: errors name the nearest.
 */
#ifndef AGENT_GRAPH_LOOKUP_H
#define AGENT_GRAPH_LOOKUP_H

#include "agent/graph/graph.h"

/* graph_tensor, whose errors end in "; did you mean 'x:0'?" where a name is near. */
int lookup_tensor(const struct graph *g, const char *name, struct output *ret,
                  struct err *err);
/* The same for an operation ("train/Adam"). ERR_NOT_FOUND. */
int lookup_operation(const struct graph *g, const char *name, struct operation **ret,
                     struct err *err);

#endif
