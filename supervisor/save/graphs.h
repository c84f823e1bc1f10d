/* graphs.h - the agents' graphs, as TensorFlow's MetaGraphDef.
 *
 * The supervisor requests an agent's graph once, and again after a change of the agent's
 * configuration: a graph is a function of the configuration alone. It is written into
 * every checkpoint as .meta, and once into the run's event file.
 *
 * Settings  A setting that can change in a live run is a variable in the agent's block,
 *           which the agent feeds into a constant of its graph (agent/algo/live.h). A .meta
 *           has no feeds, so its constants must hold the values of its step.
 *           Collection SETTING_CONSTANTS (msg/protocol.h) of the graph names them. Only
 *           the four bytes of each constant change.
 * Threads   loop thread; graphs_write_settings: any.
 */
#ifndef SUPERVISOR_SAVE_GRAPHS_H
#define SUPERVISOR_SAVE_GRAPHS_H

#include "common/err/err.h"
#include "common/wire/cursor.h"
#include "supervisor/proc/agent_table.h"
#include "supervisor/save/checkpoint_format.h"

#include <stddef.h>

struct graphs; /* opaque */
struct resume; /* resume.h */

/* Requests every agent's graph; calls on_done when all have responded. The table must
 * be ready, with no request outstanding.
 * from: the checkpoint that the run is resumed from, borrowed until on_done; NULL: none. An
 * agent that had no graph there, because it was given up before it sent one, has none until it
 * learns again, as if nothing had happened in between; one that is given up now keeps the
 * graph that it had there. */
int graphs_start(struct graphs **ret, struct agent_table *agents,
                 const struct resume *from, void (*on_done)(void *ctx), void *ctx,
                 struct err *err);
void graphs_free(struct graphs *g); /* NULL is fine; not while a response can arrive */

/* The agent starts again with another configuration, which invalidates its graph. */
void graphs_expire(struct graphs *g, size_t agent);
/* Requests the expired graphs again; no request may be outstanding. Returns 0 if all
 * graphs are valid; 1: on_done will be called once they are, or their agents were
 * given up. */
int graphs_refresh(struct graphs *g, void (*on_done)(void *ctx), void *ctx,
                   struct err *err);

/* *ret is valid until a newer graph has arrived and graphs_release_former was called; NULL:
 * the graph has expired. */
void graphs_metagraph(const struct graphs *g, size_t agent, const void **ret,
                      size_t *ret_len);
/* Call it when a checkpoint has begun: nothing writes older graphs any more. */
void graphs_release_former(struct graphs *g);

/* TensorBoard's page draws no graph of more bytes in reasonable time. */
#define GRAPHS_JOINED_BYTES ((size_t)16 << 20)

/* Appends one GraphDef of all agents' nodes, with "<agent>/" before their names, because
 * TensorBoard shows one graph per run: agents in their order, until it has
 * GRAPHS_JOINED_BYTES. ERR_PROTOCOL: a graph cannot be read. */
int graphs_joined(const struct graphs *g, struct wbuf *ret, struct err *err);

/* Writes the settings that the block holds, as of `step`, into the constants of one
 * metagraph. A graph without the collection is left unchanged. ERR_PROTOCOL: the graph
 * cannot be read, or names a constant or a variable that does not exist. */
int graphs_write_settings(void *metagraph, size_t len, const struct block_table *table,
                          const void *block, uint64_t step, struct err *err);

#endif
