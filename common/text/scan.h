/* scan.h - finds words and numbers in a text. */
#ifndef COMMON_TEXT_SCAN_H
#define COMMON_TEXT_SCAN_H

#include <stddef.h>
#include <stdint.h>

/* What follows the prefix; NULL: the text does not begin with it. */
const char *text_after(const char *text, const char *prefix);
/* Whether the text ends with the suffix and has something before it. */
int text_ends_with(const char *text, const char *suffix);
/* The last part of a path: what follows its last slash; all of it if it has none. */
const char *text_base_name(const char *path);
/* Whether the first len bytes of the text are that word. */
int text_is_word(const char *text, size_t len, const char *word);
/* The index of the text in a list that ends with NULL; -1: it is not there. */
int text_find(const char *const *list, const char *text);

/* Whether the text consists of decimal digits, of at least one. */
int text_is_digits(const char *text);
/* The number that a text of decimal digits is. Returns 0 if it is none, or too large. */
int text_u64(const char *text, uint64_t *ret);
/* The value of a hexadecimal digit, in either case; -1: c is none. */
int hex_digit(char c);

#endif
