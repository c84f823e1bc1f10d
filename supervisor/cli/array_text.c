#include "supervisor/cli/array_text.h"

#include "common/err/check.h"
#include "common/tensor/half.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PRECISION = 8,
    LINE_WIDTH = 75,
    THRESHOLD = 1000,
    EDGE_ITEMS = 3,
    MAX_DIGITS = 17,
    DIGITS_TEXT = 32,  /* sign, MAX_DIGITS + 1 digits, point, exponent */
    NUMBER_TEXT = 400, /* the longest double without an exponent has 309 digits */
};

/* How all elements of an array are printed, so that their columns align. */
struct format {
    int scientific;
    int left;     /* before the point, with the sign */
    int digits;   /* after the point */
    int exponent; /* digits of the exponent */
    int width;    /* of integers and bool */
};

struct printer {
    const struct tensor *t;
    struct wbuf *out;
    struct wbuf word; /* the element being printed */
    struct format f;
    int summarise;
    double least,
        most; /* magnitudes of the finite values that are not 0; most < 0: none */
    int any_finite, any_nan, any_inf, any_negative_inf;
};

/* ---- elements ---- */

static const void *element(const struct tensor *t, int64_t i)
{
    size_t size =
        t->dtype == DT_STRING ? sizeof(struct tensor_string) : dtype_size(t->dtype);

    return (const char *)t->data + (size_t)i * size;
}

double array_f64(const struct tensor *t, int64_t i)
{
    const void *p = element(t, i);

    switch (t->dtype) {
    case DT_DOUBLE:
        return *(const double *)p;
    case DT_HALF:
        return (double)half_to_f32(*(const uint16_t *)p);
    case DT_BFLOAT16:
        return (double)bfloat16_to_f32(*(const uint16_t *)p);
    default:
        CHECK(t->dtype == DT_FLOAT);
        return (double)*(const float *)p;
    }
}

int array_is_signed(enum dtype dtype)
{
    return dtype == DT_INT8 || dtype == DT_INT16 || dtype == DT_INT32 ||
           dtype == DT_INT64;
}

int64_t array_i64(const struct tensor *t, int64_t i)
{
    const void *p = element(t, i);

    switch (t->dtype) {
    case DT_INT8:
        return *(const int8_t *)p;
    case DT_INT16:
        return *(const int16_t *)p;
    case DT_INT32:
        return *(const int32_t *)p;
    default:
        CHECK(t->dtype == DT_INT64);
        return *(const int64_t *)p;
    }
}

uint64_t array_u64(const struct tensor *t, int64_t i)
{
    const void *p = element(t, i);

    switch (t->dtype) {
    case DT_BOOL:
    case DT_UINT8:
        return *(const uint8_t *)p;
    case DT_UINT16:
        return *(const uint16_t *)p;
    case DT_UINT32:
        return *(const uint32_t *)p;
    default:
        CHECK(t->dtype == DT_UINT64);
        return *(const uint64_t *)p;
    }
}

/* ---- numbers ---- */

static int reads_back(const char *text, double v, enum dtype dtype)
{
    return dtype == DT_DOUBLE ? strtod(text, NULL) == v : (double)strtof(text, NULL) == v;
}

/* The fewest digits after the first that read back as v, in the form d.ddde+dd. */
static int shortest(double v, enum dtype dtype, char text[DIGITS_TEXT])
{
    for (int n = 0; n < MAX_DIGITS; n++) {
        (void)snprintf(text, DIGITS_TEXT, "%.*e", n, v);
        if (reads_back(text, v, dtype))
            return n;
    }
    return MAX_DIGITS;
}

/* Drops zeros from the end of a number that has a point. */
static void trim_zeros(char *text)
{
    size_t n = strlen(text);

    while (n > 0 && text[n - 1] == '0')
        text[--n] = '\0';
}

/* Writes "-12.5" or "3.": always with a point, and at most `precision` digits after
 * it. */
