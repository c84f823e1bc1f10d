/* The types of values: how each is read, written and compared. */
#include "common/config/schema_internal.h"
#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SHOWN_MAX_BYTES = 60, /* bytes of a value that an error quotes */
    TEXT_MAX_BYTES = 4095,
};

_Static_assert(sizeof(enum optimizer_type) == sizeof(int), "enums are read as int");

int field_is_unset(double v)
{
    return isnan(v);
}

/* ---- reading ---- */

/* What is being read: the node, its field and the destination. */
struct reading {
    const struct field *field;
    const struct yaml_node *node;
    const char *path;
    void *dst;
    struct arena *arena;
    struct err *err;
};

static const char *kind_name(const struct yaml_node *n)
{
    switch (n->kind) {
    case YAML_LIST:
        return n->n > 0 ? "a list" : "an empty list";
    case YAML_MAP:
        return "a map";
    default:
        return n->quoted ? "a quoted text" : "nothing";
    }
}

static int unexpected(const struct reading *r, const char *expected)
{
    const struct yaml_node *n = r->node;

    if (n->kind != YAML_SCALAR || n->text[0] == '\0')
        return yaml_fail(n, r->path, r->err, "found %s, expected %s", kind_name(n),
                         expected);
    return yaml_fail(n, r->path, r->err, "found %s'%.*s', expected %s",
                     n->quoted ? "the text " : "", SHOWN_MAX_BYTES, n->text, expected);
}

/* what: "a number" */
static int unexpected_number(const struct reading *r, const char *what)
{
    const struct field *f = r->field;
    const char *none = schema_may_be_none(f) ? "none or " : "";
    const char *above = f->flags & FIELD_ABOVE_MIN ? "above" : "of at least";
    char expected[160];

    if (isinf(f->min) && isinf(f->max))
        (void)snprintf(expected, sizeof(expected), "%s%s", none, what);
    else if (isinf(f->max))
        (void)snprintf(expected, sizeof(expected), "%s%s %s %.15g", none, what, above,
                       f->min);
    else
        (void)snprintf(expected, sizeof(expected), "%s%s %s %.15g and at most %.15g",
                       none, what, above, f->min, f->max);
    return unexpected(r, expected);
}

static int store(const struct reading *r, const void *value, size_t size)
{
    memcpy(r->dst, value, size);
    return 0;
}

/* Whether the node is a scalar. Numbers, times and sizes may be in quotes: nothing else
 * could be meant. */
static int is_scalar(const struct yaml_node *n)
{
    return n->kind == YAML_SCALAR;
}

static int in_range(const struct field *f, double v)
{
    return (f->flags & FIELD_ABOVE_MIN ? v > f->min : v >= f->min) && v <= f->max;
}

/* Parses a decimal number at the start of text; refuses hexadecimal numbers, "inf" and
 * "nan". */
static int scan_number(const char *text, double *ret, const char **ret_end)
{
    size_t len = strspn(text, "+-.0123456789eE");
    char *end;

    if (len == 0 || strpbrk(text, "0123456789") == NULL)
        return 0;
    *ret = strtod(text, &end);
    *ret_end = end;
    return end > text && (size_t)(end - text) <= len && isfinite(*ret);
}

/* Agents hold numbers in 32 bits. */
static int is_finite_f32(double v)
{
    return isfinite((float)v);
}

/* Whether a number above the minimum is the minimum in 32 bits. */
static int is_min_f32(const struct field *f, double v)
{
    return f->flags & FIELD_ABOVE_MIN && (double)(float)v <= f->min;
}

static int read_f64(const struct reading *r)
{
    const char *end;
    double v;

    if (!is_scalar(r->node) || !scan_number(r->node->text, &v, &end) || *end != '\0' ||
        !in_range(r->field, v))
        return unexpected_number(r, "a number");
    if (!is_finite_f32(v))
        return unexpected(r, "a number that is finite in 32 bits (at most 3.4e38)");
    if (is_min_f32(r->field, v))
        return unexpected(r, "a number that is not 0 in 32 bits (at least 1.4e-45)");
    return store(r, &v, sizeof(v));
}

/* Parses a whole number: 1000000 or 1e6. */
static int scan_whole(const char *text, int64_t *ret)
{
    const char *end;
    char *int_end;
    double v;

    errno = 0;
    *ret = strtoll(text, &int_end, 10);
    if (int_end > text && *int_end == '\0' && errno == 0)
        return 1;
    if (!scan_number(text, &v, &end) || *end != '\0' || v != floor(v) || fabs(v) > 0x1p53)
        return 0;
    *ret = (int64_t)v;
    return 1;
}

