#include "agent/algo/sac.h"

#include "agent/algo/choices.h"
#include "agent/algo/fixed.h"
#include "agent/algo/parts.h"
#include "agent/algo/rows.h"
#include "agent/algo/scalars.h"
#include "agent/algo/share.h"
#include "common/mem/xmalloc.h"
#include "common/rng/rng.h"

#include <math.h>
#include <stdlib.h>

static const struct stage masac_stages[] = {
    {.name = "propose", .runner = STAGE_LEARNERS, .repeat_from = 0},
    {.name = "critic",
     .runner = STAGE_LEARNERS,
     .reads = {"propose/action", "own:propose/log_prob"},
     .writes = 1,
     .repeat_from = 1},
    {.name = "learn", .runner = STAGE_LEARNERS, .writes = 1, .repeat_from = 2},
};
static const struct stage isac_stages[] = {
    {.name = "learn", .runner = STAGE_LEARNERS, .writes = 1, .repeat_from = 0},
};

static const struct stage shared_masac_stages[] = {
    {.name = "propose", .runner = STAGE_LEARNERS, .repeat_from = 0},
    SHARE_STAGES(1, 2, "propose/action", "own:propose/log_prob"),
};
static const struct stage shared_isac_stages[] = {SHARE_STAGES(0, 2, NULL)};

/* ---- choices ---- */

void sac_open_choices(struct algo *a, const uint8_t *allowed, int64_t n, float *ret)
{
    const int64_t width = sac_self(a)->width;

    for (int64_t i = 0; i < n; i++, ret += a->n_choices) {
        (void)choices_allowed(sac_self(a), allowed != NULL ? allowed + i * width : NULL,
                              a->n_choices, a->allowed_choices);
        for (int32_t c = 0; c < a->n_choices; c++)
            ret[c] = a->allowed_choices[c];
    }
}

void sac_draw_choices(const struct algo *a, const float *p, const float *noise, int64_t n,
                      float *ret)
{
    const struct space *self = sac_self(a);

    for (int64_t i = 0; i < n; i++)
        choice_to_action(self, choice_draw(p + i * a->n_choices, noise[i], a->n_choices),
                         ret + i * self->width);
}

/* ---- acting ---- */

struct places {   /* in act_memory, for n copies */
    float *noise; /* (n), box: (n, U) */
    float *p;     /* (n, C) probabilities, greedy: logits */
    float *open;  /* (n, C), masked only */
    float *input; /* (n, O), with an id only */
};

static size_t lay_out(const struct algo *a, size_t n, float *base, struct places *ret)
{
    size_t used = 0;

    ret->noise =
        rows_take(base, &used, n * (sac_is_box(a) ? (size_t)sac_self(a)->width : 1));
    ret->p = rows_take(base, &used, n * (size_t)a->n_choices);
    ret->open = rows_take(base, &used, a->masked ? n * (size_t)a->n_choices : 0);
    ret->input =
        rows_take(base, &used, a->seen.id.width > 0 ? n * (size_t)a->seen.input : 0);
    return used;
}

static int reserve(struct algo *a, int64_t n, struct places *ret, struct err *err)
{
    const size_t floats = lay_out(a, (size_t)n, NULL, ret);

    if (rows_reserve(&a->act_memory, &a->act_rows, n, floats, err) < 0)
        return ERR_NOMEM;
    (void)lay_out(a, (size_t)n, a->act_memory, ret);
    return 0;
}

/* ret (n, width) */
static int run_policy(struct algo *a, struct session *s, struct output fetch, int64_t n,
                      int64_t width, float *ret, struct err *err)
{
    struct tensor value = tensor_view(DT_FLOAT, SHAPE(n, width), ret);

    return feeds_fetch(&a->feeds, s, &fetch, &value, 1, err);
}

