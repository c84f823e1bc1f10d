#include "common/io/shell_quote.h"

void shell_quote(FILE *out, const char *word)
{
    (void)fputc('\'', out);
    for (; *word != '\0'; word++) {
        if (*word == '\'')
            (void)fputs("'\\''", out);
        else
            (void)fputc(*word, out);
    }
    (void)fputc('\'', out);
}
