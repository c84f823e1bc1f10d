/* Arbitrary bytes, read as a whole table, and as the data block (compressed or not) and
 * as the index block of a table with correct checksums. Keys come in increasing order,
 * and the entries can be written again. */
#include "common/ckpt/table.h"
#include "common/ckpt/table_format.h"
#include "common/err/check.h"
#include "common/wire/crc32c.h"
#include "tests/fuzz/fuzz.h"

enum { MAX_EXPANSION = 22 }; /* of a compressed block */

static void read_table(const uint8_t *data, size_t size)
{
    struct table_writer *w;
    struct table_reader *r;
    struct table_entry e;
    size_t len;

    if (table_reader_new(&r, data, size, NULL) != 0)
        return;
    w = table_writer_new();
    while (table_reader_next(r, &e, NULL) == 1) {
        CHECK(e.value_len / MAX_EXPANSION <= size);
        CHECK(table_writer_add(w, e.key, e.key_len, e.value, e.value_len, NULL) == 0);
    }
    CHECK(table_writer_finish(w, &len) != NULL);
    table_writer_free(w);
    table_reader_free(r);
}

static struct table_handle put_block_of(struct wbuf *file, const uint8_t *block, size_t n,
                                        uint8_t type)
{
    struct table_handle h = {.offset = file->len, .size = n};

    wbuf_bytes(file, block, n);
    wbuf_u8(file, type);
    wbuf_u32(file, crc32c_mask(crc32c(file->data + h.offset, n + 1)));
    return h;
}

static struct table_handle put_block(struct wbuf *file, const uint8_t *block, size_t n)
{
    return put_block_of(file, block, n, TABLE_BLOCK_RAW);
}

static void put_rest(struct wbuf *file, const uint8_t *index, size_t n)
{
    static const uint8_t empty[8] = {0, 0, 0, 0, 1, 0, 0, 0};
    struct table_handle metaindex = put_block(file, empty, sizeof(empty));

    table_put_footer(file, metaindex, put_block(file, index, n));
    read_table(file->data, file->len);
    wbuf_done(file);
}

static void as_data_block(const uint8_t *data, size_t size, uint8_t type)
{
    struct wbuf file = {0}, index = {0}, value = {0};

    table_put_handle(&value, put_block_of(&file, data, size, type));
    wbuf_u8(&index, 0);
    wbuf_u8(&index, 0);
    wbuf_varint(&index, value.len);
    wbuf_bytes(&index, value.data, value.len);
    wbuf_u32(&index, 0);
    wbuf_u32(&index, 1);
    put_rest(&file, index.data, index.len);
    wbuf_done(&value);
    wbuf_done(&index);
}

/* The index block comes after a block of one entry, so that handles in the input can
 * point to it. */
static void as_index_block(const uint8_t *data, size_t size)
{
    static const uint8_t block[13] = {0, 1, 1, 'k', 'v', 0, 0, 0, 0, 1};
    struct wbuf file = {0};

    (void)put_block(&file, block, sizeof(block));
    put_rest(&file, data, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_table(data, size);
    as_data_block(data, size, TABLE_BLOCK_RAW);
    as_data_block(data, size, TABLE_BLOCK_SNAPPY);
    as_index_block(data, size);
    return 0;
}
