/* first_algorithm.c - an algorithm of one's own in C, as agent/algo/README.md explains it:
 * Q-learning with one network and no target network.
 *
 * As a file of agent/algo it has no `main`, and a row in registry.c: `&first_ops`. Here it is
 * an agent that plays nothing else, whatever algorithm the configuration names.
 *
 * Shapes   B rows or copies, O observation width, C choices.
 */
#include "agent/agent.h"
#include "agent/algo/choices.h"
#include "agent/algo/feeds.h"
#include "agent/algo/live.h"
#include "agent/algo/parts.h"
#include "agent/algo/reads.h"
#include "agent/algo/rows.h"
#include "agent/graph/ops.h"
#include "agent/nn/nn.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>

enum { CLIP_NORM, RATE, DISCOUNT, EPSILON, LIVES };

/* What `build` makes, and memory that each request overwrites: no answer depends on what an
 * earlier one has left here. Weights are variables of the graph. */
struct algo {
    const struct space *self;
    size_t index, n_agents;
    int32_t n_choices;
    struct output obs, choice, target; /* fed: (B, O), (B, C) one-hot, (B, 1) */
    struct output q, loss;             /* (B, C), scalar */
    struct operation *train, *init;
    struct live live[LIVES]; /* settings that `brood set` can change */
    struct feeds feeds;
    uint8_t *allowed; /* (C) */
    void *memory;     /* for `rows` rows */
    int64_t rows;
    int obs_column, action_column, reward_column, next_obs_column, terminated_column;
};

/* ---- building: once, on `configure` ---- */

static int make_graph(struct algo *a, struct graph *g, const struct agent_config *c,
                      const struct algorithm_settings *set, struct err *err)
{
    static const int32_t columns = 1;
    struct minimizer m = {.optimizer = network_optimizer(c, &c->critic),
                          .clip_by = set->clip_by};
    struct output chosen, error;
    char *scope = xasprintf("%s/q_func/", a->self->name);

    variable_scope_enter(g, a->self->name, NULL, REUSE_INHERIT);
    a->obs = placeholder(g, DT_FLOAT, &SHAPE(-1, a->self->obs), "observation");
    a->choice = placeholder(g, DT_FLOAT, &SHAPE(-1, a->n_choices), "choice");
    a->target = placeholder(g, DT_FLOAT, &SHAPE(-1, 1), "target");
    variable_scope_enter(g, "q_func", NULL, REUSE_AUTO);
    a->q = mlp(g, a->obs, &c->critic, a->n_choices);
    variable_scope_leave(g);
    a->live[DISCOUNT] = live_new(g, "discount", c->discount);
    a->live[EPSILON] = live_schedule(g, "settings.epsilon", &set->epsilon);
    a->live[CLIP_NORM] =
        live_fed(g, "clip_norm", c->clip_norm, LIVE_NO_CLIP_NORM, "clip_norm");
    chosen =
        reduce(g, "Sum", binary(g, "Mul", a->q, a->choice, NULL), &columns, 1, 1, NULL);
    error = binary(g, "Sub", a->target, chosen, NULL);
    a->loss = reduce(g, "Mean", unary(g, "Square", error, NULL), NULL, 0, 0, "loss");
    m.scope = scope;
    m.clip_norm = a->live[CLIP_NORM].constant;
    a->train = minimize_clipped(g, a->loss, &m, err);
    a->live[RATE] = live_critic_rate(g, c);
    live_bind(g, &a->live[RATE], m.learning_rate);
    variable_scope_leave(g);
    free(scope);
    return finish_graph(g, a->train != NULL ? 0 : ERR_ARG, &a->init, err);
}

static void first_free(struct algo *a)
{
    free(a->feeds.list);
    free(a->allowed);
    free(a->memory);
    free(a);
}

static int build(struct algo **ret, const struct algo_args *args, struct err *err)
{
    const struct space *self = &args->agents[args->self];
    const int32_t n_choices = choices_count(self, CHOICES_MAX);
    struct algo *a;
    int rc;

    if (self->box || n_choices == 0)
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "algorithm"),
                          "it needs discrete actions");
    a = xcalloc(1, sizeof(*a));
    a->self = self;
    a->index = args->self;
    a->n_agents = args->n_agents;
    a->n_choices = n_choices;
    a->allowed = xcalloc((size_t)n_choices, 1);
    rc = make_graph(a, args->graph, args->config, args->settings, err);
    if (rc < 0)
        first_free(a);
    else
        *ret = a;
    return rc;
}

static int init(struct algo *a, struct session *s, struct rng_key key, struct err *err)
{
    return algo_run_each(s, &a->init, 1, key, err);
}

/* ---- what it declares ---- */

static const struct stage *stages(const struct algo *a, size_t *ret_n)
{
    static const struct stage learn = {
        .name = "learn", .runner = STAGE_LEARNERS, .writes = 1, .repeat_from = 0};

    *ret_n = 1;
    return &learn;
}

static void reads(struct algo *a, struct reads *r)
{
    reads_add(r, a->self->name, "obs", a->self->obs, &a->obs_column);
    reads_add(r, a->self->name, "action", a->self->width, &a->action_column);
    reads_add(r, a->self->name, "reward", 1, &a->reward_column);
    reads_add(r, a->self->name, "next_obs", a->self->obs, &a->next_obs_column);
    reads_add(r, a->self->name, "terminated", 1, &a->terminated_column);
}

static const struct live *lives(const struct algo *a, size_t *ret_n)
{
    *ret_n = LIVES;
    return a->live;
}

/* ---- acting and learning ---- */

