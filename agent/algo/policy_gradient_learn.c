/* The stage `learn`: policy_gradient.h, A to D. */
#include "agent/algo/policy_gradient.h"

#include "agent/algo/choices.h"
#include "agent/algo/gae.h"
#include "agent/algo/rows.h"
#include "common/mem/xmalloc.h"
#include "common/rng/rng.h"

#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

static size_t lay_out(const struct algo *a, struct pg_window *w, float *base, size_t n)
{
    float **const rows[] = {
        &w->reward,        &w->terminated,  &w->cut,
        &w->alive,         &w->first,       &w->value,
        &w->target_value,  &w->next_value,  &w->advantage,
        &w->returns,       &w->log_prob,    &w->batch_advantage,
        &w->batch_returns, &w->batch_value, &w->batch_log_prob,
        &w->weight,
    };
    const size_t width = (size_t)pg_self(a)->width;
    size_t used = 0;

    w->input = rows_take(base, &used, n * (size_t)a->input_width);
    w->state = rows_take(base, &used, n * (size_t)a->state_width);
    w->action = rows_take(base, &used, n * width);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        *rows[i] = rows_take(base, &used, n);
    w->order = (uint32_t *)rows_take_bytes(base, &used, n * sizeof(*w->order));
    w->batch_row = (uint64_t *)rows_take_bytes(base, &used, n * sizeof(*w->batch_row));
    if (a->masked) {
        w->allowed = rows_take(base, &used, n * width);
        w->mask = rows_take_bytes(base, &used, n * width);
    }
    return used;
}

static int reserve(struct algo *a, int64_t n, struct err *err)
{
    struct pg_window *w = &a->window;

    if (n <= w->rows)
        return 0;
    free(w->memory);
    w->rows = 0;
    w->memory = mem_aligned(lay_out(a, w, NULL, (size_t)n) * sizeof(float));
    if (w->memory == NULL)
        return err_set(err, ERR_NOMEM, "no memory for a window of %lld rows",
                       (long long)n);
    (void)lay_out(a, w, w->memory, (size_t)n);
    w->rows = n;
    return 0;
}

/* ---- the log ---- */

/* The j-th agent that the critic sees: itself first, then the others. */
static const struct space *seen(const struct algo *a, size_t j)
{
    return &a->agents[j == 0 ? a->self : j <= a->self ? j - 1 : j];
}

static int joint_column(const struct store_layout *l, const char *name, int *ret,
                        struct err *err)
{
    *ret = store_layout_find(l, NULL, name);
    return *ret >= 0
               ? 0
               : err_set(err, ERR_NOT_FOUND, "the experience log has no column %s", name);
}

static int find_columns(struct algo *a, const struct store_view *store, struct err *err)
{
    const struct store_layout *l = store_view_layout(store);
    const struct space *self = pg_self(a);
    struct pg_columns *c = &a->columns;
    const struct {
        const char *name;
        int64_t elements;
        int *place;
    } own[] = {
        {a->gaussian ? "sample" : "action", self->width, &c->action},
        {"reward", 1, &c->reward},
        {"terminated", 1, &c->terminated},
        {"alive", 1, &c->alive},
        {"log_prob", 1, &c->log_prob},
    };
    int rc = 0;

    if (c->of == store)
        return 0;
    for (size_t i = 0; rc == 0 && i < sizeof(own) / sizeof(own[0]); i++)
        rc = rows_column(l, self->name, own[i].name, own[i].elements, own[i].place, err);
    for (size_t j = 0; rc == 0 && j < a->seen_n; j++) {
        const struct space *s = seen(a, j);

        rc = rows_column(l, s->name, "obs", s->obs, &c->obs[j], err);
        if (rc == 0)
            rc = rows_column(l, s->name, "next_obs", s->obs, &c->next_obs[j], err);
    }
    if (rc == 0)
        rc = joint_column(l, "truncated", &c->truncated, err);
    if (rc == 0)
        rc = joint_column(l, "first", &c->first, err);
    if (rc == 0 && a->masked)
        rc = rows_mask_column(l, self, "allowed", &c->allowed, err);
    if (rc == 0)
        c->of = store;
    return rc;
}

/* What the critic sees at n rows, of the columns obs or next_obs. */
static void gather_state(struct algo *a, const struct store_view *store,
                         const int *columns, const uint64_t *rows, int64_t n)
{
    store_view_gather_joined(store, columns, a->seen_n, rows, (size_t)n, a->window.state,
                             (size_t)a->state_width);
    pg_put_ids(a, a->window.state, n, a->state_width);
}

