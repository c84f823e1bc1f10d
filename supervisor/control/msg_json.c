#include "supervisor/control/msg_json.h"

#include "common/log/log.h"
#include "common/mem/xmalloc.h"
#include "supervisor/rundir/journal_read.h"

#include <math.h>
#include <stdlib.h>

_Static_assert(JSON_MAX_DEPTH >= MSG_MAX_DEPTH, "every parsed message can be printed");

void msg_json_put_pairs(struct json *j, const msgpack_object *map)
{
    for (uint32_t i = 0; map->type == MSGPACK_OBJECT_MAP && i < map->via.map.size; i++) {
        const msgpack_object_kv *pair = &map->via.map.ptr[i];
        char *key;

        if (pair->key.type != MSGPACK_OBJECT_STR)
            continue;
        key = xstrndup(pair->key.via.str.ptr, pair->key.via.str.size);
        json_key(j, key);
        msg_json_put(j, &pair->val);
        free(key);
    }
}

void msg_json_put(struct json *j, const msgpack_object *o)
{
    switch (o->type) {
    case MSGPACK_OBJECT_MAP:
        json_object(j);
        msg_json_put_pairs(j, o);
        json_close(j);
        break;
    case MSGPACK_OBJECT_ARRAY:
        json_array(j);
        for (uint32_t i = 0; i < o->via.array.size; i++)
            msg_json_put(j, &o->via.array.ptr[i]);
        json_close(j);
        break;
    case MSGPACK_OBJECT_STR:
        json_strn(j, o->via.str.ptr, o->via.str.size);
        break;
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
        json_u64(j, o->via.u64);
        break;
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        json_i64(j, o->via.i64);
        break;
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64:
        json_f64(j, o->via.f64);
        break;
    case MSGPACK_OBJECT_BOOLEAN:
        json_bool(j, o->via.boolean);
        break;
    default:
        json_null(j);
        break;
    }
}

void msg_json_begin_event(struct json *j, const char *name)
{
    char now[LOG_TIME_BYTES];

    json_object(j);
    json_put_str(j, "time", log_time(now));
    json_put_str(j, "event", name);
}

void msg_json_print_object(const msgpack_object *o)
{
    struct json j = {0};

    msg_json_put(&j, o);
    json_print(&j, stdout);
}

int journal_json_print(char *line)
{
    struct journal_event e;
    struct json j = {0};
    int rc = journal_parse(line, &e);

    if (rc < 0)
        return rc;
    json_object(&j);
    json_put_str(&j, "time", e.time);
    if (e.env_steps != JOURNAL_NO_STEP)
        json_put_u64(&j, "env_steps", e.env_steps);
    json_put_str(&j, "event", e.name);
    for (size_t i = 0; i < e.n_pairs; i++) {
        const struct journal_pair *pair = &e.pairs[i];
        const uint64_t whole = journal_number(&e, pair->key, UINT64_MAX);
        const double real = journal_real(&e, pair->key, NAN);
        const enum member_type type = run_event_type_of(pair->key);

        json_key(&j, pair->key);
        if (type == MEMBER_CHANGES)
            changes_json(&j, pair->value);
        else if (type == MEMBER_TEXT || type == MEMBER_SIGNAL || isnan(real))
            json_str(&j, pair->value);
        else if (whole != UINT64_MAX)
            json_u64(&j, whole);
        else
            json_f64(&j, real);
    }
    json_print(&j, stdout);
    return 0;
}
