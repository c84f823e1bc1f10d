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

static void put_flags(struct msg_out *o, unsigned flags)
{
    const char *names[sizeof(field_flag_names) / sizeof(field_flag_names[0]) + 1];
    size_t n = 0;

    for (size_t i = 0; i < sizeof(field_flag_names) / sizeof(field_flag_names[0]); i++) {
        if ((flags >> i & 1) == 0)
            continue;
        CHECK(field_flag_names[i] != NULL, "flag %zu of a setting", i);
        names[n++] = field_flag_names[i];
    }
    names[n] = NULL;
    put_texts(o, "flags", names);
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
    put_flags(o, f->flags);
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
        const char *by[sizeof(by_names) / sizeof(by_names[0])];
        size_t k = 0;

        msg_map(o, 3u + (s->by != 0));
        msg_put_str(o, "name", s->name);
        msg_put_str(o, "meaning", s->meaning);
        msg_put_str(o, "unit", s->unit != NULL ? s->unit : "");
        if (s->by == 0)
            continue;
        for (size_t i = 0; by_names[i] != NULL; i++)
            if (s->by >> i & 1)
                by[k++] = by_names[i];
        by[k] = NULL;
        put_texts(o, "by", by);
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

struct reading {
    struct algorithm_info *ret;
    struct arena *arena;
    struct err *err;
};

/* A text of a map that is printed: one line, with nothing that moves a terminal's cursor. */
static int take_line(const struct reading *r, const msgpack_object *o, const char *what,
                     const char **ret)
{
    if (o == NULL || o->type != MSGPACK_OBJECT_STR || o->via.str.size > TEXT_BYTES)
        return err_set(r->err, ERR_PROTOCOL, "%.40s: a text of at most %d bytes expected",
                       what, TEXT_BYTES);
    for (uint32_t i = 0; i < o->via.str.size; i++)
        if ((unsigned char)o->via.str.ptr[i] < ' ' || o->via.str.ptr[i] == 0x7f)
            return err_set(r->err, ERR_PROTOCOL, "%.40s: a text of one line expected",
                           what);
    *ret = arena_strndup(r->arena, o->via.str.ptr, o->via.str.size);
    return 0;
}

static int take_key(const struct reading *r, const msgpack_object *o, const char *what,
                    const char **ret)
{
    int rc = take_line(r, o, what, ret);

    if (rc == 0 && (!schema_is_name(*ret) || strchr(*ret, '.') != NULL))
        rc = err_set(r->err, ERR_PROTOCOL, "%.40s: found '%.40s', expected %s", what,
                     *ret, SCHEMA_NAME_EXPECTED);
    return rc;
}

/* *ret: the texts, NULL-terminated; NULL if the key is absent. */
static int take_texts(const struct reading *r, const msgpack_object *map, const char *key,
                      uint32_t max, const char *const **ret)
{
    const msgpack_object *list = NULL;
    const char **texts;
    int rc = msg_get_array(map, key, &list, r->err);

    if (rc < 0 || list == NULL)
        return rc;
    if (list->via.array.size > max)
        return err_set(r->err, ERR_LIMIT, "%s: more than %u", key, max);
    texts = ARENA_ARRAY(r->arena, const char *, list->via.array.size + 1u);
    for (uint32_t i = 0; i < list->via.array.size && rc == 0; i++)
        rc = take_line(r, &list->via.array.ptr[i], key, &texts[i]);
    *ret = texts;
    return rc;
}

/* The place of a text among the names; absent: *ret stays. */
static int take_choice(const struct reading *r, const msgpack_object *map,
                       const char *key, const char *const *names, int *ret)
{
    const msgpack_object *o = msg_get(map, key);
    const char *text = NULL;
    int rc = o != NULL ? take_line(r, o, key, &text) : 0;

    if (rc < 0 || text == NULL)
        return rc;
    *ret = text_find(names, text);
    return *ret >= 0 ? 0
                     : err_set(r->err, ERR_PROTOCOL, "%s: '%.40s' is unknown", key, text);
}

static int take_flags(const struct reading *r, const msgpack_object *map, unsigned *ret)
{
    const char *const *flags = NULL;
    int rc = take_texts(r, map, "flags", NAMES_MAX, &flags);

    for (size_t i = 0; rc == 0 && flags != NULL && flags[i] != NULL; i++) {
        const size_t n = sizeof(field_flag_names) / sizeof(field_flag_names[0]);
        size_t k = 0;

        while (k < n && (field_flag_names[k] == NULL ||
                         strcmp(field_flag_names[k], flags[i]) != 0))
            k++;
        if (k == n)
            return err_set(r->err, ERR_PROTOCOL, "flags: '%.40s' is unknown", flags[i]);
        *ret |= 1u << k;
    }
    return rc;
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

/* Whether the default is one line of YAML that the field accepts. */
static int check_default(const struct reading *r, const struct field *f)
{
    char value[sizeof(struct ramp)];
    struct err why = {0};

    if (f->default_text == NULL)
        return f->type != FIELD_ENUM
                   ? 0
                   : err_set(r->err, ERR_PROTOCOL, "%s: a default expected", f->key);
    if (!schema_is_number(f))
        return err_set(r->err, ERR_PROTOCOL, "%s: a text has no default", f->key);
    if (schema_read_text(f, f->default_text, f->key, value, &why) < 0)
        return err_set(r->err, ERR_PROTOCOL, "%s: default: %.200s", f->key,
                       err_cause(&why));
    return 0;
}

static int take_setting(const struct reading *r, const msgpack_object *map,
                        struct field *ret)
{
    int type = -1, change = CHANGE_RESTART, rc;

    *ret = (struct field){.min = 0, .max = HUGE_VAL};
    if (map->type != MSGPACK_OBJECT_MAP)
        return err_set(r->err, ERR_PROTOCOL, "settings: maps expected");
    rc = take_key(r, msg_get(map, "key"), "key of a setting", &ret->key);
    if (rc == 0)
        rc = take_line(r, msg_get(map, "doc"), ret->key, &ret->doc);
    if (rc == 0)
        rc = take_choice(r, map, "type", type_names, &type);
    if (rc == 0 && (type < 0 || type_names[type][0] == '-'))
        rc = err_set(r->err, ERR_PROTOCOL, "%s: a type expected", ret->key);
    if (rc == 0)
        rc = take_choice(r, map, "change", change_names, &change);
    if (rc == 0)
        rc = take_flags(r, map, &ret->flags);
    if (rc == 0)
        rc = msg_get_f64(map, "min", &ret->min, r->err);
    if (rc == 0)
        rc = msg_get_f64(map, "max", &ret->max, r->err);
    if (rc == 0)
        rc = take_texts(r, map, "names", NAMES_MAX, &ret->names);
    if (rc == 0 && msg_get(map, "default") != NULL)
        rc = take_line(r, msg_get(map, "default"), ret->key, &ret->default_text);
    if (rc < 0)
        return rc;
    ret->type = (enum field_type)type;
    ret->change = (enum field_change)change;
    if ((ret->type == FIELD_ENUM) != (ret->names != NULL && ret->names[0] != NULL) ||
        !isfinite(ret->min) || !(ret->min <= ret->max) || !flags_fit(ret))
        return err_set(r->err, ERR_PROTOCOL, "%s: type, range and flags do not agree",
                       ret->key);
    return check_default(r, ret);
}

static int take_settings(const struct reading *r, const msgpack_object *map)
{
    const msgpack_object *list = NULL;
    struct schema *s = &r->ret->settings;
    struct field *rows;
    int rc = msg_get_array(map, "settings", &list, r->err);

    if (rc < 0 || list == NULL)
        return rc;
    if (list->via.array.size > ALGORITHM_MAX_SETTINGS)
        return err_set(r->err, ERR_LIMIT, "more than %d settings",
                       ALGORITHM_MAX_SETTINGS);
    rows = ARENA_ARRAY(r->arena, struct field, list->via.array.size);
    s->fields = rows;
    for (uint32_t i = 0; i < list->via.array.size && rc == 0; i++) {
        rc = take_setting(r, &list->via.array.ptr[i], &rows[i]);
        if (rc == 0 && schema_find(s, rows[i].key) != NULL)
            rc = err_set(r->err, ERR_PROTOCOL, "two settings are named %s", rows[i].key);
        s->n += rc == 0;
    }
    return rc < 0 ? rc : algorithm_place_settings(rows, s->n, r->err);
}

/* The keys and values of a map, as long as fn takes them. */
static int each_pair(const struct reading *r, const msgpack_object *map, const char *key,
                     uint32_t max, const msgpack_object **ret)
{
    int rc = msg_get_map(map, key, ret, r->err);

    if (rc == 0 && *ret != NULL && (*ret)->via.map.size > max)
        rc = err_set(r->err, ERR_LIMIT, "%s: more than %u", key, max);
    return rc;
}

/* Whether the text can be the value of a key of an agent's section. */
static int check_path(const struct reading *r, const struct algorithm_default *d)
{
    struct agent_config a = {.settings.of = r->ret};
    struct err why = {0};
    struct yaml_node *node = NULL;
    struct schema_place at;

    if (schema_locate(&agent_schema, d->path, &a, &at) < 0 || *at.rest != '\0' ||
        schema_below(at.field, &a) != NULL || schema_is_text(at.field))
        return err_set(r->err, ERR_PROTOCOL, "defaults: there is no %.80s", d->path);
    if (yaml_value_parse(&node, r->arena, d->text, d->path, &why) < 0 ||
        schema_read_value(&at, node, d->path, r->arena, &why) < 0)
        return err_set(r->err, ERR_PROTOCOL, "defaults: %.80s: %.200s", d->path,
                       err_cause(&why));
    return 0;
}

static int take_defaults(const struct reading *r, const msgpack_object *map)
{
    const msgpack_object *pairs = NULL;
    struct algorithm_default *list;
    int rc = each_pair(r, map, "defaults", ALGORITHM_MAX_DEFAULTS, &pairs);

    if (rc < 0 || pairs == NULL || pairs->via.map.size == 0)
        return rc;
    list = ARENA_ARRAY(r->arena, struct algorithm_default, pairs->via.map.size + 1u);
    for (uint32_t i = 0; i < pairs->via.map.size && rc == 0; i++) {
        rc = take_line(r, &pairs->via.map.ptr[i].key, "defaults", &list[i].path);
        if (rc == 0)
            rc = take_line(r, &pairs->via.map.ptr[i].val, "defaults", &list[i].text);
        if (rc == 0)
            rc = check_path(r, &list[i]);
    }
    r->ret->defaults = list;
    return rc;
}

static int take_bounds(const struct reading *r, const msgpack_object *map)
{
    const msgpack_object *pairs = NULL;
    struct algorithm_bound *list;
    int rc = each_pair(r, map, "episodes_if", ALGORITHM_MAX_SETTINGS, &pairs);

    if (rc < 0 || pairs == NULL || pairs->via.map.size == 0)
        return rc;
    list = ARENA_ARRAY(r->arena, struct algorithm_bound, pairs->via.map.size + 1u);
    for (uint32_t i = 0; i < pairs->via.map.size && rc == 0; i++) {
        const msgpack_object_kv *kv = &pairs->via.map.ptr[i];

        rc = take_key(r, &kv->key, "episodes_if", &list[i].key);
        if (rc == 0 && (schema_find(&r->ret->settings, list[i].key) == NULL ||
                        kv->val.type != MSGPACK_OBJECT_FLOAT64))
            rc = err_set(r->err, ERR_PROTOCOL,
                         "episodes_if: a number for a setting expected");
        if (rc == 0)
            list[i].above = kv->val.via.f64;
    }
    r->ret->episodes_if = list;
    return rc;
}

static int take_by(const struct reading *r, const msgpack_object *map, unsigned *ret)
{
    const char *const *by = NULL;
    int rc = take_texts(r, map, "by", NAMES_MAX, &by);

    for (size_t i = 0; rc == 0 && by != NULL && by[i] != NULL; i++) {
        const int k = text_find(by_names, by[i]);

        if (k < 0)
            return err_set(r->err, ERR_PROTOCOL, "by: '%.40s' is unknown", by[i]);
        *ret |= 1u << k;
    }
    return rc;
}

static int take_scalar(const struct reading *r, const msgpack_object *map,
                       const struct algorithm_scalar *before, size_t n,
                       struct algorithm_scalar *ret)
{
    int rc;

    if (map->type != MSGPACK_OBJECT_MAP)
        return err_set(r->err, ERR_PROTOCOL, "scalars: maps expected");
    rc = take_line(r, msg_get(map, "name"), "scalars: name", &ret->name);
    if (rc == 0 && !algorithm_scalar_is_name(ret->name, strlen(ret->name)))
        rc = err_set(
            r->err, ERR_PROTOCOL,
            "scalars: found '%.60s', expected at most %d letters, digits, or _.-/",
            ret->name, ALGORITHM_SCALAR_NAME);
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (strcmp(before[i].name, ret->name) == 0)
            rc = err_set(r->err, ERR_PROTOCOL, "two scalars are named %s", ret->name);
    if (rc == 0)
        rc = take_line(r, msg_get(map, "meaning"), "scalars: meaning", &ret->meaning);
    ret->unit = "";
    if (rc == 0 && msg_get(map, "unit") != NULL)
        rc = take_line(r, msg_get(map, "unit"), "scalars: unit", &ret->unit);
    return rc == 0 ? take_by(r, map, &ret->by) : rc;
}

static int take_scalars(const struct reading *r, const msgpack_object *map)
{
    const msgpack_object *list = NULL;
    struct algorithm_scalar *scalars;
    int rc = msg_get_array(map, "scalars", &list, r->err);

    if (rc < 0 || list == NULL)
        return rc;
    if (list->via.array.size > ALGORITHM_MAX_SCALARS)
        return err_set(r->err, ERR_LIMIT, "more than %d scalars", ALGORITHM_MAX_SCALARS);
    scalars = ARENA_ARRAY(r->arena, struct algorithm_scalar, list->via.array.size + 1u);
    for (uint32_t i = 0; i < list->via.array.size && rc == 0; i++)
        rc = take_scalar(r, &list->via.array.ptr[i], scalars, i, &scalars[i]);
    r->ret->scalars = scalars;
    return rc;
}

static int take_facts(const struct reading *r, const msgpack_object *map)
{
    const char *const *is = NULL;
    int rc = take_texts(r, map, "is", NAMES_MAX, &is);

    for (size_t i = 0; rc == 0 && is != NULL && is[i] != NULL; i++) {
        size_t k = 0;

        while (k < N_FACTS && strcmp(facts[k].name, is[i]) != 0)
            k++;
        if (k == N_FACTS)
            return err_set(r->err, ERR_PROTOCOL, "is: '%.40s' is unknown", is[i]);
        *fact_of(r->ret, k) = 1;
    }
    return rc;
}

static int take_within(const struct reading *r, const msgpack_object *map)
{
    const msgpack_object *at = msg_get(map, "within");
    const int rc = at != NULL ? take_line(r, at, "within", &r->ret->within) : 0;

    if (rc == 0 && at != NULL &&
        (*r->ret->within == '/' || strstr(r->ret->within, "..") != NULL))
        return err_set(r->err, ERR_PROTOCOL, "within: a folder below the files expected");
    return rc;
}

int msg_to_algorithm(const msgpack_object *map, struct algorithm_info *ret,
                     struct arena *arena, struct err *err)
{
    const struct reading r = {ret, arena, err};
    int rows = -1, rc;

    *ret = (struct algorithm_info){0};
    if (map->type != MSGPACK_OBJECT_MAP)
        return err_set(err, ERR_PROTOCOL, "a map that describes an algorithm expected");
    rc = take_key(&r, msg_get(map, "name"), "name", &ret->name);
    if (rc == 0)
        rc = take_line(&r, msg_get(map, "summary"), "summary", &ret->summary);
    if (rc == 0)
        rc = take_line(&r, msg_get(map, "stages"), "stages", &ret->stages);
    if (rc == 0)
        rc = take_line(&r, msg_get(map, "use"), "use", &ret->use);
    if (rc == 0)
        rc = take_line(&r, msg_get(map, "source"), "source", &ret->source);
    if (rc == 0)
        rc = take_texts(&r, map, "method", ALGORITHM_MAX_METHOD, &ret->method);
    if (rc == 0)
        rc = take_settings(&r, map);
    if (rc == 0)
        rc = take_defaults(&r, map);
    if (rc == 0)
        rc = take_texts(&r, map, "envs", ALGORITHM_MAX_ENVS, &ret->envs);
    if (rc == 0)
        rc = take_texts(&r, map, "identity", ALGORITHM_MAX_IDENTITY, &ret->identity);
    if (rc == 0)
        rc = take_within(&r, map);
    if (rc == 0)
        rc = take_choice(&r, map, "rows", rows_kind_names, &rows);
    if (rc == 0 && rows < 0)
        rc = err_set(err, ERR_PROTOCOL, "rows expected");
    if (rc == 0)
        rc = take_bounds(&r, map);
    if (rc == 0)
        rc = take_scalars(&r, map);
    if (rc == 0)
        rc = take_facts(&r, map);
    ret->rows = rows < 0 ? ROWS_TRANSITIONS : (enum rows_kind)rows;
    return rc;
}
