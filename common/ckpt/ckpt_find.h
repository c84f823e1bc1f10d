/* ckpt_find.h - finds checkpoints by prefix, by directory, or by a path that a person typed, and
 * their graphs.
 *
 * Prefix   a V2 checkpoint has a file `<prefix>.index`. A V1 checkpoint is one file of
 *          exactly that name, or shards `m-00000-of-00002`..., whose common prefix is
 *          `m-?????-of-00002`.
 * State    paths in a `checkpoint` file (ckpt_state.h) are relative to its directory. If
 *          a path does not exist, because the files were copied from another machine, the
 *          same base name is tried in the directory. "." stands for a prefix that ends in
 *          "/".
 * Graph    of a checkpoint, `<prefix>.meta`; shards share one without their ending, `m.meta`.
 *          Of a SavedModel, whose prefix is `<dir>/variables/variables`, one of those in
 *          `<dir>/saved_model.pb` (saved_model.h). A graph without a checkpoint is one file, a
 *          GraphDef of any name (`frozen.pb`), which is its own prefix: its values, if it is
 *          frozen, are constants.
 * Source   tensorflow/python/training/checkpoint_management.py
 */
#ifndef COMMON_CKPT_CKPT_FIND_H
#define COMMON_CKPT_CKPT_FIND_H

#include "common/err/err.h"

enum ckpt_kind { CKPT_NONE, CKPT_V1, CKPT_V2 };

enum ckpt_kind ckpt_kind_of(const char *prefix);

/* The number of files that the prefix of a V1 checkpoint stands for: 2 for
 * "m-?????-of-00002", 1 for any other. */
unsigned ckpt_n_shards(const char *prefix);
/* The path of one of them; the caller frees it. */
char *ckpt_shard_path(const char *prefix, unsigned i);
/* The path of a checkpoint's MetaGraph: the prefix without a shard's ending
 * ("-?????-of-00002", "-00001-of-00002"), "." and the suffix. The caller frees it. */
char *ckpt_meta_path(const char *prefix, const char *suffix);
/* Whether it is a regular file that begins as a GraphDef of one node or more. */
int ckpt_is_graph_def(const char *path);
/* The file that has a checkpoint's graph: ckpt_meta_path or, if there is no such file, the
 * prefix if that is a GraphDef, or the `saved_model.pb` beside the folder of its variables; the
 * caller frees it. */
char *ckpt_graph_path(const char *prefix);

/* Returns the prefix for `path`, an entry of the state file of `dir`; the caller frees it. If
 * no candidate exists, the result is the first one tried. */
char *ckpt_resolve(const char *dir, const char *path);

/* The prefix of a directory's newest checkpoint according to its `checkpoint` file; the
 * caller frees it. Errors of ckpt_state_load; ERR_FORMAT: the file names none. */
int ckpt_find_newest(char **ret_prefix, const char *dir, struct err *err);

/* Whether ckpt_find_prefix would find files of a checkpoint, or a state file, by `path`: 1 or 0,
 * or an error if the folder in which shards may be cannot be listed. */
int ckpt_is_there(const char *path, struct err *err);

/* The prefix that a person means by `path`: the path itself, that of one of its files
 * (m.meta, m.index, m.data-00000-of-00001, m-00000-of-00002), a SavedModel's directory or
 * its saved_model.pb, a directory's newest checkpoint, or a directory's files without a base
 * name; the caller frees it. Any other path is returned as
 * a prefix, so that reading it reports the error. Errors of
 * ckpt_find_newest; ERR_NOT_FOUND: the checkpoint that a state file names is missing; -errno: the
 * folder in which shards may be cannot be listed. */
int ckpt_find_prefix(char **ret_prefix, const char *path, struct err *err);

#endif
