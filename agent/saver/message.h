/* message.h - unpacks the messages of proto/metagraph.proto with bounded memory.
 *
 * protobuf-c allocates as much as a file asks for. Here it allocates from an arena, at
 * most MESSAGE_MAX_GROWTH times the file's size. Unpacked messages live as long as the
 * arena and are not freed one by one.
 */
#ifndef AGENT_SAVER_MESSAGE_H
#define AGENT_SAVER_MESSAGE_H

#include "common/err/err.h"
#include "common/mem/arena.h"
#include "common/wire/cursor.h"

#include "agent/saver/proto/metagraph.pb-c.h"

enum {
    MESSAGE_MAX_BYTES = 1 << 29, /* of a file */
    MESSAGE_MAX_GROWTH = 256,
};

/* NULL if the bytes are not such a message. */
void *message_unpack(struct arena *a, const ProtobufCMessageDescriptor *type,
                     const void *data, size_t len_bytes);
#define MESSAGE_UNPACK(a, type, data, len)                                               \
    message_unpack((a), &tf__##type##__descriptor, (data), (len))

void message_pack(struct wbuf *b, const void *message);
/* The packed message, in the arena. */
ProtobufCBinaryData message_packed(struct arena *a, const void *message);
/* Whether both messages have the same bytes. */
int message_same(const void *a, const void *b);

/* Allocates an empty message in the arena: MESSAGE_NEW(a, NodeDef, node_def). */
#define MESSAGE_NEW(a, Type, type)                                                       \
    ((Tf__##Type *)message_init((a), sizeof(Tf__##Type), &tf__##type##__descriptor))
void *message_init(struct arena *a, size_t size, const ProtobufCMessageDescriptor *type);

/* Copies the bytes of a field to the arena. */
ProtobufCBinaryData message_bytes(struct arena *a, const void *data, size_t len_bytes);

#endif
