/* graphs.h - the agents' graphs as MetaGraphDefs: asked for once, kept for the run.
 *
 * They go into every checkpoint and, once, into the event file. A run that is resumed
 * takes those of its checkpoint, so that its files stay what they were even where
 * settings that the graph holds as constants have changed since.
 */
#ifndef SUPERVISOR_RUN_GRAPHS_H
#define SUPERVISOR_RUN_GRAPHS_H

#include "common/err/err.h"
#include "common/wire/cursor.h"
#include "supervisor/proc/agent_table.h"
#include "supervisor/run/resume.h"

#include <stddef.h>

struct graphs; /* opaque */

/* from: NULL, or where to look first. on_done once all are there, perhaps before this
 * returns. The table is ready and owes nothing. */
int graphs_start(struct graphs **ret, struct agent_table *agents,
                 const struct resume *from, void (*on_done)(void *ctx), void *ctx,
                 struct err *err);
void graphs_free(struct graphs *g); /* NULL is fine; agents owe nothing or are gone */

/* Valid as long as g. */
void graphs_metagraph(const struct graphs *g, size_t agent, const void **ret,
                      size_t *ret_len);

/* Appends one GraphDef of all agents' nodes, whose names get "<agent>/" in front:
 * TensorBoard shows one graph a run. ERR_PROTOCOL: a graph cannot be read. */
int graphs_joined(const struct graphs *g, struct wbuf *ret, struct err *err);

#endif