static int fits_f32(const struct field *f, double v)
{
    return is_finite_f32(v) && in_range(f, v) && !is_min_f32(f, v);
}

/* Whether the values are within the range and finite in 32 bits. */
static int schedule_fits(const struct field *f, const struct schedule *v)
{
    const int ends_at_min = (f->flags & FIELD_ENDS_AT_MIN) != 0 && v->to == f->min;

    if (!fits_f32(f, v->from))
        return 0;
    if (v->over == 0)
        return v->to == v->from;
    return (fits_f32(f, v->to) || ends_at_min) && v->over >= 1 &&
           v->over <= SCHEDULE_MAX_STEPS;
}

static int read_schedule(const struct reading *r)
{
    static const struct field any = {
        .type = FIELD_F64, .min = -HUGE_VAL, .max = HUGE_VAL};
    struct schedule v;

    if (!schedule_is_form(r->node)) {
        double number;
        struct reading plain = *r;
        int rc;

        plain.dst = &number;
        if ((rc = read_f64(&plain)) < 0)
            return rc;
        v = (struct schedule){number, number, 0};
    } else if (schedule_read(&any, r->node, r->path, &v, NULL) < 0 ||
               !schedule_fits(r->field, &v)) {
        return unexpected(r, "a schedule within the number's range, such as 1 to 0.05 "
                             "over 50000");
    }
    return store(r, &v, sizeof(v));
}

static int read_i64(const struct reading *r)
{
    int64_t v;

    if (!is_scalar(r->node) || !scan_whole(r->node->text, &v) ||
        !in_range(r->field, (double)v))
        return unexpected_number(r, "a whole number");
    return store(r, &v, sizeof(v));
}

static int read_u64(const struct reading *r)
{
    uint64_t v;

    if (!is_scalar(r->node) || !text_u64(r->node->text, &v))
        return unexpected_number(r, "a whole number");
    return store(r, &v, sizeof(v));
}

static int read_bool(const struct reading *r)
{
    int v = is_scalar(r->node) && strcmp(r->node->text, "true") == 0;

    if (!v && (!is_scalar(r->node) || strcmp(r->node->text, "false") != 0))
        return unexpected(r, "true or false");
    return store(r, &v, sizeof(v));
}

int schema_is_name(const char *text)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                  "0123456789_.-";
    size_t len = strlen(text);

    return len > 0 && len < AGENT_NAME_MAX && strspn(text, allowed) == len &&
           text[0] != '.' && text[0] != '-';
}

int schema_is_reserved(const char *name)
{
    static const char *const reserved[] = {"central", "run.state", "supervisor", "hooks",
                                           NULL};
    const char *evaluates = text_after(name, "eval_");
    const char *number = text_after(evaluates != NULL ? evaluates : name, "env_");

    return text_find(reserved, name) >= 0 || (number != NULL && text_is_digits(number));
}

static int store_text(const struct reading *r, const char *text)
{
    const char *copy = arena_strdup(r->arena, text);

    return store(r, &copy, sizeof(copy));
}

static int read_name(const struct reading *r)
{
    if (r->node->kind != YAML_SCALAR || !schema_is_name(r->node->text))
        return unexpected(r, SCHEMA_NAME_EXPECTED);
    return store_text(r, r->node->text);
}

static int read_text(const struct reading *r)
{
    if (yaml_is_null(r->node))
        return store_text(r, NULL);
    if (r->node->kind != YAML_SCALAR || r->node->text[0] == '\0' ||
        strlen(r->node->text) > TEXT_MAX_BYTES)
        return unexpected(r, "a text of 1 to 4095 bytes");
    return store_text(r, r->node->text);
}

static int read_tree(const struct reading *r)
{
    const struct yaml_node *copy = NULL;

    if (r->node->kind != YAML_MAP && !yaml_is_null(r->node))
        return unexpected(r, "a map of keys");
    if (r->node->n == 0 && r->field->default_text != NULL)
        return yaml_fail(r->node, r->path, r->err, "is empty, expected e.g. %s",
                         r->field->default_text);
    if (r->node->n > 0)
        copy = yaml_tree_copy(r->node, r->arena);
    return store(r, &copy, sizeof(copy));
}

