/* philox.h - Philox 4x32-10: computes one block, or a chunk of blocks in parallel. For
 * rng.c.
 *
 * Source   Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3",
 *          SC 2011; the permutation of a block is the same as in Random123.
 */
#ifndef COMMON_RNG_PHILOX_H
#define COMMON_RNG_PHILOX_H

#include "common/rng/rng.h"

#include <Random123/philox.h>

#define PHILOX_CHUNK 16 /* blocks */

static inline void philox_block(struct rng_key key, uint64_t counter, uint64_t block,
                                uint32_t ret[4])
{
    philox4x32_key_t k = {{key.k[0], key.k[1]}};
    philox4x32_ctr_t c = {{(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)counter,
                           (uint32_t)(counter >> 32)}};

    c = philox4x32_R(10, c, k);
    for (int i = 0; i < 4; i++)
        ret[i] = c.v[i];
}

/* Words 4i .. 4i+3 are those of block[i] of the draw counter[i]. */
void philox_chunk(struct rng_key key, const uint64_t counter[PHILOX_CHUNK],
                  const uint64_t block[PHILOX_CHUNK], uint32_t words[4 * PHILOX_CHUNK]);

#endif
