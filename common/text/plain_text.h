/* plain_text.h - makes untrusted text safe to print on a terminal.
 *
 * Terminals obey control characters: these can clear the screen, change the title or
 * insert input. A log line, a tensor's name or a status must not be able to do that. All
 * control characters except tab and newline therefore become visible, such as "\x1b".
 * They are C0 (below 0x20), DEL (0x7f), C1 (U+0080 to U+009F, as UTF-8 or as raw bytes),
 * every byte that is not well-formed UTF-8, and the characters that reorder a line or break it
 * (U+061C, U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069: "\xe2\x80\xae"). All other
 * text, including backslashes, stays unchanged.
 *
 * A name that was read from a disk or a socket must not begin another line either: a folder
 * may be called "a\nb  done". Whatever prints one uses PLAIN_NAME.
 *
 * Source   ECMA-48 (C0 and C1); RFC 3629; Unicode Standard Annex 9 (bidirectional controls)
 */
#ifndef COMMON_TEXT_PLAIN_TEXT_H
#define COMMON_TEXT_PLAIN_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* The result may be this many times as long as the text. */
#define PLAIN_TEXT_GROWTH 4

/* Writes the safe form of a text of len bytes to ret, NUL-terminated, and returns its
 * length. Characters that do not fit into size bytes (at least 1) are left out. ret and
 * text must not overlap. */
size_t plain_text(char *ret, size_t size, const char *text, size_t len);

/* plain_text with tabs and newlines escaped, too. */
size_t plain_line(char *ret, size_t size, const char *text, size_t len);

/* The line that a name is: a folder's longest one fits, others are cut. NULL: "". Valid until
 * the end of the block. */
#define PLAIN_NAME(name) plain_name_in((char[PLAIN_NAME_BYTES]){0}, name)
enum { PLAIN_NAME_BYTES = 255 * PLAIN_TEXT_GROWTH + 1 };
const char *plain_name_in(char ret[PLAIN_NAME_BYTES], const char *name);

/* Whether the character of n bytes reorders or breaks a line. */
int plain_text_is_bidi(const uint8_t *s, size_t n);

/* The number of bytes at the end of the text that begin an incomplete UTF-8 character: 0
 * to 3. For text that arrives in pieces or was cut. */
size_t plain_text_unfinished(const char *text, size_t len);

#endif
