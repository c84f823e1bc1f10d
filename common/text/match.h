/* match.h - compares a text with a word. */
#ifndef COMMON_TEXT_MATCH_H
#define COMMON_TEXT_MATCH_H

#include <stddef.h>

/* What follows the prefix; NULL: the text does not begin with it. */
const char *text_after(const char *text, const char *prefix);
/* Whether the text ends with the suffix and has something before it. */
int text_ends_with(const char *text, const char *suffix);
/* Whether the first len bytes of the text are that word. */
int text_is_word(const char *text, size_t len, const char *word);

/* The value of a hexadecimal digit, in either case; -1: c is none. */
int hex_digit(char c);

#endif
