#include "agent/algo/gae.h"

/* Whether the sums of step t go on to step t + 1. */
static int goes_on(const struct gae_args *a, int64_t row, int64_t t)
{
    return t + 1 < a->steps && a->cut[row] == 0 && a->terminated[row] == 0;
}

void gae_advantages(const struct gae_args *a, float lambda, float *ret_advantage,
                    float *ret_return)
{
    for (int64_t e = 0; e < a->copies; e++) {
        float later = 0;

        for (int64_t t = a->steps - 1; t >= 0; t--) {
            const int64_t row = e * a->steps + t;
            const float future = a->discount * (1.0f - a->terminated[row]);
            const float delta =
                a->reward[row] + future * a->next_value[row] - a->value[row];

            later = delta + (goes_on(a, row, t) ? a->discount * lambda * later : 0.0f);
            ret_advantage[row] = later;
            ret_return[row] = later + a->value[row];
        }
    }
}

static float n_step_return(const struct gae_args *a, int64_t row, int64_t t, int64_t n)
{
    float sum = 0, weight = 1;

    for (int64_t k = 0;; k++, row++, t++) {
        sum += weight * a->reward[row];
        weight *= a->discount;
        if (k + 1 == n || !goes_on(a, row, t))
            return sum + weight * (1.0f - a->terminated[row]) * a->next_value[row];
    }
}

void gae_n_step(const struct gae_args *a, int64_t n, float *ret_advantage,
                float *ret_return)
{
    for (int64_t e = 0; e < a->copies; e++)
        for (int64_t t = 0; t < a->steps; t++) {
            const int64_t row = e * a->steps + t;

            ret_return[row] = n_step_return(a, row, t, n);
            ret_advantage[row] = ret_return[row] - a->value[row];
        }
}
