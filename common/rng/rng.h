/* rng.h - keyed random numbers: each is a pure function of its purpose.
 *
 * Source   Philox 4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy
 *          as 1, 2, 3", SC 2011; the permutation is the same as in Random123.
 * State    none. A draw is identified by (seed, name, purpose), a counter and an index:
 *          key     = 64-bit hash of the seed, the name of the agent or copy, and the
 *                    purpose ("act", "rows", "reset", ...);
 *          counter = what the purpose counts: environment step, update, episode;
 *          index   = position within that draw.
 *          Philox block b of a draw has the counter words {b lo, b hi, counter lo,
 *          counter hi} and gives 4 words of 32 bits.
 * Same     bits on every machine: no libm call whose result differs between builds.
 */
#ifndef COMMON_RNG_RNG_H
#define COMMON_RNG_RNG_H

#include <stddef.h>
#include <stdint.h>

struct rng_key {
    uint32_t k[2];
};

/* Agents and copies enter the key by name, not by index: adding an agent changes no other
 * agent's draws. */
struct rng_key rng_key_make(uint64_t seed, const char *name, const char *purpose);
/* A separate key for a part of a purpose, such as one random op of a graph. */
struct rng_key rng_key_derive(struct rng_key key, const char *label);

/* One Philox block: four words. */
void rng_block(struct rng_key key, uint64_t counter, uint64_t block, uint32_t ret[4]);

/* Elements first .. first+n-1 of a draw; any split into calls gives the same numbers.
 * uniform_f32:  24 random bits, in [0, 1); element i uses word i%4 of block i/4.
 * uniform_f64:  53 random bits, in [0, 1); element i uses half (i%2) of block i/2.
 * normal:       Box-Muller; elements 2j and 2j+1 use the words of elements 2j and 2j+1 of
 *               the uniform draw with the same precision.
 * gumbel:       -log(-log(u)), u in (0, 1): always finite. */
void rng_uniform_f32(struct rng_key key, uint64_t counter, uint64_t first, float *dst,
                     size_t n);
void rng_uniform_f64(struct rng_key key, uint64_t counter, uint64_t first, double *dst,
                     size_t n);
void rng_normal_f32(struct rng_key key, uint64_t counter, uint64_t first, float *dst,
                    size_t n);
void rng_normal_f64(struct rng_key key, uint64_t counter, uint64_t first, double *dst,
                    size_t n);
void rng_gumbel_f32(struct rng_key key, uint64_t counter, uint64_t first, float *dst,
                    size_t n);

/* Many short draws with one key: row r of dst (n, width) has the elements first[r] ..
 * first[r]+width-1 of the draw with counter[r]. */
void rng_uniform_rows_f32(struct rng_key key, const uint64_t *counter,
                          const uint64_t *first, float *dst, size_t n, size_t width);
void rng_normal_rows_f32(struct rng_key key, const uint64_t *counter,
                         const uint64_t *first, float *dst, size_t n, size_t width);

/* Unbiased integers in [0, bound), bound >= 1 (Lemire 2019; rejected values are replaced
 * within the element's own 2^32 blocks). first + n must be below 2^32. */
void rng_below(struct rng_key key, uint64_t counter, uint64_t first, uint64_t bound,
               uint64_t *dst, size_t n);

/* A random permutation of 0..n-1 (Fisher-Yates). */
void rng_permutation(struct rng_key key, uint64_t counter, uint32_t *dst, size_t n);

/* Calls fn for each draw made by the functions above (tests: no key is used twice).
 * NULL switches it off. Process-wide; costs one predictable branch per draw. */
typedef void (*rng_audit_fn)(void *ctx, struct rng_key key, uint64_t counter,
                             uint64_t first, size_t n);
void rng_set_audit(rng_audit_fn fn, void *ctx);

#endif
