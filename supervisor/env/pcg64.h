/* pcg64.h - NumPy's random generator, with which the reference implementation of the
 * particle worlds draws its episodes: the same seed begins the same episode here.
 *
 * Source   O'Neill 2014, PCG: a family of simple fast space-efficient statistically good
 *          algorithms (XSL-RR 128/64), seeded and read as NumPy's Generator(PCG64(seed))
 *          does. All other code draws from keys (common/rng); this generator has a state,
 *          which belongs to the state of a world that draws within an episode.
 */
#ifndef SUPERVISOR_ENV_PCG64_H
#define SUPERVISOR_ENV_PCG64_H

#include <stdint.h>

struct pcg64 { /* private */
    unsigned __int128 state, increment;
    uint64_t half; /* the unused half of the last 64-bit number, for pcg64_integer */
    uint64_t has_half;
};

void pcg64_init(struct pcg64 *g, uint64_t seed);
/* Uniform in [0, 1). */
double pcg64_uniform(struct pcg64 *g);
/* Uniform in 0 .. n-1; n > 0. */
uint32_t pcg64_integer(struct pcg64 *g, uint32_t n);
/* Draws k different numbers of 0 .. n-1 in random order, as Generator.choice(n, k, replace=False)
 * does; k <= n <= 10000. */
void pcg64_choose(struct pcg64 *g, uint32_t n, uint32_t k, uint32_t *ret);
/* Draws the numbers 0 .. n-1 in random order, as Generator.permutation(n) does. */
void pcg64_permutation(struct pcg64 *g, uint32_t n, uint32_t *ret);

#endif