static int act_box(struct algo *a, struct session *s, const struct act_args *args,
                   const struct places *at, float *actions, struct err *err)
{
    const int64_t n = (int64_t)args->n_copies, width = sac_self(a)->width;
    const int greedy = args->mode == ACT_GREEDY;
    int rc;

    if (!greedy) {
        rng_normal_rows_f32(args->key, args->counter, args->draw_first, at->noise,
                            args->n_copies, (size_t)width);
        feeds_add(&a->feeds, a->policy.noise, at->noise, n, width);
    }
    rc = run_policy(a, s, greedy ? a->policy.scores : a->policy.action, n, width, actions,
                    err);
    clip_to_box(actions, args->n_copies, sac_self(a)); /* against rounding */
    return rc;
}

static int act_choices(struct algo *a, struct session *s, const struct act_args *args,
                       const struct places *at, float *actions, struct err *err)
{
    const int64_t n = (int64_t)args->n_copies, width = sac_self(a)->width;
    const int greedy = args->mode == ACT_GREEDY;
    int rc;

    if (a->masked) {
        sac_open_choices(a, args->allowed, n, at->open);
        feeds_add(&a->feeds, a->allowed, at->open, n, a->n_choices);
    }
    rc = run_policy(a, s, greedy ? a->policy.scores : a->policy.p, n, a->n_choices, at->p,
                    err);
    if (rc < 0)
        return rc;
    if (!greedy) {
        rng_uniform_rows_f32(args->key, args->counter, args->draw_first, at->noise,
                             args->n_copies, 1);
        sac_draw_choices(a, at->p, at->noise, n, actions);
    }
    for (int64_t e = 0; greedy && e < n; e++)
        choice_to_action(sac_self(a), choice_best(at->p + e * a->n_choices, a->n_choices),
                         actions + e * width);
    return 0;
}

static int act(struct algo *a, struct session *s, const struct act_args *args,
               struct act_result *ret, struct err *err)
{
    const int64_t n = (int64_t)args->n_copies;
    struct places at;
    int rc = reserve(a, n, &at, err);

    if (rc < 0)
        return rc;
    feeds_begin(&a->feeds);
    feeds_add(&a->feeds, a->observation,
              agent_id_behind(&a->seen.id, args, sac_self(a)->obs, at.input), n,
              a->seen.input);
    return sac_is_box(a) ? act_box(a, s, args, &at, ret->actions, err)
                         : act_choices(a, s, args, &at, ret->actions, err);
}

/* ---- building ---- */

enum variant { ISAC, MASAC };

static int check(const struct algo_args *args, struct err *err)
{
    const struct space *self = &args->agents[args->self];
    int rc = check_optimizers(args->config, err);

    if (rc == 0)
        rc = check_agent_id(args->settings, err);
    if (rc == 0 && args->ops->variant == MASAC)
        rc = rows_check_symmetry(args->agents, args->n_agents, args->self, err);
    if (rc < 0)
        return rc;
    if (self->box
            ? !(isfinite(self->low) && isfinite(self->high) && self->low < self->high)
            : choices_count(self, CHOICES_MAX) == 0)
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "algorithm"),
                          "%s needs discrete actions, of at most %d choices, or "
                          "continuous ones with bounds",
                          args->config->algorithm, CHOICES_MAX);
    return 0;
}

static int64_t state_width(const struct algo *a)
{
    int64_t width = a->seen.obs;

    for (size_t i = 0; i < a->seen.n; i++)
        width += i == a->seen.own ? 0 : a->agents[a->seen.agent[i]].width;
    return width;
}

static void sac_free(struct algo *a)
{
    if (a == NULL)
        return;
    free(a->batch.memory);
    free(a->act_memory);
    free(a->feeds.list);
    free(a->allowed_choices);
    seen_done(&a->seen);
    reward_scale_done(&a->scale);
    free(a);
}

