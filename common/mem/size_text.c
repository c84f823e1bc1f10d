#include "common/mem/size_text.h"

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
