#include "common/rng/rng.h"

#include "common/err/check.h"
#include "common/numerics/cpu_features.h"
#include "common/numerics/elementary.h"

#include <math.h>
#include <Random123/philox.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

/* Draws are computed in whole chunks on a fixed grid, so that the chunks do not depend on
 * how a draw is split into calls. */
enum {
    CHUNK_BLOCKS = 16,
    BLOCK_BYTES = 16,
    CHUNK_WORDS = CHUNK_BLOCKS * 4,
    CHUNK_BYTES = CHUNK_WORDS * 4,
    /* up to this many blocks are cheaper one by one than as a whole chunk */
    FEW_BLOCKS = 4,
};

static struct {
    rng_audit_fn fn;
    void *ctx;
} audit;

void rng_set_audit(rng_audit_fn fn, void *ctx)
{
    audit.fn = fn;
    audit.ctx = ctx;
}

static void audit_draw(struct rng_key key, uint64_t counter, uint64_t first, size_t n)
{
    if (__builtin_expect(audit.fn != NULL, 0))
        audit.fn(audit.ctx, key, counter, first, n);
}

/* FNV-1a over 64 bits (Fowler, Noll, Vo). */
static const uint64_t FNV_START = 0xcbf29ce484222325u;

static uint64_t fnv_bytes(uint64_t h, const void *data, size_t n)
{
    const unsigned char *p = data;

    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

/* Includes the terminator, so that ("ab", "c") differs from ("a", "bc"). */
static uint64_t fnv_text(uint64_t h, const char *text)
{
    return fnv_bytes(h, text, strlen(text) + 1);
}

static uint64_t fnv_u64(uint64_t h, uint64_t v)
{
    for (int shift = 0; shift < 64; shift += 8) {
        unsigned char byte = (unsigned char)(v >> shift);

        h = fnv_bytes(h, &byte, 1);
    }
    return h;
}

/* MurmurHash3's finaliser: FNV mixes the last bytes badly. */
static struct rng_key key_of_hash(uint64_t h)
{
    h = (h ^ (h >> 33)) * 0xff51afd7ed558ccdu;
    h = (h ^ (h >> 33)) * 0xc4ceb9fe1a85ec53u;
    h ^= h >> 33;
    return (struct rng_key){{(uint32_t)h, (uint32_t)(h >> 32)}};
}

struct rng_key rng_key_make(uint64_t seed, const char *name, const char *purpose)
{
    return key_of_hash(fnv_text(fnv_text(fnv_u64(FNV_START, seed), name), purpose));
}

struct rng_key rng_key_derive(struct rng_key key, const char *label)
{
    uint64_t k = (uint64_t)key.k[1] << 32 | key.k[0];

    return key_of_hash(fnv_text(fnv_u64(FNV_START, k), label));
}

/* ---- Philox 4x32-10 ----
 *
 * Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011; the
 * permutation of a block is the same as in Random123. */

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

#ifdef __x86_64__
enum { LANES = 4, VECTORS = CHUNK_BLOCKS / LANES };

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

/* Words 4i .. 4i+3 are those of block[i] of the draw counter[i]. */
static void philox_chunk(struct rng_key key, const uint64_t counter[CHUNK_BLOCKS],
                         const uint64_t block[CHUNK_BLOCKS], uint32_t words[CHUNK_WORDS])
{
#ifdef __x86_64__
    if (cpu_has(x86_cpu_AVX2)) {
        chunk_avx2(key, counter, block, words);
        return;
    }
#endif
    for (int i = 0; i < CHUNK_BLOCKS; i++)
        philox_block(key, counter[i], block[i], words + 4 * i);
}

/* ---- draws ---- */

void rng_block(struct rng_key key, uint64_t counter, uint64_t block, uint32_t ret[4])
{
    audit_draw(key, counter, block, 1);
    philox_block(key, counter, block, ret);
}

/* Computes at least blocks from .. to - 1 of a chunk; the words of the other blocks are
 * undefined or zero. */
static void make_blocks(struct rng_key key, const uint64_t counter[CHUNK_BLOCKS],
                        const uint64_t block[CHUNK_BLOCKS], size_t from, size_t to,
                        uint32_t words[CHUNK_WORDS])
{
    if (to - from > FEW_BLOCKS) {
        philox_chunk(key, counter, block, words);
        return;
    }
    memset(words, 0, CHUNK_BYTES);
    for (size_t b = from; b < to; b++)
        philox_block(key, counter[b], block[b], words + 4 * b);
}

/* Computes blocks of the chunk of one draw that begins with first_block. */
static void chunk_words(struct rng_key key, uint64_t counter, uint64_t first_block,
                        size_t from, size_t to, uint32_t words[CHUNK_WORDS])
{
    uint64_t counters[CHUNK_BLOCKS], blocks[CHUNK_BLOCKS];

    for (size_t b = 0; b < CHUNK_BLOCKS; b++) {
        counters[b] = counter;
        blocks[b] = first_block + b;
    }
    make_blocks(key, counters, blocks, from, to, words);
}

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Converts a chunk: CHUNK_BYTES of random words to CHUNK_BYTES of elements. */
typedef void (*convert_fn)(const uint32_t *restrict w, void *restrict out);

/* Makes a number in [0, 1) of 53 random bits from two words, without 64-bit integers,
 * which AVX2 cannot convert. */
static inline double unit_f64(uint32_t lo, uint32_t hi)
{
    return ((double)(int32_t)(hi >> 5) * 0x1p26 + (double)(int32_t)(lo >> 6)) * 0x1p-53;
}

/* Returns the middle of one of 2^23 equal parts of (0, 1), which is exact and never 0 or
 * 1. */
static inline float open_unit_f32(uint32_t w)
{
    return ((float)(int32_t)(w >> 9) + 0.5f) * 0x1p-23f;
}

ALWAYS_INLINE void to_uniform_f32(const uint32_t *restrict w, void *restrict out)
{
    float *dst = out;

    for (int i = 0; i < CHUNK_WORDS; i++)
        dst[i] = (float)(int32_t)(w[i] >> 8) * 0x1p-24f;
}

ALWAYS_INLINE void to_uniform_f64(const uint32_t *restrict w, void *restrict out)
{
    double *dst = out;

    for (int i = 0; i < CHUNK_WORDS / 2; i++)
        dst[i] = unit_f64(w[2 * i], w[2 * i + 1]);
}

ALWAYS_INLINE void to_gumbel_f32(const uint32_t *restrict w, void *restrict out)
{
    float *dst = out;

    for (int i = 0; i < CHUNK_WORDS; i++)
        dst[i] = -log_f32(-log_f32(open_unit_f32(w[i])));
}

/* Box and Muller 1958: r = sqrt(-2 log u), rotated by the angle 2 pi v. */
ALWAYS_INLINE void to_normal_f32(const uint32_t *restrict w, void *restrict out)
{
    float *dst = out;

    for (int i = 0; i < CHUNK_WORDS; i += 2) {
        float r = sqrtf(-2.0f * log_f32(open_unit_f32(w[i])));
        float s, c;

        sincos_turn_f32((float)(int32_t)(w[i + 1] >> 8) * 0x1p-24f, &s, &c);
        dst[i] = r * c;
        dst[i + 1] = r * s;
    }
}

ALWAYS_INLINE void to_normal_f64(const uint32_t *restrict w, void *restrict out)
{
    double *dst = out;

    for (int i = 0; i < CHUNK_WORDS / 2; i += 2) {
        const uint32_t *block = w + 2 * i;
        /* 1 - u is in (0, 1] */
        double r = sqrt(-2.0 * log_f64(1.0 - unit_f64(block[0], block[1])));
        double s, c;

        sincos_turn_f64(unit_f64(block[2], block[3]), &s, &c);
        dst[i] = r * c;
        dst[i + 1] = r * s;
    }
}

/* Each loop is compiled twice, plain and for AVX2; both give the same bits, since no
 * operation is reordered or fused. (target_clones would make libgcc execute CPUID at
 * every start: see cpu_kernels.c.) */
#ifdef __x86_64__
#define CONVERSION(name)                                                                 \
    __attribute__((target("avx2"))) static void name##_avx2(const uint32_t *restrict w,  \
                                                            void *restrict out)          \
    {                                                                                    \
        name(w, out);                                                                    \
    }                                                                                    \
    static convert_fn name##_best(void)                                                  \
    {                                                                                    \
        return cpu_has(x86_cpu_AVX2) ? name##_avx2 : name;                               \
    }