/* obs (n, O) -> ret (n, C) */
static int values_of(struct algo *a, struct session *s, const float *obs, int64_t n,
                     float *ret, struct err *err)
{
    struct tensor values = tensor_view(DT_FLOAT, SHAPE(n, a->n_choices), ret);

    feeds_begin(&a->feeds);
    feeds_add(&a->feeds, a->obs, obs, n, a->self->obs);
    return feeds_fetch(&a->feeds, s, &a->q, &values, 1, err);
}

static int reserve(struct algo *a, int64_t rows, struct err *err)
{
    const int64_t widths = 2 * a->n_choices + a->self->obs + a->self->width + 16;

    return rows_reserve(&a->memory, &a->rows, rows, (size_t)(rows * widths + 16 * 8),
                        err);
}

static int act(struct algo *a, struct session *s, const struct act_args *args,
               struct act_result *ret, struct err *err)
{
    const size_t n = args->n_copies, c = (size_t)a->n_choices, u = (size_t)a->self->width;
    const int greedy = args->mode == ACT_GREEDY;
    struct ramp epsilon;
    size_t used = 0;
    float *q, *draw;
    int rc;

    if ((rc = reserve(a, (int64_t)n, err)) < 0 ||
        (rc = live_ramp(&a->live[EPSILON], s, &epsilon, err)) < 0)
        return rc;
    q = rows_take(a->memory, &used, n * c);
    draw = rows_take(a->memory, &used, n);
    /* A function of the seed, the agent's name and the step: no generator has a state. */
    rng_uniform_rows_f32(args->key, args->counter, args->draw_first, draw, n, 1);
    rc = values_of(a, s, args->obs, (int64_t)n, q, err);
    for (size_t e = 0; e < n && rc == 0; e++)
        choice_to_action(a->self,
                         choice_epsilon_greedy(
                             a->self, q + e * c,
                             args->allowed != NULL ? args->allowed + e * u : NULL,
                             a->n_choices, greedy ? NULL : &draw[e],
                             (float)ramp_value(&epsilon, act_step(args, e)), a->allowed),
                         ret->actions + e * u);
    return rc;
}

/* One step down (reward + discount max q(next) (1 - terminated) - q)^2. */
static int learn(struct algo *a, struct session *s, const struct stage_args *args,
                 struct stage_result *ret, struct err *err)
{
    const int64_t n = args->batch, o = a->self->obs, u = a->self->width, c = a->n_choices;
    const uint64_t *rows = args->rows + rows_group(args, a->index) * n;
    struct fetches fetched = {0};
    struct run_args run;
    size_t used = 0;
    float *obs, *action, *choice, *q, *reward, *terminated, *best, *target;
    int rc;

    if ((rc = rows_check(args, a->n_agents, err)) < 0 || (rc = reserve(a, n, err)) < 0 ||
        (rc = lives_read(a->live, LIVES, s, args->step, err)) < 0)
        return rc;
    obs = rows_take(a->memory, &used, (size_t)(n * o));
    action = rows_take(a->memory, &used, (size_t)(n * u));
    choice = rows_take(a->memory, &used, (size_t)(n * c));
    q = rows_take(a->memory, &used, (size_t)(n * c));
    reward = rows_take(a->memory, &used, (size_t)n);
    terminated = rows_take(a->memory, &used, (size_t)n);
    best = rows_take(a->memory, &used, (size_t)n);
    target = rows_take(a->memory, &used, (size_t)n);

    store_view_gather(args->store, a->next_obs_column, rows, (size_t)n, obs, (size_t)o);
    store_view_gather(args->store, a->reward_column, rows, (size_t)n, reward, 1);
    store_view_gather(args->store, a->terminated_column, rows, (size_t)n, terminated, 1);
    if ((rc = values_of(a, s, obs, n, q, err)) < 0)
        return rc;
    for (int64_t i = 0; i < n; i++)
        best[i] = q[i * c + choice_best(q + i * c, a->n_choices)];
    rows_targets(target, reward, terminated, best, a->live[DISCOUNT].value, n, ret);

    store_view_gather(args->store, a->obs_column, rows, (size_t)n, obs, (size_t)o);
    store_view_gather(args->store, a->action_column, rows, (size_t)n, action, (size_t)u);
    choices_one_hot(a->self, action, n, c, choice);
    feeds_begin(&a->feeds);
    feeds_add(&a->feeds, a->obs, obs, n, o);
    feeds_add(&a->feeds, a->choice, choice, n, c);
    feeds_add(&a->feeds, a->target, target, n, 1);
    feeds_live(&a->feeds, &a->live[CLIP_NORM]);
    feeds_live(&a->feeds, &a->live[RATE]);
    fetch_scalar(&fetched, "critic_loss", a->loss);
    run = collected_run(&a->feeds, &fetched, args, &a->train, 1);
    rc = session_run(s, &run, fetched.value, err);
    if (rc == 0)
        fetches_report(&fetched, ret);
    return rc;
}

/* ---- what it says of itself: brood knows no algorithm ---- */

static const char *const settings[] = {"epsilon", "clip_by", NULL};

static const struct algo_about about = {
    .info = {.summary = "each agent alone: one Q-network, without a target network",
             .use = "an example to start from",
             .stages = "learn(all, writes)",
             .source = "Mnih et al. 2013, Playing Atari with deep reinforcement learning",
             .own_critic = 1},
    .settings = settings};

static const struct algo_ops first_ops = {
    .name = "first",
    .about = &about,
    .build = build,
    .free = first_free,
    .stages = stages,
    .reads = reads,
    .lives = lives,
    .init = init,
    .act = act,
    .stage = learn,
};

int main(int argc, char **argv)
{
    return agent_main(argc, argv, &first_ops);
}
