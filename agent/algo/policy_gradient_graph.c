#include "agent/algo/policy_gradient.h"

#include "agent/algo/parts.h"
#include "agent/algo/share.h"
#include "agent/graph/ops.h"
#include "agent/nn/nn.h"
#include "agent/nn/policy.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>

static void make_placeholders(struct algo *a)
{
    struct graph *g = a->graph;
    const int64_t width = pg_self(a)->width;

    a->input = placeholder(g, DT_FLOAT, &SHAPE(-1, a->input_width), "observation");
    a->state = placeholder(g, DT_FLOAT, &SHAPE(-1, a->state_width), "state");
    a->action = placeholder(g, DT_FLOAT, &SHAPE(-1, width), "action");
    if (a->masked)
        a->allowed = placeholder(g, DT_FLOAT, &SHAPE(-1, width), "allowed");
    if (a->choices > 0)
        a->choice = placeholder(g, DT_FLOAT, &SHAPE(-1, a->choices), "choice");
    if (!share_learns(a->share))
        return;
    a->old_log_prob = placeholder(g, DT_FLOAT, &SHAPE(-1, 1), "old_log_prob");
    a->advantage = placeholder(g, DT_FLOAT, &SHAPE(-1, 1), "advantage");
    a->returns = placeholder(g, DT_FLOAT, &SHAPE(-1, 1), "return");
    a->old_value = placeholder(g, DT_FLOAT, &SHAPE(-1, 1), "old_value");
    a->weight = placeholder(g, DT_FLOAT, &SHAPE(-1, 1), "row_weight");
}

/* Makes the live settings of a process that learns, and those of one that makes the
 * optimisers' steps. */
static void make_lives(struct algo *a)
{
    const struct agent_config *c = a->config;
    const struct {
        enum pg_live key;
        const char *name;
        double value;
        const char *constant; /* NULL: read by the algorithm */
        float instead_of_zero;
        int is_here;
    } settings[] = {
        {PG_CLIP_NORM, "clip_norm", c->clip_norm, "clip_norm", LIVE_NO_CLIP_NORM,
         share_makes_steps(a->share)},
        {PG_POLYAK, "polyak", c->polyak, "polyak", 0, share_learns(a->share)},
        {PG_DISCOUNT, "discount", c->discount, NULL, 0, share_learns(a->share)},
        {PG_LAMBDA, a->choices > 0 ? "settings.lambda" : "settings.gae",
         a->choices > 0 ? a->settings->lambda : a->settings->gae, NULL, 0,
         share_learns(a->share)},
        {PG_CLIP_RATIO, "settings.clip_ratio", a->settings->clip_ratio, "clip_ratio",
         LIVE_NO_CLIP_NORM, share_learns(a->share)},
    };

    if (share_makes_steps(a->share))
        live_rates(a->graph, c, &a->live[PG_ACTOR_RATE], &a->live[PG_CRITIC_RATE]);
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        struct live *l = &a->live[settings[i].key];

        if (!settings[i].is_here)
            continue;

        *l = live_new(a->graph, settings[i].name, settings[i].value);
        if (settings[i].constant != NULL)
            live_constant(a->graph, l, settings[i].value, settings[i].instead_of_zero,
                          settings[i].constant);
    }
    if (share_learns(a->share)) {
        a->live[PG_ENTROPY] =
            live_schedule(a->graph, "settings.entropy", &a->settings->entropy);
        live_constant(a->graph, &a->live[PG_ENTROPY], a->settings->entropy.from, 0,
                      "entropy_weight");
    }
}

/* ---- the policy ---- */

/* Log-probabilities of each head's choices. */
static struct output log_probabilities(struct graph *g, struct output logits,
                                       const struct space *space)
{
    struct output head[sizeof(space->heads) / sizeof(space->heads[0])];
    int64_t begin = 0;

    if (space->n_heads == 1)
        return unary(g, "LogSoftmax", logits, NULL);
    for (int i = 0; i < space->n_heads; i++) {
        head[i] = slice_columns(g, logits, begin, space->heads[i], NULL);
        head[i] = unary(g, "LogSoftmax", head[i], NULL);
        begin += space->heads[i];
    }
    return concat(g, head, (size_t)space->n_heads, 1, NULL);
}

/* Independent choices of the heads. Sets scores, probabilities and log_prob; returns the
 * entropy. */
static struct output categorical(struct algo *a, struct output logits)
{
    struct graph *g = a->graph;
    struct output x;