#else
#define CONVERSION(name)                                                                 \
    static convert_fn name##_best(void)                                                  \
    {                                                                                    \
        return name;                                                                     \
    }
#endif

CONVERSION(to_uniform_f32)
CONVERSION(to_uniform_f64)
CONVERSION(to_gumbel_f32)
CONVERSION(to_normal_f32)
CONVERSION(to_normal_f64)

static void draw(struct rng_key key, uint64_t counter, uint64_t first, void *dst,
                 size_t n, size_t size, convert_fn convert)
{
    const size_t per_chunk = CHUNK_BYTES / size;
    unsigned char *to = dst;

    audit_draw(key, counter, first, n);
    while (n > 0) {
        _Alignas(64) uint32_t words[CHUNK_WORDS];
        _Alignas(64) unsigned char elements[CHUNK_BYTES];
        size_t skip = (size_t)(first % per_chunk);
        size_t take = n < per_chunk - skip ? n : per_chunk - skip;

        /* most draws have few elements: compute only their blocks */
        chunk_words(key, counter, first / per_chunk * CHUNK_BLOCKS,
                    skip * size / BLOCK_BYTES,
                    ((skip + take) * size - 1) / BLOCK_BYTES + 1, words);
        convert(words, elements);
        memcpy(to, elements + skip * size, take * size);
        to += take * size;
        first += take;
        n -= take;
    }
}

enum { BLOCK_FLOATS = BLOCK_BYTES / 4 };

