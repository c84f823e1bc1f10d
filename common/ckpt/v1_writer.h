/* v1_writer.h - writes V1 checkpoints: one file with the tensors, or one shard of several.
 *
 * Files    the path is used as it is; shard 1 of 2 is `<base>-00001-of-00002`, and the prefix
 *          of all is `<base>-?????-of-00002` (ckpt_find.h). The file appears whole or not at
 *          all (atomic_file.h).
 * Read     by bundle_reader and by TensorFlow's Savers of any version. TensorFlow compresses
 *          the tables that it writes; these are not compressed.
 * Limits   a tensor takes at most 2 GiB when it is packed, as in TensorFlow; all are kept in
 *          memory until the file is written.
 * Errors   ERR_DTYPE (TensorFlow's V1 format has no bfloat16, uint32 and uint64), ERR_SHAPE,
 *          ERR_ARG, ERR_EXISTS (a tensor twice), ERR_LIMIT, -errno.
 * Source   tensorflow/core/util/tensor_slice_writer.cc
 */
#ifndef COMMON_CKPT_V1_WRITER_H
#define COMMON_CKPT_V1_WRITER_H

#include "common/ckpt/bundle.h"

struct v1_writer;

/* `durable`: fsync before and after the rename. */
struct v1_writer *v1_writer_new(const char *path, int durable);
/* Adds a tensor, which is borrowed during the call. */
int v1_writer_add(struct v1_writer *w, const char *name, const struct tensor *t,
                  struct err *err);
/* Adds a part of a tensor of shape `whole`; `part` has the slice's shape. */
int v1_writer_add_slice(struct v1_writer *w, const char *name, const struct shape *whole,
                        const struct bundle_slice *slice, const struct tensor *part,
                        struct err *err);
/* Writes the file; nothing may be added afterwards. */
int v1_writer_finish(struct v1_writer *w, struct err *err);
void v1_writer_free(struct v1_writer *w); /* NULL is fine */

#endif