/* ---- A: advantages and returns ---- */

static int run_critic(struct algo *a, struct session *s, struct output value, int64_t n,
                      float *ret, struct err *err)
{
    struct tensor t = tensor_view(DT_FLOAT, SHAPE(n, 1), ret);
    struct run_args run = {.fetches = &value, .n_fetches = 1};

    feeds_begin(&a->feeds);
    feeds_add(&a->feeds, a->state, a->window.state, n, a->state_width);
    run.feeds = a->feeds.list;
    run.n_feeds = a->feeds.n;
    return session_run(s, &run, &t, err);
}

/* cut[i]: the row after row i is of another episode, or there is none. */
static void find_cuts(struct pg_window *w, int64_t copies, int64_t steps)
{
    for (int64_t i = 0; i < copies * steps; i++)
        if ((i + 1) % steps == 0 || w->first[i + 1] != 0)
            w->cut[i] = 1;
}

/* Values of next observations: the next row's value, but where the episode or the window
 * ends, of the row's own next observation. w->batch_row and w->weight are scratch. */
static int run_next_values(struct algo *a, struct session *s,
                           const struct stage_args *args, int64_t n, struct err *err)
{
    const struct output value = a->update_target != NULL ? a->target_value : a->value;
    struct pg_window *w = &a->window;
    const float *values = a->update_target != NULL ? w->target_value : w->value;
    int64_t ends = 0;
    int rc;

    for (int64_t i = 0; i < n; i++) {
        if (w->cut[i] != 0) {
            w->order[ends] = (uint32_t)i;
            w->batch_row[ends++] = args->rows[i];
        } else {
            w->next_value[i] = values[i + 1];
        }
    }
    gather_state(a, args->store, a->columns.next_obs, w->batch_row, ends);
    rc = run_critic(a, s, value, ends, w->weight, err);
    for (int64_t k = 0; rc == 0 && k < ends; k++)
        w->next_value[w->order[k]] = w->weight[k];
    return rc;
}

static void gather_rows(struct algo *a, const struct stage_args *args, int64_t n)
{
    const struct store_view *v = args->store;
    const struct pg_columns *c = &a->columns;
    struct pg_window *w = &a->window;

    store_view_gather(v, c->reward, args->rows, (size_t)n, w->reward, 1);
    store_view_gather(v, c->terminated, args->rows, (size_t)n, w->terminated, 1);
    store_view_gather(v, c->alive, args->rows, (size_t)n, w->alive, 1);
    store_view_gather(v, c->log_prob, args->rows, (size_t)n, w->log_prob, 1);
    store_view_gather(v, c->first, args->rows, (size_t)n, w->first, 1);
    store_view_gather(v, c->truncated, args->rows, (size_t)n, w->cut, 1);
}

static int run_values(struct algo *a, struct session *s, const struct stage_args *args,
                      int64_t n, struct err *err)
{
    struct pg_window *w = &a->window;
    int rc;

    gather_state(a, args->store, a->columns.obs, args->rows, n);
    rc = run_critic(a, s, a->value, n, w->value, err);
    if (rc == 0 && a->update_target != NULL)
        rc = run_critic(a, s, a->target_value, n, w->target_value, err);
    return rc < 0 ? rc : run_next_values(a, s, args, n, err);
}

/* Sets advantage and returns; value keeps what the critic gave. */
static int estimate(struct algo *a, struct session *s, const struct stage_args *args,
                    struct err *err)
{
    const int64_t copies = args->batch, steps = args->length, n = copies * steps;
    struct pg_window *w = &a->window;
    const struct gae_args gae = {.copies = copies,
                                 .steps = steps,
                                 .reward = w->reward,
                                 .terminated = w->terminated,
                                 .cut = w->cut,
                                 .value = w->batch_value,
                                 .next_value = w->next_value,
                                 .discount = a->live_value[PG_DISCOUNT]};
    const int64_t n_step = a->config->settings.n_step;
    struct value_scale scale;
    int rc;

    gather_rows(a, args, n);
    find_cuts(w, copies, steps);
    if ((rc = run_values(a, s, args, n, err)) < 0 ||
        (rc = value_norm_scale(&a->norm, s, &scale, err)) < 0)
        return rc;
    for (int64_t i = 0; i < n; i++) {
        w->batch_value[i] = value_scaled_back(&scale, w->value[i]);
        w->next_value[i] = value_scaled_back(&scale, w->next_value[i]);
    }
    if (n_step > 0)
        gae_n_step(&gae, n_step, w->advantage, w->returns);
    else
        gae_advantages(&gae, a->live_value[PG_GAE], w->advantage, w->returns);
    if (a->config->settings.advantage_norm)
        gae_normalize(w->advantage, w->alive, n);
    return 0;
}

