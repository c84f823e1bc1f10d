/* checkpoint_write.h - writes a checkpoint: whole or not at all.
 *
 * Commit   Everything is written to .tmp-<step>, then files and folders are fsynced. The
 *          rows of the experience log under log_sums are read again and compared, and the
 *          log is fsynced. A damaged <step> in the way becomes .bad-<step>. One rename and
 *          an fsync of checkpoints/ commit the new one. An interruption at any point
 *          leaves older checkpoints intact (retention_drop_old removes the leftovers).
 * Format   checkpoint_format.h.
 * Threads  any, one at a time for one folder: only files are touched.
 */
#ifndef SUPERVISOR_SAVE_CHECKPOINT_WRITE_H
#define SUPERVISOR_SAVE_CHECKPOINT_WRITE_H

#include "supervisor/save/checkpoint_format.h"
#include "supervisor/store/store.h"

struct checkpoint_agent {
    const char *name;
    const msgpack_object *description; /* body of its response to `configure` */
    const void *block;
    size_t block_bytes;
    /* Its graph, into whose .meta the settings in force are written (graphs.h); NULL: no
     * .meta is written. */
    const void *metagraph;
    size_t metagraph_bytes;
};

struct checkpoint_args { /* all borrowed */
    const char *dir;     /* the run's checkpoints/, which exists */
    uint64_t step;
    const struct checkpoint_agent *agents;
    size_t n_agents;
    const struct checkpoint_section *sections; /* of the run */
    size_t n_sections;
    struct store *log;     /* fsynced before the commit; NULL: there is none */
    const void *log_sums;  /* store_sums_save: rows that must still be as appended */
    size_t log_sums_bytes; /* 0: no rows are compared */
};

/* Creates the folder .tmp-<step>, so that other processes see that the checkpoint has
 * begun. If that fails, checkpoint_write returns the error. */
void checkpoint_announce(const char *dir, uint64_t step);
/* Writes and commits. A checkpoint of this step that exists already is replaced.
 * ERR_CORRUPT: the experience log is damaged (store_check); nothing is committed. */
int checkpoint_write(const struct checkpoint_args *args, struct err *err);

#endif
