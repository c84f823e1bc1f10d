#include "supervisor/cli/array_read.h"

#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "common/msg/frame.h"
#include "common/tensor/half.h"
#include "common/text/scan.h"
#include "common/wire/cursor.h"
#include "supervisor/cli/tensor_print.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { WORD_MAX = 64 };

int array_parse_has(enum dtype dtype)
{
    return dtype == DT_BOOL || dtype == DT_STRING || dtype_is_floating(dtype) ||
           dtype_is_integer(dtype);
}

/* ---- one number ---- */

static int fail_word(enum dtype dtype, const char *word, struct err *err)
{
    return err_set(err, ERR_ARG, "'%.40s' is no %s", word, dtype_name(dtype));
}

static int put_bool(struct wbuf *b, const char *word, struct err *err)
{
    const int yes = strcasecmp(word, "true") == 0 || strcmp(word, "1") == 0;

    if (!yes && strcasecmp(word, "false") != 0 && strcmp(word, "0") != 0)
        return fail_word(DT_BOOL, word, err);
    wbuf_u8(b, (uint8_t)yes);
    return 0;
}

static int put_float(struct wbuf *b, enum dtype dtype, const char *word, struct err *err)
{
    char *end;

    if (dtype == DT_FLOAT) {
        const float f = strtof(word, &end);

        wbuf_bytes(b, &f, sizeof(f));
    } else if (dtype != DT_DOUBLE) {
        const float f = strtof(word, &end);
        const uint16_t h = dtype == DT_HALF ? half_from_f32(f) : bfloat16_from_f32(f);

        wbuf_bytes(b, &h, sizeof(h));
    } else {
        const double d = strtod(word, &end);

        wbuf_bytes(b, &d, sizeof(d));
    }
    return *end == '\0' && end != word ? 0 : fail_word(dtype, word, err);
}

/* Relies on little-endian: a narrower integer is the low bytes of a wider one. */
static int put_integer(struct wbuf *b, enum dtype dtype, const char *word,
                       struct err *err)
{
    const size_t size = dtype_size(dtype);
    const unsigned bits = 8 * (unsigned)size;
    const int is_signed = array_is_signed(dtype);
    unsigned long long u = 0;
    long long i = 0;
    char *end;

    errno = 0;
    if (is_signed)
        i = strtoll(word, &end, 10);
    else
        u = strtoull(word, &end, 10);
    if (end == word || *end != '\0' || errno != 0 || (!is_signed && word[0] == '-') ||
        (bits < 64 && (is_signed ? i < -(1LL << (bits - 1)) || i >= 1LL << (bits - 1)
                                 : u >> bits != 0)))
        return fail_word(dtype, word, err);
    if (is_signed)
        u = (unsigned long long)i;
    wbuf_bytes(b, &u, size);
    return 0;
}

/* Appends the bytes of one number, e.g. "-1.5e3", "nan", "0x1.8p1", "7", "true". It must
 * fit the dtype: integers take no fractions. */
static int put_word(struct wbuf *b, enum dtype dtype, const char *word, struct err *err)
{
    if (dtype == DT_BOOL)
        return put_bool(b, word, err);
    if (dtype_is_floating(dtype))
        return put_float(b, dtype, word, err);
    return put_integer(b, dtype, word, err);
}

/* ---- one string ---- */

/* Appends one string of any bytes. */
static void put_string(struct wbuf *b, const void *bytes, size_t len)
{
    struct tensor_string s = {0};

    if (len > 0) /* any bytes, zeros, too */
        s = (struct tensor_string){memcpy(xmalloc(len), bytes, len), len};
    wbuf_bytes(b, &s, sizeof(s));
}

/* Makes a tensor of that shape of the elements collected in b, whose number must match, unless rc
 * is an error; releases b. Returns rc, or the error. */
