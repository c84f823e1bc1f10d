/* The window of rows of policy_gradient.h: its memory, what it gathers from the log,
 * advantages and returns (A), and their normalisation (B). */
#include "agent/algo/policy_gradient.h"

#include "agent/algo/gae.h"
#include "agent/algo/reads.h"
#include "agent/algo/rows.h"

#include <math.h>
#include <string.h>

/* ---- memory ---- */

static size_t lay_out(const struct algo *a, struct pg_window *w, float *base, size_t n)
{
    float **const rows[] = {
        &w->reward,         &w->terminated,      &w->cut,           &w->alive,
        &w->first,          &w->log_prob,        &w->scaled_value,  &w->target_value,
        &w->next_value,     &w->batch_advantage, &w->batch_returns, &w->batch_value,
        &w->batch_log_prob, &w->weight,          &w->now_log_prob,
    };
    const size_t width = (size_t)pg_self(a)->width;
    size_t used = 0;

    w->input = rows_take(base, &used, n * (size_t)a->input_width);
    w->state = rows_take(base, &used, n * (size_t)a->state_width);
    w->action = rows_take(base, &used, n * width);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        *rows[i] = rows_take(base, &used, n);
    w->kept = rows_take(base, &used, 3 * n);
    w->choice = rows_take(base, &used, n * (size_t)a->choices);
    w->values = rows_take(base, &used, n * (size_t)a->choices);
    w->draw = rows_take(base, &used, a->choices > 0 ? n * width : 0);
    w->factor = rows_take(base, &used, a->in_turns ? (size_t)a->teams * n : 0);
    w->order = (uint32_t *)rows_take_bytes(base, &used, n * sizeof(*w->order));
    w->batch_row = (uint64_t *)rows_take_bytes(base, &used, n * sizeof(*w->batch_row));
    if (a->masked) {
        w->allowed = rows_take(base, &used, n * width);
        w->mask = rows_take_bytes(base, &used, n * width);
    }
    return used;
}

int pg_reserve(struct algo *a, int64_t n, struct err *err)
{
    struct pg_window *w = &a->window;

    if (n <= w->rows)
        return 0;
    w->order_n = 0;
    if (rows_reserve(&w->memory, &w->rows, n, lay_out(a, w, NULL, (size_t)n), err) < 0)
        return ERR_NOMEM;
    (void)lay_out(a, w, w->memory, (size_t)n);
    return 0;
}

/* ---- the log ---- */

int pg_open_kept(struct algo *a, struct session *s, int64_t n, struct pg_kept *ret,
                 struct err *err)
{
    float *base = a->window.kept;
    struct tensor t;
    int rc;

    if (a->kept != NULL) {
        if (n > a->window_rows)
            return err_set(err, ERR_ARG, "%lld rows in a window of %lld", (long long)n,
                           (long long)a->window_rows);
        rc = session_variable(s, a->kept, &t, err);
        if (rc < 0)
            return rc;
        base = t.data;
    }
    *ret = (struct pg_kept){base, base + n, base + 2 * n};
    return 0;
}

void pg_reads(struct algo *a, struct reads *r)
{
    const struct space *self = pg_self(a);
    struct pg_columns *c = &a->columns;

    reads_add(r, self->name, a->gaussian ? "sample" : "action", self->width, &c->action);
    reads_add(r, self->name, "reward", 1, &c->reward);
    reads_add(r, self->name, "terminated", 1, &c->terminated);
    reads_add(r, self->name, "alive", 1, &c->alive);
    reads_add(r, self->name, "log_prob", 1, &c->log_prob);
    for (size_t j = 0; j < a->seen_n; j++) {
        const struct space *s = &a->agents[a->seen[j]];

        reads_add(r, s->name, "obs", s->obs, &c->obs[j]);
        reads_add(r, s->name, "next_obs", s->obs, &c->next_obs[j]);
        if (a->choices > 0 && j > 0)
            reads_add(r, s->name, "action", s->width, &c->obs[a->seen_n + j - 1]);
    }
    for (size_t j = 0; a->choices > 0 && j < a->n_agents; j++)
        reads_add(r, a->agents[j].name, "alive", 1, &c->alive_of[j]);
    reads_add(r, NULL, "truncated", 1, &c->truncated);
    reads_add(r, NULL, "first", 1, &c->first);
    if (a->masked)
        reads_add_mask(r, self, "allowed", &c->allowed);
    if (a->masked && a->choices > 0)
        reads_add_mask(r, self, "next_allowed", &c->next_allowed);
    reward_scale_reads(&a->scale, r);
}

