/* saver_nodes.h - the nodes of a Saver, built or found. Private to agent/saver. */
#ifndef AGENT_SAVER_SAVER_NODES_H
#define AGENT_SAVER_SAVER_NODES_H

#include "agent/saver/saver.h"
#include "common/mem/arena.h"

/* The items on one device. Shards are in the order of the devices' names. */
struct saver_shard {
    const char *device;
    const struct saver_item *items; /* by name */
    size_t n;
};

/* Adds the nodes to the graph. Errors are those of the graph. */
int saver_nodes_build(struct graph *g, struct arena *a, const struct saver_options *o,
                      const struct saver_shard *shards, size_t n_shards,
                      struct saver_def *ret, struct err *err);

/* Finds what the nodes of `def` save (SaveV2, or SaveSlices and Save, which write V1
 * checkpoints), and sets its version. Creates, in the arena, variables that the graph does
 * not list. ERR_NOT_FOUND, ERR_FORMAT, ERR_UNSUPPORTED (they save something else than
 * variables and constants). */
int saver_nodes_find(struct graph *g, struct arena *a, struct saver_def *def,
                     struct saver_item **ret, size_t *ret_n, struct err *err);

#endif
