#include "agent/algo/maddpg.h"

#include "agent/algo/parts.h"
#include "agent/algo/share.h"
#include "agent/graph/ops.h"
#include "agent/nn/nn.h"
#include "agent/nn/policy.h"
#include "common/mem/xmalloc.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct output join(struct graph *g, const struct output *xs, size_t n)
{
    return n == 1 ? xs[0] : concat(g, xs, n, 1, NULL);
}

static void make_placeholders(struct algo *a)
{
    char name[AGENT_NAME_MAX];

    for (size_t i = 0; i < a->seen.n; i++) {
        const size_t j = a->seen.agent[i];
        const int64_t width = i == a->seen.own ? a->seen.input : a->agents[j].obs;

        (void)snprintf(name, sizeof(name), "observation%zu", j);
        a->obs[i] = placeholder(a->graph, DT_FLOAT, &SHAPE(-1, width), name);
    }
}

static void make_action_placeholders(struct algo *a)
{
    char name[AGENT_NAME_MAX];

    for (size_t i = 0; i < a->seen.n; i++) {
        const size_t j = a->seen.agent[i];

        (void)snprintf(name, sizeof(name), "action%zu", j);
        a->action[i] =
            placeholder(a->graph, DT_FLOAT, &SHAPE(-1, a->agents[j].width), name);
    }
    if (!share_learns(a->share))
        return;
    a->target = placeholder(a->graph, DT_FLOAT, &SHAPE(-1, 1), "target");
    a->weight = placeholder(a->graph, DT_FLOAT, &SHAPE(-1, 1), "is_weight");
}

/* Makes the live settings of a process that makes the optimisers' steps, and those of one
 * that learns. */
static void make_live_settings(struct algo *a)
{
    const struct agent_config *c = a->config;
    const int steps = share_makes_steps(a->share), learns = share_learns(a->share);
    const struct {
        enum live_key key;
        const char *name;
        double value;
        int is_here;
    } settings[] = {
        {LIVE_CLIP_NORM, "clip_norm", c->clip_norm, steps},
        {LIVE_POLYAK, "polyak", c->polyak, learns},
        {LIVE_DISCOUNT, "discount", c->discount, learns},
        {LIVE_LOGIT_PENALTY, "settings.logit_penalty", a->settings->logit_penalty,
         learns},
    };

    if (steps)
        live_rates(a->graph, c, &a->live[LIVE_ACTOR_RATE], &a->live[LIVE_CRITIC_RATE]);
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
        if (settings[i].is_here)
            a->live[settings[i].key] =
                live_new(a->graph, settings[i].name, settings[i].value);
    if (!learns)
        return;
    a->live[LIVE_TEMPERATURE] =
        live_schedule(a->graph, "settings.temperature", &a->settings->temperature);
    a->live[LIVE_EXPLORATION_NOISE] = live_schedule(
        a->graph, "settings.exploration_noise", &a->settings->exploration_noise);
    if (a->twin) {
        a->live[LIVE_TARGET_NOISE] = live_schedule(
            a->graph, "settings.target_policy_noise", &a->settings->target_policy_noise);
        a->live[LIVE_TARGET_NOISE_CLIP] = live_new(a->graph, "settings.target_noise_clip",
                                                   a->settings->target_noise_clip);
    }
}

/* The constants that the live settings are fed into. */
static void make_constants(struct algo *a)
{
    const struct agent_config *c = a->config;
    struct graph *g = a->graph;

    if (share_makes_steps(a->share))
        live_constant(g, &a->live[LIVE_CLIP_NORM], c->clip_norm, LIVE_NO_CLIP_NORM,
                      "clip_norm");
    if (!share_learns(a->share))
        return;
    live_constant(g, &a->live[LIVE_POLYAK], c->polyak, 0, "polyak");
    live_constant(g, &a->live[LIVE_LOGIT_PENALTY], a->settings->logit_penalty, 0,
                  "logit_penalty");
    live_constant(g, &a->live[LIVE_TEMPERATURE], a->settings->temperature.from, 0,
                  "temperature");
    a->keep = binary(g, "Sub", constant_f32(g, 1.0f, NULL), a->live[LIVE_POLYAK].constant,
                     "keep");
}

/* The seen observations, after the critic's convolutions. */
static struct output seen_joint(struct algo *a)
{
    return see_pictures(a->graph, a->joint_obs, &a->config->critic, &a->joint_pictures);
}

/* Builds a critic of the seen observations and actions; `own` replaces the agent's own
 * action. */
static struct critic critic(struct algo *a, struct output own, const char *scope,
                            enum reuse reuse)
{
    struct output *actions = xcalloc(a->seen.n, sizeof(*actions));
    struct critic c;

    memcpy(actions, a->action, a->seen.n * sizeof(*actions));
    actions[a->seen.own] = own;
    c.actions = join(a->graph, actions, a->seen.n);
    variable_scope_enter(a->graph, scope, NULL, reuse);
    c.q =
        critic_network(a->graph, seen_joint(a), c.actions, &a->config->critic, &c.input);
    variable_scope_leave(a->graph);
    free(actions);
    return c;
}