static int read_words(const struct reading *r)
{
    const struct yaml_node *copy;

    if (r->node->kind != YAML_LIST || r->node->n == 0)
        return unexpected(r, "a list of at least one word");
    for (size_t i = 0; i < r->node->n; i++) {
        struct reading word = *r;

        word.node = r->node->child[i];
        if (word.node->kind != YAML_SCALAR)
            return unexpected(&word, "a word");
    }
    copy = yaml_tree_copy(r->node, r->arena);
    return store(r, &copy, sizeof(copy));
}

/* Reads one name, or a list of names. */
static int read_names(const struct reading *r)
{
    const int is_list = r->node->kind == YAML_LIST;
    const size_t n = is_list ? r->node->n : 1;
    char text[TEXT_MAX_BYTES + 1];
    size_t len = 0;

    for (size_t i = 0; i < n && !yaml_is_null(r->node); i++) {
        struct reading name = *r;

        name.node = is_list ? r->node->child[i] : r->node;
        if (name.node->kind != YAML_SCALAR || !schema_is_name(name.node->text))
            return unexpected(&name, SCHEMA_NAME_EXPECTED);
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", i > 0 ? " " : "",
                                name.node->text);
        if (len >= sizeof(text))
            return unexpected(r, "a list of names of at most 4095 bytes in all");
    }
    if (len == 0 && !yaml_is_null(r->node))
        return unexpected(r, "a name or a list of names");
    return store_text(r, len > 0 ? text : NULL);
}

static int read_enum(const struct reading *r)
{
    const char *const *names = r->field->names;
    const size_t n = schema_count_names(names);
    int v;

    if (r->node->kind != YAML_SCALAR) {
        char list[LIST_MAX_BYTES];

        schema_join_choices(list, sizeof(list), names, n);
        return unexpected(r, list);
    }
    v = text_find(names, r->node->text);
    return v >= 0 ? store(r, &v, sizeof(v))
                  : schema_fail_choice(r->node, r->path, r->node->text, names, n, r->err);
}

/* Parses a number followed by one of the units, and multiplies by the unit's factor. */
struct unit {
    const char *suffix;
    double factor, divisor;
};

static const struct unit byte_units[] = {
    {"K", 0x1p10, 1}, {"M", 0x1p20, 1}, {"G", 0x1p30, 1}, {"T", 0x1p40, 1}, {"B", 1, 1}};
static const struct unit time_units[] = {
    {"s", 1, 1}, {"ms", 1, 1000}, {"m", 60, 1}, {"h", 3600, 1}};

static int scan_unit(const struct yaml_node *n, const struct unit *units, size_t n_units,
                     double *ret)
{
    const char *end;
    double v;

    if (!is_scalar(n) || !scan_number(n->text, &v, &end))
        return 0;
    for (size_t i = 0; i < n_units; i++) {
        if (strcmp(end, units[i].suffix) == 0) {
            *ret = v * units[i].factor / units[i].divisor;
            return 1;
        }
    }
    return 0;
}

static int read_bytes(const struct reading *r)
{
    int64_t bytes;
    double v;

    if (!scan_unit(r->node, byte_units, 5, &v) || v < 1 || v > 0x1p60)
        return unexpected(r, "none or a size with its unit, such as 512M (B, K, M, "
                             "G, T)");
    bytes = (int64_t)v;
    return store(r, &bytes, sizeof(bytes));
}

static int read_seconds(const struct reading *r)
{
    char none[80];
    double v;

    (void)snprintf(none, sizeof(none),
                   "none or a time of %gs or more such as 5m (ms, s, m, h)",
                   r->field->min);
    if (!scan_unit(r->node, time_units, 4, &v) || !in_range(r->field, v))
        return unexpected(r, schema_may_be_none(r->field) ? none
                             : r->field->flags & FIELD_ABOVE_MIN
                                 ? "a time above 0 such as 30s or 100ms (ms, s, m, h)"
                                 : "a time such as 30s or 100ms (ms, s, m, h)");
    return store(r, &v, sizeof(v));
}

static int read_sizes(const struct reading *r)
{
    const char *expected = "a list of at most 16 layer sizes, each 1 to 65536";
    struct layer_sizes s = {0};

    if (r->node->kind != YAML_LIST || r->node->n > CONFIG_MAX_LAYERS)
        return unexpected(r, expected);
    for (size_t i = 0; i < r->node->n; i++) {
        struct reading element = *r;

        element.node = r->node->child[i];
        if (!is_scalar(element.node) || !scan_whole(element.node->text, &s.size[i]) ||
            s.size[i] < 1 || s.size[i] > CONFIG_MAX_UNITS)
            return unexpected(&element, expected);
    }
    s.n = (int)r->node->n;
    return store(r, &s, sizeof(s));
}

