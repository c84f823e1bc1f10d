/* saver_internal.h - the struct of a Saver; private to these files:
 *
 *     saver.c           the variables that it saves, its nodes, its options
 *     saver_save.c      a checkpoint's files, and the MetaGraph beside them
 *     saver_recent.c    the last checkpoints: the state file, which one to delete
 *     saver_restore.c   restores values into the session
 */
#ifndef AGENT_SAVER_SAVER_INTERNAL_H
#define AGENT_SAVER_SAVER_INTERNAL_H

#include "agent/saver/saver.h"
#include "agent/saver/saver_nodes.h"
#include "common/mem/arena.h"

struct kept {
    char *prefix;
    double time; /* seconds since the epoch */
};

struct saver {
    struct arena arena; /* items, shards, names */
    struct graph *graph;
    struct saver_options options;
    int built;
    struct saver_item *items; /* by name */
    size_t n_items;
    struct saver_shard *shards;
    size_t n_shards;
    struct saver_def def;
    struct kept *last; /* oldest first; [max_to_keep + 1] are possible */
    size_t n_last, cap_last;
    double next_keep; /* a checkpoint written after this time is never deleted */
};

/* Seconds since the epoch, by the Saver's clock. */
double saver_now(const struct saver *s);
/* Adds `prefix`, the newest checkpoint, to the list, writes the state file, and deletes
 * the checkpoint that left the list, if any. */
int saver_write_state(struct saver *s, const char *save_dir, const char *prefix,
                      const char *latest_filename, const char *suffix, struct err *err);

#endif
