/* The window of rows of on_policy.h: advantages and returns (A), and their normalisation (B). */
#include "agent/algo/on_policy.h"
#include "agent/algo/rows.h"
#include "common/mem/xmalloc.h"

#include <math.h>
#include <string.h>

struct on_policy_kept on_policy_open_kept(struct on_policy *p, struct batch *b)
{
    const int64_t n = b->n;
    float *base;

    if (p->kept != NULL && n > p->window_rows)
        batch_fail(b, err_set(b->err, ERR_ARG, "%lld rows in a window of %lld",
                              (long long)n, (long long)p->window_rows));
    base = p->kept != NULL ? batch_variable(b, p->kept) : batch_room(b, p->kept_room);
    if (b->rc < 0)
        return (struct on_policy_kept){NULL, NULL, NULL, NULL};
    return (struct on_policy_kept){base, base + n, base + 2 * n,
                                   recurrent_critic_carries(&p->memory, b)};
}

void on_policy_select_all(struct batch *b)
{
    batch_select(b, NULL, NULL, b->args->batch * b->args->length, 0, b->args->update);
}

int64_t on_policy_chunks(const struct batch *b, int64_t chunk)
{
    return (b->args->length + chunk - 1) / chunk;
}

void on_policy_reserve(struct on_policy *p, const struct batch *b)
{
    const int64_t of_policy = on_policy_chunks(b, p->policy.chunk) * p->policy.chunk;
    const int64_t of_critic = on_policy_chunks(b, p->memory.chunk) * p->memory.chunk;
    const int64_t rows = b->args->batch * (of_policy > of_critic ? of_policy : of_critic);

    if (rows <= p->room)
        return;
    p->order = xreallocarray(p->order, (size_t)rows, sizeof(*p->order));
    p->ends = xreallocarray(p->ends, (size_t)rows, sizeof(*p->ends));
    p->place = xreallocarray(p->place, (size_t)rows, sizeof(*p->place));
    p->rows = xreallocarray(p->rows, (size_t)rows, sizeof(*p->rows));
    p->room = rows;
    p->order_n = 0;
}

/* ---- A: advantages and returns ---- */

static void run_critic(struct on_policy *p, struct batch *b, struct output value,
                       struct matrix *state, struct matrix *chosen, float *ret)
{
    batch_feed(b, p->state, state);
    if (p->choices > 0)
        batch_feed(b, p->choice, chosen);
    batch_fetch_data(b, value, ret, 1);
    batch_run(b);
}

void on_policy_find_cuts(const struct window *w, const float *alive, int64_t stride,
                         const float *terminated)
{
    for (int64_t i = 0; i < w->n; i++)
        if ((i + 1) % w->steps == 0 || w->first[i + 1] != 0 ||
            (alive[i * stride] != 0 && alive[(i + 1) * stride] == 0 &&
             (terminated == NULL || terminated[i] == 0)))
            w->cut[i] = 1;
}

int64_t on_policy_list_cuts(struct on_policy *p, const struct batch *b, const float *cut)
{
    const int64_t n = b->args->batch * b->args->length;
    int64_t cuts = 0;

    on_policy_reserve(p, b);
    for (int64_t i = 0; i < n; i++)
        if (cut[i] != 0)
            p->ends[cuts++] = (uint32_t)i;
    return cuts;
}

/* The values of next observations of the batch's rows, which are ends, by a recurrent critic. */
static void run_steps_after(struct on_policy *p, struct batch *b,
                            const struct critic_step *net, float *ret)
{
    const float *after = batch_take(b, p->after);
    float *carry = batch_room(b, p->end_carry);
    const int64_t width = p->memory.width;

    for (int64_t k = 0; k < b->n; k++)
        memcpy(carry + k * width, after + p->ends[k] * width,
               (size_t)width * sizeof(*carry));
    batch_feed(b, p->memory.carry, p->end_carry);
    run_critic(p, b, net->value, p->next, NULL, ret);
}

/* Sets the values of next observations: the next row's value, or where the episode or the
 * window ends, the value of the row's own next observation. */