static void positional(double v, enum dtype dtype, int precision, char text[NUMBER_TEXT])
{
    char digits[DIGITS_TEXT];
    int behind = shortest(v, dtype, digits) - atoi(strchr(digits, 'e') + 1);

    if (behind > precision)
        behind = precision;
    (void)snprintf(text, NUMBER_TEXT, "%#.*f", behind > 0 ? behind : 0, v);
    if (behind > 0)
        trim_zeros(text);
}

/* Writes "-1.25e-07": the mantissa always has a point, and at most `precision` digits
 * after it. */
static void scientific(double v, enum dtype dtype, int precision, char text[NUMBER_TEXT])
{
    char digits[DIGITS_TEXT];
    int n = shortest(v, dtype, digits);
    char *e;

    if (n > precision)
        (void)snprintf(digits, sizeof(digits), "%.*e", precision, v);
    e = strchr(digits, 'e');
    *e = '\0';
    if (strchr(digits, '.') != NULL)
        trim_zeros(digits);
    (void)snprintf(text, NUMBER_TEXT, "%s%se%s", digits,
                   strchr(digits, '.') != NULL ? "" : ".", e + 1);
}

static void put_text(struct wbuf *b, const char *text)
{
    wbuf_bytes(b, text, strlen(text));
}

static void put_fill(struct wbuf *b, char c, int n)
{
    while (n-- > 0)
        wbuf_u8(b, (uint8_t)c);
}

static void put_right(struct wbuf *b, const char *text, int width)
{
    put_fill(b, ' ', width - (int)strlen(text));
    put_text(b, text);
}

static const char *nonfinite_text(double v)
{
    return isnan(v) ? "nan" : v < 0 ? "-inf" : "inf";
}

/* Characters after the point. */
static int tail_width(const struct format *f)
{
    return f->digits + (f->scientific ? 2 + f->exponent : 0);
}

/* One float of an array, as wide as the others. */
static void put_float(struct printer *p, double v)
{
    const struct format *f = &p->f;
    char text[NUMBER_TEXT];
    char *point, *e;

    if (!isfinite(v)) {
        put_right(&p->word, nonfinite_text(v), f->left + 1 + tail_width(f));
        return;
    }
    if (f->scientific)
        (void)snprintf(text, sizeof(text), "%#.*e", f->digits, v);
    else
        positional(v, p->t->dtype, PRECISION, text);
    point = strchr(text, '.');
    e = strchr(text, 'e');
    put_fill(&p->word, ' ', f->left - (int)(point - text));
    if (e == NULL) {
        put_text(&p->word, text);
        put_fill(&p->word, ' ', f->digits + 1 - (int)strlen(point));
    } else {
        wbuf_bytes(&p->word, text, (size_t)(e + 2 - text));
        put_fill(&p->word, '0', f->exponent - (int)strlen(e + 2));
        put_text(&p->word, e + 2);
    }
}

static void put_scalar_float(struct printer *p, double v)
{
    char text[NUMBER_TEXT];
    double size = fabs(v);

    if (!isfinite(v)) {
        put_text(&p->word, nonfinite_text(v));
    } else if (size == 0 || (size >= 1e-4 && size < 1e16)) {
        positional(v, p->t->dtype, NUMBER_TEXT, text);
        put_text(&p->word, text);
        if (text[strlen(text) - 1] == '.')
            wbuf_u8(&p->word, '0');
    } else {
        char *e, *point;

        scientific(v, p->t->dtype, MAX_DIGITS, text);
        e = strchr(text, 'e');
        point = strchr(text, '.');
        wbuf_bytes(&p->word, text, (size_t)((point + 1 == e ? point : e) - text));
        put_text(&p->word, e);
    }
}

/* ---- other elements ---- */

