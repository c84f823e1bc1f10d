#include "agent/algo/targets.h"

#include <stddef.h>

static int is_there(const struct target_rows *r, int64_t i)
{
    return r->mask == NULL || r->mask[i] > 0;
}

/* Whether the sequence that begins at `first` goes on after row i. */
static int goes_on(const struct target_rows *r, int64_t first, int64_t i)
{
    return i + 1 < first + r->length && is_there(r, i + 1) &&
           (r->truncated == NULL || r->truncated[i] == 0);
}

/* The number of rows of the sequence that begins at `first`. Sets the targets after them
 * to 0. */
static int64_t count_rows(const struct target_rows *r, int64_t first, float *y)
{
    int64_t n = 0;

    while (n < r->length && is_there(r, first + n))
        n++;
    for (int64_t t = n; t < r->length; t++)
        y[first + t] = 0;
    return n;
}

void targets_n_step(const struct target_rows *r, int64_t n, float *y)
{
    for (int64_t b = 0; b < r->batch; b++) {
        const int64_t first = b * r->length, length = count_rows(r, first, y);

        for (int64_t t = first; t < first + length; t++) {
            float sum = r->reward[t], discount = r->discount;
            int64_t last = t;

            while (last + 1 < t + n && r->terminated[last] == 0 &&
                   goes_on(r, first, last)) {
                sum += discount * r->reward[++last];
                discount *= r->discount;
            }
            y[t] = sum + discount * (1 - r->terminated[last]) * r->value[last];
        }
    }
}

void targets_lambda(const struct target_rows *r, float lambda, float *y)
{
    for (int64_t b = 0; b < r->batch; b++) {
        const int64_t first = b * r->length, length = count_rows(r, first, y);

        for (int64_t t = first + length - 1; t >= first; t--) {
            float next = r->value[t];

            if (goes_on(r, first, t))
                next = (1 - lambda) * next + lambda * y[t + 1];
            y[t] = r->reward[t] + r->discount * (1 - r->terminated[t]) * next;
        }
    }
}
