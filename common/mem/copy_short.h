/* copy_short.h - copies short rows, for which a call of memcpy would cost more than the copying.
 *
 * Source and destination must not overlap.
 */
#ifndef COMMON_MEM_COPY_SHORT_H
#define COMMON_MEM_COPY_SHORT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define COPY_SHORT_BYTES 320 /* above this, memcpy is faster */

/* dst[0 .. n) = src[0 .. n); the last 4 or 16 bytes may be copied twice. */
static inline void copy_short(void *dst, const void *src, size_t n)
{
    char *d = dst;
    const char *s = src;

    if (n > COPY_SHORT_BYTES) {
        memcpy(d, s, n);
    } else if (n >= 16) {
        for (size_t i = 0; i + 16 <= n; i += 16)
            memcpy(d + i, s + i, 16);
        memcpy(d + n - 16, s + n - 16, 16);
    } else if (n >= 4) {
        for (size_t i = 0; i + 4 <= n; i += 4)
            memcpy(d + i, s + i, 4);
        memcpy(d + n - 4, s + n - 4, 4);
    } else {
        for (size_t i = 0; i < n; i++)
            d[i] = s[i];
    }
}

/* dst[i] = src[i] as a float, for i below n. */
static inline void copy_bytes_to_floats(float *restrict dst, const uint8_t *restrict src,
                                        size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = src[i];
}

/* `rows` rows of n bytes each; strides in bytes from one row to the next. */
static inline void copy_rows(void *dst, size_t dst_stride, const void *src,
                             size_t src_stride, size_t rows, size_t n)
{
    for (size_t i = 0; i < rows; i++)
        copy_short((char *)dst + i * dst_stride, (const char *)src + i * src_stride, n);
}

#endif
