#include "agent/algo/targets.h"

#include <stddef.h>

/* Step t of sequence b in the arrays. */
static int64_t row_of(const struct target_rows *r, int64_t b, int64_t t)
{
    return r->in_time ? t * r->batch + b : b * r->length + t;
}

static int is_there(const struct target_rows *r, int64_t i)
{
    return r->mask == NULL || r->mask[i] > 0;
}

/* Whether sequence b goes on after its step t. */
static int goes_on(const struct target_rows *r, int64_t b, int64_t t)
{
    return t + 1 < r->length && is_there(r, row_of(r, b, t + 1)) &&
           (r->truncated == NULL || r->truncated[row_of(r, b, t)] == 0);
}

/* The number of rows of sequence b. Sets the targets after them to 0. */
static int64_t count_rows(const struct target_rows *r, int64_t b, float *y)
{
    int64_t n = 0;

    while (n < r->length && is_there(r, row_of(r, b, n)))
        n++;
    for (int64_t t = n; t < r->length; t++)
        y[row_of(r, b, t)] = 0;
    return n;
}

void targets_n_step(const struct target_rows *r, int64_t n, float *y)
{
    for (int64_t b = 0; b < r->batch; b++) {
        const int64_t length = count_rows(r, b, y);

        for (int64_t t = 0; t < length; t++) {
            int64_t last = t, i = row_of(r, b, t);
            float sum = r->reward[i], discount = r->discount;

            while (last + 1 < t + n && r->terminated[i] == 0 && goes_on(r, b, last)) {
                i = row_of(r, b, ++last);
                sum += discount * r->reward[i];
                discount *= r->discount;
            }
            y[row_of(r, b, t)] = sum + discount * (1 - r->terminated[i]) * r->value[i];
        }
    }
}

void targets_lambda(const struct target_rows *r, float lambda, float *y)
{
    for (int64_t b = 0; b < r->batch; b++) {
        const int64_t length = count_rows(r, b, y);

        for (int64_t t = length - 1; t >= 0; t--) {
            const int64_t i = row_of(r, b, t);
            float next = r->value[i];

            if (goes_on(r, b, t))
                next = (1 - lambda) * next + lambda * y[row_of(r, b, t + 1)];
            y[i] = r->reward[i] + r->discount * (1 - r->terminated[i]) * next;
        }
    }
}

void targets_advantages(const struct target_rows *r, const float *state_value,
                        float lambda, float *ret_advantage, float *ret_return)
{
    for (int64_t b = 0; b < r->batch; b++) {
        const int64_t length = count_rows(r, b, ret_advantage);
        float later = 0;

        (void)count_rows(r, b, ret_return);
        for (int64_t t = length - 1; t >= 0; t--) {
            const int64_t i = row_of(r, b, t);
            const float future = r->discount * (1 - r->terminated[i]);
            const float delta = r->reward[i] + future * r->value[i] - state_value[i];

            later = delta + (r->terminated[i] == 0 && goes_on(r, b, t)
                                 ? r->discount * lambda * later
                                 : 0.0f);
            ret_advantage[i] = later;
            ret_return[i] = later + state_value[i];
        }
    }
}

void targets_find(const struct target_rows *rows, float lambda, int64_t n, float *y)
{
    if (lambda > 0)
        targets_lambda(rows, lambda, y);
    else
        targets_n_step(rows, n > 0 ? n : 1, y);
}
