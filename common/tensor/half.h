/* half.h - float16 (IEEE 754 binary16) and bfloat16 as float32, and back: rounded to the nearest,
 * ties to even, as TensorFlow does; of a NaN that is rounded only the sign stays. Without
 * branches, so that compilers vectorise loops of them.
 */
#ifndef COMMON_TENSOR_HALF_H
#define COMMON_TENSOR_HALF_H

#include "common/numerics/elementary.h"

#include <stdint.h>

static inline float half_to_f32(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = (uint32_t)(h & 0x7fff);
    /* the exponent is 112 larger; of infinity and NaN by as much again; a subnormal number
     * is rest * 2^-24 */
    const uint32_t normal = (rest << 13) + (rest >= 0x7c00 ? 224u << 23 : 112u << 23);
    const uint32_t small = bits_of_f32((float)(int32_t)rest * 0x1p-24f);

    return f32_of_bits(sign | (rest < 0x400 ? small : normal));
}

static inline uint16_t half_from_f32(float f)
{
    const uint32_t bits = bits_of_f32(f), sign = bits >> 16 & 0x8000;
    const uint32_t rest = bits & 0x7fffffff;
    /* adding 0.5 leaves the rounded multiple of 2^-24 in the lowest bits */
    const uint32_t small = bits_of_f32(f32_of_bits(rest) + 0.5f) - bits_of_f32(0.5f);
    const uint32_t normal = (rest - (112u << 23) + 0xfff + (rest >> 13 & 1)) >> 13;
    const uint32_t large = rest > 0x7f800000 ? 0x7e00 : 0x7c00;

    return (uint16_t)(sign | (rest >= 0x47800000  ? large
                              : rest < 0x38800000 ? small
                                                  : normal));
}

static inline float bfloat16_to_f32(uint16_t b)
{
    return f32_of_bits((uint32_t)b << 16);
}

static inline uint16_t bfloat16_from_f32(float f)
{
    const uint32_t bits = bits_of_f32(f);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;

    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? (bits >> 16 & 0x8000) | 0x7fc0
                                                       : rounded);
}

#endif
