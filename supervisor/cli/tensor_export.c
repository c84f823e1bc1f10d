#include "supervisor/cli/tensor_export.h"

#include "common/ckpt/atomic_file.h"
#include "common/mem/xmalloc.h"
#include "common/wire/cursor.h"
#include "common/wire/isal.h"
#include "supervisor/cli/array_read.h"
#include "supervisor/metrics/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RESERVED_NAME "__metadata__"

enum { HEADER_ALIGN = 8 };

static const char *dtype_text(enum dtype dtype)
{
    static const struct {
        enum dtype dtype;
        const char *text;
    } texts[] = {
        {DT_FLOAT, "F32"},     {DT_DOUBLE, "F64"}, {DT_HALF, "F16"},   {DT_INT8, "I8"},
        {DT_INT16, "I16"},     {DT_INT32, "I32"},  {DT_INT64, "I64"},  {DT_UINT8, "U8"},
        {DT_UINT16, "U16"},    {DT_UINT32, "U32"}, {DT_UINT64, "U64"}, {DT_BOOL, "BOOL"},
        {DT_BFLOAT16, "BF16"},
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (texts[i].dtype == dtype)
            return texts[i].text;
    return NULL;
}

static int check_entry(const struct bundle_entry *e, struct err *err)
{
    char label[DTYPE_LABEL_BYTES];

    if (dtype_text(e->dtype) == NULL)
        return err_set(err, ERR_UNSUPPORTED,
                       "%s is %s, which safetensors has no type for", e->name,
                       dtype_label(e->dtype, label));
    if (strcmp(e->name, RESERVED_NAME) == 0)
        return err_set(err, ERR_UNSUPPORTED, "%s: safetensors keeps that name for itself",
                       e->name);
    return 0;
}

static uint64_t bytes_of(const struct bundle_entry *e)
{
    return (uint64_t)shape_elements(&e->shape) * dtype_size(e->dtype);
}

static void put_entry(struct json *j, const struct bundle_entry *e, uint64_t begin)
{
    json_put_object(j, e->name);
    json_put_str(j, "dtype", dtype_text(e->dtype));
    json_put_array(j, "shape");
    for (int i = 0; i < e->shape.rank; i++)
        json_i64(j, e->shape.dim[i]);
    json_close(j);
    json_put_array(j, "data_offsets");
    json_u64(j, begin);
    json_u64(j, begin + bytes_of(e));
    json_close(j);
    json_close(j);
}

static void put_header(struct wbuf *b, const struct tensor_export *x)
{
    struct json j = {0};
    const char *text;
    size_t len, padded;
    uint64_t at = 0;

    json_object(&j);
    for (size_t i = 0; i < x->n; i++) {
        put_entry(&j, x->entries[i], at);
        at += bytes_of(x->entries[i]);
    }
    json_close(&j);
    text = json_line(&j, &len);
    len--; /* the end of the line */
    padded = (len + HEADER_ALIGN - 1) / HEADER_ALIGN * HEADER_ALIGN;
    wbuf_u64(b, padded);
    wbuf_bytes(b, text, len);
    while (len++ < padded)
        wbuf_u8(b, ' ');
    json_done(&j);
}

static int append_data(struct atomic_file *f, const struct tensor_export *x, size_t i,
                       struct err *err)
{
    struct tensor t = TENSOR_NONE;
    int rc = bundle_reader_read(x->from, x->entries[i], &t, err);

    if (rc == 0)
        rc = atomic_file_append(f, t.data, tensor_bytes(&t), err);
    tensor_free(&t);
    return rc;
}

int tensor_export_safetensors(const struct tensor_export *x, struct err *err)
{
    struct atomic_file *f = NULL;
    struct wbuf header = {0};
    int rc = 0;

    for (size_t i = 0; i < x->n && rc == 0; i++)
        rc = check_entry(x->entries[i], err);
    if (rc == 0)
        rc = atomic_file_new(&f, x->path, 0, err);
    if (rc < 0)
        return rc;
    put_header(&header, x);
    rc = atomic_file_append(f, header.data, header.len, err);
    for (size_t i = 0; i < x->n && rc == 0; i++)
        rc = append_data(f, x, i, err);
    if (rc == 0)
        rc = atomic_file_commit(f, err);
    atomic_file_free(f);
    wbuf_done(&header);
    return rc;
}

/* Signatures and constants of a zip archive (APPNOTE 4.3). */
enum {
    LOCAL_HEADER = 0x04034b50,
    CENTRAL_HEADER = 0x02014b50,
    END_OF_DIRECTORY = 0x06054b50,
    VERSION_NEEDED = 20,
    NAME_IS_UTF8 = 1 << 11,
    DATE_1980_01_01 = 1 << 5 | 1,
    MAX_FILES = 65535,
    NAME_MAX_BYTES = 60000,
    NPY_ALIGN = 64,
};

struct archive {
    struct atomic_file *file;
    uint64_t at;                 /* bytes written */
    struct wbuf head, directory; /* of the current member; of all members */
};

static int append(struct archive *a, const void *data, size_t len, struct err *err)
{
    if (len > UINT32_MAX - a->at)
        return err_set(err, ERR_LIMIT,
                       "more than 4 GiB; a .safetensors file can be larger");
    a->at += len;
    return atomic_file_append(a->file, data, len, err);
}

/* ---- .npy ---- */

/* The bytes of each element of an array that NumPy has of these strings: at least 1. */
static size_t strings_width(const struct tensor *t)
{
    const struct tensor_string *s = t->data;
    size_t width = 1;

    for (int64_t i = 0; i < tensor_elements(t); i++)
        width = s[i].len_bytes > width ? s[i].len_bytes : width;
    return width;
}

static void put_strings(struct wbuf *b, const struct tensor *t)
{
    const struct tensor_string *s = t->data;
    const size_t width = strings_width(t);

    for (int64_t i = 0; i < tensor_elements(t); i++) {
        wbuf_bytes(b, s[i].bytes, s[i].len_bytes);
        for (size_t k = s[i].len_bytes; k < width; k++)
            wbuf_u8(b, 0);
    }
}

/* Magic, version 1.0, u16 length, a Python dict, blanks and a line's end: together a
 * multiple of 64. */
static void put_npy_header(struct wbuf *b, const struct tensor *t)
{
    char dict[512], strings[32];
    size_t n, padded;

    (void)snprintf(strings, sizeof(strings), "|S%zu",
                   t->dtype == DT_STRING ? strings_width(t) : 0);
    n = (size_t)snprintf(dict, sizeof(dict),
                         "{'descr': '%s', 'fortran_order': False, 'shape': (",
                         t->dtype == DT_STRING ? strings : npy_descr(t->dtype));
    for (int i = 0; i < t->shape.rank; i++)
        n += (size_t)snprintf(dict + n, sizeof(dict) - n, "%s%" PRId64, i > 0 ? ", " : "",
                              t->shape.dim[i]);
    n += (size_t)snprintf(dict + n, sizeof(dict) - n, "%s), }",
                          t->shape.rank == 1 ? "," : "");
    padded = (10 + n + 1 + NPY_ALIGN - 1) / NPY_ALIGN * NPY_ALIGN - 10;
    wbuf_bytes(b, "\x93NUMPY\x01\x00", 8);
    wbuf_u8(b, (uint8_t)padded);
    wbuf_u8(b, (uint8_t)(padded >> 8));
    wbuf_bytes(b, dict, n);
    for (; n < padded - 1; n++)
        wbuf_u8(b, ' ');
    wbuf_u8(b, '\n');
}

/* ---- zip ---- */

static void put_u16(struct wbuf *b, unsigned v)
{
    wbuf_u8(b, (uint8_t)v);
    wbuf_u8(b, (uint8_t)(v >> 8));
}

struct member {
    char *name;
    uint32_t crc, size, offset;
};

/* The fields that local and central header share: "version needed" to "extra length". */
static void put_common(struct wbuf *b, const struct member *m)
{
    put_u16(b, VERSION_NEEDED);
    put_u16(b, NAME_IS_UTF8);
    put_u16(b, 0); /* stored */
    put_u16(b, 0); /* midnight */
    put_u16(b, DATE_1980_01_01);
    wbuf_u32(b, m->crc);
    wbuf_u32(b, m->size);
    wbuf_u32(b, m->size);
    put_u16(b, (unsigned)strlen(m->name));
    put_u16(b, 0);
}

static void put_central(struct wbuf *b, const struct member *m)
{
    wbuf_u32(b, CENTRAL_HEADER);
    put_u16(b, VERSION_NEEDED);
    put_common(b, m);
    put_u16(b, 0);  /* comment */
    put_u16(b, 0);  /* disk */
    put_u16(b, 0);  /* internal attributes */
    wbuf_u32(b, 0); /* external ones */
    wbuf_u32(b, m->offset);
    wbuf_bytes(b, m->name, strlen(m->name));
}

static int append_member(struct archive *a, struct member *m, const struct wbuf *content,
                         struct err *err)
{
    int rc;

    if (content->len > UINT32_MAX - a->at)
        return append(a, NULL, content->len, err);
    m->crc = isal()->crc32_gzip_refl(0, content->data, content->len);
    m->size = (uint32_t)content->len;
    m->offset = (uint32_t)a->at;
    wbuf_clear(&a->head);
    wbuf_u32(&a->head, LOCAL_HEADER);
    put_common(&a->head, m);
    wbuf_bytes(&a->head, m->name, strlen(m->name));
    put_central(&a->directory, m);
    rc = append(a, a->head.data, a->head.len, err);
    return rc < 0 ? rc : append(a, content->data, content->len, err);
}

static int append_value(struct archive *a, const char *name, const struct tensor *t,
                        struct err *err)
{
    struct member m = {.name = xasprintf("%s.npy", name)};
    struct wbuf content = {0};
    size_t bytes = 0;
    int rc;

    /* one long string among many would make all of them as long */
    if (t->dtype == DT_STRING &&
        (!mem_mul((size_t)tensor_elements(t), strings_width(t), &bytes) ||
         bytes > UINT32_MAX)) {
        free(m.name);
        return err_set(err, ERR_LIMIT, "%s: its strings take more than 4 GiB in an .npz",
                       name);
    }
    put_npy_header(&content, t);
    if (t->dtype == DT_STRING)
        put_strings(&content, t);
    if (tensor_bytes(t) > 0)
        wbuf_bytes(&content, t->data, tensor_bytes(t));
    rc = append_member(a, &m, &content, err);
    wbuf_done(&content);
    free(m.name);
    return rc;
}

static int append_tensor(struct archive *a, const struct tensor_export *x, size_t i,
                         struct err *err)
{
    const struct bundle_entry *e = x->entries[i];
    struct tensor t = TENSOR_NONE;
    int rc = bundle_reader_read(x->from, e, &t, err);

    if (rc == 0)
        rc = append_value(a, e->name, &t, err);
    tensor_free(&t);
    return rc;
}

static int append_directory(struct archive *a, size_t n, struct err *err)
{
    const uint64_t begin = a->at;
    int rc = append(a, a->directory.data, a->directory.len, err);

    if (rc < 0)
        return rc;
    wbuf_clear(&a->head);
    wbuf_u32(&a->head, END_OF_DIRECTORY);
    put_u16(&a->head, 0);
    put_u16(&a->head, 0);
    put_u16(&a->head, (unsigned)n);
    put_u16(&a->head, (unsigned)n);
    wbuf_u32(&a->head, (uint32_t)a->directory.len);
    wbuf_u32(&a->head, (uint32_t)begin);
    put_u16(&a->head, 0);
    return append(a, a->head.data, a->head.len, err);
}

/* ---- the archive ---- */

static int check_count(size_t n, struct err *err)
{
    return n <= MAX_FILES
               ? 0
               : err_set(err, ERR_LIMIT, "%zu tensors; an .npz holds at most %d", n,
                         MAX_FILES);
}

static int check_member(const char *name, enum dtype dtype, struct err *err)
{
    char label[DTYPE_LABEL_BYTES];

    if (npy_descr(dtype) == NULL && dtype != DT_STRING)
        return err_set(err, ERR_UNSUPPORTED, "%s is %s, which NumPy has no type for",
                       name, dtype_label(dtype, label));
    if (strlen(name) > NAME_MAX_BYTES)
        return err_set(err, ERR_LIMIT, "%.60s...: its name is too long for an .npz",
                       name);
    return 0;
}

/* Ends the archive of n members unless rc is an error; frees it. */
static int end_archive(struct archive *a, size_t n, int rc, struct err *err)
{
    if (rc == 0)
        rc = append_directory(a, n, err);
    if (rc == 0)
        rc = atomic_file_commit(a->file, err);
    atomic_file_free(a->file);
    wbuf_done(&a->head);
    wbuf_done(&a->directory);
    return rc;
}

int npz_write(const char *path, const struct npz_value *values, size_t n, struct err *err)
{
    struct archive a = {0};
    int rc = check_count(n, err);

    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = check_member(values[i].name, values[i].value->dtype, err);
    if (rc == 0)
        rc = atomic_file_new(&a.file, path, 0, err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = append_value(&a, values[i].name, values[i].value, err);
    return end_archive(&a, n, rc, err);
}

int tensor_export_npz(const struct tensor_export *x, struct err *err)
{
    struct archive a = {0};
    int rc = check_count(x->n, err);

    for (size_t i = 0; rc == 0 && i < x->n; i++)
        rc = check_member(x->entries[i]->name, x->entries[i]->dtype, err);
    if (rc == 0)
        rc = atomic_file_new(&a.file, x->path, 0, err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < x->n && rc == 0; i++)
        rc = append_tensor(&a, x, i, err);
    return end_archive(&a, x->n, rc, err);
}