    name_policy(g, a->input, logits, POLICY_SCORES_CHOICES);
    if (a->masked)
        logits = forbid_choices(g, logits, a->allowed);
    a->scores = log_probabilities(g, logits, pg_self(a));
    a->log_prob = sum_of_row(g, binary(g, "Mul", a->action, a->scores, "mul"));
    a->probabilities = unary(g, "Exp", a->scores, NULL);
    x = binary(g, "Mul", a->probabilities, a->scores, "mul");
    return unary(g, "Neg", sum_of_row(g, x), "entropy");
}

/* A normal distribution for each column, with deviations that do not depend on the
 * observation. Sets scores and log_prob; returns the entropy. */
static struct output gaussian(struct algo *a, struct output mean)
{
    const struct initializer zeros = zeros_initializer();
    const struct space *space = pg_self(a);
    struct graph *g = a->graph;

    name_policy(g, a->input, clip_by_value(g, mean, space->low, space->high, NULL),
                POLICY_GIVES_ACTION);
    variable_scope_enter(g, "p_func", NULL, REUSE_INHERIT);
    a->log_std = get_variable(g, "log_std", DT_FLOAT, &SHAPE(space->width), &zeros, 0);
    variable_scope_leave(g);
    if (a->log_std == NULL)
        return OUTPUT_NONE;
    a->scores = mean;
    a->log_prob = normal_log_prob(g, mean, a->log_std->read, a->action);
    return normal_entropy(g, mean, a->log_std->read);
}

/* ---- losses ---- */

static struct output clip(struct graph *g, struct output x, struct output low,
                          struct output high)
{
    return binary(g, "Minimum", binary(g, "Maximum", x, low, NULL), high, NULL);
}

static struct output weighted(struct algo *a, struct output x, const char *name)
{
    return reduce(a->graph, "Sum", binary(a->graph, "Mul", a->weight, x, "mul"), NULL, 0,
                  0, name);
}

static struct output actor_loss(struct algo *a, struct output entropy)
{
    struct graph *g = a->graph;
    struct output one = constant_f32(g, 1.0f, NULL);
    struct output c = a->live[PG_CLIP_RATIO].constant;
    struct output ratio =
        unary(g, "Exp", binary(g, "Sub", a->log_prob, a->old_log_prob, "sub"), "ratio");
    struct output low = binary(g, "Sub", one, c, "sub");
    struct output high = binary(g, "Add", one, c, "add");
    struct output clipped = clip(g, ratio, low, high), gain;

    clipped = binary(g, "Mul", clipped, a->advantage, "mul");
    gain = binary(g, "Mul", ratio, a->advantage, "mul");
    gain = binary(g, "Minimum", gain, clipped, "surrogate");

    a->entropy = weighted(a, entropy, "entropy_mean");
    entropy = binary(g, "Mul", a->entropy, a->live[PG_ENTROPY].constant, "mul");
    return unary(g, "Neg", binary(g, "Add", weighted(a, gain, NULL), entropy, "add"),
                 "actor_loss");
}

/* Half the squared error; beyond delta (0: nowhere) linear. */
static struct output error_loss(struct graph *g, struct output error, double delta)
{
    struct output half;

    if (delta > 0)
        return huber(g, error, delta);
    half = constant_f32(g, 0.5f, NULL);
    return binary(g, "Mul", unary(g, "Square", error, NULL), half, "mul");
}

static struct output critic_loss(struct algo *a)
{
    const double delta = a->settings->huber;
    struct graph *g = a->graph;
    struct output c = a->live[PG_CLIP_RATIO].constant;
    struct output moved = binary(g, "Sub", a->value, a->old_value, "sub");
    struct output error, clipped;

    moved = clip(g, moved, unary(g, "Neg", c, NULL), c);
    clipped =
        binary(g, "Sub", a->returns, binary(g, "Add", a->old_value, moved, "add"), "sub");
    clipped = error_loss(g, clipped, delta);
    error = error_loss(g, binary(g, "Sub", a->returns, a->value, "sub"), delta);
    return weighted(a, binary(g, "Maximum", error, clipped, NULL), "critic_loss");
}

/* The optimisers' steps of policy and critic. */
static int make_steps(struct algo *a, char *const scope[2], struct err *err)
{
    const struct agent_config *c = a->config;
    const struct network_config *const net[2] = {&c->actor, &c->critic};
    const struct output loss[2] = {a->actor_loss, a->critic_loss};
    struct share_part part[2];
    int rc;

    for (int i = 0; i < 2; i++)
        part[i] =
            (struct share_part){.step = {.scope = scope[i],
                                         .optimizer = network_optimizer(c, net[i]),
                                         .clip_norm = a->live[PG_CLIP_NORM].constant,
                                         .clip_by = CLIP_BY_GLOBAL},
                                .loss = loss[i]};
    rc = share_build_steps(a->share, a->graph, part, 2, a->train, err);
    for (int i = 0; i < 2 && rc == 0 && share_makes_steps(a->share); i++) {
        a->norm_of[i] = part[i].step.norm;
        live_bind(a->graph, &a->live[PG_ACTOR_RATE + i], part[i].step.learning_rate);
    }
    return rc;
}

