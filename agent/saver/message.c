#include "agent/saver/message.h"

#include "common/err/check.h"

#include <string.h>

enum { SPARE_BYTES = 1 << 16 }; /* for the overhead of small messages */

struct budget {
    struct arena *arena;
    size_t left;
};

static void *take(void *ctx, size_t size)
{
    struct budget *b = ctx;

    if (size > b->left)
        return NULL;
    b->left -= size;
    return arena_alloc(b->arena, size);
}

static void give_back(void *ctx, void *p)
{
    (void)ctx;
    (void)p;
}

void *message_unpack(struct arena *a, const ProtobufCMessageDescriptor *type,
                     const void *data, size_t len_bytes)
{
    struct budget budget = {a, SPARE_BYTES};
    ProtobufCAllocator allocator = {take, give_back, &budget};

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