static void run_next_values(struct on_policy *p, struct batch *b, const struct window *w,
                            const float *values)
{
    const int has_target = p->kit.update_targets != NULL;
    const int64_t ends = b->rc == 0 ? on_policy_list_cuts(p, b, w->cut) : 0;
    float *end_value;

    if (b->rc < 0)
        return;
    /* The last row is a cut; its value is set below, as those of all cuts. */
    memcpy(w->next_value, values + 1, (size_t)(w->n - 1) * sizeof(*values));
    batch_select(b, p->ends, p->rows, ends, 0, b->args->update);
    end_value = batch_room(b, p->end_value);
    if (p->memory.units > 0)
        run_steps_after(p, b, has_target ? &p->target_step : &p->step, end_value);
    else
        run_critic(p, b, has_target ? p->target_value : p->value, p->next, p->next_chosen,
                   end_value);
    for (int64_t k = 0; k < b->n; k++)
        w->next_value[p->ends[k]] = end_value[k];
    on_policy_select_all(b);
}

static struct window open_window(struct on_policy *p, struct batch *b)
{
    struct window w = {.copies = b->args->batch, .steps = b->args->length, .n = b->n};

    w.reward = batch_take(b, p->kit.reward);
    w.terminated = batch_take(b, p->kit.terminated);
    w.alive = batch_take(b, p->kit.alive);
    w.first = batch_take(b, p->first);
    w.cut = batch_take(b, p->truncated);
    w.scaled_value = batch_room(b, p->scaled_value);
    w.next_value = batch_room(b, p->next_value);
    w.target_value = batch_room(b, p->target_values);
    matrix_spoil(p->truncated); /* `cut` has more */
    if (b->rc == 0)
        on_policy_find_cuts(&w, w.alive, 1, w.terminated);
    return w;
}

/* V of both critics, if they are recurrent. */
static void unroll(struct on_policy *p, struct batch *b, const struct window *w,
                   const struct on_policy_kept *kept)
{
    const int has_target = p->kit.update_targets != NULL;
    float *after = batch_room(b, p->after);

    on_policy_reserve(p, b);
    recurrent_critic_unroll(&p->memory, b, &p->step, p->state, p->now, w->first, p->place,
                            p->rows,
                            (struct unrolled){.value = kept->value,
                                              .carry = kept->carries,
                                              .after = has_target ? NULL : after});
    if (has_target)
        recurrent_critic_unroll(
            &p->memory, b, &p->target_step, p->state, p->now, w->first, p->place, p->rows,
            (struct unrolled){.value = w->target_value, .after = after});
    recurrent_critic_end(&p->memory, b);
    on_policy_select_all(b);
}

/* V of both critics. */
static void find_values(struct on_policy *p, struct batch *b, const struct window *w,
                        const struct on_policy_kept *kept)
{
    if (p->memory.units > 0) {
        unroll(p, b, w, kept);
        return;
    }
    run_critic(p, b, p->value, p->now, NULL, kept->value);
    if (p->kit.update_targets != NULL)
        run_critic(p, b, p->target_value, p->now, NULL, w->target_value);
}

struct target_rows on_policy_target_rows(const struct on_policy *p,
                                         const struct window *w)
{
    return (struct target_rows){.batch = w->copies,
                                .length = w->steps,
                                .reward = w->reward,
                                .terminated = w->terminated,
                                .truncated = w->cut,
                                .value = w->next_value,
                                .discount = p->kit.discount->value};
}

static void find_returns(struct on_policy *p, struct batch *b, const struct window *w,
                         const struct on_policy_kept *kept,
                         const struct value_scale *scale)
{
    const int64_t n_step = p->kit.settings->n_step;
    const struct target_rows rows = on_policy_target_rows(p, w);

    if (n_step == 0) {
        targets_advantages(&rows, w->scaled_value, p->lambda->value, kept->advantage,
                           kept->returns);
        return;
    }
    targets_n_step(&rows, n_step, kept->returns);
    for (int64_t i = 0; i < w->n; i++)
        kept->advantage[i] = kept->returns[i] - w->scaled_value[i];
}

static void add_up(const struct window *w, const struct on_policy_kept *kept,
                   double sums[ON_POLICY_SUMS])
{
    memset(sums, 0, ON_POLICY_SUMS * sizeof(*sums));
    for (int64_t i = 0; i < w->n; i++) {
        const double alive = (double)w->alive[i];
        const double advantage = (double)kept->advantage[i];
        const double returned = (double)kept->returns[i];

        sums[SUM_ROWS] += alive;
        sums[SUM_ADVANTAGE] += alive * advantage;
        sums[SUM_ADVANTAGE_SQUARES] += alive * advantage * advantage;
        sums[SUM_RETURN] += alive * returned;
        sums[SUM_RETURN_SQUARES] += alive * returned * returned;
    }
}

