#include "agent/algo/maddpg.h"

#include "agent/algo/choices.h"
#include "agent/algo/rows.h"
#include "agent/algo/share.h"
#include "common/mem/copy.h"
#include "common/mem/xmalloc.h"
#include "common/rng/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- places for a batch ---- */

static size_t lay_out(struct algo *a, float *base, size_t rows, size_t group_rows)
{
    struct batch *b = &a->batch;
    const struct space *self = maddpg_self(a);
    size_t used = 0;

    b->joint = rows_take(base, &used, rows * (size_t)a->joint_width);
    b->own_next = rows_take(base, &used, group_rows * (size_t)a->seen.input);
    b->proposal = rows_take(base, &used, group_rows * (size_t)self->width);
    b->proposer_alive = rows_take(base, &used, group_rows);
    b->proposer_over = rows_take(base, &used, group_rows);
    if (a->smoothing)
        b->noise = rows_take(base, &used, group_rows * (size_t)self->width);
    b->reward = rows_take(base, &used, rows);
    b->terminated = rows_take(base, &used, rows);
    b->alive = rows_take(base, &used, rows);
    b->weight = rows_take(base, &used, rows);
    b->target = rows_take(base, &used, rows);
    b->next_q = rows_take(base, &used, rows);
    b->joint_rows = (void *)rows_take_bytes(base, &used, rows * sizeof(*b->joint_rows));
    if (a->masked) {
        b->mask = rows_take_bytes(base, &used, group_rows * (size_t)self->width);
        b->allowed = rows_take(base, &used, group_rows * (size_t)self->width);
    }
    return used;
}

static int reserve(struct algo *a, int64_t rows, int64_t group_rows, struct err *err)
{
    struct batch *b = &a->batch;
    size_t floats;

    if (rows <= b->rows && group_rows <= b->group_rows)
        return 0;
    b->rows = b->group_rows = 0;
    b->gathered = 0;
    floats = lay_out(a, NULL, (size_t)rows, (size_t)group_rows);
    if (rows_allocate(&b->memory, floats, rows, err) < 0)
        return ERR_NOMEM;
    (void)lay_out(a, b->memory, (size_t)rows, (size_t)group_rows);
    b->rows = rows;
    b->group_rows = group_rows;
    return 0;
}

/* ---- rows of the log ---- */

void maddpg_reads(struct algo *a, struct reads *r)
{
    seen_reads(&a->seen, a->masked, r);
    reward_scale_reads(&a->scale, r);
}

static void turn_actions(struct algo *a, const struct stage_args *args, size_t n)
{
    float *x = a->batch.joint + a->seen.obs;

    for (size_t i = 0; args->symmetry != NULL && i < a->seen.n; i++) {
        const size_t j = a->seen.agent[i];

        symmetry_action(args->symmetry, j, n, x, (size_t)a->joint_width);
        x += a->agents[j].width;
    }
}

static void gather_joint(struct algo *a, const struct store_view *store,
                         const uint64_t *rows, size_t n)
{
    const size_t stride = (size_t)a->joint_width, seen = a->seen.n;
    const struct seen_columns *c = &a->seen.columns;
    float *x = a->batch.joint;

    if (a->seen.id.width == 0) { /* obs and action in one pass */
        store_view_gather_joined(store, c->obs, 2 * seen, rows, n, x, stride);
        return;
    }
    seen_gather(&a->seen, store, c->obs, rows, n, x, stride);
    store_view_gather_joined(store, c->action, seen, rows, n, x + a->seen.obs, stride);
}

/* Gathers the critic's input at the rows. Rows of the log never change, so rows that are
 * already in the matrix are not gathered again. */
static void gather(struct algo *a, const struct stage_args *args, const uint64_t *rows,
                   size_t n)
{
    struct batch *b = &a->batch;

    if (b->gathered == n && b->update == args->update &&
        memcmp(b->joint_rows, rows, n * sizeof(*rows)) == 0)
        return;
    gather_joint(a, args->store, rows, n);
    seen_turn(&a->seen, args->symmetry, n, b->joint, (size_t)a->joint_width);
    turn_actions(a, args, n);
    memcpy(b->joint_rows, rows, n * sizeof(*rows));
    b->update = args->update;
    b->gathered = n;
}

