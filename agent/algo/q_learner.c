#include "agent/algo/q_learner.h"

#include "agent/algo/choices.h"
#include "agent/algo/parts.h"
#include "agent/algo/rows.h"
#include "agent/algo/scalars.h"
#include "agent/algo/share.h"
#include "common/mem/xmalloc.h"
#include "common/rng/rng.h"

#include <stdlib.h>
#include <string.h>

/* ---- acting ---- */

static int64_t carry_width(const struct algo *a)
{
    if (a->mixers != NULL)
        return 0;
    return a->memory_units + (a->settings->last_action ? a->self->width : 0);
}

/* Sets the inputs and the cell's carry of all copies. At a copy's first step its last
 * action and carry are 0. */
static void make_inputs(const struct algo *a, const struct act_args *args, float *input,
                        float *carry)
{
    const size_t obs = (size_t)a->self->obs, width = (size_t)a->self->width;
    const size_t units = (size_t)a->memory_units, all = (size_t)carry_width(a);
    const struct algorithm_settings *set = a->settings;

    memset(input, 0, args->n_copies * (size_t)a->inputs * sizeof(float));
    for (size_t e = 0; e < args->n_copies; e++) {
        const int is_first = args->first != NULL && args->first[e];
        const float *before = args->carry != NULL ? args->carry + e * all : NULL;
        float *x = input + e * (size_t)a->inputs;

        memcpy(x, args->obs + e * obs, obs * sizeof(float));
        if (set->last_action && before != NULL && !is_first)
            memcpy(x + obs, before + units, width * sizeof(float));
        if (set->agent_id)
            x[(size_t)a->inputs - a->team.n + a->place] = 1;
        if (units > 0 && before != NULL && !is_first)
            memcpy(carry + e * units, before, units * sizeof(float));
        else if (units > 0)
            memset(carry + e * units, 0, units * sizeof(float));
    }
}

static int run_act(struct algo *a, struct session *s, const float *input,
                   const float *carry, int64_t n, float *q, float *next_carry,
                   struct err *err)
{
    const struct output fetches[] = {a->act_q, a->act_next_carry};
    struct tensor values[] = {
        tensor_view(DT_FLOAT, SHAPE(n, a->n_choices), q),
        tensor_view(DT_FLOAT, SHAPE(n, a->memory_units), next_carry)};

    feeds_begin(&a->feeds);
    feeds_add(&a->feeds, a->act_input, input, n, a->inputs);
    if (a->units > 0)
        feeds_add(&a->feeds, a->act_carry, carry, n, a->memory_units);
    return feeds_fetch(&a->feeds, s, fetches, values, a->units > 0 ? 2 : 1, err);
}

static int act(struct algo *a, struct session *s, const struct act_args *args,
               struct act_result *ret, struct err *err)
{
    const size_t n = args->n_copies, width = (size_t)a->self->width;
    const size_t units = (size_t)a->memory_units, all = (size_t)carry_width(a);
    const int greedy = args->mode == ACT_GREEDY;
    /* of each copy: input, values of the choices, the cell's carry before and after, draw */
    const size_t each = (size_t)a->inputs + (size_t)a->n_choices + 2 * units + 1;
    float *input, *q, *carry, *next_carry, *draw;
    struct ramp epsilon;
    int r;

    if ((r = rows_reserve(&a->act_memory, &a->act_rows, (int64_t)n, n * each, err)) < 0 ||
        (r = live_ramp(&a->live[Q_EPSILON], s, &epsilon, err)) < 0)
        return r;
    input = a->act_memory;
    q = input + n * (size_t)a->inputs;
    carry = q + n * (size_t)a->n_choices;
    next_carry = carry + n * units;
    draw = next_carry + n * units;
    make_inputs(a, args, input, carry);
    if ((r = run_act(a, s, input, carry, (int64_t)n, q, next_carry, err)) < 0)
        return r;
    if (!greedy)
        rng_uniform_rows_f32(args->key, args->counter, args->draw_first, draw, n, 1);
    for (size_t e = 0; e < n; e++) {
        const int32_t choice = choice_epsilon_greedy(
            a->self, q + e * (size_t)a->n_choices,
            args->allowed != NULL ? args->allowed + e * width : NULL, a->n_choices,
            greedy ? NULL : &draw[e], (float)ramp_value(&epsilon, act_step(args, e)),
            a->allowed);

        choice_to_action(a->self, choice, ret->actions + e * width);
        if (units > 0)
            memcpy(ret->carry + e * all, next_carry + e * units, units * sizeof(float));
        if (a->settings->last_action)
            memcpy(ret->carry + e * all + units, ret->actions + e * width,
                   width * sizeof(float));
    }
    return 0;
}

