/* text.c - values as text: formatted, and printed to the log.
 *
 * Source   string_format_op.cc, as_string_op.cc, logging_ops.cc and framework/tensor.cc of
 *          TensorFlow. */
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"
#include "common/log/log.h"
#include "common/wire/cursor.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void text_put(struct wbuf *b, const char *text)
{
    wbuf_bytes(b, text, strlen(text));
}

/* ---- elements ---- */

/* As few digits as give the number back, of two lengths. */
static void put_real(struct wbuf *b, double v, int is_single)
{
    char text[40];

    (void)snprintf(text, sizeof(text), "%.*g", is_single ? FLT_DIG : DBL_DIG, v);
    if (is_single ? strtof(text, NULL) != (float)v : strtod(text, NULL) != v)
        (void)snprintf(text, sizeof(text), "%.*g", is_single ? FLT_DIG + 3 : DBL_DIG + 2,
                       v);
    text_put(b, isnan(v) ? "nan" : text);
}

/* In quotes, with escapes as in C. */
static void put_quoted(struct wbuf *b, const struct tensor_string *s)
{
    static const char special[] = "\n\r\t\"'\\", *const escaped[] = {"\\n", "\\r",
                                                                     "\\t", "\\\"",
                                                                     "\\'", "\\\\"};

    text_put(b, "\"");
    for (size_t i = 0; i < s->len_bytes; i++) {
        const unsigned char c = (unsigned char)s->bytes[i];
        const char *at = c != '\0' ? strchr(special, c) : NULL;
        char octal[5];

        (void)snprintf(octal, sizeof(octal), "\\%03o", c);
        if (at != NULL)
            text_put(b, escaped[at - special]);
        else if (c < 0x20 || c >= 0x7f)
            text_put(b, octal);
        else
            wbuf_u8(b, c);
    }
    text_put(b, "\"");
}

static int64_t integer_at(const struct tensor *t, int64_t i)
{
    switch (t->dtype) {
    case DT_INT8:
        return ((const int8_t *)t->data)[i];
    case DT_UINT8:
    case DT_BOOL:
        return ((const uint8_t *)t->data)[i];
    case DT_INT16:
        return ((const int16_t *)t->data)[i];
    case DT_UINT16:
        return ((const uint16_t *)t->data)[i];
    default:
        return tensor_int(t, i);
    }
}

static int has_text(enum dtype dtype)
{
    return dtype == DT_FLOAT || dtype == DT_DOUBLE || dtype == DT_INT8 ||
           dtype == DT_INT16 || dtype == DT_INT32 || dtype == DT_INT64 ||
           dtype == DT_UINT8 || dtype == DT_UINT16 || dtype == DT_BOOL ||
           dtype == DT_STRING;
}

static void put_element(struct wbuf *b, const struct tensor *t, int64_t i)
{
    char text[32];

    if (t->dtype == DT_FLOAT) {
        put_real(b, (double)tensor_f32(t)[i], 1);
    } else if (t->dtype == DT_DOUBLE) {
        put_real(b, ((const double *)t->data)[i], 0);
    } else if (t->dtype == DT_STRING) {
        put_quoted(b, (const struct tensor_string *)t->data + i);
    } else {
        (void)snprintf(text, sizeof(text), "%lld", (long long)integer_at(t, i));
        text_put(b, text);
    }
}

/* ---- tensors: rows in brackets, the first and the last `ends` entries of each dimension ---- */

/* Dimensions but the last begin new lines, below the first entry. */
static void put_gap(struct wbuf *b, int dim, int rank)
{
    for (int d = dim; d < rank - 1; d++)
        text_put(b, "\n");
    for (int d = 0; d <= (dim == rank - 1 ? 0 : dim); d++)
        text_put(b, " ");
}

static void put_dim(struct wbuf *b, const struct tensor *t, int64_t ends, int dim,
                    int64_t at)
{
    const int rank = t->shape.rank;
    const int64_t n = dim < rank ? t->shape.dim[dim] : 0;
    const int64_t by = dim < rank ? span(&t->shape, dim + 1, rank) : 0;

    if (dim == rank) {
        put_element(b, t, at);
        return;
    }
    text_put(b, "[");
    for (int64_t i = 0; i < n; i++) {
        if (i == ends && n - i > ends) { /* leaves out what is between the ends */
            put_gap(b, dim, rank);
            text_put(b, "...");
            i = n - ends;
            if (i == n)
                break;
        }
        if (i > 0)
            put_gap(b, dim, rank);
        put_dim(b, t, ends, dim + 1, at + i * by);
    }
    text_put(b, "]");
}

/* ---- kernels ---- */