/* ---- the critic ---- */

/* The critic's output: one value (B, 1), or one of each choice (B, C). */
static struct output critic(struct algo *a, const char *scope)
{
    struct output value;

    variable_scope_enter(a->graph, scope, NULL, REUSE_INHERIT);
    value = see_pictures(a->graph, a->state, &a->config->critic, &a->state_pictures);
    value = mlp(a->graph, value, &a->config->critic, a->choices > 0 ? a->choices : 1);
    variable_scope_leave(a->graph);
    return value;
}

/* (B, 1): the value of the choice that was made. */
static struct output value_of(struct algo *a, struct output values, const char *name)
{
    if (a->choices > 0)
        values = sum_of_row(a->graph, binary(a->graph, "Mul", values, a->choice, "mul"));
    return unary(a->graph, "Identity", values, name);
}

/* The variables of the last layer of a critic that has just been made: the two newest. */
static struct value_layer last_layer(const struct algo *a)
{
    const struct collection_item *items;
    const size_t n = collection_get(a->graph, GLOBAL_VARIABLES, NULL, &items);

    return n < 2 ? (struct value_layer){NULL, NULL}
                 : (struct value_layer){items[n - 2].variable, items[n - 1].variable};
}

static void make_target(struct algo *a)
{
    static const struct following target = {"target_v_func", "v_func"};
    const struct output polyak = a->live[PG_POLYAK].constant;
    struct graph *g = a->graph;

    a->target_value = value_of(a, critic(a, "target_v_func"), "target_value");
    a->norm.target = last_layer(a);
    follow_variables(g, pg_self(a)->name, &target, 1,
                     binary(g, "Sub", constant_f32(g, 1.0f, NULL), polyak, "keep"),
                     polyak, "update_target", "init_target", &a->update_target,
                     &a->init_target);
}

static int make_training(struct algo *a, struct output entropy, struct err *err)
{
    char *const scope[2] = {xasprintf("%s/p_func/", pg_self(a)->name),
                            xasprintf("%s/v_func/", pg_self(a)->name)};
    int rc;

    if (share_learns(a->share)) {
        a->actor_loss = actor_loss(a, entropy);
        a->critic_loss = critic_loss(a);
    }
    rc = make_steps(a, scope, err);
    free(scope[0]);
    free(scope[1]);
    return rc;
}

/* Makes the variable that hands the results of `prepare` to the stages after it. */
static void make_kept(struct algo *a)
{
    const struct initializer zeros = zeros_initializer();

    a->kept = get_variable(a->graph, "window", DT_FLOAT, &SHAPE(3, a->window_rows),
                           &zeros, VARIABLE_LOCAL | VARIABLE_NOT_TRAINABLE);
}

int pg_build_graph(struct algo *a, struct err *err)
{
    struct graph *g = a->graph;
    struct output x;
    int rc = pictures_of_both(a->config, pg_self(a), a->agents, a->seen, a->seen_n,
                              &a->pictures, &a->state_pictures, err);

    if (rc < 0)
        return rc;
    variable_scope_enter(g, pg_self(a)->name, NULL, REUSE_INHERIT);
    make_placeholders(a);
    make_lives(a);
    variable_scope_enter(g, "p_func", NULL, REUSE_INHERIT);
    x = see_pictures(g, a->input, &a->config->actor, &a->pictures);
    x = mlp(g, x, &a->config->actor, pg_self(a)->width);
    variable_scope_leave(g);
    x = a->gaussian ? gaussian(a, x) : categorical(a, x);
    if (share_learns(a->share)) {
        a->norm = value_norm_new(g, a->settings->value_norm);
        reward_scale_init_own(&a->scale, g, a->settings->reward_scale, a->agents,
                              &a->self, a->share);
    }
    if (share_learns(a->share) && (a->share != NULL || a->in_turns))
        make_kept(a);
    a->values = critic(a, "v_func");
    a->value = value_of(a, a->values, "value");
    a->norm.value = last_layer(a);
    rc = make_training(a, x, err);
    if (rc == 0 && (a->choices > 0 || a->settings->n_step > 0) && share_learns(a->share))
        make_target(a);
    variable_scope_leave(g);
    return finish_graph(g, rc, &a->init_variables, err);
}
