/* The stages: each gathers its rows and runs the session. */
#include "agent/algo/choices.h"
#include "agent/algo/rows.h"
#include "agent/algo/sac.h"
#include "agent/algo/share.h"
#include "common/mem/copy.h"
#include "common/rng/rng.h"

#include <string.h>

/* ---- places for a batch ---- */

static size_t lay_out(struct algo *a, float *base, size_t rows, size_t group_rows)
{
    const size_t width = (size_t)sac_self(a)->width, choices = (size_t)a->n_choices;
    struct sac_batch *b = &a->batch;
    const struct {
        float **place;
        size_t floats;
    } all[] = {
        {&b->state, rows * (size_t)a->state_width},
        {&b->action, rows * width},
        {&b->choice, rows * choices},
        {&b->reward, rows},
        {&b->terminated, rows},
        {&b->weight, rows},
        {&b->target, rows},
        {&b->next_value, rows},
        {&b->error, rows},
        {&b->obs, group_rows * (size_t)a->seen.input},
        {&b->proposal, group_rows * width},
        {&b->p, group_rows * choices},
        {&b->log_prob, group_rows * (size_t)a->n_log_probs},
        {&b->noise, group_rows * (sac_is_box(a) ? width : 1)},
        {&b->alive, group_rows},
        {&b->over, group_rows},
        {&b->open, a->masked ? group_rows * choices : 0},
    };
    size_t used = 0;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        *all[i].place = rows_take(base, &used, all[i].floats);
    b->mask = rows_take_bytes(base, &used, a->masked ? group_rows * width : 0);
    return used;
}

static int reserve(struct algo *a, int64_t rows, int64_t group_rows, struct err *err)
{
    struct sac_batch *b = &a->batch;
    const size_t floats = lay_out(a, NULL, (size_t)rows, (size_t)group_rows);

    if (rows > b->rows || group_rows > b->group_rows) {
        b->rows = b->group_rows = 0;
        if (rows_allocate(&b->memory, floats, rows, err) < 0)
            return ERR_NOMEM;
        b->rows = rows;
        b->group_rows = group_rows;
    }
    (void)lay_out(a, b->memory, (size_t)rows, (size_t)group_rows);
    return 0;
}

/* ---- rows of the log ---- */

void sac_reads(struct algo *a, struct reads *r)
{
    seen_reads(&a->seen, a->masked, r);
    reward_scale_reads(&a->scale, r);
}

/* Gathers the state's observations: `columns`, one of each seen agent. */
static void gather_obs(struct algo *a, const struct stage_args *args, const int *columns,
                       const uint64_t *rows, size_t n)
{
    const size_t stride = (size_t)a->state_width;

    seen_gather(&a->seen, args->store, columns, rows, n, a->batch.state, stride);
    seen_turn(&a->seen, args->symmetry, n, a->batch.state, stride);
}

/* Gathers state and own action of the rows. */
static void gather(struct algo *a, const struct stage_args *args, const uint64_t *rows,
                   int64_t n)
{
    const struct seen_columns *c = &a->seen.columns;
    struct sac_batch *b = &a->batch;
    float *others = b->state + a->seen.obs;

    gather_obs(a, args, c->obs, rows, (size_t)n);
    for (size_t i = 0; i < a->seen.n; i++) {
        const size_t j = a->seen.agent[i], width = (size_t)a->agents[j].width;
        float *x = j == a->self ? b->action : others;
        const size_t stride = j == a->self ? width : (size_t)a->state_width;

        store_view_gather(args->store, c->action[i], rows, (size_t)n, x, stride);
        symmetry_action(args->symmetry, j, (size_t)n, x, stride);
        others += j == a->self ? 0 : width;
    }
    if (!sac_is_box(a))
        choices_one_hot(sac_self(a), b->action, n, a->n_choices, b->choice);
}

static void gather_weights(struct algo *a, const struct stage_args *args,
                           const uint64_t *rows, const float *weights, int64_t n)
{
    struct sac_batch *b = &a->batch;

    store_view_gather(args->store, a->seen.columns.life.alive, rows, (size_t)n, b->alive,
                      1);
    rows_weights(b->weight, weights, b->alive, n);
    b->divisor = rows_mean(b->weight, n);
}

/* Feeds the choices that are possible at the rows (`allowed`) or after them
 * (`next_allowed`). */
static void feed_allowed(struct algo *a, const struct stage_args *args, int column,
                         const uint64_t *rows, int64_t n)
{
    struct sac_batch *b = &a->batch;

    if (!a->masked)
        return;
    store_view_gather_bytes(args->store, column, rows, (size_t)n, b->mask);
    symmetry_mask(args->symmetry, a->self, (size_t)n, b->mask);
    sac_open_choices(a, b->mask, n, b->open);
    feeds_add(&a->feeds, a->allowed, b->open, n, a->n_choices);
}

