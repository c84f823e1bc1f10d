#include "common/msg/algorithm_msg.h"

#include "common/config/run_schema.h"
#include "common/config/yaml_tree.h"
#include "common/err/check.h"
#include "common/text/scan.h"

#include <math.h>
#include <string.h>

enum { TEXT_BYTES = 1024, NAMES_MAX = 64 };

static const char *const type_names[] = {
    [FIELD_I64] = "whole",         [FIELD_U64] = "-",
    [FIELD_F64] = "real",          [FIELD_F64_OR_NONE] = "real_or_none",
    [FIELD_SCHEDULE] = "schedule", [FIELD_BOOL] = "flag",
    [FIELD_NAME] = "name",         [FIELD_TEXT] = "text",
    [FIELD_NAMES] = "-",           [FIELD_ENUM] = "choice",
    [FIELD_ENUM + 1] = NULL,
};

static const char *const change_names[] = {[CHANGE_RESTART] = "run",
                                           [CHANGE_LIVE] = "live",
                                           [CHANGE_SETTING] = "setting",
                                           [CHANGE_RESPAWN] = "respawn",
                                           [CHANGE_RESPAWN + 1] = NULL};

/* In the order of the bits of scalar_by. */
static const char *const by_names[] = {"agent", "step", "central", NULL};

/* What is true of an algorithm, or not. */
static const struct {
    const char *name;
    size_t offset;
} facts[] = {
#define FACT(name, member)                                                               \
    {                                                                                    \
        (name), offsetof(struct algorithm_info, member)                                  \
    }
    FACT("default", is_default),      FACT("own_critic", own_critic),
    FACT("without_env", without_env), FACT("fixed", fixed),
    FACT("central", central),         FACT("team_reward", team_reward),
    FACT("shares", shares),           FACT("keeps_window", keeps_window),
    FACT("prepares", prepares),       FACT("hybrid", hybrid),
#undef FACT
};
enum { N_FACTS = sizeof(facts) / sizeof(facts[0]) };

static int *fact_of(const struct algorithm_info *a, size_t i)
{
    return (int *)(void *)((char *)(uintptr_t)a + facts[i].offset);
}

/* ---- packing ---- */

static void put_texts(struct msg_out *o, const char *key, const char *const *texts)
{
    size_t n = 0;

    while (texts[n] != NULL)
        n++;
    msg_key(o, key);
    msg_array(o, n);
    for (size_t i = 0; i < n; i++)
        msg_str(o, texts[i]);
}

/* The names of those bits that are set. */
#define PUT_BITS(o, key, bits, names)                                                    \
    put_bits((o), (key), (bits), (names), sizeof(names) / sizeof((names)[0]))
static void put_bits(struct msg_out *o, const char *key, unsigned bits,
                     const char *const *names, size_t n)
{
    const char *set[33];
    size_t n_set = 0;

    for (size_t i = 0; bits >> i != 0; i++) {
        if ((bits >> i & 1) == 0)
            continue;
        CHECK(i < n && names[i] != NULL, "%s: bit %zu", key, i);
        set[n_set++] = names[i];
    }
    set[n_set] = NULL;
    put_texts(o, key, set);
}

static void put_setting(struct msg_out *o, const struct field *f)
{
    const int is_real = f->type == FIELD_F64 || f->type == FIELD_F64_OR_NONE ||
                        f->type == FIELD_SCHEDULE || f->type == FIELD_I64;
    const int has_min = is_real && f->min != 0, has_max = is_real && isfinite(f->max);

    CHECK(f->type <= FIELD_ENUM && type_names[f->type][0] != '-', "%s", f->key);
    msg_map(o, 4u + (f->default_text != NULL) + (unsigned)has_min + (unsigned)has_max +
                   (f->names != NULL) + (f->change != CHANGE_RESTART));
    msg_put_str(o, "key", f->key);
    msg_put_str(o, "type", type_names[f->type]);
    msg_put_str(o, "doc", f->doc);
    PUT_BITS(o, "flags", f->flags, field_flag_names);
    if (f->default_text != NULL)
        msg_put_str(o, "default", f->default_text);
    if (has_min)
        msg_put_f64(o, "min", f->min);
    if (has_max)
        msg_put_f64(o, "max", f->max);
    if (f->names != NULL)
        put_texts(o, "names", f->names);
    if (f->change != CHANGE_RESTART)
        msg_put_str(o, "change", change_names[f->change]);
}

