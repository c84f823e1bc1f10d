/* shell_quote.h - words that a POSIX shell reads back as they are. */
#ifndef COMMON_IO_SHELL_QUOTE_H
#define COMMON_IO_SHELL_QUOTE_H

#include <stdio.h>

/* Writes the word in single quotes. */
void shell_quote(FILE *out, const char *word);

#endif
