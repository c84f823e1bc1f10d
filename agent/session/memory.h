/* memory.h - values of variables put aside in memory and brought back, in the middle of
 * training: no node is added, no disk is touched, and all of them change at once.
 *
 * For everything that a session holds, session_snapshot is one copy; this is for some of
 * it (the trainable variables, one network), whether or not each has a value.
 * Threads  as the session's; the session outlives the memory.
 */
#ifndef AGENT_SESSION_MEMORY_H
#define AGENT_SESSION_MEMORY_H

#include "agent/session/session.h"

struct memory;

/* vars NULL: all variables that the graph has now. ERR_ARG: one is of another graph. */
int memory_new(struct memory **ret, struct session *s, struct variable *const *vars,
               size_t n, struct err *err);
void memory_free(struct memory *m); /* NULL is fine */

void memory_store(struct memory *m);
/* ERR_STATE: nothing was stored yet. */
int memory_restore(struct memory *m, struct err *err);
size_t memory_bytes(const struct memory *m); /* that one store copies */

#endif
