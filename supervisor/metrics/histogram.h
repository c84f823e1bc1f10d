/* histogram.h - how the elements of a tensor are distributed, as TensorFlow's summaries say it.
 *
 * Buckets  their limits grow by a tenth from 1e-12 to 1e20, for both signs; an element that
 *          equals a limit is in the bucket above. Infinities and NaN are left out.
 * Sums     in the order of the elements, in float64: equal tensors give equal bytes.
 * Source   tensorflow/core/lib/histogram/histogram.cc, framework/summary.proto
 */
#ifndef SUPERVISOR_METRICS_HISTOGRAM_H
#define SUPERVISOR_METRICS_HISTOGRAM_H

#include "common/wire/cursor.h"

#include <stddef.h>

/* Appends a HistogramProto. Returns 0, and appends nothing, if no element is finite. */
int histogram_put(struct wbuf *b, const float *x, size_t n);

#endif
