#include "common/text/plain_text.h"

#include "common/text/utf8.h"

#include <string.h>

static int is_control(const unsigned char *s, size_t n)
{
    if (n == 1)
        return (s[0] < 0x20 && s[0] != '\t' && s[0] != '\n') || s[0] == 0x7f;
    return n == 2 && s[0] == 0xc2 && s[1] < 0xa0;
}

int plain_text_is_bidi(const uint8_t *s, size_t n)
{
    if (n == 2)
        return s[0] == 0xd8 && s[1] == 0x9c;
    if (n != 3 || s[0] != 0xe2)
        return 0;
    return s[1] == 0x80 ? s[2] == 0x8e || s[2] == 0x8f || (s[2] >= 0xa8 && s[2] <= 0xae)
                        : s[1] == 0x81 && s[2] >= 0xa6 && s[2] <= 0xa9;
}

static void put_escaped(char *ret, const unsigned char *s, size_t n)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < n; i++) {
        *ret++ = '\\';
        *ret++ = 'x';
        *ret++ = digits[s[i] >> 4];
        *ret++ = digits[s[i] & 15];
    }
}

/* is_line: tabs and newlines are escaped, too. */
static size_t write_plain(char *ret, size_t size, const char *text, size_t len,
                          int is_line)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t n = 0;

    for (size_t i = 0; i < len;) {
        const size_t valid = utf8_len(s + i, len - i), in = valid != 0 ? valid : 1;
        const int is_bidi = plain_text_is_bidi(s + i, in);
        const int escape = valid == 0 || is_bidi || is_control(s + i, in) ||
                           (is_line && (s[i] == '\t' || s[i] == '\n'));
        /* U+009B is written as its number, like the raw byte 0x9b */
        const size_t n_shown = is_bidi ? in : 1;

        if (n + (escape ? 4 * n_shown : in) >= size)
            break;
        if (escape)
            put_escaped(ret + n, s + i + in - n_shown, n_shown), n += 4 * n_shown;
        else
            memcpy(ret + n, s + i, in), n += in;
        i += in;
    }
    ret[n] = '\0';
    return n;
}

size_t plain_text(char *ret, size_t size, const char *text, size_t len)
{
    return write_plain(ret, size, text, len, 0);
}

size_t plain_line(char *ret, size_t size, const char *text, size_t len)
{
    return write_plain(ret, size, text, len, 1);
}

const char *plain_name_in(char ret[PLAIN_NAME_BYTES], const char *name)
{
    if (name == NULL)
        return "";
    (void)plain_line(ret, PLAIN_NAME_BYTES, name, strlen(name));
    return ret;
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
