#include "agent/algo/iql.h"

#include "agent/algo/choices.h"
#include "agent/algo/reads.h"
#include "agent/algo/rows.h"
#include "agent/algo/share.h"

#include <stdlib.h>
#include <string.h>

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
                 a->live[IQL_DISCOUNT].value, n, ret);
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
    choices_one_hot(a->self, b->action, n, a->n_choices, b->choice);
}

/* Makes one optimiser step with the feeds and fetches collected, and reports what was
 * fetched. In a sharing group, a member writes the gradients, and the ps makes the step
 * with their mean. */
static int step_down(struct algo *a, struct session *s, const struct stage_args *args,
                     struct fetches *fetched, struct stage_result *ret, struct err *err)
{
    struct run_args run;
    int r;

    if (share_makes_steps(a->share)) {
        feeds_live(&a->feeds, &a->live[IQL_CLIP_NORM]);
        feeds_live(&a->feeds, &a->live[IQL_RATE]);
        fetch_scalar(fetched, "critic_grad_norm", a->norm);
    }
    run = collected_run(&a->feeds, fetched, args, &a->train, 1);
    r = share_step(a->share, SHARE_ALL, s, &run, fetched->value, args, 1, err);
    if (r < 0)
        return r;
    fetches_report(fetched, ret);
    if (share_makes_steps(a->share))
        stage_scalar(ret, "learning_rate", (double)a->live[IQL_RATE].value);
    return 0;
}

static int run_train(struct algo *a, struct session *s, const struct stage_args *args,
                     int64_t n, struct stage_result *ret, struct err *err)
{
    struct batch *b = &a->batch;
    struct fetches fetched = {0};
    int r;

    feeds_begin(&a->feeds);
    feeds_add(&a->feeds, a->obs, b->obs, n, a->self->obs);
    feeds_add(&a->feeds, a->choice, b->choice, n, a->n_choices);
    feeds_add(&a->feeds, a->target, b->target, n, 1);
    feeds_add(&a->feeds, a->weight, b->weight, n, 1);
    feeds_live(&a->feeds, &a->live[IQL_HYSTERESIS]);
    fetch_scalar(&fetched, "critic_loss", a->loss);
    fetch_scalar(&fetched, "q_mean", a->q_mean);
    fetch_into(&fetched, a->td, tensor_view(DT_FLOAT, SHAPE(n, 1), b->next_q));
    r = step_down(a, s, args, &fetched, ret, err);
    if (r < 0)
        return r;
    rows_td_error(b->next_q, b->weight, n, ret);
    stage_scalar(ret, "epsilon", (double)a->live[IQL_EPSILON].value);
    if (args->weights != NULL)
        rows_priorities(b->next_q, b->weight, n, ret);
    return 0;
}

/* ps */
static int apply(struct algo *a, struct session *s, const struct stage_args *args,
                 struct stage_result *ret, struct err *err)
{
    struct fetches fetched = {0};
    int r = lives_read(a->live, IQL_LIVES, s, args->step, err);

    feeds_begin(&a->feeds);
    return r < 0 ? r : step_down(a, s, args, &fetched, ret, err);
}

static int run_target_update(struct algo *a, struct session *s, struct err *err)
{
    feeds_begin(&a->feeds);
    feeds_live(&a->feeds, &a->live[IQL_POLYAK]);
    return feeds_run(&a->feeds, s, a->update_target, err);
}

static int assign(struct algo *a, struct session *s, const struct stage_args *args,
                  struct err *err)
{
    int r;

    if ((r = lives_read(a->live, IQL_LIVES, s, args->step, err)) < 0 ||
        (r = share_assign(a->share, SHARE_ALL, s, args, err)) < 0 ||
        (r = reward_scale_read(&a->scale, s, args, NULL, err)) < 0)
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
        (r = lives_read(a->live, IQL_LIVES, s, args->step, err)) < 0 ||
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
