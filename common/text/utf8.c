#include "common/text/utf8.h"

size_t utf8_len(const uint8_t *s, size_t n)
{
    static const struct {
        /* ranges of the lead byte and of the second byte */
        uint8_t first, last, low, high;
        size_t len;
    } rows[] = {
        {0x00, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2},
        {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
        {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4},
        {0xf4, 0xf4, 0x80, 0x8f, 4},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (s[0] < rows[i].first || s[0] > rows[i].last)
            continue;
        if (rows[i].len > n)
            return 0;
        if (rows[i].len > 1 && (s[1] < rows[i].low || s[1] > rows[i].high))
            return 0;
        for (size_t k = 2; k < rows[i].len; k++)
            if ((s[k] & 0xc0) != 0x80)
                return 0;
        return rows[i].len;
    }
    return 0;
}
