#include "supervisor/cli/glyphs.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

int glyphs_are_utf8(void)
{
    static const char *const variables[] = {"LC_ALL", "LC_CTYPE", "LANG"};

    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        const char *locale = getenv(variables[i]);

        if (locale != NULL && *locale != '\0')
            return strcasestr(locale, "UTF-8") != NULL ||
                   strcasestr(locale, "UTF8") != NULL;
    }
    return 0;
}

const char *glyph_full(int utf8)
{
    return utf8 ? "█" : "#";
}

const char *glyph_empty(int utf8)
{
    return utf8 ? "░" : ".";
}

const char *glyph_level(int utf8, double part)
{
    static const char *const levels[2][GLYPH_LEVELS] = {
        {"_", ".", "-", "~", "=", "+", "*", "#"},
        {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}};
    const double at = part > 0 ? fmin(part, 1) * (GLYPH_LEVELS - 1) : 0;

    return levels[utf8 != 0][lround(at)];
}
