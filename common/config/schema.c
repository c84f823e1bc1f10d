#include "common/config/schema.h"

#include "common/config/run_schema.h"
#include "common/config/schema_internal.h"
#include "common/err/check.h"
#include "common/text/scan.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SHOWN_MAX_BYTES = 60, /* bytes of a value that an error quotes */
    HINT_MAX_BYTES = 100,
    KEYS_LIST_BYTES = 300, /* leaves room for the place and the hint in a struct err */
    KEYS_MAX = 64,         /* rows in one table */
};

_Static_assert(sizeof(enum optimizer_type) == sizeof(int), "enums are read as int");

const char *const field_flag_names[18] = {
    [3] = "variables",   [7] = "own_rows",          [8] = "symmetry",
    [9] = "units",       [10] = "box_only",         [11] = "repeats",
    [12] = "parts",      [13] = "central",          [14] = "targets",
    [15] = "checkpoint", [16] = "checkpoint_agent", [17] = "foreign",
    [0] = "above_min",   [1] = "skip_zero",         [4] = "ends_at_min",
};

int field_is_unset(double v)
{
    return isnan(v);
}

static void *at_offset(void *base, size_t offset)
{
    return (char *)base + offset;
}

enum { TEXT_MAX_BYTES = 4095 };

/* What is being read: the node, its field and the destination. */
struct reading {
    const struct field *field;
    const struct yaml_node *node;
    const char *path;
    const void *root;
    void *base; /* the struct that dst is in; used for FIELD_OPTIONAL_MAP only */
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

static int unexpected_number(const struct reading *r, const char *what)
{
    const struct field *f = r->field;
    const char *above = f->flags & FIELD_ABOVE_MIN ? "above" : "of at least";
    char expected[160];

    if (isinf(f->min) && isinf(f->max))
        (void)snprintf(expected, sizeof(expected), "%s", what);
    else if (isinf(f->max))
        (void)snprintf(expected, sizeof(expected), "%s %s %.15g", what, above, f->min);
    else
        (void)snprintf(expected, sizeof(expected), "%s %s %.15g and at most %.15g", what,
                       above, f->min, f->max);
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

static int read_number(const struct reading *r, const char *what)
{
    const char *end;
    double v;

    if (!is_scalar(r->node) || !scan_number(r->node->text, &v, &end) || *end != '\0' ||
        !in_range(r->field, v))
        return unexpected_number(r, what);
    if (!is_finite_f32(v))
        return unexpected(r, "a number that is finite in 32 bits (at most 3.4e38)");
    if (is_min_f32(r->field, v))
        return unexpected(r, "a number that is not 0 in 32 bits (at least 1.4e-45)");
    return store(r, &v, sizeof(v));
}

static int read_f64(const struct reading *r)
{
    return read_number(r, "a number");
}

static int is_none(const struct yaml_node *n)
{
    return is_scalar(n) && strcmp(n->text, "none") == 0;
}

static int read_f64_or_none(const struct reading *r)
{
    static const double none = 0.0;

    if (!is_none(r->node))
        return read_number(r, "none or a number");
    return store(r, &none, sizeof(none));
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
static int ramp_fits(const struct field *f, const struct ramp *v)
{
    const int ends_at_min = (f->flags & FIELD_ENDS_AT_MIN) != 0 && v->to == f->min;

    if (!fits_f32(f, v->from))
        return 0;
    if (v->over == 0)
        return v->to == v->from;
    return (fits_f32(f, v->to) || ends_at_min) && v->over >= 1 &&
           v->over <= RAMP_MAX_STEPS;
}

static int read_schedule(const struct reading *r)
{
    static const struct field any = {
        .type = FIELD_F64, .min = -HUGE_VAL, .max = HUGE_VAL};
    struct ramp v;

    if (!ramp_is_form(r->node)) {
        double number;
        struct reading plain = *r;
        int rc;

        plain.dst = &number;
        if ((rc = read_f64(&plain)) < 0)
            return rc;
        v = ramp_constant(number);
    } else if (ramp_read(&any, r->node, r->path, &v, NULL) < 0 ||
               !ramp_fits(r->field, &v)) {
        return unexpected(r, "a schedule within the number's range, such as 1 to 0.05 "
                             "over 50000");
    }
    return store(r, &v, sizeof(v));
}

static int read_i64(const struct reading *r)
{
    const int may_be_none = (r->field->flags & FIELD_NONE_IS_ZERO) != 0;
    int64_t v = 0;

    if (!(may_be_none && is_none(r->node)) &&
        (!is_scalar(r->node) || !scan_whole(r->node->text, &v) ||
         !in_range(r->field, (double)v)))
        return unexpected_number(r, may_be_none ? "none or a whole number"
                                                : "a whole number");
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

static int read_name(const struct reading *r)
{
    const char *copy;

    if (r->node->kind != YAML_SCALAR || !schema_is_name(r->node->text))
        return unexpected(r, SCHEMA_NAME_EXPECTED);
    copy = arena_strdup(r->arena, r->node->text);
    return store(r, &copy, sizeof(copy));
}

static int read_text(const struct reading *r)
{
    const char *copy = NULL;

    if (!yaml_is_null(r->node)) {
        if (r->node->kind != YAML_SCALAR || r->node->text[0] == '\0' ||
            strlen(r->node->text) > TEXT_MAX_BYTES)
            return unexpected(r, "a text of 1 to 4095 bytes");
        copy = arena_strdup(r->arena, r->node->text);
    }
    return store(r, &copy, sizeof(copy));
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
    const char *copy = NULL;
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
    if (len > 0)
        copy = arena_strdup(r->arena, text);
    return store(r, &copy, sizeof(copy));
}

size_t schema_count_names(const char *const *names)
{
    size_t n = 0;

    while (names[n] != NULL)
        n++;
    return n;
}

void schema_join_choices(char *ret, size_t size, const char *const *choices, size_t n)
{
    static const char more[] = ", ...";
    size_t len = 0;

    ret[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        const char *between = i == 0 ? "" : i + 1 == n ? " or " : ", ";

        if (len + strlen(between) + strlen(choices[i]) + sizeof(more) > size) {
            (void)snprintf(ret + len, size - len, "%s", more);
            return;
        }
        len += (size_t)snprintf(ret + len, size - len, "%s%s", between, choices[i]);
    }
}

/* Sets ret to "; did you mean 'x'?", or to "" if no name is similar. */
static void suggest(char *ret, size_t size, const char *word, const char *const *choices,
                    size_t n)
{
    const char *nearest = yaml_nearest(word, choices, n);

    ret[0] = '\0';
    if (nearest != NULL)
        (void)snprintf(ret, size, "; did you mean '%s'?", nearest);
}

int schema_fail_choice(const struct yaml_node *at, const char *path, const char *found,
                       const char *const *choices, size_t n, struct err *err)
{
    char list[LIST_MAX_BYTES], hint[HINT_MAX_BYTES];

    schema_join_choices(list, sizeof(list), choices, n);
    suggest(hint, sizeof(hint), found, choices, n);
    return yaml_fail(at, path, err, "found '%.*s', expected %s%s", SHOWN_MAX_BYTES, found,
                     list, hint);
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
    double v = 0;
    int64_t bytes = 0;

    if (!is_none(r->node)) {
        if (!scan_unit(r->node, byte_units, 5, &v) || v < 1 || v > 0x1p60)
            return unexpected(r, "none or a size with its unit, such as 512M (B, K, M, "
                                 "G, T)");
        bytes = (int64_t)v;
    }
    return store(r, &bytes, sizeof(bytes));
}

static int read_seconds(const struct reading *r)
{
    const int may_be_none = (r->field->flags & FIELD_NONE_IS_ZERO) != 0;
    char none[80];
    double v = 0;

    if (may_be_none && is_none(r->node))
        return store(r, &v, sizeof(v));
    (void)snprintf(none, sizeof(none),
                   "none or a time of %gs or more such as 5m (ms, s, m, h)",
                   r->field->min);
    if (!scan_unit(r->node, time_units, 4, &v) || !in_range(r->field, v))
        return unexpected(r, may_be_none ? none
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

#define CONVS_EXPECTED                                                                   \
    "a list of at most 8 convolutions [filters, kernel, stride], each number 1 to 1024"

static int read_conv(const struct reading *r, struct conv_layers *s)
{
    int64_t v[3];

    for (size_t i = 0; i < 3; i++) {
        const struct yaml_node *n =
            r->node->kind == YAML_LIST && r->node->n == 3 ? r->node->child[i] : NULL;

        if (n == NULL || !is_scalar(n) || !scan_whole(n->text, &v[i]) || v[i] < 1 ||
            v[i] > CONFIG_MAX_CONV)
            return unexpected(r, CONVS_EXPECTED);
    }
    s->layer[s->n].filters = v[0];
    s->layer[s->n].kernel = v[1];
    s->layer[s->n++].stride = v[2];
    return 0;
}

static int read_convs(const struct reading *r)
{
    struct conv_layers s = {0};

    if (r->node->kind != YAML_LIST || r->node->n > CONFIG_MAX_CONVS)
        return unexpected(r, CONVS_EXPECTED);
    for (size_t i = 0; i < r->node->n; i++) {
        struct reading element = *r;
        int rc;

        element.node = r->node->child[i];
        rc = read_conv(&element, &s);
        if (rc < 0)
            return rc;
    }
    return store(r, &s, sizeof(s));
}

static int read_section(const struct schema *s, const struct yaml_node *map,
                        const char *path, const void *root, void *base,
                        struct arena *arena, struct err *err);

static int read_map(const struct reading *r)
{
    return read_section(schema_below(r->field, r->root), r->node, r->path, r->root,
                        r->dst, r->arena, r->err);
}

/* A map counts as given even if it is empty. */
static int read_optional_map(const struct reading *r)
{
    const int given = 1;

    memcpy(at_offset(r->base, r->field->has_offset), &given, sizeof(given));
    return read_map(r);
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

static int read_field(const struct reading *r)
{
    static int (*const readers[])(const struct reading *) = {
        [FIELD_I64] = read_i64,
        [FIELD_U64] = read_u64,
        [FIELD_F64] = read_f64,
        [FIELD_F64_OR_NONE] = read_f64_or_none,
        [FIELD_SCHEDULE] = read_schedule,
        [FIELD_BOOL] = read_bool,
        [FIELD_NAME] = read_name,
        [FIELD_TEXT] = read_text,
        [FIELD_NAMES] = read_names,
        [FIELD_ENUM] = read_enum,
        [FIELD_BYTES] = read_bytes,
        [FIELD_SECONDS] = read_seconds,
        [FIELD_MODE] = read_mode,
        [FIELD_SIZES] = read_sizes,
        [FIELD_CONVS] = read_convs,
        [FIELD_MAP] = read_map,
        [FIELD_OPTIONAL_MAP] = read_optional_map,
        [FIELD_TREE] = read_tree,
        [FIELD_WORDS] = read_words,
    };

    return r->field->type != FIELD_RAW ? readers[r->field->type](r) : 0;
}

const struct field *schema_find(const struct schema *s, const char *key)
{
    for (size_t i = 0; i < s->n; i++) {
        if (strcmp(s->fields[i].key, key) == 0)
            return &s->fields[i];
    }
    return NULL;
}

void schema_join_path(char ret[PATH_MAX_BYTES], const char *path, const char *key)
{
    (void)snprintf(ret, PATH_MAX_BYTES, "%s%s%s", path, *path != '\0' ? "." : "", key);
}

/* Finds a key `depth` levels below the table. path: the table's path. */
static int find_at_depth(const struct schema *s, const char *path, const char *key,
                         int depth, char ret[PATH_MAX_BYTES])
{
    for (size_t i = 0; i < s->n; i++) {
        const struct field *f = &s->fields[i];
        const struct schema *map = schema_below(f, NULL);
        char below[PATH_MAX_BYTES];

        schema_join_path(below, path, f->key);
        if (depth == 0 && strcmp(f->key, key) == 0) {
            (void)snprintf(ret, PATH_MAX_BYTES, "%s", below);
            return 1;
        }
        if (depth > 0 && map != NULL && find_at_depth(map, below, key, depth - 1, ret))
            return 1;
    }
    return 0;
}

/* Finds a key at any depth below the table, the nearest first. Returns whether there is
 * one. */
static int find_below(const struct schema *s, const char *path, const char *key,
                      char ret[PATH_MAX_BYTES])
{
    int depth = 0;

    while (depth < YAML_MAX_DEPTH && !find_at_depth(s, path, key, depth, ret))
        depth++;
    return depth < YAML_MAX_DEPTH;
}

/* Fails because the table s has no such key. path: the key's path. */
static int unknown_key(const struct schema *s, const struct yaml_node *entry,
                       const char *path, struct err *err)
{
    const char *keys[KEYS_MAX], *dot = strrchr(path, '.');
    char list[KEYS_LIST_BYTES], hint[HINT_MAX_BYTES], above[PATH_MAX_BYTES];
    char elsewhere[PATH_MAX_BYTES];

    CHECK(s->n <= KEYS_MAX, "%zu keys", s->n);
    for (size_t i = 0; i < s->n; i++)
        keys[i] = s->fields[i].key;
    schema_join_choices(list, sizeof(list), keys, s->n);
    (void)snprintf(above, sizeof(above), "%.*s", dot != NULL ? (int)(dot - path) : 0,
                   path);
    if (find_below(s, above, entry->key, elsewhere) ||
        find_below(&run_schema, "", entry->key, elsewhere))
        (void)snprintf(hint, sizeof(hint), "; did you mean '%.80s'?", elsewhere);
    else
        suggest(hint, sizeof(hint), entry->key, keys, s->n);
    return yaml_fail(entry, path, err, "unknown key, expected %s%s", list, hint);
}

static int read_section(const struct schema *s, const struct yaml_node *map,
                        const char *path, const void *root, void *base,
                        struct arena *arena, struct err *err)
{
    if (yaml_is_null(map))
        return 0;
    if (map->kind != YAML_MAP)
        return yaml_fail(map, path, err, "found %s, expected a map of keys",
                         map->kind == YAML_LIST ? "a list" : "a single value");
    for (size_t i = 0; i < map->n; i++) {
        char child_path[PATH_MAX_BYTES];
        const struct field *f = schema_find(s, map->child[i]->key);
        int rc;

        schema_join_path(child_path, path, map->child[i]->key);
        if (f == NULL)
            return unknown_key(s, map->child[i], child_path, err);
        rc = read_field(&(struct reading){.field = f,
                                          .node = map->child[i],
                                          .path = child_path,
                                          .root = root,
                                          .base = base,
                                          .dst = at_offset(base, f->offset),
                                          .arena = arena,
                                          .err = err});
        if (rc < 0)
            return rc;
    }
    return 0;
}

int schema_read(const struct schema *s, const struct yaml_node *map, const char *path,
                void *base, struct arena *arena, struct err *err)
{
    return read_section(s, map, path, base, base, arena, err);
}

static void set_unset(const struct field *f, void *dst)
{
    static const double not_a_number = (double)NAN;
    static const int no_name = FIELD_UNSET_ENUM;

    if (f->type == FIELD_F64 || f->type == FIELD_SCHEDULE)
        memcpy(dst, &not_a_number, sizeof(not_a_number));
    else if (f->type == FIELD_ENUM)
        memcpy(dst, &no_name, sizeof(no_name));
}

/* Stores the value of a text that is known to be right. */
static void set_text(const struct field *f, const char *text, void *dst,
                     struct arena *arena)
{
    struct err err = {0};
    struct yaml_node *node = NULL;
    struct reading r = {
        .field = f, .path = f->key, .dst = dst, .arena = arena, .err = &err};
    int rc = yaml_value_parse(&node, arena, text, "default", &err);

    r.node = node;
    CHECK(rc == 0 && read_field(&r) == 0, "%s", err.msg);
}

void schema_default(const struct field *field, void *ret, struct arena *arena)
{
    if (field->default_text == NULL)
        set_unset(field, ret);
    else
        set_text(field, field->default_text, ret, arena);
}

int schema_read_value(const struct schema_place *at, const struct yaml_node *node,
                      const char *path, struct arena *arena, struct err *err)
{
    return read_field(&(struct reading){.field = at->field,
                                        .node = node,
                                        .path = path,
                                        .dst = at->value,
                                        .arena = arena,
                                        .err = err});
}

void schema_put_text(const struct schema_place *at, const char *text, struct arena *arena)
{
    set_text(at->field, text, at->value, arena);
}

static void schema_fill(const struct schema *s, const void *root, void *base,
                        struct arena *arena, int unset);

static void fill_field(const struct field *f, const void *root, void *dst,
                       struct arena *arena, int unset)
{
    const struct schema *below = schema_below(f, root);

    if (f->type == FIELD_MAP)
        schema_fill(below, root, dst, arena, unset);
    else if (f->type == FIELD_OPTIONAL_MAP)
        /* the values of an optional map stay unset until the map is given */
        schema_fill(below, root, dst, arena, 1);
    else if (unset)
        set_unset(f, dst);
    else
        schema_default(f, dst, arena);
}

static void schema_fill(const struct schema *s, const void *root, void *base,
                        struct arena *arena, int unset)
{
    for (size_t i = 0; i < s->n; i++)
        fill_field(&s->fields[i], root, at_offset(base, s->fields[i].offset), arena,
                   unset);
}

void schema_defaults(const struct schema *s, void *base, struct arena *arena)
{
    schema_fill(s, base, base, arena, 0);
}

/* ---- single values of a section that was read ---- */

int schema_locate(const struct schema *s, const char *path, void *base,
                  struct schema_place *ret)
{
    const void *root = base;

    for (;;) {
        const size_t len = strcspn(path, ".");
        const struct schema *below;
        const struct field *f = NULL;

        for (size_t i = 0; i < s->n && f == NULL; i++)
            if (text_is_word(path, len, s->fields[i].key))
                f = &s->fields[i];
        if (f == NULL)
            return ERR_NOT_FOUND;
        path += len + (path[len] == '.');
        below = f->type != FIELD_RAW ? schema_below(f, root) : NULL;
        if (below == NULL || *path == '\0') {
            *ret = (struct schema_place){s, f, base, at_offset(base, f->offset), path};
            return 0;
        }
        s = below;
        base = at_offset(base, f->offset);
    }
}

const struct field *schema_counterpart(const struct schema *s, const struct field *field,
                                       const struct schema *other)
{
    const struct field *f = s == other ? field : schema_find(other, field->key);

    if (f == field || f == NULL)
        return f;
    if (f->type != field->type)
        return NULL;
    for (size_t i = 0; f->type == FIELD_ENUM; i++) {
        const char *a = f->names[i], *b = field->names[i];

        if (a == NULL || b == NULL)
            return a == b ? f : NULL;
        if (strcmp(a, b) != 0)
            return NULL;
    }
    return f;
}

static void reset_section(const struct schema *s, const void *root, void *base,
                          const struct section *from, struct arena *arena);

/* Copies the value of `from` or, without `from`, the default. If there is neither, the
 * value becomes 0 or "unset", which the owner of the table resolves. */
static void reset_field(const struct schema *s, const struct field *f, const void *root,
                        void *base, const struct section *from, struct arena *arena)
{
    void *dst = at_offset(base, f->offset);
    const struct schema *below = schema_below(f, root);
    const struct field *its =
        from->base != NULL ? schema_counterpart(s, f, from->schema) : NULL;
    const int copies =
        its != NULL && schema_is_given(from->schema, from->root, from->base, its);

    if (f->type == FIELD_OPTIONAL_MAP)
        memcpy(at_offset(base, f->has_offset),
               copies ? (const char *)from->base + f->has_offset
                      : (const char *)&(int){0},
               sizeof(int));
    if (below != NULL && (copies || f->type == FIELD_MAP)) {
        const struct section inner = {
            its != NULL ? schema_below(its, from->root) : NULL, from->root,
            its != NULL ? (const char *)from->base + its->offset : NULL};

        reset_section(below, root, dst, &inner, arena);
    } else if (copies) {
        memcpy(dst, (const char *)from->base + its->offset, schema_value_size(f->type));
    } else {
        if (below == NULL)
            memset(dst, 0, schema_value_size(f->type));
        fill_field(f, root, dst, arena, 0);
    }
}

static void reset_section(const struct schema *s, const void *root, void *base,
                          const struct section *from, struct arena *arena)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->fields[i].type != FIELD_RAW)
            reset_field(s, &s->fields[i], root, base, from, arena);
}

void schema_reset(const struct schema *s, void *base, const void *from,
                  struct arena *arena)
{
    reset_section(s, base, base, &(struct section){s, from, from}, arena);
}

void schema_reset_place(const struct schema_place *at, const void *root,
                        const void *from_root, const struct schema_place *from,
                        struct arena *arena)
{
    const struct section source = {from != NULL ? from->schema : NULL, from_root,
                                   from != NULL ? from->section : NULL};

    reset_field(at->schema, at->field, root, at->section, &source, arena);
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
        rc = read_field(&(struct reading){.field = field,
                                          .node = node,
                                          .path = "",
                                          .dst = ret,
                                          .arena = &arena,
                                          .err = err});
    arena_done(&arena);
    return rc;
}

int schema_read_node(const struct field *field, const struct yaml_node *node,
                     const char *path, void *ret, struct err *err)
{
    CHECK(schema_is_number(field), "%s", field->key);
    return read_field(&(struct reading){
        .field = field, .node = node, .path = path, .dst = ret, .err = err});
}

int schema_is_number(const struct field *field)
{
    switch (field->type) {
    case FIELD_I64:
    case FIELD_U64:
    case FIELD_F64:
    case FIELD_F64_OR_NONE:
    case FIELD_SCHEDULE:
    case FIELD_BOOL:
    case FIELD_ENUM:
    case FIELD_BYTES:
    case FIELD_SECONDS:
    case FIELD_MODE:
        return 1;
    default:
        return 0;
    }
}

static void copy_texts(const struct schema *s, const void *root, void *base,
                       struct arena *arena)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct field *f = &s->fields[i];
        const struct schema *below = f->type != FIELD_RAW ? schema_below(f, root) : NULL;
        void *p = at_offset(base, f->offset);

        if (below != NULL) {
            copy_texts(below, root, p, arena);
        } else if (schema_is_text(f)) {
            const char *text;

            memcpy(&text, p, sizeof(text));
            text = arena_strdup(arena, text);
            memcpy(p, &text, sizeof(text));
        } else if (f->type == FIELD_TREE || f->type == FIELD_WORDS) {
            const struct yaml_node *n;

            memcpy(&n, p, sizeof(n));
            n = n != NULL ? yaml_tree_copy(n, arena) : NULL;
            memcpy(p, &n, sizeof(n));
        }
    }
}

void schema_copy_texts(const struct schema *s, void *base, struct arena *arena)
{
    copy_texts(s, base, base, arena);
}
