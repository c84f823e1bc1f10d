/* utf8.h - recognises UTF-8. */
#ifndef COMMON_TEXT_UTF8_H
#define COMMON_TEXT_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* The length of the well-formed UTF-8 character at the start of s, which has n >= 1 bytes
 * (RFC 3629); 0 if there is none. */
size_t utf8_len(const uint8_t *s, size_t n);

#endif