void pg_gather_state(struct algo *a, const struct store_view *store, const int *columns,
                     const uint64_t *rows, int64_t n)
{
    const int with_actions = a->choices > 0 && columns == a->columns.obs;

    store_view_gather_joined(store, columns, with_actions ? 2 * a->seen_n - 1 : a->seen_n,
                             rows, (size_t)n, a->window.state, (size_t)a->state_width);
    pg_put_ids(a, a->window.state, n, a->state_width);
}

/* ---- A: advantages and returns ---- */

static int run_critic(struct algo *a, struct session *s, struct output value, int64_t n,
                      float *ret, struct err *err)
{
    struct tensor t = tensor_view(DT_FLOAT, SHAPE(n, 1), ret);

    feeds_begin(&a->feeds);
    feeds_add(&a->feeds, a->state, a->window.state, n, a->state_width);
    if (a->choices > 0)
        feeds_add(&a->feeds, a->choice, a->window.choice, n, a->choices);
    return feeds_fetch(&a->feeds, s, &value, &t, 1, err);
}

void pg_find_cuts(struct pg_window *w, int64_t copies, int64_t steps)
{
    for (int64_t i = 0; i < copies * steps; i++)
        if ((i + 1) % steps == 0 || w->first[i + 1] != 0 ||
            (w->alive[i] != 0 && w->alive[i + 1] == 0 && w->terminated[i] == 0))
            w->cut[i] = 1;
}

int64_t pg_list_cuts(struct pg_window *w, const uint64_t *rows, int64_t n)
{
    int64_t cuts = 0;

    w->order_n = 0; /* order is overwritten here */
    for (int64_t i = 0; i < n; i++)
        if (w->cut[i] != 0) {
            w->order[cuts] = (uint32_t)i;
            w->batch_row[cuts++] = rows[i];
        }
    return cuts;
}

/* Sets the values of next observations: the next row's value, or where the episode or the
 * window ends, the value of the row's own next observation. order, batch_row and weight
 * are scratch. */
static int run_next_values(struct algo *a, struct session *s,
                           const struct stage_args *args, const float *values, int64_t n,
                           struct err *err)
{
    const struct output value = a->update_target != NULL ? a->target_value : a->value;
    struct pg_window *w = &a->window;
    const int64_t ends = pg_list_cuts(w, args->rows, n);
    int rc;

    /* The last row is a cut; its value is set below, as those of all cuts. */
    memcpy(w->next_value, values + 1, (size_t)(n - 1) * sizeof(*values));
    pg_gather_state(a, args->store, a->columns.next_obs, w->batch_row, ends);
    if (a->choices > 0 && (rc = pg_put_proposals(a, args, w->order, ends, err)) < 0)
        return rc;
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
    store_view_gather(v, c->first, args->rows, (size_t)n, w->first, 1);
    store_view_gather(v, c->truncated, args->rows, (size_t)n, w->cut, 1);
}

static int run_values(struct algo *a, struct session *s, const struct stage_args *args,
                      const struct pg_kept *kept, int64_t n, struct err *err)
{
    struct pg_window *w = &a->window;
    int rc;

    pg_gather_state(a, args->store, a->columns.obs, args->rows, n);
    rc = a->choices > 0 ? pg_counterfactual(a, s, args, kept, err)
                        : run_critic(a, s, a->value, n, kept->value, err);
    if (rc == 0 && a->choices == 0 && a->update_target != NULL)
        rc = run_critic(a, s, a->target_value, n, w->target_value, err);
    return rc < 0
               ? rc
               : run_next_values(a, s, args,
                                 a->update_target != NULL ? w->target_value : kept->value,
                                 n, err);
}

static void add_up(const struct pg_window *w, const struct pg_kept *kept, int64_t n,
                   double sums[PG_SUMS])
{
    memset(sums, 0, PG_SUMS * sizeof(*sums));
    for (int64_t i = 0; i < n; i++) {
        const double alive = (double)w->alive[i];
        const double advantage = (double)kept->advantage[i];
        const double returned = (double)kept->returns[i];

        sums[PG_ROWS] += alive;
        sums[PG_ADVANTAGE] += alive * advantage;
        sums[PG_ADVANTAGE_SQUARES] += alive * advantage * advantage;
        sums[PG_RETURN] += alive * returned;
        sums[PG_RETURN_SQUARES] += alive * returned * returned;
    }
}

/* 1 - Var(G - V) / Var(G) over the rows in which the agent is alive, G the returns and V the
 * critic's values, in the rewards' scale. */
