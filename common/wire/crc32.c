#include "common/wire/crc32.h"

#include "common/wire/isal.h"

uint32_t crc32_zip(const void *data, size_t len_bytes)
{
    return isal()->crc32_gzip_refl(0, data, len_bytes);
}
