#include "agent/algo/mixer.h"

#include "agent/graph/arithmetic.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>

enum { MIXED = 32, HYPER = 64 };

void mixer_init(struct mixer *m, struct kit *k, const char *team, int is_only)
{
    struct matrices *all = &k->matrices;

    m->kit = k;
    team_init(&m->team, k->agents, k->n_agents, team);
    m->team_scope = is_only ? NULL : team;
    m->scope = is_only ? xstrdup("mixer") : xasprintf("%s/mixer", team);
    m->target_scope =
        is_only ? xstrdup("target_mixer") : xasprintf("%s/target_mixer", team);
    episodes_init(&m->episodes, k, m->team.member, m->team.n);
    m->states = matrix_new(all, 0);
    m->next_states = matrix_new(all, 0);
    for (size_t i = 0; i < m->team.n; i++) {
        matrix_add_obs(m->states, NOW, m->team.member[i]);
        matrix_add_obs(m->next_states, NEXT, m->team.member[i]);
    }
    m->qs = team_outputs(&m->team, all, "q");
    m->nexts = team_outputs(&m->team, all, "next");
    m->slopes = matrix_new(all, (int64_t)m->team.n);
    m->value = matrix_new(all, 1);
    m->next = matrix_new(all, 1);
}

void mixer_done(struct mixer *m)
{
    team_done(&m->team);
    free(m->scope);
    free(m->target_scope);
}

/* ---- the network ---- */

static struct output layer(struct graph *g, struct output x, int64_t n,
                           enum activation activation, const char *scope)
{
    const struct initializer init = linear_initializer(output_shape(x).dim[1]);

    return fully_connected_from(g, x, n, activation, scope, &init, &init);
}

static struct output network(const struct mixer *m, const char *scope)
{
    static const int32_t columns = 1;
    struct graph *g = m->kit->graph;
    const struct output s = m->state;
    struct output w1, w2, hidden, value, sum;

    variable_scope_enter(g, scope, NULL, REUSE_INHERIT);
    w1 = layer(g, s, HYPER, ACTIVATION_RELU, "w1_hidden");
    w1 = absolute(g, layer(g, w1, (int64_t)m->team.n * MIXED, ACTIVATION_LINEAR, "w1"));
    sum = layer(g, s, MIXED, ACTIVATION_LINEAR, "b1");
    for (size_t i = 0; i < m->team.n; i++) {
        struct output w = slice_columns(g, w1, (int64_t)i * MIXED, MIXED, NULL);
        struct output q = slice_columns(g, m->q, (int64_t)i, 1, NULL);

        sum = add(g, sum, mul(g, w, q));
    }
    hidden = unary(g, "Elu", sum, NULL);
    w2 = layer(g, s, HYPER, ACTIVATION_RELU, "w2_hidden");
    w2 = absolute(g, layer(g, w2, MIXED, ACTIVATION_LINEAR, "w2"));
    value = layer(g, s, MIXED, ACTIVATION_RELU, "v_hidden");
    value = layer(g, value, 1, ACTIVATION_LINEAR, "v");
    hidden = reduce(g, "Sum", mul(g, hidden, w2), &columns, 1, 1, NULL);
    variable_scope_leave(g);
    return binary(g, "Add", hidden, value, "q_mixed");
}

/* m->weight: fed with weights that are already divided, so that their sum is a mean. */
static void make_training(struct mixer *m, struct live *rate)
{
    struct kit *k = m->kit;
    struct graph *g = k->graph;
    struct step step;
    struct output error, loss;

    m->y = kit_placeholder(k, 1, "target");
    m->weight = kit_placeholder(k, 1, "is_weight");
    error = square(g, binary(g, "Sub", m->y, m->mixed, "td_error"));
    loss = sum_of(g, mul(g, m->weight, error), "loss");
    if (k->failure.code == 0)
        (void)graph_gradients(g, &loss, 1, &m->q, 1, NULL, NULL, 0, &m->slope,
                              &k->failure);
    step = kit_critic_step(k, m->scope, rate, loss);
    step.norm_name = "mixer_grad_norm";
    step.rate_name = NULL;
    m->step = kit_add_step(k, step);
}

void mixer_build(struct mixer *m, struct live *rate)
{
    struct kit *k = m->kit;
    struct graph *g = k->graph;

    if (m->team_scope != NULL)
        variable_scope_enter(g, m->team_scope, NULL, REUSE_INHERIT);
    m->scale = kit_add_scale(k, m->team.member, m->team.n);
    m->state = kit_placeholder(k, matrix_width(m->states), "state");
    m->q = kit_placeholder(k, (int64_t)m->team.n, "q");
    m->mixed = network(m, "mixer");
    make_training(m, rate);
    m->target_mixed = network(m, "target_mixer");
    if (m->team_scope != NULL)
        variable_scope_leave(g);
}

/* ---- learning ---- */

const float *mixer_learn(struct mixer *m, struct batch *b, float lambda, float *priority,
                         double measured[EPISODES_MEASURED], double *ret_norm)
{
    const float *next, *value;

    episodes_take(&m->episodes, b, m->scale);
    batch_feed(b, m->q, m->nexts);
    batch_feed(b, m->state, m->next_states);
    batch_fetch(b, m->target_mixed, m->next);
    batch_run(b);
    next = batch_take(b, m->next);
    episodes_find_targets(&m->episodes, b, next, lambda);
    batch_feed(b, m->q, m->qs);
    batch_feed(b, m->state, m->states);
    episodes_feed(&m->episodes, b, m->y, m->weight);
    batch_fetch(b, m->slope, m->slopes);
    batch_fetch(b, m->mixed, m->value);
    batch_step_quietly(b, m->step, 1);
    *ret_norm =
        (double)b->fetched.scalar[b->fetched.n - 1]; /* the step's own comes last */
    batch_forget(b);
    value = batch_take(b, m->value);
    if (b->rc < 0)
        return NULL;
    episodes_measure(&m->episodes, b, value, 1, measured);
    episodes_find_priorities(&m->episodes, b, value, priority);
    return batch_take(b, m->slopes);
}
