/* unpack.h - parses untrusted bytes into msgpack-c's objects.
 *
 * msgpack-c's unpacker allocates what a container's header promises, before it looks at
 * what follows (msgpack-c#1013: five bytes ask for 96 GB). Here the bytes that are left
 * must be enough for the promised objects before memory is allocated for them, so that an
 * object tree takes at most sizeof(msgpack_object) for each byte of a message.
 * Source   the MessagePack specification, github.com/msgpack/msgpack/blob/master/spec.md
 */
#ifndef COMMON_MSG_UNPACK_H
#define COMMON_MSG_UNPACK_H

#include "common/err/err.h"

#include <msgpack.h>
#include <stddef.h>

#define MSG_MAX_DEPTH   16         /* containers inside one another */
#define MSG_MAX_OBJECTS (1u << 22) /* in one message, map keys included */

/* data must be exactly one object, within the limits above. Containers are allocated in
 * the zone; strings, bins and extensions point into data. ERR_FORMAT: data is cut off,
 * has an unknown byte, promises more than it has, or has bytes left over; ERR_LIMIT: too
 * deep, too many objects; ERR_NOMEM. */
int msg_unpack(const void *data, size_t len, msgpack_zone *zone, msgpack_object *ret,
               struct err *err);

#endif
