#include "common/ckpt/bundle_proto.h"

#include "common/ckpt/protowire.h"
#include "common/mem/xmalloc.h"
#include "common/wire/crc32c.h"

#include <string.h>

/* version of the format that is written, and the newest that can be read */
enum { VERSION = 1 };

/* Field numbers of the messages. */
enum {
    HEADER_NUM_SHARDS = 1,
    HEADER_ENDIANNESS = 2,
    HEADER_VERSION = 3,
    VERSION_PRODUCER = 1,
    VERSION_MIN_CONSUMER = 2,
    VERSION_BAD_CONSUMERS = 3,
    ENTRY_DTYPE = 1,
    ENTRY_SHAPE = 2,
    ENTRY_SHARD = 3,
    ENTRY_OFFSET = 4,
    ENTRY_SIZE = 5,
    ENTRY_CRC = 6,
    ENTRY_SLICES = 7,
    SHAPE_DIM = 2,
    SHAPE_UNKNOWN_RANK = 3,
    DIM_SIZE = 1,
    SLICE_EXTENT = 1,
    EXTENT_START = 1,
    EXTENT_LENGTH = 2,
};

static int malformed(struct err *err, const char *what)
{
    return err_set(err, ERR_FORMAT, "malformed %s", what);
}

/* ---- header ---- */

void bundle_put_header(struct wbuf *b, uint32_t n_shards)
{
    size_t version;

    pw_put_varint(b, HEADER_NUM_SHARDS, n_shards);
    version = pw_begin(b, HEADER_VERSION);
    pw_put_varint(b, VERSION_PRODUCER, VERSION);
    pw_end(b, version);
}

/* Whether the list, which may be packed, contains VERSION. */
static int holds_our_version(const struct pw_field *bad_consumers)
{
    struct cursor c = bad_consumers->bytes;

    if (bad_consumers->type == PW_VARINT)
        return bad_consumers->value == VERSION;
    while (cursor_left(&c) > 0) {
        if (cursor_varint64(&c) == VERSION)
            return 1;
    }
    return 0;
}

static int check_version(struct cursor c, struct err *err)
{
    struct pw_field f;

    while (pw_next(&c, &f)) {
        if ((f.number == VERSION_MIN_CONSUMER && f.value > VERSION) ||
            (f.number == VERSION_BAD_CONSUMERS && holds_our_version(&f)))
            return err_set(err, ERR_UNSUPPORTED,
                           "checkpoint needs a newer reader of its format");
    }
    return c.failed ? malformed(err, "version in the header") : 0;
}

int bundle_parse_header(struct cursor c, struct err *err)
{
    struct pw_field f;
    uint64_t n_shards = 0;
    int rc = 0;

    while (rc == 0 && pw_next(&c, &f)) {
        if (f.number == HEADER_NUM_SHARDS)
            n_shards = f.value;
        else if (f.number == HEADER_ENDIANNESS && f.value != 0)
            rc = err_set(err, ERR_UNSUPPORTED, "big-endian checkpoint");
        else if (f.number == HEADER_VERSION)
            rc = check_version(f.bytes, err);
    }
    if (rc != 0)
        return rc;
    if (c.failed || n_shards < 1 || n_shards > BUNDLE_MAX_SHARDS)
        return malformed(err, "header");
    return (int)n_shards;
}

/* ---- entries: writing ---- */

void bundle_put_shape(struct wbuf *b, uint32_t field, const struct shape *s)
{
    size_t shape = pw_begin(b, field);

    for (int i = 0; i < s->rank; i++) {
        size_t dim = pw_begin(b, SHAPE_DIM);

        pw_put_varint_nonzero(b, DIM_SIZE, (uint64_t)s->dim[i]);
        pw_end(b, dim);
    }
    pw_end(b, shape);
}

