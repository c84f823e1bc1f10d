/* vmath.h - float32 exp, log, tanh and similar functions, written to be vectorised.
 *
 * Straight-line code without calls, branches or fused multiply-adds, so that every
 * instruction set gives the same bits. The error is at most 4 units in the last place
 * over the whole range (tests/agent/test_vmath.c); infinities, NaN and subnormals are
 * treated as in libm.
 * Source   range reduction and polynomials of S. Moshier's Cephes (expf.c, logf.c,
 *          tanhf.c). */
#ifndef AGENT_KERNELS_VMATH_H
#define AGENT_KERNELS_VMATH_H

#include <math.h>
#include <stdint.h>

static inline int32_t vm_bits(float x)
{
    int32_t i;

    __builtin_memcpy(&i, &x, sizeof(i));
    return i;
}

static inline float vm_float(int32_t i)
{
    float x;

    __builtin_memcpy(&x, &i, sizeof(x));
    return x;
}

/* x = n ln 2 + r with |r| <= ln 2 / 2; returns exp(r) - 1 and n. */
static inline float vm_exp_reduced(float x, int32_t *ret_n)
{
    /* Adding 1.5 * 2^23 rounds to the nearest integer, which is then in the low bits. */
    const float magic = 12582912.0f;
    float c = x < -104.0f ? -104.0f : x;
    c = c > 89.0f ? 89.0f : c;
    float t = c * 1.44269504088896341f + magic;
    float n = t - magic;
    *ret_n = (int32_t)((uint32_t)vm_bits(t) - (uint32_t)vm_bits(magic));
    float r = c - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    return p * (r * r) + r;
}

static inline float vm_exp2i(int32_t n)
{
    return vm_float((int32_t)((uint32_t)(n + 127) << 23));
}

/* e 2^n in two steps, so that subnormal results are rounded only once and n can be
 * 128. */
static inline float vm_scale(float e, int32_t n)
{
    int32_t half = n >> 1;

    return e * vm_exp2i(half) * vm_exp2i(n - half);
}

static inline float vm_expf(float x)
{
    int32_t n;
    float e = vm_exp_reduced(x, &n) + 1.0f;

    /* For NaN, n is arbitrary; the clamp keeps the shifts defined. */
    n = n < -150 ? -150 : n;
    n = n > 129 ? 129 : n;
    return vm_scale(e, n);
}

static inline float vm_expm1f(float x)
{
    int32_t n;
    float m = vm_exp_reduced(x, &n);
    float e = vm_expf(x) - 1.0f;

    return n == 0 ? m : e;
}

static inline float vm_logf(float x)
{
    float scaled = x * 8388608.0f;
    int subnormal = x < 1.17549435e-38f;
    float m = subnormal ? scaled : x;
    float bias = subnormal ? 150.0f : 127.0f;
    uint32_t i = (uint32_t)vm_bits(m) + (0x3f800000u - 0x3f3504f3u);
    float k = (float)(int32_t)(i >> 23) - bias;
    float f = vm_float((int32_t)((i & 0x007fffffu) + 0x3f3504f3u)) - 1.0f;
    float z = f * f;
    float p = 7.0376836292e-2f;

    p = p * f - 1.1514610310e-1f;
    p = p * f + 1.1676998740e-1f;
    p = p * f - 1.2420140846e-1f;
    p = p * f + 1.4249322787e-1f;
    p = p * f - 1.6668057665e-1f;
    p = p * f + 2.0000714765e-1f;
    p = p * f - 2.4999993993e-1f;
    p = p * f + 3.3333331174e-1f;
    float y = p * f * z + k * -2.12194440e-4f - 0.5f * z;
    float r = f + y + k * 0.693359375f;
    r = x > 3.402823466e+38f ? x : r;
    r = x == 0.0f ? -INFINITY : r;
    r = x < 0.0f ? NAN : r;
    return x != x ? x : r;
}

/* log(w) u / (w - 1) with w = 1 + u: the factor corrects the rounding error of w
 * (Kahan). */
static inline float vm_log1pf(float u)
{
    float w = 1.0f + u;
    float d = w - 1.0f;
    float r = vm_logf(w) * (u / (d == 0.0f ? 1.0f : d));

    r = d == 0.0f ? u : r;
    return w > 3.402823466e+38f ? w : r;
}

static inline float vm_tanhf(float x)
{
    float a = fabsf(x);
    float big = 1.0f - 2.0f / (vm_expf(2.0f * a) + 1.0f);

    big = x < 0.0f ? -big : big;
    float z = x * x;
    float p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    float small = p * z * x + x;
    return a < 0.625f ? small : big;
}

static inline float vm_sigmoidf(float x)
{
    float e = vm_expf(-fabsf(x));
    float d = 1.0f / (1.0f + e);

    return x < 0.0f ? e * d : d;
}

/* log(1 + exp(x)) */
static inline float vm_softplusf(float x)
{
    float top = x > 0.0f ? x : 0.0f;
    float tail = vm_log1pf(vm_expf(-fabsf(x)));

    return x != x ? x : top + tail;
}

#endif
