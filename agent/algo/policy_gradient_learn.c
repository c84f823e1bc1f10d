/* The stages of policy_gradient.h: `learn`; or `prepare`, `normalize`, `actor`, `critic`,
 * `apply` and `assign` of those that share parameters; or happo's `prepare`, `turn` and
 * `critic`. */
#include "agent/algo/policy_gradient.h"

#include "agent/algo/choices.h"
#include "agent/algo/rows.h"
#include "agent/algo/share.h"
#include "common/numerics/elementary.h"
#include "common/rng/rng.h"

#include <math.h>
#include <string.h>

/* ---- C: steps of the optimisers ---- */

struct minibatch {
    const uint32_t *row; /* [n] places in the window */
    int64_t n;
    uint64_t step;             /* of the update */
    int for_actor, for_critic; /* who learns from it */
    float alive;               /* rows in which the agent is alive */
};

/* Whether the policy's input has a matrix of its own. Otherwise it is read from `state`,
 * which is gathered for the critic only, and does not contain an input with an id. */
static int has_own_input(const struct algo *a, const struct minibatch *b)
{
    return b->for_actor && (a->id.width > 0 || !b->for_critic);
}

/* Draws the order of the window's rows in an epoch, when the epoch's first step comes
 * here; its other steps use the same one. */
static void draw_order(struct algo *a, const struct stage_args *args, int64_t n,
                       int64_t epoch)
{
    const uint64_t counter =
        args->update * (uint64_t)a->settings->epochs + (uint64_t)epoch;
    struct pg_window *w = &a->window;

    if (w->order_n == n && w->order_of == counter)
        return;
    rng_permutation(args->permutation, counter, w->order, (size_t)n);
    w->order_of = counter;
    w->order_n = n;
}

/* The minibatch of step number `step` of an update. The minibatches of an epoch differ by
 * at most one row in length. */
static struct minibatch choose_rows(struct algo *a, const struct stage_args *args,
                                    int64_t n, int64_t step)
{
    const struct algorithm_settings *set = a->settings;
    const int64_t m = set->minibatches, epoch = step / m, k = step % m;
    const int64_t begin = k * n / m, end = (k + 1) * n / m;
    const char *name = args->stage->name;

    draw_order(a, args, n, epoch);
    return (struct minibatch){.row = a->window.order + begin,
                              .n = end - begin,
                              .step = (uint64_t)step,
                              .for_actor = strcmp(name, "critic") != 0,
                              .for_critic = strcmp(name, "actor") != 0 &&
                                            strcmp(name, "turn") != 0};
}

/* Shows each joint row under the symmetry that was drawn for it. */
static int turn_minibatch(struct algo *a, const struct stage_args *args,
                          const struct minibatch *b, struct err *err)
{
    const struct algorithm_settings *set = a->settings;
    const uint64_t steps = (uint64_t)(set->epochs * set->minibatches);
    const size_t n = (size_t)b->n;
    struct pg_window *w = &a->window;
    float *block = w->state;
    const int rc =
        symmetry_draw(args->symmetry, args->update * steps + b->step, 0, n, err);

    if (rc < 0 || args->symmetry == NULL)
        return rc;
    for (size_t j = 0; b->for_critic && j < a->seen_n; j++) {
        symmetry_obs(args->symmetry, a->seen[j], n, block, (size_t)a->state_width);
        block += a->agents[a->seen[j]].obs;
    }
    for (size_t j = 1; b->for_critic && a->choices > 0 && j < a->seen_n; j++) {
        symmetry_action(args->symmetry, a->seen[j], n, block, (size_t)a->state_width);
        block += a->agents[a->seen[j]].width;
    }
    if (has_own_input(a, b))
        symmetry_obs(args->symmetry, a->self, n, w->input, (size_t)a->input_width);
    if (b->for_actor || a->choices > 0)
        symmetry_action(args->symmetry, a->self, n, w->action, (size_t)pg_self(a)->width);
    if (b->for_actor && a->masked)
        symmetry_mask(args->symmetry, a->self, n, w->mask);
    return 0;
}

