#include "agent/algo/q_learner.h"

#include "agent/algo/choices.h"
#include "agent/algo/reads.h"
#include "agent/algo/rows.h"
#include "agent/algo/share.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

/* ---- live settings ---- */

int q_read_live(struct algo *a, struct session *s, uint64_t step, struct err *err)
{
    a->live[Q_HYSTERESIS].value = 1;
    return lives_read(a->live, Q_LIVES, s, step, err);
}

/* ---- the batch ---- */

static size_t lay_out(struct algo *a, float *base, size_t batch, size_t length)
{
    const size_t n = batch * length, all = n + batch, choices = (size_t)a->n_choices;
    struct q_batch *b = &a->batch;
    size_t used = 0;

    b->order = (uint64_t *)(void *)rows_take(base, &used, 2 * n);
    b->steps = (int64_t *)(void *)rows_take(base, &used, 2 * batch);
    b->input = rows_take(base, &used, all * (size_t)a->inputs);
    b->action = rows_take(base, &used, n * (size_t)a->self->width);
    b->choice = rows_take(base, &used, all * choices);
    b->online = rows_take(base, &used, all * choices);
    b->target = rows_take(base, &used, all * choices);
    b->slope = rows_take(base, &used, all);
    b->carry = rows_take(base, &used, batch * (size_t)a->memory_units);
    b->q = rows_take(base, &used, n);
    b->next = rows_take(base, &used, n);
    b->alive = rows_take(base, &used, n);
    b->terminated = rows_take(base, &used, n);
    b->team_q = rows_take(base, &used, n);
    b->team_next = rows_take(base, &used, n);
    b->y = rows_take(base, &used, n);
    b->dq = rows_take(base, &used, n);
    b->priority = rows_take(base, &used, batch);
    if (a->self->masked)
        b->next_allowed = rows_take_bytes(base, &used, n * (size_t)a->self->width);
    return used;
}

static int reserve(struct algo *a, int64_t batch, int64_t length, struct err *err)
{
    struct q_batch *b = &a->batch;

    if (batch == b->batch && length == b->length)
        return 0;
    free(b->memory);
    b->batch = b->length = 0;
    b->memory =
        mem_aligned(lay_out(a, NULL, (size_t)batch, (size_t)length) * sizeof(float));
    if (b->memory == NULL)
        return err_set(err, ERR_NOMEM, "no memory for %lld episodes of %lld steps",
                       (long long)batch, (long long)length);
    (void)lay_out(a, b->memory, (size_t)batch, (size_t)length);
    b->batch = batch;
    b->length = length;
    memset(b->carry, 0, (size_t)(batch * a->memory_units) * sizeof(float));
    return 0;
}

void q_reads(struct algo *a, struct reads *r)
{
    if (a->mixers != NULL) {
        mixers_reads(a, r);
        return;
    }
    for (size_t k = 0; k < a->team.n; k++)
        if (k == a->place || a->mixing == Q_SUM)
            q_member_reads(&a->team, k, a->agents, k == a->place, r);
    reads_add(r, a->self->name, "action", a->self->width, &a->own_action);
    if (a->self->masked)
        reads_add_mask(r, a->self, "next_allowed", &a->own_next_allowed);
    reward_scale_reads(&a->scale, r);
}

/* Sets order and steps from rows (B, L). */
static void put_in_order(struct q_batch *b, const uint64_t *rows)
{
    for (int64_t e = 0; e < b->batch; e++) {
        const uint64_t *row = rows + e * b->length;

        b->steps[e] = 0;
        while (b->steps[e] < b->length && row[b->steps[e]] != ROW_NONE)
            b->steps[e]++;
        for (int64_t t = 0; t < b->length; t++)
            b->order[t * b->batch + e] = t < b->steps[e] ? row[t] : ROW_NONE;
    }
}

/* Shows the inputs' observations and last actions under each episode's symmetry. */
static void turn_inputs(struct algo *a, struct symmetry *symmetry)
{
    struct q_batch *b = &a->batch;
    const size_t n = (size_t)b->batch, width = (size_t)a->inputs;

    for (int64_t t = 0; t <= b->length; t++) {
        float *x = b->input + (size_t)t * n * width;

        symmetry_obs(symmetry, a->index, n, x, width);
        if (a->settings->last_action)
            symmetry_action(symmetry, a->index, n, x + a->self->obs, width);
    }
}

