#include "agent/algo/maddpg.h"
#include "common/rng/rng.h"

#include <math.h>

int matd3_moves_policy(const struct algo *a, uint64_t update)
{
    return (update + 1) % (uint64_t)a->config->settings.policy_delay == 0;
}

void matd3_smooth(struct algo *a, const struct stage_args *args, int64_t n)
{
    const struct space *space = maddpg_self(a);
    const size_t elements = (size_t)(n * space->width);
    const float low = (float)space->low, high = (float)space->high;
    const float half = (high - low) / 2;
    const float deviation = a->live[LIVE_TARGET_NOISE].value;
    const float clip = a->live[LIVE_TARGET_NOISE_CLIP].value;
    const float *noise = a->batch.noise;
    float *x = a->batch.proposal;

    rng_normal_f32(rng_key_derive(args->key, "smoothing"), args->counter, 0,
                   a->batch.noise, elements);
    for (size_t i = 0; i < elements; i++) {
        const float e = fminf(fmaxf(deviation * noise[i], -clip), clip);

        x[i] = fminf(fmaxf(x[i] + half * e, low), high);
    }
}

float matd3_normalize(float *weight, int64_t n)
{
    double sum = 0;
    float scale;

    for (int64_t i = 0; i < n; i++)
        sum += (double)weight[i];
    scale = (float)((double)n / fmax(sum, 1));
    for (int64_t i = 0; i < n; i++)
        weight[i] *= scale;
    return sum > 0 ? (float)fmax(sum, 1) : 0;
}