/* Gathers the actions of rows, and the choices that were possible. */
static void gather_choices(struct algo *a, const struct stage_args *args, int allowed,
                           const uint64_t *rows, size_t n)
{
    const struct pg_columns *c = &a->columns;
    struct pg_window *w = &a->window;

    store_view_gather(args->store, c->action, rows, n, w->action,
                      (size_t)pg_self(a)->width);
    if (a->masked)
        store_view_gather_bytes(args->store, allowed, rows, n, w->mask);
}

static void gather_input(struct algo *a, const struct stage_args *args, int column,
                         const uint64_t *rows, size_t n)
{
    store_view_gather(args->store, column, rows, n, a->window.input,
                      (size_t)a->input_width);
    pg_put_ids(a, a->window.input, (int64_t)n, a->input_width);
}

static void gather_for_actor(struct algo *a, const struct stage_args *args,
                             const struct pg_kept *kept, const struct minibatch *b)
{
    struct pg_window *w = &a->window;
    const size_t n = (size_t)b->n;

    for (size_t i = 0; i < n; i++)
        w->batch_advantage[i] = kept->advantage[b->row[i]];
    store_view_gather(args->store, a->columns.log_prob, w->batch_row, n,
                      w->batch_log_prob, 1);
    if (has_own_input(a, b))
        gather_input(a, args, a->columns.obs[0], w->batch_row, n);
}

static void gather_for_critic(struct algo *a, const struct stage_args *args,
                              const struct pg_kept *kept, const struct minibatch *b)
{
    struct pg_window *w = &a->window;

    for (int64_t i = 0; i < b->n; i++) {
        w->batch_returns[i] = kept->returns[b->row[i]];
        w->batch_value[i] = kept->value[b->row[i]];
    }
    pg_gather_state(a, args->store, a->columns.obs, w->batch_row, b->n);
}

static int gather_minibatch(struct algo *a, const struct stage_args *args,
                            const struct pg_kept *kept, struct minibatch *b,
                            struct err *err)
{
    struct pg_window *w = &a->window;
    const size_t n = (size_t)b->n;
    int rc;

    for (size_t i = 0; i < n; i++)
        w->batch_row[i] = args->rows[b->row[i]];
    store_view_gather(args->store, a->columns.alive, w->batch_row, n, w->weight, 1);
    for (size_t i = 0; i < n; i++)
        b->alive += w->weight[i];
    for (size_t i = 0; i < n; i++)
        w->weight[i] /= b->alive > 1 ? b->alive : 1;
    if (b->for_critic)
        gather_for_critic(a, args, kept, b);
    if (b->for_actor)
        gather_for_actor(a, args, kept, b);
    if (b->for_actor || a->choices > 0)
        gather_choices(a, args, a->columns.allowed, w->batch_row, n);
    rc = turn_minibatch(a, args, b, err);
    if (rc == 0 && b->for_critic && a->choices > 0)
        pg_put_choices(a, b->n);
    if (rc == 0 && b->for_actor && a->masked)
        choices_open(pg_self(a), w->mask, n, w->allowed);
    return rc;
}

static void feed_actor(struct algo *a, const struct minibatch *b)
{
    const int64_t n = b->n, width = pg_self(a)->width;
    struct pg_window *w = &a->window;
    struct feeds *f = &a->feeds;

    if (has_own_input(a, b))
        feeds_add(f, a->input, w->input, n, a->input_width);
    else
        feeds_columns(f, a->input, w->state, n, a->input_width, a->state_width);
    feeds_add(f, a->action, w->action, n, width);
    if (a->masked)
        feeds_add(f, a->allowed, w->allowed, n, width);
    feeds_add(f, a->old_log_prob, w->batch_log_prob, n, 1);
    feeds_add(f, a->advantage, w->batch_advantage, n, 1);
    feeds_live(f, &a->live[PG_ENTROPY]);
}

static void feed_critic(struct algo *a, const struct minibatch *b)
{
    struct pg_window *w = &a->window;
    struct feeds *f = &a->feeds;

    feeds_add(f, a->state, w->state, b->n, a->state_width);
    if (a->choices > 0)
        feeds_add(f, a->choice, w->choice, b->n, a->choices);
    feeds_add(f, a->returns, w->batch_returns, b->n, 1);
    feeds_add(f, a->old_value, w->batch_value, b->n, 1);
}

