/* checkpoints.h - the files of checkpoints: which exist, and which is the newest.
 *
 * The functions of tf.train's checkpoint_management.py. Prefixes are used as given, never
 * normalised; one may end with "/" (then the files are `.index`, `.meta` and so on in
 * that folder).
 */
#ifndef AGENT_SAVER_CHECKPOINTS_H
#define AGENT_SAVER_CHECKPOINTS_H

#include "common/ckpt/ckpt_find.h"
#include "common/ckpt/ckpt_state.h"

#define CHECKPOINT_STATE_FILE "checkpoint"

/* get_checkpoint_state: reads the state file of a directory and resolves its paths to
 * prefixes that can be opened (ckpt_find.h). latest_filename NULL: "checkpoint". Errors
 * of ckpt_state_load; ERR_FORMAT: it names no newest checkpoint. */
int get_checkpoint_state(struct ckpt_state *ret, const char *dir,
                         const char *latest_filename, struct err *err);

/* Returns 1 and the prefix of the newest checkpoint (the caller frees it), or 0 if there
 * is none: no state file, an unreadable one, or one whose checkpoint is missing. why (may
 * be NULL) receives the reason. The directory is never searched. */
int latest_checkpoint(char **ret_prefix, const char *dir, const char *latest_filename,
                      struct err *why);

/* 1 if `<prefix>.index` or a V1 checkpoint of that name exists. */
int checkpoint_exists(const char *prefix);

/* The time of the checkpoint's last modification, in seconds since the epoch. Returns 0
 * or ERR_NOT_FOUND. */
int checkpoint_mtime(const char *prefix, double *ret_time, struct err *err);

/* Removes the MetaGraph, and the index and every data file, or those of a V1 checkpoint.
 * Missing files are no error.
 * Returns -errno of the first file that cannot be removed. */
int checkpoint_remove(const char *prefix, const char *meta_graph_suffix, struct err *err);

/* os.path.dirname; the caller frees it. "" for a bare name. */
char *path_directory(const char *path);

struct checkpoint_state_update {
    /* the directory of the state file; "" is the current directory */
    const char *save_dir;
    const char *newest; /* prefix */
    /* prefixes, oldest first; the newest is appended if it is not last */
    const char *const *all;
    size_t n_all;
    const char *latest_filename; /* NULL: "checkpoint" */
    int save_relative_paths;
    int durable; /* fsync */
};
/* Writes the state file, completely or not at all. ERR_ARG: it would replace the
 * checkpoint itself. */
int checkpoint_state_write(const struct checkpoint_state_update *u, struct err *err);

#endif
