#include "supervisor/cli/tensor_text.h"

#include "common/config/yaml_tree.h"
#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "common/msg/frame.h"
#include "common/tensor/half.h"
#include "common/text/plain_text.h"
#include "common/wire/cursor.h"
#include "supervisor/export/npy.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { ELIDED_FROM = 1000, EDGE_ITEMS = 3, MAX_DIGITS = 17, WORD_MAX = 64 };

/* ---- elements ---- */

static int is_complex(enum dtype dtype)
{
    return dtype == DT_COMPLEX64 || dtype == DT_COMPLEX128;
}

static int is_signed(enum dtype dtype)
{
    return dtype == DT_INT8 || dtype == DT_INT16 || dtype == DT_INT32 ||
           dtype == DT_INT64;
}

/* An element of a floating dtype. */
static double real_of(const struct tensor *t, int64_t i)
{
    switch (t->dtype) {
    case DT_DOUBLE:
        return ((const double *)t->data)[i];
    case DT_HALF:
        return (double)half_to_f32(((const uint16_t *)t->data)[i]);
    case DT_BFLOAT16:
        return (double)bfloat16_to_f32(((const uint16_t *)t->data)[i]);
    default:
        CHECK(t->dtype == DT_FLOAT);
        return (double)((const float *)t->data)[i];
    }
}

/* The bytes of a bool or an integer, of which those of a signed one are extended. Relies on
 * little-endian, as integer_read. */
static uint64_t integer_of(const struct tensor *t, int64_t i)
{
    const size_t size = dtype_size(t->dtype);
    const unsigned unused = 64 - 8 * (unsigned)size;
    uint64_t v = 0;

    memcpy(&v, (const char *)t->data + (size_t)i * size, size);
    return is_signed(t->dtype) ? (uint64_t)((int64_t)(v << unused) >> unused) : v;
}

static void put_json_element(struct json *j, const struct tensor *t, int64_t i)
{
    if (t->dtype == DT_STRING) {
        const struct tensor_string *s = (const struct tensor_string *)t->data + i;

        json_strn(j, s->bytes, s->len_bytes);
    } else if (dtype_is_floating(t->dtype)) {
        json_f64(j, real_of(t, i));
    } else if (t->dtype == DT_BOOL) {
        json_bool(j, integer_of(t, i) != 0);
    } else if (is_signed(t->dtype)) {
        json_i64(j, (int64_t)integer_of(t, i));
    } else if (dtype_is_integer(t->dtype)) {
        json_u64(j, integer_of(t, i));
    } else if (is_complex(t->dtype)) { /* [real, imaginary] */
        const int is_wide = t->dtype == DT_COMPLEX128;

        json_array(j);
        for (int64_t k = 2 * i; k < 2 * i + 2; k++)
            json_f64(j, is_wide ? ((const double *)t->data)[k]
                                : (double)((const float *)t->data)[k]);
        json_close(j);
    } else {
        json_null(j);
    }
}

/* ---- printing ---- */

/* The fewest digits that read back as v, a double or a float. */
static void write_real(double v, int is_double, FILE *f)
{
    char text[JSON_NUMBER_MAX];

    for (int digits = 1; digits <= MAX_DIGITS; digits++) {
        (void)snprintf(text, sizeof(text), "%.*g", digits, v);
        if (is_double ? strtod(text, NULL) == v : (double)strtof(text, NULL) == v)
            break;
    }
    (void)fputs(isnan(v) ? "nan" : text, f);
}

static void write_element(const struct tensor *t, int64_t i, FILE *f)
{
    struct json j = {0};
    const char *line;
    size_t len;

    if (dtype_is_floating(t->dtype)) {
        write_real(real_of(t, i), t->dtype == DT_DOUBLE, f);
        return;
    }
    put_json_element(&j, t, i);
    line = json_line(&j, &len);
    (void)fwrite(line, 1, len - 1, f);
    json_done(&j);
}

