#include "common/msg/config_msg.h"

#include "common/config/cluster_config.h"
#include "common/config/run_schema.h"
#include "common/config/yaml_tree.h"
#include "common/err/check.h"

#include <inttypes.h>
#include <string.h>

/* ---- packing ---- */

static void put_section(struct msg_out *o, const struct schema *s, const void *root,
                        const void *base);

static void put_sizes(struct msg_out *o, const struct layer_sizes *s)
{
    msg_array(o, (size_t)s->n);
    for (int i = 0; i < s->n; i++)
        msg_i64(o, s->size[i]);
}

static void put_convs(struct msg_out *o, const struct conv_layers *s)
{
    msg_array(o, (size_t)s->n);
    for (int64_t i = 0; i < s->n; i++) {
        msg_array(o, 3);
        msg_i64(o, s->layer[i].filters);
        msg_i64(o, s->layer[i].kernel);
        msg_i64(o, s->layer[i].stride);
    }
}

/* Packs a schedule, or a number if its value is constant. */
static void put_schedule(struct msg_out *o, const struct schedule *v)
{
    if (v->over <= 0) {
        msg_f64(o, v->from);
        return;
    }
    msg_array(o, 3);
    msg_f64(o, v->from);
    msg_f64(o, v->to);
    msg_f64(o, v->over);
}

static void put_value(struct msg_out *o, const struct field *f, const void *root,
                      const void *p)
{
    const char *text;
    struct schedule schedule;

    switch (schema_storage(f)) {
    case STORED_WHOLE:
        msg_i64(o, (int64_t)schema_number(f, p));
        break;
    case STORED_REAL:
        msg_f64(o, schema_number(f, p));
        break;
    case STORED_SCHEDULE:
        memcpy(&schedule, p, sizeof(schedule));
        put_schedule(o, &schedule);
        break;
    case STORED_CHOICE:
        if (f->type == FIELD_BOOL)
            msg_bool(o, schema_number(f, p) != 0);
        else
            msg_str(o, f->names[(int)schema_number(f, p)]);
        break;
    case STORED_TEXT:
        memcpy(&text, p, sizeof(text));
        msg_str(o, text);
        break;
    case STORED_SIZES:
        put_sizes(o, p);
        break;
    case STORED_CONVS:
        put_convs(o, p);
        break;
    case STORED_MAP:
        put_section(o, schema_below(f, root), root, p);
        break;
    default:
        CHECK(0, "%s is no key of an agent", f->key);
    }
}

/* How a program is started is not the agent's section: the launcher has that (protocol.h). */
static int is_sent(const struct schema *s, const void *root, const void *base,
                   const struct field *f)
{
    return schema_storage(f) != STORED_TREE && schema_is_given(s, root, base, f);
}

static void put_section(struct msg_out *o, const struct schema *s, const void *root,
                        const void *base)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n; i++)
        n += is_sent(s, root, base, &s->fields[i]) ? 1 : 0;
    msg_map(o, n);
    for (size_t i = 0; i < s->n; i++) {
        const struct field *f = &s->fields[i];

        if (!is_sent(s, root, base, f))
            continue;
        msg_key(o, f->key);
        put_value(o, f, root, (const char *)base + f->offset);
    }
}

void msg_agent_config(struct msg_out *o, const struct agent_config *a)
{
    put_section(o, &agent_schema, a, a);
}

static void put_words(struct msg_out *o, const char *key, const struct yaml_node *words)
{
    if (words == NULL)
        return;
    msg_key(o, key);
    msg_array(o, words->n);
    for (size_t i = 0; i < words->n; i++)
        msg_str(o, words->child[i]->text);
}

void msg_program(struct msg_out *o, const struct agent_config *a,
                 const struct program_place *place)
{
    const struct yaml_node *env = a->environment;
    const struct confine_config *may = &a->confine;
    const int64_t gpu = device_gpu(a->device);
    const int has_identity = place->identity != NULL && !a->is_inexact;

    msg_map(o, 3u + 2 * (place->kept != NULL) + has_identity + (a->is_inexact != 0) +
                   (gpu >= 0) + (a->threads > 0) + (may->threads != 0) +
                   (may->files != NULL) + (may->devices != NULL));
    if (place->kept != NULL) {
        msg_put_str(o, "kept", place->kept);
        msg_put_str(o, "within", place->within);
    }
    if (gpu >= 0) {
        char device[32];

        (void)snprintf(device, sizeof(device), "cuda:%" PRId64, gpu);
        msg_put_str(o, "device", device);
    }
    if (a->is_inexact)
        msg_put_bool(o, "inexact", 1);
    if (has_identity) {
        size_t n = 0;

        while (place->identity[n] != NULL)
            n++;
        msg_key(o, "identity");
        msg_array(o, n);
        for (size_t i = 0; i < n; i++)
            msg_str(o, place->identity[i]);
    }
    if (a->threads > 0)
        msg_put_u64(o, "threads", (uint64_t)a->threads);
    if (may->threads)
        msg_put_bool(o, "starts_threads", 1);
    put_words(o, "files", may->files);
    put_words(o, "devices", may->devices);
    put_words(o, "command", a->command);
    msg_put_str(o, "directory", a->directory);
    msg_key(o, "environment");
    msg_map(o, env != NULL ? env->n : 0);
    for (size_t i = 0; env != NULL && i < env->n; i++)
        msg_put_str(o, env->child[i]->key, env->child[i]->text);
}

/* ---- unpacking ---- */