static void gather_next(struct algo *a, const struct stage_args *args,
                        const uint64_t *rows, size_t n)
{
    const struct seen_columns *c = &a->seen.columns;
    const struct store_view *store = args->store;
    const size_t stride = (size_t)a->joint_width;
    struct batch *b = &a->batch;

    b->gathered = 0;
    seen_gather(&a->seen, store, c->next_obs, rows, n, b->joint, stride);
    seen_turn(&a->seen, args->symmetry, n, b->joint, stride);
    store_view_gather(store, c->reward, rows, n, b->reward, 1);
    store_view_gather(store, c->life.terminated, rows, n, b->terminated, 1);
    store_view_gather(store, c->life.alive, rows, n, b->alive, 1);
}

/* Feeds the masks at the rows (`allowed`) or after them (`next_allowed`). */
static void feed_allowed(struct algo *a, const struct stage_args *args, int column,
                         const uint64_t *rows, int64_t n)
{
    struct batch *b = &a->batch;

    store_view_gather_bytes(args->store, column, rows, (size_t)n, b->mask);
    symmetry_mask(args->symmetry, a->self, (size_t)n, b->mask);
    choices_open(maddpg_self(a), b->mask, (size_t)n, b->allowed);
    feeds_add(&a->feeds, a->allowed, b->allowed, n, maddpg_self(a)->width);
}

/* ---- propose ---- */

/* matd3: adds the smoothing noise to n proposals. */
static void smooth(struct algo *a, const struct stage_args *args, int64_t n)
{
    const struct space *space = maddpg_self(a);
    const size_t elements = (size_t)(n * space->width);
    const float low = (float)space->low, high = (float)space->high;
    const float half = (high - low) / 2;
    const float deviation = a->live[LIVE_TARGET_NOISE].value;
    const float clip = a->live[LIVE_TARGET_NOISE_CLIP].value;
    const float *noise = a->batch.noise;
    float *x = a->batch.proposal;

    rng_normal_f32(rng_key_derive(args->key, "smoothing"), args->counter, 0,
                   a->batch.noise, elements);
    for (size_t i = 0; i < elements; i++) {
        const float e = fminf(fmaxf(deviation * noise[i], -clip), clip);

        x[i] = fminf(fmaxf(x[i] + half * e, low), high);
    }
}

/* Runs the target policy at the agent's next observations of n rows, under the newest
 * draw of symmetries, into batch.proposal. */
static int propose_at(struct algo *a, struct session *s, const struct stage_args *args,
                      const uint64_t *rows, int64_t n, struct err *err)
{
    const struct space *self = maddpg_self(a);
    struct batch *b = &a->batch;
    struct fetches proposed = {0};
    struct run_args run;
    int r;

    seen_gather_own_next(&a->seen, args, rows, (size_t)n, b->own_next);
    feeds_begin(&a->feeds);
    feeds_add(&a->feeds, a->obs[a->seen.own], b->own_next, n, a->seen.input);
    if (!a->deterministic)
        feeds_live(&a->feeds, &a->live[LIVE_TEMPERATURE]);
    if (a->masked)
        feed_allowed(a, args, a->seen.columns.next_allowed, rows, n);
    fetch_into(&proposed, a->target_policy.action,
               tensor_view(DT_FLOAT, SHAPE(n, self->width), b->proposal));
    run = collected_run(&a->feeds, &proposed, args, NULL, 0);
    r = session_run(s, &run, proposed.value, err);
    if (r == 0 && a->smoothing)
        smooth(a, args, n);
    if (r == 0)
        rows_leave_out_absent(args->store, &a->seen.columns.life, rows, (size_t)n,
                              b->proposer_alive, b->proposer_over, self->width,
                              b->proposal);
    return r;
}

static int propose(struct algo *a, struct session *s, const struct stage_args *args,
                   struct stage_result *ret, struct err *err)
{
    const int64_t n = args->groups * args->batch;
    int r = symmetry_draw(args->symmetry, args->update, 0, (size_t)n, err);

    if (r < 0 || (r = propose_at(a, s, args, args->rows, n, err)) < 0)
        return r;
    stage_output(ret, "action",
                 tensor_view(DT_FLOAT,
                             SHAPE(args->groups, args->batch, maddpg_self(a)->width),
                             a->batch.proposal));
    return 0;
}

/* ---- learn ---- */

/* Whether the update moves the policy and the targets. */
static int moves_policy(const struct algo *a, const struct stage_args *args)
{
    return !a->twin || (args->update + 1) % (uint64_t)a->settings->policy_delay == 0;
}

/* Copies an agent's actions (n, width) into the joint matrix at `column`. Returns the
 * next free column. */
