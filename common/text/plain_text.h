/* plain_text.h - makes untrusted text safe to print on a terminal.
 *
 * Terminals obey control characters: these can clear the screen, change the title or
 * insert input. A log line, a tensor's name or a status must not be able to do that. All
 * control characters except tab and newline therefore become visible, such as "\x1b".
 * They are C0 (below 0x20), DEL (0x7f), C1 (U+0080 to U+009F, as UTF-8 or as raw bytes),
 * and every byte that is not well-formed UTF-8. All other text, including backslashes,
 * stays unchanged.
 *
 * Source   ECMA-48 (C0 and C1); RFC 3629
 */
#ifndef COMMON_TEXT_PLAIN_TEXT_H
#define COMMON_TEXT_PLAIN_TEXT_H

#include <stddef.h>

/* The result may be this many times as long as the text. */
#define PLAIN_TEXT_GROWTH 4

/* Writes the safe form of a text of len bytes to ret, NUL-terminated, and returns its
 * length. Characters that do not fit into size bytes (at least 1) are left out. ret and
 * text must not overlap. */
size_t plain_text(char *ret, size_t size, const char *text, size_t len);

/* The number of bytes at the end of the text that begin an incomplete UTF-8 character: 0
 * to 3. For text that arrives in pieces or was cut. */
size_t plain_text_unfinished(const char *text, size_t len);

#endif
