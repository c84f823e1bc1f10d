#include "agent/saver/message.h"

#include "common/err/check.h"

#include <string.h>

enum { SPARE_BYTES = 1 << 16 }; /* for the overhead of small messages */

struct budget {
    struct arena *arena;
    size_t left;
};

static void *message_take(void *ctx, size_t size)
{
    struct budget *b = ctx;

    if (size > b->left)
        return NULL;
    b->left -= size;
    return arena_alloc(b->arena, size);
}

static void give_back(void *ctx, void *p)
{
}

void *message_unpack(struct arena *a, const ProtobufCMessageDescriptor *type,
                     const void *data, size_t len_bytes)
{
    struct budget budget = {a, SPARE_BYTES};
    ProtobufCAllocator allocator = {message_take, give_back, &budget};

    if (len_bytes > MESSAGE_MAX_BYTES)
        return NULL;
    budget.left += len_bytes * MESSAGE_MAX_GROWTH;
    return protobuf_c_message_unpack(type, &allocator, len_bytes, data);
}

void message_pack(struct wbuf *b, const void *message)
{
    size_t n = protobuf_c_message_get_packed_size(message);

    wbuf_reserve(b, n);
    CHECK(protobuf_c_message_pack(message, b->data + b->len) == n);
    b->len += n;
}

ProtobufCBinaryData message_packed(struct arena *a, const void *message)
{
    struct wbuf b = {0};
    ProtobufCBinaryData bytes;

    message_pack(&b, message);
    bytes = message_bytes(a, b.data, b.len);
    wbuf_done(&b);
    return bytes;
}

int message_same(const void *a, const void *b)
{
    struct wbuf x = {0}, y = {0};
    int same;

    message_pack(&x, a);
    message_pack(&y, b);
    same = x.len == y.len && (x.len == 0 || memcmp(x.data, y.data, x.len) == 0);
    wbuf_done(&x);
    wbuf_done(&y);
    return same;
}

void *message_init(struct arena *a, size_t size, const ProtobufCMessageDescriptor *type)
{
    ProtobufCMessage *m = arena_alloc(a, size);

    CHECK(size == type->sizeof_message);
    protobuf_c_message_init(type, m);
    return m;
}

ProtobufCBinaryData message_bytes(struct arena *a, const void *data, size_t len_bytes)
{
    return (ProtobufCBinaryData){len_bytes, arena_memdup(a, data, len_bytes)};
}
