#include "common/text/scan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *text_after(const char *text, const char *prefix)
{
    const size_t n = strlen(prefix);

    return strncmp(text, prefix, n) == 0 ? text + n : NULL;
}

int text_ends_with(const char *text, const char *suffix)
{
    const size_t len = strlen(text), n = strlen(suffix);

    return len > n && strcmp(text + len - n, suffix) == 0;
}

const char *text_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

int text_is_word(const char *text, size_t len, const char *word)
{
    return strlen(word) == len && strncmp(text, word, len) == 0;
}

int text_find(const char *const *list, const char *text)
{
    for (int i = 0; list[i] != NULL; i++)
        if (strcmp(list[i], text) == 0)
            return i;
    return -1;
}

int text_is_digits(const char *text)
{
    return *text != '\0' && text[strspn(text, "0123456789")] == '\0';
}

int text_u64(const char *text, uint64_t *ret)
{
    errno = 0;
    *ret = strtoull(text, NULL, 10);
    return text_is_digits(text) && errno == 0;
}

int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}
