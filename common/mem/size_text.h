/* size_text.h - formats numbers of bytes for people. */
#ifndef COMMON_MEM_SIZE_TEXT_H
#define COMMON_MEM_SIZE_TEXT_H

#include <stdint.h>

#define SIZE_TEXT_BYTES 32

/* "1.2 GB"; returns buf. */
const char *size_text(uint64_t n, char buf[SIZE_TEXT_BYTES]);
/* The number in the units of the configuration's limits (K, M, G and T: powers of 1024),
 * rounded up to a tenth: a limit of 300M is "300M", anything above it at least "300.1M".
 * Below 1K: "512B". Returns buf. */
const char *size_text_limit(uint64_t n, char buf[SIZE_TEXT_BYTES]);

#endif
