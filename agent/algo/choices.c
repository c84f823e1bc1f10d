#include "agent/algo/choices.h"

static void one_hot(float *x, int32_t n, int32_t at)
{
    for (int32_t i = 0; i < n; i++)
        x[i] = i == at ? 1.0f : 0.0f;
}

void choices_harden(const struct space *space, float *x, size_t rows)
{
    for (size_t e = 0; e < rows; e++) {
        for (int h = 0; h < space->n_heads; h++) {
            one_hot(x, space->heads[h], choice_best(x, space->heads[h]));
            x += space->heads[h];
        }
    }
}

int32_t choices_count(const struct space *space, int32_t max)
{
    int32_t n = space->n_heads > 0 ? 1 : 0;

    for (int h = 0; h < space->n_heads; h++) {
        if (space->heads[h] > max / n)
            return 0;
        n *= space->heads[h];
    }
    return n;
}

void choice_to_action(const struct space *space, int32_t choice, float *action)
{
    for (int h = 0; h < space->n_heads; h++) {
        one_hot(action, space->heads[h], choice % space->heads[h]);
        choice /= space->heads[h];
        action += space->heads[h];
    }
}

int32_t choice_of_action(const struct space *space, const float *action)
{
    int32_t ret = 0, step = 1;

    for (int h = 0; h < space->n_heads; h++) {
        ret += step * choice_best(action, space->heads[h]);
        step *= space->heads[h];
        action += space->heads[h];
    }
    return ret;
}
