#include "common/wire/crc32c.h"

#include "common/wire/isal.h"

enum { CRC_CHUNK_BYTES = 1 << 30 }; /* isa-l takes lengths as int */

static const uint32_t MASK_DELTA = 0xa282ead8u;

uint32_t crc32c_extend(uint32_t crc, const void *data, size_t len_bytes)
{
    uintptr_t at = (uintptr_t)data; /* isa-l's declaration lacks const */
    uint32_t state = ~crc;

    while (len_bytes > 0) {
        size_t n = len_bytes < CRC_CHUNK_BYTES ? len_bytes : CRC_CHUNK_BYTES;

        state = isal()->crc32_iscsi((unsigned char *)at, (int)n, state);
        at += n;
        len_bytes -= n;
    }
    return ~state;
}

uint32_t crc32c(const void *data, size_t len_bytes)
{
    return crc32c_extend(0, data, len_bytes);
}

uint32_t crc32c_mask(uint32_t crc)
{
    return ((crc >> 15) | (crc << 17)) + MASK_DELTA;
}

uint32_t crc32c_unmask(uint32_t masked)
{
    uint32_t rotated = masked - MASK_DELTA;

    return (rotated >> 17) | (rotated << 15);
}