void bundle_put_slice(struct wbuf *b, uint32_t field, int rank,
                      const struct bundle_slice *s)
{
    size_t slice = pw_begin(b, field);

    for (int i = 0; i < rank; i++) {
        size_t extent = pw_begin(b, SLICE_EXTENT);

        pw_put_varint_nonzero(b, EXTENT_START, (uint64_t)s->start[i]);
        if (s->length[i] >= 0)
            pw_put_varint(b, EXTENT_LENGTH, (uint64_t)s->length[i]);
        pw_end(b, extent);
    }
    pw_end(b, slice);
}

void bundle_put_entry(struct wbuf *b, const struct bundle_entry *e)
{
    pw_put_varint(b, ENTRY_DTYPE, (uint64_t)e->dtype);
    bundle_put_shape(b, ENTRY_SHAPE, &e->shape);
    pw_put_varint_nonzero(b, ENTRY_SHARD, e->shard);
    pw_put_varint_nonzero(b, ENTRY_OFFSET, e->offset);
    pw_put_varint_nonzero(b, ENTRY_SIZE, e->size_bytes);
    if (e->masked_crc != 0)
        pw_put_fixed32(b, ENTRY_CRC, e->masked_crc);
    for (size_t i = 0; i < e->n_slices; i++)
        bundle_put_slice(b, ENTRY_SLICES, e->shape.rank, &e->slices[i]);
}

/* ---- entries: reading ---- */

static int parse_dim(struct cursor c, int64_t *ret, struct err *err)
{
    struct pw_field f;
    uint64_t size = 0;

    while (pw_next(&c, &f)) {
        if (f.number == DIM_SIZE)
            size = f.value;
    }
    if (c.failed || size > INT64_MAX)
        return malformed(err, "dimension");
    *ret = (int64_t)size;
    return 0;
}

int bundle_parse_shape(struct cursor c, struct shape *ret, struct err *err)
{
    struct pw_field f;
    int rc;

    *ret = SHAPE_SCALAR;
    while (pw_next(&c, &f)) {
        if (f.number == SHAPE_UNKNOWN_RANK && f.value != 0)
            return malformed(err, "shape: nothing is known of it");
        if (f.number != SHAPE_DIM)
            continue;
        if (ret->rank == SHAPE_MAX_RANK)
            return err_set(err, ERR_UNSUPPORTED, "more than %d dimensions",
                           SHAPE_MAX_RANK);
        rc = parse_dim(f.bytes, &ret->dim[ret->rank++], err);
        if (rc != 0)
            return rc;
    }
    return c.failed ? malformed(err, "shape") : 0;
}

static int parse_extent(struct cursor c, int64_t *ret_start, int64_t *ret_length)
{
    struct pw_field f;

    *ret_start = 0;
    *ret_length = -1;
    while (pw_next(&c, &f)) {
        if (f.value > INT64_MAX)
            return ERR_FORMAT;
        if (f.number == EXTENT_START)
            *ret_start = (int64_t)f.value;
        else if (f.number == EXTENT_LENGTH)
            *ret_length = (int64_t)f.value;
    }
    return c.failed ? ERR_FORMAT : 0;
}

int bundle_parse_slice(struct cursor c, const struct shape *whole,
                       struct bundle_slice *ret, struct err *err)
{
    struct pw_field f;
    struct shape part;
    int rank = 0;

    while (pw_next(&c, &f)) {
        if (f.number != SLICE_EXTENT)
            continue;
        if (rank == whole->rank ||
            parse_extent(f.bytes, &ret->start[rank], &ret->length[rank]) != 0)
            return malformed(err, "slice");
        rank++;
    }
    if (c.failed || rank != whole->rank || bundle_slice_shape(whole, ret, &part) != 0)
        return malformed(err, "slice");
    return 0;
}

/* Reads the slices in a second pass: each is checked against the shape, which may come
 * later. */
static int parse_slices(struct cursor c, struct arena *a, struct bundle_entry *e,
                        struct err *err)
{
    struct bundle_slice *slices;
    struct pw_field f;
    size_t n = 0;

