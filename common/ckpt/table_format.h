/* table_format.h - shared by the table's writer and reader (see table.h). Private. */
#ifndef COMMON_CKPT_TABLE_FORMAT_H
#define COMMON_CKPT_TABLE_FORMAT_H

#include "common/wire/cursor.h"

#include <stdint.h>
#include <string.h>

#define TABLE_MAGIC 0xdb4775248b80fb57u

enum {
    TABLE_BLOCK_RAW = 0,
    TABLE_BLOCK_SNAPPY = 1,
    TABLE_TRAILER_BYTES = 5,
    TABLE_FOOTER_BYTES = 48,
};

/* Position of a block in the file, without the trailer that follows it. */
struct table_handle {
    uint64_t offset, size;
};

static inline void table_put_handle(struct wbuf *b, struct table_handle handle)
{
    wbuf_varint(b, handle.offset);
    wbuf_varint(b, handle.size);
}

static inline void table_put_footer(struct wbuf *b, struct table_handle metaindex,
                                    struct table_handle index)
{
    size_t start = b->len;

    table_put_handle(b, metaindex);
    table_put_handle(b, index);
    while (b->len < start + TABLE_FOOTER_BYTES - 8)
        wbuf_u8(b, 0);
    wbuf_u64(b, TABLE_MAGIC);
}

/* The order of keys: by unsigned bytes; of equal beginnings, the shorter key first. */
static inline int table_compare(const void *a, size_t a_len, const void *b, size_t b_len)
{
    size_t n = a_len < b_len ? a_len : b_len;
    int order = n > 0 ? memcmp(a, b, n) : 0;

    if (order == 0)
        order = (a_len > b_len) - (a_len < b_len);
    return order;
}

#endif
