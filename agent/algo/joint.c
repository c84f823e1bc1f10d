#include "agent/algo/joint.h"

#include "agent/graph/ops.h"
#include "common/mem/xmalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void joint_init(struct joint *j, struct kit *k, const struct algo_args *args,
                int own_only)
{
    *j = (struct joint){.kit = k};
    seen_init(&j->seen, args, own_only);
    j->observation = xcalloc(2 * j->seen.n, sizeof(*j->observation));
    j->action = j->observation + j->seen.n;
    j->now = matrix_new(&k->matrices, 0);
    j->next = matrix_new(&k->matrices, 0);
    matrix_share_memory(j->next, j->now);
    matrix_add_seen(j->now, NOW, &j->seen);
    matrix_add_seen(j->next, NEXT, &j->seen);
    for (size_t i = 0; i < j->seen.n; i++)
        matrix_add_action(j->now, j->seen.agent[i]);
}

void joint_take_proposals(struct joint *j, struct matrix *proposal)
{
    if (proposal != NULL) {
        matrix_add_copy(j->next, proposal);
        return;
    }
    for (size_t i = 0; i < j->seen.n; i++) {
        const size_t agent = j->seen.agent[i];

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

void joint_make_observations(struct joint *j)
{
    char name[AGENT_NAME_MAX];

    for (size_t i = 0; i < j->seen.n; i++) {
        const size_t agent = j->seen.agent[i];

        (void)snprintf(name, sizeof(name), "observation%zu", agent);
        j->observation[i] = kit_placeholder(
            j->kit, i == j->seen.own ? j->seen.input : j->kit->agents[agent].obs, name);
    }
}

void joint_make_actions(struct joint *j)
{
    char name[AGENT_NAME_MAX];

    for (size_t i = 0; i < j->seen.n; i++) {
        const size_t agent = j->seen.agent[i];

        (void)snprintf(name, sizeof(name), "action%zu", agent);
        j->action[i] = kit_placeholder(j->kit, j->kit->agents[agent].width, name);
    }
}

static struct output join(struct graph *g, const struct output *xs, size_t n)
{
    return n == 1 ? xs[0] : concat(g, xs, n, 1, NULL);
}

/* The seen observations, after the critic's convolutions. */
static struct output seen_by_critic(const struct joint *j)
{
    return see_observations(j->kit->graph, j->observations, &j->kit->config->critic,
                            &j->form);
}

struct critic joint_critic(struct joint *j, struct output own, const char *scope,
                           enum reuse reuse)
{
    struct graph *g = j->kit->graph;
    struct output *actions = xcalloc(j->seen.n, sizeof(*actions));
    struct critic c;

    if (!output_valid(j->observations))
        j->observations = join(g, j->observation, j->seen.n);
    memcpy(actions, j->action, j->seen.n * sizeof(*actions));
    actions[j->seen.own] = own;
    c.actions = join(g, actions, j->seen.n);
    variable_scope_enter(g, scope, NULL, reuse);
    c.q = critic_network(g, seen_by_critic(j), c.actions, &j->kit->config->critic,
                         &c.input);
    variable_scope_leave(g);
    free(actions);
    return c;
}

struct output joint_twin(struct joint *j, const struct critic *c, const char *scope)
{
    const struct network_config *net = &j->kit->config->critic;
    struct graph *g = j->kit->graph;
    struct output q, input;

    variable_scope_enter(g, scope, NULL, REUSE_INHERIT);
    variable_scope_enter(g, "twin", NULL, REUSE_INHERIT);
    q = output_valid(c->input)
            ? mlp(g, c->input, net, 1)
            : critic_network(g, seen_by_critic(j), c->actions, net, &input);
    variable_scope_leave(g);
    variable_scope_leave(g);
    return q;
}

/* ---- runs ---- */

void joint_feed(struct batch *b, const struct joint *j, const struct critic *c,
                struct matrix *m)
{
    const int64_t observed = j->seen.obs;

    if (output_valid(c->input)) {
        batch_feed(b, c->input, m);
        return;
    }
    batch_feed_part(b, j->observations, m, 0, observed);
    batch_feed_part(b, c->actions, m, observed, matrix_width(m) - observed);
}

void joint_feed_others(struct batch *b, const struct joint *j)
{
    int64_t column = j->seen.obs;

    if (j->seen.n > 1)
        batch_feed_part(b, j->observations, j->now, 0, j->seen.obs);
    for (size_t i = 0; i < j->seen.n; i++) {
        const int64_t width = j->kit->agents[j->seen.agent[i]].width;

        if (i == j->seen.own)
            batch_feed_part(b, j->observation[i], j->now, j->seen.own_obs, j->seen.input);
        else
            batch_feed_part(b, j->action[i], j->now, column, width);
        column += width;
    }
}