    if (e->n_slices > BUNDLE_MAX_SLICES)
        return err_set(err, ERR_LIMIT, "more than %d slices", BUNDLE_MAX_SLICES);
    slices = ARENA_ARRAY(a, struct bundle_slice, e->n_slices);
    while (pw_next(&c, &f)) {
        int rc;

        if (f.number != ENTRY_SLICES)
            continue;
        rc = bundle_parse_slice(f.bytes, &e->shape, &slices[n++], err);
        if (rc != 0)
            return rc;
    }
    e->slices = slices;
    return 0;
}

size_t bundle_element_bytes(enum dtype dtype)
{
    return dtype == DT_VARIANT ? 0
                               : dtype_size(dtype); /* a variant is a number of its run */
}

static int check_sizes(const struct bundle_entry *e, struct err *err)
{
    int64_t n = shape_elements(&e->shape);
    size_t bytes;

    if (n < 0)
        return malformed(err, "shape: too many elements");
    if (e->n_slices > 0 || bundle_element_bytes(e->dtype) == 0)
        return 0;
    if (!mem_mul((size_t)n, bundle_element_bytes(e->dtype), &bytes) ||
        bytes != e->size_bytes)
        return malformed(err, "entry: size and shape do not fit");
    return 0;
}

int bundle_parse_entry(struct cursor c, struct arena *a, struct bundle_entry *ret,
                       struct err *err)
{
    struct bundle_entry e = {0};
    struct cursor again = c;
    struct pw_field f;
    uint64_t dtype = 0, shard = 0;
    int rc = 0;

    while (rc == 0 && pw_next(&c, &f)) {
        switch (f.number) {
        case ENTRY_DTYPE:
            dtype = f.value;
            break;
        case ENTRY_SHAPE:
            rc = bundle_parse_shape(f.bytes, &e.shape, err);
            break;
        case ENTRY_SHARD:
            shard = f.value;
            break;
        case ENTRY_OFFSET:
            e.offset = f.value;
            break;
        case ENTRY_SIZE:
            e.size_bytes = f.value;
            break;
        case ENTRY_CRC:
            e.masked_crc = (uint32_t)f.value;
            break;
        case ENTRY_SLICES:
            e.n_slices++;
            break;
        default:
            break;
        }
    }
    if (rc != 0)
        return rc;
    if (c.failed || shard >= BUNDLE_MAX_SHARDS || e.offset > INT64_MAX ||
        e.size_bytes > INT64_MAX)
        return malformed(err, "entry");
    if (dtype > INT32_MAX || dtype == DT_INVALID)
        return err_set(err, ERR_UNSUPPORTED, "data type number %llu",
                       (unsigned long long)dtype);
    e.dtype = (enum dtype)dtype;
    e.shard = (uint32_t)shard;
    rc = check_sizes(&e, err);
    if (rc == 0 && e.n_slices > 0)
        rc = parse_slices(again, a, &e, err);
    if (rc == 0)
        *ret = e;
    return rc;
}

/* ---- slices ---- */

int bundle_slice_shape(const struct shape *whole, const struct bundle_slice *slice,
                       struct shape *ret)
{
    struct shape part = *whole;

    for (int i = 0; i < whole->rank; i++) {
        if (slice->length[i] < 0 && slice->start[i] == 0)
            continue;
        if (slice->start[i] < 0 || slice->length[i] < 0 ||
            slice->length[i] > whole->dim[i] ||
            slice->start[i] > whole->dim[i] - slice->length[i])
            return ERR_SHAPE;
        part.dim[i] = slice->length[i];
    }
    *ret = part;
    return 0;
}

/* Reads a number at *p and advances *p past it; -1: there is none, or it is too large. */
static int64_t scan_number(const char **p)
{
    int64_t v = 0;

    if (**p < '0' || **p > '9')
        return -1;
    for (; **p >= '0' && **p <= '9'; (*p)++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, **p - '0', &v))
            return -1;
    return v;
}

