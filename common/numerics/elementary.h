/* elementary.h - exp, log, sin and cos with the same bits on every machine.
 *
 * libm's functions differ between versions and CPU types. These are sums of Taylor series
 * in a fixed order, without branches, calls or fused operations, so that loops over them
 * vectorise and every instruction set gives the same result.
 * Draws    log_f32, log_f64, sincos_turn_*: for the arguments that random numbers need.
 *          Errors are below 2 units in the last place of the result for log, and below 2
 *          units in the last place of 1 for sin and cos.
 * Worlds   exp_f64, log1p_f64: any argument. Errors are below 0.501 units in the last
 *          place, so that the results equal libm's except for one in several hundred; a
 *          value from a table and its remainder are computed in two parts, high and low.
 * Tests compare them with libm.
 */
#ifndef COMMON_NUMERICS_ELEMENTARY_H
#define COMMON_NUMERICS_ELEMENTARY_H

#include <math.h>
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

/* which ? x : y by bits: compilers do not turn it into a branch, which would prevent them
 * from vectorising a look-up in a table. */
static inline double pick_f64(int which, double x, double y)
{
    uint64_t mask = -(uint64_t)(which != 0);

    return f64_of_bits((bits_of_f64(x) & mask) | (bits_of_f64(y) & ~mask));
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

/* sin and cos of 2 pi u, u in [0, 1). The nearest quarter turn q is subtracted exactly,
 * which leaves |x| <= pi/4 for the series; q then determines which series is the sine,
 * and the signs. */
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

/* 2^(j/64) rounded to 26 bits, and the remainders: computed with 80 digits in Python's
 * decimal, rounded to the nearest multiple of 2^-25; the remainder rounded to a
 * double. */
static const double exp_step_hi[64] = {
    0x1p+0,         0x1.02c9a4p+0,  0x1.059b0dp+0,  0x1.0874518p+0, 0x1.0b5587p+0,
    0x1.0e3ec3p+0,  0x1.11301dp+0,  0x1.1429abp+0,  0x1.172b84p+0,  0x1.1a35be8p+0,
    0x1.1d4873p+0,  0x1.2063b88p+0, 0x1.2387a7p+0,  0x1.26b4568p+0, 0x1.29e9df8p+0,
    0x1.2d285a8p+0, 0x1.306fe08p+0, 0x1.33c08bp+0,  0x1.371a738p+0, 0x1.3a7db38p+0,
    0x1.3dea65p+0,  0x1.4160a2p+0,  0x1.44e086p+0,  0x1.486a2b8p+0, 0x1.4bfdad8p+0,
    0x1.4f9b278p+0, 0x1.5342b58p+0, 0x1.56f4738p+0, 0x1.5ab07ep+0,  0x1.5e76f18p+0,
    0x1.6247ebp+0,  0x1.662388p+0,  0x1.6a09e68p+0, 0x1.6dfb24p+0,  0x1.71f75e8p+0,
    0x1.75feb58p+0, 0x1.7a1147p+0,  0x1.7e2f338p+0, 0x1.8258998p+0, 0x1.868d998p+0,
    0x1.8ace54p+0,  0x1.8f1ae98p+0, 0x1.93737bp+0,  0x1.97d82ap+0,  0x1.9c4918p+0,
    0x1.a0c6678p+0, 0x1.a5503bp+0,  0x1.a9e6b58p+0, 0x1.ae89f98p+0, 0x1.b33a2b8p+0,
    0x1.b7f76fp+0,  0x1.bcc1e9p+0,  0x1.c199bep+0,  0x1.c67f13p+0,  0x1.cb720ep+0,
    0x1.d072d48p+0, 0x1.d5818ep+0,  0x1.da9e6p+0,   0x1.dfc973p+0,  0x1.e502ee8p+0,
    0x1.ea4afap+0,  0x1.efa1bfp+0,  0x1.f507658p+0, 0x1.fa7c18p+0,
};
static const double exp_step_lo[64] = {
    0,
    -0x1.887f9f1190835p-28,
    0x1.8ac2ba1d73e2ap-27,
    0x1.d66f20230d7c9p-30,
    -0x1.833b784eb3a37p-27,
    0x1.69e8d10103a17p-27,
    0x1.25b50a4ebbf1bp-32,
    -0x1.56d2204cbefe7p-28,
    -0x1.c15742919041cp-27,
    0x1.b7e5ba9e5b4c8p-27,
    0x1.68b9aa7805b8p-28,
    0x1.8a3358ee3bac1p-30,
    -0x1.8a9dc7993e052p-28,
    -0x1.0ec1916d42cc6p-27,
    -0x1.70108f69ed175p-27,
    -0x1.1bfcf4bff6e2bp-28,
    0x1.18db8a96f46adp-27,
    0x1.320b7fa64e431p-27,
    -0x1.8aac6ab1d756p-29,
    -0x1.8d30048af21b7p-27,
    -0x1.f6e5eee525f6fp-27,
    0x1.f72e29f84325cp-28,
    0x1.8624b40c4dbdp-30,
    -0x1.1f6197f61f2e2p-27,
    -0x1.64eaec715e343p-27,
    -0x1.62d35952cc275p-28,
    -0x1.62b07e20f57c4p-28,
    -0x1.4ad82599135p-28,
    -0x1.5bd5eb539b67fp-27,
    -0x1.296f5bc8b20dap-27,
    0x1.d2ac258f87d03p-31,
    0x1.2a91124893ecfp-27,
    -0x1.80c4336f74d05p-28,
    -0x1.cd72e886ef8eap-27,
    0x1.d8bee7ba46e1ep-29,
    -0x1.bd98374091656p-28,
    0x1.f580c36bea881p-27,
    -0x1.30b19defa2fd4p-28,
    0x1.4cce128acf88bp-28,
    0x1.a2497640720edp-27,
    0x1.15506dadd3e2bp-27,
    0x1.1577362b98274p-28,
    0x1.9b8bc9e8a0388p-29,
    -0x1.0d8d83a30b6f8p-31,
    0x1.51f8480e3e236p-27,
    0x1.aef2b2594d6d4p-27,
    0x1.1f12ae45a1225p-27,
    -0x1.4301205e0a6dep-27,
    0x1.5ad3ad5e8734dp-28,
    0x1.3c57ebdaff43ap-30,
    0x1.7daf237553d84p-27,
    0x1.2f074891ee83dp-30,
    -0x1.3d56b1eeef9a7p-27,
    -0x1.a82eb4b5dec8p-28,
    -0x1.8837cb757e1a1p-27,
    0x1.03c4bdc687918p-27,
    -0x1.822dbc6d12fd3p-27,
    0x1.ed9942b84600dp-27,
    0x1.bdcdaf5cb4656p-27,
    -0x1.d30027630bb4p-30,
    0x1.52486cc2c7b9dp-27,
    -0x1.9ea5d888e02dep-28,
    0x1.b722a033a7c26p-27,
    0x1.9e90d82e90a7ep-28,
};

/* x = (64 m + j) ln 2 / 64 + r, |r| < 0.0055, and exp x = 2^m 2^(j/64) exp r. The leading
 * product is exact: 26 bits of the table value times 26 bits of r (r_hi, a multiple of
 * 2^-32). If the result is subnormal, it is added to `grid`, a power of two whose last
 * place is that of the result, so that it is rounded only once; otherwise `grid` is 0. */
static inline double exp_f64(double x)
{
    /* adding it leaves the nearest integer in the low bits */
    const double magic = 0x1.8p+52;
    const uint64_t lift = 4096; /* makes m + lift non-negative */
    double c = pick_f64(x < -746.0, -746.0, x);
    double t, k, r_lead, r_hi, r_lo, r, tail, hi, step, sum, low, grid, whole;
    uint64_t n, m, half;

    c = pick_f64(c > 710.0, 710.0, c);
    t = c * 0x1.71547652b82fep+6 + magic;
    k = t - magic;
    n = bits_of_f64(t) - bits_of_f64(magic) + 64 * lift;
    m = n >> 6;
    half = m >> 1;
    r_lead = c - k * 0x1.62e42fef8p-7; /* exact: 33 bits */
    r_hi = r_lead + 0x1.8p+20;
    r_hi -= 0x1.8p+20;
    r_lo = (r_lead - r_hi) - k * 0x1.1cf79abc9e3b4p-42;
    r = r_hi + r_lo;

    tail = 1.0 / 720;
    tail = tail * r + 1.0 / 120;
    tail = tail * r + 1.0 / 24;
    tail = tail * r + 1.0 / 6;
    tail = tail * r + 0.5;
    tail = r_lo + r * r * tail;
    step = exp_step_hi[n & 63];
    hi = step * r_hi;
    sum = step + hi;
    low = exp_step_lo[n & 63];
    low = (hi - (sum - step)) + (low + (low * r_hi + (step + low) * tail));

    grid = f64_of_bits((1 + lift - m) << 52);
    grid = pick_f64(c < -708.3964185322641, grid, 0.0);
    whole = grid + sum;
    low = (sum - (whole - grid)) + low;
    return ((whole + low) - grid) * f64_of_bits((half + 1023 - lift / 2) << 52) *
           f64_of_bits((m - half + 1023 - lift / 2) << 52);
}

/* For m near j/32, j = 23 ... 45: a factor with 9 bits whose product with m is near 1,
 * and minus its logarithm, as a multiple of 2^-40 and a remainder; computed as the table
 * above. */
static const double log_step_inv[23] = {
    0x1.64p+0, 0x1.55p+0, 0x1.48p+0, 0x1.3bp+0, 0x1.2fp+0, 0x1.25p+0,
    0x1.1ap+0, 0x1.11p+0, 0x1.08p+0, 0x1p+0,    0x1.fp-1,  0x1.e2p-1,
    0x1.d4p-1, 0x1.c8p-1, 0x1.bap-1, 0x1.bp-1,  0x1.a4p-1, 0x1.9ap-1,
    0x1.9p-1,  0x1.86p-1, 0x1.7ep-1, 0x1.74p-1, 0x1.6cp-1,
};
static const double log_step_hi[23] = {
    -0x1.51aad872ep-2, -0x1.2596010df8p-2,
    -0x1.fb9186d5ep-3, -0x1.a8becfc88p-3,
    -0x1.59338d998p-3, -0x1.1478584678p-3,
    -0x1.8c345d632p-4, -0x1.075983599p-4,
    -0x1.f829b0e78p-6, 0,
    0x1.0415d89e8p-5,  0x1.eea31c006p-5,
    0x1.700d30aebp-4,  0x1.da7276384p-4,
    0x1.2d1610c868p-3, 0x1.5bf406b54p-3,
    0x1.95a5adcf7p-3,  0x1.c6ffbc6fp-3,
    0x1.f991c6cb38p-3, 0x1.16b5ccbadp-2,
    0x1.2bef07cdc8p-2, 0x1.4718dc271cp-2,
    0x1.5d5bddf594p-2,
};
static const double log_step_lo[23] = {
    0x1.f4bd8db0a7cc1p-44,  0x1.38c21eed8ae0fp-43,
    -0x1.f1546aaa3361cp-42, -0x1.78c6173c86e74p-42,
    -0x1.042e9a2dd5575p-42, 0x1.ea9cbaefd838bp-42,
    0x1.937c294d2f567p-42,  0x1.b8ecfe4b59987p-44,
    -0x1.980267c7e09e4p-45, 0,
    -0x1.77771fd187145p-42, 0x1.70f760d81b624p-42,
    -0x1.f8f85c959884bp-43, 0x1.1a89401fa7173p-42,
    0x1.39d6ccb81b4a1p-47,  0x1.ed8fdc149767ep-42,
    0x1.7f22858a0ff6fp-47,  0x1.ee138d3a69d43p-44,
    0x1.9bcbecca0cdf3p-42,  -0x1.23299042d74bfp-44,
    0x1.3539f494a009ep-42,  0x1.06c18fb4c14c5p-44,
    0x1.f2fa6afbadcd1p-42,
};

/* 1 + x = w + lost = 2^e m, and r = m inv - 1 with |r| < 0.0223: log = e ln 2 - log inv +
 * log(1 + r). The parts are added from the largest down, each with its rounding error;
 * the square of r_hi, a multiple of 2^-31, is exact. */
static inline double log1p_f64(double x)
{
    const uint64_t sqrt_half = 0x3fe6a09e667f3bcdu;
    const double ln2_hi = 0x1.62e42fefa4p-1, ln2_lo = -0x1.8432a1b0e2634p-43;
    int inside = x > -1.0 && x < (double)INFINITY;
    double u = pick_f64(inside, x, 0.0);
    double w = 1.0 + u;
    double lost = (1.0 - (w - (w - 1.0))) + (u - (w - 1.0));
    int64_t shifted = (int64_t)(bits_of_f64(w) - sqrt_half);
    int32_t exponent = (int32_t)(shifted >> 52);
    double e = (double)exponent;
    double m = f64_of_bits((uint64_t)(shifted & 0xfffffffffffff) + sqrt_half);
    uint64_t j = (bits_of_f64(m * 32.0 + 0x1p52) & 63) - 23;
    double inv = log_step_inv[j];
    double m_hi = (m + 0x1.8p+29) - 0x1.8p+29;
    double r_hi = m_hi * inv - 1.0;
    double r_lo, r, ahead, first, second, third, square, tail, rest;

    lost *= f64_of_bits((uint64_t)(1023 - (exponent < 1022 ? exponent : 1022)) << 52);
    r_lo = (m - m_hi) * inv + lost * inv;
    r = r_hi + r_lo;
    ahead = e * ln2_hi + log_step_hi[j];
    first = ahead + r_hi;
    square = -0.5 * (r_hi * r_hi);
    second = first + square;
    third = second + r_lo;

    tail = 1.0 / 11;
    tail = tail * r - 1.0 / 10;
    tail = tail * r + 1.0 / 9;
    tail = tail * r - 1.0 / 8;
    tail = tail * r + 1.0 / 7;
    tail = tail * r - 1.0 / 6;
    tail = tail * r + 1.0 / 5;
    tail = tail * r - 1.0 / 4;
    tail = tail * r + 1.0 / 3;
    tail = tail * r * (r * r) - r_lo * (r_hi + 0.5 * r_lo);
    rest = (r_hi - (first - ahead)) + (square - (second - first));
    rest = (r_lo - (third - second)) + (rest + (e * ln2_lo + log_step_lo[j]) + tail);
    u = pick_f64(x == 0.0, x, third + rest);
    u = pick_f64(inside, u, x + x); /* infinity, NaN */
    u = pick_f64(x == -1.0, -(double)INFINITY, u);
    return pick_f64(x < -1.0, (double)NAN, u);
}

#endif
