/* crc32.h - CRC-32 as zip, gzip and PNG have it (ISO 3309, polynomial 0x04C11DB7). */
#ifndef COMMON_WIRE_CRC32_H
#define COMMON_WIRE_CRC32_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32_zip(const void *data, size_t len_bytes);

#endif