/* The values become the tree that a file with them has, which is read and checked as a file is. */
static struct yaml_node *new_node(struct arena *arena, enum yaml_kind kind, size_t n)
{
    struct yaml_node *node = ARENA_NEW(arena, struct yaml_node);

    *node = (struct yaml_node){.kind = kind, .place = "configure", .text = "", .n = n};
    node->child = ARENA_ARRAY(arena, struct yaml_node *, n);
    return node;
}

/* Returns a number as a file has it, with its unit; "" if it is none. f NULL: the key is unknown. */
static const char *number_text(struct arena *arena, const struct field *f,
                               const msgpack_object *o)
{
    const enum field_type type = f != NULL ? f->type : FIELD_F64;
    const char *unit = type == FIELD_BYTES ? "B" : type == FIELD_SECONDS ? "s" : "";
    const int is_real = o->type == MSGPACK_OBJECT_FLOAT64;
    const int is_zero = is_real ? o->via.f64 == 0 : o->via.u64 == 0;

    if (!is_real && o->type != MSGPACK_OBJECT_POSITIVE_INTEGER &&
        o->type != MSGPACK_OBJECT_NEGATIVE_INTEGER)
        return "";
    if (is_zero && (type == FIELD_BYTES || type == FIELD_F64_OR_NONE))
        return "none";
    if (is_real)
        return arena_printf(arena, "%.17g%s", o->via.f64, unit);
    if (o->type == MSGPACK_OBJECT_POSITIVE_INTEGER)
        return arena_printf(arena, "%" PRIu64 "%s", o->via.u64, unit);
    return arena_printf(arena, "%" PRId64 "%s", o->via.i64, unit);
}

static const char *scalar_text(struct arena *arena, const struct field *f,
                               const msgpack_object *o)
{
    if (o->type == MSGPACK_OBJECT_BOOLEAN)
        return o->via.boolean ? "true" : "false";
    if (o->type != MSGPACK_OBJECT_STR)
        return number_text(arena, f, o);
    return memchr(o->via.str.ptr, '\0', o->via.str.size) == NULL
               ? arena_strndup(arena, o->via.str.ptr, o->via.str.size)
               : "";
}

/* A list of names is sent as one text. */
static struct yaml_node *names_of(struct arena *arena, const char *text)
{
    struct yaml_node *list = new_node(arena, YAML_LIST, strlen(text) + 1);

    list->n = 0;
    for (size_t len; *text != '\0'; text += len + (text[len] == ' ')) {
        struct yaml_node *name = new_node(arena, YAML_SCALAR, 0);

        len = strcspn(text, " ");
        name->text = arena_strndup(arena, text, len);
        list->child[list->n++] = name;
    }
    return list;
}

static struct yaml_node *value_of(struct arena *arena, const struct field *f,
                                  const msgpack_object *o)
{
    const size_t n = o->type == MSGPACK_OBJECT_ARRAY ? o->via.array.size : 0;
    struct yaml_node *node;

    if (o->type != MSGPACK_OBJECT_ARRAY) {
        node = new_node(arena, YAML_SCALAR, 0);
        node->text = scalar_text(arena, f, o);
        return f != NULL && f->type == FIELD_NAMES ? names_of(arena, node->text) : node;
    }
    node = new_node(arena, YAML_LIST, n);
    for (size_t i = 0; i < n; i++)
        node->child[i] = value_of(arena, f, &o->via.array.ptr[i]);
    if (n == 3 && f != NULL && f->type == FIELD_SCHEDULE) {
        node->kind = YAML_SCALAR;
        node->text = arena_printf(arena, "%s to %s over %s", node->child[0]->text,
                                  node->child[1]->text, node->child[2]->text);
    }
    return node;
}

/* root: the agent, whose algorithm is known. */
static struct yaml_node *section_of(struct arena *arena, const struct agent_config *root,
                                    const struct schema *s, const msgpack_object *o)
{
    struct yaml_node *map = new_node(arena, YAML_MAP, o->via.map.size);

    for (size_t i = 0; i < map->n; i++) {
        const msgpack_object_kv *kv = &o->via.map.ptr[i];
        const char *key = scalar_text(arena, NULL, &kv->key);
        const struct field *f = schema_find(s, key);
        const struct schema *below = f != NULL && kv->val.type == MSGPACK_OBJECT_MAP
                                         ? schema_below(f, root)
                                         : NULL;

        map->child[i] = below != NULL ? section_of(arena, root, below, &kv->val)
                                      : value_of(arena, f, &kv->val);
        map->child[i]->key = key;
    }
    return map;
}

int msg_to_agent_config(const msgpack_object *map, struct agent_config *ret,
                        struct arena *arena, struct err *err)
{
    const msgpack_object *algorithm = msg_get(map, "algorithm");
    struct agent_config a = {0};
    struct err why = {0};
    int rc;

    if (map->type != MSGPACK_OBJECT_MAP)
        return err_set(err, ERR_PROTOCOL, "config: expected a map");
    schema_defaults(&agent_schema, &a, arena);
    if (algorithm != NULL) /* it says which settings the map may have */
        a.algorithm = scalar_text(arena, NULL, algorithm);
    rc = agent_config_take(&a, arena, err);
    if (rc < 0)
        return rc;
    if (schema_read(&agent_schema, section_of(arena, &a, &agent_schema, map), "config",
                    &a, arena, &why) < 0)
        return err_set(err, ERR_PROTOCOL, "%s", why.msg);
    agent_config_resolve(&a);
    *ret = a;
    return 0;
}
