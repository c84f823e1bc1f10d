#include "supervisor/env/external.h"

#include "common/config/yaml_tree.h"
#include "supervisor/env/env_class.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOREIGN_MAX_WIDTH (1u << 24)

/* ---- the program ---- */

static const char *const *words_of(const struct env_config *c, struct arena *arena)
{
    const size_t n = c->command != NULL ? c->command->n : 1;
    const char **words = ARENA_ARRAY(arena, const char *, n + 1);

    if (c->command == NULL)
        words[0] = arena_strdup(arena, c->plugin);
    for (size_t i = 0; c->command != NULL && i < n; i++)
        words[i] = arena_strdup(arena, c->command->child[i]->text);
    return words;
}

struct agent_limits external_limits(const struct env_config *config)
{
    return (struct agent_limits){.restart = config->restart,
                                 .memory_limit_bytes = config->memory_limit_bytes,
                                 .respond_within_s = config->respond_within_s};
}

void external_init(struct external *ret, const struct env_config *config,
                   struct arena *arena)
{
    *ret = (struct external){
        .command = words_of(config, arena),
        .mode = config->command == NULL ? "plugin" : NULL,
        .directory =
            config->directory != NULL ? arena_strdup(arena, config->directory) : NULL,
        .params = config->params != NULL ? yaml_tree_copy(config->params, arena) : NULL,
        .metrics = config->metrics != NULL ? arena_strdup(arena, config->metrics) : NULL,
        .limits = external_limits(config),
        .draws = config->draws,
        .on_failure = config->on_failure,
        .processes = (size_t)config->processes};
}

/* ---- configure ---- */

/* Packs what YAML's core schema has beside decimal numbers: 0x1f, 0o17, .inf, .nan. */
static int pack_odd_number(const struct yaml_node *n, struct msg_out *o)
{
    const char *text = n->text, *digits;
    const int is_hex = strncmp(text, "0x", 2) == 0,
              is_octal = strncmp(text, "0o", 2) == 0;
    uint64_t whole;

    if (yaml_is_word(n, ".nan", ".NaN", ".NAN")) {
        msg_f64(o, (double)NAN);
        return 1;
    }
    if (yaml_is_word(n, ".inf", ".Inf", ".INF") ||
        yaml_is_word(n, "+.inf", "+.Inf", "+.INF") ||
        yaml_is_word(n, "-.inf", "-.Inf", "-.INF")) {
        msg_f64(o, *text == '-' ? -(double)INFINITY : (double)INFINITY);
        return 1;
    }
    if (!is_hex && !is_octal)
        return 0;
    digits = is_hex ? "0123456789abcdefABCDEF" : "01234567";
    errno = 0;
    whole = strtoull(text + 2, NULL, is_hex ? 16 : 8);
    if (text[2] == '\0' || text[2 + strspn(text + 2, digits)] != '\0' || errno != 0)
        return 0;
    msg_u64(o, whole);
    return 1;
}

static int pack_number(const struct yaml_node *n, struct msg_out *o)
{
    const char *text = n->text;
    char *end;
    long long whole;
    unsigned long long large;
    double v;

    errno = 0;
    whole = strtoll(text, &end, 10);
    if (end != text && *end == '\0' && errno == 0) {
        msg_i64(o, whole);
        return 1;
    }
    errno = 0;
    large = strtoull(text, &end, 10);
    if (end != text && *end == '\0' && errno == 0 && *text != '-') {
        msg_u64(o, large);
        return 1;
    }
    v = strtod(text, &end);
    if (end == text || *end != '\0' || strpbrk(text, "xXnN") != NULL || !isfinite(v))
        return pack_odd_number(n, o); /* strtod has its own inf, nan and hexadecimal */
    msg_f64(o, v);
    return 1;
}

static void pack_scalar(const struct yaml_node *n, struct msg_out *o)
{
    const int is_true = yaml_is_word(n, "true", "True", "TRUE");

    if (yaml_is_null(n))
        msg_nil(o);
    else if (is_true || yaml_is_word(n, "false", "False", "FALSE"))
        msg_bool(o, is_true);
    else if (n->quoted || !pack_number(n, o))
        msg_str(o, n->text);
}

static void pack_value(const struct yaml_node *n, int as_text, struct msg_out *o)
{
    if (n->kind == YAML_SCALAR && as_text) {
        msg_str(o, n->text);
        return;
    }
    if (n->kind == YAML_SCALAR) {
        pack_scalar(n, o);
        return;
    }
    if (n->kind == YAML_MAP)
        msg_map(o, n->n);
    else
        msg_array(o, n->n);
    for (size_t i = 0; i < n->n; i++) {
        if (n->kind == YAML_MAP)
            msg_key(o, n->child[i]->key);
        pack_value(n->child[i], as_text, o);
    }
}

