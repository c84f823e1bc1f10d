#include "common/io/shell_quote.h"

#include "common/err/check.h"
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
    char *text = NULL;
    size_t len;
    FILE *f;

    if (*word != '\0' && word[strspn(word, plain)] == '\0')
        return xstrdup(word);
    f = open_memstream(&text, &len);
    CHECK(f != NULL, "no memory");
    shell_quote(f, word);
    CHECK(fclose(f) == 0, "no memory");
    return text;
}
