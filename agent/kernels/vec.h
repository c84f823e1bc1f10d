/* vec.h - the vectors that dense.c uses, for the instruction set it is compiled for.
 *
 * vec            VEC floats
 * vec_fma        x y + z, rounded once
 * vec_load_some  the first n floats followed by zeros; reads no other memory
 * vec_load_fours four floats of every fourth row, for vec_load_transposed
 * vec_load_eights eight floats of a row and eight of the fourth row after it (16 lanes only)
 * vec_relu       x < 0 ? 0 : x, which preserves NaN and -0
 * vec_pick_positive  per element: c > 0 ? x : y (y if c is NaN)
 * VEC_PLAIN      if defined, plain C is used
 * TILE_ROWS x TILE_VECS sums stay in registers.
 */
#ifndef AGENT_KERNELS_VEC_H
#define AGENT_KERNELS_VEC_H

#include <stdint.h>
#include <string.h>

#define VEC_INLINE static inline __attribute__((always_inline))

#if !defined(VEC_PLAIN) && defined(__AVX512F__)

#include <immintrin.h>

#define VEC       16
#define TILE_ROWS 8
#define TILE_VECS 2
typedef __m512 vec;

VEC_INLINE __mmask16 vec_first(int64_t n)
{
    return (__mmask16)((1u << n) - 1);
}
VEC_INLINE vec vec_same(float x)
{
    return _mm512_set1_ps(x);
}
VEC_INLINE vec vec_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
VEC_INLINE vec vec_load_some(const float *p, int64_t n)
{
    return _mm512_maskz_loadu_ps(vec_first(n), p);
}
VEC_INLINE void vec_store(float *p, vec x)
{
    _mm512_storeu_ps(p, x);
}
VEC_INLINE void vec_store_some(float *p, vec x, int64_t n)
{
    _mm512_mask_storeu_ps(p, vec_first(n), x);
}
VEC_INLINE vec vec_fma(vec x, vec y, vec z)
{
    return _mm512_fmadd_ps(x, y, z);
}
VEC_INLINE vec vec_add(vec x, vec y)
{
    return _mm512_add_ps(x, y);
}
VEC_INLINE vec vec_mul(vec x, vec y)
{
    return _mm512_mul_ps(x, y);
}
/* The instruction returns its second operand unless the first is greater. */
VEC_INLINE vec vec_relu(vec x)
{
    return _mm512_max_ps(_mm512_setzero_ps(), x);
}
VEC_INLINE vec vec_pick_positive(vec c, vec x, vec y)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(c, _mm512_setzero_ps(), _CMP_GT_OQ), y,
                                x);
}
VEC_INLINE vec vec_load_fours(const float *p, int64_t ld)
{
    vec x = _mm512_castps128_ps512(_mm_loadu_ps(p));

    x = _mm512_mask_broadcast_f32x4(x, 0x00f0, _mm_loadu_ps(p + 4 * ld));
    x = _mm512_mask_broadcast_f32x4(x, 0x0f00, _mm_loadu_ps(p + 8 * ld));
    return _mm512_mask_broadcast_f32x4(x, 0xf000, _mm_loadu_ps(p + 12 * ld));
}
VEC_INLINE vec vec_load_eights(const float *p, int64_t ld)
{
    const vec x = _mm512_castps256_ps512(_mm256_loadu_ps(p));

    return _mm512_mask_broadcast_f32x8(x, 0xff00, _mm256_loadu_ps(p + 4 * ld));
}
#define VEC_LOWS(x, y)   _mm512_unpacklo_ps(x, y)
#define VEC_HIGHS(x, y)  _mm512_unpackhi_ps(x, y)
#define VEC_FIRSTS(x, y) _mm512_shuffle_ps(x, y, 0x44)
#define VEC_LASTS(x, y)  _mm512_shuffle_ps(x, y, 0xee)

#elif !defined(VEC_PLAIN) && defined(__AVX2__) && defined(__FMA__)

#include <immintrin.h>

#define VEC              8
#define TILE_ROWS        6
#define TILE_VECS        2
typedef __m256 vec;

