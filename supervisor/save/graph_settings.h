/* graph_settings.h - the settings in force, written into an agent's MetaGraphDef.
 *
 * An agent feeds settings that change while the run goes on into constants of its graph
 * (agent/algo/live.h). A checkpoint's .meta has no feeds: its constants must hold what was
 * in force at its step, which the agent's block of that step says. Collection
 * SETTING_CONSTANTS (msg/protocol.h) of the graph itself names the constants, so that
 * nobody needs to ask the agent.
 *
 * Bytes    only those of the constants' values change, four each: lengths stay.
 */
#ifndef SUPERVISOR_SAVE_GRAPH_SETTINGS_H
#define SUPERVISOR_SAVE_GRAPH_SETTINGS_H

#include "supervisor/save/block_table.h"

#include <stddef.h>

/* A graph without the collection stays as it is. ERR_PROTOCOL: the graph cannot be read,
 * or names a constant or a variable that is not there. */
int graph_settings_write(void *metagraph, size_t len, const struct block_table *table,
                         const void *block, struct err *err);

#endif
