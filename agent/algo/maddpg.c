#include "agent/algo/maddpg.h"

#include "agent/algo/choices.h"
#include "agent/algo/fixed.h"
#include "agent/algo/parts.h"
#include "agent/algo/rows.h"
#include "agent/algo/scalars.h"
#include "agent/algo/share.h"
#include "agent/nn/nn.h"
#include "common/mem/xmalloc.h"
#include "common/rng/rng.h"

#include <math.h>
#include <stdlib.h>

static const struct stage maddpg_stages[] = {
    {.name = "propose", .runner = STAGE_LEARNERS, .repeat_from = 0},
    {.name = "critic",
     .runner = STAGE_LEARNERS,
     .reads = {"propose/action"},
     .writes = 1,
     .repeat_from = 1},
    {.name = "learn", .runner = STAGE_LEARNERS, .writes = 1, .repeat_from = 2},
};
static const struct stage ddpg_stages[] = {
    {.name = "learn", .runner = STAGE_LEARNERS, .writes = 1, .repeat_from = 0},
};

static const struct stage shared_maddpg_stages[] = {
    {.name = "propose", .runner = STAGE_LEARNERS, .repeat_from = 0},
    SHARE_STAGES(1, 2, "propose/action"),
};
static const struct stage shared_ddpg_stages[] = {SHARE_STAGES(0, 2, NULL)};

/* ---- acting ---- */

/* action += exploration_noise * half the range * normal, kept inside the bounds. */
static void add_exploration(struct algo *a, const struct act_args *args,
                            const struct ramp *noise, float *actions)
{
    const struct space *space = maddpg_self(a);
    const size_t width = (size_t)space->width;
    const float low = (float)space->low, high = (float)space->high;
    float *draw = a->act_memory;

    rng_normal_rows_f32(args->key, args->counter, args->draw_first, draw, args->n_copies,
                        width);
    for (size_t i = 0; i < args->n_copies * width; i++) {
        const float deviation = (float)ramp_value(noise, args->step + i / width);
        const float scale = deviation * (high - low) / 2;

        actions[i] = fminf(fmaxf(actions[i] + scale * draw[i], low), high);
    }
}

static int act_deterministic(struct algo *a, struct session *s,
                             const struct act_args *args, struct act_result *ret,
                             struct err *err)
{
    const int64_t rows = (int64_t)args->n_copies;
    struct tensor action =
        tensor_view(DT_FLOAT, SHAPE(rows, maddpg_self(a)->width), ret->actions);
    struct ramp noise;
    int r = feeds_fetch(&a->feeds, s, &a->policy.action, &action, 1, err);

    if (r < 0)
        return r;
    if (args->mode != ACT_EXPLORE) {
        clip_to_box(ret->actions, args->n_copies, maddpg_self(a)); /* against rounding */
        return 0;
    }
    r = live_ramp(&a->live[LIVE_EXPLORATION_NOISE], s, &noise, err);
    if (r == 0)
        add_exploration(a, args, &noise, ret->actions);
    return r;
}

/* Feeds the choices that each copy may take now. */
static void feed_allowed(struct algo *a, const struct act_args *args)
{
    const struct space *space = maddpg_self(a);
    float *x = (float *)a->act_memory + args->n_copies * (size_t)space->width;

    choices_open(space, args->allowed, args->n_copies, x);
    feeds_add(&a->feeds, a->allowed, x, (int64_t)args->n_copies, space->width);
}

/* Each row's noise is drawn with the key and counter of its copy, and fed, so that it
 * does not depend on the number of copies. If one choice is taken, the softmax is left
 * out: neither it nor a temperature above 0 changes which score is the largest. */
static int act_gumbel(struct algo *a, struct session *s, const struct act_args *args,
                      struct act_result *ret, struct err *err)
{
    const struct space *space = maddpg_self(a);
    const int64_t rows = (int64_t)args->n_copies;
    const int greedy = args->mode == ACT_GREEDY;
    const int chooses = greedy || a->settings->execute == EXECUTE_HARD;
    const struct output *fetch = greedy    ? &a->policy.raw
                                 : chooses ? &a->policy.scores
                                           : &a->policy.action;
    struct tensor action = tensor_view(DT_FLOAT, SHAPE(rows, space->width), ret->actions);
    int r;

    if (!greedy) {
        rng_uniform_rows_f32(args->key, args->counter, args->draw_first, a->act_memory,
                             args->n_copies, (size_t)space->width);
        feeds_add(&a->feeds, a->policy.noise, a->act_memory, rows, space->width);
        if (a->masked)
            feed_allowed(a, args);
    }
    if (!chooses)
        feeds_live(&a->feeds, &a->live[LIVE_TEMPERATURE]);
    r = feeds_fetch(&a->feeds, s, fetch, &action, 1, err);
    if (r == 0 && chooses)
        choices_harden(space, ret->actions, args->allowed, args->n_copies);
    return r;
}

