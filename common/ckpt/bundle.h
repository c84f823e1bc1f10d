/* bundle.h - TensorFlow V2 checkpoints: named tensors under a prefix.
 *
 * Files    <prefix>.index                  a table (table.h): "" -> header, name -> entry
 *          <prefix>.data-SSSSS-of-NNNNN    raw tensors, row-major, little-endian, no gaps
 *          The prefix is used as it is; it may end in "/".
 * Written  files equal TensorFlow's byte for byte. Data first, the index
 *          last, each under a temporary name and renamed (atomic_file.h).
 * Read     any number of shards, strings, partitioned tensors. Every tensor's checksum is
 *          verified; sizes are checked against the files before memory is allocated.
 *          Also V1 checkpoints (one file of that name, or shards: ckpt_find.h), which are
 *          read as a whole, and TensorFlow 2's object-based ones, whose keys are paths of
 *          objects.
 * Refused  with a message that names the reason: big-endian checkpoints, more dimensions
 *          than SHAPE_MAX_RANK, V1 checkpoints of more than 1 GiB. Values of types that
 *          dtype.h lacks, such as the states of iterators, are listed; only reading one is
 *          refused.
 * Errors   ERR_NOT_FOUND, ERR_FORMAT, ERR_CORRUPT, ERR_UNSUPPORTED, ERR_LIMIT, -errno.
 * Source   tensorflow/core/util/tensor_bundle, protobuf/tensor_bundle.proto
 */
#ifndef COMMON_CKPT_BUNDLE_H
#define COMMON_CKPT_BUNDLE_H

#include "common/err/err.h"
#include "common/tensor/tensor.h"

#include <stddef.h>
#include <stdint.h>

/* A part of a partitioned tensor; it has as many dimensions as the tensor. */
struct bundle_slice {
    int64_t start[SHAPE_MAX_RANK];
    int64_t length[SHAPE_MAX_RANK]; /* -1: the whole dimension; start is then 0 */
};

/* Parses the name that SaveV2 and RestoreV2 give a part, "4 10 0,2:-": the sizes of the
 * whole, then for each dimension "-" (all of it) or start,length. ERR_FORMAT. */
int bundle_slice_from_text(const char *text, struct shape *ret_whole,
                           struct bundle_slice *ret, struct err *err);

/* The shape of a slice. ERR_SHAPE: it is not inside `whole`. */
int bundle_slice_shape(const struct shape *whole, const struct bundle_slice *slice,
                       struct shape *ret);

struct bundle_entry {
    const char *name;
    enum dtype dtype;   /* may be a number that dtype.h lacks */
    struct shape shape; /* of the whole tensor */
    /* Where its bytes are; all zero if it is partitioned. */
    uint32_t shard, masked_crc;
    uint64_t offset, size_bytes;
    const struct bundle_slice *slices; /* NULL: not partitioned */
    size_t n_slices;
};

/* ---- writing ---- */

struct bundle_writer;

/* `durable`: fsync before and after each rename. The directory must exist. */
int bundle_writer_new(struct bundle_writer **ret, const char *prefix, int durable,
                      struct err *err);
/* A writer of 1 to 99999 data files, as TensorFlow writes for variables on several
 * devices: tensors go to the first until bundle_writer_next_shard is called. */
int bundle_writer_new_sharded(struct bundle_writer **ret, const char *prefix,
                              uint32_t n_shards, int durable, struct err *err);
/* Switches to the next data file; CHECKs that there is one. */
void bundle_writer_next_shard(struct bundle_writer *w);
/* Appends the tensor's bytes to the data file; the tensor is borrowed during the call. The
 * file has tensors in the order of the calls (TensorFlow's Saver adds them by name). */
int bundle_writer_add(struct bundle_writer *w, const char *name, const struct tensor *t,
                      struct err *err);
/* Appends one part of a tensor of shape `whole`; `part` has the slice's shape. The
 * parts of one tensor must be added one after another. */
int bundle_writer_add_slice(struct bundle_writer *w, const char *name,
                            const struct shape *whole, const struct bundle_slice *slice,
                            const struct tensor *part, struct err *err);
/* Renames the files to their final names; nothing may be added afterwards. ERR_EXISTS: two
 * tensors have the same name. */
int bundle_writer_finish(struct bundle_writer *w, struct err *err);
/* Removes the temporary files unless finished. NULL is fine. */
void bundle_writer_free(struct bundle_writer *w);

/* ---- reading ---- */

struct bundle_reader;

/* Reads the index; data files are opened when they are needed. */
int bundle_reader_new(struct bundle_reader **ret, const char *prefix, struct err *err);
void bundle_reader_free(struct bundle_reader *r); /* NULL is fine */

size_t bundle_reader_count(const struct bundle_reader *r);
/* In the order of names; the entry belongs to the reader. */
const struct bundle_entry *bundle_reader_entry(const struct bundle_reader *r, size_t i);
/* NULL if there is no tensor of that name. */
const struct bundle_entry *bundle_reader_find(const struct bundle_reader *r,
                                              const char *name);

/* Sets and returns the error for a name without a tensor: ERR_NOT_FOUND, or
 * ERR_UNSUPPORTED if the checkpoint is object-based. */
int bundle_reader_missing(const struct bundle_reader *r, const char *name,
                          struct err *err);

/* Reads a tensor into newly allocated memory, which ret owns. */
int bundle_reader_read(struct bundle_reader *r, const struct bundle_entry *entry,
                       struct tensor *ret, struct err *err);
/* Reads a part of the tensor, which lies inside it (bundle_slice_from_text checked it
 * against the entry's shape); not for strings. */
int bundle_reader_read_part(struct bundle_reader *r, const struct bundle_entry *entry,
                            const struct bundle_slice *slice, struct tensor *ret,
                            struct err *err);
/* Reads slice i of a partitioned tensor alone; the others may be missing. */
int bundle_reader_read_slice(struct bundle_reader *r, const struct bundle_entry *entry,
                             size_t i, struct tensor *ret, struct err *err);
/* bundle_reader_read into the caller's memory: dst has the entry's dtype (ERR_DTYPE)
 * and shape (ERR_SHAPE); not for strings. After an error dst's content is undefined. */
int bundle_reader_read_into(struct bundle_reader *r, const struct bundle_entry *entry,
                            const struct tensor *dst, struct err *err);

#endif
