#include "supervisor/metrics/histogram.h"

#include "common/ckpt/protowire.h"
#include "common/mem/xmalloc.h"
#include "common/numerics/elementary.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

enum {
    HISTO_MIN = 1,
    HISTO_MAX = 2,
    HISTO_NUM = 3,
    HISTO_SUM = 4,
    HISTO_SUM_SQUARES = 5,
    HISTO_BUCKET_LIMIT = 6,
    HISTO_BUCKET = 7
};
enum { MAX_BUCKETS = 2 * 1024 };

struct buckets {
    size_t n;
    double limit[MAX_BUCKETS]; /* what is less is in this bucket or an earlier one */
    double count[MAX_BUCKETS];
};

static void set_limits(struct buckets *b)
{
    size_t n = 0;

    for (double v = 1e-12; v < 1e20; v *= 1.1)
        n++;
    n++; /* the largest number */
    b->n = 2 * n + 1;
    b->limit[n] = 0;
    b->limit[2 * n] = DBL_MAX;
    b->limit[0] = -DBL_MAX;
    for (double v = 1e-12; v < 1e20; v *= 1.1) {
        const size_t i = b->n - n; /* places left on either side */

        b->limit[i] = v;
        b->limit[b->n - 1 - i] = -v;
        n--;
    }
}

/* The first bucket whose limit is above x; the last one if none is. */
static size_t bucket_of(const struct buckets *b, double x)
{
    size_t low = 0, high = b->n - 1;

    while (low < high) {
        const size_t middle = (low + high) / 2;

        if (b->limit[middle] > x)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Of empty buckets that follow one another, only the limit of the last is written. */
static void put_buckets(struct wbuf *to, const struct buckets *b)
{
    size_t begun;

    for (int field = HISTO_BUCKET_LIMIT; field <= HISTO_BUCKET; field++) {
        begun = pw_begin(to, (uint32_t)field);
        for (size_t i = 0; i < b->n; i++)
            if (b->count[i] > 0 || i + 1 == b->n || b->count[i + 1] > 0)
                wbuf_u64(to,
                         bits_of_f64(field == HISTO_BUCKET ? b->count[i] : b->limit[i]));
        pw_end(to, begun);
    }
}

int histogram_put(struct wbuf *b, const float *x, size_t n)
{
    double min = INFINITY, max = -INFINITY, sum = 0, squares = 0;
    struct buckets *buckets = xcalloc(1, sizeof(*buckets));
    size_t num = 0;

    set_limits(buckets);
    for (size_t i = 0; i < n; i++) {
        const double v = (double)x[i];

        if (!isfinite(v))
            continue;
        num++;
        min = v < min ? v : min;
        max = v > max ? v : max;
        sum += v;
        squares += v * v;
        buckets->count[bucket_of(buckets, v)]++;
    }
    if (num > 0) {
        pw_put_fixed64(b, HISTO_MIN, bits_of_f64(min));
        pw_put_fixed64(b, HISTO_MAX, bits_of_f64(max));
        pw_put_fixed64(b, HISTO_NUM, bits_of_f64((double)num));
        pw_put_fixed64(b, HISTO_SUM, bits_of_f64(sum));
        pw_put_fixed64(b, HISTO_SUM_SQUARES, bits_of_f64(squares));
        put_buckets(b, buckets);
    }
    free(buckets);
    return num > 0;
}
