/* Tensors of a bundle: reads them from the shards, verifies them, and assembles
 * slices. */
#include "common/ckpt/bundle_proto.h"
#include "common/ckpt/bundle_reader.h"
#include "common/mem/xmalloc.h"
#include "common/wire/crc32c.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { READ_BYTES = 1 << 18 };

/* Opens the entry's shard and checks that the entry lies inside it. */
static int seek_entry(struct bundle_reader *r, const struct bundle_entry *e,
                      struct err *err)
{
    char *path;
    int rc;

    if (r->in_memory) {
        r->fd_size = r->memory.len;
    } else if (r->fd < 0 || r->fd_shard != e->shard) {
        if (r->fd >= 0)
            (void)close(r->fd);
        r->fd = -1;
        path = xasprintf("%s.data-%05u-of-%05u", r->prefix, e->shard, r->n_shards);
        rc = bundle_open_regular(path, &r->fd, &r->fd_size, err);
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

static int read_bytes(struct bundle_reader *r, void *dst, size_t n, uint64_t offset,
                      struct err *err)
{
    if (!r->in_memory)
        return bundle_read_at(r->fd, dst, n, offset, err);
    if (n > 0)
        memcpy(dst, r->memory.data + offset, n);
    return 0;
}

static int check_crc(const struct bundle_entry *e, uint32_t crc, struct err *err)
{
    if (crc32c_mask(crc) == e->masked_crc)
        return 0;
    return err_set(err, ERR_CORRUPT, "checksum mismatch in the data file");
}

/* Reads in pieces small enough to stay in the cache until the checksum is computed. */
static int read_dense(struct bundle_reader *r, const struct bundle_entry *e, void *dst,
                      struct err *err)
{
    unsigned char *to = dst;
    uint32_t crc = 0;

    for (uint64_t at = 0; at < e->size_bytes;) {
        uint64_t left = e->size_bytes - at;
        size_t n = left < READ_BYTES ? (size_t)left : READ_BYTES;
        int rc = read_bytes(r, to + at, n, e->offset + at, err);

        if (rc != 0)
            return rc;
        crc = crc32c_extend(crc, to + at, n);
        at += n;
    }
    return check_crc(e, crc, err);
}

/* ---- strings ---- */

/* Reads the lengths of n strings and advances c past them. Returns their checksum and
 * their sum. */
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

    if (n > e->size_bytes) /* each length takes at least one byte */
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
    rc = read_bytes(r, stored, e->size_bytes, e->offset, err);
    if (rc == 0)
        rc = parse_strings(e, stored, ret, err);
    free(stored);
    return rc;
}

/* ---- partitioned tensors ---- */

/* Finds the slice's own entry and checks it against the whole tensor. */
static int find_slice(struct bundle_reader *r, const struct bundle_entry *e, size_t i,
                      const struct bundle_entry **ret, struct err *err)
{
    const struct bundle_entry *part;
    struct wbuf key = {0};
    struct shape shape;

    bundle_put_slice_key(&key, e->name, e->shape.rank, &e->slices[i]);
    part = bundle_find_record(&r->slices, key.data, key.len);
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

/* Slices that do not overlap and together have as many elements as the whole tensor cover
 * it. Each slice was found in a file, so the whole needs no more memory than the files
 * justify. */
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

/* Copies a slice to its place in the whole tensor, or from it, row by row along the last
 * dimension. */
static void copy_slice(const struct bundle_slice *slice, const struct tensor *part,
                       const struct tensor *whole, int to_whole)
{
    unsigned char *own = part->data;
    size_t size = dtype_size(part->dtype);
    int rank = part->shape.rank;
    int64_t row = rank > 0 ? part->shape.dim[rank - 1] : 1;
    int64_t n_rows = row > 0 ? tensor_elements(part) / row : 0;

    for (int64_t i = 0; i < n_rows; i++) {
        int64_t rest = i, at = rank > 0 ? slice->start[rank - 1] : 0;
        int64_t stride = rank > 0 ? whole->shape.dim[rank - 1] : 1;
        unsigned char *place;

        for (int d = rank - 2; d >= 0; d--) {
            at += (slice->start[d] + rest % part->shape.dim[d]) * stride;
            rest /= part->shape.dim[d];
            stride *= whole->shape.dim[d];
        }
        place = (unsigned char *)whole->data + (size_t)at * size;
        memcpy(to_whole ? place : own, to_whole ? own : place, (size_t)row * size);
        own += (size_t)row * size;
    }
}

/* Checks that the files contain the tensor before memory is allocated for it. */
static int check_stored(struct bundle_reader *r, const struct bundle_entry *e,
                        struct err *err)
{
    char type[DTYPE_LABEL_BYTES];

    if (e->dtype != DT_STRING && bundle_element_bytes(e->dtype) == 0)
        return err_set(err, ERR_UNSUPPORTED, "a stored %s", dtype_label(e->dtype, type));
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
        copy_slice(&e->slices[i], &part, dst, 1);
        tensor_free(&part);
    }
    return 0;
}

/* ---- either kind ---- */

static int in_context(const struct bundle_reader *r, const struct bundle_entry *e, int rc,
                      struct err *err)
{
    if (rc == 0)
        return 0;
    (void)err_wrap(err, "%s: %s", r->prefix, e->name);
    (void)err_note(err, ERR_AT(.file = r->prefix, .tensor = e->name));
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

int bundle_reader_read_slice(struct bundle_reader *r, const struct bundle_entry *e,
                             size_t i, struct tensor *ret, struct err *err)
{
    const struct bundle_entry *part;
    int rc = i < e->n_slices ? find_slice(r, e, i, &part, err)
                             : err_set(err, ERR_ARG, "there is no slice %zu", i);

    if (rc == 0)
        rc = part->dtype == DT_STRING ? read_strings(r, part, ret, err)
                                      : read_new(r, part, ret, err);
    return in_context(r, e, rc, err);
}

int bundle_reader_read_part(struct bundle_reader *r, const struct bundle_entry *e,
                            const struct bundle_slice *slice, struct tensor *ret,
                            struct err *err)
{
    struct tensor whole;
    struct shape shape;
    int rc;

    if (e->dtype == DT_STRING || bundle_slice_shape(&e->shape, slice, &shape) != 0)
        return err_set(err, ERR_SHAPE, "%s: %s has no such part", r->prefix, e->name);
    rc = bundle_reader_read(r, e, &whole, err);
    if (rc != 0)
        return rc;
    rc = tensor_alloc(ret, e->dtype, shape, err);
    if (rc == 0)
        copy_slice(slice, ret, &whole, 0);
    tensor_free(&whole);
    return rc;
}