VEC_INLINE __m256i vec_first(int64_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
VEC_INLINE vec vec_same(float x)
{
    return _mm256_set1_ps(x);
}
VEC_INLINE vec vec_load(const float *p)
{
    return _mm256_loadu_ps(p);
}
VEC_INLINE vec vec_load_some(const float *p, int64_t n)
{
    return _mm256_maskload_ps(p, vec_first(n));
}
VEC_INLINE void vec_store(float *p, vec x)
{
    _mm256_storeu_ps(p, x);
}
VEC_INLINE void vec_store_some(float *p, vec x, int64_t n)
{
    _mm256_maskstore_ps(p, vec_first(n), x);
}
VEC_INLINE vec vec_fma(vec x, vec y, vec z)
{
    return _mm256_fmadd_ps(x, y, z);
}
VEC_INLINE vec vec_add(vec x, vec y)
{
    return _mm256_add_ps(x, y);
}
VEC_INLINE vec vec_mul(vec x, vec y)
{
    return _mm256_mul_ps(x, y);
}
/* The instruction returns its second operand unless the first is greater. */
VEC_INLINE vec vec_relu(vec x)
{
    return _mm256_max_ps(_mm256_setzero_ps(), x);
}
VEC_INLINE vec vec_pick_positive(vec c, vec x, vec y)
{
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(c, _mm256_setzero_ps(), _CMP_GT_OQ));
}
VEC_INLINE vec vec_load_fours(const float *p, int64_t ld)
{
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)),
                                _mm_loadu_ps(p + 4 * ld), 1);
}
#define VEC_LOWS(x, y)   _mm256_unpacklo_ps(x, y)
#define VEC_HIGHS(x, y)  _mm256_unpackhi_ps(x, y)
#define VEC_FIRSTS(x, y) _mm256_shuffle_ps(x, y, 0x44)
#define VEC_LASTS(x, y)  _mm256_shuffle_ps(x, y, 0xee)

#else

#define VEC 4
#if !defined(VEC_PLAIN) && defined(__ARM_NEON)

#include <arm_neon.h>

#define TILE_ROWS        6
#define TILE_VECS        4
typedef float32x4_t vec;

VEC_INLINE vec vec_same(float x)
{
    return vdupq_n_f32(x);
}
VEC_INLINE vec vec_load(const float *p)
{
    return vld1q_f32(p);
}
VEC_INLINE void vec_store(float *p, vec x)
{
    vst1q_f32(p, x);
}
VEC_INLINE vec vec_fma(vec x, vec y, vec z)
{
    return vfmaq_f32(z, x, y);
}
VEC_INLINE vec vec_add(vec x, vec y)
{
    return vaddq_f32(x, y);
}
VEC_INLINE vec vec_mul(vec x, vec y)
{
    return vmulq_f32(x, y);
}
VEC_INLINE vec vec_relu(vec x)
{
    return vbslq_f32(vcltq_f32(x, vdupq_n_f32(0)), vdupq_n_f32(0), x);
}
VEC_INLINE vec vec_pick_positive(vec c, vec x, vec y)
{
    return vbslq_f32(vcgtq_f32(c, vdupq_n_f32(0)), x, y);
}
VEC_INLINE vec vec_pair(float32x2_t x, float32x2_t y)
{
    return vcombine_f32(x, y);
}
#define VEC_LOWS(x, y)   vzip1q_f32(x, y)
#define VEC_HIGHS(x, y)  vzip2q_f32(x, y)
#define VEC_FIRSTS(x, y) vec_pair(vget_low_f32(x), vget_low_f32(y))
#define VEC_LASTS(x, y)  vec_pair(vget_high_f32(x), vget_high_f32(y))

#else

#define TILE_ROWS 4
#define TILE_VECS 1
typedef struct {
    float at[VEC];

} vec;

#ifdef __FP_FAST_FMAF
#define fma_f32 __builtin_fmaf
#else
/* x y + z, rounded once, without the instruction. The product of two floats is exact in
 * double. If its sum with z is not exact, the last bit of the sum is set to odd (Boldo
 * and Melquiond 2008), so that rounding to float finds the side of a tie on which the
 * exact sum lies. */
VEC_INLINE float fma_f32(float x, float y, float z)
{
    const double p = (double)x * (double)y;
    const double s = p + (double)z;
    const double t = s - p;
    const double lost = (p - (s - t)) + ((double)z - t);
    int64_t bits;
    double odd;

    memcpy(&bits, &s, sizeof(bits));
    if (lost > 0 || lost < 0) /* not for NaN, which results from infinities */
        bits += (bits & 1) != 0 ? 0 : (lost > 0) == (s > 0) ? 1 : -1;
    memcpy(&odd, &bits, sizeof(odd));
    return (float)odd;
}
#endif

#define VEC_EACH         for (int i = 0; i < VEC; i++)