/* Gathers what the network sees: the observations of each episode's rows, then the last
 * row's next observation, then zeros. */
static void gather_inputs(struct algo *a, const struct stage_args *args)
{
    const struct store_view *store = args->store;
    struct q_batch *b = &a->batch;
    const struct q_columns *c = &a->team.columns[a->place];
    const struct algorithm_settings *set = a->settings;
    const size_t n = (size_t)(b->batch * b->length), width = (size_t)a->inputs;

    memset(b->input, 0, (n + (size_t)b->batch) * width * sizeof(float));
    store_view_gather(store, c->obs, b->order, n, b->input, width);
    if (set->last_action)
        store_view_gather(store, a->own_action, b->order, n,
                          b->input + (size_t)b->batch * width + a->self->obs, width);
    for (int64_t e = 0; e < b->batch; e++) {
        const int64_t last = b->steps[e] - 1;

        if (last >= 0)
            store_view_gather(store, c->next_obs, &b->order[last * b->batch + e], 1,
                              b->input + ((last + 1) * b->batch + e) * a->inputs, width);
        for (int64_t t = 0; set->agent_id && t <= last + 1; t++)
            b->input[(t * b->batch + e + 1) * a->inputs - (int64_t)a->team.n +
                     (int64_t)a->place] = 1;
    }
    turn_inputs(a, args->symmetry);
}

static void gather_choices(struct algo *a, const struct stage_args *args)
{
    struct q_batch *b = &a->batch;
    const size_t width = (size_t)a->self->width;
    const int64_t n = b->batch * b->length;

    store_view_gather(args->store, a->own_action, b->order, (size_t)n, b->action, width);
    for (int64_t t = 0; t < b->length; t++)
        symmetry_action(args->symmetry, a->index, (size_t)b->batch,
                        b->action + (size_t)(t * b->batch) * width, width);
    memset(b->choice, 0, (size_t)((n + b->batch) * a->n_choices) * sizeof(float));
    for (int64_t i = 0; i < n; i++)
        if (b->order[i] != ROW_NONE)
            b->choice[i * a->n_choices +
                      choice_of_action(a->self, b->action + i * a->self->width)] = 1;
}

/* Gathers the choices that are possible after each row. */
static void gather_masks(struct algo *a, const struct stage_args *args)
{
    struct q_batch *b = &a->batch;

    store_view_gather_bytes(args->store, a->own_next_allowed, b->order,
                            (size_t)(b->batch * b->length), b->next_allowed);
    for (int64_t t = 0; t < b->length; t++)
        symmetry_mask(args->symmetry, a->index, (size_t)b->batch,
                      b->next_allowed + t * b->batch * a->self->width);
}

static int gather(struct algo *a, const struct stage_args *args, const uint64_t *rows,
                  struct err *err)
{
    const uint64_t first = (uint64_t)(rows - args->rows) / (uint64_t)args->length;
    struct q_batch *b = &a->batch;
    const struct q_columns *c;
    int r;

    if ((r = reserve(a, args->batch, args->length, err)) < 0 ||
        (r = symmetry_draw(args->symmetry, args->update, first, (size_t)args->batch,
                           err)) < 0)
        return r;
    if (a->units > 0 && args->length != a->max_steps)
        return err_set(err, ERR_ARG, "stage %s: episodes of %lld steps, %lld expected",
                       args->stage->name, (long long)args->length,
                       (long long)a->max_steps);
    c = &a->team.columns[a->place];
    put_in_order(b, rows);
    gather_inputs(a, args);
    gather_choices(a, args);
    store_view_gather(args->store, c->alive, rows, (size_t)(b->batch * b->length),
                      b->alive, 1);
    store_view_gather(args->store, c->terminated, rows, (size_t)(b->batch * b->length),
                      b->terminated, 1);
    if (a->self->masked)
        gather_masks(a, args);
    return 0;
}

/* ---- values ---- */

