/* monotonic.h - the time since some moment in the past, for measuring how long something
 * takes: it does not jump when the date is set. */
#ifndef COMMON_IO_MONOTONIC_H
#define COMMON_IO_MONOTONIC_H

#include <stdint.h>

int64_t monotonic_ns(void);
int64_t monotonic_ms(void);
double monotonic_s(void);

#endif