static void pack_metrics(const char *names, struct msg_out *o)
{
    size_t n = 1;

    for (const char *p = names; (p = strchr(p, ' ')) != NULL; p++)
        n++;
    msg_key(o, "metrics");
    msg_array(o, n);
    for (const char *p = names; n > 0; n--) {
        char name[AGENT_NAME_MAX];
        const size_t len = strcspn(p, " ");

        (void)snprintf(name, sizeof(name), "%.*s", (int)len, p);
        msg_str(o, name);
        p += len + 1;
    }
}

void external_pack_configure(const struct external *f, size_t copies, size_t first,
                             struct msg_out *o)
{
    msg_map(o, 3u + (f->draws != 0) + (f->metrics != NULL));
    if (f->metrics != NULL)
        pack_metrics(f->metrics, o);
    if (f->draws)
        msg_put_bool(o, "draw", 1);
    msg_put_u64(o, "copies", copies);
    msg_put_u64(o, "first", first);
    msg_key(o, "params");
    if (f->params != NULL)
        pack_value(f->params, f->mode != NULL, o);
    else
        msg_map(o, 0);
}

/* ---- the answer to configure ---- */

static int parse_heads(struct action_space *s, const msgpack_object *map, struct err *err)
{
    const int is_hybrid = s->kind == SPACE_HYBRID;
    const msgpack_object *heads = NULL;
    int64_t width = 0;
    int rc = msg_get_array(map, "heads", &heads, err);

    if (rc < 0)
        return rc;
    if (heads == NULL || heads->via.array.size < 1 ||
        heads->via.array.size > SPACE_MAX_HEADS)
        return err_set(err, ERR_PROTOCOL, "a %s action has 1 to %d heads",
                       is_hybrid ? "hybrid" : "discrete", SPACE_MAX_HEADS);
    s->n_heads = (int)heads->via.array.size;
    for (int i = 0; i < s->n_heads; i++) {
        const msgpack_object *size = &heads->via.array.ptr[i];

        if (size->type != MSGPACK_OBJECT_POSITIVE_INTEGER || size->via.u64 < 1 ||
            size->via.u64 > FOREIGN_MAX_WIDTH)
            return err_set(err, ERR_PROTOCOL, "the size of head %d", i);
        s->heads[i] = (int32_t)size->via.u64;
        width += s->heads[i];
    }
    if (is_hybrid && width >= s->width)
        return err_set(err, ERR_PROTOCOL, "a hybrid action without numbers");
    return is_hybrid || width == s->width
               ? 0
               : err_set(err, ERR_PROTOCOL, "its heads are not as wide as its actions");
}

static int parse_space(struct action_space *s, const msgpack_object *agent,
                       struct err *err)
{
    const msgpack_object *map = NULL;
    uint64_t width = 0;
    char kind[16] = "";
    int rc;

    if ((rc = msg_require(agent, "action", err)) < 0 ||
        (rc = msg_get_map(agent, "action", &map, err)) < 0 ||
        (rc = msg_get_str(map, "kind", kind, sizeof(kind), err)) < 0 ||
        (rc = msg_get_u64(map, "width", FOREIGN_MAX_WIDTH, &width, err)) < 0)
        return rc;
    s->width = (int32_t)width;
    if (width == 0)
        return err_set(err, ERR_PROTOCOL, "its actions have no width");
    if (strcmp(kind, "discrete") == 0)
        return parse_heads(s, map, err);
    s->kind = strcmp(kind, "hybrid") == 0 ? SPACE_HYBRID : SPACE_BOX;
    if (s->kind == SPACE_HYBRID && (rc = parse_heads(s, map, err)) < 0)
        return rc;
    if (s->kind == SPACE_BOX && strcmp(kind, "box") != 0)
        return err_set(err, ERR_PROTOCOL, "an unknown kind of action, '%s'", kind);
    s->low = -(double)INFINITY;
    s->high = (double)INFINITY;
    if ((rc = msg_get_f64(map, "low", &s->low, err)) < 0 ||
        (rc = msg_get_f64(map, "high", &s->high, err)) < 0)
        return rc;
    return s->low < s->high ? 0 : err_set(err, ERR_PROTOCOL, "its bounds are empty");
}