static int64_t put_actions(struct algo *a, int64_t column, const float *actions,
                           int64_t n, int64_t width)
{
    const size_t bytes = (size_t)width * sizeof(float);

    copy_rows(a->batch.joint + column, (size_t)a->joint_width * sizeof(float), actions,
              bytes, (size_t)n, bytes);
    return column + width;
}

/* Puts the seen agents' proposals for the rows of one group into the joint matrix. An
 * agent without the setting `symmetry`, which does not learn, proposes for the rows as
 * they are stored; its actions are turned here. */
static int put_proposals(struct algo *a, const struct stage_args *args, int64_t group,
                         struct err *err)
{
    int64_t column = a->seen.obs;

    for (size_t i = 0; i < a->seen.n; i++) {
        const size_t j = a->seen.agent[i];
        const struct space *s = &a->agents[j];
        float *x = a->batch.joint + column;
        const float *proposed;
        int r = rows_input(args, s->name, "action", s->width, group, &proposed, err);

        if (r < 0)
            return r;
        column = put_actions(a, column, proposed, args->batch, s->width);
        if (!s->symmetric)
            symmetry_action(args->symmetry, j, (size_t)args->batch, x,
                            (size_t)a->joint_width);
    }
    return 0;
}

/* matd3: divides weight (n), alive w of each row, by its mean, so that the mean of weight x
 * is the weighted mean of x. A sum of the weights below 1 counts as 1. Returns the sum, or 0
 * if all weights are 0. */
static float normalize(float *weight, int64_t n)
{
    double sum = 0;
    float scale;

    for (int64_t i = 0; i < n; i++)
        sum += (double)weight[i];
    scale = (float)((double)n / fmax(sum, 1));
    for (int64_t i = 0; i < n; i++)
        weight[i] *= scale;
    return sum > 0 ? (float)fmax(sum, 1) : 0;
}

/* Sets batch.weight and batch.divisor for the rows; batch.alive is gathered before. */
static void weigh(struct algo *a, const float *weights, int64_t n)
{
    rows_weights(a->batch.weight, weights, a->batch.alive, n);
    a->batch.divisor = a->twin ? normalize(a->batch.weight, n) : 1;
}

/* Feeds columns of the joint matrix. */
static void feed_columns(struct algo *a, struct output x, int64_t column, int64_t width,
                         int64_t n)
{
    feeds_columns(&a->feeds, x, a->batch.joint + column, n, width, a->joint_width);
}

static void feed_critic(struct algo *a, const struct critic *c, int64_t n)
{
    if (output_valid(c->input)) {
        feed_columns(a, c->input, 0, a->joint_width, n);
        return;
    }
    feed_columns(a, a->joint_obs, 0, a->seen.obs, n);
    feed_columns(a, c->actions, a->seen.obs, a->joint_width - a->seen.obs, n);
}

/* Feeds the policy's observations, and everything that the critic sees but the agent's
 * own action. */
static void feed_actor(struct algo *a, int64_t n)
{
    int64_t action = a->seen.obs;

    if (a->seen.n > 1)
        feed_columns(a, a->joint_obs, 0, a->seen.obs, n);
    for (size_t i = 0; i < a->seen.n; i++) {
        const int64_t width = a->agents[a->seen.agent[i]].width;

        if (i == a->seen.own)
            feed_columns(a, a->obs[i], a->seen.own_obs, a->seen.input, n);
        else
            feed_columns(a, a->action[i], action, width, n);
        action += width;
    }
}

/* The learner's part among those that a group shares. */
static struct share_range part_of(const struct algo *a, const struct learner *l)
{
    return (struct share_range){l == &a->actor_learner, 1};
}

/* Tries changes of the network. Creates the optimiser's table on first use; it depends on
 * the stage's key alone, so a respawned agent creates the same one. */
static int try_changes(struct algo *a, struct session *s, const struct stage_args *args,
                       struct learner *l, const struct run_args *run,
                       struct tensor *values, struct err *err)
{
    float loss;
    int r = 0;

    if (l->trials == NULL) {
        char *scope = xasprintf("%s/%s", maddpg_self(a)->name, l->scope);

        r = accept_reject_new(&l->trials, s, scope,
                              rng_key_derive(args->key, "accept_reject"), err);
        free(scope);
    }
    if (r == 0)
        r = accept_reject_begin(l->trials, run, values, err);
    for (int64_t i = 0; i < l->optimizer->tries && r >= 0; i++)
        r = accept_reject_step(l->trials, a->live[l->rate].value, &loss, err);
    return r < 0 ? r : 0;
}

