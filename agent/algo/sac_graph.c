#include "agent/algo/parts.h"
#include "agent/algo/sac.h"
#include "agent/algo/share.h"
#include "agent/graph/ops.h"
#include "agent/nn/nn.h"
#include "agent/nn/policy.h"
#include "common/mem/xmalloc.h"

#include <math.h>
#include <stdlib.h>

/* The weights of a batch's rows make the sum a mean. */
static struct output weighted(struct algo *a, struct output x, const char *name)
{
    return reduce(a->graph, "Sum", binary(a->graph, "Mul", a->weight, x, "mul"), NULL, 0,
                  0, name);
}

static void make_placeholders(struct algo *a)
{
    const struct {
        struct output *place;
        int64_t width;
        const char *name;
        int is_here;
    } all[] = {
        {&a->observation, a->seen.input, "observation", 1},
        {&a->state, a->state_width, "state", 1},
        {&a->action, a->n_values, "action", 1},
        {&a->allowed, a->n_choices, "allowed", a->masked},
        {&a->next_log_prob, a->n_log_probs, "next_log_prob", share_learns(a->share)},
        {&a->target, 1, "target", share_learns(a->share)},
        {&a->weight, 1, "row_weight", share_learns(a->share)},
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i].is_here)
            *all[i].place =
                placeholder(a->graph, DT_FLOAT, &SHAPE(-1, all[i].width), all[i].name);
}

/* Makes the live settings of the optimisers' steps. */
static void make_step_lives(struct algo *a)
{
    const struct agent_config *c = a->config;
    struct live *l = a->live;
    struct graph *g = a->graph;

    live_rates(g, c, &l[SAC_ACTOR_RATE], &l[SAC_CRITIC_RATE]);
    l[SAC_ALPHA_RATE] = l[SAC_ACTOR_RATE];
    l[SAC_CLIP_NORM] =
        live_fed(g, "clip_norm", c->clip_norm, LIVE_NO_CLIP_NORM, "clip_norm");
}

/* Makes the live settings of targets and losses. */
static void make_lives(struct algo *a)
{
    const struct agent_config *c = a->config;
    const int box = sac_is_box(a);
    const double target =
        box ? a->settings->target_entropy_each : a->settings->target_entropy_share;
    struct live *l = a->live;
    struct graph *g = a->graph;

    l[SAC_POLYAK] = live_fed(g, "polyak", c->polyak, 0, "polyak");
    l[SAC_DISCOUNT] = live_new(g, "discount", c->discount);
    l[SAC_TARGET_ENTROPY] = live_new(
        g, box ? "settings.target_entropy_each" : "settings.target_entropy_share",
        target);
    live_bind(g, &l[SAC_TARGET_ENTROPY],
              constant_f32(g, (float)target, "target_entropy"));
}

/* ---- the policy ---- */

static void make_categorical(struct algo *a, struct output logits)
{
    struct graph *g = a->graph;

    name_policy(g, a->observation, logits, POLICY_SCORES_COMBINATIONS);
    if (a->masked)
        logits = forbid_choices(g, logits, a->allowed);
    a->policy.scores = logits;
    a->policy.p = softmax(g, logits, NULL);
    a->policy.log_prob = unary(g, "LogSoftmax", logits, NULL);
}

/* outputs (B, 2 U): means, then logarithms of deviations. */
static void make_squashed(struct algo *a, struct output outputs)
{
    const struct space *space = sac_self(a);
    const double scale = (double)space->width * log((space->high - space->low) / 2);
    struct graph *g = a->graph;
    struct output mean = slice_columns(g, outputs, 0, space->width, NULL);
    struct output log_std = slice_columns(g, outputs, space->width, space->width, NULL);
    struct squashed_normal drawn;

    log_std = clip_by_value(g, log_std, LOG_STD_MIN, LOG_STD_MAX, NULL);
    drawn = squashed_normal(g, mean, log_std, space->low, space->high);
    a->policy.scores = squash(g, mean, space->low, space->high);
    a->policy.noise = drawn.noise;
    a->policy.action = drawn.action;
    a->policy.log_prob =
        binary(g, "Add", drawn.log_prob, constant_f32(g, (float)scale, NULL), "log_prob");
    name_policy(g, a->observation, a->policy.scores, POLICY_GIVES_ACTION);
}