/* 1 - Var(G - V) / Var(G) over the rows in which the agent is alive, G the returns and V the
 * critic's values, in the rewards' scale. */
static double explained_variance(const struct window *w, const float *returns)
{
    double rows = 0, mean = 0, mean_error = 0, variance = 0, error_variance = 0;

    for (int64_t i = 0; i < w->n; i++) {
        const double alive = (double)w->alive[i], g = (double)returns[i];

        rows += alive;
        mean += alive * g;
        mean_error += alive * (g - (double)w->scaled_value[i]);
    }
    mean /= rows;
    mean_error /= rows;
    for (int64_t i = 0; i < w->n; i++) {
        const double alive = (double)w->alive[i], g = (double)returns[i];
        const double error = g - (double)w->scaled_value[i] - mean_error;

        variance += alive * (g - mean) * (g - mean);
        error_variance += alive * error * error;
    }
    return variance > 0 ? 1 - error_variance / variance : (double)NAN;
}

void on_policy_estimate(struct on_policy *p, struct batch *b,
                        const struct on_policy_kept *kept)
{
    const struct window w = open_window(p, b);
    struct value_scale scale;
    int rc;

    (p->find_values != NULL ? p->find_values : find_values)(p, b, &w, kept);
    run_next_values(p, b, &w,
                    p->kit.update_targets != NULL ? w.target_value : kept->value);
    batch_scale(b, p->kit.scale, w.reward);
    rc = b->rc == 0 ? value_norm_scale(&p->norm, b->session, &scale, b->err) : b->rc;
    if (rc < 0) {
        batch_fail(b, rc);
        return;
    }
    matrix_spoil(p->kit.reward);
    for (int64_t i = 0; i < w.n; i++) {
        w.scaled_value[i] = value_scaled_back(&scale, kept->value[i]);
        w.next_value[i] = value_scaled_back(&scale, w.next_value[i]);
    }
    (p->find_returns != NULL ? p->find_returns : find_returns)(p, b, &w, kept, &scale);
    add_up(&w, kept, p->sums);
    p->explained_variance = explained_variance(&w, kept->returns);
    stage_shown(b->ret, "explained_variance", p->explained_variance);
}

/* ---- B: normalisation ---- */

static int normalize(struct on_policy *p, struct batch *b,
                     const struct on_policy_kept *kept, const double sums[ON_POLICY_SUMS])
{
    const struct algorithm_settings *set = p->kit.settings;
    const int64_t n = b->n;
    struct value_scale was, scale;
    int rc = value_norm_scale(&p->norm, b->session, &was, b->err);

    if (rc == 0 && sums[SUM_ROWS] > 0)
        rc = value_norm_update(&p->norm, b->session, sums[SUM_RETURN] / sums[SUM_ROWS],
                               sums[SUM_RETURN_SQUARES] / sums[SUM_ROWS], p->kit.repeats,
                               b->err);
    if (rc == 0 && sums[SUM_ROWS] > 0 && set->advantage_norm) {
        const double mean = sums[SUM_ADVANTAGE] / sums[SUM_ROWS];
        const double variance =
            sums[SUM_ADVANTAGE_SQUARES] / sums[SUM_ROWS] - mean * mean;
        const double deviation = sqrt(fmax(variance, 0)) + 1e-5;

        for (int64_t i = 0; i < n; i++)
            kept->advantage[i] = (float)(((double)kept->advantage[i] - mean) / deviation);
    }
    if (rc == 0)
        rc = value_norm_scale(&p->norm, b->session, &scale, b->err);
    for (int64_t i = 0; rc == 0 && i < n; i++)
        kept->returns[i] = value_normalized(&scale, kept->returns[i]);
    for (int64_t i = 0; rc == 0 && i < n && p->norm.kind == VALUE_NORM_POPART; i++)
        kept->value[i] = value_rescaled(&was, &scale, kept->value[i]);
    return rc;
}

/* A window in which nobody was alive changes no statistics, and its advantages stay as
 * they are. */
void on_policy_normalize_by(struct on_policy *p, struct batch *b,
                            const struct on_policy_kept *kept,
                            const double sums[ON_POLICY_SUMS])
{
    const int rc = b->rc == 0 ? normalize(p, b, kept, sums) : b->rc;

    if (rc < 0)
        batch_fail(b, rc);
}