/* One update of a network, with the feeds and fetches collected, of which the loss is the
 * first: an optimiser's step, or in a group that shares parameters a part of one; or
 * trials. Reports what was fetched, before the update, and the gradient's norm. */
static int update_network(struct algo *a, struct session *s,
                          const struct stage_args *args, struct learner *l,
                          struct fetches *fetched, struct stage_result *ret,
                          struct err *err)
{
    const int tries = a->share == NULL && l->train == NULL;
    struct run_args run;
    int r;

    if (!tries && share_makes_steps(a->share)) {
        feeds_live(&a->feeds, &a->live[l->rate]);
        feeds_live(&a->feeds, &a->live[LIVE_CLIP_NORM]);
        fetch_scalar(fetched, l->norm_name, l->norm);
    }
    run = collected_run(&a->feeds, fetched, args, &l->train, !tries);
    if (tries)
        r = try_changes(a, s, args, l, &run, fetched->value, err);
    else
        r = share_step(a->share, part_of(a, l), s, &run, fetched->value, args,
                       a->batch.divisor, err);
    if (r < 0)
        return r;
    fetches_report(fetched, ret);
    if (tries || share_makes_steps(a->share))
        stage_scalar(ret, l->rate_name, (double)a->live[l->rate].value);
    return 0;
}

/* A: batch.next_q = target critic (next observations, proposals). */
static int run_target_critic(struct algo *a, struct session *s, int64_t n,
                             struct err *err)
{
    struct tensor q = tensor_view(DT_FLOAT, SHAPE(n, 1), a->batch.next_q);

    feeds_begin(&a->feeds);
    feed_critic(a, &a->target_critic, n);
    return feeds_fetch(&a->feeds, s, &a->target_critic.q, &q, 1, err);
}

/* B. Also fetches the critic's errors, into batch.next_q, which is no longer needed
 * then. */
static int run_critic(struct algo *a, struct session *s, const struct stage_args *args,
                      int64_t n, struct stage_result *ret, struct err *err)
{
    struct batch *b = &a->batch;
    struct fetches fetched = {0};
    int r;

    feeds_begin(&a->feeds);
    feed_critic(a, &a->critic, n);
    feeds_add(&a->feeds, a->target, b->target, n, 1);
    feeds_add(&a->feeds, a->weight, b->weight, n, 1);
    fetch_scalar(&fetched, "critic_loss", a->critic_loss);
    fetch_scalar(&fetched, "q_mean", a->q_mean);
    fetch_into(&fetched, a->td, tensor_view(DT_FLOAT, SHAPE(n, 1), b->next_q));
    r = update_network(a, s, args, &a->critic_learner, &fetched, ret, err);
    if (r == 0)
        rows_td_error(b->next_q, b->weight, n, ret);
    if (r == 0 && args->weights != NULL)
        rows_priorities(b->next_q, b->weight, n, ret);
    return r;
}

/* C */
static int run_actor(struct algo *a, struct session *s, const struct stage_args *args,
                     const uint64_t *rows, int64_t n, struct stage_result *ret,
                     struct err *err)
{
    struct fetches fetched = {0};

    feeds_begin(&a->feeds);
    feed_actor(a, n);
    feeds_live(&a->feeds, &a->live[LIVE_LOGIT_PENALTY]);
    if (a->twin)
        feeds_add(&a->feeds, a->weight, a->batch.weight, n, 1);
    if (!a->deterministic)
        feeds_live(&a->feeds, &a->live[LIVE_TEMPERATURE]);
    if (a->masked)
        feed_allowed(a, args, a->seen.columns.allowed, rows, n);
    fetch_scalar(&fetched, "actor_loss", a->actor_loss);
    return update_network(a, s, args, &a->actor_learner, &fetched, ret, err);
}

/* D */
static int run_target_updates(struct algo *a, struct session *s, struct err *err)
{
    feeds_begin(&a->feeds);
    feeds_live(&a->feeds, &a->live[LIVE_POLYAK]);
    return feeds_run(&a->feeds, s, a->update_targets, err);
}

/* A and B. */
static int learn_critic(struct algo *a, struct session *s, const struct stage_args *args,
                        struct stage_result *ret, struct err *err)
{
    const int64_t n = args->batch;
    const int64_t group = rows_group(args, a->self);
    const uint64_t *rows = args->rows + group * n;
    const float *weights = args->weights != NULL ? args->weights + group * n : NULL;
    struct batch *b = &a->batch;
    struct reward_scaling scale;
    int r;

