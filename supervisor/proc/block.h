/* block.h - an agent's variable block: memory shared by the agent and the supervisor.
 *
 * A memfd whose size is sealed at BLOCK_CAPACITY_BYTES, so that neither process can
 * truncate it while the other uses it. It is sparse: only pages that were written take
 * memory. The supervisor maps no more than the length that the agent reports. If a limit on
 * file sizes (ulimit -f) is smaller, the block is sealed at that limit; agents find the
 * size by fstat.
 */
#ifndef SUPERVISOR_PROC_BLOCK_H
#define SUPERVISOR_PROC_BLOCK_H

#include "common/err/err.h"

#include <stddef.h>
#include <stdint.h>

struct block {
    int fd;           /* inherited by the agent; -1: none */
    void *map;        /* NULL until block_map */
    size_t len_bytes; /* mapped */
    uint64_t capacity_bytes;
};

#define BLOCK_NONE ((struct block){.fd = -1})

int block_init(struct block *b, const char *name, struct err *err);
void block_done(struct block *b); /* BLOCK_NONE is fine */

/* Maps the first len_bytes. ERR_LIMIT if that exceeds the capacity, or half of this
 * machine's memory (because a copy will be kept). */
int block_map(struct block *b, uint64_t len_bytes, struct err *err);
/* Unmaps the block and sets every byte to zero. */
int block_clear(struct block *b, struct err *err);

#endif