static int read_convs(const struct reading *r)
{
    const char *expected = "a list of at most 8 convolutions [filters, kernel, stride], "
                           "each number 1 to 1024";
    struct conv_layers s = {.n = (int64_t)r->node->n};

    if (r->node->kind != YAML_LIST || s.n > CONFIG_MAX_CONVS)
        return unexpected(r, expected);
    for (size_t i = 0; i < 3 * r->node->n; i++) {
        struct conv_layer *layer = &s.layer[i / 3];
        int64_t *const numbers[] = {&layer->filters, &layer->kernel, &layer->stride};
        int64_t *v = numbers[i % 3];
        struct reading element = *r;

        element.node = r->node->child[i / 3];
        if (element.node->kind != YAML_LIST || element.node->n != 3 ||
            !is_scalar(element.node->child[i % 3]) ||
            !scan_whole(element.node->child[i % 3]->text, v) || *v < 1 ||
            *v > CONFIG_MAX_CONV)
            return unexpected(&element, expected);
    }
    return store(r, &s, sizeof(s));
}

/* Reads permission bits. The owner must have all of them: the run could not work
 * otherwise. */
static int read_mode(const struct reading *r)
{
    const char *text = r->node->text;
    const size_t digits = r->node->kind == YAML_SCALAR ? strspn(text, "01234567") : 0;
    const int64_t v = digits > 0 ? strtol(text, NULL, 8) : 0;

    if (digits < 3 || digits > 4 || text[digits] != '\0' || v > 0777 || v < 0700)
        return unexpected(r, "permissions in octal from 0700 to 0777, as 0750");
    return store(r, &v, sizeof(v));
}

/* ---- writing ---- */

/* Writes the shortest text that is read back as the same number. Whole numbers are
 * written in full (30, not 3e+01). 1.0e-08 has a point because YAML 1.1 reads an exponent
 * without one as text. */
