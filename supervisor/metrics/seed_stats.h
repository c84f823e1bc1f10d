/* seed_stats.h - summary statistics of one result over several seeds.
 *
 * Source   Agarwal et al. 2021, Deep Reinforcement Learning at the Edge of the
 *          Statistical Precipice: interquartile mean, and bootstrap intervals instead of
 *          a bare mean.
 * Draws    the bootstrap uses one fixed key: the same values give the same interval.
 */
#ifndef SUPERVISOR_METRICS_SEED_STATS_H
#define SUPERVISOR_METRICS_SEED_STATS_H

#include <stddef.h>

struct seed_stats {
    size_t n;
    double mean;
    double std;       /* of the sample (n - 1); NaN for one value */
    double low, high; /* of the mean, 95 %, percentile bootstrap; NaN for one value */
    double iqm;       /* mean without the lowest and the highest quarter of the values */
};

/* Sorts the n values in place and returns their statistics. n = 0: all NaN. */
struct seed_stats seed_stats_of(double *values, size_t n);
/* Compares two doubles, for qsort. */
int seed_stats_order(const void *a, const void *b);

/* The 95 % percentile interval of a statistic that was computed of so many resamples of its
 * values: sorts the results. */
enum { SEED_RESAMPLES = 2000 };
void seed_stats_interval(double *resampled, double *ret_low, double *ret_high);

#endif
