/* lookup.h - finds tensors and operations by names that users type. Errors suggest the
 * most similar name. */
#ifndef AGENT_GRAPH_LOOKUP_H
#define AGENT_GRAPH_LOOKUP_H

#include "agent/graph/graph.h"

/* Like graph_tensor; errors end with "; did you mean 'x:0'?" if a name is similar. */
int lookup_tensor(const struct graph *g, const char *name, struct output *ret,
                  struct err *err);
/* The same for an operation ("train/Adam"). ERR_NOT_FOUND. */
int lookup_operation(const struct graph *g, const char *name, struct operation **ret,
                     struct err *err);

#endif
