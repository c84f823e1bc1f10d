#include "supervisor/export/npy.h"

#include "common/ckpt/atomic_file.h"
#include "common/mem/xmalloc.h"
#include "common/tensor/half.h"
#include "common/text/scan.h"
#include "common/wire/isal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DESCR_BYTES = 32, HEADER_ALIGN = 64 };

static const char magic[] = "\x93NUMPY";

/* NumPy's name of the dtype; NULL: it has no such type. */
static const char *const descriptions[] = {
    [DT_FLOAT] = "<f4",     [DT_DOUBLE] = "<f8",      [DT_HALF] = "<f2",
    [DT_INT8] = "|i1",      [DT_INT16] = "<i2",       [DT_INT32] = "<i4",
    [DT_INT64] = "<i8",     [DT_UINT8] = "|u1",       [DT_UINT16] = "<u2",
    [DT_UINT32] = "<u4",    [DT_UINT64] = "<u8",      [DT_BOOL] = "|b1",
    [DT_COMPLEX64] = "<c8", [DT_COMPLEX128] = "<c16",
};

enum { N_DESCRIPTIONS = sizeof(descriptions) / sizeof(descriptions[0]) };

static const char *description_of(enum dtype dtype)
{
    return (size_t)dtype < N_DESCRIPTIONS ? descriptions[dtype] : NULL;
}

/* ---- reading ---- */

/* The header's text after "'key':" and blanks; NULL if there is no such key. */
static const char *header_value(const char *header, const char *key)
{
    const char *at = strstr(header, key);

    if (at == NULL)
        return NULL;
    at += strlen(key);
    return at + strspn(at, " ");
}

static int read_header(const char *header, char type[DESCR_BYTES],
                       struct shape *ret_shape, struct err *err)
{
    const char *descr = header_value(header, "'descr':");
    const char *order = header_value(header, "'fortran_order':");
    const char *shape = header_value(header, "'shape':");

    if (descr == NULL || order == NULL || shape == NULL || shape[0] != '(' ||
        strchr(shape, ')') == NULL)
        return err_set(err, ERR_FORMAT, "its header cannot be read");
    (void)sscanf(descr, "'%15[^']'", type);
    if (strncmp(order, "False", 5) != 0)
        return err_set(err, ERR_UNSUPPORTED,
                       "its columns lie one after another; save "
                       "numpy.ascontiguousarray(x)");
    *ret_shape = SHAPE_SCALAR;
    for (shape++; *shape != ')'; shape += strspn(shape, ", ")) {
        char *end;
        const long long n = strtoll(shape, &end, 10);

        if (end == shape || n < 0)
            return err_set(err, ERR_FORMAT, "its shape cannot be read");
        if (ret_shape->rank == SHAPE_MAX_RANK)
            return err_set(err, ERR_LIMIT, "more than %d dimensions", SHAPE_MAX_RANK);
        ret_shape->dim[ret_shape->rank++] = n;
        shape = end;
    }
    return 0;
}

static void put_utf8(struct wbuf *b, uint32_t c)
{
    if (c < 0x80) {
        wbuf_u8(b, (uint8_t)c);
        return;
    }
    if (c < 0x800) {
        wbuf_u8(b, (uint8_t)(0xc0 | c >> 6));
    } else {
        if (c < 0x10000) {
            wbuf_u8(b, (uint8_t)(0xe0 | c >> 12));
        } else {
            wbuf_u8(b, (uint8_t)(0xf0 | (c >> 18 & 7)));
            wbuf_u8(b, (uint8_t)(0x80 | (c >> 12 & 0x3f)));
        }
        wbuf_u8(b, (uint8_t)(0x80 | (c >> 6 & 0x3f)));
    }
    wbuf_u8(b, (uint8_t)(0x80 | (c & 0x3f)));
}

/* Reads an element of `width` bytes or characters; zeros at its end are not a part. */
static struct tensor_string read_string(struct cursor *c, int is_unicode, uint64_t width)
{
    struct wbuf b = {0};
    size_t end = 0;

    for (uint64_t i = 0; i < width; i++) {
        const uint32_t x = is_unicode ? cursor_u32(c) : cursor_u8(c);

        if (is_unicode)
            put_utf8(&b, x);
        else
            wbuf_u8(&b, (uint8_t)x);
        end = x != 0 ? b.len : end;
    }
    if (end > 0)
        return (struct tensor_string){(char *)b.data, end};
    wbuf_done(&b);
    return (struct tensor_string){0};
}

static int read_data(struct tensor *ret, const char *type, struct shape shape,
                     struct cursor *data, struct err *err)
{
    const int is_unicode = strncmp(type, "<U", 2) == 0;
    const int64_t n = shape_elements(&shape);
    enum dtype dtype = DT_INVALID;
    uint64_t width = 0, bytes;
    int rc;

