#include "common/ckpt/snappy.h"
#include "common/ckpt/table.h"
#include "common/ckpt/table_format.h"
#include "common/mem/xmalloc.h"
#include "common/wire/crc32c.h"
#include "tests/support/checkpoints.h"
#include "tests/support/test_main.h"

#include <string.h>

static const char HEADER[] = "\x08\x01\x1a\x02\x08\x01";

static void add(struct table_writer *w, const char *key, const void *value, size_t n)
{
    struct err err;

    ck_assert_msg(table_writer_add(w, key, strlen(key), value, n, &err) == 0, "%s: %s",
                  key, err.msg);
}

/* Reads a table and writes its entries into a new one; returns the writer. */
static struct table_writer *copy_table(const void *data, size_t len, size_t *ret_entries)
{
    struct table_writer *w = table_writer_new();
    struct table_reader *r;
    struct table_entry e;
    struct err err = {0};
    int rc = table_reader_new(&r, data, len, &err);

    ck_assert_msg(rc == 0, "%s", err.msg);
    *ret_entries = 0;
    while ((rc = table_reader_next(r, &e, &err)) > 0) {
        ck_assert_int_eq(
            table_writer_add(w, e.key, e.key_len, e.value, e.value_len, NULL), 0);
        ++*ret_entries;
    }
    ck_assert_msg(rc == 0, "%s", err.msg);
    table_reader_free(r);
    return w;
}

static void assert_copies_equal(const void *data, size_t len, size_t n_entries)
{
    size_t got_entries, got_len;
    struct table_writer *w = copy_table(data, len, &got_entries);
    const void *got = table_writer_finish(w, &got_len);

    ck_assert_uint_eq(got_entries, n_entries);
    ck_assert_uint_eq(got_len, len);
    ck_assert_mem_eq(got, data, len);
    table_writer_free(w);
}

/* Reads the whole table; 0 or the first error. */
static int read_all(const void *data, size_t len, struct err *err)
{
    struct table_reader *r;
    struct table_entry e;
    int rc = table_reader_new(&r, data, len, err);

    if (rc != 0)
        return rc;
    while ((rc = table_reader_next(r, &e, err)) > 0)
        ;
    table_reader_free(r);
    return rc;
}

START_TEST(a_table_of_one_tensor_is_tensorflows)
{
    static const char ENTRY[] =
        "\x08\x01\x12\x04\x12\x02\x08\x02\x28\x08\x35\x52\x96\x1a\xc6";
    static const char WHOLE[] =
        "\x00\x00\x06\x08\x01\x1a\x02\x08\x01\x00\x01\x0f\x76\x08\x01\x12"
        "\x04\x12\x02\x08\x02\x28\x08\x35\x52\x96\x1a\xc6\x00\x00\x00\x00"
        "\x01\x00\x00\x00\x00\xfd\x7b\x63\x97\x00\x00\x00\x00\x01\x00\x00"
        "\x00\x00\xc0\xf2\xa1\xb0\x00\x01\x02\x77\x00\x24\x00\x00\x00\x00"
        "\x01\x00\x00\x00\x00\x94\x60\xb2\xcd\x29\x08\x36\x0e\x00\x00\x00"
        "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
        "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
        "\x00\x57\xfb\x80\x8b\x24\x75\x47\xdb";
    struct table_writer *w = table_writer_new();
    const void *got;
    size_t len;

    add(w, "", HEADER, 6);
    add(w, "v", ENTRY, 15);
    got = table_writer_finish(w, &len);
    ck_assert_uint_eq(len, sizeof(WHOLE) - 1);
    ck_assert_mem_eq(got, WHOLE, len);
    assert_copies_equal(got, len, 2);
    table_writer_free(w);
}
END_TEST

/* Length and checksum of what leveldb's TableBuilder made of the same entries, with the
 * block size and restart interval of checkpoints: four data blocks. */
START_TEST(a_table_of_many_blocks_is_leveldbs)
{
    struct table_writer *w = table_writer_new();
    const void *got;
    size_t len;

    add(w, "", HEADER, 6);
    for (int i = 0; i < 20000; i++) {
        char key[32], value[64];

        (void)snprintf(key, sizeof(key), "layer_%06d/weights", i);
        memset(value, 'a' + i % 26, sizeof(value));
        add(w, key, value, (size_t)(20 + i % 37));
    }
    got = table_writer_finish(w, &len);
    ck_assert_uint_eq(len, 1021004);
    ck_assert_uint_eq(crc32c(got, len), 0x60b3662fu);
    assert_copies_equal(got, len, 20001);
    table_writer_free(w);
}
END_TEST