static int build(struct algo **ret, const struct algo_args *args, struct err *err)
{
    const struct space *self = &args->agents[args->self];
    struct algo *a;
    int rc = check(args, err);

    if (rc < 0)
        return rc;
    a = xcalloc(1, sizeof(*a));
    a->graph = args->graph;
    a->config = args->config;
    a->settings = args->settings;
    a->agents = args->agents;
    a->n_agents = args->n_agents;
    a->self = args->self;
    a->share = args->share;
    a->n_choices = self->box ? 0 : choices_count(self, CHOICES_MAX);
    a->masked = self->masked && !self->box;
    a->one_stage = args->ops->variant == ISAC;
    a->n_values = self->box ? self->width : a->n_choices;
    a->n_log_probs = self->box ? 1 : a->n_choices;
    seen_init(&a->seen, args, a->one_stage || args->config->critic.input == CRITIC_OWN);
    a->state_width = state_width(a);
    a->allowed_choices = xcalloc((size_t)a->n_choices + 1, 1);
    rc = sac_build_graph(a, err);
    if (rc == 0)
        *ret = a;
    else
        sac_free(a);
    return rc;
}

static const struct stage *stages(const struct algo *a, size_t *ret_n)
{
    if (a->share != NULL) {
        *ret_n = SHARE_N_STAGES + !a->one_stage;
        return a->one_stage ? shared_isac_stages : shared_masac_stages;
    }
    *ret_n = a->one_stage ? 1 : 3;
    return a->one_stage ? isac_stages : masac_stages;
}

static const struct live *lives(const struct algo *a, size_t *ret_n)
{
    *ret_n = SAC_LIVES;
    return a->live;
}

static int init(struct algo *a, struct session *s, struct rng_key key, struct err *err)
{
    struct operation *const ops[] = {a->init_variables, a->init_targets};

    return algo_run_each(s, ops, 2, key, err);
}

/* ---- descriptions ---- */

static const char *const settings[] = {
    "agent_id",
    "initial_alpha",
    "target_entropy_share",
    "target_entropy_each",
    "own_batches",
    "clip_by",
    "symmetry",
    "reward_scale",
    NULL,
};

static const struct algorithm_scalar scalars[] = {
    SCALARS_OF_CRITIC,
    SCALARS_OF_ACTOR,
    SCALAR("entropy", "mean entropy of the policy", "nat"),
    SCALAR("alpha", "weight of the entropy in the rewards", ""),
    {NULL},
};

/* Haarnoja et al. 2018 for rates and targets, BenchMARL for clipping. */
static const struct algorithm_default defaults[] = {
    {"polyak", "0.005"},
    {"clip_norm", "5"},
    {"optimizer.learning_rate", "0.0003"},
    {"settings.clip_by", "global"},
    {NULL},
};

static const struct algo_about isac_about = {
    .info = {.summary = "each agent alone: soft actor-critic on its own observation",
             .use =
                 "rows that are expensive, discrete or continuous actions, exploration "
                 "by the policy's own entropy; for one agent it is sac",
             .stages = "learn(all, writes)",
             .source = "Haarnoja et al. 2018, Soft actor-critic algorithms and "
                       "applications; Christodoulou 2019, Soft actor-critic for discrete "
                       "action settings",
             .own_critic = 1,
             .defaults = defaults,
             .scalars = scalars,
             .shares = 1},
    .settings = settings};
static const struct algo_about masac_about = {
    .info = {.summary = "soft actor-critic with critics that see all observations and "
                        "the others' actions",
             .use = "as isac, where agents cooperate or compete; the policies stay "
                    "random as far as target_entropy_share or target_entropy_each says",
             .stages = "propose(all) > critic(all, writes) > learn(all, writes)",
             .source = "Haarnoja et al. 2018, Soft actor-critic algorithms and "
                       "applications; Iqbal, Sha 2019, Actor-attention-critic for "
                       "multi-agent reinforcement learning",
             .defaults = defaults,
             .scalars = scalars,
             .shares = 1},
    .settings = settings};

#define SOFT_ACTOR_CRITIC(NAME, ABOUT, VARIANT)                                          \
    {                                                                                    \
        .name = NAME, .about = &(ABOUT), .variant = (VARIANT), .build = build,           \
        .free = sac_free, .stages = stages, .reads = sac_reads, .lives = lives,          \
        .init = init, .act = act, .stage = sac_stage,                                    \
    }

const struct algo_ops isac_ops = SOFT_ACTOR_CRITIC("isac", isac_about, ISAC);
const struct algo_ops masac_ops = SOFT_ACTOR_CRITIC("masac", masac_about, MASAC);