/* ---- B: the statistics of returns ---- */

static int normalize_returns(struct algo *a, struct session *s, int64_t n,
                             struct err *err)
{
    const struct algorithm_settings *set = &a->config->settings;
    struct pg_window *w = &a->window;
    double sum = 0, squares = 0, count = 0;
    struct value_scale scale;
    int rc = 0;

    for (int64_t i = 0; i < n; i++) {
        const double x = (double)w->returns[i];

        count += (double)w->alive[i];
        sum += (double)w->alive[i] * x;
        squares += (double)w->alive[i] * x * x;
    }
    if (count > 0)
        rc = value_norm_update(&a->norm, s, sum / count, squares / count,
                               set->epochs * set->minibatches, err);
    if (rc == 0)
        rc = value_norm_scale(&a->norm, s, &scale, err);
    for (int64_t i = 0; rc == 0 && i < n; i++)
        w->returns[i] = value_normalized(&scale, w->returns[i]);
    return rc;
}

/* ---- C: steps of the optimisers ---- */

/* The i-th rows of the window, in this order. */
static void gather_minibatch(struct algo *a, const struct stage_args *args,
                             const uint32_t *order, int64_t n)
{
    const struct space *self = pg_self(a);
    const struct pg_columns *c = &a->columns;
    struct pg_window *w = &a->window;
    float alive = 0;

    for (int64_t i = 0; i < n; i++) {
        const uint32_t row = order[i];

        w->batch_row[i] = args->rows[row];
        w->batch_advantage[i] = w->advantage[row];
        w->batch_returns[i] = w->returns[row];
        w->batch_value[i] = w->value[row];
        w->batch_log_prob[i] = w->log_prob[row];
        w->weight[i] = w->alive[row];
        alive += w->alive[row];
    }
    for (int64_t i = 0; i < n; i++)
        w->weight[i] /= alive > 1 ? alive : 1;
    gather_state(a, args->store, c->obs, w->batch_row, n);
    store_view_gather(args->store, c->action, w->batch_row, (size_t)n, w->action,
                      (size_t)self->width);
    if (a->masked) {
        store_view_gather_bytes(args->store, c->allowed, w->batch_row, (size_t)n,
                                w->mask);
        choices_open(self, w->mask, (size_t)n, w->allowed);
    }
    if (a->id_width > 0)
        store_view_gather(args->store, c->obs[0], w->batch_row, (size_t)n, w->input,
                          (size_t)a->input_width);
    pg_put_ids(a, w->input, n, a->input_width);
}

static void feed_minibatch(struct algo *a, int64_t n)
{
    static const enum pg_live lives[] = {PG_ACTOR_RATE, PG_CRITIC_RATE, PG_CLIP_NORM,
                                         PG_CLIP_RATIO, PG_ENTROPY};
    const int64_t width = pg_self(a)->width;
    struct pg_window *w = &a->window;
    struct feeds *f = &a->feeds;

    feeds_begin(f);
    if (a->id_width > 0) /* the id does not follow the own observation in `state` */
        feeds_add(f, a->input, w->input, n, a->input_width);
    else
        feeds_columns(f, a->input, w->state, n, a->input_width, a->state_width);
    feeds_add(f, a->state, w->state, n, a->state_width);
    feeds_add(f, a->action, w->action, n, width);
    if (a->masked)
        feeds_add(f, a->allowed, w->allowed, n, width);
    feeds_add(f, a->old_log_prob, w->batch_log_prob, n, 1);
    feeds_add(f, a->advantage, w->batch_advantage, n, 1);
    feeds_add(f, a->returns, w->batch_returns, n, 1);
    feeds_add(f, a->old_value, w->batch_value, n, 1);
    feeds_add(f, a->weight, w->weight, n, 1);
    for (size_t i = 0; i < sizeof(lives) / sizeof(lives[0]); i++)
        feeds_live(f, &a->live[lives[i]], &a->live_value[lives[i]]);
}