START_TEST(real_indexes_are_rewritten_byte_for_byte)
{
    struct test_paths paths = test_real_indexes();

    for (size_t i = 0; i < paths.n; i++) {
        size_t len, n_entries, got_len;
        unsigned char *data = test_read_file(paths.path[i], &len);
        struct table_writer *w = copy_table(data, len, &n_entries);
        const void *got = table_writer_finish(w, &got_len);

        ck_assert_uint_ge(n_entries, 2);
        ck_assert_uint_eq(got_len, len);
        ck_assert_mem_eq(got, data, len);
        table_writer_free(w);
        free(data);
    }
    test_paths_free(&paths);
}
END_TEST

START_TEST(large_values_get_blocks_of_their_own)
{
    struct table_writer *w = table_writer_new();
    char *value = xcalloc(1, 3 * TABLE_BLOCK_BYTES);
    const uint8_t *got;
    size_t len;

    add(w, "a", "x", 1);
    add(w, "b", value, 2 * TABLE_BLOCK_BYTES - 1);
    add(w, "c", "x", 1);
    got = table_writer_finish(w, &len);
    /* first block: 6 + 3 lengths, keys and values, 8 restarts; trailer; "c" starts at 0
     */
    ck_assert_uint_eq(got[0], 0);
    ck_assert_uint_eq(got[5 + 8], TABLE_BLOCK_RAW);
    assert_copies_equal(got, len, 3);
    table_writer_free(w);
    free(value);
}
END_TEST

START_TEST(separators_are_shortened_only_where_they_may)
{
    static const char *KEYS[][3] = {
        {"abcdef", "abzz", "abd"}, /* c+1 < z */
        {"abc", "abd", "abc"},     /* c+1 == d */
        {"ab", "abc", "ab"},       /* a prefix */
        {"a\xff"
         "b",
         "b",
         "a\xff"
         "b"}, /* a+1 == b */
    };

    for (size_t i = 0; i < sizeof(KEYS) / sizeof(KEYS[0]); i++) {
        struct table_writer *w = table_writer_new();
        char *value = xcalloc(1, TABLE_BLOCK_BYTES);
        const char *want = KEYS[i][2];
        const uint8_t *got;
        struct cursor footer;
        uint64_t index;
        size_t len;

        add(w, KEYS[i][0], value, TABLE_BLOCK_BYTES);
        add(w, KEYS[i][1], "x", 1);
        got = table_writer_finish(w, &len);
        footer = cursor_of(got + len - TABLE_FOOTER_BYTES, 40);
        (void)cursor_varint64(&footer);
        (void)cursor_varint64(&footer);
        index = cursor_varint64(&footer);
        ck_assert_uint_eq(got[index + 1], strlen(want));
        ck_assert_mem_eq(got + index + 3, want, strlen(want));
        table_writer_free(w);
        free(value);
    }
}
END_TEST

START_TEST(keys_out_of_order_are_refused)
{
    struct table_writer *w = table_writer_new();
    const void *got;
    struct err err;
    size_t len;

    add(w, "Variable/Adam", "", 0);
    add(w, "Variable_1", "", 0);
    ck_assert_int_eq(table_writer_add(w, "Variable_1", 10, "", 0, &err), ERR_ARG);
    ck_assert_int_eq(table_writer_add(w, "Variable", 8, "", 0, &err), ERR_ARG);
    ck_assert_int_eq(table_writer_add(w, "z", TABLE_MAX_KEY_BYTES + 1, "", 0, &err),
                     ERR_LIMIT);
    add(w, "a", "", 0);
    got = table_writer_finish(w, &len);
    assert_copies_equal(got, len, 3);
    table_writer_free(w);
}
END_TEST

START_TEST(an_empty_table_has_no_entries)
{
    struct table_writer *w = table_writer_new();
    size_t len;
    const void *got = table_writer_finish(w, &len);

    assert_copies_equal(got, len, 0);
    table_writer_free(w);
}
END_TEST