/* The value of a second critic with the same input. Its scope is inside the first one's,
 * so that whatever is done with the first one's variables is done with its own, too. */
static struct output twin_of(struct algo *a, const struct critic *c, const char *scope)
{
    const struct network_config *net = &a->config->critic;
    struct output q, input;

    variable_scope_enter(a->graph, scope, NULL, REUSE_INHERIT);
    variable_scope_enter(a->graph, "twin", NULL, REUSE_INHERIT);
    q = output_valid(c->input)
            ? mlp(a->graph, c->input, net, 1)
            : critic_network(a->graph, seen_joint(a), c->actions, net, &input);
    variable_scope_leave(a->graph);
    variable_scope_leave(a->graph);
    return q;
}

/* One softmax for each head. */
static struct output softmax_heads(struct graph *g, struct output x,
                                   const struct space *space)
{
    struct output head[sizeof(space->heads) / sizeof(space->heads[0])];
    int64_t begin = 0;

    if (space->n_heads == 1)
        return softmax(g, x, NULL);
    for (int i = 0; i < space->n_heads; i++) {
        head[i] = softmax(g, slice_columns(g, x, begin, space->heads[i], NULL), NULL);
        begin += space->heads[i];
    }
    return concat(g, head, (size_t)space->n_heads, 1, NULL);
}

/* softmax((logits + Gumbel) / temperature), Gumbel = -log(-log(u)): Jang et al. 2017. u
 * starts at the smallest normal number rather than 0, so that the noise is finite. */
static void sample_gumbel(struct algo *a, struct policy *p)
{
    struct graph *g = a->graph;
    struct output u =
        random_uniform(g, shape_of(g, p->raw, NULL), FLT_MIN, 1.0f, "random_uniform");
    struct output logits, x;

    if (!output_valid(u))
        return;
    p->noise = operation_input(operation_input(u.op, 0).op, 0); /* in u * range + low */
    logits = a->masked ? forbid_choices(g, p->raw, a->allowed) : p->raw;
    x = unary(g, "Log", unary(g, "Neg", unary(g, "Log", u, NULL), NULL), NULL);
    p->scores = x = binary(g, "Sub", logits, x, "sub");
    x = binary(g, "RealDiv", x, a->live[LIVE_TEMPERATURE].constant, "truediv");
    p->action = softmax_heads(g, x, maddpg_self(a));
}

static struct policy make_policy(struct algo *a, const char *scope)
{
    struct policy p = {0};

    variable_scope_enter(a->graph, scope, NULL, REUSE_INHERIT);
    p.raw = see_pictures(a->graph, a->obs[a->seen.own], &a->config->actor, &a->pictures);
    p.raw = mlp(a->graph, p.raw, &a->config->actor, maddpg_self(a)->width);
    variable_scope_leave(a->graph);
    if (a->deterministic)
        p.action = squash(a->graph, p.raw, maddpg_self(a)->low, maddpg_self(a)->high);
    else if (share_learns(a->share))
        sample_gumbel(a, &p);
    return p;
}

/* Builds the step of one network; nothing for an optimiser that does not use gradients,
 * or where parameters are shared. */
static int minimize(struct algo *a, struct output loss, struct learner *l,
                    struct err *err)
{
    char *scope = xasprintf("%s/%s", maddpg_self(a)->name, l->scope);
    struct minimizer m = {.scope = scope,
                          .optimizer = l->optimizer,
                          .clip_norm = a->live[LIVE_CLIP_NORM].constant,
                          .clip_by = a->settings->clip_by};
    int r = 0;

    if (a->share == NULL && l->optimizer->type != OPT_ACCEPT_REJECT) {
        l->train = minimize_clipped(a->graph, loss, &m, err);
        l->norm = m.norm;
        live_bind(a->graph, &a->live[l->rate], m.learning_rate);
        r = l->train != NULL ? 0 : ERR_ARG;
    }
    free(scope);
    return r;
}

/* Builds what replaces both steps in a group that shares parameters. */
static int share_both(struct algo *a, struct err *err)
{
    struct learner *const learners[2] = {&a->critic_learner, &a->actor_learner};
    const struct output losses[2] = {a->critic_loss, a->actor_loss};
    char *scopes[2];
    struct share_part parts[2];
    int r;

    for (int i = 0; i < 2; i++) {
        scopes[i] = xasprintf("%s/%s", maddpg_self(a)->name, learners[i]->scope);
        parts[i] =
            (struct share_part){.step = {.scope = scopes[i],
                                         .optimizer = learners[i]->optimizer,
                                         .clip_norm = a->live[LIVE_CLIP_NORM].constant,
                                         .clip_by = a->settings->clip_by},
                                .loss = losses[i]};
    }
    r = share_build(a->share, a->graph, parts, 2, err);
    for (int i = 0; i < 2; i++) {
        learners[i]->norm = parts[i].step.norm;
        if (share_makes_steps(a->share))
            live_bind(a->graph, &a->live[learners[i]->rate], parts[i].step.learning_rate);
        free(scopes[i]);
    }
    return r;
}

