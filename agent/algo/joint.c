#include "agent/algo/joint.h"

#include "agent/graph/ops.h"
#include "common/mem/xmalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void joint_init(struct joint *j, struct kit *k, const struct algo_args *args,
                int own_only, int is_apart)
{
    *j = (struct joint){.kit = k, .is_apart = is_apart, .n_values = 1};
    seen_init(&j->seen, args, own_only);
    j->observation = xcalloc(2 * j->seen.n, sizeof(*j->observation));
    j->action = j->observation + j->seen.n;
    j->now = matrix_new(&k->matrices, 0);
    j->next = matrix_new(&k->matrices, 0);
    matrix_share_memory(j->next, j->now);
    matrix_add_seen(j->now, NOW, &j->seen);
    matrix_add_seen(j->next, NEXT, &j->seen);
    for (size_t i = 0; i < j->seen.n; i++)
        if (!is_apart || i != j->seen.own)
            matrix_add_action(j->now, j->seen.agent[i]);
}

void joint_take_proposals(struct joint *j, struct matrix *proposal)
{
    if (proposal != NULL && !j->is_apart)
        matrix_add_copy(j->next, proposal);
    for (size_t i = 0; proposal == NULL && i < j->seen.n; i++) {
        const size_t agent = j->seen.agent[i];

        if (!j->is_apart || i != j->seen.own)
            matrix_add_output(j->next, agent, "action", j->kit->agents[agent].width,
                              OUTPUT_ACTION);
    }
}

void joint_done(struct joint *j)
{
    seen_done(&j->seen);
    free(j->observation);
}

/* ---- the graph ---- */

static void make_all(struct joint *j, struct output *ret, const char *what, int of_obs)
{
    char name[AGENT_NAME_MAX];

    for (size_t i = 0; i < j->seen.n; i++) {
        const struct space *agent = &j->kit->agents[j->seen.agent[i]];
        const int64_t observed = i == j->seen.own ? j->seen.input : agent->obs;

        (void)snprintf(name, sizeof(name), "%s%zu", what, j->seen.agent[i]);
        ret[i] = kit_placeholder(j->kit, of_obs ? observed : agent->width, name);
    }
}

void joint_make_observations(struct joint *j)
{
    if (!j->is_apart)
        make_all(j, j->observation, "observation", 1);
}

void joint_make_actions(struct joint *j, int64_t choices)
{
    const size_t own = j->seen.own;

    if (!j->is_apart) {
        make_all(j, j->action, "action", 0);
        return;
    }
    j->n_values = choices > 0 ? choices : 1;
    j->observation[own] = kit_placeholder(j->kit, j->seen.input, "observation");
    j->observations = kit_placeholder(j->kit, matrix_width(j->now), "state");
    j->action[own] =
        kit_placeholder(j->kit, choices > 0 ? choices : j->kit->self->width, "action");
}

static struct output join(struct graph *g, const struct output *xs, size_t n)
{
    return n == 1 ? xs[0] : concat(g, xs, n, 1, NULL);
}

/* Sets c->input. With C values the own action is no input. */
static struct output value_of(const struct joint *j, struct critic *c)
{
    const struct network_config *net = &j->kit->config->critic;
    struct graph *g = j->kit->graph;
    const struct output x = see_observations(g, j->observations, net, &j->form);

    return j->n_values == 1 ? critic_network(g, x, c->actions, net, &c->input)
                            : mlp(g, x, net, j->n_values);
}

struct critic joint_critic(struct joint *j, struct output own, const char *scope,
                           enum reuse reuse)
{
    struct graph *g = j->kit->graph;
    struct output *actions = xcalloc(j->seen.n, sizeof(*actions));
    struct critic c = {.twin = OUTPUT_NONE, .actions = own, .input = OUTPUT_NONE};

    if (!output_valid(j->observations))
        j->observations = join(g, j->observation, j->seen.n);
    memcpy(actions, j->action, j->seen.n * sizeof(*actions));
    actions[j->seen.own] = own;
    if (!j->is_apart)
        c.actions = join(g, actions, j->seen.n);
    variable_scope_enter(g, scope, NULL, reuse);
    c.q = value_of(j, &c);
    variable_scope_leave(g);
    free(actions);
    return c;
}

struct critic joint_twins(struct joint *j, struct output own, const char *scope,
                          enum reuse reuse)
{
    struct graph *g = j->kit->graph;
    struct critic c = joint_critic(j, own, scope, reuse);

    variable_scope_enter(g, scope, NULL, reuse);
    variable_scope_enter(g, "twin", NULL, REUSE_INHERIT);
    c.twin = output_valid(c.input) ? mlp(g, c.input, &j->kit->config->critic, 1)
                                   : value_of(j, &c);
    variable_scope_leave(g);
    variable_scope_leave(g);
    return c;
}

struct output joint_min(const struct joint *j, const struct critic *c)
{
    return binary(j->kit->graph, "Minimum", c->q, c->twin, "min_q");
}

/* ---- runs ---- */

void joint_feed(struct batch *b, const struct joint *j, const struct critic *c,
                enum when when)
{
    struct matrix *m = when == NOW ? j->now : j->next;
    struct matrix *own = when == NOW ? j->own_now : j->own_next;
    const int64_t observed = j->seen.obs;

    if (j->is_apart) {
        batch_feed(b, j->observations, m);
        if (own != NULL)
            batch_feed(b, j->action[j->seen.own], own);
        return;
    }
    if (output_valid(c->input)) {
        batch_feed(b, c->input, m);
        return;
    }
    batch_feed_part(b, j->observations, m, 0, observed);
    batch_feed_part(b, c->actions, m, observed, matrix_width(m) - observed);
}

void joint_feed_others(struct batch *b, const struct joint *j)
{
    const struct output own = j->observation[j->seen.own];
    int64_t column = j->seen.obs;

    if (j->is_apart) {
        batch_feed_part(b, own, j->now, j->seen.own_obs, j->seen.input);
        batch_feed(b, j->observations, j->now);
        return;
    }
    if (j->seen.n > 1)
        batch_feed_part(b, j->observations, j->now, 0, j->seen.obs);
    for (size_t i = 0; i < j->seen.n; i++) {
        const int64_t width = j->kit->agents[j->seen.agent[i]].width;

        if (i == j->seen.own)
            batch_feed_part(b, own, j->now, j->seen.own_obs, j->seen.input);
        else
            batch_feed_part(b, j->action[i], j->now, column, width);
        column += width;
    }
}
