/* bundle_reader.h - private to bundle_reader.c (the index), bundle_v1.c (V1 checkpoints)
 * and bundle_data.c (the tensors); the public interface is bundle.h.
 */
#ifndef COMMON_CKPT_BUNDLE_READER_H
#define COMMON_CKPT_BUNDLE_READER_H

#include "common/ckpt/bundle.h"
#include "common/mem/arena.h"
#include "common/wire/cursor.h"

struct record {
    const uint8_t *key; /* a NUL-terminated name, or the key of a slice */
    size_t key_len;
    struct bundle_entry entry;
};

/* In the order of keys. */
struct records {
    struct record *at;
    size_t n, cap;
};

struct bundle_reader {
    char *prefix;
    struct arena arena; /* keys and slices */
    uint32_t n_shards;
    struct records tensors, slices;
    int in_memory; /* a V1 checkpoint, whose only shard is `memory` */
    struct wbuf memory;
    int fd; /* of the shard that was read last; -1: none */
    uint32_t fd_shard;
    uint64_t fd_size;
};

/* NULL if there is no such key. */
const struct bundle_entry *bundle_find_record(const struct records *records,
                                              const void *key, size_t key_len);

/* Appends an all-zero record with a copy of the key, NUL-terminated. */
struct record *bundle_add_record(struct records *to, struct arena *a, const void *key,
                                 size_t key_len);

/* Reads a V1 checkpoint as a whole (bundle_v1.c). */
int bundle_load_v1(struct bundle_reader *r, struct err *err);

/* Opens a regular file and returns its size. -errno, or ERR_FORMAT. */
int bundle_open_regular(const char *path, int *ret_fd, uint64_t *ret_size,
                        struct err *err);
void bundle_close(int fd); /* -1 is fine */
/* Reads n bytes at an offset; a shorter file is an error. */
int bundle_read_at(int fd, void *dst, size_t n, uint64_t offset, struct err *err);

#endif
