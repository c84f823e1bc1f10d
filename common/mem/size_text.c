#include "common/mem/size_text.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>

const char *size_text(uint64_t n, char buf[SIZE_TEXT_BYTES])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    double v = (double)n;
    size_t unit = 0;

    while (v >= 999.5 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        v /= 1000;
        unit++;
    }
    (void)snprintf(buf, SIZE_TEXT_BYTES, unit > 0 && v < 9.95 ? "%.1f %s" : "%.0f %s", v,
                   units[unit]);
    return buf;
}

const char *size_text_limit(uint64_t n, char buf[SIZE_TEXT_BYTES])
{
    static const char units[] = "KMGT";
    double v = (double)n;
    int unit = -1;

    while (v >= 1024 && unit < 3) {
        v /= 1024;
        unit++;
    }
    v = ceil(v * 10) / 10;
    if (unit >= 0)
        (void)snprintf(buf, SIZE_TEXT_BYTES, v == floor(v) ? "%.0f%c" : "%.1f%c", v,
                       units[unit]);
    else
        (void)snprintf(buf, SIZE_TEXT_BYTES, "%.0fB", v);
    return buf;
}