/* Begins a list of feeds with what the network sees. */
static void feed_inputs(struct algo *a)
{
    struct q_batch *b = &a->batch;

    feeds_begin(&a->feeds);
    feeds_add(&a->feeds, a->input, b->input, (b->length + 1) * b->batch, a->inputs);
    if (a->units > 0)
        feeds_add(&a->feeds, a->carry, b->carry, b->batch, a->memory_units);
}

static int run_networks(struct algo *a, struct session *s, struct err *err)
{
    struct q_batch *b = &a->batch;
    const struct shape shape = SHAPE((b->length + 1) * b->batch, a->n_choices);
    const struct output fetches[] = {a->q, a->target_q};
    struct tensor values[] = {tensor_view(DT_FLOAT, shape, b->online),
                              tensor_view(DT_FLOAT, shape, b->target)};

    feed_inputs(a);
    return feeds_fetch(&a->feeds, s, fetches, values, 2, err);
}

/* The target network's value of the best choice after row i (in the order of time). */
static float best_next(struct algo *a, int64_t i)
{
    struct q_batch *b = &a->batch;
    const float *target = b->target + (i + b->batch) * a->n_choices;
    const float *by =
        a->settings->double_q ? b->online + (i + b->batch) * a->n_choices : target;
    const uint8_t *allowed = NULL;

    if (a->self->masked) {
        (void)choices_allowed(a->self, b->next_allowed + i * a->self->width, a->n_choices,
                              a->allowed);
        allowed = a->allowed;
    }
    return target[choice_best_of(by, allowed, a->n_choices)];
}

/* Sets batch.q and batch.next. */
static int find_values(struct algo *a, struct session *s, struct err *err)
{
    struct q_batch *b = &a->batch;
    int r = run_networks(a, s, err);

    for (int64_t e = 0; r == 0 && e < b->batch; e++) {
        for (int64_t t = 0; t < b->length; t++) {
            const int64_t i = t * b->batch + e, k = e * b->length + t;
            const float *choice = b->choice + i * a->n_choices;

            b->q[k] = b->next[k] = 0;
            if (t >= b->steps[e] || b->alive[k] == 0)
                continue;
            b->q[k] = b->online[i * a->n_choices + choice_best(choice, a->n_choices)];
            b->next[k] = (1 - b->terminated[k]) * best_next(a, i);
        }
    }
    return r;
}

static int values(struct algo *a, struct session *s, const struct stage_args *args,
                  const uint64_t *rows, struct stage_result *ret, struct err *err)
{
    const struct shape shape = SHAPE(1, args->batch, args->length);
    int r;

    if ((r = gather(a, args, rows, err)) < 0 || (r = find_values(a, s, err)) < 0)
        return r;
    stage_output(ret, "q", tensor_view(DT_FLOAT, shape, a->batch.q));
    stage_output(ret, "next", tensor_view(DT_FLOAT, shape, a->batch.next));
    return 0;
}

/* ---- mixing ---- */

/* Adds up the outputs of that name of the team's members: sum (B, L). */
static int add_team(const struct algo *a, const struct stage_args *args, const char *name,
                    float *sum, struct err *err)
{
    const int64_t n = args->batch * args->length;
    const float *x;

    memset(sum, 0, (size_t)n * sizeof(float));
    for (size_t k = 0; k < a->team.n; k++) {
        const int r = q_team_output(&a->team, k, a->agents, args, name, &x, err);

        if (r < 0)
            return r;
        for (int64_t i = 0; x != NULL && i < n; i++)
            sum[i] += x[i];
    }
    return 0;
}

/* Sets dq of iql and vdn: d(mean of w (y - q)^2)/d(q). */
static void find_slopes(struct algo *a, const float *q, struct stage_result *ret)
{
    struct q_batch *b = &a->batch;
    const int64_t n = b->batch * b->length;
    const float share = q_rows_share(&a->rows, n), bad = a->live[Q_HYSTERESIS].value;
    double measured[Q_REPORTED];

    for (int64_t i = 0; i < n; i++) {
        const float error = b->y[i] - q[i];

        b->dq[i] = -2 * share * a->rows.weight[i] * error * (error < 0 ? bad : 1);
    }
    q_measure(&a->rows, q, b->y, bad, n, measured);
    q_report(measured, ret);
}

