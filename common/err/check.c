#include "common/err/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void check_failed(const char *file, int line, const char *cond, const char *fmt, ...)
{
    va_list ap;

    (void)fprintf(stderr, "%s:%d: CHECK(%s) failed", file, line, cond);
    if (*fmt != '\0') {
        (void)fputs(": ", stderr);
        va_start(ap, fmt);
        (void)vfprintf(stderr, fmt, ap);
        va_end(ap);
    }
    (void)fputc('\n', stderr);
    abort();
}