static int scan_extent(const char **p, int64_t *ret_start, int64_t *ret_length)
{
    *ret_start = 0;
    *ret_length = -1;
    if (**p == '-') {
        (*p)++;
        return 0;
    }
    *ret_start = scan_number(p);
    if (*ret_start < 0 || *(*p)++ != ',')
        return -1;
    *ret_length = scan_number(p);
    return *ret_length < 0 ? -1 : 0;
}

int bundle_slice_from_text(const char *text, struct shape *ret_whole,
                           struct bundle_slice *ret, struct err *err)
{
    const char *p = text;
    struct shape part;
    int rank = 0, ok = 1;

    *ret_whole = SHAPE_SCALAR;
    *ret = (struct bundle_slice){0};
    /* each size is followed by a space; the slice, which comes last, is not */
    while (ok && ret_whole->rank < SHAPE_MAX_RANK) {
        const char *next = p;
        const int64_t size = scan_number(&next);

        if (size < 0 || *next != ' ')
            break;
        ret_whole->dim[ret_whole->rank++] = size;
        p = next + 1;
    }
    for (; ok && rank < ret_whole->rank; rank++)
        ok = scan_extent(&p, &ret->start[rank], &ret->length[rank]) == 0 &&
             (rank + 1 == ret_whole->rank || *p++ == ':');
    if (!ok || *p != '\0' || shape_elements(ret_whole) < 0 ||
        bundle_slice_shape(ret_whole, ret, &part) != 0)
        return err_set(err, ERR_FORMAT, "'%.80s' is no part of a tensor", text);
    return 0;
}

/* OrderedCode (tensorflow/core/lib/strings/ordered_code): bytes whose order is that of
 * the encoded values. A number is encoded as its number of bytes, then the bytes, most
 * significant first. */
static void put_ordered_number(struct wbuf *b, uint64_t v)
{
    uint8_t n = 0;

    while (n < 8 && v >> (8 * n) != 0)
        n++;
    wbuf_u8(b, n);
    while (n-- > 0)
        wbuf_u8(b, (uint8_t)(v >> (8 * n)));
}

/* Appends a signed number in n bytes: a header of n bits, which are the inverse of the
 * sign, then the number in two's complement, in 7n - 1 bits and its sign. */
static void put_ordered_signed(struct wbuf *b, int64_t v)
{
    uint64_t magnitude = (uint64_t)(v < 0 ? ~v : v);
    uint8_t bytes[10];
    unsigned n = 1;

    while (n < 10 && magnitude >> (7 * n - 1) != 0)
        n++;
    for (unsigned i = 0; i < n; i++) {
        unsigned shift = 8 * (n - 1 - i);

        bytes[i] = v < 0 ? 0xff : 0;
        if (shift < 64)
            bytes[i] = (uint8_t)((uint64_t)v >> shift);
    }
    for (unsigned i = 0; i < n; i++)
        bytes[i / 8] ^= (uint8_t)(0x80 >> i % 8);
    wbuf_bytes(b, bytes, n);
}

void bundle_put_slice_key(struct wbuf *b, const char *name, int rank,
                          const struct bundle_slice *slice)
{
    put_ordered_number(b, 0);
    for (const char *s = name; *s != '\0'; s++) {
        wbuf_u8(b, (uint8_t)*s);
        if ((uint8_t)*s == 0xff)
            wbuf_u8(b, 0);
    }
    wbuf_bytes(b, "\0\1", 2);
    put_ordered_number(b, (uint64_t)rank);
    for (int i = 0; i < rank; i++) {
        put_ordered_signed(b, slice->start[i]);
        put_ordered_signed(b, slice->length[i]);
    }
}

/* ---- strings ---- */

uint32_t bundle_crc_of_length(uint32_t crc, uint64_t len)
{
    uint8_t bytes[8];
    size_t n = len <= UINT32_MAX ? 4 : 8;

    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)(len >> (8 * i));
    return crc32c_extend(crc, bytes, n);
}
