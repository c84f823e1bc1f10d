#include "common/io/shell_quote.h"

#include "common/mem/xmalloc.h"

#include <string.h>

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

char *shell_word(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789_.,/=:@%+-";
    struct xstream text;

    if (*word != '\0' && word[strspn(word, plain)] == '\0')
        return xstrdup(word);
    shell_quote(xstream_begin(&text), word);
    return xstream_end(&text);
}
