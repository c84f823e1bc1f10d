/* ckpt_find.h - finds checkpoints by prefix, by directory, or by a path that a person typed.
 *
 * Prefix   a V2 checkpoint has a file `<prefix>.index`. A V1 checkpoint is one file of
 *          exactly that name, or shards `m-00000-of-00002`..., whose common prefix is
 *          `m-?????-of-00002`.
 * State    paths in a `checkpoint` file (ckpt_state.h) are relative to its directory. If
 *          a path does not exist, because the files were copied from another machine, the
 *          same base name is tried in the directory. "." stands for a prefix that ends in
 *          "/".
 * Source   tensorflow/python/training/checkpoint_management.py
 */
#ifndef COMMON_CKPT_CKPT_FIND_H
#define COMMON_CKPT_CKPT_FIND_H

#include "common/err/err.h"

enum ckpt_kind { CKPT_NONE, CKPT_V1, CKPT_V2 };

enum ckpt_kind ckpt_kind_of(const char *prefix);

/* Returns the prefix for `path`, an entry of the state file of `dir`; the caller frees it. If
 * no candidate exists, the result is the first one tried. */
char *ckpt_resolve(const char *dir, const char *path);

/* The prefix of a directory's newest checkpoint according to its `checkpoint` file; the
 * caller frees it. Errors of ckpt_state_load; ERR_FORMAT: the file names none. */
int ckpt_find_newest(char **ret_prefix, const char *dir, struct err *err);

/* Whether ckpt_find_prefix would find files of a checkpoint, or a state file, by `path`. */
int ckpt_is_there(const char *path);

/* The prefix that a person means by `path`: the path itself, that of one of its files
 * (m.meta, m.index, m.data-00000-of-00001), a directory's newest checkpoint, or a
 * directory's files without a base name; the caller frees it. Any other path is returned as
 * a prefix, so that reading it reports the error. Errors of
 * ckpt_find_newest; ERR_NOT_FOUND: the checkpoint that a state file names is missing. */
int ckpt_find_prefix(char **ret_prefix, const char *path, struct err *err);

#endif
