#include "common/ckpt/snappy.h"
#include "common/ckpt/table.h"
#include "common/ckpt/table_format.h"
#include "common/mem/xmalloc.h"
#include "common/wire/crc32c.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_DECODED_BYTES = 1 << 30 };

/* Reads the entries of one block in order. */
struct walk {
    struct cursor entries;
    struct wbuf key;     /* key of the last entry read */
    struct wbuf decoded; /* the block's bytes, if it is compressed in the file */
};

struct table_reader {
    const uint8_t *data;
    size_t len_bytes;
    struct walk index, block;
    /* end of the data blocks read so far; the next one must begin at or after it */
    uint64_t blocks_end;
    struct wbuf last_key;
    int any_entry;
};

static int malformed(struct err *err, const char *what)
{
    return err_set(err, ERR_FORMAT, "malformed table: %s", what);
}

static int decompress(struct wbuf *b, const uint8_t *block, size_t n, struct err *err)
{
    size_t size;

    wbuf_clear(b);
    if (snappy_size(block, n, &size) < 0 || size > MAX_DECODED_BYTES)
        return malformed(err, "a compressed block of impossible size");
    wbuf_reserve(b, size + 1);
    if (snappy_decode(block, n, b->data, size) < 0)
        return malformed(err, "a compressed block");
    b->len = size;
    return 0;
}

/* Checks position, checksum, type and restart array of a block; sets *ret to its entries,
 * which are in the file, or in `decoded` if it is compressed. */
static int open_block(const struct table_reader *r, struct table_handle h,
                      struct wbuf *decoded, struct cursor *ret, struct err *err)
{
    size_t room = r->len_bytes - TABLE_FOOTER_BYTES;
    const uint8_t *block;
    struct cursor tail;
    uint8_t type;
    uint32_t n_restarts;

    if (room < TABLE_TRAILER_BYTES || h.size > room - TABLE_TRAILER_BYTES ||
        h.offset > room - TABLE_TRAILER_BYTES - h.size)
        return malformed(err, "a block lies outside the file");
    block = r->data + h.offset;
    tail = cursor_of(block + h.size, TABLE_TRAILER_BYTES);
    type = cursor_u8(&tail);
    if (crc32c_unmask(cursor_u32(&tail)) != crc32c(block, h.size + 1))
        return err_set(err, ERR_CORRUPT, "checksum mismatch in the block at byte %llu",
                       (unsigned long long)h.offset);
    if (type == TABLE_BLOCK_SNAPPY) {
        int rc = decompress(decoded, block, h.size, err);

        if (rc != 0)
            return rc;
        block = decoded->data;
        h.size = decoded->len;
    } else if (type != TABLE_BLOCK_RAW) {
        return malformed(err, "unknown block type");
    }
    if (h.size < 8)
        return malformed(err, "a block without restarts");
    tail = cursor_of(block + h.size - 4, 4);
    n_restarts = cursor_u32(&tail);
    if (n_restarts < 1 || n_restarts > (h.size - 4) / 4)
        return malformed(err, "impossible number of restarts");
    *ret = cursor_of(block, h.size - 4 - 4 * (size_t)n_restarts);
    return 0;
}

/* Returns 1 with the next entry of a block, 0 at its end. */
static int walk_next(struct walk *w, struct table_entry *ret, struct err *err)
{
    struct cursor *c = &w->entries;
    uint32_t shared, non_shared, value_len;
    const uint8_t *rest;

    if (cursor_left(c) == 0)
        return 0;
    shared = cursor_varint32(c);
    non_shared = cursor_varint32(c);
    value_len = cursor_varint32(c);
    rest = cursor_bytes(c, non_shared);
    ret->value = cursor_bytes(c, value_len);
    if (c->failed)
        return malformed(err, "an entry is cut short");
    if (shared > w->key.len)
        return malformed(err, "an entry shares more than there is");
    if ((uint64_t)shared + non_shared > TABLE_MAX_KEY_BYTES)
        return malformed(err, "a key is too long");
    w->key.len = shared;
    wbuf_bytes(&w->key, rest, non_shared);
    ret->key = w->key.data;
    ret->key_len = w->key.len;
    ret->value_len = value_len;
    return 1;
}

static void walk_start(struct walk *w, struct cursor entries)
{
    w->entries = entries;
    wbuf_clear(&w->key);
}