static double explained_variance(const struct pg_window *w, const float *returns,
                                 int64_t n)
{
    double rows = 0, mean = 0, mean_error = 0, variance = 0, error_variance = 0;

    for (int64_t i = 0; i < n; i++) {
        const double alive = (double)w->alive[i], g = (double)returns[i];

        rows += alive;
        mean += alive * g;
        mean_error += alive * (g - (double)w->scaled_value[i]);
    }
    mean /= rows;
    mean_error /= rows;
    for (int64_t i = 0; i < n; i++) {
        const double alive = (double)w->alive[i], g = (double)returns[i];
        const double error = g - (double)w->scaled_value[i] - mean_error;

        variance += alive * (g - mean) * (g - mean);
        error_variance += alive * error * error;
    }
    return variance > 0 ? 1 - error_variance / variance : (double)NAN;
}

int pg_estimate(struct algo *a, struct session *s, const struct stage_args *args,
                const struct pg_kept *kept, struct err *err)
{
    const int64_t copies = args->batch, steps = args->length, n = copies * steps;
    struct pg_window *w = &a->window;
    const struct gae_args gae = {.copies = copies,
                                 .steps = steps,
                                 .reward = w->reward,
                                 .terminated = w->terminated,
                                 .cut = w->cut,
                                 .value = w->scaled_value,
                                 .next_value = w->next_value,
                                 .discount = a->live[PG_DISCOUNT].value};
    const int64_t n_step = a->settings->n_step;
    struct value_scale scale;
    struct reward_scaling rewards;
    int rc;

    gather_rows(a, args, n);
    pg_find_cuts(w, copies, steps);
    if ((rc = reward_scale_read(&a->scale, s, args, &rewards, err)) < 0 ||
        (rc = run_values(a, s, args, kept, n, err)) < 0 ||
        (rc = value_norm_scale(&a->norm, s, &scale, err)) < 0)
        return rc;
    reward_scale_apply(&rewards, w->reward, n);
    for (int64_t i = 0; i < n; i++) {
        w->scaled_value[i] = value_scaled_back(&scale, kept->value[i]);
        w->next_value[i] = value_scaled_back(&scale, w->next_value[i]);
    }
    if (a->choices > 0) {
        pg_lambda_returns(a, args, kept);
        for (int64_t i = 0; i < n; i++)
            kept->advantage[i] = (float)((double)kept->advantage[i] * scale.deviation);
    } else if (n_step > 0)
        gae_n_step(&gae, n_step, kept->advantage, kept->returns);
    else
        gae_advantages(&gae, a->live[PG_LAMBDA].value, kept->advantage, kept->returns);
    add_up(w, kept, n, a->sums);
    a->explained_variance = explained_variance(w, kept->returns, n);
    return 0;
}

/* ---- B: normalisation ---- */

/* (A - mean) / (deviation + 1e-5), population. */
static void normalize_advantages(const struct pg_kept *kept, int64_t n,
                                 const double sums[PG_SUMS])
{
    const double mean = sums[PG_ADVANTAGE] / sums[PG_ROWS];
    const double variance = sums[PG_ADVANTAGE_SQUARES] / sums[PG_ROWS] - mean * mean;
    const double deviation = sqrt(fmax(variance, 0)) + 1e-5;

    for (int64_t i = 0; i < n; i++)
        kept->advantage[i] = (float)(((double)kept->advantage[i] - mean) / deviation);
}

/* A window in which nobody was alive changes no statistics, and its advantages stay as
 * they are. */
int pg_normalize(struct algo *a, struct session *s, const struct pg_kept *kept, int64_t n,
                 const double sums[PG_SUMS], struct err *err)
{
    const struct algorithm_settings *set = a->settings;
    struct value_scale was, scale;
    int rc = value_norm_scale(&a->norm, s, &was, err);

    if (rc < 0)
        return rc;
    if (sums[PG_ROWS] > 0) {
        rc = value_norm_update(&a->norm, s, sums[PG_RETURN] / sums[PG_ROWS],
                               sums[PG_RETURN_SQUARES] / sums[PG_ROWS],
                               set->epochs * set->minibatches, err);
        if (rc < 0)
            return rc;
        if (set->advantage_norm)
            normalize_advantages(kept, n, sums);
    }
    rc = value_norm_scale(&a->norm, s, &scale, err);
    for (int64_t i = 0; rc == 0 && i < n; i++)
        kept->returns[i] = value_normalized(&scale, kept->returns[i]);
    for (int64_t i = 0; rc == 0 && i < n && a->norm.kind == VALUE_NORM_POPART; i++)
        kept->value[i] = value_rescaled(&was, &scale, kept->value[i]);
    return rc;
}
