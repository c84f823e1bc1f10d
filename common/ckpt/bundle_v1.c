/* Reads V1 checkpoints (TensorFlow before 0.12, or write_version V1): one table, or several
 * as shards, with the tensors in it (v1_format.h). All values are read at once: memory then
 * holds what the data file of a bundle would, so that a reader handles both alike.
 */
#include "common/ckpt/bundle_proto.h"
#include "common/ckpt/bundle_reader.h"
#include "common/ckpt/ckpt_find.h"
#include "common/ckpt/protowire.h"
#include "common/ckpt/table.h"
#include "common/ckpt/table_format.h"
#include "common/ckpt/v1_format.h"
#include "common/mem/xmalloc.h"
#include "common/wire/crc32c.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* limits all shards together, both on the disk and decoded */
enum { MAX_BYTES = 1 << 30 };

/* ---- files ---- */

struct load {
    struct bundle_reader *r;
    int with_data; /* this is the second pass, which reads values */
    size_t bytes;  /* size of the files read so far */
    struct err *err;
};

#define load_fail(l, code, ...) err_set((l)->err, (code), __VA_ARGS__)

/* ---- the first entry: the list of tensors and slices ---- */

static const char *text_of(struct bundle_reader *r, struct cursor c)
{
    return arena_strndup(&r->arena, (const char *)c.p, cursor_left(&c));
}

static int add_slices(struct load *l, struct cursor c, struct bundle_entry *e)
{
    struct bundle_slice *slices =
        ARENA_ARRAY(&l->r->arena, struct bundle_slice, e->n_slices);
    struct pw_field f;
    size_t n = 0;

    while (pw_next(&c, &f)) {
        int rc;

        if (f.number != TENSOR_SLICE || f.type != PW_LEN)
            continue;
        rc = bundle_parse_slice(f.bytes, &e->shape, &slices[n++], l->err);
        if (rc != 0)
            return rc;
    }
    e->slices = slices;
    return 0;
}

static int add_tensor(struct load *l, struct cursor c)
{
    struct bundle_entry e = {.dtype = DT_INVALID};
    const struct cursor again = c;
    struct record *record;
    struct pw_field f;
    int rc = 0;

    while (rc == 0 && pw_next(&c, &f)) {
        if (f.number == TENSOR_NAME && f.type == PW_LEN)
            e.name = text_of(l->r, f.bytes);
        else if (f.number == TENSOR_SHAPE && f.type == PW_LEN)
            rc = bundle_parse_shape(f.bytes, &e.shape, l->err);
        else if (f.number == TENSOR_DTYPE && f.type == PW_VARINT && f.value < 1000)
            e.dtype = (enum dtype)f.value;
        else if (f.number == TENSOR_SLICE && f.type == PW_LEN)
            e.n_slices++;
    }
    if (rc != 0)
        return rc;
    if (c.failed || e.name == NULL || e.name[0] == '\0' || !dtype_valid(e.dtype) ||
        e.n_slices < 1 || e.n_slices > BUNDLE_MAX_SLICES || shape_elements(&e.shape) < 0)
        return load_fail(l, ERR_FORMAT, "malformed list of tensors");
    rc = add_slices(l, again, &e);
    if (rc != 0)
        return rc;
    record = bundle_add_record(&l->r->tensors, &l->r->arena, e.name, strlen(e.name));
    e.name = (const char *)record->key;
    record->entry = e;
    return 0;
}

static int add_meta(struct load *l, struct cursor c)
{
    struct pw_field f, t;
    int rc = 0;

    while (rc == 0 && pw_next(&c, &f))
        while (f.number == SLICES_META && f.type == PW_LEN && rc == 0 &&
               pw_next(&f.bytes, &t))
            if (t.number == META_TENSOR && t.type == PW_LEN)
                rc = add_tensor(l, t.bytes);
    if (rc == 0 && (c.failed || l->r->tensors.n == 0))
        rc = load_fail(l, ERR_FORMAT, "no list of tensors");
    return rc;
}