/* Python's repr of bytes. */
static void put_bytes_literal(struct wbuf *b, const struct tensor_string *s)
{
    int doubled = s->len_bytes > 0 && memchr(s->bytes, '\'', s->len_bytes) != NULL &&
                  memchr(s->bytes, '"', s->len_bytes) == NULL;
    char quote = doubled ? '"' : '\'';
    char hex[8];

    wbuf_u8(b, 'b');
    wbuf_u8(b, (uint8_t)quote);
    for (size_t i = 0; i < s->len_bytes; i++) {
        uint8_t c = (uint8_t)s->bytes[i];
        static const char SPECIAL[] = "\n\r\t", LETTERS[] = "nrt";
        const char *special = c != 0 ? strchr(SPECIAL, c) : NULL;

        if (special != NULL) {
            wbuf_u8(b, '\\');
            wbuf_u8(b, (uint8_t)LETTERS[special - SPECIAL]);
        } else if (c < 0x20 || c >= 0x7f) {
            (void)snprintf(hex, sizeof(hex), "\\x%02x", (unsigned)c);
            put_text(b, hex);
        } else {
            if (c == quote || c == '\\')
                wbuf_u8(b, '\\');
            wbuf_u8(b, c);
        }
    }
    wbuf_u8(b, (uint8_t)quote);
}

static void integer_text(const struct tensor *t, int64_t i, char text[NUMBER_TEXT])
{
    if (t->dtype == DT_BOOL)
        (void)snprintf(text, NUMBER_TEXT, "%s", array_u64(t, i) != 0 ? "True" : "False");
    else if (array_is_signed(t->dtype))
        (void)snprintf(text, NUMBER_TEXT, "%lld", (long long)array_i64(t, i));
    else
        (void)snprintf(text, NUMBER_TEXT, "%llu", (unsigned long long)array_u64(t, i));
}

static void put_element(struct printer *p, int64_t i)
{
    char text[NUMBER_TEXT];

    if (p->t->dtype == DT_STRING) {
        put_bytes_literal(&p->word, element(p->t, i));
    } else if (!dtype_is_floating(p->t->dtype)) {
        integer_text(p->t, i, text);
        put_right(&p->word, text, p->f.width);
    } else if (p->t->shape.rank == 0) {
        put_scalar_float(p, array_f64(p->t, i));
    } else {
        put_float(p, array_f64(p->t, i));
    }
}

/* ---- the format that fits all shown elements ---- */

typedef void (*visit_fn)(struct printer *p, int64_t i);

/* The index shown after i; a summary skips the middle. */
static int64_t next_shown(const struct printer *p, int64_t n, int64_t i)
{
    if (p->summarise && n > 2 * EDGE_ITEMS && i == EDGE_ITEMS - 1)
        return n - EDGE_ITEMS;
    return i + 1;
}

static void visit_shown(struct printer *p, int axis, int64_t at, visit_fn fn)
{
    int64_t n;

    if (axis == p->t->shape.rank) {
        fn(p, at);
        return;
    }
    n = p->t->shape.dim[axis];
    for (int64_t i = 0; i < n; i = next_shown(p, n, i))
        visit_shown(p, axis + 1, at * n + i, fn);
}

static void widen(int *width, int to)
{
    if (*width < to)
        *width = to;
}

static void note_integer(struct printer *p, int64_t i)
{
    char text[NUMBER_TEXT];

    integer_text(p->t, i, text);
    widen(&p->f.width, p->t->dtype == DT_BOOL ? 5 : (int)strlen(text));
}

static void note_range(struct printer *p, int64_t i)
{
    double v = array_f64(p->t, i), size = fabs(v);

    p->any_nan |= isnan(v);
    p->any_inf |= isinf(v);
    p->any_negative_inf |= isinf(v) && v < 0;
    if (!isfinite(v))
        return;
    p->any_finite = 1;
    if (size == 0)
        return;
    p->least = p->most < 0 || size < p->least ? size : p->least;
    p->most = size > p->most ? size : p->most;
}

