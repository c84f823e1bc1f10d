/* A critic alone, driven from outside: what an observation and an action are worth.
 *
 * It has no stages and does not act; a client runs its graph. Names, under the agent's:
 *
 *     inputs:0 (B, O)  action:0 (B, U)  q_predicted:0 (B, 1)  is_weight:0 (B, 1)   fed
 *     q:0 (B, 1)  target_q:0 (B, 1)  td_error:0 (B, 1)  loss:0  grad_norm:0
 *     action_gradients:0 (B, U), of q's mean                                   fetched
 *     train          one step down mean(is_weight (q_predicted - q)^2)
 *     update_target  target = (1 - polyak) target + polyak performance
 *     performance_network/... and target_network/..., variables
 *
 * The network is the configuration's; by default that of the first users: 128 and 32
 * leaky ReLU, then the action joins, 64 leaky ReLU, 1, the last weights in +-3e-3.
 */
#include "agent/algo/algo.h"
#include "agent/algo/live.h"
#include "agent/algo/parts.h"
#include "agent/graph/ops.h"
#include "agent/nn/nn.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>

enum critic_live { CRITIC_CLIP_NORM, CRITIC_RATE, CRITIC_POLYAK, CRITIC_LIVES };

struct algo {
    struct graph *graph;
    const struct agent_config *config;
    const struct algorithm_settings *settings;
    const struct space *self;
    struct output inputs, action, q_predicted, is_weight;
    struct output polyak, q;
    struct live lives[CRITIC_LIVES];
    struct operation *init_variables, *init_target;
};

/* ---- the graph ---- */

static void make_placeholders(struct algo *a)
{
    struct graph *g = a->graph;

    a->inputs = placeholder(g, DT_FLOAT, &SHAPE(-1, a->self->obs), "inputs");
    a->action = placeholder(g, DT_FLOAT, &SHAPE(-1, a->self->width), "action");
    a->q_predicted = placeholder(g, DT_FLOAT, &SHAPE(-1, 1), "q_predicted");
    a->is_weight = placeholder(g, DT_FLOAT, &SHAPE(-1, 1), "is_weight");
}

static struct output network(struct algo *a, const char *scope)
{
    struct output q, joined;

    variable_scope_enter(a->graph, scope, NULL, REUSE_AUTO);
    q = critic_network(a->graph, a->inputs, a->action, &a->config->critic, &joined);
    variable_scope_leave(a->graph);
    return q;
}

static void make_action_gradients(struct algo *a, struct err *err)
{
    struct graph *g = a->graph;
    struct output mean = reduce(g, "Mean", a->q, NULL, 0, 0, "q_mean"), grad;

    if (graph_gradients(g, &mean, 1, &a->action, 1, NULL, NULL, 0, &grad, err) == 0)
        (void)unary(g, "Identity", grad, "action_gradients");
}

static struct operation *make_training(struct algo *a, struct err *err)
{
    struct graph *g = a->graph;
    const struct agent_config *c = a->config;
    char *scope = xasprintf("%s/performance_network/", a->self->name);
    struct minimizer m = {.scope = scope,
                          .optimizer = network_optimizer(c, &c->critic),
                          .clip_by = a->settings->clip_by};
    struct output error = binary(g, "Sub", a->q_predicted, a->q, "td_error"), loss;
    struct operation *train;

    a->lives[CRITIC_CLIP_NORM] =
        live_fed(g, "clip_norm", c->clip_norm, LIVE_NO_CLIP_NORM, "clip_norm");
    m.clip_norm = a->lives[CRITIC_CLIP_NORM].constant;
    loss = binary(g, "Mul", a->is_weight, unary(g, "Square", error, NULL), "mul");
    loss = reduce(g, "Mean", loss, NULL, 0, 0, "loss");
    train = minimize_clipped(g, loss, &m, err);
    free(scope);
    if (train == NULL)
        return NULL;
    a->lives[CRITIC_RATE] = live_critic_rate(g, c);
    live_bind(g, &a->lives[CRITIC_RATE], m.learning_rate);
    (void)unary(g, "Identity", m.norm, "grad_norm");
    return group(g, &train, 1, "train");
}

static void make_target(struct algo *a)
{
    static const struct following target = {"target_network", "performance_network"};
    struct graph *g = a->graph;
    const struct live polyak = live_fed(g, "polyak", a->config->polyak, 0, "polyak");
    struct output keep =
        binary(g, "Sub", constant_f32(g, 1.0f, NULL), polyak.constant, "keep");
    struct operation *update;

    a->lives[CRITIC_POLYAK] = polyak;
    follow_variables(g, a->self->name, &target, 1, keep, polyak.constant, "update_target",
                     "init_target", &update, &a->init_target);
}

static int build_graph(struct algo *a, struct err *err)
{
    struct graph *g = a->graph;
    struct operation *train;

    variable_scope_enter(g, a->self->name, NULL, REUSE_INHERIT);
    make_placeholders(a);
    a->q = unary(g, "Identity", network(a, "performance_network"), "q");
    train = make_training(a, err);
    make_action_gradients(a, err);
    (void)unary(g, "Identity", network(a, "target_network"), "target_q");
    make_target(a);
    variable_scope_leave(g);
    return finish_graph(g, train != NULL ? 0 : ERR_ARG, &a->init_variables, err);
}

/* ---- the algorithm ---- */

static void critic_free(struct algo *a)
{
    free(a);
}

static int build(struct algo **ret, const struct algo_args *args, struct err *err)
{
    const struct agent_config *c = args->config;
    struct pictures none;
    struct algo *a;
    int r = pictures_of(&c->critic, "critic.conv", &args->agents[args->self], NULL, 1,
                        &none, err);

    if (r < 0) /* without an environment nothing says what an image is */
        return r;
    if (network_optimizer(c, &c->critic)->type == OPT_ACCEPT_REJECT)
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "optimizer.type"),
                          "accept_reject tries changes on batches of its "
                          "own; a critic that clients train needs gradients");
    a = xcalloc(1, sizeof(*a));
    a->graph = args->graph;
    a->config = c;
    a->settings = args->settings;
    a->self = &args->agents[args->self];
    r = build_graph(a, err);
    if (r < 0) {
        free(a);
        return r;
    }
    *ret = a;
    return 0;
}

static const struct live *lives(const struct algo *a, size_t *ret_n)
{
    *ret_n = CRITIC_LIVES;
    return a->lives;
}

static int init(struct algo *a, struct session *s, struct rng_key key, struct err *err)
{
    struct operation *const ops[] = {a->init_variables, a->init_target};

    return algo_run_each(s, ops, 2, key, err);
}

/* ---- description ---- */

static const char *const settings[] = {"clip_by", NULL};

static const struct algorithm_default defaults[] = {
    {"critic.hidden", "[128, 32]"},
    {"critic.activation", "leaky_relu"},
    {"critic.after_action", "[64]"},
    {"critic.output_init", "0.003"},
    {NULL},
};

static const struct algo_about about = {
    .info = {.summary = "a critic alone, trained by a client with targets of its own",
             .use = "for a program that computes the targets itself, through `brood run` "
                    "and its socket",
             .stages = "",
             .source = "agent/algo/critic.c",
             .defaults = defaults,
             .own_critic = 1,
             .without_env = 1},
    .settings = settings};

const struct algo_ops critic_ops = {
    .name = "critic",
    .about = &about,
    .build = build,
    .free = critic_free,
    .lives = lives,
    .init = init,
};