    for (size_t i = 0; i < N_DESCRIPTIONS; i++)
        if (descriptions[i] != NULL && strcmp(descriptions[i], type) == 0)
            dtype = (enum dtype)i;
    if (dtype != DT_INVALID)
        width = dtype_size(dtype);
    else if ((is_unicode || strncmp(type, "|S", 2) == 0) && text_u64(type + 2, &width) &&
             width <= UINT32_MAX)
        dtype = DT_STRING;
    else
        return err_set(err, ERR_UNSUPPORTED, "an array of type '%s'", type);
    /* of strings without characters, any number would fit */
    if (n < 0 || (uint64_t)n > cursor_left(data) + 1 ||
        __builtin_mul_overflow((uint64_t)n, width * (is_unicode ? 4 : 1), &bytes) ||
        bytes != cursor_left(data))
        return err_set(err, ERR_FORMAT, "%zu bytes of data for %s of %s",
                       cursor_left(data), type, shape_text(&shape));
    rc = tensor_alloc(ret, dtype, shape, err);
    for (int64_t i = 0; rc == 0 && dtype == DT_STRING && i < n; i++)
        ((struct tensor_string *)ret->data)[i] = read_string(data, is_unicode, width);
    if (rc == 0 && dtype != DT_STRING && bytes > 0)
        memcpy(ret->data, cursor_bytes(data, bytes), bytes);
    return rc;
}

int npy_is_one(const struct wbuf *file)
{
    return file->len >= strlen(magic) && memcmp(file->data, magic, strlen(magic)) == 0;
}

int npy_read(struct tensor *ret, const struct wbuf *file, struct err *err)
{
    struct cursor c = cursor_of(file->data, file->len);
    char *header, type[DESCR_BYTES] = "";
    struct shape shape;
    const uint8_t *text;
    uint32_t len;
    uint8_t major;
    int rc;

    (void)cursor_bytes(&c, strlen(magic));
    major = cursor_u8(&c);
    (void)cursor_u8(&c);
    len = major >= 2 ? cursor_u32(&c) : cursor_u8(&c);
    if (major < 2)
        len |= (uint32_t)cursor_u8(&c) << 8;
    text = cursor_bytes(&c, len);
    if (c.failed || major < 1 || major > 3)
        return err_set(err, ERR_FORMAT, "no .npy of version 1 to 3");
    header = xstrndup((const char *)text, len);
    rc = read_header(header, type, &shape, err);
    free(header);
    return rc < 0 ? rc : read_data(ret, type, shape, &c, err);
}

/* ---- writing an array ---- */

/* Magic, version 1.0, u16 length, a Python dict, blanks and a line's end: together a
 * multiple of 64. */
static void put_header(struct wbuf *b, const char *type, const struct shape *shape)
{
    char dict[512];
    size_t padded,
        n = (size_t)snprintf(dict, sizeof(dict),
                             "{'descr': '%s', 'fortran_order': False, 'shape': (", type);

    for (int i = 0; i < shape->rank; i++)
        n += (size_t)snprintf(dict + n, sizeof(dict) - n, "%s%" PRId64, i > 0 ? ", " : "",
                              shape->dim[i]);
    n += (size_t)snprintf(dict + n, sizeof(dict) - n, "%s), }",
                          shape->rank == 1 ? "," : "");
    padded = (10 + n + 1 + HEADER_ALIGN - 1) / HEADER_ALIGN * HEADER_ALIGN - 10;
    wbuf_bytes(b, magic, strlen(magic));
    wbuf_bytes(b, "\x01\x00", 2);
    wbuf_u8(b, (uint8_t)padded);
    wbuf_u8(b, (uint8_t)(padded >> 8));
    wbuf_bytes(b, dict, n);
    for (; n < padded - 1; n++)
        wbuf_u8(b, ' ');
    wbuf_u8(b, '\n');
}

static int put_array(struct wbuf *b, const char *name, const struct tensor *t,
                     struct err *err)
{
    const struct tensor_string *s = t->data;
    char type[DESCR_BYTES];
    size_t width = 1, bytes = 0;

    if (t->dtype != DT_STRING) {
        put_header(b, description_of(t->dtype), &t->shape);
        if (tensor_bytes(t) > 0)
            wbuf_bytes(b, t->data, tensor_bytes(t));
        return 0;
    }
    /* NumPy's elements are all as long as the longest string, and at least 1 byte. */
    for (int64_t i = 0; i < tensor_elements(t); i++)
        width = s[i].len_bytes > width ? s[i].len_bytes : width;
    if (!mem_mul((size_t)tensor_elements(t), width, &bytes) || bytes > UINT32_MAX)
        return err_set(err, ERR_LIMIT, "%s: its strings take more than 4 GiB in an .npz",
                       name);
    (void)snprintf(type, sizeof(type), "|S%zu", width);
    put_header(b, type, &t->shape);
    for (int64_t i = 0; i < tensor_elements(t); i++) {
        wbuf_bytes(b, s[i].bytes, s[i].len_bytes);
        for (size_t k = s[i].len_bytes; k < width; k++)
            wbuf_u8(b, 0);
    }
    return 0;
}

