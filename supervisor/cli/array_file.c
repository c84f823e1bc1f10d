#include "supervisor/cli/array_file.h"

#include "common/msg/frame.h"
#include "common/text/scan.h"
#include "common/wire/cursor.h"
#include "supervisor/cli/array_parse.h"
#include "supervisor/cli/array_text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DESCR_MAX = 16, WORD_MAX = 64 };

static const char npy_magic[] = "\x93NUMPY";

static const struct {
    enum dtype dtype;
    const char *descr;
} npy_types[] = {
    {DT_FLOAT, "<f4"},     {DT_DOUBLE, "<f8"},      {DT_HALF, "<f2"},   {DT_INT8, "|i1"},
    {DT_INT16, "<i2"},     {DT_INT32, "<i4"},       {DT_INT64, "<i8"},  {DT_UINT8, "|u1"},
    {DT_UINT16, "<u2"},    {DT_UINT32, "<u4"},      {DT_UINT64, "<u8"}, {DT_BOOL, "|b1"},
    {DT_COMPLEX64, "<c8"}, {DT_COMPLEX128, "<c16"},
};

const char *npy_descr(enum dtype dtype)
{
    for (size_t i = 0; i < sizeof(npy_types) / sizeof(npy_types[0]); i++)
        if (npy_types[i].dtype == dtype)
            return npy_types[i].descr;
    return NULL;
}

static enum dtype dtype_of_descr(const char *descr)
{
    for (size_t i = 0; i < sizeof(npy_types) / sizeof(npy_types[0]); i++)
        if (strcmp(npy_types[i].descr, descr) == 0)
            return npy_types[i].dtype;
    return DT_INVALID;
}

/* ---- .npy ---- */

/* The header's text after "'key':" and blanks; NULL if there is no such key. */
static const char *header_value(const char *header, const char *key)
{
    const char *at = strstr(header, key);

    if (at == NULL)
        return NULL;
    at += strlen(key);
    return at + strspn(at, " ");
}

static int read_shape(const char *text, struct shape *ret, struct err *err)
{
    *ret = SHAPE_SCALAR;
    for (text++; *text != ')'; text += strspn(text, ", ")) {
        char *end;
        const long long n = strtoll(text, &end, 10);

        if (end == text || n < 0)
            return err_set(err, ERR_FORMAT, "its shape cannot be read");
        if (ret->rank == SHAPE_MAX_RANK)
            return err_set(err, ERR_LIMIT, "more than %d dimensions", SHAPE_MAX_RANK);
        ret->dim[ret->rank++] = n;
        text = end;
    }
    return 0;
}

static int read_header(const char *header, char type[DESCR_MAX], struct shape *ret_shape,
                       struct err *err)
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
    return read_shape(shape, ret_shape, err);
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
static void read_element(struct wbuf *b, struct cursor *c, int is_unicode, size_t width)
{
    size_t end = 0;

    wbuf_clear(b);
    for (size_t i = 0; i < width; i++) {
        const uint32_t x = is_unicode ? cursor_u32(c) : cursor_u8(c);

        if (is_unicode)
            put_utf8(b, x);
        else
            wbuf_u8(b, (uint8_t)x);
        end = x != 0 ? b->len : end;
    }
    b->len = end;
}

/* Elements of NumPy's type `descr`, "|S5" (bytes) or "<U5" (UTF-32), one after another. */
static int read_strings(struct tensor *ret, const char *descr, const struct shape *shape,
                        struct cursor data, struct err *err)
{
    const int is_unicode = strncmp(descr, "<U", 2) == 0;
    const int64_t n = shape_elements(shape);
    struct wbuf b = {0}, strings = {0};
    uint64_t width, bytes;

    if ((!is_unicode && strncmp(descr, "|S", 2) != 0) || !text_u64(descr + 2, &width))
        return err_set(err, ERR_UNSUPPORTED, "an array of type '%s'", descr);
    if (n < 0 ||
        __builtin_mul_overflow((uint64_t)n, width * (is_unicode ? 4 : 1), &bytes) ||
        width > UINT32_MAX || bytes != cursor_left(&data) ||
        (uint64_t)n > cursor_left(&data) + 1)
        return err_set(err, ERR_FORMAT, "%zu bytes of data for %s of %s",
                       cursor_left(&data), descr, shape_text(shape));
    for (int64_t i = 0; i < n; i++) {
        read_element(&b, &data, is_unicode, width);
        array_parse_string(&strings, b.data, b.len);
    }
    wbuf_done(&b);
    return array_parse_finish(ret, &strings, DT_STRING, shape, 0, err);
}

/* Converts through text; floats as hexadecimal, which is exact. */
static int convert_element(struct wbuf *b, enum dtype dtype, const struct tensor *from,
                           int64_t i, struct err *err)
{
    char word[WORD_MAX];

    if (dtype_is_floating(from->dtype))
        (void)snprintf(word, sizeof(word), dtype_is_floating(dtype) ? "%a" : "%.17g",
                       array_f64(from, i));
    else if (array_is_signed(from->dtype))
        (void)snprintf(word, sizeof(word), "%lld", (long long)array_i64(from, i));
    else
        (void)snprintf(word, sizeof(word), "%llu",
                       (unsigned long long)array_u64(from, i));
    return array_parse_word(b, dtype, word, err);
}

static int convert(struct tensor *ret, const struct tensor *from, enum dtype dtype,
                   struct err *err)
{
    struct wbuf b = {0};
    int rc = 0;

