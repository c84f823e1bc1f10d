#include "common/ckpt/bundle_reader.h"

#include "common/ckpt/bundle_proto.h"
#include "common/ckpt/ckpt_find.h"
#include "common/ckpt/table.h"
#include "common/ckpt/table_format.h"
#include "common/err/check.h"
#include "common/io/beneath.h"
#include "common/io/write_all.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MAX_INDEX_BYTES = 1 << 28,
    /* keys share prefixes: this limits the size of all keys, relative to the index */
    MAX_KEY_EXPANSION = 64,
};

/* TensorFlow 2 stores a graph of objects under this key; its tensors' keys are paths in
 * that graph. */
static const char OBJECT_GRAPH_KEY[] = "_CHECKPOINTABLE_OBJECT_GRAPH";

/* ---- files ---- */

static int no_index(const char *prefix, struct err *err)
{
    static const char *const SUFFIXES[] = {".index", ".meta", ".data-00000-of-00001"};

    for (size_t i = 0; i < sizeof(SUFFIXES) / sizeof(SUFFIXES[0]); i++)
        if (text_ends_with(prefix, SUFFIXES[i]))
            return err_set(
                err, ERR_NOT_FOUND,
                "there is no %s.index; a checkpoint is named by its prefix: %.*s", prefix,
                (int)(strlen(prefix) - strlen(SUFFIXES[i])), prefix);
    if (ckpt_is_graph_def(prefix))
        return err_set(err, ERR_NOT_FOUND, "%s is a graph alone, without a checkpoint",
                       prefix);
    return err_set(err, ERR_NOT_FOUND, "there is no checkpoint %s (no %s.index)", prefix,
                   prefix);
}

void bundle_close(int fd)
{
    if (fd >= 0)
        (void)close(fd);
}

/* Reads n bytes at an offset. It is an error if the file has fewer. */
int bundle_read_at(int fd, void *dst, size_t n, uint64_t offset, struct err *err)
{
    const ssize_t got = pread_all(fd, dst, n, offset);

    if (got < 0)
        return err_errno(err, "read");
    return got == (ssize_t)n ? 0 : err_set(err, ERR_FORMAT, "the file is cut short");
}

/* Returns -ENOENT if there is no such file. */
int bundle_open_regular(const char *path, int *ret_fd, uint64_t *ret_size,
                        struct err *err)
{
    /* NONBLOCK: opening a fifo of that name must not block */
    int fd = beneath_open(path, O_RDONLY | O_NONBLOCK, 0);
    struct stat st;
    int rc = 0;

    *ret_fd = -1;
    *ret_size = 0;
    if (fd < 0)
        return err_errno(err, "%s", path);
    if (fstat(fd, &st) != 0)
        rc = err_errno(err, "%s", path);
    else if (!S_ISREG(st.st_mode))
        rc = err_set(err, ERR_FORMAT, "%s: not a regular file", path);
    if (rc < 0) {
        (void)close(fd);
        return rc;
    }
    *ret_fd = fd;
    *ret_size = (uint64_t)st.st_size;
    return 0;
}

static int read_index_file(const char *path, unsigned char **ret, size_t *ret_len,
                           struct err *err)
{
    unsigned char *data;
    uint64_t size;
    int fd, rc = bundle_open_regular(path, &fd, &size, err);

    if (rc != 0)
        return rc;
    if (size > MAX_INDEX_BYTES) {
        (void)close(fd);
        return err_set(err, ERR_LIMIT, "%s: %llu bytes are too many", path,
                       (unsigned long long)size);
    }
    data = xmalloc(size + 1);
    rc = bundle_read_at(fd, data, size, 0, err);
    (void)close(fd);
    if (rc != 0) {
        (void)err_wrap(err, "%s", path);
        free(data);
        return rc;
    }
    *ret = data;
    *ret_len = size;
    return 0;
}

/* ---- the index ---- */

struct record *bundle_add_record(struct records *to, struct arena *a, const void *key,
                                 size_t key_len)
{
    struct record *record;
    uint8_t *copy = arena_alloc(a, key_len + 1);

    ARRAY_GROW(to->at, to->n, to->cap);
    memcpy(copy, key, key_len);
    record = &to->at[to->n++];
    *record = (struct record){.key = copy, .key_len = key_len};
    return record;
}

static int add_entry(struct bundle_reader *r, const struct table_entry *e,
                     struct err *err)
{
    struct record *record;
    const char *name;
    int rc;

