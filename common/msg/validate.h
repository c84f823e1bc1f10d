/* validate.h - is this msgpack safe to unpack?
 *
 * msgpack-c allocates what a container's header promises, before it looks at what follows
 * (msgpack-c#1013: five bytes ask for 96 GB). So the bytes are walked first, without
 * allocating: every promise must be coverable by the bytes that are left.
 */
#ifndef COMMON_MSG_VALIDATE_H
#define COMMON_MSG_VALIDATE_H

#include "common/err/err.h"

#include <stddef.h>

#define MSG_MAX_DEPTH   16         /* containers inside one another */
#define MSG_MAX_OBJECTS (1u << 20) /* in one message, map keys included */

/* 0 if data is exactly one whole msgpack object within the limits above.
 * ERR_FORMAT: cut off, an unknown byte, promises more than there is, bytes left over;
 * ERR_LIMIT: too deep, too many objects. */
int msgpack_validate(const void *data, size_t len, struct err *err);

#endif