static void make_policy(struct algo *a)
{
    const int64_t n = sac_is_box(a) ? 2 * sac_self(a)->width : a->n_choices;
    struct output x;

    variable_scope_enter(a->graph, "p_func", NULL, REUSE_INHERIT);
    x = see_pictures(a->graph, a->observation, &a->config->actor, &a->pictures);
    x = mlp(a->graph, x, &a->config->actor, n);
    variable_scope_leave(a->graph);
    if (sac_is_box(a))
        make_squashed(a, x);
    else
        make_categorical(a, x);
}

static void make_alpha(struct algo *a)
{
    const struct initializer first =
        constant_initializer(log(a->settings->initial_alpha));

    variable_scope_enter(a->graph, "temperature", NULL, REUSE_INHERIT);
    a->log_alpha =
        get_variable(a->graph, "log_alpha", DT_FLOAT, &SHAPE_SCALAR, &first, 0);
    variable_scope_leave(a->graph);
    if (a->log_alpha != NULL)
        a->alpha = unary(a->graph, "Exp", a->log_alpha->read, "alpha");
}

/* ---- the critics ---- */

/* A critic's output: (B, C), or for a box (B, 1), the value of this action. */
static struct output critic(struct algo *a, struct output action)
{
    const struct network_config *net = &a->config->critic;
    struct output x = see_pictures(a->graph, a->state, net, &a->state_pictures), input;

    return sac_is_box(a) ? critic_network(a->graph, x, action, net, &input)
                         : mlp(a->graph, x, net, a->n_choices);
}

static void make_critics(struct algo *a, const char *scope, enum reuse reuse,
                         struct output action, struct output ret[2])
{
    variable_scope_enter(a->graph, scope, NULL, reuse);
    ret[0] = critic(a, action);
    variable_scope_enter(a->graph, "twin", NULL, REUSE_INHERIT);
    ret[1] = critic(a, action);
    variable_scope_leave(a->graph);
    variable_scope_leave(a->graph);
}

static struct output smaller(struct graph *g, const struct output q[2])
{
    return binary(g, "Minimum", q[0], q[1], "min_q");
}

/* alpha log pi - q, expected over the choices: (B, 1). */
static struct output soft_loss(struct algo *a, struct output p, struct output log_prob,
                               struct output q)
{
    struct graph *g = a->graph;
    struct output x = binary(g, "Mul", a->alpha, log_prob, "mul");

    x = binary(g, "Sub", x, q, "sub");
    return sac_is_box(a) ? x : sum_of_row(g, binary(g, "Mul", p, x, "mul"));
}

/* Makes the value of what follows the rows. */
static void make_next_value(struct algo *a)
{
    struct output q[2], p = OUTPUT_NONE;

    make_critics(a, "target_q_func", REUSE_INHERIT, a->action, q);
    if (!sac_is_box(a))
        p = unary(a->graph, "Exp", a->next_log_prob, NULL);
    a->next_value =
        unary(a->graph, "Neg", soft_loss(a, p, a->next_log_prob, smaller(a->graph, q)),
              "next_value");
}

/* q: the values of all choices, or of the action in a box. */
static void make_critic_loss(struct algo *a, const struct output q[2])
{
    struct graph *g = a->graph;
    const struct output half = constant_f32(g, 0.5f, NULL);
    struct output value[2], td[2], distance[2];

    for (int k = 0; k < 2; k++) {
        value[k] = sac_is_box(a)
                       ? q[k]
                       : sum_of_row(g, binary(g, "Mul", a->action, q[k], "mul"));
        td[k] = binary(g, "Sub", value[k], a->target, "sub");
    }
    a->q_mean = weighted(
        a, binary(g, "Mul", half, binary(g, "Add", value[0], value[1], "add"), "mul"),
        "q_mean");
    for (int k = 0; k < 2; k++) {
        distance[k] = unary(g, "Abs", td[k], NULL);
        td[k] = unary(g, "Square", td[k], NULL);
    }
    a->error = binary(g, "Maximum", distance[0], distance[1], "error");
    a->critic_loss =
        weighted(a, binary(g, "Mul", half, binary(g, "Add", td[0], td[1], "add"), "mul"),
                 "critic_loss");
}

/* ---- policy and temperature ---- */

/* The entropy that each row should have: (B, 1), or one number for all. */
static struct output target_entropy(struct algo *a)
{
    struct graph *g = a->graph;
    const struct output c = a->live[SAC_TARGET_ENTROPY].constant;
    struct output most;

    if (a->masked)
        most = unary(g, "Log", sum_of_row(g, a->allowed), NULL);
    else
        most = constant_f32(g,
                            sac_is_box(a) ? (float)sac_self(a)->width
                                          : (float)log((double)a->n_choices),
                            NULL);
    return binary(g, "Mul", c, most, "mul");
}