static int compare_records(const void *a, const void *b)
{
    const struct record *x = a, *y = b;

    return table_compare(x->key, x->key_len, y->key, y->key_len);
}

/* Sorts the tensors, and joins the slices that several shards list for one tensor. */
static int merge_tensors(struct load *l)
{
    struct records *t = &l->r->tensors;
    size_t n = 0;

    qsort(t->at, t->n, sizeof(*t->at), compare_records);
    for (size_t i = 0; i < t->n; i++) {
        struct bundle_entry *last = n > 0 ? &t->at[n - 1].entry : NULL,
                            *e = &t->at[i].entry;
        struct bundle_slice *both;

        if (last == NULL || compare_records(&t->at[n - 1], &t->at[i]) != 0) {
            t->at[n++] = t->at[i];
            continue;
        }
        if (last->dtype != e->dtype || !shape_equal(&last->shape, &e->shape) ||
            last->n_slices + e->n_slices > BUNDLE_MAX_SLICES)
            return load_fail(l, ERR_FORMAT, "%s: its shards contradict", e->name);
        both =
            ARENA_ARRAY(&l->r->arena, struct bundle_slice, last->n_slices + e->n_slices);
        memcpy(both, last->slices, last->n_slices * sizeof(*both));
        memcpy(both + last->n_slices, e->slices, e->n_slices * sizeof(*both));
        last->slices = both;
        last->n_slices += e->n_slices;
    }
    t->n = n;
    return 0;
}

/* ---- the other entries: slices ---- */

struct v1_field v1_field_of(enum dtype dtype)
{
    switch (dtype) {
    case DT_FLOAT:
        return (struct v1_field){5, 1, 4};
    case DT_DOUBLE:
        return (struct v1_field){6, 1, 8};
    case DT_INT32:
    case DT_INT16:
    case DT_INT8:
    case DT_UINT8:
    case DT_UINT16:
        return (struct v1_field){7, 1, 0};
    case DT_STRING:
        return (struct v1_field){8, 1, 0};
    case DT_COMPLEX64:
        return (struct v1_field){9, 2, 4};
    case DT_INT64:
        return (struct v1_field){10, 1, 0};
    case DT_BOOL:
        return (struct v1_field){11, 1, 0};
    case DT_COMPLEX128:
        return (struct v1_field){12, 2, 8};
    case DT_HALF:
    case DT_BFLOAT16:
        return (struct v1_field){13, 1, 0};
    case DT_UINT32:
        return (struct v1_field){16, 1, 0};
    case DT_UINT64:
        return (struct v1_field){17, 1, 0};
    default:
        return (struct v1_field){0};
    }
}

/* Appends the elements of one field, which may be packed. Returns their number; -1:
 * malformed, or more than `most`. */
static int64_t put_values(struct wbuf *b, enum dtype dtype, struct pw_field *f,
                          int64_t most)
{
    const struct v1_field field = v1_field_of(dtype);
    const size_t size = dtype_size(dtype) / field.n_parts;
    int64_t n = 0;

    if (f->type != PW_LEN) {
        wbuf_bytes(b, &f->value, size);
        return most > 0 ? 1 : -1;
    }
    for (; cursor_left(&f->bytes) > 0 && !f->bytes.failed && n <= most; n++) {
        const uint64_t v = field.fixed == 0   ? cursor_varint64(&f->bytes)
                           : field.fixed == 4 ? cursor_u32(&f->bytes)
                                              : cursor_u64(&f->bytes);

        wbuf_bytes(b, &v, size);
    }
    return f->bytes.failed || n > most ? -1 : n;
}

/* Appends strings in the format of a bundle's data file. Returns their number, -1:
 * malformed. */
