#include "common/ckpt/bundle.h"
#include "common/ckpt/bundle_proto.h"
#include "common/ckpt/ckpt_find.h"
#include "common/ckpt/table.h"
#include "common/ckpt/table_format.h"
#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "common/wire/crc32c.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MAX_INDEX_BYTES = 1 << 28,
    MAX_KEY_EXPANSION = 64, /* keys share prefixes: bounds all keys by the index's size */
    READ_BYTES = 1 << 18,
};

/* What TensorFlow 2 stores beside its tensors, whose keys are paths of objects. */
static const char OBJECT_GRAPH_KEY[] = "_CHECKPOINTABLE_OBJECT_GRAPH";

struct record {
    const uint8_t *key; /* a name, terminated; or a slice's */
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
    int fd; /* of the shard read last, -1 if none */
    uint32_t fd_shard;
    uint64_t fd_size;
};

/* ---- the index ---- */

static int ends_like_a_file_of_a_checkpoint(const char *s, size_t *ret_prefix_len)
{
    static const char *const SUFFIXES[] = {".index", ".meta", ".data-00000-of-00001"};
    size_t len = strlen(s);

    for (size_t i = 0; i < sizeof(SUFFIXES) / sizeof(SUFFIXES[0]); i++) {
        size_t n = strlen(SUFFIXES[i]);

        if (len > n && strcmp(s + len - n, SUFFIXES[i]) == 0) {
            *ret_prefix_len = len - n;
            return 1;
        }
    }
    return 0;
}

static int no_index(const char *prefix, struct err *err)
{
    size_t n;

    if (ends_like_a_file_of_a_checkpoint(prefix, &n))
        return err_set(err, ERR_NOT_FOUND,
                       "there is no %s.index; a checkpoint is named by its prefix: %.*s",
                       prefix, (int)n, prefix);
    if (ckpt_kind_of(prefix) == CKPT_V1)
        return err_set(err, ERR_UNSUPPORTED,
                       "%s: a V1 checkpoint, it seems (there is no index); only V2 can "
                       "be read",
                       prefix);
    return err_set(err, ERR_NOT_FOUND, "there is no checkpoint %s (no %s.index)", prefix,
                   prefix);
}

/* n bytes at an offset; fewer there are an error. */
static int read_at(int fd, void *dst, size_t n, uint64_t offset, struct err *err)
{
    unsigned char *to = dst;

    while (n > 0) {
        ssize_t got = pread(fd, to, n, (off_t)offset);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_errno(err, "read");
        if (got == 0)
            return err_set(err, ERR_FORMAT, "the file is cut short");
        to += got;
        offset += (uint64_t)got;
        n -= (size_t)got;
    }
    return 0;
}

/* -ENOENT is told apart for the caller. */
static int open_regular(const char *path, int *ret_fd, uint64_t *ret_size,
                        struct err *err)
{
    /* NONBLOCK: a fifo of that name must not hang us */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;

    if (fd < 0)
        return err_errno(err, "%s", path);
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        (void)close(fd);
        return err_set(err, ERR_FORMAT, "%s: not a regular file", path);
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
    int fd, rc = open_regular(path, &fd, &size, err);

    if (rc != 0)
        return rc;
    if (size > MAX_INDEX_BYTES) {
        (void)close(fd);
        return err_set(err, ERR_LIMIT, "%s: %llu bytes are too many", path,
                       (unsigned long long)size);
    }
    data = xmalloc(size + 1);
    rc = read_at(fd, data, size, 0, err);
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

static struct record *add_record(struct bundle_reader *r, const struct table_entry *e)
{
    /* slices have keys that begin with 0, which no name does */
    struct records *to = e->key[0] == 0 ? &r->slices : &r->tensors;
    struct record *record;

