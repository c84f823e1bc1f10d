/* block.h - an agent's variable block: memory both processes see.
 *
 * A memfd, sealed at BLOCK_CAPACITY_BYTES so that neither side can cut it off under the
 * other's feet, and sparse: only pages that are written take memory. The supervisor maps
 * no more of it than the agent says it uses. Under a limit on the size of files (ulimit -f)
 * it is sealed at that: agents find its size by fstat.
 */
#ifndef SUPERVISOR_PROC_BLOCK_H
#define SUPERVISOR_PROC_BLOCK_H

#include "common/err/err.h"

#include <stddef.h>
#include <stdint.h>

struct block {
    int fd;           /* -1: none; the agent inherits it */
    void *map;        /* NULL until block_map */
    size_t len_bytes; /* mapped */
    uint64_t capacity_bytes;
};

#define BLOCK_NONE ((struct block){.fd = -1})

int block_init(struct block *b, const char *name, struct err *err);
void block_done(struct block *b); /* BLOCK_NONE is fine */

/* Maps the first len_bytes. ERR_LIMIT when the agent claims more than the capacity or
 * than half of this machine's memory, for a copy of it will be kept. */
int block_map(struct block *b, uint64_t len_bytes, struct err *err);
/* Unmaps, and makes every byte zero again. */
int block_clear(struct block *b, struct err *err);

#endif
