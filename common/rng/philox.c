#include "common/rng/philox.h"

#include "common/numerics/cpu_features.h"

#ifdef __x86_64__
#include <immintrin.h>

enum { LANES = 4, VECTORS = PHILOX_CHUNK / LANES };

/* Each lane has a word of the block in its low half. The high half is ignored, because
 * multiplication uses low halves. */
struct state {
    __m256i c0[VECTORS], c1[VECTORS], c2[VECTORS], c3[VECTORS];
};

__attribute__((target("avx2"))) static void load(struct state *s, const uint64_t *counter,
                                                 const uint64_t *block)
{
    for (int v = 0; v < VECTORS; v++) {
        s->c0[v] = _mm256_loadu_si256((const void *)(block + LANES * v));
        s->c2[v] = _mm256_loadu_si256((const void *)(counter + LANES * v));
        s->c1[v] = _mm256_srli_epi64(s->c0[v], 32);
        s->c3[v] = _mm256_srli_epi64(s->c2[v], 32);
    }
}

__attribute__((target("avx2"))) static void ten_rounds(struct state *s,
                                                       struct rng_key key)
{
    const __m256i m0 = _mm256_set1_epi64x(PHILOX_M4x32_0);
    const __m256i m1 = _mm256_set1_epi64x(PHILOX_M4x32_1);
    uint32_t k0 = key.k[0], k1 = key.k[1];

    for (int round = 0; round < 10; round++, k0 += PHILOX_W32_0, k1 += PHILOX_W32_1)
        for (int v = 0; v < VECTORS; v++) {
            __m256i p0 = _mm256_mul_epu32(s->c0[v], m0);
            __m256i p1 = _mm256_mul_epu32(s->c2[v], m1);
            __m256i x0 = _mm256_xor_si256(s->c1[v], _mm256_set1_epi64x(k0));
            __m256i x2 = _mm256_xor_si256(s->c3[v], _mm256_set1_epi64x(k1));

            s->c0[v] = _mm256_xor_si256(_mm256_srli_epi64(p1, 32), x0);
            s->c2[v] = _mm256_xor_si256(_mm256_srli_epi64(p0, 32), x2);
            s->c1[v] = p1;
            s->c3[v] = p0;
        }
}

__attribute__((target("avx2"))) static void store(const struct state *s, uint32_t *words)
{
    const __m256i low = _mm256_set1_epi64x(UINT32_MAX);

    for (int v = 0; v < VECTORS; v++) {
        __m256i c01 = _mm256_or_si256(_mm256_and_si256(s->c0[v], low),
                                      _mm256_slli_epi64(s->c1[v], 32));
        __m256i c23 = _mm256_or_si256(_mm256_and_si256(s->c2[v], low),
                                      _mm256_slli_epi64(s->c3[v], 32));
        __m256i even = _mm256_unpacklo_epi64(c01, c23); /* blocks 0 and 2 */
        __m256i odd = _mm256_unpackhi_epi64(c01, c23);  /* blocks 1 and 3 */
        uint32_t *to = words + 4 * LANES * v;

        _mm256_storeu_si256((void *)to, _mm256_permute2x128_si256(even, odd, 0x20));
        _mm256_storeu_si256((void *)(to + 8), _mm256_permute2x128_si256(even, odd, 0x31));
    }
}

__attribute__((target("avx2"))) static void chunk_avx2(struct rng_key key,
                                                       const uint64_t *counter,
                                                       const uint64_t *block,
                                                       uint32_t *words)
{
    struct state s;

    load(&s, counter, block);
    ten_rounds(&s, key);
    store(&s, words);
}
#endif

void philox_chunk(struct rng_key key, const uint64_t counter[PHILOX_CHUNK],
                  const uint64_t block[PHILOX_CHUNK], uint32_t words[4 * PHILOX_CHUNK])
{
#ifdef __x86_64__
    if (cpu_has(x86_cpu_AVX2)) {
        chunk_avx2(key, counter, block, words);
        return;
    }
#endif
    for (int i = 0; i < PHILOX_CHUNK; i++)
        philox_block(key, counter[i], block[i], words + 4 * i);
}