static int finish(struct tensor *ret, struct wbuf *b, enum dtype dtype,
                  const struct shape *shape, int rc, struct err *err)
{
    struct tensor_string *strings = (struct tensor_string *)(void *)b->data;
    struct tensor t;

    if (rc == 0)
        rc = tensor_alloc(&t, dtype, *shape, err);
    if (rc == 0) {
        const size_t size = dtype == DT_STRING ? sizeof(*strings) : dtype_size(dtype);

        CHECK((size_t)tensor_elements(&t) * size == b->len, "%zu bytes for %s", b->len,
              shape_text(shape));
        if (b->len > 0)
            memcpy(t.data, b->data, b->len);
        *ret = t;
    }
    for (size_t i = 0; rc < 0 && dtype == DT_STRING && i < b->len / sizeof(*strings); i++)
        free(strings[i].bytes);
    wbuf_done(b);
    return rc;
}

/* ---- brackets ---- */

struct parser {
    const char *p, *end;
    enum dtype dtype;
    struct wbuf elements;
    struct shape shape; /* dim[d]: -1 until the first row of that depth is complete */
    struct err *err;
};

/* Of what follows, so much as a message shows. */
static int shown(const struct parser *q)
{
    return (int)(q->end - q->p < 20 ? q->end - q->p : 20);
}

static void skip_blanks(struct parser *q)
{
    while (q->p < q->end && isspace((unsigned char)*q->p))
        q->p++;
}

/* Appends the character after a backslash. */
static int put_escape(struct parser *q, struct wbuf *b)
{
    static const char letters[] = "nrt\\\"'", characters[] = "\n\r\t\\\"'";
    const char c = q->p < q->end ? *q->p++ : '\0';
    const char *at = c != '\0' ? strchr(letters, c) : NULL;
    int high, low;

    if (at != NULL) {
        wbuf_u8(b, (uint8_t)characters[at - letters]);
        return 0;
    }
    if (c != 'x')
        return err_set(q->err, ERR_ARG, "'\\%c' is no escape", c);
    high = q->p < q->end ? hex_digit(*q->p++) : -1;
    low = q->p < q->end ? hex_digit(*q->p++) : -1;
    if (high < 0 || low < 0)
        return err_set(q->err, ERR_ARG, "\\x is followed by two hexadecimal digits");
    wbuf_u8(b, (uint8_t)(high << 4 | low));
    return 0;
}

static int parse_string(struct parser *q)
{
    struct wbuf b = {0};
    char quote;
    int rc = 0;

    if (*q->p == 'b' && q->p + 1 < q->end) /* as Python prints bytes */
        q->p++;
    quote = *q->p;
    if (quote != '"' && quote != '\'')
        return err_set(q->err, ERR_ARG, "'%.*s': strings in brackets are in quotes",
                       shown(q), q->p);
    for (q->p++; rc == 0 && q->p < q->end && *q->p != quote;) {
        const char c = *q->p++;

        if (c == '\\')
            rc = put_escape(q, &b);
        else
            wbuf_u8(&b, (uint8_t)c);
    }
    if (rc == 0 && q->p == q->end)
        rc = err_set(q->err, ERR_ARG, "a quote is not closed");
    if (rc == 0) {
        q->p++;
        put_string(&q->elements, b.data, b.len);
    }
    wbuf_done(&b);
    return rc;
}

/* Skips blanks and at most one comma. */
static int skip_separator(struct parser *q)
{
    int commas = 0;

    for (; q->p < q->end && (isspace((unsigned char)*q->p) || *q->p == ','); q->p++)
        commas += *q->p == ',';
    return commas < 2 ? 0 : err_set(q->err, ERR_ARG, "two commas in a row");
}

static int parse_number(struct parser *q)
{
    char word[WORD_MAX];
    size_t n = 0;

    while (q->p < q->end && n < sizeof(word) - 1 && !isspace((unsigned char)*q->p) &&
           strchr("[],", *q->p) == NULL)
        word[n++] = *q->p++;
    word[n] = '\0';
    if (strcmp(word, "...") == 0)
        return err_set(q->err, ERR_ARG, "'...': a summary does not hold all values");
    return put_word(&q->elements, q->dtype, word, q->err);
}

