/* memory.h - stores the values of some variables in memory and restores them during
 * training, without adding nodes and without disk access; all of them change at once.
 *
 * session_snapshot copies all variables of a session; this module copies a selection (the
 * trainable variables, one network). Variables without a value are allowed.
 * Threads  as the session's; the session outlives the memory.
 */
#ifndef AGENT_SESSION_MEMORY_H
#define AGENT_SESSION_MEMORY_H

#include "agent/session/session.h"

struct memory;

/* vars NULL: all variables that the graph has now. ERR_ARG: a variable belongs to another
 * graph. */
int memory_new(struct memory **ret, struct session *s, struct variable *const *vars,
               size_t n, struct err *err);
void memory_free(struct memory *m); /* NULL is fine */

void memory_store(struct memory *m);
/* ERR_STATE: nothing was stored yet. */
int memory_restore(struct memory *m, struct err *err);
size_t memory_bytes(const struct memory *m); /* copied by one store */

#endif
