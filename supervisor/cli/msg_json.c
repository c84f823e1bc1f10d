#include "supervisor/cli/msg_json.h"

#include "common/log/log.h"
#include "common/mem/xmalloc.h"

#include <stdio.h>
#include <stdlib.h>

_Static_assert(JSON_MAX_DEPTH >= MSG_MAX_DEPTH, "every parsed message can be printed");

static void put_pair(struct json *j, const msgpack_object_kv *pair)
{
    char *key;

    if (pair->key.type != MSGPACK_OBJECT_STR)
        return;
    key = xstrndup(pair->key.via.str.ptr, pair->key.via.str.size);
    json_key(j, key);
    msg_json_put(j, &pair->val);
    free(key);
}

void msg_json_put_pairs(struct json *j, const msgpack_object *map)
{
    for (uint32_t i = 0; map->type == MSGPACK_OBJECT_MAP && i < map->via.map.size; i++)
        put_pair(j, &map->via.map.ptr[i]);
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

    json_begin(j);
    json_object(j);
    json_key(j, "time");
    json_str(j, log_time(now));
    json_key(j, "event");
    json_str(j, name);
}

void msg_json_print(struct json *j)
{
    size_t len;
    const char *text = json_line(j, &len);

    (void)fwrite(text, 1, len, stdout);
    (void)fflush(stdout);
}

void msg_json_print_object(const msgpack_object *o)
{
    struct json j = {0};

    json_begin(&j);
    msg_json_put(&j, o);
    msg_json_print(&j);
    json_done(&j);
}