    if (e->key_len == 0 || (e->key[0] != 0 && memchr(e->key, 0, e->key_len) != NULL))
        return err_set(err, ERR_FORMAT, "malformed index: impossible name");
    /* a slice's key begins with byte 0, a tensor's name does not */
    record = bundle_add_record(e->key[0] == 0 ? &r->slices : &r->tensors, &r->arena,
                               e->key, e->key_len);
    name = (const char *)record->key;
    rc = bundle_parse_entry(cursor_of(e->value, e->value_len), &r->arena, &record->entry,
                            err);
    if (rc != 0) {
        (void)err_wrap(err, "%s", name[0] != '\0' ? name : "a slice");
        (void)err_note(err, ERR_AT(.tensor = name));
        return rc;
    }
    record->entry.name = name;
    if (record->entry.shard >= r->n_shards)
        return err_set(err, ERR_FORMAT, "malformed index: %s lies in shard %u of %u",
                       name, record->entry.shard, r->n_shards);
    return 0;
}

static int load_header(struct bundle_reader *r, struct table_reader *table,
                       struct err *err)
{
    struct table_entry e;
    int rc = table_reader_next(table, &e, err);

    if (rc < 0)
        return rc;
    if (rc == 0 || e.key_len != 0)
        return err_set(err, ERR_FORMAT, "malformed index: it has no header");
    rc = bundle_parse_header(cursor_of(e.value, e.value_len), err);
    if (rc < 0)
        return rc;
    r->n_shards = (uint32_t)rc;
    return 0;
}

static int load_entries(struct bundle_reader *r, const unsigned char *index, size_t len,
                        struct err *err)
{
    struct table_reader *table;
    struct table_entry e;
    size_t key_bytes = 0;
    int rc = table_reader_new(&table, index, len, err);

    if (rc != 0)
        return rc;
    rc = load_header(r, table, err);
    while (rc == 0 && (rc = table_reader_next(table, &e, err)) > 0) {
        key_bytes += e.key_len;
        rc = key_bytes / MAX_KEY_EXPANSION <= len
                 ? add_entry(r, &e, err)
                 : err_set(err, ERR_LIMIT, "the names are too long");
    }
    table_reader_free(table);
    return rc;
}

int bundle_reader_new(struct bundle_reader **ret, const char *prefix, struct err *err)
{
    struct bundle_reader *r = xcalloc(1, sizeof(*r));
    char *path = xasprintf("%s.index", prefix);
    unsigned char *index = NULL;
    size_t len = 0;
    int rc;

    r->prefix = xstrdup(prefix);
    r->fd = -1;
    rc = read_index_file(path, &index, &len, err);
    if (rc == -ENOENT && ckpt_kind_of(prefix) == CKPT_V1) {
        if (err != NULL)
            *err = (struct err){0};
        rc = bundle_load_v1(r, err);
    } else if (rc == -ENOENT) {
        rc = no_index(prefix, err);
    } else if (rc == 0) {
        rc = load_entries(r, index, len, err);
        if (rc != 0)
            (void)err_wrap(err, "%s", path);
    }
    if (rc != 0 && !r->in_memory)
        (void)err_note(err, ERR_AT(.file = path));
    free(index);
    free(path);
    if (rc != 0) {
        bundle_reader_free(r);
        return rc;
    }
    *ret = r;
    return 0;
}

void bundle_reader_free(struct bundle_reader *r)
{
    if (r == NULL)
        return;
    bundle_close(r->fd);
    wbuf_done(&r->memory);
    free(r->tensors.at);
    free(r->slices.at);
    arena_done(&r->arena);
    free(r->prefix);
    free(r);
}

size_t bundle_reader_count(const struct bundle_reader *r)
{
    return r->tensors.n;
}

const struct bundle_entry *bundle_reader_entry(const struct bundle_reader *r, size_t i)
{
    CHECK(i < r->tensors.n);
    return &r->tensors.at[i].entry;
}

const struct bundle_entry *bundle_find_record(const struct records *records,
                                              const void *key, size_t key_len)
{
    size_t lo = 0, hi = records->n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const struct record *record = &records->at[mid];
        int order = table_compare(record->key, record->key_len, key, key_len);

        if (order == 0)
            return &record->entry;
        if (order < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

const struct bundle_entry *bundle_reader_find(const struct bundle_reader *r,
                                              const char *name)
{
    return bundle_find_record(&r->tensors, name, strlen(name));
}

int bundle_reader_missing(const struct bundle_reader *r, const char *name,
                          struct err *err)
{
    if (bundle_reader_find(r, OBJECT_GRAPH_KEY) != NULL)
        return err_set(err, ERR_UNSUPPORTED,
                       "Key %s not found in checkpoint: an object-based checkpoint of "
                       "TensorFlow 2 (it has %s), which has no variable names",
                       name, OBJECT_GRAPH_KEY);
    return err_set(err, ERR_NOT_FOUND, "Key %s not found in checkpoint", name);
}
