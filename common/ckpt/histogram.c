#include "common/ckpt/histogram.h"

#include "common/ckpt/protowire.h"
#include "common/numerics/elementary.h"

#include <float.h>
#include <pthread.h>

enum {
    HISTO_MIN = 1,
    HISTO_MAX = 2,
    HISTO_NUM = 3,
    HISTO_SUM = 4,
    HISTO_SUM_SQUARES = 5,
    HISTO_BUCKET_LIMIT = 6,
    HISTO_BUCKET = 7
};
enum { ZERO = HISTOGRAM_BUCKETS / 2 };

/* What is less is in this bucket or an earlier one. */
static double limits[HISTOGRAM_BUCKETS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void set_limits(void)
{
    double v = 1e-12;

    for (int i = 1; i <= ZERO; i++, v *= 1.1) {
        limits[ZERO + i] = i < ZERO ? v : DBL_MAX;
        limits[ZERO - i] = -limits[ZERO + i];
    }
}

/* The first bucket whose limit is above x; the last one if none is. */
static int bucket_of(double x)
{
    int low = 0, high = HISTOGRAM_BUCKETS - 1;

    while (low < high) {
        const int middle = (low + high) / 2;

        if (limits[middle] > x)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

struct histogram histogram_empty(void)
{
    return (struct histogram){.min = DBL_MAX, .max = -DBL_MAX};
}

void histogram_add(struct histogram *h, double x)
{
    (void)pthread_once(&once, set_limits);
    h->min = x < h->min ? x : h->min;
    h->max = x > h->max ? x : h->max;
    h->n++;
    h->sum += x;
    h->squares += x * x;
    h->count[bucket_of(x)]++;
}

static void put_number(struct wbuf *b, uint32_t field, double x)
{
    if (bits_of_f64(x) != 0) /* as proto3 leaves zeros out */
        pw_put_fixed64(b, field, bits_of_f64(x));
}

/* Of empty buckets that follow one another, only the limit of the last is written. */
static void put_buckets(struct wbuf *b, uint32_t field, const struct histogram *h,
                        const double *values)
{
    const size_t begun = pw_begin(b, field);

    for (int i = 0; i < HISTOGRAM_BUCKETS; i++)
        if (h->count[i] > 0 || i + 1 == HISTOGRAM_BUCKETS || h->count[i + 1] > 0)
            wbuf_u64(b, bits_of_f64(values[i]));
    pw_end(b, begun);
}

void histogram_put(struct wbuf *b, const struct histogram *h)
{
    (void)pthread_once(&once, set_limits);
    put_number(b, HISTO_MIN, h->min);
    put_number(b, HISTO_MAX, h->max);
    put_number(b, HISTO_NUM, h->n);
    put_number(b, HISTO_SUM, h->sum);
    put_number(b, HISTO_SUM_SQUARES, h->squares);
    put_buckets(b, HISTO_BUCKET_LIMIT, h, limits);
    put_buckets(b, HISTO_BUCKET, h, h->count);
}
