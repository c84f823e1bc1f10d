#include "supervisor/cli/array_parse.h"

#include "common/err/check.h"
#include "common/tensor/half.h"
#include "supervisor/cli/array_text.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { WORD_MAX = 64 };

int array_parse_has(enum dtype dtype)
{
    return dtype == DT_BOOL || dtype_is_floating(dtype) || dtype_is_integer(dtype);
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
    if (!array_parse_has(dtype))
        return err_set(err, ERR_UNSUPPORTED, "values of %s cannot be given",
                       dtype_name(dtype));
    if (dtype == DT_BOOL)
        return put_bool(b, word, err);
    if (dtype_is_floating(dtype))
        return put_float(b, dtype, word, err);
    return put_integer(b, dtype, word, err);
}

int array_parse_finish(struct tensor *ret, const struct wbuf *b, enum dtype dtype,
                       const struct shape *shape, struct err *err)
{
    struct tensor t;
    int rc = tensor_alloc(&t, dtype, *shape, err);

    if (rc < 0)
        return rc;
    CHECK(tensor_bytes(&t) == b->len, "%zu bytes for %s", b->len, shape_text(shape));
    if (b->len > 0)
        memcpy(t.data, b->data, b->len);
    *ret = t;
    return 0;
}

/* ---- brackets ---- */

struct parser {
    const char *p, *end;
    enum dtype dtype;
    struct wbuf bytes;
    struct shape shape; /* dim[d]: -1 until the first row of that depth is complete */
    struct err *err;
};

/* Skips blanks and at most one comma. */
static int skip_separator(struct parser *q)
{
    int commas = 0;

    for (; q->p < q->end && (isspace((unsigned char)*q->p) || *q->p == ','); q->p++)
        commas += *q->p == ',';
    return commas < 2 ? 0 : err_set(q->err, ERR_ARG, "two commas in a row");
}

static int parse_number(struct parser *q, int depth)
{
    char word[WORD_MAX];
    size_t n = 0;

    while (q->p < q->end && n < sizeof(word) - 1 && !isspace((unsigned char)*q->p) &&
           strchr("[],", *q->p) == NULL)
        word[n++] = *q->p++;
    word[n] = '\0';
    if (strcmp(word, "...") == 0)
        return err_set(q->err, ERR_ARG, "'...': a summary does not hold all values");
    if (depth != q->shape.rank && q->shape.rank >= 0)
        return err_set(q->err, ERR_ARG,
                       "'%.40s' is not in as many brackets as "
                       "the others",
                       word);
    q->shape.rank = depth;
    return array_parse_word(&q->bytes, q->dtype, word, q->err);
}

int array_parse_close_row(struct shape *shape, int depth, int64_t n, const char *what,
                          struct err *err)
{
    int64_t *dim = &shape->dim[depth];

    if (*dim >= 0 && *dim != n)
        return err_set(err, ERR_ARG, "rows of %lld and of %lld elements", (long long)*dim,
                       (long long)n);
    *dim = n;
    if (shape->rank < 0) /* no element yet: the row is empty */
        shape->rank = depth + 1;
    return shape->rank > depth
               ? 0
               : err_set(err, ERR_ARG, "an empty row stands among %s", what);
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
    return array_parse_close_row(&q->shape, depth, n, "numbers", q->err);
}

static int parse_value(struct parser *q, int depth)
{
    if (*q->p == ']')
        return err_set(q->err, ERR_ARG, "a bracket is closed that was not opened");
    return *q->p == '[' ? parse_row(q, depth) : parse_number(q, depth);
}

static int parse_all(struct parser *q)
{
    int rc = skip_separator(q);

    if (rc == 0 && q->p == q->end)
        rc = err_set(q->err, ERR_ARG, "no value");
    if (rc == 0)
        rc = parse_value(q, 0);
    while (rc == 0 && q->p < q->end && isspace((unsigned char)*q->p))
        q->p++;
    if (rc == 0 && q->p < q->end)
        rc = err_set(q->err, ERR_ARG, "'%.*s' follows the value",
                     (int)(q->end - q->p < 40 ? q->end - q->p : 40), q->p);
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
    rc = parse_all(&q);
    if (rc == 0)
        rc = array_parse_finish(ret, &q.bytes, dtype, &q.shape, err);
    wbuf_done(&q.bytes);
    return rc;
}
