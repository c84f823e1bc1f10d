#include "supervisor/cli/tensor_print.h"

#include "common/config/yaml_tree.h"
#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "common/tensor/half.h"
#include "common/text/plain_text.h"
#include "common/wire/cursor.h"
#include "supervisor/metrics/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LINE_WIDTH = 100,
    THRESHOLD = 1000,
    EDGE_ITEMS = 3,
    MAX_DIGITS = 17,
    NUMBER_TEXT = 32,
};

struct printer {
    const struct tensor *t;
    struct wbuf *out;
    struct wbuf word; /* the element being printed */
    size_t line;      /* where in `out` the line begins */
    int summarise;
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

/* ---- one element ---- */

static void put_text(struct wbuf *b, const char *text)
{
    wbuf_bytes(b, text, strlen(text));
}

/* The fewest digits that read back as v, a double or a float. */
static void put_float(struct wbuf *b, double v, int is_double)
{
    char text[NUMBER_TEXT];

    for (int digits = 1; digits <= MAX_DIGITS; digits++) {
        (void)snprintf(text, sizeof(text), "%.*g", digits, v);
        if (is_double ? strtod(text, NULL) == v : (double)strtof(text, NULL) == v)
            break;
    }
    put_text(b, isnan(v) ? "nan" : text);
}

static void put_string(struct wbuf *b, const struct tensor_string *s)
{
    static const char special[] = "\"\\\n\r\t", letters[] = "\"\\nrt";
    char hex[8];

    wbuf_u8(b, '"');
    for (size_t i = 0; i < s->len_bytes; i++) {
        const uint8_t c = (uint8_t)s->bytes[i];
        const char *at = c != 0 ? strchr(special, c) : NULL;

        if (at != NULL) {
            wbuf_u8(b, '\\');
            wbuf_u8(b, (uint8_t)letters[at - special]);
        } else if (c < 0x20 || c >= 0x7f) {
            (void)snprintf(hex, sizeof(hex), "\\x%02x", (unsigned)c);
            put_text(b, hex);
        } else {
            wbuf_u8(b, c);
        }
    }
    wbuf_u8(b, '"');
}

static void put_element(struct wbuf *b, const struct tensor *t, int64_t i)
{
    char text[NUMBER_TEXT];

    if (t->dtype == DT_STRING) {
        put_string(b, element(t, i));
    } else if (dtype_is_floating(t->dtype)) {
        put_float(b, array_f64(t, i), t->dtype == DT_DOUBLE);
    } else if (t->dtype == DT_BOOL) {
        put_text(b, array_u64(t, i) != 0 ? "true" : "false");
    } else {
        if (array_is_signed(t->dtype))
            (void)snprintf(text, sizeof(text), "%" PRId64, array_i64(t, i));
        else
            (void)snprintf(text, sizeof(text), "%" PRIu64, array_u64(t, i));
        put_text(b, text);
    }
}

/* ---- rows ---- */

static void break_line(struct printer *p, int indent)
{
    wbuf_u8(p->out, '\n');
    p->line = p->out->len;
    while (indent-- > 0)
        wbuf_u8(p->out, ' ');
}

/* The index shown after i; a summary skips the middle. */
static int64_t next_shown(const struct printer *p, int64_t n, int64_t i)
{
    const int skips = p->summarise && n > 2 * EDGE_ITEMS && i == EDGE_ITEMS - 1;

    return skips ? n - EDGE_ITEMS : i + 1;
}

static void put_axis(struct printer *p, int axis, int64_t at);

/* Element i of an axis: a number, on a new line if it does not fit; or a row, on its own. */
static void put_item(struct printer *p, int axis, int64_t at, int is_first)
{
    if (axis + 1 < p->t->shape.rank) {
        if (!is_first)
            break_line(p, axis + 1);
        put_axis(p, axis + 1, at);
        return;
    }
    wbuf_clear(&p->word);
    put_element(&p->word, p->t, at);
    if (!is_first && p->out->len - p->line + 1 + p->word.len + 1 > LINE_WIDTH)
        break_line(p, axis + 1);
    else if (!is_first)
        wbuf_u8(p->out, ' ');
    wbuf_bytes(p->out, p->word.data, p->word.len);
}

static void put_axis(struct printer *p, int axis, int64_t at)
{
    const int64_t n = p->t->shape.dim[axis];

    wbuf_u8(p->out, '[');
    for (int64_t i = 0, next; i < n; i = next) {
        next = next_shown(p, n, i);
        put_item(p, axis, at * n + i, i == 0);
        if (next < n)
            wbuf_u8(p->out, ',');
        if (next > i + 1)
            put_text(p->out, " ...,");
    }
    wbuf_u8(p->out, ']');
}

void array_text_put(struct wbuf *b, const struct tensor *t)
{
    struct printer p = {
        .t = t, .out = b, .line = b->len, .summarise = tensor_elements(t) > THRESHOLD};

    if (t->dtype == DT_COMPLEX64 || t->dtype == DT_COMPLEX128)
        put_text(b, "<complex numbers are not printed>");
    else if (t->shape.rank == 0)
        put_element(b, t, 0);
    else if (tensor_elements(t) == 0)
        put_text(b, "[]");
    else
        put_axis(&p, 0, 0);
    wbuf_done(&p.word);
}

/* ---- tensors, on stdout ---- */

/* "[2, 3]" or, tight, "[2,3]" */
static void print_shape(const struct shape *s, const char *separator)
{
    (void)putchar('[');
    for (int i = 0; i < s->rank; i++)
        (void)printf("%s%" PRId64, i > 0 ? separator : "", s->dim[i]);
    (void)putchar(']');
}

void tensor_print_line(const char *name, enum dtype dtype, const struct shape *shape)
{
    char label[DTYPE_LABEL_BYTES];

    (void)printf("%s (%s) ", PLAIN_NAME(name),
                 dtype_valid((int)dtype) ? dtype_symbol(dtype)
                                         : dtype_label(dtype, label));
    print_shape(shape, ",");
    (void)putchar('\n');
}

void tensor_print_value(const char *name, const struct tensor *value)
{
    struct wbuf b = {0};

    (void)printf("tensor: %s (%s) ", PLAIN_NAME(name), dtype_name(value->dtype));
    print_shape(&value->shape, ", ");
    array_text_put(&b, value);
    (void)putchar('\n');
    (void)fwrite(b.data, 1, b.len, stdout);
    (void)putchar('\n');
    wbuf_done(&b);
}

/* [real, imaginary] */
static void json_complex(struct json *j, const struct tensor *t, int64_t i)
{
    const void *at = (const char *)t->data + (size_t)i * dtype_size(t->dtype);

    json_array(j);
    for (int k = 0; k < 2; k++)
        json_f64(j, t->dtype == DT_COMPLEX64 ? (double)((const float *)at)[k]
                                             : ((const double *)at)[k]);
    json_close(j);
}

static void json_element(struct json *j, const struct tensor *t, int64_t i)
{
    if (t->dtype == DT_STRING) {
        const struct tensor_string *s = (const struct tensor_string *)t->data + i;

        json_strn(j, s->bytes, s->len_bytes);
    } else if (dtype_is_floating(t->dtype)) {
        json_f64(j, array_f64(t, i));
    } else if (array_is_signed(t->dtype)) {
        json_i64(j, array_i64(t, i));
    } else if (t->dtype == DT_BOOL) {
        json_bool(j, array_u64(t, i) != 0);
    } else if (dtype_is_integer(t->dtype)) {
        json_u64(j, array_u64(t, i));
    } else if (t->dtype == DT_COMPLEX64 || t->dtype == DT_COMPLEX128) {
        json_complex(j, t, i);
    } else {
        json_null(j);
    }
}

void tensor_put_json(struct json *j, const char *name, enum dtype dtype,
                     const struct shape *shape, const struct tensor *value)
{
    char label[DTYPE_LABEL_BYTES];

    if (name != NULL)
        json_put_str(j, "name", name);
    json_put_str(j, "dtype", dtype_label(dtype, label));
    json_put_array(j, "shape");
    for (int i = 0; i < shape->rank; i++)
        json_i64(j, shape->dim[i]);
    json_close(j);
    if (value == NULL)
        return;
    json_put_array(j, "values");
    for (int64_t i = 0; i < tensor_elements(value); i++)
        json_element(j, value, i);
    json_close(j);
}

void tensor_print_json(const char *name, enum dtype dtype, const struct shape *shape,
                       const struct tensor *value)
{
    struct json j = {0};

    json_object(&j);
    tensor_put_json(&j, name, dtype, shape, value);
    json_print(&j, stdout);
}

int checkpoint_find_tensor(struct bundle_reader *r, const char *name,
                           const struct bundle_entry **ret, struct err *err)
{
    const size_t n = bundle_reader_count(r);
    const char **names;

    *ret = bundle_reader_find(r, name);
    if (*ret != NULL)
        return 0;
    names = xcalloc(n + 1, sizeof(*names));
    for (size_t i = 0; i < n; i++)
        names[i] = bundle_reader_entry(r, i)->name;
    (void)err_set(err, ERR_NOT_FOUND, "Tensor %s not found in checkpoint", name);
    (void)yaml_add_nearest(err, name, names, n);
    free(names);
    (void)err_note(err, ERR_AT(.tensor = name));
    return ERR_NOT_FOUND;
}
