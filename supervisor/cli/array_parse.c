#include "supervisor/cli/array_parse.h"

#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "common/tensor/half.h"
#include "common/text/scan.h"
#include "supervisor/cli/array_text.h"

#include <ctype.h>
#include <errno.h>
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

int array_parse_word(struct wbuf *b, enum dtype dtype, const char *word, struct err *err)
{
    if (dtype == DT_BOOL)
        return put_bool(b, word, err);
    if (dtype_is_floating(dtype))
        return put_float(b, dtype, word, err);
    return put_integer(b, dtype, word, err);
}

/* ---- one string ---- */

void array_parse_string(struct wbuf *b, const void *bytes, size_t len)
{
    struct tensor_string s = {0};

    if (len > 0) /* any bytes, zeros, too */
        s = (struct tensor_string){memcpy(xmalloc(len), bytes, len), len};
    wbuf_bytes(b, &s, sizeof(s));
}

int array_parse_finish(struct tensor *ret, struct wbuf *b, enum dtype dtype,
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
        array_parse_string(&q->elements, b.data, b.len);
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
    return array_parse_word(&q->elements, q->dtype, word, q->err);
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
        array_parse_string(&q.elements, text, len);
        q.shape = SHAPE_SCALAR;
        rc = 0;
    } else {
        rc = parse_all(&q);
    }
    return array_parse_finish(ret, &q.elements, dtype, &q.shape, rc, err);
}