/* ---- the archive ---- */

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
};

struct npz {
    struct atomic_file *file;
    uint64_t at; /* bytes written */
    size_t n;
    struct wbuf head, directory; /* of the current member; of all members */
};

static int append(struct npz *z, const struct wbuf *data, struct err *err)
{
    if (data->len > UINT32_MAX - z->at)
        return err_set(err, ERR_LIMIT,
                       "more than 4 GiB; a .safetensors file can be larger");
    z->at += data->len;
    return atomic_file_append(z->file, data->data, data->len, err);
}

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

static int append_member(struct npz *z, struct member *m, const struct wbuf *content,
                         struct err *err)
{
    int rc;

    if (content->len > UINT32_MAX - z->at)
        return append(z, content, err); /* which fails */
    m->crc = isal()->crc32_gzip_refl(0, content->data, content->len);
    m->size = (uint32_t)content->len;
    m->offset = (uint32_t)z->at;
    wbuf_clear(&z->head);
    wbuf_u32(&z->head, LOCAL_HEADER);
    put_common(&z->head, m);
    wbuf_bytes(&z->head, m->name, strlen(m->name));
    wbuf_u32(&z->directory, CENTRAL_HEADER);
    put_u16(&z->directory, VERSION_NEEDED);
    put_common(&z->directory, m);
    put_u16(&z->directory, 0);  /* comment */
    put_u16(&z->directory, 0);  /* disk */
    put_u16(&z->directory, 0);  /* internal attributes */
    wbuf_u32(&z->directory, 0); /* external ones */
    wbuf_u32(&z->directory, m->offset);
    wbuf_bytes(&z->directory, m->name, strlen(m->name));
    rc = append(z, &z->head, err);
    return rc < 0 ? rc : append(z, content, err);
}

int npz_begin(struct npz **ret, const char *path, struct err *err)
{
    struct npz *z = xcalloc(1, sizeof(*z));
    const int rc = atomic_file_new(&z->file, path, 0, err);

    if (rc == 0)
        *ret = z;
    else
        free(z);
    return rc;
}

int npz_widens(enum dtype dtype)
{
    return dtype == DT_BFLOAT16;
}

/* Appends a bfloat16 tensor as float32. */
static int add_widened(struct npz *z, const char *name, const struct tensor *value,
                       struct err *err)
{
    struct tensor wide;
    int rc = tensor_alloc(&wide, DT_FLOAT, value->shape, err);

    if (rc < 0)
        return rc;
    for (int64_t i = 0; i < shape_elements(&value->shape); i++)
        ((float *)wide.data)[i] = bfloat16_to_f32(((const uint16_t *)value->data)[i]);
    rc = npz_add(z, name, &wide, err);
    tensor_free(&wide);
    return rc;
}

int npz_add(struct npz *z, const char *name, const struct tensor *value, struct err *err)
{
    char label[DTYPE_LABEL_BYTES];
    struct wbuf content = {0};
    struct member m;
    int rc;

    if (npz_widens(value->dtype))
        return add_widened(z, name, value, err);
    if (z->n++ == MAX_FILES)
        return err_set(err, ERR_LIMIT, "an .npz holds at most %d tensors", MAX_FILES);
    if (description_of(value->dtype) == NULL && value->dtype != DT_STRING)
        return err_set(err, ERR_UNSUPPORTED, "%s is %s, which NumPy has no type for",
                       name, dtype_label(value->dtype, label));
    if (strlen(name) > NAME_MAX_BYTES)
        return err_set(err, ERR_LIMIT, "%.60s...: its name is too long for an .npz",
                       name);
    m = (struct member){.name = xasprintf("%s.npy", name)};
    rc = put_array(&content, name, value, err);
    if (rc == 0)
        rc = append_member(z, &m, &content, err);
    wbuf_done(&content);
    free(m.name);
    return rc;
}

static int append_directory(struct npz *z, struct err *err)
{
    const uint64_t begin = z->at;
    int rc = append(z, &z->directory, err);

    if (rc < 0)
        return rc;
    wbuf_clear(&z->head);
    wbuf_u32(&z->head, END_OF_DIRECTORY);
    put_u16(&z->head, 0);
    put_u16(&z->head, 0);
    put_u16(&z->head, (unsigned)z->n);
    put_u16(&z->head, (unsigned)z->n);
    wbuf_u32(&z->head, (uint32_t)z->directory.len);
    wbuf_u32(&z->head, (uint32_t)begin);
    put_u16(&z->head, 0);
    return append(z, &z->head, err);
}

int npz_end(struct npz *z, int rc, struct err *err)
{
    if (rc == 0)
        rc = append_directory(z, err);
    if (rc == 0)
        rc = atomic_file_commit(z->file, err);
    atomic_file_free(z->file);
    wbuf_done(&z->head);
    wbuf_done(&z->directory);
    free(z);
    return rc;
}