/* ---- stages ---- */

static const struct stage alone_stages[] = {
    {.name = "learn", .runner = STAGE_LEARNERS, .writes = 1, .repeat_from = 0},
};
static const struct stage vdn_stages[] = {
    {.name = "values", .runner = STAGE_LEARNERS, .repeat_from = 0},
    {.name = "learn",
     .runner = STAGE_LEARNERS,
     .reads = {"values/q", "values/next"},
     .writes = 1,
     .repeat_from = 1},
};
static const struct stage qmix_stages[] = {
    {.name = "values", .runner = STAGE_LEARNERS, .repeat_from = 0},
    {.name = "mix",
     .runner = STAGE_CENTRAL,
     .reads = {"values/q", "values/next"},
     .writes = 1,
     .repeat_from = 1},
    {.name = "learn",
     .runner = STAGE_LEARNERS,
     .reads = {"mix/dq", "mix/priorities", "mix/measured"},
     .writes = 1,
     .repeat_from = 2},
};

/* Sets the stages of the algorithm. Where parameters are shared, gradients > apply >
 * assign replace the last one, learn; `gradients` reads what learn reads. */
static void make_stages(struct algo *a)
{
    static const struct {
        const struct stage *list;
        size_t n;
    } own[] = {[Q_ALONE] = {alone_stages, 1},
               [Q_SUM] = {vdn_stages, 2},
               [Q_NETWORK] = {qmix_stages, 3}};
    const size_t learn = own[a->mixing].n - 1;
    struct stage *s = a->stages;

    memcpy(s, own[a->mixing].list, (learn + 1) * sizeof(*s));
    a->n_stages = learn + 1;
    if (a->share == NULL)
        return;
    for (size_t i = 0; i < SHARE_N_STAGES; i++) {
        s[learn + i] = share_stages[i];
        s[learn + i].repeat_from += (int)learn;
    }
    memcpy(s[learn].reads, own[a->mixing].list[learn].reads, sizeof(s->reads));
    a->n_stages = learn + SHARE_N_STAGES;
}

/* ---- building ---- */

static void free_learner(struct algo *a)
{
    if (a == NULL)
        return;
    q_team_done(&a->team);
    q_rows_done(&a->rows);
    reward_scale_done(&a->scale);
    mixers_free(a);
    free(a->batch.memory);
    free(a->act_memory);
    free(a->feeds.list);
    free(a->allowed);
    free(a);
}

/* The first agent whose value the central process mixes; team NULL: of any team. */
static const struct space *first_mixed(const struct algo_args *args, const char *team)
{
    const struct space *s = args->agents;

    while (s->other || (team != NULL && strcmp(s->team, team) != 0))
        s++;
    return s;
}

static int check(const struct algo_args *args, enum q_mixing mixing, struct err *err)
{
    const struct space *self = &args->agents[args->self];
    const struct agent_config *c = args->config;

    if (network_optimizer(c, &c->critic)->type == OPT_ACCEPT_REJECT)
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "optimizer.type"),
                          "%s learns by gradients", c->algorithm);
    if (args->central)
        return 0;
    if (self->box || choices_count(self, CHOICES_MAX) == 0)
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "algorithm"),
                          "%s needs a discrete action space, of at most %d choices",
                          c->algorithm, CHOICES_MAX);
    if (args->settings->recurrent > 0 && args->max_steps == 0)
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "settings.recurrent"),
                          "recurrent networks are unrolled over whole episodes: set "
                          "env.max_steps");
    if (mixing == Q_NETWORK &&
        self->symmetric != first_mixed(args, self->team)->symmetric)
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "settings.symmetry"),
                          "the mixer sees all of the team under one symmetry; expected "
                          "what %s has",
                          first_mixed(args, self->team)->name);
    return check_agent_id(args->settings, err);
}

static void measure(struct algo *a)
{
    const struct algorithm_settings *set = a->settings;

    a->units = set->recurrent;
    a->cell = set->cell == RECURRENT_LSTM ? CELL_LSTM : CELL_GRU;
    a->memory_units = cell_carry_width(a->cell, a->units);
    a->n_choices = choices_count(a->self, CHOICES_MAX);
    a->allowed = xcalloc((size_t)a->n_choices, 1);
    a->inputs = a->self->obs + (set->last_action ? a->self->width : 0) +
                (set->agent_id ? (int64_t)a->team.n : 0);
}

