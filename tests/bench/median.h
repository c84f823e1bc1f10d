/* median.h - the median of measurements, which the call sorts. */
#ifndef TESTS_BENCH_MEDIAN_H
#define TESTS_BENCH_MEDIAN_H

#include "common/err/check.h"

#include <stdlib.h>

static int median_compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static inline double median(double *v, size_t n)
{
    CHECK(n > 0, "nothing was measured");
    qsort(v, n, sizeof(*v), median_compare);
    return v[n / 2];
}

#endif
