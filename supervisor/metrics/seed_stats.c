#include "supervisor/metrics/seed_stats.h"

#include "common/mem/xmalloc.h"
#include "common/rng/rng.h"

#include <math.h>
#include <stdlib.h>

int seed_stats_order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double mean_of(const double *x, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return sum / (double)n;
}

void seed_stats_interval(double *resampled, double *ret_low, double *ret_high)
{
    qsort(resampled, SEED_RESAMPLES, sizeof(*resampled), seed_stats_order);
    *ret_low = resampled[SEED_RESAMPLES / 40];
    *ret_high = resampled[SEED_RESAMPLES - 1 - SEED_RESAMPLES / 40];
}

/* The bootstrap means: each over n values drawn with replacement. */
static double *resample(const double *x, size_t n)
{
    const struct rng_key key = rng_key_make(0, "report", "bootstrap");
    double *means = xcalloc(SEED_RESAMPLES, sizeof(*means));
    double *u = xcalloc(n, sizeof(*u));

    for (size_t r = 0; r < SEED_RESAMPLES; r++) {
        double sum = 0;

        rng_uniform_f64(key, r, 0, u, n);
        for (size_t i = 0; i < n; i++)
            sum += x[(size_t)(u[i] * (double)n)];
        means[r] = sum / (double)n;
    }
    free(u);
    return means;
}

struct seed_stats seed_stats_of(double *values, size_t n)
{
    const double none = (double)NAN;
    struct seed_stats s = {n, none, none, none, none, none};
    const size_t quarter = n / 4;
    double squares = 0, *means;

    if (n == 0)
        return s;
    qsort(values, n, sizeof(*values), seed_stats_order);
    s.mean = mean_of(values, n);
    s.iqm = mean_of(values + quarter, n - 2 * quarter);
    if (n < 2)
        return s;
    for (size_t i = 0; i < n; i++)
        squares += (values[i] - s.mean) * (values[i] - s.mean);
    s.std = sqrt(squares / (double)(n - 1));
    means = resample(values, n);
    seed_stats_interval(means, &s.low, &s.high);
    free(means);
    return s;
}