static int mix_here(struct algo *a, struct session *s, const struct stage_args *args,
                    const uint64_t *rows, const float *weights, struct stage_result *ret,
                    struct err *err)
{
    struct q_batch *b = &a->batch;
    const int alone = a->mixing == Q_ALONE;
    const float *q = alone ? b->q : b->team_q, *next = alone ? b->next : b->team_next;
    struct reward_scaling scale;
    int r = reward_scale_read(&a->scale, s, args, &scale, err);

    if (r == 0)
        r = q_rows_gather(&a->rows, &a->team, alone ? a->place : a->team.n, args, rows,
                          weights, &scale, err);
    if (r == 0 && alone)
        r = find_values(a, s, err);
    if (r == 0 && !alone)
        r = add_team(a, args, "q", b->team_q, err);
    if (r == 0 && !alone)
        r = add_team(a, args, "next", b->team_next, err);
    if (r < 0)
        return r;
    q_targets(&a->rows, a->settings, next, a->live[Q_DISCOUNT].value,
              a->live[Q_LAMBDA].value, b->batch, b->length, b->y);
    find_slopes(a, q, ret);
    q_priorities(&a->rows, q, b->y, b->batch, b->length, b->priority);
    return 0;
}

static int central_output(const struct stage_args *args, const char *name,
                          enum dtype dtype, struct shape want, const void **ret,
                          struct err *err)
{
    const struct tensor *t = args->input(args->input_ctx, "central", name);

    if (t == NULL || t->dtype != dtype || !shape_equal(&t->shape, &want))
        return err_set(err, ERR_PROTOCOL, "input central/%s: %s %s expected", name,
                       dtype_name(dtype), shape_text(&want));
    *ret = t->data;
    return 0;
}

/* Reads the results of the central process: dq (agents, B, L), the episodes' priorities
 * (teams, B), the scalars (teams, Q_REPORTED). */
static int take_slopes(struct algo *a, const struct stage_args *args,
                       struct stage_result *ret, struct err *err)
{
    const int64_t n = args->batch * args->length;
    const int64_t agents = (int64_t)a->mixed.agents, teams = (int64_t)a->mixed.teams;
    double measured[Q_REPORTED];
    const void *x = NULL;
    int r = central_output(args, "dq", DT_FLOAT, SHAPE(agents, args->batch, args->length),
                           &x, err);

    if (r < 0)
        return r;
    memcpy(a->batch.dq, (const float *)x + (int64_t)a->mixed.agent * n,
           (size_t)n * sizeof(float));
    r = central_output(args, "priorities", DT_FLOAT, SHAPE(teams, args->batch), &x, err);
    if (r < 0)
        return r;
    memcpy(a->batch.priority, (const float *)x + (int64_t)a->mixed.team * args->batch,
           (size_t)args->batch * sizeof(float));
    r = central_output(args, "measured", DT_DOUBLE, SHAPE(teams * Q_REPORTED), &x, err);
    if (r < 0)
        return r;
    memcpy(measured, (const char *)x + a->mixed.team * sizeof(measured),
           sizeof(measured));
    q_report(measured, ret);
    return 0;
}

/* ---- learning ---- */

/* Makes one optimiser step with the feeds collected. In a sharing group, a member writes
 * the gradients, and the ps makes the step with their mean. */
static int step_down(struct algo *a, struct session *s, const struct stage_args *args,
                     struct stage_result *ret, struct err *err)
{
    struct fetches fetched = {0};
    struct run_args run;
    int r;

    if (share_makes_steps(a->share)) {
        feeds_live(&a->feeds, &a->live[Q_CLIP_NORM]);
        feeds_live(&a->feeds, &a->live[Q_RATE]);
        fetch_scalar(&fetched, "critic_grad_norm", a->norm);
    }
    run = collected_run(&a->feeds, &fetched, args, &a->train, 1);
    r = share_step(a->share, SHARE_ALL, s, &run, fetched.value, args, 1, err);
    if (r < 0)
        return r;
    fetches_report(&fetched, ret);
    if (share_makes_steps(a->share))
        stage_scalar(ret, "learning_rate", (double)a->live[Q_RATE].value);
    return 0;
}

