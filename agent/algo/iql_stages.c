#include "agent/algo/iql.h"

#include "agent/algo/choices.h"
#include "agent/algo/reads.h"
#include "agent/algo/rows.h"
#include "agent/algo/share.h"

#include <stdlib.h>
#include <string.h>

/* ---- live settings ---- */

static struct feed feed_live(struct algo *a, enum iql_live key)
{
    return (struct feed){a->live[key].constant, tensor_scalar_f32(&a->live_value[key])};
}

/* ---- rows of the log ---- */

static size_t lay_out(struct algo *a, float *base, size_t n)
{
    const size_t choices = (size_t)a->n_choices;
    struct batch *b = &a->batch;
    size_t used = 0;

    b->obs = rows_take(base, &used, n * (size_t)a->self->obs);
    b->action = rows_take(base, &used, n * (size_t)a->self->width);
    b->choice = rows_take(base, &used, n * choices);
    b->target_q = rows_take(base, &used, n * choices);
    b->reward = rows_take(base, &used, n);
    b->terminated = rows_take(base, &used, n);
    b->weight = rows_take(base, &used, n);
    b->next_q = rows_take(base, &used, n);
    b->target = rows_take(base, &used, n);
    if (a->self->masked)
        b->next_allowed = rows_take_bytes(base, &used, n * (size_t)a->self->width);
    return used;
}

static int reserve(struct algo *a, int64_t rows, struct err *err)
{
    struct batch *b = &a->batch;

    if (rows <= b->rows)
        return 0;
    if (rows_reserve(&b->memory, &b->rows, rows, lay_out(a, NULL, (size_t)rows), err) < 0)
        return ERR_NOMEM;
    (void)lay_out(a, b->memory, (size_t)rows);
    return 0;
}

void iql_reads(struct algo *a, struct reads *r)
{
    const struct space *self = a->self;

    reads_add(r, self->name, "obs", self->obs, &a->obs_column);
    reads_add(r, self->name, "action", self->width, &a->action_column);
    reads_add(r, self->name, "next_obs", self->obs, &a->next_obs_column);
    reads_add(r, self->name, "reward", 1, &a->reward_column);
    reads_add(r, self->name, "terminated", 1, &a->terminated_column);
    reads_add(r, self->name, "alive", 1, &a->alive_column);
    if (self->masked)
        reads_add_mask(r, self, "next_allowed", &a->next_allowed_column);
    reward_scale_reads(&a->scale, r);
}

/* The largest target Q of row i among the choices that are possible next. */
static float best_next(struct algo *a, int64_t i)
{
    const float *q = a->batch.target_q + i * a->n_choices;

    if (!a->self->masked)
        return q[choice_best(q, a->n_choices)];
    (void)choices_allowed(a->self, a->batch.next_allowed + i * a->self->width,
                          a->n_choices, a->allowed);
    return q[choice_best_of(q, a->allowed, a->n_choices)];
}

/* Sets batch.target from the rows' next observations. */
static int make_targets(struct algo *a, struct session *s, const struct stage_args *args,
                        const uint64_t *rows, int64_t n, struct stage_result *ret,
                        struct err *err)
{
    const struct store_view *store = args->store;
    struct batch *b = &a->batch;
    struct reward_scaling scale;
    int r;

    store_view_gather(store, a->next_obs_column, rows, (size_t)n, b->obs,
                      (size_t)a->self->obs);
    store_view_gather(store, a->reward_column, rows, (size_t)n, b->reward, 1);
    store_view_gather(store, a->terminated_column, rows, (size_t)n, b->terminated, 1);
    symmetry_obs(args->symmetry, a->index, (size_t)n, b->obs, (size_t)a->self->obs);
    if (a->self->masked) {
        store_view_gather_bytes(store, a->next_allowed_column, rows, (size_t)n,
                                b->next_allowed);
        symmetry_mask(args->symmetry, a->index, (size_t)n, b->next_allowed);
    }
    if ((r = reward_scale_read(&a->scale, s, args, &scale, err)) < 0 ||
        (r = iql_run_network(a, s, a->target_q, b->obs, n, b->target_q, err)) < 0)
        return r;
    reward_scale_apply(&scale, b->reward, n);
    for (int64_t i = 0; i < n; i++)
        b->next_q[i] = best_next(a, i);
    rows_targets(b->target, b->reward, b->terminated, b->next_q,
                 a->live_value[IQL_DISCOUNT], n, ret);
    return 0;
}

static void gather(struct algo *a, const struct stage_args *args, const uint64_t *rows,
                   const float *weights, int64_t n)
{
    const struct store_view *store = args->store;
    struct batch *b = &a->batch;

    store_view_gather(store, a->obs_column, rows, (size_t)n, b->obs,
                      (size_t)a->self->obs);
    store_view_gather(store, a->action_column, rows, (size_t)n, b->action,
                      (size_t)a->self->width);
    symmetry_obs(args->symmetry, a->index, (size_t)n, b->obs, (size_t)a->self->obs);
    symmetry_action(args->symmetry, a->index, (size_t)n, b->action,
                    (size_t)a->self->width);
    store_view_gather(store, a->alive_column, rows, (size_t)n, b->weight, 1);
    rows_weights(b->weight, weights, b->weight, n);
    memset(b->choice, 0, (size_t)(n * a->n_choices) * sizeof(float));
    for (int64_t i = 0; i < n; i++)
        b->choice[i * a->n_choices +
                  choice_of_action(a->self, b->action + i * a->self->width)] = 1;
}