/* What a minibatch's step reports: `fetched`, and how far the policy has moved. */
struct reported {
    struct fetches fetched;
    double kl, clipped; /* means over its rows; of the actor only */
};

/* How far the policy before the step is from the one that played: an estimate of the
 * Kullback-Leibler divergence that is never below 0, (r - 1) - log r, r their quotient
 * (Schulman 2020, "Approximating KL divergence"), and the share of rows that the loss clips on
 * either side. */
static void measure_policy(const struct algo *a, const struct minibatch *b,
                           struct reported *ret)
{
    const double clip = (double)a->live[PG_CLIP_RATIO].value;
    const struct pg_window *w = &a->window;

    ret->kl = ret->clipped = 0;
    for (int64_t i = 0; i < b->n; i++) {
        const double weight = (double)w->weight[i];
        const double d = (double)w->now_log_prob[i] - (double)w->batch_log_prob[i];
        const double r = weight != 0 ? exp_f64(d) : 1;

        if (weight == 0)
            continue;
        ret->kl += weight * (r - 1 - d);
        ret->clipped += weight * (fabs(r - 1) > clip);
    }
}

/* Reports sums over so many minibatches as means. */
static void report_steps(const struct fetches *f, const double *sums,
                         const struct reported *policy, int64_t steps,
                         struct stage_result *ret)
{
    int for_actor = 0;

    for (size_t k = 0; k < f->n; k++) {
        if (f->name[k] != NULL)
            stage_scalar(ret, f->name[k], sums[k] / (double)steps);
        else
            for_actor = 1;
    }
    if (!for_actor)
        return;
    stage_shown(ret, "approx_kl", policy->kl / (double)steps);
    stage_shown(ret, "clip_fraction", policy->clipped / (double)steps);
}

static void report_rates(const struct algo *a, int for_actor, int for_critic,
                         struct stage_result *ret)
{
    if (!share_makes_steps(a->share))
        return;
    if (for_actor)
        stage_scalar(ret, "actor_learning_rate", (double)a->live[PG_ACTOR_RATE].value);
    if (for_critic)
        stage_scalar(ret, "critic_learning_rate", (double)a->live[PG_CRITIC_RATE].value);
}

/* A step of actor, critic or both with the feeds collected, and what it reports. rows: of a
 * minibatch; 0: a ps, which has none. In a group that shares parameters, a member writes its
 * gradients, whose weight is `weight`, and the ps makes the step with their mean. */
static int step_down(struct algo *a, struct session *s, const struct stage_args *args,
                     int for_actor, int for_critic, int64_t rows, float weight,
                     struct fetches *f, struct err *err)
{
    const struct share_range parts = {for_actor ? 0 : 1,
                                      (size_t)(for_actor + for_critic)};
    struct run_args run;

    *f = (struct fetches){0};
    if (share_learns(a->share) && for_actor) {
        fetch_scalar(f, "actor_loss", a->actor_loss);
        fetch_scalar(f, "entropy", a->entropy);
    }
    if (share_learns(a->share) && for_critic)
        fetch_scalar(f, "critic_loss", a->critic_loss);
    if (share_makes_steps(a->share)) {
        feeds_live(&a->feeds, &a->live[PG_ACTOR_RATE]);
        feeds_live(&a->feeds, &a->live[PG_CRITIC_RATE]);
        feeds_live(&a->feeds, &a->live[PG_CLIP_NORM]);
        if (for_actor)
            fetch_scalar(f, "actor_grad_norm", a->norm_of[0]);
        if (for_critic)
            fetch_scalar(f, "critic_grad_norm", a->norm_of[1]);
    }
    if (for_actor && rows > 0)
        fetch_into(f, a->log_prob,
                   tensor_view(DT_FLOAT, SHAPE(rows, 1), a->window.now_log_prob));
    run = collected_run(&a->feeds, f, args, a->train + parts.first, parts.n);
    return share_step(a->share, parts, s, &run, f->value, args, weight, err);
}