    if ((r = symmetry_draw(args->symmetry, args->update, (uint64_t)(group * n), (size_t)n,
                           err)) < 0 ||
        (r = reward_scale_read(&a->scale, s, args, &scale, err)) < 0)
        return r;
    gather_next(a, args, rows, (size_t)n);
    if (a->one_stage) {
        if ((r = propose_at(a, s, args, rows, n, err)) < 0)
            return r;
        (void)put_actions(a, a->seen.obs, a->batch.proposal, n, maddpg_self(a)->width);
    } else if ((r = put_proposals(a, args, group, err)) < 0) {
        return r;
    }
    if ((r = run_target_critic(a, s, n, err)) < 0)
        return r;
    reward_scale_apply(&scale, b->reward, n);
    rows_targets(b->target, b->reward, b->terminated, b->next_q,
                 a->live[LIVE_DISCOUNT].value, n, ret);
    weigh(a, weights, n);
    gather(a, args, rows, (size_t)n);
    return run_critic(a, s, args, n, ret, err);
}

/* C. The rows are usually those that the critic has just learnt from. */
static int learn_policy(struct algo *a, struct session *s, const struct stage_args *args,
                        struct stage_result *ret, struct err *err)
{
    const int64_t n = args->batch, first = rows_group(args, a->self) * n;
    const uint64_t *rows = args->rows + first;
    int r;

    if ((r = symmetry_draw(args->symmetry, args->update, (uint64_t)first, (size_t)n,
                           err)) < 0)
        return r;
    gather(a, args, rows, (size_t)n);
    a->batch.gathered = 0;
    a->batch.divisor = 1;
    if (a->twin) {
        store_view_gather(args->store, a->seen.columns.life.alive, rows, (size_t)n,
                          a->batch.alive, 1);
        weigh(a, args->weights != NULL ? args->weights + first : NULL, n);
    }
    return run_actor(a, s, args, rows, n, ret, err);
}

/* ---- agents that share parameters ---- */

/* The network that this step moves; NULL: none, since this update does not move the
 * policy. */
static struct learner *learner_of(struct algo *a, const struct stage_args *args)
{
    if (args->repeat == 0)
        return &a->critic_learner;
    return moves_policy(a, args) ? &a->actor_learner : NULL;
}

/* ps: one step down the group's mean loss. */
static int apply(struct algo *a, struct session *s, const struct stage_args *args,
                 struct stage_result *ret, struct err *err)
{
    struct learner *l = learner_of(a, args);
    struct fetches fetched = {0};

    feeds_begin(&a->feeds);
    return l == NULL ? 0 : update_network(a, s, args, l, &fetched, ret, err);
}

static int assign(struct algo *a, struct session *s, const struct stage_args *args,
                  struct err *err)
{
    const struct learner *l = learner_of(a, args);
    int r = l != NULL ? share_assign(a->share, part_of(a, l), s, args, err) : 0;

    if (r < 0 || l == NULL)
        return r;
    return l == &a->critic_learner ? reward_scale_read(&a->scale, s, args, NULL, err)
                                   : run_target_updates(a, s, err);
}

/* ---- the stages ---- */

/* Every stage with rows, except propose. */
static int learn(struct algo *a, struct session *s, const struct stage_args *args,
                 struct stage_result *ret, struct err *err)
{
    const int shares = a->share != NULL;
    int r;

    if (shares ? args->repeat == 0 : strcmp(args->stage->name, "critic") == 0)
        return learn_critic(a, s, args, ret, err);
    if (!shares && a->one_stage && (r = learn_critic(a, s, args, ret, err)) < 0)
        return r;
    if (!moves_policy(a, args))
        return 0;
    r = learn_policy(a, s, args, ret, err);
    return r < 0 || shares ? r : run_target_updates(a, s, err);
}

int maddpg_stage(struct algo *a, struct session *s, const struct stage_args *args,
                 struct stage_result *ret, struct err *err)
{
    int r = lives_read(a->live, LIVE_COUNT, s, args->step, err);

    if (r < 0)
        return r;
    if (a->share != NULL && args->stage->writes)
        return share_is_ps(a->share) ? apply(a, s, args, ret, err)
                                     : assign(a, s, args, err);
    if ((r = rows_check(args, a->n_agents, err)) < 0 ||
        (r = reserve(a, args->batch, args->groups * args->batch, err)) < 0)
        return r;
    return strcmp(args->stage->name, "propose") == 0 ? propose(a, s, args, ret, err)
                                                     : learn(a, s, args, ret, err);
}