    if (from->dtype == dtype)
        return tensor_copy(ret, from, err);
    if (from->dtype == DT_COMPLEX64 || from->dtype == DT_COMPLEX128)
        return err_set(err, ERR_DTYPE, "expected %s, not %s", dtype_name(dtype),
                       dtype_name(from->dtype));
    for (int64_t i = 0; i < tensor_elements(from) && rc == 0; i++)
        rc = convert_element(&b, dtype, from, i, err);
    return array_parse_finish(ret, &b, dtype, &from->shape, rc, err);
}

static int read_npy(struct tensor *ret, const struct wbuf *file, enum dtype dtype,
                    struct err *err)
{
    struct cursor c = cursor_of(file->data, file->len);
    struct tensor stored = {0};
    const uint8_t *text, *data;
    char *header, type[DESCR_MAX] = "";
    uint32_t len;
    uint8_t major;
    int rc;

    (void)cursor_bytes(&c, sizeof(npy_magic) - 1);
    major = cursor_u8(&c);
    (void)cursor_u8(&c);
    len = major >= 2 ? cursor_u32(&c) : cursor_u8(&c);
    if (major < 2)
        len |= (uint32_t)cursor_u8(&c) << 8;
    text = cursor_bytes(&c, len);
    if (c.failed || major < 1 || major > 3)
        return err_set(err, ERR_FORMAT, "no .npy of version 1 to 3");
    header = strndup((const char *)text, len);
    rc = header == NULL ? err_set(err, ERR_NOMEM, "no memory")
                        : read_header(header, type, &stored.shape, err);
    free(header);
    if (rc < 0)
        return rc;
    if (dtype == DT_STRING)
        return read_strings(ret, type, &stored.shape, c, err);
    stored.dtype = dtype_of_descr(type);
    if (stored.dtype == DT_INVALID)
        return err_set(err, ERR_UNSUPPORTED, "an array of type '%s'", type);
    data = c.p;
    if (shape_elements(&stored.shape) < 0 ||
        (uint64_t)shape_elements(&stored.shape) > cursor_left(&c) ||
        tensor_bytes(&stored) != cursor_left(&c))
        return err_set(err, ERR_FORMAT, "%zu bytes of data for %s %s", cursor_left(&c),
                       dtype_name(stored.dtype), shape_text(&stored.shape));
    /* copied, because the file's bytes may not be aligned */
    rc = tensor_alloc(&stored, stored.dtype, stored.shape, err);
    if (rc < 0)
        return rc;
    if (cursor_left(&c) > 0)
        memcpy(stored.data, data, cursor_left(&c));
    rc = convert(ret, &stored, dtype, err);
    tensor_free(&stored);
    return rc;
}

/* ---- text ---- */

/* Parses the numbers of one line; *ret_n is their number. */
static int read_line(struct wbuf *b, char *line, enum dtype dtype, int64_t *ret_n,
                     struct err *err)
{
    static const char blanks[] = " \t\r,;";
    char *rest = NULL;

    *ret_n = 0;
    for (char *word = strtok_r(line, blanks, &rest); word != NULL;
         word = strtok_r(NULL, blanks, &rest)) {
        int rc = array_parse_word(b, dtype, word, err);

        if (rc < 0)
            return rc;
        ++*ret_n;
    }
    return 0;
}

static int read_rows(struct wbuf *b, char *text, enum dtype dtype, int64_t *ret_rows,
                     int64_t *ret_columns, struct err *err)
{
    char *rest = NULL;

    *ret_rows = *ret_columns = 0;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        int64_t n;
        int rc = read_line(b, line, dtype, &n, err);

        if (rc < 0)
            return rc;
        if (n == 0)
            continue;
        if (*ret_rows > 0 && n != *ret_columns)
            return err_set(err, ERR_ARG, "rows of %lld and of %lld numbers",
                           (long long)*ret_columns, (long long)n);
        *ret_columns = n;
        ++*ret_rows;
    }
    return *ret_rows > 0 ? 0 : err_set(err, ERR_ARG, "no value");
}

static int read_text(struct tensor *ret, char *text, size_t len, enum dtype dtype,
                     struct err *err)
{
    const char *first = text;
    struct wbuf b = {0};
    int64_t rows, columns;
    struct shape shape;
    int rc;

    while (isspace((unsigned char)*first))
        first++;
    if (*first == '[')
        return array_parse(ret, text, len, dtype, err);
    rc = read_rows(&b, text, dtype, &rows, &columns, err);
    if (rows * columns == 1)
        shape = SHAPE_SCALAR;
    else if (rows == 1 || columns == 1)
        shape = SHAPE(rows * columns);
    else
        shape = SHAPE(rows, columns);
    return array_parse_finish(ret, &b, dtype, &shape, rc, err);
}

/* ---- files ---- */

int array_file_read(struct tensor *ret, const char *path, enum dtype dtype,
                    struct err *err)
{
    struct wbuf b = {0};
    int rc = wbuf_read_file(&b, path, FRAME_MAX_BYTES, err);

    if (rc == 0) {
        const size_t len = b.len;

        wbuf_u8(&b, 0);
        if (len >= sizeof(npy_magic) - 1 &&
            memcmp(b.data, npy_magic, sizeof(npy_magic) - 1) == 0) {
            b.len = len;
            rc = read_npy(ret, &b, dtype, err);
        } else if (dtype == DT_STRING) {
            struct wbuf one = {0};

            array_parse_string(&one, b.data, len);
            rc = array_parse_finish(ret, &one, dtype, &SHAPE_SCALAR, 0, err);
        } else {
            rc = read_text(ret, (char *)b.data, len, dtype, err);
        }
        if (rc < 0) {
            (void)err_wrap(err, "%s", path);
            (void)err_note(err, ERR_AT(.file = path));
        }
    }
    wbuf_done(&b);
    return rc;
}