/* Builds the updates of both target networks. Both networks must exist. */
static void make_target_updates(struct algo *a)
{
    static const struct following both[] = {{"target_q_func", "q_func"},
                                            {"target_p_func", "p_func"}};

    follow_variables(a->graph, maddpg_self(a)->name, both, 2, a->keep,
                     a->live[LIVE_POLYAK].constant, "update_targets", "init_targets",
                     &a->update_targets, &a->init_targets);
}

/* Adds the second critic's squared errors, and makes `td` the larger distance. */
static void add_twin(struct algo *a, struct output *error)
{
    struct graph *g = a->graph;
    struct output td =
        binary(g, "Sub", twin_of(a, &a->critic, "q_func"), a->target, "sub");

    *error = binary(g, "Add", *error, unary(g, "Square", td, NULL), "add");
    a->td = unary(g, "Abs", a->td, NULL);
    td = unary(g, "Abs", td, NULL);
    a->td = binary(g, "Maximum", a->td, td, "max_td");
}

/* Called at the first opening of the agent's scope: name scope `agent_0`. */
static int make_critic(struct algo *a, struct err *err)
{
    struct graph *g = a->graph;
    struct output error;
    int r;

    a->joint_obs = join(g, a->obs, a->seen.n);
    a->critic = critic(a, a->action[a->seen.own], "q_func", REUSE_INHERIT);
    if (!share_learns(a->share)) {
        if (a->twin)
            (void)twin_of(a, &a->critic, "q_func");
        return 0;
    }
    a->q_mean = reduce(g, "Mean", a->critic.q, NULL, 0, 0, NULL);
    a->td = binary(g, "Sub", a->critic.q, a->target, "sub");
    error = unary(g, "Square", a->td, NULL);
    if (a->twin)
        add_twin(a, &error);
    a->critic_loss =
        reduce(g, "Mean", binary(g, "Mul", a->weight, error, "mul"), NULL, 0, 0, NULL);
    r = minimize(a, a->critic_loss, &a->critic_learner, err);
    a->target_critic = critic(a, a->action[a->seen.own], "target_q_func", REUSE_INHERIT);
    if (a->twin)
        a->target_critic.q =
            binary(g, "Minimum", a->target_critic.q,
                   twin_of(a, &a->target_critic, "target_q_func"), "min_q");
    return r;
}

/* The mean over the rows, for the policy's losses: weighted in matd3, as in its critics'
 * loss. */
static struct output mean_of_rows(struct algo *a, struct output x)
{
    if (a->twin)
        x = binary(a->graph, "Mul", a->weight, x, "mul");
    return reduce(a->graph, "Mean", x, NULL, 0, 0, NULL);
}

/* Called at the second opening: name scope `agent_0_1`. */
static int make_actor(struct algo *a, struct err *err)
{
    struct graph *g = a->graph;
    struct output possible, penalty, q;
    struct critic judge;
    int r;

    a->policy = make_policy(a, "p_func");
    if (a->deterministic)
        name_policy(g, a->obs[a->seen.own], a->policy.action, POLICY_GIVES_ACTION);
    else
        name_policy(g, a->obs[a->seen.own], a->policy.raw, POLICY_SCORES_CHOICES);
    if (!share_learns(a->share))
        return 0;
    possible =
        a->masked ? binary(g, "Mul", a->policy.raw, a->allowed, "mul") : a->policy.raw;
    penalty = mean_of_rows(a, unary(g, "Square", possible, NULL));
    judge = critic(a, a->policy.action, "q_func", REUSE_TRUE);
    penalty = binary(g, "Mul", penalty, a->live[LIVE_LOGIT_PENALTY].constant, "mul");
    q = unary(g, "Neg", mean_of_rows(a, judge.q), NULL);
    a->actor_loss = binary(g, "Add", q, penalty, "add");
    r = minimize(a, a->actor_loss, &a->actor_learner, err);
    a->target_policy = make_policy(a, "target_p_func");
    make_target_updates(a);
    return r;
}

int maddpg_build_graph(struct algo *a, struct err *err)
{
    const char *scope = maddpg_self(a)->name;
    int r = seen_pictures(&a->seen, a->config, &a->pictures, &a->joint_pictures, err);

    if (r < 0)
        return r;
    make_placeholders(a);
    variable_scope_enter(a->graph, scope, NULL, REUSE_INHERIT);
    make_action_placeholders(a);
    make_live_settings(a);
    make_constants(a);
    if (share_learns(a->share))
        reward_scale_init_own(&a->scale, a->graph, a->settings->reward_scale, a->agents,
                              &a->self, a->share);
    if (a->masked)
        a->allowed =
            placeholder(a->graph, DT_FLOAT, &SHAPE(-1, maddpg_self(a)->width), "allowed");
    r = make_critic(a, err);
    variable_scope_leave(a->graph);
    if (r == 0) {
        variable_scope_enter(a->graph, scope, NULL, REUSE_INHERIT);
        r = make_actor(a, err);
        if (r == 0 && a->share != NULL)
            r = share_both(a, err);
        variable_scope_leave(a->graph);
    }
    return finish_graph(a->graph, r, &a->init_variables, err);
}