static struct table_handle read_handle(struct cursor *c)
{
    struct table_handle h = {.offset = cursor_varint64(c)};

    h.size = cursor_varint64(c);
    return h;
}

/* The footer has no checksum, so it must be exactly as the writer would write it. */
static int footer_is_canonical(const uint8_t *footer, struct table_handle metaindex,
                               struct table_handle index)
{
    struct wbuf b = {0};
    int same;

    table_put_footer(&b, metaindex, index);
    same = b.len == TABLE_FOOTER_BYTES && memcmp(b.data, footer, b.len) == 0;
    wbuf_done(&b);
    return same;
}

static int read_footer(struct table_reader *r, struct err *err)
{
    const uint8_t *footer = r->data + r->len_bytes - TABLE_FOOTER_BYTES;
    struct cursor c = cursor_of(footer, TABLE_FOOTER_BYTES);
    struct table_handle metaindex = read_handle(&c);
    struct table_handle index = read_handle(&c);
    struct cursor entries;
    int rc;

    if (c.failed || !footer_is_canonical(footer, metaindex, index))
        return malformed(err, "bad footer");
    rc = open_block(r, metaindex, &r->block.decoded, &entries, err);
    if (rc != 0)
        return rc;
    rc = open_block(r, index, &r->index.decoded, &entries, err);
    if (rc != 0)
        return rc;
    walk_start(&r->index, entries);
    return 0;
}

static int has_magic(const uint8_t *data, size_t len_bytes)
{
    struct cursor c;

    if (len_bytes < TABLE_FOOTER_BYTES)
        return 0;
    c = cursor_of(data + len_bytes - 8, 8);
    return cursor_u64(&c) == TABLE_MAGIC;
}

int table_reader_new(struct table_reader **ret, const void *data, size_t len_bytes,
                     struct err *err)
{
    struct table_reader *r;
    int rc;

    if (!has_magic(data, len_bytes))
        return err_set(err, ERR_FORMAT,
                       "not a table file, or cut short (no magic number)");
    r = xcalloc(1, sizeof(*r));
    r->data = data;
    r->len_bytes = len_bytes;
    r->block.entries = cursor_of(NULL, 0);
    rc = read_footer(r, err);
    if (rc != 0) {
        table_reader_free(r);
        return rc;
    }
    *ret = r;
    return 0;
}

void table_reader_free(struct table_reader *r)
{
    if (r == NULL)
        return;
    wbuf_done(&r->index.key);
    wbuf_done(&r->block.key);
    wbuf_done(&r->index.decoded);
    wbuf_done(&r->block.decoded);
    wbuf_done(&r->last_key);
    free(r);
}

/* Returns 1 after opening the next data block, 0 after the last. Every block must lie
 * after the previous one, so that no byte of the file is read twice. */
static int next_block(struct table_reader *r, struct err *err)
{
    struct table_entry entry;
    struct table_handle h;
    struct cursor c, entries;
    int rc = walk_next(&r->index, &entry, err);

    if (rc <= 0)
        return rc;
    c = cursor_of(entry.value, entry.value_len);
    h = read_handle(&c);
    if (c.failed || cursor_left(&c) != 0)
        return malformed(err, "bad block handle");
    if (h.offset < r->blocks_end)
        return malformed(err, "blocks are out of order");
    rc = open_block(r, h, &r->block.decoded, &entries, err);
    if (rc != 0)
        return rc;
    r->blocks_end = h.offset + h.size + TABLE_TRAILER_BYTES;
    walk_start(&r->block, entries);
    return 1;
}

int table_reader_next(struct table_reader *r, struct table_entry *ret, struct err *err)
{
    struct table_entry entry;
    int rc;

    while ((rc = walk_next(&r->block, &entry, err)) == 0) {
        rc = next_block(r, err);
        if (rc <= 0)
            return rc;
    }
    if (rc < 0)
        return rc;
    if (r->any_entry &&
        table_compare(r->last_key.data, r->last_key.len, entry.key, entry.key_len) >= 0)
        return malformed(err, "keys are not in increasing order");
    wbuf_clear(&r->last_key);
    wbuf_bytes(&r->last_key, entry.key, entry.key_len);
    r->any_entry = 1;
    *ret = entry;
    return 1;
}