static int build(struct algo **ret, const struct algo_args *args, struct err *err)
{
    const enum q_mixing mixing = (enum q_mixing)args->ops->variant;
    const struct space *self =
        args->central ? first_mixed(args, NULL) : &args->agents[args->self];
    struct algo *a;
    int r = check(args, mixing, err);

    if (r < 0)
        return r;
    a = xcalloc(1, sizeof(*a));
    a->graph = args->graph;
    a->config = args->config;
    a->settings = args->settings;
    a->share = args->share;
    a->agents = args->agents;
    a->n_agents = args->n_agents;
    a->self = self;
    a->index = args->self;
    a->mixing = mixing;
    make_stages(a);
    a->max_steps = args->max_steps;
    if (mixing == Q_NETWORK)
        a->mixed = q_mixed_of(args->agents, args->n_agents, args->self);
    q_team_init(&a->team, args->agents, args->n_agents, self->team);
    while (a->place < a->team.n && a->team.member[a->place] != a->index)
        a->place++;
    if (args->central) {
        r = mixers_new(a, err);
    } else {
        measure(a);
        r = q_build_graph(a, err);
    }
    if (r < 0) {
        free_learner(a);
        return r;
    }
    *ret = a;
    return 0;
}

/* ---- the interface ---- */

static const struct stage *stages(const struct algo *a, size_t *ret_n)
{
    *ret_n = a->n_stages;
    return a->stages;
}

static void rows(const struct algo *a, struct algo_rows *ret)
{
    *ret = (struct algo_rows){ROWS_EPISODES, a->max_steps};
}

static const struct live *lives(const struct algo *a, size_t *ret_n)
{
    *ret_n = Q_LIVES;
    return a->live;
}

static int init(struct algo *a, struct session *s, struct rng_key key, struct err *err)
{
    struct operation *const copy =
        a->mixers != NULL ? mixers_copy_targets(a->mixers) : a->copy_target;
    struct operation *const ops[] = {a->init_variables, copy};

    return algo_run_each(s, ops, 2, key, err);
}

/* ---- descriptions (of iql: iql.c) ---- */

static const char *const team_settings[] = {EPISODE_SETTINGS, NULL};

static const struct algorithm_scalar scalars[] = {
    SCALARS_OF_Q_NETWORK(SCALAR_BY_AGENT),
    {NULL},
};
static const struct algorithm_scalar qmix_scalars[] = {
    SCALARS_OF_Q_NETWORK(SCALAR_BY_AGENT | SCALAR_BY_CENTRAL),
    {"mixer_grad_norm", "norm of the mixer's gradients, before clipping", "",
     SCALAR_BY_CENTRAL},
    {NULL},
};

/* The settings of EPyMARL (Papoudakis et al. 2021). */
static const struct algorithm_default defaults[] = {
    {"clip_norm", "10"},
    {"optimizer.learning_rate", "0.0005"},
    {"settings.clip_by", "global"},
    {"settings.epsilon", "1 to 0.05 over 50000"},
    {NULL},
};

static const struct algo_about vdn_about = {
    .info = {.summary = "Q-networks whose sum is the value of what the team does",
             .use = "cooperation with one reward and discrete actions",
             .stages = "values(all) > learn(all, writes)",
             .source = "Sunehag et al. 2018, Value-decomposition networks for "
                       "cooperative multi-agent learning",
             .defaults = defaults,
             .scalars = scalars,
             .own_critic = 1,
             .team_reward = 1,
             .rows = ROWS_EPISODES,
             .shares = 1},
    .settings = team_settings};
static const struct algo_about qmix_about = {
    .info = {.summary = "Q-networks whose values a network of the joint state mixes",
             .use = "cooperation with one reward, discrete actions, and a joint value "
                    "that is more than a sum",
             .stages = "values(all) > mix(central, writes) > learn(all, writes)",
             .source = "Rashid et al. 2018, QMIX: monotonic value function "
                       "factorisation for deep multi-agent reinforcement learning",
             .defaults = defaults,
             .scalars = qmix_scalars,
             .own_critic = 1,
             .central = 1,
             .team_reward = 1,
             .rows = ROWS_EPISODES,
             .shares = 1},
    .settings = team_settings};

#define Q_LEARNER_OPS(algorithm, its_about, mixing)                                      \
    {                                                                                    \
        .name = (algorithm), .about = (its_about), .variant = (mixing), .build = build,  \
        .free = free_learner, .stages = stages, .carry_width = carry_width,              \
        .rows = rows, .reads = q_reads, .lives = lives, .init = init, .act = act,        \
        .stage = q_stage                                                                 \
    }

const struct algo_ops iql_episodes_ops = Q_LEARNER_OPS("iql", NULL, Q_ALONE);
const struct algo_ops vdn_ops = Q_LEARNER_OPS("vdn", &vdn_about, Q_SUM);
const struct algo_ops qmix_ops = Q_LEARNER_OPS("qmix", &qmix_about, Q_NETWORK);
