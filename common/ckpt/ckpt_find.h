/* ckpt_find.h - which checkpoints there are: prefixes, and what people say for them.
 *
 * Prefix   of V2: `<prefix>.index` is there. Of V1, which is only recognised: one file of
 *          that very name, or shards `m-00000-of-00002`..., all of them together named
 *          `m-?????-of-00002`.
 * State    paths of a `checkpoint` file (ckpt_state.h) start at its directory. Files moved
 *          from another machine hold paths that are not there: the same base name is then
 *          tried in the directory. "." stands for a prefix that ended in "/".
 * Source   tensorflow/python/training/checkpoint_management.py
 */
#ifndef COMMON_CKPT_CKPT_FIND_H
#define COMMON_CKPT_CKPT_FIND_H

#include "common/err/err.h"

enum ckpt_kind { CKPT_NONE, CKPT_V1, CKPT_V2 };

enum ckpt_kind ckpt_kind_of(const char *prefix);

/* The prefix of the checkpoint that `path`, found in the state file of `dir`, stands for;
 * the caller frees it. It is the first guess if none of its files is found at any. */
char *ckpt_resolve(const char *dir, const char *path);

/* The prefix of the newest checkpoint of a directory, by its `checkpoint` file; the
 * caller frees it. Errors of ckpt_state_load, and ERR_FORMAT if it names none. */
int ckpt_find_newest(char **ret_prefix, const char *dir, struct err *err);

/* The prefix that a person means by `path`: itself, the newest of a directory, or the
 * directory's files without a base name; the caller frees it. What is neither is taken
 * for a prefix: reading it says what is wrong. Errors of ckpt_find_newest, and
 * ERR_NOT_FOUND if what it names is not there. */
int ckpt_find_prefix(char **ret_prefix, const char *path, struct err *err);

#endif