static int kern_string_format(const struct kernel_args *a)
{
    const struct attr *template = operation_attr(a->op, "template");
    const struct attr *placeholder = operation_attr(a->op, "placeholder");
    const int64_t summarize = attr_int(a->op, "summarize");
    const char *rest = template->s, *at;
    struct wbuf b = {0};

    for (int i = 0; i < a->n_in; i++) {
        const int64_t n = tensor_elements(a->in[i]);

        at = strstr(rest, placeholder->s); /* the shape rule has counted them */
        wbuf_bytes(&b, rest, (size_t)(at - rest));
        rest = at + placeholder->s_len;
        if (!has_text(a->in[i]->dtype)) {
            wbuf_done(&b);
            return err_set(a->err, ERR_UNSUPPORTED, "%s: no text of %s",
                           operation_name(a->op), dtype_name(a->in[i]->dtype));
        }
        put_dim(&b, a->in[i], summarize < 0 || summarize > n ? n : summarize, 0, 0);
    }
    text_put(&b, rest);
    set_string(a->out[0], 0, (struct tensor_string){(char *)b.data, b.len});
    return 0;
}

/* The printf format of the attributes, without its length and conversion. */
static void number_format(const struct operation *op, int with_precision, char *ret,
                          size_t size)
{
    const int64_t width = attr_int(op, "width"), precision = attr_int(op, "precision");
    const struct attr *fill = operation_attr(op, "fill");
    size_t len = (size_t)snprintf(ret, size, "%%%.1s", fill->s_len > 0 ? fill->s : "");

    if (width > 0)
        len += (size_t)snprintf(ret + len, size - len, "%d",
                                (int)(width < 1000 ? width : 1000));
    if (with_precision && precision >= 0)
        (void)snprintf(ret + len, size - len, ".%d",
                       (int)(precision < 100 ? precision : 100));
}

static int kern_as_string(const struct kernel_args *a)
{
    const struct tensor *x = a->in[0];
    const int is_real = x->dtype == DT_FLOAT || x->dtype == DT_DOUBLE;
    char format[48], text[1600];

    if (!has_text(x->dtype) || x->dtype == DT_STRING)
        return err_set(a->err, ERR_UNSUPPORTED, "%s: no text of %s",
                       operation_name(a->op), dtype_name(x->dtype));
    number_format(a->op, is_real, format, sizeof(format) - 4);
    (void)strcat(format, !is_real                        ? "lld"
                         : attr_int(a->op, "scientific") ? "e"
                         : attr_int(a->op, "shortest")   ? "g"
                                                         : "f");
    for (int64_t i = 0; i < tensor_elements(x); i++) {
        struct wbuf b = {0};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        if (x->dtype == DT_BOOL)
            (void)snprintf(text, sizeof(text), "%s", integer_at(x, i) ? "true" : "false");
        else if (is_real)
            (void)snprintf(text, sizeof(text), format,
                           x->dtype == DT_FLOAT ? (double)tensor_f32(x)[i]
                                                : ((const double *)x->data)[i]);
        else
            (void)snprintf(text, sizeof(text), format, (long long)integer_at(x, i));
#pragma GCC diagnostic pop
        text_put(&b, text);
        set_string(a->out[0], i, (struct tensor_string){(char *)b.data, b.len});
    }
    return 0;
}

/* Logs the text, whatever stream it is for. */
static int kern_print(const struct kernel_args *a)
{
    const struct tensor_string *s = a->in[0]->data;

    log_info("%s: %.*s", operation_name(a->op), (int)s->len_bytes,
             s->bytes != NULL ? s->bytes : "");
    return 0;
}

/* ---- shapes ---- */

static int string_format_shape(const struct shape_args *args)
{
    const struct attr *template = operation_attr(args->op, "template");
    const struct attr *placeholder = operation_attr(args->op, "placeholder");
    int n = 0;

    for (const char *at = template->s; placeholder->s_len > 0; n++) {
        at = strstr(at, placeholder->s);
        if (at == NULL)
            break;
        at += placeholder->s_len;
    }
    if (n != args->n_in)
        return err_set(args->err, ERR_ARG, "%d placeholders '%s' for %d inputs", n,
                       placeholder->s, args->n_in);
    return shape_scalar(args);
}

static int as_string_shape(const struct shape_args *args)
{
    const struct attr *fill = operation_attr(args->op, "fill");

    if (fill->s_len > 1 || (fill->s_len == 1 && strchr("0 +-", fill->s[0]) == NULL))
        return err_set(args->err, ERR_ARG,
                       "fill '%s', expected one of '0', ' ', '+', '-'", fill->s);
    return shape_same(args);
}

static const struct op_def rows[] = {
    {"StringFormat", OP_NO_GRADIENT | OP_MAKES_STRINGS, string_format_shape, NULL,
     CALL(kern_string_format),
     "inputs:T -> output:string; T:list(type), template:string=%s, "
     "placeholder:string=%s, summarize:int=3"},
    {"AsString", OP_NO_GRADIENT | OP_MAKES_STRINGS, as_string_shape, NULL,
     CALL(kern_as_string),
     "input:T -> output:string; T:type, precision:int=-1, scientific:bool=false, "
     "shortest:bool=false, width:int=-1, fill:string="},
    {"PrintV2", OP_STATEFUL | OP_AWAITED | OP_NO_GRADIENT, shape_none, NULL,
     CALL(kern_print), "input:string ->; output_stream:string=stderr, end:string=\n",
     .ranks = "0"},
};

const struct op_family ops_of_text = OP_FAMILY(rows);