/* Feeds n rows of normal numbers, for a box only. */
static void feed_noise(struct algo *a, const struct stage_args *args, const char *label,
                       int64_t n)
{
    const int64_t width = sac_self(a)->width;

    if (!sac_is_box(a))
        return;
    rng_normal_f32(rng_key_derive(args->key, label), args->counter, 0, a->batch.noise,
                   (size_t)(n * width));
    feeds_add(&a->feeds, a->policy.noise, a->batch.noise, n, width);
}

/* ---- propose ---- */

/* Runs the policy at the agent's next observations of n rows, under the newest draw of
 * symmetries. Sets proposal and log_prob. */
static int propose_at(struct algo *a, struct session *s, const struct stage_args *args,
                      const uint64_t *rows, int64_t n, struct err *err)
{
    struct sac_batch *b = &a->batch;
    const int box = sac_is_box(a);
    const struct output fetches[] = {a->policy.log_prob,
                                     box ? a->policy.action : a->policy.p};
    struct tensor values[] = {
        tensor_view(DT_FLOAT, SHAPE(n, a->n_log_probs), b->log_prob),
        tensor_view(DT_FLOAT, SHAPE(n, a->n_values), box ? b->proposal : b->p)};
    int rc;

    seen_gather_own_next(&a->seen, args, rows, (size_t)n, b->obs);
    feeds_begin(&a->feeds);
    feeds_add(&a->feeds, a->observation, b->obs, n, a->seen.input);
    feed_noise(a, args, "next", n);
    feed_allowed(a, args, a->seen.columns.next_allowed, rows, n);
    rc = feeds_fetch(&a->feeds, s, fetches, values, 2, err);
    if (rc == 0 && !box) {
        rng_uniform_f32(rng_key_derive(args->key, "next"), args->counter, 0, b->noise,
                        (size_t)n);
        sac_draw_choices(a, b->p, b->noise, n, b->proposal);
    }
    if (rc == 0)
        rows_leave_out_absent(args->store, &a->seen.columns.life, rows, (size_t)n,
                              b->alive, b->over, sac_self(a)->width, b->proposal);
    return rc;
}

static int propose(struct algo *a, struct session *s, const struct stage_args *args,
                   struct stage_result *ret, struct err *err)
{
    const int64_t groups = args->groups, batch = args->batch;
    int rc =
        symmetry_draw(args->symmetry, args->update, 0, (size_t)(groups * batch), err);

    if (rc == 0)
        rc = propose_at(a, s, args, args->rows, groups * batch, err);
    if (rc < 0)
        return rc;
    stage_output(ret, "action",
                 tensor_view(DT_FLOAT, SHAPE(groups, batch, sac_self(a)->width),
                             a->batch.proposal));
    stage_output(
        ret, "log_prob",
        tensor_view(DT_FLOAT, SHAPE(groups, batch, a->n_log_probs), a->batch.log_prob));
    return 0;
}

/* ---- critic ---- */

/* Copies the others' proposals into the state, the own one to `action` and `log_prob`. An
 * agent without the setting `symmetry`, which does not learn, proposes for the rows as
 * they are stored; its actions are turned here. */
static int take_proposals(struct algo *a, const struct stage_args *args, int64_t group,
                          struct err *err)
{
    const size_t n = (size_t)args->batch, stride = (size_t)a->state_width;
    float *others = a->batch.state + a->seen.obs;
    const float *x;
    int rc;

    for (size_t i = 0; i < a->seen.n; i++) {
        const size_t j = a->seen.agent[i];
        const struct space *s = &a->agents[j];
        const size_t bytes = (size_t)s->width * sizeof(float);

        if ((rc = rows_input(args, s->name, "action", s->width, group, &x, err)) < 0)
            return rc;
        if (j == a->self) {
            memcpy(a->batch.action, x, n * bytes);
            continue;
        }
        copy_rows(others, stride * sizeof(float), x, bytes, n, bytes);
        if (!s->symmetric)
            symmetry_action(args->symmetry, j, n, others, stride);
        others += s->width;
    }
    rc = rows_input(args, sac_self(a)->name, "log_prob", a->n_log_probs, group, &x, err);
    if (rc == 0)
        memcpy(a->batch.log_prob, x, n * (size_t)a->n_log_probs * sizeof(float));
    return rc;
}

