#include "common/io/monotonic.h"

#include <time.h>

int64_t monotonic_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t monotonic_ms(void)
{
    return monotonic_ns() / 1000000;
}

double monotonic_s(void)
{
    return (double)monotonic_ns() * 1e-9;
}
