#include "agent/algo/q_learner.h"

#include "agent/algo/parts.h"
#include "agent/algo/share.h"
#include "agent/graph/ops.h"
#include "agent/nn/nn.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>

/* ---- networks ---- */

/* The values of the choices for x. steps 0: x are single steps with *carry, which is
 * replaced by the next carry; otherwise x are sequences of `steps` steps. */
static struct output network(struct algo *a, const char *scope, struct output x,
                             struct output *carry, int steps)
{
    const struct network_config *net = &a->config->critic;
    struct graph *g = a->graph;
    struct cell cell;

    variable_scope_enter(g, scope, NULL, REUSE_AUTO);
    x = see_pictures(g, x, net, &a->pictures);
    x = mlp_hidden(g, x, net);
    if (a->units > 0 && output_valid(x)) {
        const int64_t width = output_shape(x).dim[1];

        cell = cell_new(g, a->cell, width, a->units,
                        a->cell == CELL_GRU ? "gru" : "basic_lstm_cell", NULL, NULL);
        if (steps > 0) {
            x = cell_unroll(g, &cell, x, *carry, OUTPUT_NONE, steps, NULL);
        } else {
            *carry = cell_step(g, &cell, x, *carry);
            x = cell_output(g, &cell, *carry);
        }
    }
    x = mlp_output(g, x, net, a->n_choices);
    variable_scope_leave(g);
    return x;
}

/* Without a cell a row depends on no other row: one graph acts and learns. */
static void make_networks(struct algo *a)
{
    struct graph *g = a->graph;
    const int steps = a->units > 0 ? (int)a->max_steps + 1 : 0;

    a->input = placeholder(g, DT_FLOAT, &SHAPE(-1, a->inputs), "observation");
    a->carry = OUTPUT_NONE;
    if (a->units > 0)
        a->carry = placeholder(g, DT_FLOAT, &SHAPE(-1, a->memory_units), "carry");
    a->act_input = a->input;
    a->act_carry = a->act_next_carry = a->carry;
    a->act_q =
        unary(g, "Identity", network(a, "q_func", a->input, &a->act_next_carry, 0), "q");
    /* for frozen.c where it can act: it feeds observations alone */
    if (a->inputs == a->self->obs)
        name_policy(g, a->act_input, a->act_q, POLICY_SCORES_COMBINATIONS);
    if (a->inputs == a->self->obs && a->units > 0)
        name_policy_carry(g, a->act_carry, a->act_next_carry);
    a->q = a->units > 0 ? network(a, "q_func", a->input, &a->carry, steps) : a->act_q;
}

/* ---- learning ---- */

void q_make_lives(struct algo *a)
{
    const struct agent_config *c = a->config;
    struct graph *g = a->graph;

    a->live[Q_CLIP_NORM] =
        live_fed(g, "clip_norm", c->clip_norm, LIVE_NO_CLIP_NORM, "clip_norm");
    a->live[Q_POLYAK] = live_fed(g, "polyak", c->polyak, 0, "polyak");
    a->live[Q_DISCOUNT] = live_new(g, "discount", c->discount);
    a->live[Q_LAMBDA] = live_new(g, "settings.lambda", a->settings->lambda);
    if (a->mixing == Q_ALONE)
        a->live[Q_HYSTERESIS] =
            live_new(g, "settings.hysteresis", a->settings->hysteresis);
    if (a->mixers == NULL)
        a->live[Q_EPSILON] = live_schedule(g, "settings.epsilon", &a->settings->epsilon);
    a->live[Q_RATE] = live_critic_rate(g, c);
}

void q_make_scale(struct algo *a)
{
    const enum reward_scale_kind kind = a->settings->reward_scale;

    if (a->mixing == Q_ALONE)
        reward_scale_init_own(&a->scale, a->graph, kind, a->agents, &a->index, a->share);
    else
        reward_scale_init(&a->scale, a->graph, kind, a->agents, a->team.member,
                          a->team.n);
}

/* Sum of q(choice) slope. Its gradient is that of the loss, whichever process mixed the
 * values. */
static struct output make_loss(struct algo *a)
{
    static const int32_t columns = 1;
    struct graph *g = a->graph;
    struct output q;

    a->choice = placeholder(g, DT_FLOAT, &SHAPE(-1, a->n_choices), "choice");
    a->slope = placeholder(g, DT_FLOAT, &SHAPE(-1, 1), "slope");
    q = reduce(g, "Sum", binary(g, "Mul", a->q, a->choice, "mul"), &columns, 1, 1,
               "q_chosen");
    return reduce(g, "Sum", binary(g, "Mul", q, a->slope, "mul"), NULL, 0, 0, "descent");
}

static int make_training(struct algo *a, struct err *err)
{
    char *scope = xasprintf("%s/q_func/", a->self->name);
    struct share_part part = {
        .step = {.scope = scope,
                 .optimizer = network_optimizer(a->config, &a->config->critic),
                 .clip_norm = a->live[Q_CLIP_NORM].constant,
                 .clip_by = a->settings->clip_by}};
    int r;

    if (share_learns(a->share))
        part.loss = make_loss(a);
    r = share_build_steps(a->share, a->graph, &part, 1, &a->train, err);
    free(scope);
    a->norm = part.step.norm;
    if (r == 0 && share_makes_steps(a->share))
        live_bind(a->graph, &a->live[Q_RATE], part.step.learning_rate);
    return r;
}

static void make_target(struct algo *a)
{
    static const struct following target = {"target_q_func", "q_func"};
    struct graph *g = a->graph;
    const struct output polyak = a->live[Q_POLYAK].constant;
    struct output keep = binary(g, "Sub", constant_f32(g, 1.0f, NULL), polyak, "keep");
    struct output carry = a->carry;

    a->target_q = network(a, "target_q_func", a->input, &carry,
                          a->units > 0 ? (int)a->max_steps + 1 : 0);
    a->target_q = unary(g, "Identity", a->target_q, "target_q");
    follow_variables(g, a->self->name, &target, 1, keep, polyak, "update_target",
                     "init_target", &a->update_target, &a->copy_target);
}

int q_build_graph(struct algo *a, struct err *err)
{
    struct graph *g = a->graph;
    int r = pictures_of(&a->config->critic, "critic.conv", a->self, NULL, 1, &a->pictures,
                        err);

    if (r < 0)
        return r;
    variable_scope_enter(g, a->self->name, NULL, REUSE_INHERIT);
    q_make_lives(a);
    if (share_learns(a->share) && a->mixing != Q_NETWORK)
        q_make_scale(a);
    make_networks(a);
    r = make_training(a, err);
    if (share_learns(a->share))
        make_target(a);
    variable_scope_leave(g);
    return finish_graph(g, r, &a->init_variables, err);
}