/* isac: makes the proposal itself. */
static int make_proposal(struct algo *a, struct session *s, const struct stage_args *args,
                         const uint64_t *rows, struct err *err)
{
    const size_t n = (size_t)args->batch;
    int rc = propose_at(a, s, args, rows, args->batch, err);

    memcpy(a->batch.action, a->batch.proposal,
           n * (size_t)sac_self(a)->width * sizeof(float));
    return rc;
}

static void feed_action(struct algo *a, int64_t n)
{
    feeds_add(&a->feeds, a->action, sac_is_box(a) ? a->batch.action : a->batch.choice, n,
              a->n_values);
}

/* A: sets batch.next_value. */
static int run_next_value(struct algo *a, struct session *s,
                          const struct stage_args *args, const uint64_t *rows,
                          int64_t group, struct err *err)
{
    const int64_t n = args->batch;
    struct sac_batch *b = &a->batch;
    struct tensor value = tensor_view(DT_FLOAT, SHAPE(n, 1), b->next_value);
    int rc = a->one_stage ? make_proposal(a, s, args, rows, err)
                          : take_proposals(a, args, group, err);

    if (rc < 0)
        return rc;
    gather_obs(a, args, a->seen.columns.next_obs, rows, (size_t)n);
    feeds_begin(&a->feeds);
    feeds_add(&a->feeds, a->state, b->state, n, a->state_width);
    feeds_add(&a->feeds, a->next_log_prob, b->log_prob, n, a->n_log_probs);
    if (sac_is_box(a))
        feed_action(a, n);
    return feeds_fetch(&a->feeds, s, &a->next_value, &value, 1, err);
}

/* ---- steps ---- */

static const struct share_range critic_step = {SAC_CRITIC, 1},
                                policy_step = {SAC_ACTOR, 2}; /* and the temperature */

/* Makes the step with the feeds and fetches collected, and reports what was fetched. In a
 * group that shares parameters, a member writes its gradients, and the ps makes the step
 * with their mean. */
static int run_step(struct algo *a, struct session *s, const struct stage_args *args,
                    struct share_range step, struct fetches *fetched,
                    struct stage_result *ret, struct err *err)
{
    static const char *const norms[SAC_STEPS] = {"critic_grad_norm", "actor_grad_norm"};
    struct run_args run;
    int rc;

    if (share_makes_steps(a->share)) {
        feeds_live(&a->feeds, &a->live[SAC_CLIP_NORM]);
        for (size_t i = step.first; i < step.first + step.n; i++)
            feeds_live(&a->feeds, &a->live[SAC_CRITIC_RATE + i]);
        fetch_scalar(fetched, norms[step.first], a->norm[step.first]);
    }
    run = collected_run(&a->feeds, fetched, args, &a->train[step.first], step.n);
    rc = share_step(a->share, step, s, &run, fetched->value, args, a->batch.divisor, err);
    if (rc < 0)
        return rc;
    fetches_report(fetched, ret);
    if (share_makes_steps(a->share))
        stage_scalar(ret,
                     step.first == SAC_CRITIC ? "critic_learning_rate"
                                              : "actor_learning_rate",
                     (double)a->live[SAC_CRITIC_RATE + step.first].value);
    return 0;
}

/* B: loss, mean Q and batch.error before the update, gradient norm. */
static int run_critic(struct algo *a, struct session *s, const struct stage_args *args,
                      struct stage_result *ret, struct err *err)
{
    const int64_t n = args->batch;
    struct sac_batch *b = &a->batch;
    struct fetches f = {0};
    int rc;

    feeds_begin(&a->feeds);
    feeds_add(&a->feeds, a->state, b->state, n, a->state_width);
    feed_action(a, n);
    feeds_add(&a->feeds, a->target, b->target, n, 1);
    feeds_add(&a->feeds, a->weight, b->weight, n, 1);
    fetch_scalar(&f, "critic_loss", a->critic_loss);
    fetch_scalar(&f, "q_mean", a->q_mean);
    fetch_into(&f, a->error, tensor_view(DT_FLOAT, SHAPE(n, 1), b->error));
    rc = run_step(a, s, args, critic_step, &f, ret, err);
    if (rc == 0)
        rows_td_error(b->error, b->alive, n, ret);
    if (rc == 0 && args->weights != NULL)
        rows_priorities(b->error, b->weight, n, ret);
    return rc;
}

/* A and B. */
static int learn_critic(struct algo *a, struct session *s, const struct stage_args *args,
                        const uint64_t *rows, int64_t group, struct stage_result *ret,
                        struct err *err)
{
    const int64_t n = args->batch;
    struct sac_batch *b = &a->batch;
    struct reward_scaling scale;
    int rc = reward_scale_read(&a->scale, s, args, &scale, err);