    if (to->n == to->cap) {
        to->cap = to->cap * 2 + 64;
        to->at = xreallocarray(to->at, to->cap, sizeof(*to->at));
    }
    record = &to->at[to->n++];
    *record = (struct record){.key_len = e->key_len};
    record->key = arena_alloc(&r->arena, e->key_len + 1);
    memcpy((void *)(uintptr_t)record->key, e->key, e->key_len);
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
    record = add_record(r, e);
    name = (const char *)record->key;
    if (strcmp(name, OBJECT_GRAPH_KEY) == 0)
        return err_set(
            err, ERR_UNSUPPORTED,
            "an object-based checkpoint of TensorFlow 2 (it has %s), which has "
            "no variable names",
            name);
    rc = bundle_parse_entry(cursor_of(e->value, e->value_len), &r->arena, &record->entry,
                            err);
    if (rc != 0) {
        (void)err_wrap(err, "%s", name[0] != '\0' ? name : "a slice");
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
    if (rc == -ENOENT) {
        rc = no_index(prefix, err);
    } else if (rc == 0) {
        rc = load_entries(r, index, len, err);
        if (rc != 0)
            (void)err_wrap(err, "%s", path);
    }
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
    if (r->fd >= 0)
        (void)close(r->fd);
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

static const struct bundle_entry *find(const struct records *records, const void *key,
                                       size_t key_len)
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
    return find(&r->tensors, name, strlen(name));
}

/* ---- the data ---- */

/* Opens the entry's shard and checks that the entry lies inside it. */
static int seek_entry(struct bundle_reader *r, const struct bundle_entry *e,
                      struct err *err)
{
    char *path;
    int rc;

    if (r->fd < 0 || r->fd_shard != e->shard) {
        if (r->fd >= 0)
            (void)close(r->fd);
        r->fd = -1;
        path = xasprintf("%s.data-%05u-of-%05u", r->prefix, e->shard, r->n_shards);
        rc = open_regular(path, &r->fd, &r->fd_size, err);
        free(path);
        if (rc != 0)
            return rc;
        r->fd_shard = e->shard;
    }
    if (e->size_bytes > r->fd_size || e->offset > r->fd_size - e->size_bytes)
        return err_set(err, ERR_FORMAT,
                       "bytes %llu to %llu lie outside the data file, which is cut short",
                       (unsigned long long)e->offset,
                       (unsigned long long)(e->offset + e->size_bytes));
    return 0;
}

static int check_crc(const struct bundle_entry *e, uint32_t crc, struct err *err)
{
    if (crc32c_mask(crc) == e->masked_crc)
        return 0;
    return err_set(err, ERR_CORRUPT, "checksum mismatch in the data file");
}

/* In pieces that stay in the cache between reading and summing up. */
static int read_dense(struct bundle_reader *r, const struct bundle_entry *e, void *dst,
                      struct err *err)
{
    unsigned char *to = dst;
    uint32_t crc = 0;

    for (uint64_t at = 0; at < e->size_bytes;) {
        uint64_t left = e->size_bytes - at;
        size_t n = left < READ_BYTES ? (size_t)left : READ_BYTES;
        int rc = read_at(r->fd, to + at, n, e->offset + at, err);

        if (rc != 0)
            return rc;
        crc = crc32c_extend(crc, to + at, n);
        at += n;
    }
    return check_crc(e, crc, err);
}

/* ---- strings ---- */

/* Walks the lengths: sets their checksum and their sum, leaves c behind them. */
static int read_lengths(struct cursor *c, size_t n, uint32_t *ret_crc, uint64_t *ret_sum,
                        struct err *err)
{
    uint32_t crc = 0;
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t len = cursor_varint64(c);

        if (c->failed || __builtin_add_overflow(sum, len, &sum))
            return err_set(err, ERR_FORMAT, "malformed lengths of strings");
        crc = bundle_crc_of_length(crc, len);
    }
    *ret_crc = crc;
    *ret_sum = sum;
    return 0;
}

static int parse_strings(const struct bundle_entry *e, const unsigned char *stored,
                         struct tensor *ret, struct err *err)
{
    struct cursor c = cursor_of(stored, e->size_bytes), lengths = c;
    size_t n = (size_t)shape_elements(&e->shape);
    struct tensor_string *s;
    uint32_t crc = 0;
    uint64_t sum = 0;
    int rc;

