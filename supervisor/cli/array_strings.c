#include "supervisor/cli/array_strings.h"

#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "supervisor/cli/array_parse.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- text ---- */

struct strings {
    const char *p, *end;
    struct tensor_string *at;
    size_t n, cap;
    struct shape shape; /* dim[d]: -1 until the first row of that depth is complete */
    struct err *err;
};

static void keep(struct strings *q, const struct wbuf *b)
{
    ARRAY_GROW(q->at, q->n, q->cap);
    q->at[q->n] = (struct tensor_string){0};
    if (b->len > 0) /* any bytes, zeros, too */
        q->at[q->n] =
            (struct tensor_string){memcpy(xmalloc(b->len), b->data, b->len), b->len};
    q->n++;
}

/* Appends the character after a backslash. */
static int put_escape(struct strings *q, struct wbuf *b)
{
    const char c = q->p < q->end ? *q->p++ : '\0';
    int high, low;

    switch (c) {
    case 'n':
        wbuf_u8(b, '\n');
        return 0;
    case 't':
        wbuf_u8(b, '\t');
        return 0;
    case 'r':
        wbuf_u8(b, '\r');
        return 0;
    case 'x':
        high = q->p < q->end ? hex_digit(*q->p++) : -1;
        low = q->p < q->end ? hex_digit(*q->p++) : -1;
        if (high < 0 || low < 0)
            return err_set(q->err, ERR_ARG, "\\x is followed by two hexadecimal digits");
        wbuf_u8(b, (uint8_t)(high << 4 | low));
        return 0;
    case '\\':
    case '"':
    case '\'':
        wbuf_u8(b, (uint8_t)c);
        return 0;
    default:
        return err_set(q->err, ERR_ARG, "'\\%c' is no escape", c);
    }
}

static int parse_string(struct strings *q, int depth)
{
    struct wbuf b = {0};
    char quote;
    int rc = 0;

    while (*q->p == 'b' && q->p + 1 < q->end) /* as Python prints bytes */
        q->p++;
    quote = *q->p;
    if (quote != '"' && quote != '\'')
        return err_set(q->err, ERR_ARG, "'%.20s': strings in brackets are in quotes",
                       q->p);
    if (q->shape.rank >= 0 && depth != q->shape.rank)
        return err_set(q->err, ERR_ARG,
                       "a string is not in as many brackets as the others");
    q->shape.rank = depth;
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
        keep(q, &b);
    }
    wbuf_done(&b);
    return rc;
}

static void skip_blanks(struct strings *q)
{
    while (q->p < q->end && isspace((unsigned char)*q->p))
        q->p++;
}

/* q->p is behind the opening bracket. */
static int parse_row(struct strings *q, int depth)
{
    int64_t n = 0;
    int rc = 0;

    if (depth == SHAPE_MAX_RANK)
        return err_set(q->err, ERR_LIMIT, "more than %d dimensions", SHAPE_MAX_RANK);
    for (skip_blanks(q); rc == 0 && q->p < q->end && *q->p != ']'; skip_blanks(q)) {
        rc =
            *q->p == '[' ? (q->p++, parse_row(q, depth + 1)) : parse_string(q, depth + 1);
        n++;
        skip_blanks(q);
        if (rc == 0 && q->p < q->end && *q->p == ',')
            q->p++;
    }
    if (rc < 0)
        return rc;
    if (q->p == q->end)
        return err_set(q->err, ERR_ARG, "a bracket is not closed");
    q->p++;
    return array_parse_close_row(&q->shape, depth, n, "strings", q->err);
}

int array_strings_one(struct tensor *ret, const void *bytes, size_t len, struct err *err)
{
    int rc = tensor_alloc(ret, DT_STRING, SHAPE_SCALAR, err);

    if (rc == 0 && len > 0)
        *(struct tensor_string *)ret->data =
            (struct tensor_string){memcpy(xmalloc(len), bytes, len), len};
    return rc;
}

int array_strings_parse(struct tensor *ret, const char *text, size_t len, struct err *err)
{
    struct strings q = {.p = text, .end = text + len, .shape = SHAPE_UNKNOWN, .err = err};
    int rc;

    skip_blanks(&q);
    if (q.p == q.end || *q.p != '[')
        return array_strings_one(ret, text, len, err);
    for (int i = 0; i < SHAPE_MAX_RANK; i++)
        q.shape.dim[i] = -1;
    q.p++;
    rc = parse_row(&q, 0);
    skip_blanks(&q);
    if (rc == 0 && q.p < q.end)
        rc = err_set(err, ERR_ARG, "'%.*s' follows the value",
                     (int)(q.end - q.p < 40 ? q.end - q.p : 40), q.p);
    if (rc == 0)
        rc = tensor_alloc(ret, DT_STRING, q.shape, err);
    for (size_t i = 0; i < q.n; i++)
        if (rc == 0)
            ((struct tensor_string *)ret->data)[i] = q.at[i];
        else
            free(q.at[i].bytes);
    free(q.at);
    return rc;
}

/* ---- NumPy ---- */

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

int array_strings_from_npy(struct tensor *ret, const char *descr,
                           const struct shape *shape, struct cursor data, struct err *err)
{
    const int is_unicode = strncmp(descr, "<U", 2) == 0;
    const int64_t n = shape_elements(shape);
    struct tensor_string *s;
    struct wbuf b = {0};
    uint64_t width, bytes;
    int rc;

    if ((!is_unicode && strncmp(descr, "|S", 2) != 0) || !text_u64(descr + 2, &width))
        return err_set(err, ERR_UNSUPPORTED, "an array of type '%s'", descr);
    if (n < 0 ||
        __builtin_mul_overflow((uint64_t)n, width * (is_unicode ? 4 : 1), &bytes) ||
        width > UINT32_MAX || bytes != cursor_left(&data) ||
        (uint64_t)n > cursor_left(&data) + 1)
        return err_set(err, ERR_FORMAT, "%zu bytes of data for %s of %s",
                       cursor_left(&data), descr, shape_text(shape));
    rc = tensor_alloc(ret, DT_STRING, *shape, err);
    s = ret->data;
    for (int64_t i = 0; rc == 0 && i < n; i++) {
        read_element(&b, &data, is_unicode, width);
        if (b.len > 0)
            s[i] = (struct tensor_string){memcpy(xmalloc(b.len), b.data, b.len), b.len};
    }
    wbuf_done(&b);
    return rc;
}

size_t array_strings_width(const struct tensor *t)
{
    const struct tensor_string *s = t->data;
    size_t width = 1;

    for (int64_t i = 0; i < tensor_elements(t); i++)
        width = s[i].len_bytes > width ? s[i].len_bytes : width;
    return width;
}

void array_strings_put_npy(struct wbuf *b, const struct tensor *t)
{
    const struct tensor_string *s = t->data;
    const size_t width = array_strings_width(t);

    for (int64_t i = 0; i < tensor_elements(t); i++) {
        wbuf_bytes(b, s[i].bytes, s[i].len_bytes);
        for (size_t k = s[i].len_bytes; k < width; k++)
            wbuf_u8(b, 0);
    }
}