/* Makes the actor's loss; returns the temperature's. q: the critics' values, discrete
 * only. */
static struct output make_actor_losses(struct algo *a, const struct output *q)
{
    struct graph *g = a->graph;
    struct output judged[2], log_prob = a->policy.log_prob, excess;

    if (sac_is_box(a))
        make_critics(a, "q_func", REUSE_TRUE, a->policy.action, judged);
    else
        log_prob = sum_of_row(g, binary(g, "Mul", a->policy.p, log_prob, "mul"));
    a->actor_loss = weighted(a,
                             soft_loss(a, a->policy.p, a->policy.log_prob,
                                       smaller(g, sac_is_box(a) ? judged : q)),
                             "actor_loss");
    a->entropy = weighted(a, unary(g, "Neg", log_prob, NULL), "entropy");
    excess = weighted(a, binary(g, "Add", log_prob, target_entropy(a), "add"), NULL);
    return unary(g, "Neg", binary(g, "Mul", a->log_alpha->read, excess, "mul"),
                 "alpha_loss");
}

/* Builds the optimisers' steps; for agents that share parameters, the gradients of the
 * losses. */
static int make_steps(struct algo *a, struct output alpha_loss, struct err *err)
{
    static const char *const scopes[SAC_STEPS] = {"q_func", "p_func", "temperature"};
    const struct agent_config *c = a->config;
    const struct output loss[SAC_STEPS] = {a->critic_loss, a->actor_loss, alpha_loss};
    struct share_part part[SAC_STEPS];
    char *scope[SAC_STEPS];
    int rc;

    for (int i = 0; i < SAC_STEPS; i++) {
        scope[i] = xasprintf("%s/%s/", sac_self(a)->name, scopes[i]);
        part[i] =
            (struct share_part){.step = {.scope = scope[i],
                                         .optimizer = network_optimizer(
                                             c, i == SAC_CRITIC ? &c->critic : &c->actor),
                                         .clip_norm = a->live[SAC_CLIP_NORM].constant,
                                         .clip_by = a->settings->clip_by},
                                .loss = loss[i]};
    }
    rc = share_build_steps(a->share, a->graph, part, SAC_STEPS, a->train, err);
    for (int i = 0; i < SAC_STEPS && rc == 0 && share_makes_steps(a->share); i++) {
        a->norm[i] = part[i].step.norm;
        live_bind(a->graph, &a->live[SAC_CRITIC_RATE + i], part[i].step.learning_rate);
    }
    for (int i = 0; i < SAC_STEPS; i++)
        free(scope[i]);
    return rc;
}

static void make_target_updates(struct algo *a)
{
    static const struct following targets = {"target_q_func", "q_func"};
    const struct output polyak = a->live[SAC_POLYAK].constant;
    struct graph *g = a->graph;

    follow_variables(g, sac_self(a)->name, &targets, 1,
                     binary(g, "Sub", constant_f32(g, 1.0f, NULL), polyak, "keep"),
                     polyak, "update_targets", "init_targets", &a->update_targets,
                     &a->init_targets);
}

/* Makes the losses, which a ps does not have. Returns the temperature's loss. */
static struct output make_losses(struct algo *a, const struct output q[2])
{
    make_critic_loss(a, q);
    make_next_value(a);
    return a->log_alpha != NULL ? make_actor_losses(a, q) : OUTPUT_NONE;
}

int sac_build_graph(struct algo *a, struct err *err)
{
    struct graph *g = a->graph;
    struct output q[2], alpha_loss = OUTPUT_NONE;
    int rc = seen_pictures(&a->seen, a->config, &a->pictures, &a->state_pictures, err);

    if (rc < 0)
        return rc;
    variable_scope_enter(g, sac_self(a)->name, NULL, REUSE_INHERIT);
    make_placeholders(a);
    if (share_makes_steps(a->share))
        make_step_lives(a);
    if (share_learns(a->share)) {
        make_lives(a);
        reward_scale_init_own(&a->scale, g, a->settings->reward_scale, a->agents,
                              &a->self, a->share);
    }
    make_policy(a);
    make_alpha(a);
    make_critics(a, "q_func", REUSE_INHERIT, a->action, q);
    if (share_learns(a->share))
        alpha_loss = make_losses(a, q);
    if (a->log_alpha != NULL)
        rc = make_steps(a, alpha_loss, err);
    if (rc == 0 && share_learns(a->share))
        make_target_updates(a);
    variable_scope_leave(g);
    return finish_graph(g, rc, &a->init_variables, err);
}
