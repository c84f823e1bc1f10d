/* checkpoints.h - the files around a checkpoint: which are there, which is the newest.
 *
 * What tf.train has in checkpoint_management.py. A prefix is text: nothing is cut off, it
 * may end in "/" (then the files are `.index`, `.meta` and so on inside that folder).
 */
#ifndef AGENT_SAVER_CHECKPOINTS_H
#define AGENT_SAVER_CHECKPOINTS_H

#include "common/ckpt/ckpt_find.h"
#include "common/ckpt/ckpt_state.h"

#define CHECKPOINT_STATE_FILE "checkpoint"

/* get_checkpoint_state: the state file of a directory, its paths resolved to prefixes
 * that can be opened (ckpt_find.h). latest_filename NULL: "checkpoint". Errors of
 * ckpt_state_load; ERR_FORMAT if it names no newest checkpoint. */
int get_checkpoint_state(struct ckpt_state *ret, const char *dir,
                         const char *latest_filename, struct err *err);

/* 1 and the prefix of the newest checkpoint (the caller frees it), 0 if there is none:
 * no state file, an unreadable one, or one whose checkpoint is gone. `why` says which; it
 * may be NULL. The directory is never searched. */
int latest_checkpoint(char **ret_prefix, const char *dir, const char *latest_filename,
                      struct err *why);

/* 1 if `<prefix>.index` is there, or a V1 checkpoint of that name. */
int checkpoint_exists(const char *prefix);

/* Seconds since the epoch at which it was last written; 0, or ERR_NOT_FOUND. */
int checkpoint_mtime(const char *prefix, double *ret_time, struct err *err);

/* Where the MetaGraph of a checkpoint lies: a shard's ending is cut off, "." and the
 * suffix added. The caller frees it. */
char *meta_graph_filename(const char *prefix, const char *suffix);

/* Removes the MetaGraph, the index and every data file; those that are not there are no
 * error. -errno of the first that cannot be removed. */
int checkpoint_remove(const char *prefix, const char *meta_graph_suffix, struct err *err);

/* os.path.dirname; the caller frees it. "" for a bare name. */
char *path_directory(const char *path);

struct checkpoint_state_update {
    const char *save_dir;   /* where the state file lies; "" is the current one */
    const char *newest;     /* prefix */
    const char *const *all; /* prefixes, oldest first; the newest is added if last is
                             * another one */
    size_t n_all;
    const char *latest_filename; /* NULL: "checkpoint" */
    int save_relative_paths;
    int durable; /* fsync */
};
/* Writes the state file, whole or not at all. ERR_ARG if it would take the checkpoint's
 * own name. */
int checkpoint_state_write(const struct checkpoint_state_update *u, struct err *err);

#endif