static void put_f64(double v, FILE *f)
{
    char text[40];
    const char *e;

    if (fabs(v) < 1e9 && trunc(v) == v) {
        (void)fprintf(f, "%.0f", v);
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        (void)snprintf(text, sizeof(text), "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            break;
    }
    e = strchr(text, 'e');
    if (e != NULL && strchr(text, '.') == NULL)
        (void)fprintf(f, "%.*s.0%s", (int)(e - text), text, e);
    else
        (void)fputs(text, f);
}

/* Any value, as its row says. */
union value {
    int choice;
    int64_t whole;
    double real;
    struct schedule schedule;
    const char *text; /* "" for NULL */
    const struct yaml_node *tree;
    struct layer_sizes sizes;
    struct conv_layers convs;
};

static union value value_at(const struct field *f, const void *p)
{
    union value v = {.convs = {0}};

    memcpy(&v, p, schema_value_size(f->type));
    if (schema_is_text(f) && v.text == NULL)
        v.text = "";
    return v;
}

static void write_i64(const struct field *f, const union value *v, FILE *out)
{
    (void)fprintf(out, "%lld", (long long)v->whole);
}

static void write_u64(const struct field *f, const union value *v, FILE *out)
{
    (void)fprintf(out, "%llu", (unsigned long long)v->whole);
}

static void write_mode(const struct field *f, const union value *v, FILE *out)
{
    (void)fprintf(out, "0%llo", (unsigned long long)v->whole);
}

static void write_bytes(const struct field *f, const union value *v, FILE *out)
{
    static const char suffixes[] = "BKMGT";
    long long n = v->whole;
    int unit = 0;

    for (; n % 1024 == 0 && unit < 4; unit++)
        n /= 1024;
    (void)fprintf(out, "%lld%c", n, suffixes[unit]);
}

static void write_f64(const struct field *f, const union value *v, FILE *out)
{
    put_f64(v->real, out);
}

static void write_seconds(const struct field *f, const union value *v, FILE *out)
{
    put_f64(v->real, out);
    (void)fputc('s', out);
}

static void write_schedule(const struct field *f, const union value *v, FILE *out)
{
    schedule_write(f, &v->schedule, out);
}

static void write_bool(const struct field *f, const union value *v, FILE *out)
{
    (void)fputs(v->choice ? "true" : "false", out);
}

static void write_enum(const struct field *f, const union value *v, FILE *out)
{
    if (v->choice != FIELD_UNSET_ENUM)
        (void)fputs(f->names[v->choice], out);
}

static void write_name(const struct field *f, const union value *v, FILE *out)
{
    (void)fputs(v->text, out);
}

static void write_text(const struct field *f, const union value *v, FILE *out)
{
    yaml_text_write(v->text, out);
}

/* Writes "a" or "[a, b]". */
static void write_names(const struct field *f, const union value *v, FILE *out)
{
    const char *names = v->text;
    const int is_list = strchr(names, ' ') != NULL;

    (void)fputs(is_list ? "[" : "", out);
    for (; *names != '\0'; names++)
        (void)fputs(*names == ' ' ? ", " : (char[]){*names, '\0'}, out);
    (void)fputs(is_list ? "]" : "", out);
}

static void write_sizes(const struct field *f, const union value *v, FILE *out)
{
    const struct layer_sizes *s = &v->sizes;

    (void)fputc('[', out);
    for (int i = 0; i < s->n; i++)
        (void)fprintf(out, "%s%lld", i > 0 ? ", " : "", (long long)s->size[i]);
    (void)fputc(']', out);
}

static void write_convs(const struct field *f, const union value *v, FILE *out)
{
    const struct conv_layers *s = &v->convs;

    (void)fputc('[', out);
    for (int64_t i = 0; i < s->n; i++)
        (void)fprintf(out, "%s[%lld, %lld, %lld]", i > 0 ? ", " : "",
                      (long long)s->layer[i].filters, (long long)s->layer[i].kernel,
                      (long long)s->layer[i].stride);
    (void)fputc(']', out);
}

static void write_tree(const struct field *f, const union value *v, FILE *out)
{
    yaml_tree_write(v->tree, out);
}

/* ---- the types ---- */

static const struct type {
    enum field_storage stored;
    int (*read)(const struct reading *r);
    void (*write)(const struct field *f, const union value *v, FILE *out);
} types[] = {
    [FIELD_I64] = {STORED_WHOLE, read_i64, write_i64},
    [FIELD_U64] = {STORED_WHOLE, read_u64, write_u64},
    [FIELD_F64] = {STORED_REAL, read_f64, write_f64},
    [FIELD_F64_OR_NONE] = {STORED_REAL, read_f64, write_f64},
    [FIELD_SCHEDULE] = {STORED_SCHEDULE, read_schedule, write_schedule},
    [FIELD_BOOL] = {STORED_CHOICE, read_bool, write_bool},
    [FIELD_NAME] = {STORED_TEXT, read_name, write_name},
    [FIELD_TEXT] = {STORED_TEXT, read_text, write_text},
    [FIELD_NAMES] = {STORED_TEXT, read_names, write_names},
    [FIELD_ENUM] = {STORED_CHOICE, read_enum, write_enum},
    [FIELD_BYTES] = {STORED_WHOLE, read_bytes, write_bytes},
    [FIELD_SECONDS] = {STORED_REAL, read_seconds, write_seconds},
    [FIELD_MODE] = {STORED_WHOLE, read_mode, write_mode},
    [FIELD_SIZES] = {STORED_SIZES, read_sizes, write_sizes},
    [FIELD_CONVS] = {STORED_CONVS, read_convs, write_convs},
    [FIELD_MAP] = {.stored = STORED_MAP},
    [FIELD_OPTIONAL_MAP] = {.stored = STORED_MAP},
    [FIELD_TREE] = {STORED_TREE, read_tree, write_tree},
    [FIELD_WORDS] = {STORED_TREE, read_words, write_tree},
    [FIELD_RAW] = {.stored = STORED_NOTHING},
};

enum field_storage schema_storage(const struct field *f)
{
    return types[f->type].stored;
}

size_t schema_value_size(enum field_type type)
{
    static const size_t sizes[] = {
        [STORED_CHOICE] = sizeof(int),
        [STORED_WHOLE] = sizeof(int64_t),
        [STORED_REAL] = sizeof(double),
        [STORED_SCHEDULE] = sizeof(struct schedule),
        [STORED_TEXT] = sizeof(const char *),
        [STORED_TREE] = sizeof(const struct yaml_node *),
        [STORED_SIZES] = sizeof(struct layer_sizes),
        [STORED_CONVS] = sizeof(struct conv_layers),
        [STORED_NOTHING] = 0,
    };

    return sizes[types[type].stored];
}

double schema_number(const struct field *f, const void *value)
{
    const union value v = value_at(f, value);

    switch (schema_storage(f)) {
    case STORED_CHOICE:
        return v.choice;
    case STORED_WHOLE:
        return (double)v.whole;
    case STORED_REAL:
        return v.real;
    case STORED_SCHEDULE:
        return v.schedule.from;
    default:
        return 0;
    }
}

int schema_may_be_none(const struct field *f)
{
    return f->type == FIELD_F64_OR_NONE || f->type == FIELD_BYTES ||
           (f->flags & FIELD_NONE_IS_ZERO) != 0;
}

void schema_write_value(const struct field *f, const void *p, FILE *out)
{
    const union value v = value_at(f, p);

    /* a whole number that may be none may also be given as 0, which is written */
    if (schema_may_be_none(f) && f->type != FIELD_I64 && v.whole == 0)
        (void)fputs("none", out);
    else if (types[f->type].write != NULL)
        types[f->type].write(f, &v, out);
}

char *schema_text_of(const struct field *field, const void *value)
{
    struct xstream text;

    schema_write_value(field, value, xstream_begin(&text));
    return xstream_end(&text);
}

int schema_same_value(const struct field *f, const void *a, const void *b)
{
    if (schema_is_text(f))
        return strcmp(value_at(f, a).text, value_at(f, b).text) == 0;
    if (schema_storage(f) == STORED_TREE)
        return yaml_tree_equal(value_at(f, a).tree, value_at(f, b).tree);
    return memcmp(a, b, schema_value_size(f->type)) == 0;
}

int schema_is_empty(const struct field *f, const void *p)
{
    const union value v = value_at(f, p);

    if (schema_storage(f) == STORED_TREE)
        return v.tree == NULL;
    if (f->type == FIELD_TEXT || f->type == FIELD_NAMES)
        return *v.text == '\0';
    if ((f->flags & FIELD_SKIP_ZERO) == 0)
        return schema_storage(f) == STORED_NOTHING;
    return schema_is_text(f) ? *v.text == '\0' : v.whole == 0;
}

void schema_own_value(const struct field *f, void *p, struct arena *arena)
{
    union value v = value_at(f, p);

    if (schema_is_text(f))
        v.text = *v.text != '\0' ? arena_strdup(arena, v.text) : NULL;
    else if (schema_storage(f) == STORED_TREE && v.tree != NULL)
        v.tree = yaml_tree_copy(v.tree, arena);
    memcpy(p, &v, schema_value_size(f->type));
}

void schema_default(const struct field *f, void *ret, struct arena *arena)
{
    if (f->default_text != NULL)
        schema_put_text(f, f->default_text, ret, arena);
    else
        schema_unset(f, ret);
}

void schema_unset(const struct field *f, void *ret)
{
    static const double no_number = (double)NAN;
    static const int no_name = FIELD_UNSET_ENUM;

    if (f->type == FIELD_F64 || f->type == FIELD_SCHEDULE)
        memcpy(ret, &no_number, sizeof(no_number));
    else if (f->type == FIELD_ENUM)
        memcpy(ret, &no_name, sizeof(no_name));
}

int schema_read_node(const struct field *field, const struct yaml_node *node,
                     const char *path, void *ret, struct arena *arena, struct err *err)
{
    const struct reading r = {field, node, path, ret, arena, err};

    if (schema_may_be_none(field) && is_scalar(node) && strcmp(node->text, "none") == 0) {
        memset(ret, 0, schema_value_size(field->type));
        return 0;
    }
    return types[field->type].read != NULL ? types[field->type].read(&r) : 0;
}

int schema_read_text(const struct field *field, const char *text, const char *path,
                     void *ret, struct err *err)
{
    struct arena arena = ARENA_ZERO;
    struct yaml_node *node;
    int rc = yaml_value_parse(&node, &arena, text, path, err);

    CHECK(schema_is_number(field), "%s", field->key);
    if (rc == 0 && yaml_is_null(node) && field->flags & FIELD_SKIP_ZERO)
        memset(ret, 0, schema_value_size(field->type));
    else if (rc == 0)
        rc = schema_read_node(field, node, "", ret, &arena, err);
    arena_done(&arena);
    return rc;
}

void schema_put_text(const struct field *field, const char *text, void *ret,
                     struct arena *arena)
{
    struct err err = {0};
    struct yaml_node *node = NULL;
    int rc = yaml_value_parse(&node, arena, text, "default", &err);

    CHECK(rc == 0 && schema_read_node(field, node, field->key, ret, arena, &err) == 0,
          "%s", err.msg);
}