/* The same for a minibatch. */
static int learn_minibatch(struct algo *a, struct session *s,
                           const struct stage_args *args, const struct pg_kept *kept,
                           struct minibatch b, struct reported *ret, struct err *err)
{
    int rc = gather_minibatch(a, args, kept, &b, err);

    if (rc < 0)
        return rc;
    feeds_begin(&a->feeds);
    feeds_add(&a->feeds, a->weight, a->window.weight, b.n, 1);
    feeds_live(&a->feeds, &a->live[PG_CLIP_RATIO]);
    if (b.for_actor)
        feed_actor(a, &b);
    if (b.for_critic)
        feed_critic(a, &b);
    rc = step_down(a, s, args, b.for_actor, b.for_critic, b.n, b.alive, &ret->fetched,
                   err);
    if (rc == 0 && b.for_actor)
        measure_policy(a, &b, ret);
    return rc;
}

static int run_epochs(struct algo *a, struct session *s, const struct stage_args *args,
                      const struct pg_kept *kept, int64_t n, struct stage_result *ret,
                      struct err *err)
{
    const int64_t steps = a->settings->epochs * a->settings->minibatches;
    struct minibatch b = {0};
    double sums[FETCHES_MAX] = {0};
    struct reported all = {0}, one = {0};

    for (int64_t i = 0; i < steps; i++) {
        int rc;

        b = choose_rows(a, args, n, i);
        rc = learn_minibatch(a, s, args, kept, b, &one, err);
        if (rc < 0)
            return rc;
        for (size_t k = 0; k < one.fetched.n; k++)
            sums[k] += (double)one.fetched.scalar[k];
        all.kl += one.kl;
        all.clipped += one.clipped;
    }
    report_steps(&one.fetched, sums, &all, steps, ret);
    report_rates(a, b.for_actor, b.for_critic, ret);
    return 0;
}

/* ---- D ---- */

static int run_target_update(struct algo *a, struct session *s,
                             const struct stage_args *args, struct err *err)
{
    const uint64_t every = (uint64_t)a->settings->target_every;

    if (a->update_target == NULL || (every > 0 && (args->update + 1) % every != 0))
        return 0;
    feeds_begin(&a->feeds);
    feeds_live(&a->feeds, &a->live[PG_POLYAK]);
    return feeds_run(&a->feeds, s, every > 0 ? a->init_target : a->update_target, err);
}

/* ---- the stages ---- */

static int learn(struct algo *a, struct session *s, const struct stage_args *args,
                 const struct pg_kept *kept, int64_t n, struct stage_result *ret,
                 struct err *err)
{
    int rc;

    if ((rc = pg_estimate(a, s, args, kept, err)) < 0 ||
        (rc = pg_normalize(a, s, kept, n, a->sums, err)) < 0)
        return rc;
    stage_shown(ret, "explained_variance", a->explained_variance);
    if ((rc = run_epochs(a, s, args, kept, n, ret, err)) < 0)
        return rc;
    return run_target_update(a, s, args, err);
}

static int prepare(struct algo *a, struct session *s, const struct stage_args *args,
                   const struct pg_kept *kept, struct stage_result *ret, struct err *err)
{
    const int rc = pg_estimate(a, s, args, kept, err);

    if (rc == 0)
        stage_shown(ret, "explained_variance", a->explained_variance);
    if (rc < 0 || a->in_turns)
        return rc < 0
                   ? rc
                   : pg_normalize(a, s, kept, args->batch * args->length, a->sums, err);
    stage_output(ret, "sums", tensor_view(DT_DOUBLE, SHAPE(PG_SUMS), a->sums));
    return rc;
}

/* Adds up the sums of all members, in the group's order. */
static int sum_of_group(const struct algo *a, const struct stage_args *args,
                        double ret[PG_SUMS], struct err *err)
{
    const struct share_group *group = share_group(a->share);
    const struct shape want = SHAPE(PG_SUMS);

    memset(ret, 0, PG_SUMS * sizeof(*ret));
    for (size_t i = 0; i < group->n; i++) {
        const char *name = a->agents[group->members[i]].name;
        const struct tensor *t = args->input(args->input_ctx, name, "sums");
        double sums[PG_SUMS];

        if (t == NULL || t->dtype != DT_DOUBLE || !shape_equal(&t->shape, &want))
            return err_set(err, ERR_PROTOCOL, "input %s/sums: float64 (%d) expected",
                           name, PG_SUMS);
        memcpy(sums, t->data, sizeof(sums));
        for (int k = 0; k < PG_SUMS; k++)
            ret[k] += sums[k];
    }
    return 0;
}