static void note_width(struct printer *p, int64_t i)
{
    double v = array_f64(p->t, i);
    char text[NUMBER_TEXT];
    char *point, *e;

    if (!isfinite(v))
        return;
    if (p->f.scientific)
        scientific(v, p->t->dtype, PRECISION, text);
    else
        positional(v, p->t->dtype, PRECISION, text);
    point = strchr(text, '.');
    e = strchr(text, 'e');
    widen(&p->f.left, (int)(point - text));
    widen(&p->f.digits, (int)(e != NULL ? e - point : (long)strlen(point)) - 1);
    if (e != NULL)
        widen(&p->f.exponent, (int)strlen(e + 2));
}

static void choose_float_format(struct printer *p)
{
    p->most = -1;
    visit_shown(p, 0, 0, note_range);
    p->f.scientific =
        p->most > 0 && (p->most >= 1e8 || p->least < 1e-4 || p->most / p->least > 1000);
    visit_shown(p, 0, 0, note_width);
    if (p->any_nan || p->any_inf) {
        int longest = p->any_inf ? 3 + p->any_negative_inf : 3;

        widen(&p->f.left, longest - 1 - tail_width(&p->f));
    }
}

/* ---- layout ---- */

struct row {
    int column, indent, width;
};

/* Appends a word to the row, or begins a new line if it does not fit. */
static void put_word(struct wbuf *out, struct row *row, const void *word, size_t len)
{
    int fits = row->column + 1 + (int)len <= row->width;

    if (row->column > row->indent && fits) {
        wbuf_u8(out, ' ');
        row->column++;
    } else if (row->column > row->indent) {
        while (out->data[out->len - 1] == ' ')
            out->len--;
        wbuf_u8(out, '\n');
        put_fill(out, ' ', row->indent);
        row->column = row->indent;
    }
    wbuf_bytes(out, word, len);
    row->column += (int)len;
}

static void put_row(struct printer *p, int64_t at, int64_t n, int indent, int width)
{
    struct row row = {.column = indent, .indent = indent, .width = width};

    for (int64_t i = 0, next; i < n; i = next) {
        next = next_shown(p, n, i);
        wbuf_clear(&p->word);
        put_element(p, at * n + i);
        put_word(p->out, &row, p->word.data, p->word.len);
        if (next > i + 1)
            put_word(p->out, &row, "...", 3);
    }
}

/* Puts rows on lines of their own, with one more empty line for each outer dimension. */
static void put_axis(struct printer *p, int axis, int64_t at, int indent, int width)
{
    int64_t n = p->t->shape.dim[axis];
    int inner = p->t->shape.rank - axis - 1;

    wbuf_u8(p->out, '[');
    if (inner == 0)
        put_row(p, at, n, indent, width - 1);
    for (int64_t i = 0, next; inner > 0 && i < n; i = next) {
        next = next_shown(p, n, i);
        put_axis(p, axis + 1, at * n + i, indent + 1, width - 1);
        if (next > i + 1) {
            put_fill(p->out, '\n', inner);
            put_fill(p->out, ' ', indent);
            put_text(p->out, "...");
        }
        if (next < n) {
            put_fill(p->out, '\n', inner);
            put_fill(p->out, ' ', indent);
        }
    }
    wbuf_u8(p->out, ']');
}

void array_text_put(struct wbuf *b, const struct tensor *t)
{
    struct printer p = {.t = t, .out = b, .summarise = tensor_elements(t) > THRESHOLD};

    if (t->dtype == DT_COMPLEX64 || t->dtype == DT_COMPLEX128) {
        put_text(b, "<complex numbers are not printed>");
    } else if (t->shape.rank == 0) {
        put_element(&p, 0);
        wbuf_bytes(b, p.word.data, p.word.len);
    } else if (tensor_elements(t) == 0) {
        put_text(b, "[]");
    } else {
        if (dtype_is_floating(t->dtype))
            choose_float_format(&p);
        else if (t->dtype != DT_STRING)
            visit_shown(&p, 0, 0, note_integer);
        put_axis(&p, 0, 0, 1, LINE_WIDTH);
    }
    wbuf_done(&p.word);
}
