/* size_text.h - formats numbers of bytes for people. */
#ifndef COMMON_MEM_SIZE_TEXT_H
#define COMMON_MEM_SIZE_TEXT_H

#include <stdint.h>

#define SIZE_TEXT_BYTES 32

/* "1.2 GB"; returns buf. */
const char *size_text(uint64_t n, char buf[SIZE_TEXT_BYTES]);

#endif