static int step_down(struct algo *a, struct session *s, const struct stage_args *args,
                     const uint32_t *order, int64_t n, double *sums, struct err *err)
{
    float x[PG_SCALARS];
    struct tensor values[PG_SCALARS];
    struct run_args run = {.fetches = a->fetch,
                           .n_fetches = PG_SCALARS,
                           .targets = a->train,
                           .n_targets = 2,
                           .key = args->key,
                           .counter = args->counter};
    int rc;

    gather_minibatch(a, args, order, n);
    feed_minibatch(a, n);
    run.feeds = a->feeds.list;
    run.n_feeds = a->feeds.n;
    for (int i = 0; i < PG_SCALARS; i++)
        values[i] = tensor_scalar_f32(&x[i]);
    rc = session_run(s, &run, values, err);
    for (int i = 0; rc == 0 && i < PG_SCALARS; i++)
        sums[i] += (double)x[i];
    return rc;
}

/* One epoch: minibatches of equal size but for one row. */
static int run_epoch(struct algo *a, struct session *s, const struct stage_args *args,
                     int64_t n, int64_t epoch, double *sums, struct err *err)
{
    const struct algorithm_settings *set = &a->config->settings;
    const int64_t m = set->minibatches < n ? set->minibatches : n;
    const struct rng_key key = rng_key_derive(args->key, PURPOSE_PERMUTATION);
    int rc = 0;

    rng_permutation(key, args->counter * (uint64_t)set->epochs + (uint64_t)epoch,
                    a->window.order, (size_t)n);
    for (int64_t k = 0; rc == 0 && k < m; k++) {
        const int64_t begin = k * n / m, end = (k + 1) * n / m;

        rc = step_down(a, s, args, a->window.order + begin, end - begin, sums, err);
    }
    return rc;
}

static int run_epochs(struct algo *a, struct session *s, const struct stage_args *args,
                      int64_t n, struct stage_result *ret, struct err *err)
{
    static const char *const names[PG_SCALARS] = {[PG_ACTOR_LOSS] = "actor_loss",
                                                  [PG_CRITIC_LOSS] = "critic_loss",
                                                  [PG_ENTROPY_MEAN] = "entropy",
                                                  [PG_ACTOR_NORM] = "actor_grad_norm",
                                                  [PG_CRITIC_NORM] = "critic_grad_norm"};
    const struct algorithm_settings *set = &a->config->settings;
    const int64_t m = set->minibatches < n ? set->minibatches : n;
    double sums[PG_SCALARS] = {0};
    int rc = 0;

    for (int64_t epoch = 0; rc == 0 && epoch < set->epochs; epoch++)
        rc = run_epoch(a, s, args, n, epoch, sums, err);
    for (int i = 0; rc == 0 && i < PG_SCALARS; i++)
        stage_scalar(ret, names[i], sums[i] / (double)(set->epochs * m));
    return rc;
}

/* ---- D ---- */

static int run_target_update(struct algo *a, struct session *s, struct err *err)
{
    struct run_args run = {.targets = &a->update_target, .n_targets = 1};

    if (a->update_target == NULL)
        return 0;
    feeds_begin(&a->feeds);
    feeds_live(&a->feeds, &a->live[PG_POLYAK], &a->live_value[PG_POLYAK]);
    run.feeds = a->feeds.list;
    run.n_feeds = a->feeds.n;
    return session_run(s, &run, NULL, err);
}

/* ---- the stage ---- */

static int read_live(struct algo *a, struct session *s, struct err *err)
{
    int rc = 0;

    for (int i = 0; rc == 0 && i < PG_LIVES; i++)
        rc = live_value(&a->live[i], s, &a->live_value[i], err);
    return rc;
}

static int check_window(const struct stage_args *args, struct err *err)
{
    if (args->groups == 1 && args->batch >= 1 && args->length >= 1 && args->store != NULL)
        return 0;
    return err_set(err, ERR_ARG, "stage %s: a window of rows expected",
                   args->stage->name);
}

int pg_stage(struct algo *a, struct session *s, const struct stage_args *args,
             struct stage_result *ret, struct err *err)
{
    const int64_t n = args->batch * args->length;
    int rc;

    if ((rc = check_window(args, err)) < 0 ||
        (rc = find_columns(a, args->store, err)) < 0 || (rc = reserve(a, n, err)) < 0 ||
        (rc = read_live(a, s, err)) < 0 || (rc = estimate(a, s, args, err)) < 0 ||
        (rc = normalize_returns(a, s, n, err)) < 0 ||
        (rc = run_epochs(a, s, args, n, ret, err)) < 0)
        return rc;
    return run_target_update(a, s, err);
}