/* A team of N that shares parameters has one loss, whose gradient is the sum of the
 * members' parts, but the ps takes their mean: so each part is multiplied by N. */
static int descend(struct algo *a, struct session *s, const struct stage_args *args,
                   struct stage_result *ret, struct err *err)
{
    struct q_batch *b = &a->batch;
    const int64_t n = (b->length + 1) * b->batch;
    const float times =
        a->share != NULL && a->mixing != Q_ALONE ? (float)share_group(a->share)->n : 1;

    memset(b->slope, 0, (size_t)n * sizeof(float));
    for (int64_t e = 0; e < b->batch; e++)
        for (int64_t t = 0; t < b->steps[e]; t++)
            b->slope[t * b->batch + e] =
                times * b->alive[e * b->length + t] * b->dq[e * b->length + t];
    feed_inputs(a);
    feeds_add(&a->feeds, a->choice, b->choice, n, a->n_choices);
    feeds_add(&a->feeds, a->slope, b->slope, n, 1);
    stage_scalar(ret, "epsilon", (double)a->live[Q_EPSILON].value);
    return step_down(a, s, args, ret, err);
}

int q_move_target(struct algo *a, struct session *s, struct operation *update_target,
                  struct operation *copy_target, uint64_t update, struct err *err)
{
    const int64_t every = a->settings->target_every;

    feeds_begin(&a->feeds);
    if (every > 0)
        return (update + 1) % (uint64_t)every == 0
                   ? feeds_run(&a->feeds, s, copy_target, err)
                   : 0;
    feeds_live(&a->feeds, &a->live[Q_POLYAK]);
    return feeds_run(&a->feeds, s, update_target, err);
}

/* ps: one step down the group's mean loss. */
static int apply(struct algo *a, struct session *s, const struct stage_args *args,
                 struct stage_result *ret, struct err *err)
{
    feeds_begin(&a->feeds);
    return step_down(a, s, args, ret, err);
}

static int assign(struct algo *a, struct session *s, const struct stage_args *args,
                  struct err *err)
{
    int r = share_assign(a->share, SHARE_ALL, s, args, err);

    if (r == 0)
        r = reward_scale_read(&a->scale, s, args, NULL, err);
    return r < 0
               ? r
               : q_move_target(a, s, a->update_target, a->copy_target, args->update, err);
}

static int learn(struct algo *a, struct session *s, const struct stage_args *args,
                 const uint64_t *rows, const float *weights, struct stage_result *ret,
                 struct err *err)
{
    int r = gather(a, args, rows, err);

    if (r == 0)
        r = a->mixing == Q_NETWORK ? take_slopes(a, args, ret, err)
                                   : mix_here(a, s, args, rows, weights, ret, err);
    if (r == 0)
        r = descend(a, s, args, ret, err);
    if (r == 0 && weights != NULL)
        ret->priorities = tensor_view(DT_FLOAT, SHAPE(1, args->batch), a->batch.priority);
    return r < 0 || a->share != NULL
               ? r
               : q_move_target(a, s, a->update_target, a->copy_target, args->update, err);
}

int q_stage(struct algo *a, struct session *s, const struct stage_args *args,
            struct stage_result *ret, struct err *err)
{
    const char *name = args->stage->name;
    const uint64_t *rows = args->rows;
    const float *weights = args->weights;
    int64_t group;
    int r = q_read_live(a, s, args->step, err);

    if (r < 0)
        return r;
    if (strcmp(name, "apply") == 0)
        return apply(a, s, args, ret, err);
    if (strcmp(name, "assign") == 0)
        return assign(a, s, args, err);
    if ((r = rows_check_episodes(args, a->n_agents, err)) < 0)
        return r;
    if (a->mixing != Q_ALONE && args->groups != 1)
        return err_set(err, ERR_ARG, "%s: a team learns from one batch",
                       a->config->algorithm);
    group = rows_group(args, a->index);
    rows += group * args->batch * args->length;
    weights = weights != NULL ? weights + group * args->batch : NULL;
    if (strcmp(name, "mix") == 0)
        return mixers_stage(a, s, args, ret, err);
    if (strcmp(name, "values") == 0)
        return values(a, s, args, rows, ret, err);
    return learn(a, s, args, rows, weights, ret, err);
}
