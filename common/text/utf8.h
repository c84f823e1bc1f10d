/* utf8.h - which bytes are text. */
#ifndef COMMON_TEXT_UTF8_H
#define COMMON_TEXT_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Length of the well-formed UTF-8 character at s, of n bytes, at least one (RFC 3629); 0
 * if there is none. */
size_t utf8_len(const uint8_t *s, size_t n);

#endif
