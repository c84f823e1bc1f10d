/* elementary.h - log, sin and cos for the draws: the same bits on every machine.
 *
 * libm's functions differ between versions and CPU types; these are sums of their Taylor
 * series in a fixed order, for the few arguments a draw needs, without branches, so that
 * loops over them vectorise. Errors are below 2 units in the last place of the result for
 * log, and below 2 units in the last place of 1 for sin and cos (tests compare with
 * libm).
 */
#ifndef COMMON_RNG_ELEMENTARY_H
#define COMMON_RNG_ELEMENTARY_H

#include <stdint.h>
#include <string.h>

static inline float f32_of_bits(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

static inline uint32_t bits_of_f32(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static inline double f64_of_bits(uint64_t bits)
{
    double x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

static inline uint64_t bits_of_f64(double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

/* Both logs: x = 2^e m with m in [sqrt(1/2), sqrt(2)), s = (m - 1)/(m + 1), and
 * log m = 2 (s + s^3/3 + s^5/5 + ...), |s| < 0.1716. x is positive and normal. */
static inline float log_f32(float x)
{
    const uint32_t sqrt_half = 0x3f3504f3u;
    const float ln2_hi = 0x1.62ep-1f, ln2_lo = 0x1.0bfbe8p-15f; /* e * ln2_hi is exact */
    int32_t shifted = (int32_t)(bits_of_f32(x) - sqrt_half);
    float e = (float)(shifted >> 23);
    float m = f32_of_bits((uint32_t)(shifted & 0x7fffff) + sqrt_half);
    float f = m - 1.0f;
    float s = f / (2.0f + f);
    float z = s * s;
    float tail = 1.0f / 9;

    tail = tail * z + 1.0f / 7;
    tail = tail * z + 1.0f / 5;
    tail = tail * z + 1.0f / 3;
    /* 2s = f - s f keeps the leading term exact. */
    return e * ln2_hi + (f - (s * (f - 2.0f * z * tail) - e * ln2_lo));
}

static inline double log_f64(double x)
{
    const uint64_t sqrt_half = 0x3fe6a09e667f3bcdu;
    const double ln2_hi = 0x1.62e42feep-1, ln2_lo = 0x1.a39ef35793c76p-33;
    int64_t shifted = (int64_t)(bits_of_f64(x) - sqrt_half);
    double e = (double)(int32_t)(shifted >> 52);
    double m = f64_of_bits((uint64_t)(shifted & 0xfffffffffffff) + sqrt_half);
    double f = m - 1.0;
    double s = f / (2.0 + f);
    double z = s * s;
    double tail = 1.0 / 21;

    tail = tail * z + 1.0 / 19;
    tail = tail * z + 1.0 / 17;
    tail = tail * z + 1.0 / 15;
    tail = tail * z + 1.0 / 13;
    tail = tail * z + 1.0 / 11;
    tail = tail * z + 1.0 / 9;
    tail = tail * z + 1.0 / 7;
    tail = tail * z + 1.0 / 5;
    tail = tail * z + 1.0 / 3;
    return e * ln2_hi + (f - (s * (f - 2.0 * z * tail) - e * ln2_lo));
}

/* sin and cos of 2 pi u, u in [0, 1): the nearest quarter turn q is taken off exactly,
 * which leaves |x| <= pi/4 for the series; q then says which is which, and the signs. */
static inline void sincos_turn_f32(float u, float *ret_sin, float *ret_cos)
{
    int32_t q = (int32_t)(u * 4.0f + 0.5f);
    float x = (u - (float)q * 0.25f) * 0x1.921fb6p+2f;
    float z = x * x;
    float s = 1.0f / 362880, c = -1.0f / 3628800;
    float sign_s = (float)(1 - (q & 2)), sign_c = (float)(1 - ((q + 1) & 2));

    s = s * z - 1.0f / 5040;
    s = s * z + 1.0f / 120;
    s = s * z - 1.0f / 6;
    s = x + x * z * s;
    c = c * z + 1.0f / 40320;
    c = c * z - 1.0f / 720;
    c = c * z + 1.0f / 24;
    c = c * z - 0.5f;
    c = 1.0f + z * c;
    *ret_sin = sign_s * ((q & 1) != 0 ? c : s);
    *ret_cos = sign_c * ((q & 1) != 0 ? s : c);
}

static inline void sincos_turn_f64(double u, double *ret_sin, double *ret_cos)
{
    int32_t q = (int32_t)(u * 4.0 + 0.5);
    double x = (u - (double)q * 0.25) * 0x1.921fb54442d18p+2;
    double z = x * x;
    double s = 1.0 / 355687428096000.0, c = 1.0 / 20922789888000.0;
    double sign_s = (double)(1 - (q & 2)), sign_c = (double)(1 - ((q + 1) & 2));

    s = s * z - 1.0 / 1307674368000.0;
    s = s * z + 1.0 / 6227020800.0;
    s = s * z - 1.0 / 39916800.0;
    s = s * z + 1.0 / 362880.0;
    s = s * z - 1.0 / 5040.0;
    s = s * z + 1.0 / 120.0;
    s = s * z - 1.0 / 6.0;
    s = x + x * z * s;
    c = c * z - 1.0 / 87178291200.0;
    c = c * z + 1.0 / 479001600.0;
    c = c * z - 1.0 / 3628800.0;
    c = c * z + 1.0 / 40320.0;
    c = c * z - 1.0 / 720.0;
    c = c * z + 1.0 / 24.0;
    c = c * z - 0.5;
    c = 1.0 + z * c;
    *ret_sin = sign_s * ((q & 1) != 0 ? c : s);
    *ret_cos = sign_c * ((q & 1) != 0 ? s : c);
}

#endif
