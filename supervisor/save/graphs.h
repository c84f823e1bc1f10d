/* graphs.h - the agents' graphs as MetaGraphDefs: asked for once, and again of an agent
 * whose configuration has changed.
 *
 * They go into every checkpoint, with the settings in force (graph_settings.h), and, once,
 * into the event file.
 */
#ifndef SUPERVISOR_SAVE_GRAPHS_H
#define SUPERVISOR_SAVE_GRAPHS_H

#include "common/err/err.h"
#include "common/wire/cursor.h"
#include "supervisor/proc/agent_table.h"

#include <stddef.h>

struct graphs; /* opaque */

/* on_done once all are there. The table is ready and owes nothing. */
int graphs_start(struct graphs **ret, struct agent_table *agents,
                 void (*on_done)(void *ctx), void *ctx, struct err *err);
void graphs_free(struct graphs *g); /* NULL is fine; agents owe nothing or are gone */

/* The agent begins anew with another configuration: what is there is no more its graph. */
void graphs_expire(struct graphs *g, size_t agent);
/* Asks for those that have expired, while the table owes nothing. 0: all are there; 1:
 * on_done will be called, once all are, or were given up. */
int graphs_refresh(struct graphs *g, void (*on_done)(void *ctx), void *ctx,
                   struct err *err);

/* Valid until the next graphs_refresh; NULL: it has expired. */
void graphs_metagraph(const struct graphs *g, size_t agent, const void **ret,
                      size_t *ret_len);

/* Appends one GraphDef of all agents' nodes, whose names get "<agent>/" in front:
 * TensorBoard shows one graph a run. ERR_PROTOCOL: a graph cannot be read. */
int graphs_joined(const struct graphs *g, struct wbuf *ret, struct err *err);

#endif
