#include "agent/algo/choices.h"

#include <string.h>

static void one_hot(float *x, int32_t n, int32_t at)
{
    for (int32_t i = 0; i < n; i++)
        x[i] = i == at ? 1.0f : 0.0f;
}

static int any_of(const uint8_t *allowed, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (allowed[i])
            return 1;
    return 0;
}

int32_t choice_best_of(const float *x, const uint8_t *allowed, int32_t n)
{
    int32_t best = -1;

    if (allowed == NULL || !any_of(allowed, n))
        return choice_best(x, n);
    for (int32_t i = 0; i < n; i++)
        if (allowed[i] && (best < 0 || x[i] > x[best]))
            best = i;
    return best;
}

void choices_harden(const struct space *space, float *x, const uint8_t *allowed,
                    size_t rows)
{
    const int64_t others = space->width - choices_width(space);

    if (allowed == NULL) {
        for (size_t e = 0; e < rows; e++, x += others)
            for (int h = 0; h < space->n_heads; h++) {
                one_hot(x, space->heads[h], choice_best(x, space->heads[h]));
                x += space->heads[h];
            }
        return;
    }
    for (size_t e = 0; e < rows; e++, x += others, allowed += others) {
        for (int h = 0; h < space->n_heads; h++) {
            one_hot(x, space->heads[h], choice_best_of(x, allowed, space->heads[h]));
            x += space->heads[h];
            allowed += space->heads[h];
        }
    }
}

void choices_open(const struct space *space, const uint8_t *allowed, size_t rows,
                  float *ret)
{
    const int32_t others = (int32_t)(space->width - choices_width(space));

    for (size_t e = 0; e < rows; e++) {
        for (int h = 0; h <= space->n_heads; h++) {
            const int is_head = h < space->n_heads;
            const int32_t n = is_head ? space->heads[h] : others;
            const int all = !is_head || allowed == NULL || !any_of(allowed, n);

            for (int32_t k = 0; k < n; k++)
                ret[k] = all || allowed[k] ? 1.0f : 0.0f;
            allowed += allowed != NULL ? n : 0;
            ret += n;
        }
    }
}

static int is_allowed(const struct space *space, const uint8_t *allowed, int32_t choice)
{
    for (int h = 0; h < space->n_heads; h++) {
        if (any_of(allowed, space->heads[h]) && !allowed[choice % space->heads[h]])
            return 0;
        choice /= space->heads[h];
        allowed += space->heads[h];
    }
    return 1;
}

int32_t choices_allowed(const struct space *space, const uint8_t *allowed, int32_t n,
                        uint8_t *ret)
{
    int32_t found = 0;

    for (int32_t i = 0; i < n; i++) {
        ret[i] = allowed == NULL || is_allowed(space, allowed, i);
        found += ret[i];
    }
    return found;
}

int64_t choices_width(const struct space *space)
{
    int64_t in_heads = 0;

    for (int h = 0; h < space->n_heads; h++)
        in_heads += space->heads[h];
    return in_heads;
}

int choices_only(const struct space *space)
{
    return choices_width(space) == space->width;
}

int choices_beside_numbers(const struct space *space)
{
    return space->n_heads > 0 && !choices_only(space);
}

int64_t first_number(const struct space *space)
{
    return space->box && !choices_beside_numbers(space) ? 0 : choices_width(space);
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

double choice_probability(const struct space *space, const float *p, int32_t choice)
{
    double product = 1;

    for (int h = 0; h < space->n_heads; h++) {
        product *= (double)p[choice % space->heads[h]];
        choice /= space->heads[h];
        p += space->heads[h];
    }
    return product;
}

void choices_one_hot(const struct space *space, const float *actions, int64_t n,
                     int64_t n_choices, float *ret)
{
    memset(ret, 0, (size_t)(n * n_choices) * sizeof(*ret));
    for (int64_t i = 0; i < n; i++)
        ret[i * n_choices + choice_of_action(space, actions + i * space->width)] = 1;
}

int32_t choice_draw(const float *p, float draw, int32_t n)
{
    float below = 0;
    int32_t choice = 0;

    for (int32_t i = 0; i < n && draw >= below; i++) {
        if (p[i] > 0)
            choice = i;
        below += p[i];
    }
    return choice;
}

int32_t choice_epsilon_greedy(const struct space *space, const float *q,
                              const uint8_t *allowed, int32_t n, const float *draw,
                              float epsilon, uint8_t *room)
{
    int32_t n_allowed = n, best, any;

    if (allowed != NULL)
        n_allowed = choices_allowed(space, allowed, n, room);
    best = choice_best_of(q, allowed != NULL ? room : NULL, n);
    if (draw == NULL || *draw >= epsilon)
        return best;
    any = (int32_t)(*draw / epsilon * (float)n_allowed);
    any = any < n_allowed ? any : n_allowed - 1;
    if (n_allowed == n)
        return any;
    for (int32_t choice = 0;; choice++)
        if (room[choice] && any-- == 0)
            return choice;
}