VEC_INLINE vec vec_same(float x)
{
    vec r;

    VEC_EACH r.at[i] = x;
    return r;
}
VEC_INLINE vec vec_load(const float *p)
{
    vec r;

    memcpy(&r, p, sizeof(r));
    return r;
}
VEC_INLINE void vec_store(float *p, vec x)
{
    memcpy(p, &x, sizeof(x));
}
VEC_INLINE vec vec_fma(vec x, vec y, vec z)
{
    VEC_EACH z.at[i] = fma_f32(x.at[i], y.at[i], z.at[i]);
    return z;
}
VEC_INLINE vec vec_add(vec x, vec y)
{
    VEC_EACH x.at[i] += y.at[i];
    return x;
}
VEC_INLINE vec vec_mul(vec x, vec y)
{
    VEC_EACH x.at[i] *= y.at[i];
    return x;
}
VEC_INLINE vec vec_relu(vec x)
{
    VEC_EACH x.at[i] = x.at[i] < 0 ? 0 : x.at[i];
    return x;
}
VEC_INLINE vec vec_pick_positive(vec c, vec x, vec y)
{
    VEC_EACH y.at[i] = c.at[i] > 0 ? x.at[i] : y.at[i];
    return y;
}
VEC_INLINE vec vec_of(float a, float b, float c, float d)
{
    return (vec){{a, b, c, d}};
}
#define VEC_LOWS(x, y)   vec_of((x).at[0], (y).at[0], (x).at[1], (y).at[1])
#define VEC_HIGHS(x, y)  vec_of((x).at[2], (y).at[2], (x).at[3], (y).at[3])
#define VEC_FIRSTS(x, y) vec_of((x).at[0], (x).at[1], (y).at[0], (y).at[1])
#define VEC_LASTS(x, y)  vec_of((x).at[2], (x).at[3], (y).at[2], (y).at[3])

#endif

VEC_INLINE vec vec_load_fours(const float *p, int64_t ld)
{
    (void)ld;
    return vec_load(p);
}
VEC_INLINE vec vec_load_some(const float *p, int64_t n)
{
    float r[VEC] = {0};

    for (int64_t i = 0; i < n; i++)
        r[i] = p[i];
    return vec_load(r);
}
VEC_INLINE void vec_store_some(float *p, vec x, int64_t n)
{
    float r[VEC];

    vec_store(r, x);
    for (int64_t i = 0; i < n; i++)
        p[i] = r[i];
}

#endif

/* Transposes each four by four floats of a, b, c and d. */
VEC_INLINE void vec_transpose(vec x[4], vec a, vec b, vec c, vec d)
{
    const vec ab = VEC_LOWS(a, b), cd = VEC_LOWS(c, d);
    const vec ab2 = VEC_HIGHS(a, b), cd2 = VEC_HIGHS(c, d);

    x[0] = VEC_FIRSTS(ab, cd);
    x[1] = VEC_LASTS(ab, cd);
    x[2] = VEC_FIRSTS(ab2, cd2);
    x[3] = VEC_LASTS(ab2, cd2);
}

/* x[q] = column q of the first four columns of p; a vector has one lane for each row of
 * p. */
VEC_INLINE void vec_load_transposed(vec x[4], const float *p, int64_t ld)
{
    vec_transpose(x, vec_load_fours(p, ld), vec_load_fours(p + ld, ld),
                  vec_load_fours(p + 2 * ld, ld), vec_load_fours(p + 3 * ld, ld));
}

#if VEC == 16
/* Transposes eight columns. It needs half as many loads, and a load takes as long as a
 * shuffle. */
VEC_INLINE void vec_load_transposed_eight(vec x[8], const float *p, int64_t ld)
{
    vec y[4], z[4];

    vec_transpose(y, vec_load_eights(p, ld), vec_load_eights(p + ld, ld),
                  vec_load_eights(p + 2 * ld, ld), vec_load_eights(p + 3 * ld, ld));
    p += 8 * ld;
    vec_transpose(z, vec_load_eights(p, ld), vec_load_eights(p + ld, ld),
                  vec_load_eights(p + 2 * ld, ld), vec_load_eights(p + 3 * ld, ld));
    for (int q = 0; q < 4; q++) {
        x[q] = _mm512_shuffle_f32x4(y[q], z[q], 0x88);
        x[q + 4] = _mm512_shuffle_f32x4(y[q], z[q], 0xdd);
    }
}
#endif

#endif