static int normalize_shared(struct algo *a, struct session *s,
                            const struct stage_args *args, const struct pg_kept *kept,
                            int64_t n, struct err *err)
{
    double sums[PG_SUMS];
    const int rc = sum_of_group(a, args, sums, err);

    return rc < 0 ? rc : pg_normalize(a, s, kept, n, sums, err);
}

/* Computes the gradients of the actor's loss, or of the critic's. */
static int gradients(struct algo *a, struct session *s, const struct stage_args *args,
                     const struct pg_kept *kept, int64_t n, struct stage_result *ret,
                     struct err *err)
{
    const struct minibatch b = choose_rows(a, args, n, (int64_t)args->repeat);
    struct reported x = {0};
    double sums[FETCHES_MAX];
    const int rc = learn_minibatch(a, s, args, kept, b, &x, err);

    if (rc < 0)
        return rc;
    for (size_t k = 0; k < x.fetched.n; k++)
        sums[k] = (double)x.fetched.scalar[k];
    report_steps(&x.fetched, sums, &x, 1, ret);
    return 0;
}

/* ps: one step of both optimisers down the group's mean losses. */
static int apply(struct algo *a, struct session *s, const struct stage_args *args,
                 struct stage_result *ret, struct err *err)
{
    struct fetches f;
    int rc;

    feeds_begin(&a->feeds);
    rc = step_down(a, s, args, 1, 1, 0, 1, &f, err);
    if (rc < 0)
        return rc;
    fetches_report(&f, ret);
    report_rates(a, 1, 1, ret);
    return 0;
}

static int assign(struct algo *a, struct session *s, const struct stage_args *args,
                  struct err *err)
{
    const struct algorithm_settings *set = a->settings;
    const int rc = share_assign(a->share, SHARE_ALL, s, args, err);

    if (rc < 0 || args->repeat + 1 < (uint64_t)(set->epochs * set->minibatches))
        return rc;
    return run_target_update(a, s, args, err);
}

/* ---- the policy at rows of the window ---- */

void pg_feed_policy(struct algo *a, const struct stage_args *args, int is_next,
                    const uint64_t *rows, int64_t n)
{
    const struct pg_columns *c = &a->columns;
    struct pg_window *w = &a->window;

    gather_input(a, args, is_next ? c->next_obs[0] : c->obs[0], rows, (size_t)n);
    gather_choices(a, args, is_next ? c->next_allowed : c->allowed, rows, (size_t)n);
    feeds_add(&a->feeds, a->input, w->input, n, a->input_width);
    if (a->masked) {
        choices_open(pg_self(a), w->mask, (size_t)n, w->allowed);
        feeds_add(&a->feeds, a->allowed, w->allowed, n, pg_self(a)->width);
    }
}

/* Sets the log-probabilities of the actions taken in all rows. */
static int run_log_prob(struct algo *a, struct session *s, const struct stage_args *args,
                        float *ret, struct err *err)
{
    const int64_t n = args->batch * args->length;
    struct tensor t = tensor_view(DT_FLOAT, SHAPE(n, 1), ret);

    feeds_begin(&a->feeds);
    pg_feed_policy(a, args, 0, args->rows, n);
    feeds_add(&a->feeds, a->action, a->window.action, n, pg_self(a)->width);
    return feeds_fetch(&a->feeds, s, &a->log_prob, &t, 1, err);
}

/* ---- happo ---- */

/* Reads the product of the quotients of the agents that had their turns before. The first
 * agent reads ones, (1, E, T). */
static int read_factor(struct algo *a, const struct stage_args *args, int64_t n,
                       struct err *err)
{
    const struct tensor *t = args->input(args->input_ctx, INPUT_PREVIOUS, "factor");
    const int64_t elements = t != NULL && t->dtype == DT_FLOAT ? tensor_elements(t) : 0;

