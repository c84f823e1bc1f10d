#include "common/msg/config_msg.h"

#include "common/config/cluster_config.h"
#include "common/config/run_schema.h"
#include "common/config/yaml_tree.h"
#include "common/err/check.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { PATH_BYTES = 200, TEXT_BYTES = 4096 };

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
static void put_ramp(struct msg_out *o, const struct ramp *v)
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
    union {
        int64_t whole;
        double real;
        int choice;
        const char *text;
        struct ramp ramp;
    } v = {0};

    switch (f->type) {
    case FIELD_I64:
    case FIELD_BYTES:
        memcpy(&v.whole, p, sizeof(v.whole));
        msg_i64(o, v.whole);
        break;
    case FIELD_F64:
    case FIELD_F64_OR_NONE:
    case FIELD_SECONDS:
        memcpy(&v.real, p, sizeof(v.real));
        msg_f64(o, v.real);
        break;
    case FIELD_SCHEDULE:
        memcpy(&v.ramp, p, sizeof(v.ramp));
        put_ramp(o, &v.ramp);
        break;
    case FIELD_BOOL:
        memcpy(&v.choice, p, sizeof(v.choice));
        msg_bool(o, v.choice);
        break;
    case FIELD_ENUM:
        memcpy(&v.choice, p, sizeof(v.choice));
        msg_str(o, f->names[v.choice]);
        break;
    case FIELD_NAME:
    case FIELD_TEXT:
    case FIELD_NAMES:
        memcpy(&v.text, p, sizeof(v.text));
        msg_str(o, v.text);
        break;
    case FIELD_SIZES:
        put_sizes(o, p);
        break;
    case FIELD_CONVS:
        put_convs(o, p);
        break;
    case FIELD_MAP:
    case FIELD_OPTIONAL_MAP:
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
    return f->type != FIELD_WORDS && f->type != FIELD_TREE &&
           schema_is_given(s, root, base, f);
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

struct reading {
    const char *path; /* path of the section */
    const struct agent_config *root;
    struct arena *arena;
    struct err *err;
};

static int take_section(const struct reading *r, const struct schema *s,
                        const msgpack_object *map, char *base);

static int fail(const struct reading *r, const struct field *f, const char *expected)
{
    return err_set(r->err, ERR_PROTOCOL, "%s.%s: expected %s", r->path, f->key, expected);
}

static int take_whole(const struct reading *r, const struct field *f,
                      const msgpack_object *o, void *dst)
{
    const int64_t min = f->type == FIELD_BYTES ? 0 : (int64_t)f->min;

    if ((o->type != MSGPACK_OBJECT_POSITIVE_INTEGER || o->via.u64 > INT64_MAX) &&
        o->type != MSGPACK_OBJECT_NEGATIVE_INTEGER)
        return fail(r, f, "a whole number");
    if (o->via.i64 < min || (f->type != FIELD_BYTES && (double)o->via.i64 > f->max))
        return fail(r, f, "a number within its range");
    memcpy(dst, &o->via.i64, sizeof(o->via.i64));
    return 0;
}

/* Reads a number. 0 stands for "none" where that is allowed; times have no upper
 * bound. */
static int take_real(const struct reading *r, const struct field *f,
                     const msgpack_object *o, void *dst)
{
    double v;

    if (o->type != MSGPACK_OBJECT_FLOAT64)
        return fail(r, f, "a number in 64 bits");
    v = o->via.f64;
    if (!isfinite(v) ||
        ((f->type != FIELD_F64_OR_NONE || v != 0.0) &&
         !(f->flags & FIELD_ABOVE_MIN ? v > f->min : v >= f->min)) ||
        v > f->max)
        return fail(r, f, "a number within its range");
    memcpy(dst, &v, sizeof(v));
    return 0;
}

static int take_ramp(const struct reading *r, const struct field *f,
                     const msgpack_object *o, void *dst)
{
    const msgpack_object *list = o->via.array.ptr;
    struct ramp v;

    if (o->type == MSGPACK_OBJECT_FLOAT64) {
        v = ramp_constant(o->via.f64);
    } else {
        if (o->type != MSGPACK_OBJECT_ARRAY || o->via.array.size != 3 ||
            list[0].type != MSGPACK_OBJECT_FLOAT64 ||
            list[1].type != MSGPACK_OBJECT_FLOAT64 ||
            list[2].type != MSGPACK_OBJECT_FLOAT64)
            return fail(r, f, "a number in 64 bits, or three");
        v = (struct ramp){list[0].via.f64, list[1].via.f64, list[2].via.f64};
    }
    if (!schema_ramp_fits(f, &v))
        return fail(r, f, "numbers within their range");
    memcpy(dst, &v, sizeof(v));
    return 0;
}

static int take_text(const struct reading *r, const struct field *f,
                     const msgpack_object *o, void *dst)
{
    const char *copy;

    if (o->type != MSGPACK_OBJECT_STR || o->via.str.size == 0 ||
        o->via.str.size >= TEXT_BYTES ||
        memchr(o->via.str.ptr, '\0', o->via.str.size) != NULL)
        return fail(r, f, "a text");
    copy = arena_strndup(r->arena, o->via.str.ptr, o->via.str.size);
    if (f->type == FIELD_NAME && !schema_is_name(copy))
        return fail(r, f, SCHEMA_NAME_EXPECTED);
    memcpy(dst, &copy, sizeof(copy));
    return 0;
}

static int take_choice(const struct reading *r, const struct field *f,
                       const msgpack_object *o, void *dst)
{
    for (int i = 0; f->names[i] != NULL; i++)
        if (msg_str_is(o, f->names[i])) {
            memcpy(dst, &i, sizeof(i));
            return 0;
        }
    return fail(r, f, "one of its choices");
}

/* Reads a list of at most `most` numbers, 1 to max each. Returns their number; -1 if the
 * object is no such list. */
static int take_wholes(const msgpack_object *o, uint32_t most, uint64_t max, int64_t *ret)
{
    if (o->type != MSGPACK_OBJECT_ARRAY || o->via.array.size > most)
        return -1;
    for (uint32_t i = 0; i < o->via.array.size; i++) {
        const msgpack_object *n = &o->via.array.ptr[i];

        if (n->type != MSGPACK_OBJECT_POSITIVE_INTEGER || n->via.u64 < 1 ||
            n->via.u64 > max)
            return -1;
        ret[i] = (int64_t)n->via.u64;
    }
    return (int)o->via.array.size;
}

static int take_sizes(const struct reading *r, const struct field *f,
                      const msgpack_object *o, void *dst)
{
    struct layer_sizes s = {0};

    s.n = take_wholes(o, CONFIG_MAX_LAYERS, CONFIG_MAX_UNITS, s.size);
    if (s.n < 0)
        return fail(r, f, "a list of layer sizes");
    memcpy(dst, &s, sizeof(s));
    return 0;
}

static int take_convs(const struct reading *r, const struct field *f,
                      const msgpack_object *o, void *dst)
{
    const char *expected = "a list of convolutions";
    struct conv_layers s = {0};
    int64_t v[3];

    if (o->type != MSGPACK_OBJECT_ARRAY || o->via.array.size > CONFIG_MAX_CONVS)
        return fail(r, f, expected);
    for (; (uint32_t)s.n < o->via.array.size; s.n++) {
        if (take_wholes(&o->via.array.ptr[s.n], 3, CONFIG_MAX_CONV, v) != 3)
            return fail(r, f, expected);
        s.layer[s.n].filters = v[0];
        s.layer[s.n].kernel = v[1];
        s.layer[s.n].stride = v[2];
    }
    memcpy(dst, &s, sizeof(s));
    return 0;
}

static int take_map(const struct reading *r, const struct field *f,
                    const msgpack_object *o, char *base)
{
    const struct schema *below = schema_below(f, r->root);
    struct reading inner = *r;
    char path[PATH_BYTES];

    (void)snprintf(path, sizeof(path), "%s.%s", r->path, f->key);
    inner.path = path;
    if (f->type == FIELD_OPTIONAL_MAP)
        memcpy(base + f->has_offset, &(int){1}, sizeof(int));
    return take_section(&inner, below, o, base + f->offset);
}

static int take_value(const struct reading *r, const struct field *f,
                      const msgpack_object *o, char *base)
{
    char *dst = base + f->offset;
    int flag;

    switch (f->type) {
    case FIELD_I64:
    case FIELD_BYTES:
        return take_whole(r, f, o, dst);
    case FIELD_F64:
    case FIELD_F64_OR_NONE:
    case FIELD_SECONDS:
        return take_real(r, f, o, dst);
    case FIELD_SCHEDULE:
        return take_ramp(r, f, o, dst);
    case FIELD_BOOL:
        if (o->type != MSGPACK_OBJECT_BOOLEAN)
            return fail(r, f, "true or false");
        flag = o->via.boolean;
        memcpy(dst, &flag, sizeof(flag));
        return 0;
    case FIELD_ENUM:
        return take_choice(r, f, o, dst);
    case FIELD_NAME:
    case FIELD_TEXT:
    case FIELD_NAMES:
        return take_text(r, f, o, dst);
    case FIELD_SIZES:
        return take_sizes(r, f, o, dst);
    case FIELD_CONVS:
        return take_convs(r, f, o, dst);
    case FIELD_MAP:
    case FIELD_OPTIONAL_MAP:
        return take_map(r, f, o, base);
    default:
        return fail(r, f, "no such key in an agent's section");
    }
}

static int take_section(const struct reading *r, const struct schema *s,
                        const msgpack_object *map, char *base)
{
    if (map->type != MSGPACK_OBJECT_MAP)
        return err_set(r->err, ERR_PROTOCOL, "%s: expected a map", r->path);
    for (uint32_t i = 0; i < map->via.map.size; i++) {
        const msgpack_object_kv *kv = &map->via.map.ptr[i];
        const struct field *f = NULL;
        int rc;

        for (size_t k = 0; k < s->n && f == NULL; k++)
            if (msg_str_is(&kv->key, s->fields[k].key))
                f = &s->fields[k];
        if (f == NULL)
            return err_set(r->err, ERR_PROTOCOL, "%s: unknown key", r->path);
        rc = take_value(r, f, &kv->val, base);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int msg_to_agent_config(const msgpack_object *map, struct agent_config *ret,
                        struct arena *arena, struct err *err)
{
    const msgpack_object *algorithm = msg_get(map, "algorithm");
    struct agent_config a = {0};
    const struct reading r = {"config", &a, arena, err};
    int rc = 0;

    schema_defaults(&agent_schema, &a, arena);
    if (algorithm != NULL) /* it says which settings the map may have */
        rc = take_text(&r, schema_find(&agent_schema, "algorithm"), algorithm,
                       &a.algorithm);
    if (rc == 0)
        rc = agent_config_take(&a, arena, err);
    if (rc == 0)
        rc = take_section(&r, &agent_schema, map, (char *)&a);
    if (rc < 0)
        return rc;
    agent_config_resolve(&a);
    *ret = a;
    return 0;
}
