#include "agent/algo/iql.h"

#include "agent/algo/choices.h"
#include "agent/algo/parts.h"
#include "agent/algo/rows.h"
#include "agent/algo/scalars.h"
#include "agent/algo/share.h"
#include "common/mem/xmalloc.h"
#include "common/rng/rng.h"

#include <stdlib.h>

int iql_run_network(struct algo *a, struct session *s, struct output q, const float *obs,
                    int64_t n, float *ret, struct err *err)
{
    struct tensor values = tensor_view(DT_FLOAT, SHAPE(n, a->n_choices), ret);

    feeds_begin(&a->feeds);
    feeds_add(&a->feeds, a->obs, obs, n, a->self->obs);
    return feeds_fetch(&a->feeds, s, &q, &values, 1, err);
}

/* ---- acting ---- */

static int act(struct algo *a, struct session *s, const struct act_args *args,
               struct act_result *ret, struct err *err)
{
    const size_t width = (size_t)a->self->width, n = args->n_copies;
    const size_t choices = (size_t)a->n_choices;
    const int greedy = args->mode == ACT_GREEDY;
    struct ramp epsilon;
    float *values, *draw;
    int r;

    if ((r = rows_reserve(&a->act_memory, &a->act_rows, (int64_t)n, n * (choices + 1),
                          err)) < 0 ||
        (r = live_ramp(&a->live[IQL_EPSILON], s, &epsilon, err)) < 0)
        return r;
    values = a->act_memory;
    draw = values + n * choices;
    r = iql_run_network(a, s, a->q, args->obs, (int64_t)n, values, err);
    if (r < 0)
        return r;
    if (!greedy)
        rng_uniform_rows_f32(args->key, args->counter, args->draw_first, draw, n, 1);
    for (size_t e = 0; e < n; e++) {
        const int32_t choice = choice_epsilon_greedy(
            a->self, values + e * choices,
            args->allowed != NULL ? args->allowed + e * width : NULL, a->n_choices,
            greedy ? NULL : &draw[e], (float)ramp_value(&epsilon, act_step(args, e)),
            a->allowed);

        choice_to_action(a->self, choice, ret->actions + e * width);
    }
    return 0;
}

/* ---- the algorithm ---- */

static void iql_free(struct algo *a)
{
    if (a == NULL)
        return;
    reward_scale_done(&a->scale);
    free(a->batch.memory);
    free(a->act_memory);
    free(a->feeds.list);
    free(a->allowed);
    free(a);
}

static int check(const struct space *self, const struct agent_config *c, struct err *err)
{
    const struct optimizer_config *o = network_optimizer(c, &c->critic);

    if (self->box || choices_count(self, CHOICES_MAX) == 0)
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "algorithm"),
                          "iql needs a discrete action space, of at most %d "
                          "choices",
                          CHOICES_MAX);
    if (o->type == OPT_ACCEPT_REJECT)
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "optimizer.type"),
                          "iql learns by gradients");
    return 0;
}

static int build(struct algo **ret, const struct algo_args *args, struct err *err)
{
    const struct space *self = &args->agents[args->self];
    struct algo *a;
    int r = check(self, args->config, err);

    if (r < 0)
        return r;
    a = xcalloc(1, sizeof(*a));
    a->graph = args->graph;
    a->config = args->config;
    a->settings = args->settings;
    a->share = args->share;
    a->agents = args->agents;
    a->self = self;
    a->index = args->self;
    a->n_agents = args->n_agents;
    a->n_choices = choices_count(self, CHOICES_MAX);
    a->allowed = xcalloc((size_t)a->n_choices, 1);
    r = iql_build_graph(a, err);
    if (r < 0) {
        iql_free(a);
        return r;
    }
    *ret = a;
    return 0;
}

static const struct stage *stages(const struct algo *a, size_t *ret_n)
{
    static const struct stage learn = {
        .name = "learn", .runner = STAGE_LEARNERS, .writes = 1, .repeat_from = 0};

    *ret_n = a->share != NULL ? SHARE_N_STAGES : 1;
    return a->share != NULL ? share_stages : &learn;
}

static const struct live *lives(const struct algo *a, size_t *ret_n)
{
    *ret_n = IQL_LIVES;
    return a->live;
}

static int init(struct algo *a, struct session *s, struct rng_key key, struct err *err)
{
    struct operation *const ops[] = {a->init_variables, a->init_target};

    return algo_run_each(s, ops, 2, key, err);
}

/* ---- description ---- */

static const char *const settings[] = {EPISODE_SETTINGS, "hysteresis", "own_batches",
                                       NULL};

static const struct algorithm_scalar scalars[] = {
    SCALARS_OF_Q_NETWORK(SCALAR_BY_AGENT),
    SCALAR("target_q_std", "deviation of the targets; not of whole episodes", "reward"),
    {NULL},
};

/* What needs more than single rows (q_learner.c). */
static const struct algorithm_bound episodes_if[] = {
    {"lambda", 0},    {"n_step", 1},      {"target_every", 0},
    {"recurrent", 0}, {"last_action", 0}, {"agent_id", 0},
    {NULL},
};

static const struct algo_about about = {
    .info = {.summary = "each agent alone: a deep Q-network of its own observation",
             .use = "discrete actions, and tasks where agents can learn as if they were "
                    "alone; with `hysteresis`, games that punish miscoordination",
             .stages = "learn(all, writes)",
             .source =
                 "Tampuu et al. 2017, Multiagent cooperation and competition with deep "
                 "reinforcement learning; Matignon et al. 2007, Hysteretic Q-learning",
             .episodes_if = episodes_if,
             .scalars = scalars,
             .own_critic = 1,
             .shares = 1},
    .settings = settings};

const struct algo_ops iql_ops = {
    .name = "iql",
    .about = &about,
    .build = build,
    .free = iql_free,
    .stages = stages,
    .reads = iql_reads,
    .lives = lives,
    .init = init,
    .act = act,
    .stage = iql_stage,
};
