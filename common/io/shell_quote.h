/* shell_quote.h - quotes words for a POSIX shell. */
#ifndef COMMON_IO_SHELL_QUOTE_H
#define COMMON_IO_SHELL_QUOTE_H

#include <stdio.h>

/* Writes the word in single quotes; the shell reads it back unchanged. */
void shell_quote(FILE *out, const char *word);
/* The word, quoted only if it has characters that the shell may interpret; free(). */
char *shell_word(const char *word);

#endif