static int parse_element(struct parser *q, int depth)
{
    if (depth != q->shape.rank && q->shape.rank >= 0)
        return err_set(q->err, ERR_ARG,
                       "an element is not in as many brackets as the others: '%.*s'",
                       shown(q), q->p);
    q->shape.rank = depth;
    return q->dtype == DT_STRING ? parse_string(q) : parse_number(q);
}

static int close_row(struct parser *q, int depth, int64_t n)
{
    int64_t *dim = &q->shape.dim[depth];

    if (*dim >= 0 && *dim != n)
        return err_set(q->err, ERR_ARG, "rows of %lld and of %lld elements",
                       (long long)*dim, (long long)n);
    *dim = n;
    if (q->shape.rank < 0) /* no element yet: the row is empty */
        q->shape.rank = depth + 1;
    return q->shape.rank > depth
               ? 0
               : err_set(q->err, ERR_ARG, "an empty row stands among elements");
}

static int parse_value(struct parser *q, int depth);

static int parse_row(struct parser *q, int depth)
{
    int64_t n = 0;
    int rc;

    if (depth == SHAPE_MAX_RANK)
        return err_set(q->err, ERR_LIMIT, "more than %d dimensions", SHAPE_MAX_RANK);
    q->p++;
    while ((rc = skip_separator(q)) == 0 && q->p < q->end && *q->p != ']') {
        rc = parse_value(q, depth + 1);
        if (rc < 0)
            return rc;
        n++;
    }
    if (rc < 0)
        return rc;
    if (q->p == q->end)
        return err_set(q->err, ERR_ARG, "a bracket is not closed");
    q->p++;
    return close_row(q, depth, n);
}

static int parse_value(struct parser *q, int depth)
{
    if (*q->p == ']')
        return err_set(q->err, ERR_ARG, "a bracket is closed that was not opened");
    return *q->p == '[' ? parse_row(q, depth) : parse_element(q, depth);
}

static int parse_all(struct parser *q)
{
    int rc = skip_separator(q);

    if (rc == 0 && q->p == q->end)
        rc = err_set(q->err, ERR_ARG, "no value");
    if (rc == 0)
        rc = parse_value(q, 0);
    skip_blanks(q);
    if (rc == 0 && q->p < q->end)
        rc = err_set(q->err, ERR_ARG, "'%.*s' follows the value", shown(q), q->p);
    return rc;
}

int array_parse(struct tensor *ret, const char *text, size_t len, enum dtype dtype,
                struct err *err)
{
    struct parser q = {
        .p = text, .end = text + len, .dtype = dtype, .shape = SHAPE_UNKNOWN, .err = err};
    int rc;

    for (int i = 0; i < SHAPE_MAX_RANK; i++)
        q.shape.dim[i] = -1;
    skip_blanks(&q);
    if (dtype == DT_STRING && (q.p == q.end || *q.p != '[')) {
        put_string(&q.elements, text, len);
        q.shape = SHAPE_SCALAR;
        rc = 0;
    } else {
        rc = parse_all(&q);
    }
    return finish(ret, &q.elements, dtype, &q.shape, rc, err);
}

enum { DESCR_MAX = 16 };

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
static void read_string(struct wbuf *b, struct cursor *c, int is_unicode, size_t width)
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
        read_string(&b, &data, is_unicode, width);
        put_string(&strings, b.data, b.len);
    }
    wbuf_done(&b);
    return finish(ret, &strings, DT_STRING, shape, 0, err);
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
    return put_word(b, dtype, word, err);
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
    return finish(ret, &b, dtype, &from->shape, rc, err);
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
        int rc = put_word(b, dtype, word, err);

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
    return finish(ret, &b, dtype, &shape, rc, err);
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

            put_string(&one, b.data, len);
            rc = finish(ret, &one, dtype, &SHAPE_SCALAR, 0, err);
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
