#include "common/text/number_text.h"

#include <math.h>
#include <stdio.h>

static const double LARGE = 1e6;

const char *number_text(double v, int decimals, char buf[NUMBER_TEXT_BYTES])
{
    if (fabs(v) < LARGE)
        (void)snprintf(buf, NUMBER_TEXT_BYTES, "%.*f", decimals, v);
    else
        (void)snprintf(buf, NUMBER_TEXT_BYTES, "%.4g", v);
    return buf;
}
