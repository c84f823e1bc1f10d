/* ckpt_state.h - the `checkpoint` file of a directory: which checkpoint is the newest.
 *
 * Text     a CheckpointState in protobuf's text form, one field a line:
 *              model_checkpoint_path: "model.ckpt-20"
 *              all_model_checkpoint_paths: "model.ckpt-10"
 *              all_model_checkpoint_paths: "model.ckpt-20"
 * Reading  is tolerant: unknown fields, comments, either quote, octal, hex and letter
 *          escapes, adjacent strings, any order, CRLF.
 * Paths    relative ones start at the directory of the file. Files moved from another
 *          machine hold paths that are not there: the same base name is then tried in the
 *          directory. "." stands for a prefix that ended in "/".
 * Source   tensorflow/python/training/checkpoint_state.proto, checkpoint_management.py
 */
#ifndef COMMON_CKPT_CKPT_STATE_H
#define COMMON_CKPT_CKPT_STATE_H

#include "common/err/err.h"
#include "common/wire/cursor.h"

#include <stddef.h>

struct ckpt_state {
    char *newest; /* as written; "" if the field is absent */
    char **all;   /* oldest to newest */
    size_t n_all;
};

/* ERR_FORMAT; ret is untouched then. */
int ckpt_state_parse(struct ckpt_state *ret, const char *text, size_t len_bytes,
                     struct err *err);
/* Reads `<dir>/checkpoint`. ERR_NOT_FOUND, ERR_LIMIT (a megabyte is the most),
 * ERR_FORMAT, -errno. */
int ckpt_state_load(struct ckpt_state *ret, const char *dir, struct err *err);
/* The same for a state file of another name. */
int ckpt_state_load_file(struct ckpt_state *ret, const char *path, struct err *err);
void ckpt_state_done(struct ckpt_state *s);

/* The text, as TensorFlow's Saver writes it. */
void ckpt_state_put(struct wbuf *b, const struct ckpt_state *s);

/* The prefix of the checkpoint that `path`, found in the state file of `dir`, stands for;
 * the caller frees it. It is the first guess if no index is found at any. */
char *ckpt_state_resolve(const char *dir, const char *path);

/* The prefix of the newest checkpoint of a directory, by its `checkpoint` file; the
 * caller frees it. Errors of ckpt_state_load, and ERR_FORMAT if it names none. */
int ckpt_state_newest(char **ret_prefix, const char *dir, struct err *err);

/* The prefix that a person means by `path`: itself, the newest of a directory, or the
 * directory's files without a base name; the caller frees it. What is neither is taken
 * for a prefix: reading it says what is wrong. Errors of ckpt_state_newest. */
int ckpt_find_prefix(char **ret_prefix, const char *path, struct err *err);

#endif