static int act(struct algo *a, struct session *s, const struct act_args *args,
               struct act_result *ret, struct err *err)
{
    const int64_t rows = (int64_t)args->n_copies;
    const int64_t before = rows * maddpg_self(a)->width * (a->masked ? 2 : 1);
    const int64_t inputs = a->seen.id.width > 0 ? rows * a->seen.input : 0;
    int r =
        rows_reserve(&a->act_memory, &a->act_rows, rows, (size_t)(before + inputs), err);

    /* one temperature for all copies, that of the first copy's step */
    if (r == 0 && !a->deterministic && a->settings->execute == EXECUTE_SOFT)
        r = live_value(&a->live[LIVE_TEMPERATURE], s, args->step,
                       &a->live[LIVE_TEMPERATURE].value, err);
    if (r < 0)
        return r;
    feeds_begin(&a->feeds);
    feeds_add(&a->feeds, a->obs[a->seen.own],
              agent_id_behind(&a->seen.id, args, maddpg_self(a)->obs,
                              (float *)a->act_memory + before),
              rows, a->seen.input);
    return a->deterministic ? act_deterministic(a, s, args, ret, err)
                            : act_gumbel(a, s, args, ret, err);
}

/* ---- building ---- */

static int check_policy(const struct space *space, const struct algorithm_settings *set,
                        int deterministic, struct err *err)
{
    if (deterministic && !(space->box && isfinite(space->low) && isfinite(space->high) &&
                           space->low < space->high))
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "settings.policy"),
                          "deterministic needs a bounded continuous action "
                          "space");
    if (!deterministic && !choices_only(space))
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "settings.policy"),
                          "gumbel needs a discrete action space, or a "
                          "particle world's");
    if (!deterministic && !space->box && set->execute == EXECUTE_SOFT)
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "settings.execute"),
                          "soft needs continuous actions");
    return 0;
}

static void make_learners(struct algo *a)
{
    const struct agent_config *c = a->config;

    a->critic_learner =
        (struct learner){"q_func/", network_optimizer(c, &c->critic), LIVE_CRITIC_RATE,
                         "critic_grad_norm", "critic_learning_rate"};
    a->actor_learner =
        (struct learner){"p_func/", network_optimizer(c, &c->actor), LIVE_ACTOR_RATE,
                         "actor_grad_norm", "actor_learning_rate"};
}

static int64_t joint_width(const struct algo *a)
{
    int64_t width = a->seen.obs;

    for (size_t i = 0; i < a->seen.n; i++)
        width += a->agents[a->seen.agent[i]].width;
    return width;
}

static int check(const struct algo_args *args, int reads_proposals, struct err *err)
{
    const struct agent_config *c = args->config;
    int r = check_agent_id(args->settings, err);

    if (r == 0 && args->share != NULL &&
        (network_optimizer(c, &c->critic)->type == OPT_ACCEPT_REJECT ||
         network_optimizer(c, &c->actor)->type == OPT_ACCEPT_REJECT))
        r = err_set_at(err, ERR_CONFIG, ERR_AT(.key = "optimizer.type"),
                       "accept_reject has no gradients to share, expected another one or "
                       "share: none");
    if (r == 0 && reads_proposals)
        r = rows_check_symmetry(args->agents, args->n_agents, args->self, err);
    return r;
}

static void maddpg_free(struct algo *a)
{
    if (a == NULL)
        return;
    free(a->batch.memory);
    reward_scale_done(&a->scale);
    accept_reject_free(a->critic_learner.trials);
    accept_reject_free(a->actor_learner.trials);
    free(a->act_memory);
    seen_done(&a->seen);
    free(a->obs);
    free(a->action);
    free(a->feeds.list);
    free(a);
}

enum variant { MADDPG, DDPG, MATD3 };

