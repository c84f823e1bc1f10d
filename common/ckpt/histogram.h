/* histogram.h - how numbers are distributed, as TensorFlow's summaries say it.
 *
 *     struct histogram h = histogram_empty();
 *     histogram_add(&h, x);                       for each finite number
 *     histogram_put(&b, &h);
 *
 * Buckets  their limits grow by a tenth from 1e-12 to 1e20, for both signs; a number that
 *          equals a limit is in the bucket above.
 * Sums     in the order of the numbers, in float64: equal tensors give equal bytes.
 * Source   tensorflow/core/lib/histogram/histogram.cc, framework/summary.proto
 */
#ifndef COMMON_CKPT_HISTOGRAM_H
#define COMMON_CKPT_HISTOGRAM_H

#include "common/wire/cursor.h"

/* 774 limits and the largest number, for either sign, and 0 */
enum { HISTOGRAM_BUCKETS = 2 * 775 + 1 };

struct histogram {
    double min, max, n, sum, squares;
    double count[HISTOGRAM_BUCKETS];
};

struct histogram histogram_empty(void);
void histogram_add(struct histogram *h, double x);
/* Appends the fields of a HistogramProto. */
void histogram_put(struct wbuf *b, const struct histogram *h);

#endif