static int parse_agent(struct env_agent *a, const msgpack_object *map, struct err *err)
{
    uint64_t obs = 0;
    int rc;

    if (map->type != MSGPACK_OBJECT_MAP)
        return err_set(err, ERR_PROTOCOL, "an agent is not a map");
    if ((rc = msg_require(map, "name", err)) < 0 ||
        (rc = msg_get_str(map, "name", a->name, sizeof(a->name), err)) < 0)
        return rc;
    if (!schema_is_name(a->name))
        return err_set(err, ERR_PROTOCOL, "'%s' cannot name an agent", a->name);
    if (schema_is_reserved(a->name))
        return err_set(
            err, ERR_PROTOCOL,
            "'%s' cannot name an agent: the run has a process or a file that is "
            "called so",
            a->name);
    env_agent_find_team(a);
    if ((rc = msg_get_u64(map, "obs", FOREIGN_MAX_WIDTH, &obs, err)) < 0 ||
        (rc = msg_get_bool(map, "uint8", &a->obs_is_u8, err)) < 0 ||
        (rc = msg_get_image(map, (int64_t)obs, 1, a->obs_is_u8, &a->image, err)) < 0 ||
        (rc = msg_get_entities(map, (int64_t)obs, a->entities, err)) < 0 ||
        (rc = parse_space(&a->space, map, err)) < 0)
        return err_wrap(err, "%s", a->name);
    a->obs_width = (int32_t)obs;
    return obs > 0 ? 0 : err_set(err, ERR_PROTOCOL, "%s observes nothing", a->name);
}

void external_make_plain(char *text)
{
    for (; *text != '\0'; text++)
        if (*text < ' ' || *text > '~')
            *text = '?';
}

/* The name comes from the program and is displayed: only printable text is kept, and of a
 * long one, such as a path, the end. */
static int parse_name(char *ret, size_t size, const msgpack_object *answer,
                      struct err *err)
{
    static const char cut[] = "...";
    const msgpack_object *name;
    size_t len, kept;
    int rc = msg_require(answer, "name", err);

    if (rc < 0)
        return rc;
    name = msg_get(answer, "name");
    if (name->type != MSGPACK_OBJECT_STR)
        return err_set(err, ERR_PROTOCOL, "name: expected a string");
    len = name->via.str.size;
    kept = len < size ? len : size - sizeof(cut);
    (void)snprintf(ret, size, "%s%.*s", kept < len ? cut : "", (int)kept,
                   kept > 0 ? name->via.str.ptr + len - kept : "");
    external_make_plain(ret);
    return 0;
}

int external_parse(struct env_spec *ret, const msgpack_object *answer,
                   struct arena *arena, struct err *err)
{
    const msgpack_object *agents = NULL;
    uint64_t max_steps = 0;
    int rc;

    *ret = (struct env_spec){0};
    if (answer->type != MSGPACK_OBJECT_MAP)
        return err_set(err, ERR_PROTOCOL, "not a map");
    if ((rc = msg_require(answer, "agents", err)) < 0 ||
        (rc = msg_get_array(answer, "agents", &agents, err)) < 0 ||
        (rc = msg_get_bool(answer, "masks", &ret->masks, err)) < 0 ||
        (rc = msg_get_u64(answer, "max_steps", INT32_MAX, &max_steps, err)) < 0 ||
        (rc = parse_name(ret->id, sizeof(ret->id), answer, err)) < 0)
        return rc;
    ret->max_steps = (int64_t)max_steps;
    ret->n_agents = agents->via.array.size;
    if (ret->n_agents < 1 || ret->n_agents > ENV_MAX_AGENTS)
        return err_set(err, ERR_PROTOCOL, "%zu agents, expected 1 to %d", ret->n_agents,
                       ENV_MAX_AGENTS);
    ret->agents = ARENA_ARRAY(arena, struct env_agent, ret->n_agents);
    for (size_t i = 0; rc == 0 && i < ret->n_agents; i++) {
        rc = parse_agent(&ret->agents[i], &agents->via.array.ptr[i], err);
        for (size_t k = 0; rc == 0 && k < i; k++)
            if (strcmp(ret->agents[k].name, ret->agents[i].name) == 0)
                rc = err_set(err, ERR_PROTOCOL, "two agents are called %s",
                             ret->agents[i].name);
    }
    return rc;
}

static int same_space(const struct action_space *a, const struct action_space *b)
{
    return a->kind == b->kind && a->n_heads == b->n_heads && a->width == b->width &&
           a->low == b->low && a->high == b->high &&
           memcmp(a->heads, b->heads, sizeof(a->heads)) == 0;
}

int external_same_spec(const struct env_spec *a, const struct env_spec *b)
{
    int same = a->n_agents == b->n_agents && a->masks == b->masks;

    for (size_t i = 0; same && i < a->n_agents; i++)
        same = strcmp(a->agents[i].name, b->agents[i].name) == 0 &&
               env_sees_alike(&a->agents[i], &b->agents[i]) &&
               same_space(&a->agents[i].space, &b->agents[i].space);
    return same;
}
