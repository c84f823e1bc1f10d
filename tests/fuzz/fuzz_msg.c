/* Arbitrary bytes as a message: parsed within bounds or refused. Every accessor on every
 * value of the body stays inside the bytes. */
#include "common/err/check.h"
#include "common/msg/msg.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

static volatile uint8_t sink;

static void touch(const void *p, size_t n)
{
    const uint8_t *bytes = p;
    uint8_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum = (uint8_t)(sum + bytes[i]);
    sink = sum;
}

static void read_as_tensor(const msgpack_object *o)
{
    struct tensor t;
    size_t align;

    if (msg_to_tensor(o, "t", &t, NULL) < 0)
        return;
    align = dtype_size(t.dtype) < 8 ? dtype_size(t.dtype) : 8;
    CHECK((uintptr_t)t.data % align == 0 || tensor_bytes(&t) == 0);
    touch(t.data, tensor_bytes(&t));
}

static void read_key(const msgpack_object *map, const char *key)
{
    struct err err = {0};
    struct tensor t;
    const msgpack_object *o;
    const void *bin;
    uint64_t u;
    double f;
    int b;
    char s[16];
    size_t n = 0;

    if (msg_require(map, key, &err) < 0)
        return;
    (void)msg_get_u64(map, key, 1000, &u, &err);
    (void)msg_get_f64(map, key, &f, &err);
    (void)msg_get_bool(map, key, &b, &err);
    if (msg_get_str(map, key, s, sizeof(s), &err) == 0)
        CHECK(strlen(s) < sizeof(s));
    (void)msg_get_map(map, key, &o, &err);
    (void)msg_get_array(map, key, &o, &err);
    (void)msg_get_tensor(map, key, &t, &err);
    if (msg_get_bin(map, key, &bin, &n, &err) == 0)
        touch(bin, n);
}

static void read_object(const msgpack_object *o, int depth)
{
    CHECK(depth <= MSG_MAX_DEPTH);
    read_as_tensor(o);
    if (o->type == MSGPACK_OBJECT_ARRAY) {
        for (uint32_t i = 0; i < o->via.array.size; i++)
            read_object(&o->via.array.ptr[i], depth + 1);
    } else if (o->type == MSGPACK_OBJECT_MAP) {
        for (uint32_t i = 0; i < o->via.map.size; i++) {
            read_object(&o->via.map.ptr[i].key, depth + 1);
            read_object(&o->via.map.ptr[i].val, depth + 1);
        }
        read_key(o, "k");
    } else if (o->type == MSGPACK_OBJECT_STR || o->type == MSGPACK_OBJECT_BIN) {
        touch(o->via.bin.ptr, o->via.bin.size);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct msg m;
    struct err err = {0};

    if (msg_parse(&m, data, size, &err) < 0) {
        CHECK(err.code < 0 && err.msg[0] != '\0' && !m.has_zone);
        return 0;
    }
    CHECK(strlen(m.method) < sizeof(m.method));
    CHECK(strlen(m.error.msg) < sizeof(m.error.msg));
    read_object(&m.body, 1);
    msg_done(&m);
    return 0;
}
