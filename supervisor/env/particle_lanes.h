/* particle_lanes.h - vectors of doubles for particle_loops.c, and how to select lanes
 * from them; compilers do not generate these instructions by themselves.
 *
 * HAVE_LANES    defined if the target has the instructions: AVX2 or AVX-512
 * LANES         doubles in a vector
 * LANES_INLINE  prefix of functions that take or return a vector
 * A mask has bit i set for lane i.
 */
#ifndef SUPERVISOR_ENV_PARTICLE_LANES_H
#define SUPERVISOR_ENV_PARTICLE_LANES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#include <immintrin.h>
#define HAVE_LANES
enum { LANES = 8 };
#elif defined(__AVX2__)
#include <immintrin.h>
#define HAVE_LANES
enum { LANES = 4 };
#endif

#ifdef HAVE_LANES

#define LANES_INLINE static inline __attribute__((always_inline))

typedef double lanes __attribute__((vector_size(LANES * sizeof(double))));

LANES_INLINE lanes lanes_load(const void *p)
{
    lanes x;

    memcpy(&x, p, sizeof(x));
    return x;
}

LANES_INLINE void lanes_store(void *p, lanes x)
{
    memcpy(p, &x, sizeof(x));
}

/* {x, x, ...} */
LANES_INLINE lanes lanes_same(double x)
{
    return x - (lanes){0};
}

LANES_INLINE size_t lanes_count(unsigned mask)
{
    return (size_t)__builtin_popcount(mask);
}

#if defined(__AVX512F__)

/* The mask of lanes where x is not above limit; this includes NaN. */
LANES_INLINE unsigned lanes_not_above(lanes x, lanes limit)
{
    return _mm512_cmp_pd_mask(x, limit, _CMP_NGT_UQ);
}

/* Moves the mask's lanes to the front, in order; the other lanes are undefined. */
LANES_INLINE lanes lanes_pack(lanes x, unsigned mask)
{
    return _mm512_maskz_compress_pd((__mmask8)mask, x);
}

/* The reverse: moves the first lanes to where the mask has bits. AVX-512 only: with AVX2
 * it is not faster than a loop over the bits. */
LANES_INLINE lanes lanes_unpack(lanes x, unsigned mask)
{
    return _mm512_maskz_expand_pd((__mmask8)mask, x);
}

/* x in the mask's lanes, otherwise what is at `other`. AVX-512 only. */
LANES_INLINE lanes lanes_choose(unsigned mask, lanes x, const void *other)
{
    return _mm512_mask_blend_pd((__mmask8)mask, lanes_load(other), x);
}

#else

LANES_INLINE unsigned lanes_not_above(lanes x, lanes limit)
{
    return (unsigned)_mm256_movemask_pd(_mm256_cmp_pd(x, limit, _CMP_NGT_UQ));
}

LANES_INLINE lanes lanes_pack(lanes x, unsigned mask)
{
    /* For each mask, the indices of the 32-bit halves of its lanes. */
    static const int32_t kept[1 << LANES][2 * LANES] = {
        [1] = {0, 1},
        [2] = {2, 3},
        [3] = {0, 1, 2, 3},
        [4] = {4, 5},
        [5] = {0, 1, 4, 5},
        [6] = {2, 3, 4, 5},
        [7] = {0, 1, 2, 3, 4, 5},
        [8] = {6, 7},
        [9] = {0, 1, 6, 7},
        [10] = {2, 3, 6, 7},
        [11] = {0, 1, 2, 3, 6, 7},
        [12] = {4, 5, 6, 7},
        [13] = {0, 1, 4, 5, 6, 7},
        [14] = {2, 3, 4, 5, 6, 7},
        [15] = {0, 1, 2, 3, 4, 5, 6, 7},
    };
    const __m256i order = _mm256_loadu_si256((const __m256i *)(const void *)kept[mask]);

    return _mm256_castps_pd(_mm256_permutevar8x32_ps(_mm256_castpd_ps(x), order));
}

#endif
#endif
#endif
