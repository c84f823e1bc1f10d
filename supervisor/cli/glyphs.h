/* glyphs.h - the few characters that draw: those of Unicode, or ASCII where the locale is not
 * UTF-8.
 */
#ifndef SUPERVISOR_CLI_GLYPHS_H
#define SUPERVISOR_CLI_GLYPHS_H

/* Whether LC_ALL, LC_CTYPE or LANG (the first that is not empty) names UTF-8. The locale need
 * not be installed: the terminal may be on another machine. */
int glyphs_are_utf8(void);

/* A bar's part that is done, and the part that is not. */
const char *glyph_full(int utf8);
const char *glyph_empty(int utf8);
/* One of GLYPH_LEVELS heights, part from 0 to 1; NaN: the lowest. */
enum { GLYPH_LEVELS = 8 };
const char *glyph_level(int utf8, double part);

#endif