/* Makes one optimiser step, or in a sharing group writes the gradients. */
static int run_train(struct algo *a, struct session *s, const struct stage_args *args,
                     int64_t n, struct stage_result *ret, struct err *err)
{
    struct batch *b = &a->batch;
    const int steps = a->share == NULL;
    const struct feed feeds[] = {
        {a->obs, tensor_view(DT_FLOAT, SHAPE(n, a->self->obs), b->obs)},
        {a->choice, tensor_view(DT_FLOAT, SHAPE(n, a->n_choices), b->choice)},
        {a->target, tensor_view(DT_FLOAT, SHAPE(n, 1), b->target)},
        {a->weight, tensor_view(DT_FLOAT, SHAPE(n, 1), b->weight)},
        feed_live(a, IQL_HYSTERESIS),
        feed_live(a, IQL_CLIP_NORM),
        feed_live(a, IQL_RATE),
    };
    static const char *const names[] = {"critic_loss", "q_mean", "critic_grad_norm"};
    struct output fetches[4] = {a->loss, a->q_mean, a->norm};
    const size_t n_scalars = steps ? 3 : 2;
    const int has_weights = args->weights != NULL;
    const struct run_args run = {.feeds = feeds,
                                 .n_feeds = steps ? 7 : 5,
                                 .fetches = fetches,
                                 .n_fetches = n_scalars + (size_t)has_weights,
                                 .targets = &a->train,
                                 .n_targets = steps ? 1 : 0,
                                 .key = args->key,
                                 .counter = args->counter};
    float scalar[3];
    struct tensor values[4];
    int r;

    for (size_t i = 0; i < n_scalars; i++)
        values[i] = tensor_scalar_f32(&scalar[i]);
    fetches[n_scalars] = has_weights ? a->td : fetches[n_scalars];
    values[n_scalars] = tensor_view(DT_FLOAT, SHAPE(n, 1), b->next_q);
    r = steps ? session_run(s, &run, values, err)
              : share_gradients(a->share, SHARE_ALL, s, &run, values, args, 1, err);
    for (size_t i = 0; r == 0 && i < n_scalars; i++)
        stage_scalar(ret, names[i], (double)scalar[i]);
    if (r == 0 && has_weights)
        rows_priorities(b->next_q, b->weight, n, ret);
    return r;
}

/* ps: makes one optimiser step with the group's mean gradient. */
static int apply(struct algo *a, struct session *s, const struct stage_args *args,
                 struct stage_result *ret, struct err *err)
{
    float norm = 0;
    struct tensor value = tensor_scalar_f32(&norm);
    struct feed feeds[2];
    const struct run_args run = {
        .feeds = feeds, .n_feeds = 2, .fetches = &a->norm, .n_fetches = 1};
    int r = lives_read(a->live, IQL_LIVES, s, args->step, a->live_value, err);

    if (r < 0)
        return r;
    feeds[0] = feed_live(a, IQL_CLIP_NORM);
    feeds[1] = feed_live(a, IQL_RATE);
    r = share_apply(a->share, SHARE_ALL, s, &run, &value, args, err);
    if (r == 0)
        stage_scalar(ret, "critic_grad_norm", (double)norm);
    return r;
}

static int run_target_update(struct algo *a, struct session *s, struct err *err)
{
    const struct feed feed = feed_live(a, IQL_POLYAK);
    const struct run_args run = {
        .feeds = &feed, .n_feeds = 1, .targets = &a->update_target, .n_targets = 1};

    return session_run(s, &run, NULL, err);
}

static int assign(struct algo *a, struct session *s, const struct stage_args *args,
                  struct err *err)
{
    struct reward_scaling scale; /* not used: this read stores the statistics */
    int r;

    if ((r = lives_read(a->live, IQL_LIVES, s, args->step, a->live_value, err)) < 0 ||
        (r = share_assign(a->share, SHARE_ALL, s, args, err)) < 0 ||
        (r = reward_scale_read(&a->scale, s, args, &scale, err)) < 0)
        return r;
    return run_target_update(a, s, err);
}

static int learn(struct algo *a, struct session *s, const struct stage_args *args,
                 struct stage_result *ret, struct err *err)
{
    const int64_t n = args->batch, first = rows_group(args, a->index) * n;
    const float *weights = args->weights != NULL ? args->weights + first : NULL;
    int r;

    if ((r = rows_check(args, a->n_agents, err)) < 0 || (r = reserve(a, n, err)) < 0 ||
        (r = lives_read(a->live, IQL_LIVES, s, args->step, a->live_value, err)) < 0 ||
        (r = symmetry_draw(args->symmetry, args->update, (uint64_t)first, (size_t)n,
                           err)) < 0 ||
        (r = make_targets(a, s, args, args->rows + first, n, ret, err)) < 0)
        return r;
    gather(a, args, args->rows + first, weights, n);
    return run_train(a, s, args, n, ret, err);
}

int iql_stage(struct algo *a, struct session *s, const struct stage_args *args,
              struct stage_result *ret, struct err *err)
{
    int r;

    if (strcmp(args->stage->name, "apply") == 0)
        return apply(a, s, args, ret, err);
    if (strcmp(args->stage->name, "assign") == 0)
        return assign(a, s, args, err);
    r = learn(a, s, args, ret, err);
    return r < 0 || a->share != NULL ? r : run_target_update(a, s, err);
}
