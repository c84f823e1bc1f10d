/* Arbitrary entries in an index with correct checksums, beside an arbitrary data file,
 * and the same entries as a V1 checkpoint. Listing and reading succeed or fail; the
 * memory that they allocate is bounded by the size of the files.
 *
 * Input    {u8 key length, key, u8 value length, value}, repeated while the keys
 *          increase. The first key that does not ends the entries; the rest is the data
 *          file. */
#include "common/ckpt/bundle.h"
#include "common/ckpt/table.h"
#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "common/wire/cursor.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void write_file(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");

    CHECK(f != NULL, "%s", path);
    CHECK(fwrite(data, 1, n, f) == n && fclose(f) == 0, "%s", path);
}

static void write_index(const char *path, struct cursor *c)
{
    struct table_writer *w = table_writer_new();
    const void *bytes;
    size_t len;

    for (;;) {
        size_t key_len = cursor_u8(c);
        const uint8_t *key = cursor_bytes(c, key_len);
        size_t value_len = cursor_u8(c);
        const uint8_t *value = cursor_bytes(c, value_len);

        if (c->failed || table_writer_add(w, key, key_len, value, value_len, NULL) != 0)
            break;
    }
    bytes = table_writer_finish(w, &len);
    write_file(path, bytes, len);
    table_writer_free(w);
}

/* factor: bytes of memory that reading may allocate for each byte of the file. */
static void read_all(const char *prefix, size_t size, size_t factor)
{
    struct bundle_reader *r;

    if (bundle_reader_new(&r, prefix, NULL) != 0)
        return;
    for (size_t i = 0; i < bundle_reader_count(r); i++) {
        const struct bundle_entry *e = bundle_reader_entry(r, i);
        struct tensor t;

        CHECK(bundle_reader_find(r, e->name) == e, "%s", e->name);
        if (bundle_reader_read(r, e, &t, NULL) != 0)
            continue;
        /* several slices may read the same bytes of the file */
        CHECK(tensor_bytes(&t) <= size * factor * (1 + e->n_slices));
        CHECK(e->dtype != DT_STRING || (size_t)tensor_elements(&t) <= size);
        tensor_free(&t);
    }
    bundle_reader_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char dir[] = "/tmp/brood-fuzz-XXXXXX";
    struct cursor c = cursor_of(data, size);
    char *prefix, *index, *shard;

    CHECK(mkdtemp(dir) != NULL);
    prefix = xasprintf("%s/m", dir);
    index = xasprintf("%s.index", prefix);
    shard = xasprintf("%s.data-00000-of-00001", prefix);
    write_index(index, &c);
    write_file(shard, c.p, cursor_left(&c));
    read_all(prefix, size, 1);
    CHECK(rename(index, prefix) == 0);
    read_all(prefix, size, 8); /* one byte can encode an int64 */
    (void)unlink(shard);
    (void)unlink(prefix);
    (void)rmdir(dir);
    free(shard);
    free(index);
    free(prefix);
    return 0;
}