    if (n > e->size_bytes) /* a length is at least one byte */
        return err_set(err, ERR_FORMAT, "malformed lengths of strings");
    rc = read_lengths(&c, n, &crc, &sum, err);
    if (rc != 0)
        return rc;
    rc = check_crc(e, crc32c_extend(crc, c.p, cursor_left(&c)), err);
    if (rc == 0 && (crc32c_unmask(cursor_u32(&c)) != crc || c.failed))
        rc = err_set(err, ERR_CORRUPT, "checksum mismatch in the lengths of strings");
    if (rc == 0 && sum != cursor_left(&c))
        rc = err_set(err, ERR_FORMAT, "strings are not as long as their lengths say");
    if (rc == 0)
        rc = tensor_alloc(ret, DT_STRING, e->shape, err);
    if (rc != 0)
        return rc;
    s = ret->data;
    for (size_t i = 0; i < n; i++) {
        size_t len = (size_t)cursor_varint64(&lengths);

        if (len > 0)
            s[i].bytes = memcpy(xmalloc(len), cursor_bytes(&c, len), len);
        s[i].len_bytes = len;
    }
    return 0;
}

static int read_strings(struct bundle_reader *r, const struct bundle_entry *e,
                        struct tensor *ret, struct err *err)
{
    unsigned char *stored;
    int rc;

    if (e->n_slices > 0)
        return err_set(err, ERR_UNSUPPORTED, "partitioned strings");
    rc = seek_entry(r, e, err);
    if (rc != 0)
        return rc;
    stored = malloc(e->size_bytes + 1);
    if (stored == NULL)
        return err_set(err, ERR_NOMEM, "no memory for its strings");
    rc = read_at(r->fd, stored, e->size_bytes, e->offset, err);
    if (rc == 0)
        rc = parse_strings(e, stored, ret, err);
    free(stored);
    return rc;
}

/* ---- partitioned tensors ---- */

/* The slice's own entry, checked against the whole. */
static int find_slice(struct bundle_reader *r, const struct bundle_entry *e, size_t i,
                      const struct bundle_entry **ret, struct err *err)
{
    const struct bundle_entry *part;
    struct wbuf key = {0};
    struct shape shape;

    bundle_put_slice_key(&key, e->name, e->shape.rank, &e->slices[i]);
    part = find(&r->slices, key.data, key.len);
    wbuf_done(&key);
    if (part == NULL)
        return err_set(err, ERR_FORMAT, "slice %zu is missing", i);
    if (bundle_slice_shape(&e->shape, &e->slices[i], &shape) != 0 ||
        !shape_equal(&shape, &part->shape) || part->dtype != e->dtype ||
        part->n_slices > 0)
        return err_set(err, ERR_FORMAT, "slice %zu is not what the whole says", i);
    *ret = part;
    return 0;
}

static int slices_overlap(const struct shape *whole, const struct bundle_slice *a,
                          const struct bundle_slice *b)
{
    for (int i = 0; i < whole->rank; i++) {
        int64_t a_len = a->length[i] < 0 ? whole->dim[i] : a->length[i];
        int64_t b_len = b->length[i] < 0 ? whole->dim[i] : b->length[i];

        if (a->start[i] + a_len <= b->start[i] || b->start[i] + b_len <= a->start[i])
            return 0;
    }
    return 1;
}

/* Slices that do not overlap and have as many elements as the whole cover it. Each is
 * known to lie in a file, so the whole asks for no more memory than files justify. */
static int check_cover(struct bundle_reader *r, const struct bundle_entry *e,
                       struct err *err)
{
    int64_t left = shape_elements(&e->shape);

