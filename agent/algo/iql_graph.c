#include "agent/algo/iql.h"

#include "agent/algo/parts.h"
#include "agent/algo/share.h"
#include "agent/graph/ops.h"
#include "agent/nn/nn.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>

static struct output network(struct algo *a, const char *scope)
{
    struct output q;

    variable_scope_enter(a->graph, scope, NULL, REUSE_AUTO);
    q = see_pictures(a->graph, a->obs, &a->config->critic, &a->pictures);
    q = mlp(a->graph, q, &a->config->critic, a->n_choices);
    variable_scope_leave(a->graph);
    return q;
}

static void make_placeholders(struct algo *a)
{
    struct graph *g = a->graph;

    a->obs = placeholder(g, DT_FLOAT, &SHAPE(-1, a->self->obs), "observation");
    if (!share_learns(a->share))
        return;
    a->choice = placeholder(g, DT_FLOAT, &SHAPE(-1, a->n_choices), "choice");
    a->target = placeholder(g, DT_FLOAT, &SHAPE(-1, 1), "target");
    a->weight = placeholder(g, DT_FLOAT, &SHAPE(-1, 1), "is_weight");
}

static void make_lives(struct algo *a)
{
    const struct agent_config *c = a->config;
    struct graph *g = a->graph;

    if (share_makes_steps(a->share))
        a->live[IQL_CLIP_NORM] =
            live_fed(g, "clip_norm", c->clip_norm, LIVE_NO_CLIP_NORM, "clip_norm");
    if (!share_learns(a->share))
        return;
    a->live[IQL_POLYAK] = live_fed(g, "polyak", c->polyak, 0, "polyak");
    a->live[IQL_HYSTERESIS] =
        live_fed(g, "settings.hysteresis", a->settings->hysteresis, 0, "hysteresis");
    a->live[IQL_DISCOUNT] = live_new(g, "discount", c->discount);
    a->live[IQL_EPSILON] = live_schedule(g, "settings.epsilon", &a->settings->epsilon);
}

static void make_loss(struct algo *a)
{
    static const int32_t columns = 1;
    struct graph *g = a->graph;
    struct output q = reduce(g, "Sum", binary(g, "Mul", a->q, a->choice, "mul"), &columns,
                             1, 1, "q_chosen");
    struct output error = binary(g, "Sub", a->target, q, "td_error");
    struct output good = unary(g, "Square", unary(g, "Relu", error, NULL), NULL);
    struct output bad = unary(g, "Neg", error, NULL);

    a->td = error;
    bad = unary(g, "Square", unary(g, "Relu", bad, NULL), NULL);
    bad = binary(g, "Mul", bad, a->live[IQL_HYSTERESIS].constant, "mul");
    a->loss = binary(g, "Mul", a->weight, binary(g, "Add", good, bad, "add"), "mul");
    a->loss = reduce(g, "Mean", a->loss, NULL, 0, 0, "loss");
    a->q_mean = reduce(g, "Mean", q, NULL, 0, 0, "q_mean");
}

static int make_training(struct algo *a, struct err *err)
{
    char *scope = xasprintf("%s/q_func/", a->self->name);
    struct share_part part = {
        .step = {.scope = scope,
                 .optimizer = network_optimizer(a->config, &a->config->critic),
                 .clip_norm = a->live[IQL_CLIP_NORM].constant,
                 .clip_by = a->settings->clip_by},
        .loss = a->loss};
    const int r = share_build_steps(a->share, a->graph, &part, 1, &a->train, err);

    free(scope);
    a->norm = part.step.norm;
    if (r < 0 || !share_makes_steps(a->share))
        return r;
    a->live[IQL_RATE] = live_critic_rate(a->graph, a->config);
    live_bind(a->graph, &a->live[IQL_RATE], part.step.learning_rate);
    return 0;
}

static void make_target_updates(struct algo *a)
{
    static const struct following target = {"target_q_func", "q_func"};
    const struct output polyak = a->live[IQL_POLYAK].constant;
    struct output keep =
        binary(a->graph, "Sub", constant_f32(a->graph, 1.0f, NULL), polyak, "keep");

    follow_variables(a->graph, a->self->name, &target, 1, keep, polyak, "update_target",
                     "init_target", &a->update_target, &a->init_target);
}

int iql_build_graph(struct algo *a, struct err *err)
{
    struct graph *g = a->graph;
    int r = pictures_of(&a->config->critic, "critic.conv", a->self, NULL, 1, &a->pictures,
                        err);

    if (r < 0)
        return r;
    variable_scope_enter(g, a->self->name, NULL, REUSE_INHERIT);
    make_placeholders(a);
    make_lives(a);
    if (share_learns(a->share))
        reward_scale_init_own(&a->scale, g, a->settings->reward_scale, a->agents,
                              &a->index, a->share);
    a->q = unary(g, "Identity", network(a, "q_func"), "q");
    name_policy(g, a->obs, a->q, POLICY_SCORES_COMBINATIONS);
    if (share_learns(a->share))
        make_loss(a);
    r = make_training(a, err);
    if (share_learns(a->share)) {
        a->target_q = unary(g, "Identity", network(a, "target_q_func"), "target_q");
        make_target_updates(a);
    }
    variable_scope_leave(g);
    return finish_graph(g, r, &a->init_variables, err);
}