    if (rc == 0)
        rc = run_next_value(a, s, args, rows, group, err);
    if (rc < 0)
        return rc;
    store_view_gather(args->store, a->seen.columns.reward, rows, (size_t)n, b->reward, 1);
    store_view_gather(args->store, a->seen.columns.life.terminated, rows, (size_t)n,
                      b->terminated, 1);
    reward_scale_apply(&scale, b->reward, n);
    rows_targets(b->target, b->reward, b->terminated, b->next_value,
                 a->live[SAC_DISCOUNT].value, n, ret);
    gather(a, args, rows, n);
    return run_critic(a, s, args, ret, err);
}

/* ---- policy ---- */

/* C and D. */
static int run_actor(struct algo *a, struct session *s, const struct stage_args *args,
                     const uint64_t *rows, struct stage_result *ret, struct err *err)
{
    const int64_t n = args->batch;
    struct fetches f = {0};

    feeds_begin(&a->feeds);
    feeds_columns(&a->feeds, a->observation, a->batch.state + a->seen.own_obs, n,
                  a->seen.input, a->state_width);
    feeds_add(&a->feeds, a->state, a->batch.state, n, a->state_width);
    feeds_add(&a->feeds, a->weight, a->batch.weight, n, 1);
    feed_noise(a, args, "now", n);
    feed_allowed(a, args, a->seen.columns.allowed, rows, n);
    feeds_live(&a->feeds, &a->live[SAC_TARGET_ENTROPY]);
    fetch_scalar(&f, "actor_loss", a->actor_loss);
    fetch_scalar(&f, "entropy", a->entropy);
    fetch_scalar(&f, "alpha", a->alpha);
    return run_step(a, s, args, policy_step, &f, ret, err);
}

/* E */
static int move_targets(struct algo *a, struct session *s, struct err *err)
{
    feeds_begin(&a->feeds);
    feeds_live(&a->feeds, &a->live[SAC_POLYAK]);
    return feeds_run(&a->feeds, s, a->update_targets, err);
}

/* ---- agents that share parameters ---- */

static int is_critic_step(const struct stage_args *args)
{
    return args->repeat == 0;
}

/* ps: one step down the group's mean losses. */
static int apply(struct algo *a, struct session *s, const struct stage_args *args,
                 struct stage_result *ret, struct err *err)
{
    struct fetches f = {0};

    feeds_begin(&a->feeds);
    return run_step(a, s, args, is_critic_step(args) ? critic_step : policy_step, &f, ret,
                    err);
}

static int assign(struct algo *a, struct session *s, const struct stage_args *args,
                  struct err *err)
{
    int rc = share_assign(a->share, is_critic_step(args) ? critic_step : policy_step, s,
                          args, err);

    if (rc < 0)
        return rc;
    return is_critic_step(args) ? reward_scale_read(&a->scale, s, args, NULL, err)
                                : move_targets(a, s, err);
}

/* ---- the stages ---- */

/* Every stage with rows, except propose. */
static int learn(struct algo *a, struct session *s, const struct stage_args *args,
                 struct stage_result *ret, struct err *err)
{
    const int64_t n = args->batch, group = rows_group(args, a->self);
    const uint64_t *rows = args->rows + group * n;
    const float *weights = args->weights != NULL ? args->weights + group * n : NULL;
    const int shares = a->share != NULL;
    int rc = symmetry_draw(args->symmetry, args->update, (uint64_t)(group * n), (size_t)n,
                           err);

    if (rc < 0)
        return rc;
    gather_weights(a, args, rows, weights, n);
    if (shares ? is_critic_step(args) : strcmp(args->stage->name, "critic") == 0)
        return learn_critic(a, s, args, rows, group, ret, err);
    if (shares || !a->one_stage)
        gather(a, args, rows, n);
    else if ((rc = learn_critic(a, s, args, rows, group, ret, err)) < 0)
        return rc;
    rc = run_actor(a, s, args, rows, ret, err);
    return rc < 0 || shares ? rc : move_targets(a, s, err);
}

int sac_stage(struct algo *a, struct session *s, const struct stage_args *args,
              struct stage_result *ret, struct err *err)
{
    int rc = lives_read(a->live, SAC_LIVES, s, args->step, err);

    if (rc < 0)
        return rc;
    if (a->share != NULL && args->stage->writes)
        return share_is_ps(a->share) ? apply(a, s, args, ret, err)
                                     : assign(a, s, args, err);
    if ((rc = rows_check(args, a->n_agents, err)) < 0 ||
        (rc = reserve(a, args->batch, args->groups * args->batch, err)) < 0)
        return rc;
    return strcmp(args->stage->name, "propose") == 0 ? propose(a, s, args, ret, err)
                                                     : learn(a, s, args, ret, err);
}
