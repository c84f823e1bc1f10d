/* ckpt_state.h - the `checkpoint` file of a directory, which names its checkpoints.
 *
 * Text     a CheckpointState in protobuf's text form, one field a line:
 *              model_checkpoint_path: "model.ckpt-20"
 *              all_model_checkpoint_paths: "model.ckpt-10"
 *              all_model_checkpoint_paths: "model.ckpt-20"
 * Reading  is tolerant: unknown fields, comments, either quote, octal, hex and letter
 *          escapes, adjacent strings, any order, CRLF.
 * Paths    are kept as written; ckpt_find.h finds the files.
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

/* ERR_FORMAT; ret is then unchanged. */
int ckpt_state_parse(struct ckpt_state *ret, const char *text, size_t len_bytes,
                     struct err *err);
/* Reads `<dir>/checkpoint`. ERR_NOT_FOUND, ERR_LIMIT (larger than a megabyte), ERR_FORMAT,
 * -errno. */
int ckpt_state_load(struct ckpt_state *ret, const char *dir, struct err *err);
/* Reads a state file of another name. */
int ckpt_state_load_file(struct ckpt_state *ret, const char *path, struct err *err);
void ckpt_state_done(struct ckpt_state *s);

/* Appends the text as TensorFlow's Saver writes it. */
void ckpt_state_put(struct wbuf *b, const struct ckpt_state *s);

#endif