static void put_defaults(struct msg_out *o, const struct algorithm_default *d)
{
    size_t n = 0;

    while (d != NULL && d[n].path != NULL)
        n++;
    msg_key(o, "defaults");
    msg_map(o, n);
    for (size_t i = 0; i < n; i++)
        msg_put_str(o, d[i].path, d[i].text);
}

static void put_bounds(struct msg_out *o, const struct algorithm_bound *b)
{
    size_t n = 0;

    while (b != NULL && b[n].key != NULL)
        n++;
    msg_key(o, "episodes_if");
    msg_map(o, n);
    for (size_t i = 0; i < n; i++)
        msg_put_f64(o, b[i].key, b[i].above);
}

static void put_scalars(struct msg_out *o, const struct algorithm_scalar *s)
{
    size_t n = 0;

    while (s[n].name != NULL)
        n++;
    msg_key(o, "scalars");
    msg_array(o, n);
    for (; s->name != NULL; s++) {
        msg_map(o, 3u + (s->by != 0));
        msg_put_str(o, "name", s->name);
        msg_put_str(o, "meaning", s->meaning);
        msg_put_str(o, "unit", s->unit != NULL ? s->unit : "");
        if (s->by != 0)
            PUT_BITS(o, "by", s->by, by_names);
    }
}

void msg_algorithm(struct msg_out *o, const struct algorithm_info *a)
{
    const char *is[N_FACTS + 1];
    size_t n = 0;

    for (size_t i = 0; i < N_FACTS; i++)
        if (*fact_of(a, i))
            is[n++] = facts[i].name;
    is[n] = NULL;
    msg_map(o, 10u + (a->envs != NULL) + (a->identity != NULL) + (a->within != NULL) +
                   (a->scalars != NULL) + (a->method != NULL));
    msg_put_str(o, "name", a->name);
    msg_put_str(o, "summary", a->summary);
    msg_put_str(o, "stages", a->stages);
    msg_put_str(o, "use", a->use);
    msg_put_str(o, "source", a->source);
    if (a->method != NULL)
        put_texts(o, "method", a->method);
    msg_key(o, "settings");
    msg_array(o, a->settings.n);
    for (size_t i = 0; i < a->settings.n; i++)
        put_setting(o, &a->settings.fields[i]);
    put_defaults(o, a->defaults);
    if (a->envs != NULL)
        put_texts(o, "envs", a->envs);
    msg_put_str(o, "rows", rows_kind_names[a->rows]);
    put_bounds(o, a->episodes_if);
    if (a->scalars != NULL)
        put_scalars(o, a->scalars);
    if (a->identity != NULL)
        put_texts(o, "identity", a->identity);
    if (a->within != NULL)
        msg_put_str(o, "within", a->within);
    put_texts(o, "is", is);
}

/* ---- unpacking ---- */

/* After the first thing that is wrong, nothing more is read: what follows is as if its key were
 * absent. */
struct reading {
    struct algorithm_info *ret;
    struct arena *arena;
    struct err *err;
    int rc;
};

