/* room.h - is there memory, and if not, which limit is in the way.
 *
 * `ulimit -v` (RLIMIT_AS) limits the address space, of which much is only reserved;
 * `ulimit -d` (RLIMIT_DATA) private memory.
 */
#ifndef COMMON_MEM_ROOM_H
#define COMMON_MEM_ROOM_H

#include "common/err/err.h"

#include <stdint.h>

/* ERR_NOMEM: this process cannot have so many bytes now; the message begins with `what`,
 * "an agent's products", and names the limit. Nothing is taken. */
int room_check(uint64_t bytes, const char *what, struct err *err);
/* That message, after a mapping has failed. Returns ERR_NOMEM. */
int room_fail(uint64_t bytes, const char *what, struct err *err);

#endif