/* Writes the elements of one index of the axes before `axis`: the at-th one of these. */
static void write_axis(const struct tensor *t, int axis, int64_t at, FILE *f)
{
    const int is_elided = tensor_elements(t) > ELIDED_FROM;
    const int is_last = axis + 1 == t->shape.rank;
    int64_t n;

    if (axis == t->shape.rank) {
        write_element(t, at, f);
        return;
    }
    n = t->shape.dim[axis];
    (void)fputc('[', f);
    for (int64_t i = 0; i < n; i++) {
        if (i == EDGE_ITEMS && is_elided && n > 2 * EDGE_ITEMS) {
            (void)fputs(", ...", f);
            i = n - EDGE_ITEMS;
        }
        if (i > 0 && is_last)
            (void)fputs(", ", f);
        else if (i > 0)
            (void)fprintf(f, ",\n%*s", axis + 1, "");
        write_axis(t, axis + 1, at * n + i, f);
    }
    (void)fputc(']', f);
}

void tensor_text_write(const struct tensor *t, FILE *f)
{
    if (tensor_elements(t) == 0)
        (void)fputs("[]", f);
    else
        write_axis(t, 0, 0, f);
}

/* "[2, 3]" or, tight, "[2,3]" */
static void print_shape(const struct shape *s, const char *separator)
{
    (void)putchar('[');
    for (int i = 0; i < s->rank; i++)
        (void)printf("%s%" PRId64, i > 0 ? separator : "", s->dim[i]);
    (void)puts("]");
}

void tensor_print_line(const char *name, enum dtype dtype, const struct shape *shape)
{
    char label[DTYPE_LABEL_BYTES];

    (void)printf("%s (%s) ", PLAIN_NAME(name),
                 dtype_valid((int)dtype) ? dtype_symbol(dtype)
                                         : dtype_label(dtype, label));
    print_shape(shape, ",");
}

