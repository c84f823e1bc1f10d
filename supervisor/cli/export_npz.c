#include "common/ckpt/atomic_file.h"
#include "common/mem/xmalloc.h"
#include "common/wire/cursor.h"
#include "common/wire/isal.h"
#include "supervisor/cli/array_file.h"
#include "supervisor/cli/tensor_export.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