    for (size_t i = 0; i < e->n_slices; i++) {
        const struct bundle_entry *part;
        int rc = find_slice(r, e, i, &part, err);

        if (rc == 0)
            rc = seek_entry(r, part, err);
        if (rc != 0)
            return rc;
        left -= shape_elements(&part->shape);
        for (size_t k = 0; k < i; k++) {
            if (slices_overlap(&e->shape, &e->slices[i], &e->slices[k]))
                return err_set(err, ERR_FORMAT, "slices %zu and %zu overlap", k, i);
        }
    }
    return left == 0 ? 0 : err_set(err, ERR_FORMAT, "its slices do not cover it");
}

/* Copies a part, row by row along its last dimension, to its place in the whole. */
static void place_slice(const struct bundle_slice *slice, const struct tensor *part,
                        const struct tensor *whole)
{
    const unsigned char *from = part->data;
    size_t size = dtype_size(part->dtype);
    int rank = part->shape.rank;
    int64_t row = rank > 0 ? part->shape.dim[rank - 1] : 1;
    int64_t n_rows = row > 0 ? tensor_elements(part) / row : 0;

    for (int64_t i = 0; i < n_rows; i++) {
        int64_t rest = i, at = rank > 0 ? slice->start[rank - 1] : 0;
        int64_t stride = rank > 0 ? whole->shape.dim[rank - 1] : 1;

        for (int d = rank - 2; d >= 0; d--) {
            at += (slice->start[d] + rest % part->shape.dim[d]) * stride;
            rest /= part->shape.dim[d];
            stride *= whole->shape.dim[d];
        }
        memcpy((unsigned char *)whole->data + (size_t)at * size, from,
               (size_t)row * size);
        from += (size_t)row * size;
    }
}

/* That the files hold it, before memory is asked for. */
static int check_stored(struct bundle_reader *r, const struct bundle_entry *e,
                        struct err *err)
{
    return e->n_slices > 0 ? check_cover(r, e, err) : seek_entry(r, e, err);
}

static int read_slices(struct bundle_reader *r, const struct bundle_entry *e,
                       const struct tensor *dst, struct err *err);

static int read_stored(struct bundle_reader *r, const struct bundle_entry *e,
                       const struct tensor *dst, struct err *err)
{
    int rc = check_stored(r, e, err);

    if (rc != 0)
        return rc;
    return e->n_slices > 0 ? read_slices(r, e, dst, err)
                           : read_dense(r, e, dst->data, err);
}

static int read_new(struct bundle_reader *r, const struct bundle_entry *e,
                    struct tensor *ret, struct err *err)
{
    struct tensor t;
    int rc = check_stored(r, e, err);

    if (rc == 0)
        rc = tensor_alloc(&t, e->dtype, e->shape, err);
    if (rc != 0)
        return rc;
    rc = read_stored(r, e, &t, err);
    if (rc == 0)
        *ret = t;
    else
        tensor_free(&t);
    return rc;
}

static int read_slices(struct bundle_reader *r, const struct bundle_entry *e,
                       const struct tensor *dst, struct err *err)
{
    for (size_t i = 0; i < e->n_slices; i++) {
        const struct bundle_entry *entry;
        struct tensor part = TENSOR_NONE;
        int rc = find_slice(r, e, i, &entry, err);

        if (rc == 0)
            rc = read_new(r, entry, &part, err);
        if (rc != 0)
            return rc;
        place_slice(&e->slices[i], &part, dst);
        tensor_free(&part);
    }
    return 0;
}

/* ---- either kind ---- */

static int in_context(const struct bundle_reader *r, const struct bundle_entry *e, int rc,
                      struct err *err)
{
    if (rc != 0)
        (void)err_wrap(err, "%s: %s", r->prefix, e->name);
    return rc;
}

int bundle_reader_read(struct bundle_reader *r, const struct bundle_entry *e,
                       struct tensor *ret, struct err *err)
{
    int rc =
        e->dtype == DT_STRING ? read_strings(r, e, ret, err) : read_new(r, e, ret, err);

    return in_context(r, e, rc, err);
}

int bundle_reader_read_into(struct bundle_reader *r, const struct bundle_entry *e,
                            const struct tensor *dst, struct err *err)
{
    if (e->dtype != dst->dtype || e->dtype == DT_STRING)
        return err_set(err, ERR_DTYPE, "%s: %s is %s, not %s", r->prefix, e->name,
                       dtype_name(e->dtype), dtype_name(dst->dtype));
    if (!shape_equal(&e->shape, &dst->shape))
        return err_set(err, ERR_SHAPE, "%s: %s has shape %s, not %s", r->prefix, e->name,
                       shape_text(&e->shape), shape_text(&dst->shape));
    return in_context(r, e, read_stored(r, e, dst, err), err);
}
