/* room.h - checks whether memory is available and, if not, names the limit.
 *
 * `ulimit -v` (RLIMIT_AS) limits the address space, including memory that is only reserved;
 * `ulimit -d` (RLIMIT_DATA) limits private memory.
 */
#ifndef COMMON_MEM_ROOM_H
#define COMMON_MEM_ROOM_H

#include "common/err/err.h"

#include <stdint.h>

/* Returns ERR_NOMEM if this process cannot get that many bytes now. The message names the
 * limit and their use, `what`: "an agent's products". Allocates nothing. */
int room_check(uint64_t bytes, const char *what, struct err *err);
/* Sets the same error after a mapping has failed. Returns ERR_NOMEM. */
int room_fail(uint64_t bytes, const char *what, struct err *err);

#endif
