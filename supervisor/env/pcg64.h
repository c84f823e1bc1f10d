/* pcg64.h - the generator that the particle worlds' reference draws its episodes from, so
 * that one of its episodes can be begun here, too, from its seed alone.
 *
 * Source   O'Neill 2014, PCG: a family of simple fast space-efficient statistically good
 *          algorithms (XSL-RR 128/64), seeded and read as NumPy's Generator(PCG64(seed))
 *          does. Everything else draws from keys (common/rng): this one has a state, and
 *          lives no longer than a reset.
 */
#ifndef SUPERVISOR_ENV_PCG64_H
#define SUPERVISOR_ENV_PCG64_H

#include <stdint.h>

struct pcg64 { /* private */
    unsigned __int128 state, increment;
    uint32_t half; /* the unread half of a number that integers are drawn from */
    int has_half;
};

void pcg64_init(struct pcg64 *g, uint64_t seed);
/* Uniform in [0, 1). */
double pcg64_uniform(struct pcg64 *g);
/* Uniform in 0 .. n-1; n > 0. */
uint32_t pcg64_integer(struct pcg64 *g, uint32_t n);

#endif