/* Draws rows of which each needs row_blocks blocks, several rows per chunk. */
static void draw_few_rows(struct rng_key key, const uint64_t *counter,
                          const uint64_t *first, float *dst, size_t n, size_t width,
                          size_t row_blocks, convert_fn convert)
{
    _Alignas(64) uint32_t words[CHUNK_WORDS];
    _Alignas(64) float elements[CHUNK_WORDS];
    uint64_t counters[CHUNK_BLOCKS] = {0}, blocks[CHUNK_BLOCKS] = {0};

    for (size_t r = 0; r < n; r++)
        for (size_t b = 0; b < row_blocks; b++) {
            counters[r * row_blocks + b] = counter[r];
            blocks[r * row_blocks + b] = first[r] / BLOCK_FLOATS + b;
        }
    make_blocks(key, counters, blocks, 0, n * row_blocks, words);
    convert(words, elements);
    for (size_t r = 0; r < n; r++)
        memcpy(dst + r * width,
               elements + r * row_blocks * BLOCK_FLOATS + first[r] % BLOCK_FLOATS,
               width * sizeof(*dst));
}

static void draw_rows(struct rng_key key, const uint64_t *counter, const uint64_t *first,
                      float *dst, size_t n, size_t width, convert_fn convert)
{
    /* the most blocks that a row can span: it may begin with the last word of a block */
    const size_t row_blocks = (width + 2 * BLOCK_FLOATS - 2) / BLOCK_FLOATS;
    const size_t at_once = row_blocks <= CHUNK_BLOCKS ? CHUNK_BLOCKS / row_blocks : 0;

    if (at_once == 0) {
        for (size_t r = 0; r < n; r++)
            draw(key, counter[r], first[r], dst + r * width, width, sizeof(*dst),
                 convert);
        return;
    }
    for (size_t r = 0; r < n; r++)
        audit_draw(key, counter[r], first[r], width);
    for (size_t r = 0; r < n; r += at_once)
        draw_few_rows(key, counter + r, first + r, dst + r * width,
                      n - r < at_once ? n - r : at_once, width, row_blocks, convert);
}

void rng_uniform_rows_f32(struct rng_key key, const uint64_t *counter,
                          const uint64_t *first, float *dst, size_t n, size_t width)
{
    draw_rows(key, counter, first, dst, n, width, to_uniform_f32_best());
}

void rng_normal_rows_f32(struct rng_key key, const uint64_t *counter,
                         const uint64_t *first, float *dst, size_t n, size_t width)
{
    draw_rows(key, counter, first, dst, n, width, to_normal_f32_best());
}

void rng_uniform_f32(struct rng_key key, uint64_t counter, uint64_t first, float *dst,
                     size_t n)
{
    draw(key, counter, first, dst, n, sizeof(*dst), to_uniform_f32_best());
}

void rng_uniform_f64(struct rng_key key, uint64_t counter, uint64_t first, double *dst,
                     size_t n)
{
    draw(key, counter, first, dst, n, sizeof(*dst), to_uniform_f64_best());
}

void rng_normal_f32(struct rng_key key, uint64_t counter, uint64_t first, float *dst,
                    size_t n)
{
    draw(key, counter, first, dst, n, sizeof(*dst), to_normal_f32_best());
}

void rng_normal_f64(struct rng_key key, uint64_t counter, uint64_t first, double *dst,
                    size_t n)
{
    draw(key, counter, first, dst, n, sizeof(*dst), to_normal_f64_best());
}

void rng_gumbel_f32(struct rng_key key, uint64_t counter, uint64_t first, float *dst,
                    size_t n)
{
    draw(key, counter, first, dst, n, sizeof(*dst), to_gumbel_f32_best());
}

/* Lemire 2019, algorithm 5: the result is the high half of x * bound, unless the low half
 * is in the range that would favour some results; then x is taken from the next block. */
static uint64_t below(struct rng_key key, uint64_t counter, uint64_t element,
                      uint64_t bound)
{
    for (uint64_t block = element << 32;; block++) {
        uint32_t w[4];
        unsigned __int128 product;

        philox_block(key, counter, block, w);
        product = (unsigned __int128)((uint64_t)w[1] << 32 | w[0]) * bound;
        /* 2^64 mod bound is less than bound, so usually no division is needed */
        if ((uint64_t)product >= bound || (uint64_t)product >= -bound % bound)
            return (uint64_t)(product >> 64);
    }
}

void rng_below(struct rng_key key, uint64_t counter, uint64_t first, uint64_t bound,
               uint64_t *dst, size_t n)
{
    CHECK(bound >= 1);
    CHECK(n <= UINT32_MAX && first <= UINT32_MAX - n, "element %llu + %zu",
          (unsigned long long)first, n);
    audit_draw(key, counter, first, n);
    for (size_t i = 0; i < n; i++)
        dst[i] = below(key, counter, first + i, bound);
}

void rng_permutation(struct rng_key key, uint64_t counter, uint32_t *dst, size_t n)
{
    CHECK(n <= UINT32_MAX);
    audit_draw(key, counter, 0, n);
    for (size_t i = 0; i < n; i++) {
        size_t j = (size_t)below(key, counter, i, i + 1);

        /* if j == i, copies an undefined value that the next line overwrites */
        dst[i] = dst[j];
        dst[j] = (uint32_t)i;
    }
}