static int64_t put_strings(struct wbuf *b, struct cursor values, uint32_t *ret_crc)
{
    struct cursor c = values;
    struct pw_field f;
    uint32_t crc = 0;
    size_t begun;
    int64_t n = 0;

    while (pw_next(&c, &f)) {
        if (f.number != v1_field_of(DT_STRING).number || f.type != PW_LEN)
            continue;
        wbuf_varint(b, cursor_left(&f.bytes));
        crc = bundle_crc_of_length(crc, cursor_left(&f.bytes));
        n++;
    }
    begun = b->len;
    wbuf_u32(b, crc32c_mask(crc));
    while (pw_next(&values, &f))
        if (f.number == v1_field_of(DT_STRING).number && f.type == PW_LEN)
            wbuf_bytes(b, f.bytes.p, cursor_left(&f.bytes));
    *ret_crc = crc32c_mask(crc32c_extend(crc, b->data + begun, b->len - begun));
    return values.failed ? -1 : n;
}

/* Appends numbers. Returns how many; -1: malformed, or more than `most`. */
static int64_t put_numbers(struct wbuf *b, enum dtype dtype, struct cursor values,
                           int64_t most, uint32_t *ret_crc)
{
    const struct v1_field field = v1_field_of(dtype);
    const int64_t parts = field.n_parts;
    const size_t begun = b->len;
    struct pw_field f;
    int64_t n = 0, more = 0;

    while (more >= 0 && pw_next(&values, &f)) {
        more = f.number == field.number ? put_values(b, dtype, &f, most * parts - n) : 0;
        n += more;
    }
    wbuf_reserve(b, 1);
    *ret_crc = crc32c_mask(crc32c(b->data + begun, b->len - begun));
    return more < 0 || values.failed || n % parts != 0 ? -1 : n / parts;
}

/* Appends the slice's bytes to the reader's memory. */
static int keep_values(struct load *l, struct bundle_entry *e, struct cursor values)
{
    const size_t size = dtype_size(e->dtype);
    const int64_t n = shape_elements(&e->shape);
    struct wbuf *b = &l->r->memory;
    int64_t found;

    if (v1_field_of(e->dtype).number == 0)
        return load_fail(l, ERR_UNSUPPORTED, "a stored %s", dtype_name(e->dtype));
    if (b->len > MAX_BYTES ||
        n > (int64_t)(MAX_BYTES - b->len) / (int64_t)(size > 8 ? size : 8))
        return load_fail(l, ERR_LIMIT, "more than %d bytes of tensors", MAX_BYTES);
    e->offset = b->len;
    found = e->dtype == DT_STRING ? put_strings(b, values, &e->masked_crc)
                                  : put_numbers(b, e->dtype, values, n, &e->masked_crc);
    e->size_bytes = b->len - e->offset;
    return found == n
               ? 0
               : load_fail(l, ERR_FORMAT, "its values do not make up a shape of %s",
                           shape_text(&e->shape));
}

static int add_slice(struct load *l, const struct table_entry *entry, struct cursor c)
{
    struct cursor slice = cursor_of(NULL, 0), values = cursor_of(NULL, 0);
    struct bundle_slice at;
    const char *name = "";
    const struct bundle_entry *whole;
    struct record *record;
    struct pw_field f;
    int rc;

    while (pw_next(&c, &f)) {
        if (f.type != PW_LEN)
            continue;
        if (f.number == DATA_NAME)
            name = text_of(l->r, f.bytes);
        else if (f.number == DATA_SLICE)
            slice = f.bytes;
        else if (f.number == DATA_VALUES)
            values = f.bytes;
    }
    whole = bundle_reader_find(l->r, name);
    if (c.failed || whole == NULL)
        return load_fail(l, ERR_FORMAT, "a slice of '%.80s', which is not listed", name);
    rc = bundle_parse_slice(slice, &whole->shape, &at, l->err);
    if (rc == 0) {
        record =
            bundle_add_record(&l->r->slices, &l->r->arena, entry->key, entry->key_len);
        record->entry = (struct bundle_entry){.name = "", .dtype = whole->dtype};
        (void)bundle_slice_shape(&whole->shape, &at, &record->entry.shape);
        rc = keep_values(l, &record->entry, values);
    }
    if (rc != 0)
        (void)err_wrap(l->err, "%s", name);
    return rc;
}

