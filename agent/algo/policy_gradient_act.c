/* Acting: draws from the policy, and the logarithms of their probabilities. */
#include "agent/algo/policy_gradient.h"

#include "agent/algo/choices.h"
#include "agent/algo/rows.h"
#include "common/numerics/elementary.h"
#include "common/rng/rng.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HALF_LOG_2PI 0.91893853320467274178

struct places {     /* in act_memory, for n copies */
    float *input;   /* (n, I), with ids only */
    float *draw;    /* (n, U) */
    float *allowed; /* (n, U) */
};

static int reserve(struct algo *a, int64_t n, struct places *ret, struct err *err)
{
    const int64_t width = pg_self(a)->width;

    if (rows_reserve(&a->act_memory, &a->act_rows, n,
                     (size_t)(n * (a->input_width + 2 * width)), err) < 0)
        return ERR_NOMEM;
    ret->input = a->act_memory;
    ret->draw = ret->input + n * a->input_width;
    ret->allowed = ret->draw + n * width;
    return 0;
}

/* ret (n, U): scores of choices, or means. */
static int run_policy(struct algo *a, struct session *s, const struct act_args *args,
                      const struct places *at, float *ret, struct err *err)
{
    const int64_t n = (int64_t)args->n_copies, width = pg_self(a)->width;
    struct tensor scores = tensor_view(DT_FLOAT, SHAPE(n, width), ret);

    feeds_begin(&a->feeds);
    feeds_add(&a->feeds, a->input,
              agent_id_behind(&a->id, args, pg_self(a)->obs, at->input), n,
              a->input_width);
    if (a->masked) {
        choices_open(pg_self(a), args->allowed, (size_t)n, at->allowed);
        feeds_add(&a->feeds, a->allowed, at->allowed, n, width);
    }
    return feeds_fetch(&a->feeds, s, &a->scores, &scores, 1, err);
}

/* ---- choices ---- */

/* The largest of log-probability + Gumbel noise is a draw from the distribution (Maddison
 * et al. 2014); without noise it is the most likely choice. */
void pg_add_noise(const float *restrict scores, float *restrict draw, size_t n)
{
    for (size_t i = 0; i < n; i++) /* vectorised, which fmaxf would prevent */
        draw[i] = scores[i] - log_f32(-log_f32(draw[i] > FLT_MIN ? draw[i] : FLT_MIN));
}

/* Replaces the scores of a copy by its action. Returns the action's log-probability. */
static float choose(const struct space *space, const float *noisy, const uint8_t *allowed,
                    float *scores)
{
    float log_prob = 0;
    int64_t at = 0;

    for (int h = 0; h < space->n_heads; h++) {
        const int32_t n = space->heads[h];
        const int32_t best =
            choice_best_of(noisy + at, allowed != NULL ? allowed + at : NULL, n);

        log_prob += scores[at + best];
        memset(scores + at, 0, (size_t)n * sizeof(float));
        scores[at + best] = 1;
        at += n;
    }
    return log_prob;
}

void pg_choose(const struct algo *a, const float *noisy, const uint8_t *allowed,
               float *scores, size_t n, float *ret_log_prob)
{
    const size_t width = (size_t)pg_self(a)->width;

    for (size_t e = 0; e < n; e++) {
        const float log_prob =
            choose(pg_self(a), noisy + e * width,
                   allowed != NULL ? allowed + e * width : NULL, scores + e * width);

        if (ret_log_prob != NULL)
            ret_log_prob[e] = log_prob;
    }
}

/* Columns that are NULL are not written. */
static void choose_all(const struct algo *a, const struct act_args *args, float *draw,
                       struct act_result *ret)
{
    const size_t n = args->n_copies, width = (size_t)pg_self(a)->width;

    if (args->mode == ACT_GREEDY) {
        memcpy(draw, ret->actions, n * width * sizeof(float));
    } else {
        rng_uniform_rows_f32(args->key, args->counter, args->draw_first, draw, n, width);
        pg_add_noise(ret->actions, draw, n * width);
    }
    pg_choose(a, draw, args->allowed, ret->actions, n, ret->columns[0]);
}

/* ---- continuous actions ---- */

/* Turns the means into actions. */
static int draw_all(const struct algo *a, struct session *s, const struct act_args *args,
                    float *draw, struct act_result *ret, struct err *err)
{
    const struct space *space = pg_self(a);
    const size_t width = (size_t)space->width, n = args->n_copies;
    const float low = (float)space->low, high = (float)space->high;
    const float *log_std;
    struct tensor t;
    int rc = session_variable(s, a->log_std, &t, err);

    if (rc < 0)
        return rc;
    log_std = tensor_f32(&t);
    memset(draw, 0, n * width * sizeof(float));
    if (args->mode != ACT_GREEDY)
        rng_normal_rows_f32(args->key, args->counter, args->draw_first, draw, n, width);
    for (size_t e = 0; e < n; e++) {
        float log_prob = 0;

        for (size_t k = 0; k < width; k++) {
            const size_t i = e * width + k;
            const float x =
                ret->actions[i] + (float)exp_f64((double)log_std[k]) * draw[i];

            log_prob -= 0.5f * draw[i] * draw[i] + log_std[k] + (float)HALF_LOG_2PI;
            if (ret->columns[1] != NULL)
                ret->columns[1][i] = x;
            ret->actions[i] = fminf(fmaxf(x, low), high);
        }
        if (ret->columns[0] != NULL)
            ret->columns[0][e] = log_prob;
    }
    return 0;
}

int pg_act(struct algo *a, struct session *s, const struct act_args *args,
           struct act_result *ret, struct err *err)
{
    struct places at = {0};
    int rc = reserve(a, (int64_t)args->n_copies, &at, err);

    if (rc == 0)
        rc = run_policy(a, s, args, &at, ret->actions, err);
    if (rc == 0 && a->gaussian)
        return draw_all(a, s, args, at.draw, ret, err);
    if (rc == 0)
        choose_all(a, args, at.draw, ret);
    return rc;
}
