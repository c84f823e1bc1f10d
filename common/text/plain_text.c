#include "common/text/plain_text.h"

#include "common/text/utf8.h"

#include <string.h>

static int is_control(const unsigned char *s, size_t n)
{
    if (n == 1)
        return (s[0] < 0x20 && s[0] != '\t' && s[0] != '\n') || s[0] == 0x7f;
    return n == 2 && s[0] == 0xc2 && s[1] < 0xa0;
}

static size_t put_escaped(char *ret, unsigned char c)
{
    static const char digits[] = "0123456789abcdef";

    ret[0] = '\\';
    ret[1] = 'x';
    ret[2] = digits[c >> 4];
    ret[3] = digits[c & 15];
    return 4;
}

size_t plain_text(char *ret, size_t size, const char *text, size_t len)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t n = 0;

    for (size_t i = 0; i < len;) {
        const size_t valid = utf8_len(s + i, len - i);
        const size_t in = valid != 0 ? valid : 1;
        const int escape = valid == 0 || is_control(s + i, in);
        /* U+009B is written as its number, like the raw byte 0x9b */
        const unsigned char shown = s[i + in - 1];

        if (n + (escape ? 4 : in) >= size)
            break;
        if (escape)
            n += put_escaped(ret + n, shown);
        else
            memcpy(ret + n, s + i, in), n += in;
        i += in;
    }
    ret[n] = '\0';
    return n;
}

size_t plain_text_unfinished(const char *text, size_t len)
{
    const unsigned char *s = (const unsigned char *)text;

    for (size_t back = 1; back <= 3 && back <= len; back++) {
        const unsigned char c = s[len - back];

        if ((c & 0xc0) == 0x80)
            continue;
        return (c >= 0xf0 && back < 4) || (c >= 0xe0 && c < 0xf0 && back < 3) ||
                       (c >= 0xc2 && c < 0xe0 && back < 2)
                   ? back
                   : 0;
    }
    return 0;
}