/* Reads an entry of the table: the first pass reads the list, the second one the
 * slices. */
static int add_entry(struct load *l, const struct table_entry *e)
{
    struct cursor c = cursor_of(e->value, e->value_len);
    struct pw_field f;

    if (e->key_len == 0)
        return l->with_data ? 0 : add_meta(l, c);
    if (!l->with_data)
        return 0;
    while (pw_next(&c, &f))
        if (f.number == SLICES_DATA && f.type == PW_LEN)
            return add_slice(l, e, f.bytes);
    return load_fail(l, ERR_FORMAT, "an entry without values");
}

/* ---- a whole checkpoint ---- */

static int read_table(struct load *l, const unsigned char *data, size_t n)
{
    struct table_reader *table;
    struct table_entry e;
    int rc = table_reader_new(&table, data, n, l->err);

    if (rc != 0)
        return rc;
    while ((rc = table_reader_next(table, &e, l->err)) > 0) {
        rc = add_entry(l, &e);
        if (rc != 0 || !l->with_data)
            break;
    }
    table_reader_free(table);
    return rc;
}

static int read_file(struct load *l, unsigned i)
{
    char *path = ckpt_shard_path(l->r->prefix, i);
    struct wbuf b = {0};
    uint64_t size;
    int fd, rc = bundle_open_regular(path, &fd, &size, l->err);

    if (rc == 0 && size > MAX_BYTES - l->bytes)
        rc = load_fail(l, ERR_LIMIT, "%llu bytes are too many", (unsigned long long)size);
    if (rc == 0) {
        wbuf_reserve(&b, size + 1);
        rc = bundle_read_at(fd, b.data, size, 0, l->err);
        l->bytes += l->with_data ? 0 : size;
    }
    if (rc == 0)
        rc = read_table(l, b.data, size);
    if (rc != 0 && rc != -ENOENT)
        (void)err_wrap(l->err, "%s: a V1 checkpoint", path);
    if (rc != 0)
        (void)err_note(l->err, ERR_AT(.file = path));
    bundle_close(fd);
    wbuf_done(&b);
    free(path);
    return rc;
}

/* Turns a tensor with a single slice, the whole of it, into one without slices. */
static void join_whole(struct bundle_reader *r)
{
    for (size_t i = 0; i < r->tensors.n; i++) {
        struct bundle_entry *e = &r->tensors.at[i].entry;
        const struct bundle_entry *part;
        struct wbuf key = {0};

        if (e->n_slices != 1)
            continue;
        bundle_put_slice_key(&key, e->name, e->shape.rank, &e->slices[0]);
        part = bundle_find_record(&r->slices, key.data, key.len);
        wbuf_done(&key);
        if (part == NULL || !shape_equal(&part->shape, &e->shape) ||
            part->dtype != e->dtype)
            continue;
        e->offset = part->offset;
        e->size_bytes = part->size_bytes;
        e->masked_crc = part->masked_crc;
        e->slices = NULL;
        e->n_slices = 0;
    }
}

int bundle_load_v1(struct bundle_reader *r, struct err *err)
{
    struct load l = {.r = r, .err = err};
    const unsigned n = ckpt_n_shards(r->prefix);
    int rc = 0;

    r->in_memory = 1;
    r->n_shards = 1;
    for (unsigned i = 0; rc == 0 && i < n; i++)
        rc = read_file(&l, i);
    if (rc == 0 && r->tensors.n == 0)
        rc = err_set(err, ERR_FORMAT, "%s: a V1 checkpoint without entries", r->prefix);
    if (rc == 0)
        rc = merge_tensors(&l);
    l.with_data = 1;
    l.bytes = 0;
    for (unsigned i = 0; rc == 0 && i < n; i++)
        rc = read_file(&l, i);
    if (rc != 0)
        return rc;
    if (r->slices.n > 0)
        qsort(r->slices.at, r->slices.n, sizeof(*r->slices.at), compare_records);
    join_whole(r);
    return 0;
}
