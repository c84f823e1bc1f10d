/* plain_text.h - untrusted text, made safe to print on a terminal.
 *
 * A terminal obeys control characters: they clear it, retitle it, paste into it. A log
 * line, the name of a tensor or a status must not command the terminal of its reader. So
 * all control characters but tab and newline become visible: "\x1b". They
 * are C0 (below 0x20), DEL (0x7f), C1 (U+0080 to U+009F, as UTF-8 or as raw bytes), and
 * every byte that is no well-formed UTF-8. All other text stays as it is, backslashes,
 * too.
 *
 * Source   ECMA-48 (C0 and C1); RFC 3629
 */
#ifndef COMMON_TEXT_PLAIN_TEXT_H
#define COMMON_TEXT_PLAIN_TEXT_H

#include <stddef.h>

/* How much longer a text may become. */
#define PLAIN_TEXT_GROWTH 4

/* Writes the text of len bytes, made safe, and a terminator to ret; what does not fit into
 * size bytes (at least 1) is left out, in whole characters. ret and text do not overlap.
 * Returns the length written. */
size_t plain_text(char *ret, size_t size, const char *text, size_t len);

/* How many bytes at the end of the text begin a UTF-8 character that is not complete: 0 to
 * 3. For text that comes in pieces, or was cut. */
size_t plain_text_unfinished(const char *text, size_t len);

#endif
