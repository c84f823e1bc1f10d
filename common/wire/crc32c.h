/* crc32c.h - CRC-32C (Castagnoli, RFC 3720), plain and in TensorFlow's masked form. */
#ifndef COMMON_WIRE_CRC32C_H
#define COMMON_WIRE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* crc32c_extend(crc32c("12"), "3", 1) == crc32c("123") */
uint32_t crc32c(const void *data, size_t len_bytes);
uint32_t crc32c_extend(uint32_t crc, const void *data, size_t len_bytes);

/* Masks a CRC: rotates it and adds a constant, so that a stored CRC is not the plain CRC
 * of the data beside it. Table trailers, bundle entries and TFRecord framing all store
 * this form. */
uint32_t crc32c_mask(uint32_t crc);
uint32_t crc32c_unmask(uint32_t masked);

#endif