void tensor_print_value(const char *name, const struct tensor *value)
{
    (void)printf("tensor: %s (%s) ", PLAIN_NAME(name), dtype_name(value->dtype));
    print_shape(&value->shape, ", ");
    tensor_text_write(value, stdout);
    (void)putchar('\n');
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
        put_json_element(j, value, i);
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

/* ---- reading one value ---- */

int tensor_text_has(enum dtype dtype)
{
    return dtype == DT_BOOL || dtype == DT_STRING || dtype_is_floating(dtype) ||
           dtype_is_integer(dtype);
}

static int bool_read(uint8_t *to, const char *word)
{
    *to = strcasecmp(word, "true") == 0 || strcmp(word, "1") == 0;
    return *to || strcasecmp(word, "false") == 0 || strcmp(word, "0") == 0;
}

static int real_read(void *to, enum dtype dtype, const char *word)
{
    char *end;

    if (dtype == DT_DOUBLE) {
        *(double *)to = strtod(word, &end);
    } else {
        const float f = strtof(word, &end);

        if (dtype == DT_FLOAT)
            *(float *)to = f;
        else
            *(uint16_t *)to = dtype == DT_HALF ? half_from_f32(f) : bfloat16_from_f32(f);
    }
    return *end == '\0' && end != word;
}

/* Relies on little-endian: a narrower integer is the low bytes of a wider one. */
static int integer_read(void *to, enum dtype dtype, const char *word)
{
    const size_t size = dtype_size(dtype);
    const unsigned bits = 8 * (unsigned)size;
    unsigned long long u;
    int fits;
    char *end;

    errno = 0;
    if (is_signed(dtype)) {
        const long long i = strtoll(word, &end, 10);

        u = (unsigned long long)i;
        fits = bits == 64 || (i >= -(1LL << (bits - 1)) && i < 1LL << (bits - 1));
    } else {
        u = strtoull(word, &end, 10);
        fits = word[0] != '-' && (bits == 64 || u >> bits == 0);
    }
    memcpy(to, &u, size);
    return fits && end != word && *end == '\0' && errno == 0;
}

/* Stores one value, e.g. "-1.5e3", "nan", "0x1.8p1", "7", "true", as element i. It must fit the
 * dtype: integers take no fractions. */
static int put_word(struct tensor *t, int64_t i, const char *word, struct err *err)
{
    void *to = (char *)t->data + (size_t)i * dtype_size(t->dtype);

    if (t->dtype == DT_STRING) {
        struct tensor_string *s = (struct tensor_string *)t->data + i;

        *s = (struct tensor_string){xstrdup(word), strlen(word)};
        return 0;
    }
    if (t->dtype == DT_BOOL           ? bool_read(to, word)
        : dtype_is_floating(t->dtype) ? real_read(to, t->dtype, word)
                                      : integer_read(to, t->dtype, word))
        return 0;
    return err_set(err, ERR_ARG, "'%.40s' is no %s", word, dtype_name(t->dtype));
}

/* ---- lists ---- */

/* Finds the shape of nested lists: that of the first ones, but none of more elements than a list
 * can have. */
static int find_shape(const struct yaml_node *n, struct shape *ret, struct err *err)
{
    int64_t elements;

    *ret = SHAPE_SCALAR;
    for (; n != NULL && n->kind == YAML_LIST; n = n->n > 0 ? n->child[0] : NULL) {
        if (ret->rank == SHAPE_MAX_RANK)
            return err_set(err, ERR_LIMIT, "more than %d dimensions", SHAPE_MAX_RANK);
        ret->dim[ret->rank++] = (int64_t)n->n;
    }
    elements = shape_elements(ret);
    return elements >= 0 && elements <= YAML_MAX_VALUES
               ? 0
               : err_set(err, ERR_ARG, "rows of different numbers of elements");
}

/* Stores the elements of a list that stands in `axis` others, the at-th of these. */
static int put_list(struct tensor *t, const struct yaml_node *n, int axis, int64_t at,
                    struct err *err)
{
    const int is_element = axis == t->shape.rank;
    int rc = 0;

    if (n->kind != (is_element ? YAML_SCALAR : YAML_LIST))
        return err_set(err, ERR_ARG, "expected values, all in equally many brackets");
    if (is_element)
        return put_word(t, at, n->text, err);
    if ((int64_t)n->n != t->shape.dim[axis])
        return err_set(err, ERR_ARG, "rows of %" PRId64 " and of %zu elements",
                       t->shape.dim[axis], n->n);
    for (size_t i = 0; rc == 0 && i < n->n; i++)
        rc = put_list(t, n->child[i], axis + 1, at * (int64_t)n->n + (int64_t)i, err);
    return rc;
}

/* A scalar of all these bytes. */
static int read_string(struct tensor *ret, const char *text, size_t len, struct err *err)
{
    const int rc = tensor_alloc(ret, DT_STRING, SHAPE_SCALAR, err);

    if (rc == 0 && len > 0)
        *(struct tensor_string *)ret->data =
            (struct tensor_string){memcpy(xmalloc(len), text, len), len};
    return rc;
}

/* Whether the first character after blanks is a bracket. */
static int is_list(const char *text, size_t len)
{
    size_t i = 0;

    while (i < len && isspace((unsigned char)text[i]))
        i++;
    return i < len && text[i] == '[';
}

int tensor_text_read(struct tensor *ret, const char *text, size_t len, enum dtype dtype,
                     struct err *err)
{
    struct arena arena = ARENA_ZERO;
    struct yaml_node *root = NULL;
    struct tensor t = TENSOR_NONE;
    struct shape shape;
    int rc;

    if (dtype == DT_STRING && !is_list(text, len))
        return read_string(ret, text, len, err);
    rc = yaml_tree_parse(&root, &arena, text, len, "the text", 0, err);
    if (rc == 0)
        rc = find_shape(root, &shape, err);
    if (rc == 0)
        rc = tensor_alloc(&t, dtype, shape, err);
    if (rc == 0)
        rc = put_list(&t, root, 0, 0, err);
    if (rc == 0)
        *ret = t;
    else
        tensor_free(&t);
    arena_done(&arena);
    return rc;
}

/* ---- files ---- */

/* Converts *t in place: through text, which is exact; floats as hexadecimal. */
static int convert(struct tensor *t, enum dtype dtype, struct err *err)
{
    struct tensor to = TENSOR_NONE;
    char word[WORD_MAX];
    int rc;

    if (t->dtype == dtype)
        return 0;
    if (t->dtype == DT_STRING || dtype == DT_STRING || is_complex(t->dtype))
        return err_set(err, ERR_DTYPE, "expected %s, not %s", dtype_name(dtype),
                       dtype_name(t->dtype));
    rc = tensor_alloc(&to, dtype, t->shape, err);
    for (int64_t i = 0; rc == 0 && i < tensor_elements(t); i++) {
        if (dtype_is_floating(t->dtype))
            (void)snprintf(word, sizeof(word), dtype_is_floating(dtype) ? "%a" : "%.17g",
                           real_of(t, i));
        else
            (void)snprintf(word, sizeof(word),
                           is_signed(t->dtype) ? "%" PRId64 : "%" PRIu64,
                           integer_of(t, i));
        rc = put_word(&to, i, word, err);
    }
    tensor_free(t);
    *t = to;
    return rc;
}

static int read_rows(struct tensor *ret, char *text, enum dtype dtype, struct err *err)
{
    static const char blanks[] = " \t\r,;";
    struct tensor one = TENSOR_NONE;
    struct wbuf b = {0};
    int64_t rows = 0, columns = 0;
    char *lines, *words;
    int rc = tensor_alloc(&one, dtype, SHAPE_SCALAR, err);

    for (char *line = strtok_r(text, "\n", &lines); rc == 0 && line != NULL;
         line = strtok_r(NULL, "\n", &lines)) {
        int64_t n = 0;

        for (char *word = strtok_r(line, blanks, &words); rc == 0 && word != NULL;
             word = strtok_r(NULL, blanks, &words), n++) {
            rc = put_word(&one, 0, word, err);
            wbuf_bytes(&b, one.data, tensor_bytes(&one));
        }
        if (rc == 0 && n > 0 && rows > 0 && n != columns)
            rc = err_set(err, ERR_ARG, "rows of %" PRId64 " and of %" PRId64 " numbers",
                         columns, n);
        columns = n > 0 ? n : columns;
        rows += n > 0;
    }
    if (rc == 0 && rows == 0)
        rc = err_set(err, ERR_ARG, "no value");
    if (rc == 0)
        rc = tensor_alloc(ret, dtype,
                          rows * columns == 1         ? SHAPE_SCALAR
                          : rows == 1 || columns == 1 ? SHAPE(rows * columns)
                                                      : SHAPE(rows, columns),
                          err);
    if (rc == 0)
        memcpy(ret->data, b.data, b.len);
    tensor_free(&one);
    wbuf_done(&b);
    return rc;
}

int tensor_file_read(struct tensor *ret, const char *path, enum dtype dtype,
                     struct err *err)
{
    struct tensor t = TENSOR_NONE;
    struct wbuf b = {0};
    int rc = wbuf_read_file(&b, path, FRAME_MAX_BYTES, err);

    if (rc < 0) {
        wbuf_done(&b);
        return rc;
    }
    wbuf_u8(&b, '\0');
    b.len--;
    if (npy_is_one(&b)) {
        rc = npy_read(&t, &b, err);
        if (rc == 0)
            rc = convert(&t, dtype, err);
    } else if (dtype == DT_STRING) {
        rc = read_string(&t, (const char *)b.data, b.len, err);
    } else if (is_list((const char *)b.data, b.len)) {
        rc = tensor_text_read(&t, (const char *)b.data, b.len, dtype, err);
    } else {
        rc = read_rows(&t, (char *)b.data, dtype, err);
    }
    wbuf_done(&b);
    if (rc == 0) {
        *ret = t;
        return 0;
    }
    tensor_free(&t);
    (void)err_wrap(err, "%s", path);
    (void)err_note(err, ERR_AT(.file = path));
    return rc;
}

/* ---- names ---- */

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
