/* table.h - sorted string tables, the format of a checkpoint's `.index` and of V1
 * checkpoints.
 *
 * File     data blocks, metaindex block (always empty), index block, footer (48 bytes).
 * Block    entries, then u32 restart offsets, then u32 their number. A trailer follows each
 *          block: u8 type (0 raw, 1 Snappy: only read), u32 masked CRC-32C over block and type.
 * Entry    varint32 shared, varint32 non_shared, varint32 value length, the key's last
 *          non_shared bytes, the value. The first `shared` bytes are the previous key's;
 *          every 16th entry of a block shares nothing (a restart).
 * Index    one entry per data block: a key >= its last and < the next block's first, and
 *          the block's handle: varint64 offset, varint64 size (without the trailer).
 * Footer   handles of metaindex and index, zeros up to byte 40, u64 magic.
 *
 * What is written equals TensorFlow's files byte for byte (blocks of 256 KiB).
 * Source   leveldb doc/table_format.md; tensorflow/core/lib/io/table_builder.cc
 */
#ifndef COMMON_CKPT_TABLE_H
#define COMMON_CKPT_TABLE_H

#include "common/err/err.h"

#include <stddef.h>
#include <stdint.h>

enum {
    TABLE_BLOCK_BYTES = 262144,
    TABLE_RESTART_INTERVAL = 16,
    TABLE_MAX_KEY_BYTES =
        1 << 16, /* limit of brood: bounds the memory that a damaged file can request */
};

/* ---- writing: the whole file is built in memory ---- */

struct table_writer;

struct table_writer *table_writer_new(void);
void table_writer_free(struct table_writer *w); /* NULL is fine */

/* Keys must be in strictly increasing order of bytes (ERR_ARG). ERR_LIMIT: a key longer than
 * TABLE_MAX_KEY_BYTES, or a value over 2 GiB. */
int table_writer_add(struct table_writer *w, const void *key, size_t key_len,
                     const void *value, size_t value_len, struct err *err);

/* Ends the table; nothing may be added after it. The bytes belong to the writer. */
const void *table_writer_finish(struct table_writer *w, size_t *ret_len);

/* ---- reading: entries in order ---- */

struct table_reader;

struct table_entry {
    const uint8_t *key; /* valid until the next call */
    size_t key_len;
    const uint8_t *value; /* valid until the next call */
    size_t value_len;
};

/* Checks footer, metaindex and index. `data` is borrowed until table_reader_free.
 * ERR_FORMAT (not a table), ERR_CORRUPT (checksum). */
int table_reader_new(struct table_reader **ret, const void *data, size_t len_bytes,
                     struct err *err);
void table_reader_free(struct table_reader *r); /* NULL is fine */

/* Returns 1 and the next entry, 0 after the last, or an error as above. A block's checksum
 * is verified before its first entry is returned. */
int table_reader_next(struct table_reader *r, struct table_entry *ret, struct err *err);

#endif
