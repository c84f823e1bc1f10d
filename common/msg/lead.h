/* lead.h - decodes the first byte of a msgpack object, which determines the form of the
 * rest: the table of the format, shared by unpack.c and stream.c.
 */
#ifndef COMMON_MSG_LEAD_H
#define COMMON_MSG_LEAD_H

#include <msgpack.h>
#include <stdint.h>

/* Unsigned numbers have type POSITIVE_INTEGER, signed ones NEGATIVE_INTEGER. */
struct lead {
    int valid;
    msgpack_object_type type;
    unsigned count_bytes; /* width of the big-endian count that follows; 0: `count` */
    uint32_t count;       /* elements, pairs, or bytes of payload */
    unsigned extra_bytes; /* after the count: an extension's type */
};

/* Inline, so that reading an object costs no call. */
static inline struct lead lead_of(uint8_t b)
{
    if (b <= 0x7f)
        return (struct lead){1, MSGPACK_OBJECT_POSITIVE_INTEGER};
    if (b >= 0xe0)
        return (struct lead){1, MSGPACK_OBJECT_NEGATIVE_INTEGER};
    if (b <= 0x8f)
        return (struct lead){1, MSGPACK_OBJECT_MAP, .count = b & 0x0f};
    if (b <= 0x9f)
        return (struct lead){1, MSGPACK_OBJECT_ARRAY, .count = b & 0x0f};
    if (b <= 0xbf)
        return (struct lead){1, MSGPACK_OBJECT_STR, .count = b & 0x1f};
    switch (b) {
    case 0xc0:
        return (struct lead){1, MSGPACK_OBJECT_NIL};
    case 0xc2:
    case 0xc3:
        return (struct lead){1, MSGPACK_OBJECT_BOOLEAN};
    case 0xc4:
    case 0xc5:
    case 0xc6:
        return (struct lead){1, MSGPACK_OBJECT_BIN, .count_bytes = 1u << (b - 0xc4)};
    case 0xc7:
    case 0xc8:
    case 0xc9:
        return (struct lead){1, MSGPACK_OBJECT_EXT, .count_bytes = 1u << (b - 0xc7),
                             .extra_bytes = 1};
    case 0xca:
        return (struct lead){1, MSGPACK_OBJECT_FLOAT32, .count = 4};
    case 0xcb:
        return (struct lead){1, MSGPACK_OBJECT_FLOAT64, .count = 8};
    case 0xcc: /* uint8 .. uint64 */
    case 0xcd:
    case 0xce:
    case 0xcf:
        return (struct lead){1, MSGPACK_OBJECT_POSITIVE_INTEGER,
                             .count = 1u << (b - 0xcc)};
    case 0xd0: /* int8 .. int64 */
    case 0xd1:
    case 0xd2:
    case 0xd3:
        return (struct lead){1, MSGPACK_OBJECT_NEGATIVE_INTEGER,
                             .count = 1u << (b - 0xd0)};
    case 0xd4: /* fixext 1 .. 16 */
    case 0xd5:
    case 0xd6:
    case 0xd7:
    case 0xd8:
        return (struct lead){1, MSGPACK_OBJECT_EXT, .count = 1u << (b - 0xd4),
                             .extra_bytes = 1};
    case 0xd9:
    case 0xda:
    case 0xdb:
        return (struct lead){1, MSGPACK_OBJECT_STR, .count_bytes = 1u << (b - 0xd9)};
    case 0xdc:
    case 0xdd:
        return (struct lead){1, MSGPACK_OBJECT_ARRAY, .count_bytes = 2u << (b - 0xdc)};
    case 0xde:
    case 0xdf:
        return (struct lead){1, MSGPACK_OBJECT_MAP, .count_bytes = 2u << (b - 0xde)};
    default: /* 0xc1 is never used */
        return (struct lead){0};
    }
}

#endif