static void fail(struct reading *r, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void fail(struct reading *r, int code, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    if (r->rc == 0)
        r->rc = err_vset(r->err, code, fmt, ap);
    va_end(ap);
}

/* A text of a map that is printed: one line, with nothing that moves a terminal's cursor. */
static const char *take_line(struct reading *r, const msgpack_object *o, const char *what)
{
    if (o == NULL || o->type != MSGPACK_OBJECT_STR || o->via.str.size > TEXT_BYTES) {
        fail(r, ERR_PROTOCOL, "%.40s: a text of at most %d bytes expected", what,
             TEXT_BYTES);
        return "";
    }
    for (uint32_t i = 0; i < o->via.str.size; i++)
        if ((unsigned char)o->via.str.ptr[i] < ' ' || o->via.str.ptr[i] == 0x7f)
            fail(r, ERR_PROTOCOL, "%.40s: a text of one line expected", what);
    return arena_strndup(r->arena, o->via.str.ptr, o->via.str.size);
}

/* NULL: the key is absent. */
static const char *take_optional(struct reading *r, const msgpack_object *map,
                                 const char *key, const char *what)
{
    const msgpack_object *o = msg_get(map, key);

    return o != NULL ? take_line(r, o, what) : NULL;
}

static const char *take_key(struct reading *r, const msgpack_object *o, const char *what)
{
    const char *key = take_line(r, o, what);

    if (!schema_is_name(key) || strchr(key, '.') != NULL)
        fail(r, ERR_PROTOCOL, "%.40s: found '%.40s', expected %s", what, key,
             SCHEMA_NAME_EXPECTED);
    return key;
}

/* A list of at most `max` elements; one without any if the key is absent. */
static const msgpack_object_array *take_list(struct reading *r, const msgpack_object *map,
                                             const char *key, uint32_t max)
{
    static const msgpack_object_array none = {0};
    const msgpack_object *list = NULL;

    if (r->rc == 0)
        r->rc = msg_get_array(map, key, &list, r->err);
    if (list != NULL && list->via.array.size > max)
        fail(r, ERR_LIMIT, "%s: more than %u", key, max);
    return list != NULL && r->rc == 0 ? &list->via.array : &none;
}

static const msgpack_object_map *take_pairs(struct reading *r, const msgpack_object *map,
                                            const char *key, uint32_t max)
{
    static const msgpack_object_map none = {0};
    const msgpack_object *pairs = NULL;

    if (r->rc == 0)
        r->rc = msg_get_map(map, key, &pairs, r->err);
    if (pairs != NULL && pairs->via.map.size > max)
        fail(r, ERR_LIMIT, "%s: more than %u", key, max);
    return pairs != NULL && r->rc == 0 ? &pairs->via.map : &none;
}

/* The texts, NULL-terminated; NULL if the key is absent. */
static const char *const *take_texts(struct reading *r, const msgpack_object *map,
                                     const char *key, uint32_t max)
{
    const msgpack_object_array *list = take_list(r, map, key, max);
    const char **texts = ARENA_ARRAY(r->arena, const char *, list->size + 1u);

    for (uint32_t i = 0; i < list->size; i++)
        texts[i] = take_line(r, &list->ptr[i], key);
    return msg_get(map, key) != NULL ? texts : NULL;
}

/* The place of a text among n names, of which some may be NULL. */
static size_t find_name(struct reading *r, const char *key, const char *text,
                        const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (names[i] != NULL && strcmp(names[i], text) == 0)
            return i;
    fail(r, ERR_PROTOCOL, "%s: '%.40s' is unknown", key, text);
    return 0;
}

#define TAKE_CHOICE(r, map, key, names, otherwise)                                       \
    take_choice((r), (map), (key), (names), sizeof(names) / sizeof((names)[0]),          \
                (otherwise))
static int take_choice(struct reading *r, const msgpack_object *map, const char *key,
                       const char *const *names, size_t n, int otherwise)
{
    const char *text = take_optional(r, map, key, key);

    return text != NULL ? (int)find_name(r, key, text, names, n) : otherwise;
}

/* The texts of a list as bits, by their places among the names. */
#define TAKE_BITS(r, map, key, names)                                                    \
    take_bits((r), (map), (key), (names), sizeof(names) / sizeof((names)[0]))
static unsigned take_bits(struct reading *r, const msgpack_object *map, const char *key,
                          const char *const *names, size_t n)
{
    const char *const *text = take_texts(r, map, key, NAMES_MAX);
    unsigned bits = 0;

    for (; text != NULL && *text != NULL; text++)
        bits |= 1u << find_name(r, key, *text, names, n);
    return bits;
}

/* Whether the flags can be those of a field of that type: schema_is_given reads a number of
 * the size that FIELD_SKIP_ZERO implies, and the supervisor a text or a choice. */
static int flags_fit(const struct field *f)
{
    const unsigned texts = FIELD_CHECKPOINT | FIELD_CHECKPOINT_AGENT | FIELD_FOREIGN;
    const unsigned choices = FIELD_SYMMETRY | FIELD_BOX_ONLY;

    if (f->flags & texts && !schema_is_text(f))
        return 0;
    if (f->flags & choices && f->type != FIELD_ENUM)
        return 0;
    return !(f->flags & FIELD_OWN_ROWS) || f->type == FIELD_BOOL;
}

/* Checks that the default is one line of YAML that the field accepts. */
static void check_default(struct reading *r, const struct field *f)
{
    char value[sizeof(struct schedule)];
    struct err why = {0};

    if (f->default_text == NULL && f->type == FIELD_ENUM)
        fail(r, ERR_PROTOCOL, "%s: a default expected", f->key);
    else if (f->default_text != NULL && !schema_is_number(f))
        fail(r, ERR_PROTOCOL, "%s: a text has no default", f->key);
    else if (f->default_text != NULL &&
             schema_read_text(f, f->default_text, f->key, value, &why) < 0)
        fail(r, ERR_PROTOCOL, "%s: default: %.200s", f->key, err_cause(&why));
}

static double take_number(struct reading *r, const msgpack_object *map, const char *key,
                          double otherwise)
{
    if (r->rc == 0)
        r->rc = msg_get_f64(map, key, &otherwise, r->err);
    return otherwise;
}

static struct field take_setting(struct reading *r, const msgpack_object *map)
{
    struct field f = {.key = ""};

    if (map->type != MSGPACK_OBJECT_MAP) {
        fail(r, ERR_PROTOCOL, "settings: maps expected");
        return f;
    }
    f.key = take_key(r, msg_get(map, "key"), "key of a setting");
    f.doc = take_line(r, msg_get(map, "doc"), f.key);
    f.type = (enum field_type)TAKE_CHOICE(r, map, "type", type_names, FIELD_U64);
    if (type_names[f.type][0] == '-')
        fail(r, ERR_PROTOCOL, "%s: a type expected", f.key);
    f.change =
        (enum field_change)TAKE_CHOICE(r, map, "change", change_names, CHANGE_RESTART);
    f.flags = TAKE_BITS(r, map, "flags", field_flag_names);
    f.min = take_number(r, map, "min", 0);
    f.max = take_number(r, map, "max", HUGE_VAL);
    f.names = take_texts(r, map, "names", NAMES_MAX);
    f.default_text = take_optional(r, map, "default", f.key);
    if ((f.type == FIELD_ENUM) != (f.names != NULL && f.names[0] != NULL) ||
        !isfinite(f.min) || !(f.min <= f.max) || !flags_fit(&f))
        fail(r, ERR_PROTOCOL, "%s: type, range and flags do not agree", f.key);
    if (r->rc == 0)
        check_default(r, &f);
    return f;
}

static void take_settings(struct reading *r, const msgpack_object *map)
{
    const msgpack_object_array *list =
        take_list(r, map, "settings", ALGORITHM_MAX_SETTINGS);
    struct field *rows = ARENA_ARRAY(r->arena, struct field, list->size);
    struct schema *s = &r->ret->settings;

    s->fields = rows;
    for (; s->n < list->size && r->rc == 0; s->n++) {
        rows[s->n] = take_setting(r, &list->ptr[s->n]);
        if (schema_find(s, rows[s->n].key) != NULL)
            fail(r, ERR_PROTOCOL, "two settings are named %s", rows[s->n].key);
    }
    if (r->rc == 0)
        r->rc = algorithm_place_settings(rows, s->n, r->err);
}

/* Checks that the text can be the value of a key of an agent's section. */
static void check_path(struct reading *r, const struct algorithm_default *d)
{
    struct agent_config a = {.settings.of = r->ret};
    struct err why = {0};
    struct yaml_node *node = NULL;
    struct schema_place at;

    if (schema_locate(&agent_schema, d->path, &a, &at) < 0 || *at.rest != '\0' ||
        schema_below(at.field, &a) != NULL || schema_is_text(at.field))
        fail(r, ERR_PROTOCOL, "defaults: there is no %.80s", d->path);
    else if (yaml_value_parse(&node, r->arena, d->text, d->path, &why) < 0 ||
             schema_read_node(at.field, node, d->path, at.value, r->arena, &why) < 0)
        fail(r, ERR_PROTOCOL, "defaults: %.80s: %.200s", d->path, err_cause(&why));
}

static const struct algorithm_default *take_defaults(struct reading *r,
                                                     const msgpack_object *map)
{
    const msgpack_object_map *pairs =
        take_pairs(r, map, "defaults", ALGORITHM_MAX_DEFAULTS);
    struct algorithm_default *list =
        ARENA_ARRAY(r->arena, struct algorithm_default, pairs->size + 1u);

    for (uint32_t i = 0; i < pairs->size && r->rc == 0; i++) {
        list[i].path = take_line(r, &pairs->ptr[i].key, "defaults");
        list[i].text = take_line(r, &pairs->ptr[i].val, "defaults");
        if (r->rc == 0)
            check_path(r, &list[i]);
    }
    return pairs->size > 0 ? list : NULL;
}

static const struct algorithm_bound *take_bounds(struct reading *r,
                                                 const msgpack_object *map)
{
    const msgpack_object_map *pairs =
        take_pairs(r, map, "episodes_if", ALGORITHM_MAX_SETTINGS);
    struct algorithm_bound *list =
        ARENA_ARRAY(r->arena, struct algorithm_bound, pairs->size + 1u);

    for (uint32_t i = 0; i < pairs->size; i++) {
        const msgpack_object_kv *kv = &pairs->ptr[i];

        list[i].key = take_key(r, &kv->key, "episodes_if");
        list[i].above = kv->val.via.f64;
        if (schema_find(&r->ret->settings, list[i].key) == NULL ||
            kv->val.type != MSGPACK_OBJECT_FLOAT64)
            fail(r, ERR_PROTOCOL, "episodes_if: a number for a setting expected");
    }
    return pairs->size > 0 ? list : NULL;
}

static struct algorithm_scalar take_scalar(struct reading *r, const msgpack_object *map)
{
    struct algorithm_scalar s = {.name = ""};

    if (map->type != MSGPACK_OBJECT_MAP) {
        fail(r, ERR_PROTOCOL, "scalars: maps expected");
        return s;
    }
    s.name = take_line(r, msg_get(map, "name"), "scalars: name");
    if (!algorithm_scalar_is_name(s.name, strlen(s.name)))
        fail(r, ERR_PROTOCOL,
             "scalars: found '%.60s', expected at most %d letters, digits, or _.-/",
             s.name, ALGORITHM_SCALAR_NAME);
    s.meaning = take_line(r, msg_get(map, "meaning"), "scalars: meaning");
    s.unit = take_optional(r, map, "unit", "scalars: unit");
    if (s.unit == NULL)
        s.unit = "";
    s.by = TAKE_BITS(r, map, "by", by_names);
    return s;
}

static const struct algorithm_scalar *take_scalars(struct reading *r,
                                                   const msgpack_object *map)
{
    const msgpack_object_array *list =
        take_list(r, map, "scalars", ALGORITHM_MAX_SCALARS);
    struct algorithm_scalar *scalars =
        ARENA_ARRAY(r->arena, struct algorithm_scalar, list->size + 1u);

    for (uint32_t i = 0; i < list->size && r->rc == 0; i++) {
        scalars[i] = take_scalar(r, &list->ptr[i]);
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(scalars[k].name, scalars[i].name) == 0)
                fail(r, ERR_PROTOCOL, "two scalars are named %s", scalars[i].name);
    }
    return msg_get(map, "scalars") != NULL ? scalars : NULL;
}