    if (elements != n && elements != a->teams * n)
        return err_set(err, ERR_PROTOCOL,
                       "input " INPUT_PREVIOUS "/factor: f32 (%lld,%lld,%lld) expected",
                       (long long)a->teams, (long long)args->batch,
                       (long long)args->length);
    for (int64_t k = 0; k < a->teams; k++)
        memcpy(a->window.factor + k * n,
               (const char *)t->data +
                   (elements > n ? k * n : 0) * (int64_t)sizeof(float),
               (size_t)n * sizeof(float));
    return 0;
}

/* M min(r A, clip(r) A) is min(r M A, clip(r) M A), since M is not below 0. */
static int turn(struct algo *a, struct session *s, const struct stage_args *args,
                const struct pg_kept *kept, int64_t n, struct stage_result *ret,
                struct err *err)
{
    struct pg_window *w = &a->window;
    float *before = w->log_prob, *after = w->scaled_value, *advantage = w->next_value;
    float *factor = w->factor + a->team * n;
    const struct pg_kept weighted = {kept->value, advantage, kept->returns};
    int rc;

    if ((rc = read_factor(a, args, n, err)) < 0 ||
        (rc = run_log_prob(a, s, args, before, err)) < 0)
        return rc;
    for (int64_t i = 0; i < n; i++)
        advantage[i] = factor[i] * kept->advantage[i];
    if ((rc = run_epochs(a, s, args, &weighted, n, ret, err)) < 0 ||
        (rc = run_log_prob(a, s, args, after, err)) < 0)
        return rc;
    store_view_gather(args->store, a->columns.alive, args->rows, (size_t)n, w->alive, 1);
    for (int64_t i = 0; i < n; i++)
        if (w->alive[i] != 0)
            factor[i] *= (float)exp_f64((double)(after[i] - before[i]));
    stage_output(
        ret, "factor",
        tensor_view(DT_FLOAT, SHAPE(a->teams, args->batch, args->length), w->factor));
    return 0;
}

static int critic(struct algo *a, struct session *s, const struct stage_args *args,
                  const struct pg_kept *kept, int64_t n, struct stage_result *ret,
                  struct err *err)
{
    const int rc = run_epochs(a, s, args, kept, n, ret, err);

    return rc < 0 ? rc : run_target_update(a, s, args, err);
}

/* A stage that works on the window's rows. */
static int window_stage(struct algo *a, struct session *s, const struct stage_args *args,
                        struct stage_result *ret, struct err *err)
{
    const char *name = args->stage->name;
    const int64_t n = args->batch * args->length;
    struct pg_kept kept;
    int rc;

    if (args->groups != 1 || args->store == NULL || n < a->settings->minibatches)
        return err_set(err, ERR_ARG,
                       "stage %s: a window of rows expected, a row for each minibatch",
                       name);
    if ((rc = pg_reserve(a, n, err)) < 0 || (rc = pg_open_kept(a, s, n, &kept, err)) < 0)
        return rc;
    if (strcmp(name, "propose") == 0)
        return pg_propose(a, s, args, ret, err);
    if (strcmp(name, "prepare") == 0)
        return prepare(a, s, args, &kept, ret, err);
    if (strcmp(name, "normalize") == 0)
        return normalize_shared(a, s, args, &kept, n, err);
    if (strcmp(name, "turn") == 0)
        return turn(a, s, args, &kept, n, ret, err);
    if (a->in_turns)
        return critic(a, s, args, &kept, n, ret, err);
    if (strcmp(name, "learn") != 0)
        return gradients(a, s, args, &kept, n, ret, err);
    return learn(a, s, args, &kept, n, ret, err);
}

int pg_stage(struct algo *a, struct session *s, const struct stage_args *args,
             struct stage_result *ret, struct err *err)
{
    const int rc = lives_read(a->live, PG_LIVES, s, args->step, err);

    if (rc < 0)
        return rc;
    if (strcmp(args->stage->name, "apply") == 0)
        return apply(a, s, args, ret, err);
    if (strcmp(args->stage->name, "assign") == 0)
        return assign(a, s, args, err);
    return window_stage(a, s, args, ret, err);
}