START_TEST(any_changed_byte_is_reported)
{
#ifdef __SANITIZE_ADDRESS__
    enum { STEP = 7 }; /* every change, in the plain build */
#else
    enum { STEP = 1 };
#endif
    struct table_writer *w = table_writer_new();
    unsigned char *copy;
    const void *got;
    size_t len;

    add(w, "", HEADER, 6);
    for (int i = 0; i < 40; i++) {
        char key[32];

        (void)snprintf(key, sizeof(key), "scope/variable_%02d", i);
        add(w, key, "some value", 10);
    }
    got = table_writer_finish(w, &len);
    copy = xmalloc(len);
    memcpy(copy, got, len);
    for (size_t at = 0; at < len; at++) {
        for (unsigned x = 1; x < 256; x += STEP) {
            struct err err = {0};

            copy[at] ^= (unsigned char)x;
            ck_assert_msg(read_all(copy, len, &err) < 0, "byte %zu ^ %u", at, x);
            ck_assert_int_ne(err.code, 0);
            copy[at] ^= (unsigned char)x;
        }
    }
    for (size_t cut = 0; cut < len; cut++) {
        unsigned char *part = xmalloc(cut + 1);

        memcpy(part, copy, cut);
        ck_assert_int_lt(read_all(part, cut, NULL), 0);
        free(part);
    }
    free(copy);
    table_writer_free(w);
}
END_TEST

/* ---- files with correct checksums and invalid content ---- */

static struct table_handle forge_block(struct wbuf *file, const void *block, size_t n,
                                       uint8_t type)
{
    struct table_handle h = {.offset = file->len, .size = n};

    wbuf_bytes(file, block, n);
    wbuf_u8(file, type);
    wbuf_u32(file, crc32c_mask(crc32c(file->data + h.offset, n + 1)));
    return h;
}

/* A file of one data block and the given index block. */
static void forge(struct wbuf *file, const void *block, size_t n, uint8_t type,
                  const void *index, size_t index_n)
{
    struct table_handle metaindex, index_handle;

    (void)forge_block(file, block, n, type);
    metaindex = forge_block(file, "\0\0\0\0\1\0\0\0", 8, TABLE_BLOCK_RAW);
    index_handle = forge_block(file, index, index_n, TABLE_BLOCK_RAW);
    table_put_footer(file, metaindex, index_handle);
}

#define BYTES(s) (s), sizeof(s) - 1
#define RESTART  "\0\0\0\0\1\0\0\0"

static const struct {
    const char *block;
    size_t n;
    uint8_t type;
    int code;
    const char *says;
} FORGED[] = {
    {BYTES("\0\1\1kv" RESTART), 0, 0, NULL},
    {BYTES("\0\1\1kv" RESTART), 1, ERR_FORMAT, "a compressed block"},
    {BYTES("\0\1\1kv" RESTART), 2, ERR_FORMAT, "block type"},
    {BYTES("\1\1\1kv" RESTART), 0, ERR_FORMAT, "shares more"},
    {BYTES("\0\1\2kv" RESTART), 0, ERR_FORMAT, "cut short"},
    {BYTES("\0\x80\x80\x80\x80\x0fkv" RESTART), 0, ERR_FORMAT, "cut short"},
    {BYTES("\0\1\1kv\0\1\1kv" RESTART), 0, ERR_FORMAT, "increasing order"},
    {BYTES("\0\1\1kv\0\1\1jv" RESTART), 0, ERR_FORMAT, "increasing order"},
    {BYTES("\0\1\1kv\0\0\0\0\0\0\0\0"), 0, ERR_FORMAT, "restarts"},
    {BYTES("\0\1\1kv\0\0\0\0\4\0\0\0"), 0, ERR_FORMAT, "restarts"},
    {BYTES("\0\1\1kv\0\0\0\0\xff\xff\xff\xff"), 0, ERR_FORMAT, "restarts"},
    {BYTES("\0\0\0\0"), 0, ERR_FORMAT, "without restarts"},
};

START_TEST(malformed_blocks_are_refused)
{
    struct wbuf file = {0}, index = {0};
    struct err err = {0};
    int rc;

    wbuf_bytes(&index, "\0\1\2z\0", 5);
    wbuf_u8(&index, (uint8_t)FORGED[_i].n);
    wbuf_bytes(&index, BYTES(RESTART));
    forge(&file, FORGED[_i].block, FORGED[_i].n, FORGED[_i].type, index.data, index.len);
    rc = read_all(file.data, file.len, &err);
    ck_assert_int_eq(rc, FORGED[_i].code);
    if (FORGED[_i].says != NULL)
        ck_assert_ptr_nonnull(strstr(err.msg, FORGED[_i].says));
    wbuf_done(&index);
    wbuf_done(&file);
}
END_TEST