static void take_facts(struct reading *r, const msgpack_object *map)
{
    const char *const *is = take_texts(r, map, "is", NAMES_MAX);

    for (; is != NULL && *is != NULL; is++) {
        size_t k = 0;

        while (k < N_FACTS && strcmp(facts[k].name, *is) != 0)
            k++;
        if (k < N_FACTS)
            *fact_of(r->ret, k) = 1;
        else
            fail(r, ERR_PROTOCOL, "is: '%.40s' is unknown", *is);
    }
}

int msg_to_algorithm(const msgpack_object *map, struct algorithm_info *ret,
                     struct arena *arena, struct err *err)
{
    struct reading reading = {ret, arena, err, 0}, *r = &reading;
    int rows;

    *ret = (struct algorithm_info){0};
    if (map->type != MSGPACK_OBJECT_MAP)
        return err_set(err, ERR_PROTOCOL, "a map that describes an algorithm expected");
    ret->name = take_key(r, msg_get(map, "name"), "name");
    ret->summary = take_line(r, msg_get(map, "summary"), "summary");
    ret->stages = take_line(r, msg_get(map, "stages"), "stages");
    ret->use = take_line(r, msg_get(map, "use"), "use");
    ret->source = take_line(r, msg_get(map, "source"), "source");
    ret->method = take_texts(r, map, "method", ALGORITHM_MAX_METHOD);
    take_settings(r, map);
    ret->defaults = take_defaults(r, map);
    ret->envs = take_texts(r, map, "envs", ALGORITHM_MAX_ENVS);
    ret->identity = take_texts(r, map, "identity", ALGORITHM_MAX_IDENTITY);
    ret->within = take_optional(r, map, "within", "within");
    if (ret->within != NULL && (*ret->within == '/' || strstr(ret->within, "..") != NULL))
        fail(r, ERR_PROTOCOL, "within: a folder below the files expected");
    rows = TAKE_CHOICE(r, map, "rows", rows_kind_names, ROWS_KIND_COUNT);
    if (rows == ROWS_KIND_COUNT)
        fail(r, ERR_PROTOCOL, "rows expected");
    ret->rows = (enum rows_kind)rows;
    ret->episodes_if = take_bounds(r, map);
    ret->scalars = take_scalars(r, map);
    take_facts(r, map);
    return r->rc;
}
