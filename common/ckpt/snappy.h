/* snappy.h - decodes Snappy's raw format, in which blocks of tables may be compressed.
 *
 * Source   https://github.com/google/snappy/blob/main/format_description.txt
 */
#ifndef COMMON_CKPT_SNAPPY_H
#define COMMON_CKPT_SNAPPY_H

#include <stddef.h>
#include <stdint.h>

/* The decoded size that the data declares. Returns 0, or -1 if it declares none, or more
 * than any data of that size can give, so that memory of that size may be allocated. */
int snappy_size(const uint8_t *data, size_t len_bytes, size_t *ret);
/* Decodes into dst, of exactly the declared size. Returns 0, or -1: malformed. */
int snappy_decode(const uint8_t *data, size_t len_bytes, uint8_t *dst, size_t size);

#endif