static int build(struct algo **ret, const struct algo_args *args, struct err *err)
{
    const enum variant variant = (enum variant)args->ops->variant;
    const struct space *self = &args->agents[args->self];
    const struct agent_config *c = args->config;
    struct algo *a;
    int deterministic =
        args->settings->policy == POLICY_DETERMINISTIC ||
        (args->settings->policy == POLICY_AUTO && self->box && !self->particle);
    int r = check_policy(self, args->settings, deterministic, err);

    if (r == 0)
        r = check(args, variant != DDPG, err);
    if (r < 0)
        return r;
    a = xcalloc(1, sizeof(*a));
    a->graph = args->graph;
    a->config = c;
    a->settings = args->settings;
    a->agents = args->agents;
    a->n_agents = args->n_agents;
    a->self = args->self;
    a->share = args->share;
    a->deterministic = deterministic;
    a->masked = self->masked && !deterministic;
    a->one_stage = variant == DDPG;
    a->twin = variant == MATD3;
    a->smoothing = a->twin && deterministic;
    make_learners(a);
    seen_init(&a->seen, args, a->one_stage || c->critic.input == CRITIC_OWN);
    a->joint_width = joint_width(a);
    a->obs = xcalloc(a->seen.n, sizeof(*a->obs));
    a->action = xcalloc(a->seen.n, sizeof(*a->action));
    r = maddpg_build_graph(a, err);
    if (r < 0) {
        maddpg_free(a);
        return r;
    }
    *ret = a;
    return 0;
}

static const struct stage *stages(const struct algo *a, size_t *ret_n)
{
    if (a->share != NULL) {
        *ret_n = SHARE_N_STAGES + !a->one_stage;
        return a->one_stage ? shared_ddpg_stages : shared_maddpg_stages;
    }
    *ret_n = a->one_stage ? 1 : 3;
    return a->one_stage ? ddpg_stages : maddpg_stages;
}

static const struct live *lives(const struct algo *a, size_t *ret_n)
{
    *ret_n = LIVE_COUNT;
    return a->live;
}

static int init(struct algo *a, struct session *s, struct rng_key key, struct err *err)
{
    struct operation *const ops[] = {a->init_variables, a->init_targets};

    return algo_run_each(s, ops, 2, key, err);
}

/* ---- descriptions ---- */

#define SETTINGS                                                                         \
    "logit_penalty", "temperature", "policy", "execute", "own_batches", "clip_by",       \
        "exploration_noise", "symmetry", "reward_scale", "agent_id"

static const char *const settings[] = {SETTINGS, NULL};

static const char *const matd3_settings[] = {
    SETTINGS, "policy_delay", "target_policy_noise", "target_noise_clip", NULL,
};

static const struct algorithm_scalar scalars[] = {
    SCALARS_OF_CRITIC, SCALARS_OF_ACTOR, {NULL}};

static const struct algo_about maddpg_about = {
    .info = {.summary = "critics that see all observations and actions, actors that see "
                        "their own",
             .use = "competition and mixed motives, discrete or continuous actions, rows "
                    "that are dear",
             .stages = "propose(all) > critic(all, writes) > learn(all, writes)",
             .source = "Lowe et al. 2017, Multi-agent actor-critic for mixed "
                       "cooperative-competitive environments",
             .is_default = 1,
             .scalars = scalars,
             .shares = 1},
    .settings = settings};
static const struct algo_about ddpg_about = {
    .info = {.summary = "each agent alone: an actor, and a critic of its own observation",
             .use = "agents whose success depends little on the others; the yardstick "
                    "for maddpg",
             .stages = "learn(all, writes)",
             .source = "Lillicrap et al. 2016, Continuous control with deep "
                       "reinforcement learning",
             .own_critic = 1,
             .scalars = scalars,
             .shares = 1},
    .settings = settings};
static const struct algo_about matd3_about = {
    .info = {.summary =
                 "maddpg with the smaller of two critics' values, noise on the targets' "
                 "actions, and a slower policy; one agent alone: td3",
             .use = "as maddpg, mostly for continuous actions; for one agent it is td3",
             .stages = "propose(all) > critic(all, writes) > learn(all, writes)",
             .source =
                 "Ackermann et al. 2019, Reducing overestimation bias in multi-agent "
                 "domains using double centralized critics; Fujimoto et al. 2018, "
                 "Addressing function approximation error in actor-critic methods",
             .scalars = scalars,
             .shares = 1},
    .settings = matd3_settings};

#define OPS(NAME, ABOUT, VARIANT)                                                        \
    {                                                                                    \
        .name = NAME, .about = &(ABOUT), .variant = (VARIANT), .build = build,           \
        .free = maddpg_free, .stages = stages, .reads = maddpg_reads, .lives = lives,    \
        .init = init, .act = act, .stage = maddpg_stage,                                 \
    }

const struct algo_ops maddpg_ops = OPS("maddpg", maddpg_about, MADDPG);
const struct algo_ops ddpg_ops = OPS("ddpg", ddpg_about, DDPG);
const struct algo_ops matd3_ops = OPS("matd3", matd3_about, MATD3);
