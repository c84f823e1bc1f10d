#include "common/ckpt/table.h"
#include "common/ckpt/table_format.h"
#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "common/wire/crc32c.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* A block under construction. */
struct block {
    struct wbuf entries;
    struct wbuf restarts; /* positions of the restart points, u32 each */
    struct wbuf last_key;
    unsigned n_since_restart;
    unsigned restart_interval;
};

struct table_writer {
    struct wbuf file;
    struct block data, index;
    struct wbuf last_key;
    struct table_handle pending; /* a finished block, not yet in the index */
    /* the block's key in the index depends on the first key of the next block */
    int has_pending;
    int any_entry;
    int finished;
};

static void block_init(struct block *b, unsigned restart_interval)
{
    *b = (struct block){.restart_interval = restart_interval};
    wbuf_u32(&b->restarts, 0);
}

static void block_done(struct block *b)
{
    wbuf_done(&b->entries);
    wbuf_done(&b->restarts);
    wbuf_done(&b->last_key);
}

static size_t block_size(const struct block *b)
{
    return b->entries.len + b->restarts.len + 4;
}

static void wbuf_assign(struct wbuf *b, const void *data, size_t n)
{
    wbuf_clear(b);
    wbuf_bytes(b, data, n);
}

static size_t common_prefix(const uint8_t *a, size_t a_len, const uint8_t *b,
                            size_t b_len)
{
    size_t n = 0;

    while (n < a_len && n < b_len && a[n] == b[n])
        n++;
    return n;
}

static void block_add(struct block *b, const uint8_t *key, size_t key_len,
                      const void *value, size_t value_len)
{
    size_t shared = 0;

    if (b->n_since_restart < b->restart_interval) {
        shared = common_prefix(b->last_key.data, b->last_key.len, key, key_len);
    } else {
        wbuf_u32(&b->restarts, (uint32_t)b->entries.len);
        b->n_since_restart = 0;
    }
    wbuf_varint(&b->entries, shared);
    wbuf_varint(&b->entries, key_len - shared);
    wbuf_varint(&b->entries, value_len);
    if (key_len > shared) /* an empty key has no address */
        wbuf_bytes(&b->entries, key + shared, key_len - shared);
    wbuf_bytes(&b->entries, value, value_len);
    wbuf_assign(&b->last_key, key, key_len);
    b->n_since_restart++;
}

/* Appends block and trailer to the file, and empties the block. */
static struct table_handle write_block(struct wbuf *file, struct block *b)
{
    struct table_handle handle = {.offset = file->len, .size = block_size(b)};

    wbuf_bytes(file, b->entries.data, b->entries.len);
    wbuf_bytes(file, b->restarts.data, b->restarts.len);
    wbuf_u32(file, (uint32_t)(b->restarts.len / 4));
    wbuf_u8(file, TABLE_BLOCK_RAW);
    wbuf_u32(file, crc32c_mask(crc32c(file->data + handle.offset, handle.size + 1)));
    wbuf_clear(&b->entries);
    wbuf_clear(&b->restarts);
    wbuf_clear(&b->last_key);
    b->n_since_restart = 0;
    wbuf_u32(&b->restarts, 0);
    return handle;
}

/* Indexes the pending block under `key`. */
static void add_to_index(struct table_writer *w, const uint8_t *key, size_t key_len)
{
    struct wbuf value = {0};

    table_put_handle(&value, w->pending);
    block_add(&w->index, key, key_len, value.data, value.len);
    wbuf_done(&value);
    w->has_pending = 0;
}

/* Indexes the pending block under a short key k with last <= k < next: `last`, cut after
 * the first difference, with that byte incremented if the result is below `next`. */
static void index_before(struct table_writer *w, const uint8_t *next, size_t next_len)
{
    struct wbuf *last = &w->last_key;
    size_t at = common_prefix(last->data, last->len, next, next_len);

    if (at < last->len && at < next_len && last->data[at] < 0xff &&
        last->data[at] + 1 < next[at]) {
        last->data[at]++;
        last->len = at + 1;
    }
    add_to_index(w, last->data, last->len);
}

/* Indexes the last block under a short key not below `last`, which ends with the first
 * byte that can be incremented. */
static void index_last(struct table_writer *w)
{
    struct wbuf *last = &w->last_key;

    for (size_t at = 0; at < last->len; at++) {
        if (last->data[at] != 0xff) {
            last->data[at]++;
            last->len = at + 1;
            break;
        }
    }
    add_to_index(w, last->data, last->len);
}

static void flush(struct table_writer *w)
{
    if (w->data.entries.len == 0)
        return;
    w->pending = write_block(&w->file, &w->data);
    w->has_pending = 1;
}

struct table_writer *table_writer_new(void)
{
    struct table_writer *w = xcalloc(1, sizeof(*w));

    block_init(&w->data, TABLE_RESTART_INTERVAL);
    block_init(&w->index, 1);
    return w;
}

void table_writer_free(struct table_writer *w)
{
    if (w == NULL)
        return;
    block_done(&w->data);
    block_done(&w->index);
    wbuf_done(&w->last_key);
    wbuf_done(&w->file);
    free(w);
}

int table_writer_add(struct table_writer *w, const void *key, size_t key_len,
                     const void *value, size_t value_len, struct err *err)
{
    CHECK(!w->finished);
    if (key_len > TABLE_MAX_KEY_BYTES || value_len > INT_MAX)
        return err_set(err, ERR_LIMIT, "key of %zu or value of %zu bytes is too long",
                       key_len, value_len);
    if (w->any_entry &&
        table_compare(w->last_key.data, w->last_key.len, key, key_len) >= 0)
        return err_set(err, ERR_ARG, "keys are not in increasing order: %.*s",
                       (int)key_len, (const char *)key);
    /* a value this large gets a block of its own */
    if (key_len + value_len >= 2 * TABLE_BLOCK_BYTES)
        flush(w);
    if (w->has_pending)
        index_before(w, key, key_len);
    block_add(&w->data, key, key_len, value, value_len);
    wbuf_assign(&w->last_key, key, key_len);
    w->any_entry = 1;
    if (block_size(&w->data) >= TABLE_BLOCK_BYTES)
        flush(w);
    return 0;
}

const void *table_writer_finish(struct table_writer *w, size_t *ret_len)
{
    struct table_handle metaindex, index;
    struct block empty;

    CHECK(!w->finished);
    w->finished = 1;
    flush(w);
    block_init(&empty, 1);
    metaindex = write_block(&w->file, &empty);
    block_done(&empty);
    if (w->has_pending)
        index_last(w);
    index = write_block(&w->file, &w->index);
    table_put_footer(&w->file, metaindex, index);
    *ret_len = w->file.len;
    return w->file.data;
}