static const struct {
    const char *index;
    size_t n;
    const char *says;
} FORGED_INDEX[] = {
    {BYTES("\0\1\2z\0\x7f" RESTART), "outside"},
    {BYTES("\0\1\2z\x7f\x0d" RESTART), "outside"},
    {BYTES("\0\1\13z\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\1" RESTART), "outside"},
    {BYTES("\0\1\13z\xff\xff\xff\xff\xff\xff\xff\xff\xff\1\x0d" RESTART), "outside"},
    {BYTES("\0\1\1z\0" RESTART), "handle"},
    {BYTES("\0\1\3z\0\x0d\0" RESTART), "handle"},
    {BYTES("\0\1\2y\0\x0d\0\1\2z\0\x0d" RESTART), "out of order"},
};

START_TEST(malformed_indexes_are_refused)
{
    struct wbuf file = {0};
    struct err err = {0};

    forge(&file, BYTES("\0\1\1kv" RESTART), 0, FORGED_INDEX[_i].index,
          FORGED_INDEX[_i].n);
    ck_assert_int_eq(read_all(file.data, file.len, &err), ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(err.msg, FORGED_INDEX[_i].says));
    wbuf_done(&file);
}
END_TEST

/* ---- Snappy ---- */

#define DECODES(data, text)                                                              \
    {                                                                                    \
        BYTES(data), text, sizeof(text) - 1                                              \
    }
static const struct {
    const char *data;
    size_t n;
    const char *text;
    size_t size;
} snappy_good[] = {
    DECODES("\0", ""),
    DECODES("\3\10abc", "abc"),
    DECODES("\11\10abc\11\3", "abcabcabc"),   /* copies 6 of 3: they repeat */
    DECODES("\6\10abc\12\3\0", "abcabc"),     /* an offset of two bytes */
    DECODES("\6\10abc\13\3\0\0\0", "abcabc"), /* and of four */
    DECODES("\4\360\3abcd", "abcd"),          /* a length of one byte */
    DECODES("\4\364\3\0abcd", "abcd"),        /* and of two */
};
#define REFUSED(data)                                                                    \
    {                                                                                    \
        BYTES(data), NULL, 0                                                             \
    }
static const struct {
    const char *data;
    size_t n;
    const char *text;
    size_t size;
} snappy_bad[] = {
    REFUSED(""),
    REFUSED("\377\377\377\377\17\0"), /* 4 GiB of six bytes */
    REFUSED("\3\10ab"),               /* cut short */
    REFUSED("\2\10abc"),              /* more than declared */
    REFUSED("\4\10abc"),              /* less */
    REFUSED("\11\10abc\11\4"),        /* from before the beginning */
    REFUSED("\11\10abc\11\0"),        /* an offset of 0 */
    REFUSED("\11\10abc\12\3"),
    REFUSED("\4\377\377\377\377\377abcd"),
};

START_TEST(snappy_is_decoded)
{
    uint8_t out[64];
    size_t size;

    for (size_t i = 0; i < sizeof(snappy_good) / sizeof(snappy_good[0]); i++) {
        const uint8_t *data = (const uint8_t *)snappy_good[i].data;

        ck_assert_int_eq(snappy_size(data, snappy_good[i].n, &size), 0);
        ck_assert_uint_eq(size, snappy_good[i].size);
        ck_assert_int_eq(snappy_decode(data, snappy_good[i].n, out, size), 0);
        ck_assert_mem_eq(out, snappy_good[i].text, size);
    }
    for (size_t i = 0; i < sizeof(snappy_bad) / sizeof(snappy_bad[0]); i++) {
        const uint8_t *data = (const uint8_t *)snappy_bad[i].data;

        ck_assert_msg(snappy_size(data, snappy_bad[i].n, &size) < 0 ||
                          snappy_decode(data, snappy_bad[i].n, out, size) < 0,
                      "%zu", i);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("table");
    TCase *tc = tcase_create("table");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, a_table_of_one_tensor_is_tensorflows);
    tcase_add_test(tc, a_table_of_many_blocks_is_leveldbs);
    tcase_add_test(tc, large_values_get_blocks_of_their_own);
    tcase_add_test(tc, separators_are_shortened_only_where_they_may);
    tcase_add_test(tc, keys_out_of_order_are_refused);
    tcase_add_test(tc, an_empty_table_has_no_entries);
    tcase_add_test(tc, any_changed_byte_is_reported);
    tcase_add_loop_test(tc, malformed_blocks_are_refused, 0,
                        sizeof(FORGED) / sizeof(FORGED[0]));
    tcase_add_loop_test(tc, malformed_indexes_are_refused, 0,
                        sizeof(FORGED_INDEX) / sizeof(FORGED_INDEX[0]));
    if (test_has_real_checkpoints())
        tcase_add_test(tc, real_indexes_are_rewritten_byte_for_byte);
    tcase_add_test(tc, snappy_is_decoded);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
