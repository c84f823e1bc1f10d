/* sac.c - soft actor-critic: isac (critics of the own observation and action), masac
 *         (critics of all observations and the others' actions).
 *
 * Source   Haarnoja, Zhou, Hartikainen, Tucker, Ha, Tan, Kumar, Zhu, Gupta, Abbeel, Levine,
 *          "Soft actor-critic algorithms and applications", 2018, Algorithm 1; discrete
 *          actions: Christodoulou, "Soft actor-critic for discrete action settings", 2019;
 *          joint critics: Iqbal, Sha, "Actor-attention-critic for multi-agent reinforcement
 *          learning", ICML 2019 (each agent's critic gives the values of all its choices,
 *          beside the others' actions); BenchMARL for the discrete target entropy.
 *
 * Notation pi the policy (soft_policy.h), u the own action, u' the one proposed after the row;
 *          s, s' the state: the seen agents' observations, then the actions of the seen agents
 *          but the own one, each in the order of seen.h; Q1, Q2 the critics (q_func/... and
 *          q_func/twin/...), Q' their targets. Discrete: Q(s) has a value of each choice c, and
 *          the own action is no input. Box: Q(s, u).
 *          mean(x) = sum(m x) / max(1, sum m), m = alive times the row's importance.
 * propose  u' and log pi(u'), discrete: of each choice. isac needs no proposals of others: one
 *          stage, `learn`, does all of it.
 * critic   s' has the others' u'; log pi is the own: each agent maximises its own entropy.
 *          Priorities: the larger of |Q1 - y| and |Q2 - y|.
 * learn    with the critics just updated, the others' actions as stored; the gradient goes
 *          through u. The step of alpha is made in the same run, with the policy before it;
 *          variable temperature/log_alpha begins with log(initial_alpha).
 */
#include "agent/algo/rows.h"
#include "agent/algo/scalars.h"
#include "agent/algo/soft_policy.h"
#include "agent/graph/arithmetic.h"

#include <math.h>

static const char *const method[] = {
    "s, s' the own observation now and next (isac), or all, then the others' u and u';",
    "pi the policy, Q1, Q2 the critics, Q1', Q2' their targets",
    "u' drawn from pi at the own next observation",
    "y = reward + discount (1 - terminated) v, v = min Q'(s', u') - alpha log pi(u'),",
    "    discrete: sum over c of pi(c) (min Q'(s')(c) - alpha log pi(c))",
    "Q1, Q2: one step down mean of ((Q1 - y)^2 + (Q2 - y)^2) / 2",
    "pi: one step down mean of sum over c of pi(c) (alpha log pi(c) - min Q(s)(c)), or",
    "    alpha log pi(u) - min Q(s, u), u drawn anew",
    "log alpha: one step down -log alpha mean of (log pi + H), expected over pi, H =",
    "    target_entropy_share log(possible choices), or U target_entropy_each",
    "Q1', Q2': t = (1 - polyak) t + polyak v",
    NULL,
};

enum variant { ISAC, MASAC };
enum { CRITIC, ACTOR, ALPHA };

struct algo {
    struct kit kit;
    struct seen seen; /* the agents that the critics see: all, or the own one */
    struct obs_form form;
    struct soft_policy policy;
    int64_t n_values; /* of the own action, beside s: C, or U */

    struct output state, action; /* placeholders; action: (B, C) or (B, U) */
    struct output next_log_prob, target, weight;
    struct output alpha, next_value, error;
    struct output critic_loss, q_mean, actor_loss, alpha_loss, entropy;
    struct variable *log_alpha;
    struct live *critic_rate, *actor_rate, *alpha_rate, *target_entropy;

    struct matrix *now, *next;               /* s, s' */
    struct matrix *chosen;                   /* u, or its choice, one-hot */
    struct matrix *next_action, *next_probs; /* u', log pi */
    struct matrix *value, *errors;
};

static int is_box(const struct algo *a)
{
    return soft_policy_is_box(&a->policy);
}

/* ---- the stages ---- */

static void propose(struct algo *a, struct batch *b)
{
    soft_policy_propose(&a->policy, b);
    batch_output(b, "action", a->policy.proposal);
    batch_output(b, "log_prob", a->policy.log_probs);
}

static void critic(struct algo *a, struct batch *b)
{
    if (a->next_action == a->policy.proposal)
        soft_policy_propose(&a->policy, b);
    batch_feed(b, a->state, a->next);
    batch_feed(b, a->next_log_prob, a->next_probs);
    if (is_box(a))
        batch_feed(b, a->action, a->next_action);
    batch_fetch(b, a->next_value, a->value);
    batch_run(b);
    batch_targets(b, a->value);

    batch_weigh(b, WEIGH_SHARES);
    batch_feed(b, a->state, a->now);
    batch_feed(b, a->action, a->chosen);
    batch_feed(b, a->target, a->kit.target);
    batch_feed(b, a->weight, a->kit.weight);
    batch_scalar(b, "critic_loss", a->critic_loss);
    batch_scalar(b, "q_mean", a->q_mean);
    batch_fetch(b, a->error, a->errors);
    batch_step(b, CRITIC, 1);
    batch_report_errors(b, a->errors);
}

static void policy(struct algo *a, struct batch *b)
{
    batch_weigh(b, WEIGH_SHARES);
    batch_feed_part(b, a->policy.observation, a->now, a->seen.own_obs, a->seen.input);
    batch_feed(b, a->state, a->now);
    batch_feed(b, a->weight, a->kit.weight);
    soft_policy_feed(&a->policy, b);
    batch_feed_live(b, a->target_entropy);
    batch_scalar(b, "actor_loss", a->actor_loss);
    batch_scalar(b, "entropy", a->entropy);
    batch_scalar(b, "alpha", a->alpha);
    batch_step(b, ACTOR, 2); /* and ALPHA */
}

static const struct stage_of stages[] = {{"propose", propose, 1}};
static const struct update masac_updates[] = {
    {"critic",
     {"propose/action", "own:propose/log_prob"},
     critic,
     CRITIC,
     1,
     .scales_rewards = 1},
    {"learn", {NULL}, policy, ACTOR, 2, .after = kit_move_targets},
};
static const struct update isac_updates[] = {
    {"learn", {NULL}, critic, CRITIC, 1, .scales_rewards = 1},
    {"learn", {NULL}, policy, ACTOR, 2, .after = kit_move_targets},
};
static const struct kit_plan plans[] = {
    [ISAC] = {NULL, 0, isac_updates, 2}, [MASAC] = {stages, 1, masac_updates, 2}};

/* ---- the graph: what is fed ---- */

static void make_placeholders(struct algo *a)
{
    struct kit *k = &a->kit;

    a->policy.observation = kit_placeholder(k, a->seen.input, "observation");
    a->state = kit_placeholder(k, matrix_width(a->now), "state");
    a->action = kit_placeholder(k, a->n_values, "action");
    if (a->policy.masked)
        a->policy.allowed = kit_placeholder(k, a->policy.n_choices, "allowed");
    if (!kit_learns(k))
        return;
    a->next_log_prob = kit_placeholder(k, a->policy.n_log_probs, "next_log_prob");
    a->target = kit_placeholder(k, 1, "target");
    a->weight = kit_placeholder(k, 1, "row_weight");
}

static void make_lives(struct algo *a)
{
    struct kit *k = &a->kit;
    const struct algorithm_settings *set = k->settings;
    const struct agent_config *c = k->config;
    const double target =
        is_box(a) ? set->target_entropy_each : set->target_entropy_share;
    struct graph *g = k->graph;

    if (kit_makes_steps(k)) {
        kit_add_rates(k, &a->actor_rate, &a->critic_rate);
        a->alpha_rate = kit_add_live(k, *a->actor_rate);
        kit_add_clip_norm(k);
    }
    if (!kit_learns(k))
        return;
    kit_add_polyak(k);
    k->discount = kit_add_live(k, live_new(g, "discount", c->discount));
    a->target_entropy =
        kit_add_live(k, live_new(g,
                                 is_box(a) ? "settings.target_entropy_each"
                                           : "settings.target_entropy_share",
                                 target));
    live_bind(g, a->target_entropy, constant_f32(g, (float)target, "target_entropy"));
}

/* ---- the graph: networks and losses ---- */

/* The weights of a batch's rows make the sum a mean. */
static struct output weighted(struct algo *a, struct output x, const char *name)
{
    return sum_of(a->kit.graph, mul(a->kit.graph, a->weight, x), name);
}

static void make_alpha(struct algo *a)
{
    const struct initializer first =
        constant_initializer(log(a->kit.settings->initial_alpha));
    struct graph *g = a->kit.graph;

    variable_scope_enter(g, "temperature", NULL, REUSE_INHERIT);
    a->log_alpha = get_variable(g, "log_alpha", DT_FLOAT, &SHAPE_SCALAR, &first, 0);
    variable_scope_leave(g);
    if (a->log_alpha != NULL)
        a->alpha = unary(g, "Exp", a->log_alpha->read, "alpha");
}

/* A critic's output: (B, C), or for a box (B, 1), the value of this action. */
static struct output one_critic(struct algo *a, struct output action)
{
    const struct network_config *net = &a->kit.config->critic;
    struct graph *g = a->kit.graph;
    struct output x = see_observations(g, a->state, net, &a->form), input;

    return is_box(a) ? critic_network(g, x, action, net, &input)
                     : mlp(g, x, net, a->policy.n_choices);
}

static void make_critics(struct algo *a, const char *scope, enum reuse reuse,
                         struct output action, struct output ret[2])
{
    struct graph *g = a->kit.graph;

    variable_scope_enter(g, scope, NULL, reuse);
    ret[0] = one_critic(a, action);
    variable_scope_enter(g, "twin", NULL, REUSE_INHERIT);
    ret[1] = one_critic(a, action);
    variable_scope_leave(g);
    variable_scope_leave(g);
}

static struct output smaller(struct graph *g, const struct output q[2])
{
    return binary(g, "Minimum", q[0], q[1], "min_q");
}

/* alpha log pi - q, expected over the choices: (B, 1). */
static struct output soft_loss(struct algo *a, struct output p, struct output log_prob,
                               struct output q)
{
    struct graph *g = a->kit.graph;
    struct output x = mul(g, a->alpha, log_prob);

    x = sub(g, x, q);
    return is_box(a) ? x : sum_of_row(g, mul(g, p, x));
}

static void make_next_value(struct algo *a)
{
    struct output q[2], p = OUTPUT_NONE;
    struct graph *g = a->kit.graph;

    make_critics(a, "target_q_func", REUSE_INHERIT, a->action, q);
    if (!is_box(a))
        p = unary(g, "Exp", a->next_log_prob, NULL);
    a->next_value =
        unary(g, "Neg", soft_loss(a, p, a->next_log_prob, smaller(g, q)), "next_value");
}

/* q: the values of all choices, or of the action in a box. */
static void make_critic_loss(struct algo *a, const struct output q[2])
{
    struct graph *g = a->kit.graph;
    const struct output half = constant_f32(g, 0.5f, NULL);
    struct output value[2], td[2], distance[2];

    for (int k = 0; k < 2; k++) {
        value[k] = is_box(a) ? q[k] : sum_of_row(g, mul(g, a->action, q[k]));
        td[k] = sub(g, value[k], a->target);
    }
    a->q_mean = weighted(a, mul(g, half, add(g, value[0], value[1])), "q_mean");
    for (int k = 0; k < 2; k++) {
        distance[k] = absolute(g, td[k]);
        td[k] = square(g, td[k]);
    }
    a->error = binary(g, "Maximum", distance[0], distance[1], "error");
    a->critic_loss = weighted(a, mul(g, half, add(g, td[0], td[1])), "critic_loss");
}

/* H of each row: (B, 1), or one number for all. */
static struct output target_entropy(struct algo *a)
{
    struct graph *g = a->kit.graph;
    struct output most;

    if (a->policy.masked)
        most = logarithm(g, sum_of_row(g, a->policy.allowed));
    else
        most = constant_f32(g,
                            is_box(a) ? (float)a->kit.self->width
                                      : (float)log((double)a->policy.n_choices),
                            NULL);
    return mul(g, a->target_entropy->constant, most);
}

/* Of policy and temperature. q: the critics' values, discrete only. */
static void make_actor_losses(struct algo *a, const struct output *q)
{
    struct graph *g = a->kit.graph;
    const struct output p = a->policy.p;
    struct output judged[2], log_prob = a->policy.log_prob, excess;

    if (is_box(a))
        make_critics(a, "q_func", REUSE_TRUE, a->policy.action, judged);
    else
        log_prob = sum_of_row(g, mul(g, p, log_prob));
    a->actor_loss = weighted(
        a, soft_loss(a, p, a->policy.log_prob, smaller(g, is_box(a) ? judged : q)),
        "actor_loss");
    a->entropy = weighted(a, negative(g, log_prob), "entropy");
    excess = weighted(a, add(g, log_prob, target_entropy(a)), NULL);
    a->alpha_loss = unary(g, "Neg", mul(g, a->log_alpha->read, excess), "alpha_loss");
}

static void make_steps(struct algo *a)
{
    struct kit *k = &a->kit;
    struct step alpha = kit_actor_step(k, "temperature", a->alpha_rate, a->alpha_loss);

    alpha.norm_name = alpha.rate_name = NULL;
    (void)kit_add_step(k, kit_critic_step(k, "q_func", a->critic_rate, a->critic_loss));
    (void)kit_add_step(k, kit_actor_step(k, "p_func", a->actor_rate, a->actor_loss));
    (void)kit_add_step(k, alpha);
    kit_share_steps(k);
}

static void make_target(struct algo *a)
{
    static const struct following targets = {"target_q_func", "q_func"};
    struct kit *k = &a->kit;

    kit_follow(k, &targets, 1, kit_keep(k), "update_targets", "init_targets");
}

static int build_graph(struct algo *a, struct err *err)
{
    struct kit *k = &a->kit;
    struct output q[2];

    variable_scope_enter(k->graph, k->self->name, NULL, REUSE_INHERIT);
    make_placeholders(a);
    make_lives(a);
    kit_scale_rewards(k);
    soft_policy_make(&a->policy);
    make_alpha(a);
    make_critics(a, "q_func", REUSE_INHERIT, a->action, q);
    if (kit_learns(k)) {
        make_critic_loss(a, q);
        make_next_value(a);
    }
    if (kit_learns(k) && a->log_alpha != NULL)
        make_actor_losses(a, q);
    if (a->log_alpha != NULL)
        make_steps(a);
    if (kit_learns(k))
        make_target(a);
    variable_scope_leave(k->graph);
    return kit_finish(k, err);
}

/* ---- the algorithm ---- */

/* proposes: others' proposals are read; else the agent makes its own where it learns. */
static void make_matrices(struct algo *a, int proposes)
{
    struct kit *k = &a->kit;
    struct matrices *all = &k->matrices;
    struct matrix *own = matrix_new(all, 0);

    a->now = matrix_new(all, 0);
    a->next = matrix_new(all, 0);
    matrix_share_memory(a->next, a->now);
    matrix_add_seen(a->now, NOW, &a->seen);
    matrix_add_seen(a->next, NEXT, &a->seen);
    for (size_t i = 0; i < a->seen.n; i++) {
        const size_t agent = a->seen.agent[i];

        if (i == a->seen.own)
            continue;
        matrix_add_action(a->now, agent);
        matrix_add_output(a->next, agent, "action", k->agents[agent].width,
                          OUTPUT_ACTION);
    }
    matrix_add_action(own, k->index);
    a->chosen = is_box(a) ? own : matrix_of_choices(all, own, a->policy.n_choices);
    a->next_action = a->policy.proposal;
    a->next_probs = a->policy.log_probs;
    if (proposes) {
        a->next_action = matrix_new(all, 0);
        a->next_probs = matrix_new(all, 0);
        matrix_add_output(a->next_action, k->index, "action", k->self->width,
                          OUTPUT_NUMBERS);
        matrix_add_output(a->next_probs, k->index, "log_prob", a->policy.n_log_probs,
                          OUTPUT_NUMBERS);
    }
    a->value = matrix_new(all, 1);
    a->errors = matrix_new(all, 1);
}

static int check(const struct algo_args *args, struct err *err)
{
    int rc = check_optimizers(args->config, err);

    if (rc == 0)
        rc = check_agent_id(args->settings, err);
    if (rc == 0 && args->ops->variant == MASAC)
        rc = rows_check_symmetry(args->agents, args->n_agents, args->self, 0, err);
    return rc;
}

static void sac_done(struct algo *a)
{
    seen_done(&a->seen);
    kit_done(&a->kit);
}

static int build(struct algo *a, const struct algo_args *args, struct err *err)
{
    const int is_alone = args->ops->variant == ISAC;
    int rc = check(args, err);

    if (rc == 0)
        rc = soft_policy_init(&a->policy, args, err);
    if (rc < 0)
        return rc;
    kit_init(&a->kit, args, &plans[args->ops->variant], 0);
    seen_init(&a->seen, args, is_alone || args->config->critic.input == CRITIC_OWN);
    soft_policy_make_matrices(&a->policy, &a->kit, &a->seen);
    make_matrices(a, !is_alone);
    a->n_values = is_box(a) ? a->kit.self->width : a->policy.n_choices;
    rc = seen_forms(&a->seen, args->config, &a->policy.form, &a->form, err);
    return rc == 0 ? build_graph(a, err) : rc;
}

static int act(struct algo *a, struct session *s, const struct act_args *args,
               struct act_result *ret, struct err *err)
{
    return soft_policy_act(&a->policy, s, args, ret, err);
}

/* ---- descriptions ---- */

static const char *const settings[] = {
    "agent_id",
    "initial_alpha",
    "target_entropy_share",
    "target_entropy_each",
    "own_batches",
    "clip_by",
    "symmetry",
    "reward_scale",
    NULL,
};

static const struct algorithm_scalar scalars[] = {
    SCALARS_OF_CRITIC,
    SCALARS_OF_ACTOR,
    SCALAR("entropy", "mean entropy of the policy", "nat"),
    SCALAR("alpha", "weight of the entropy in the rewards", ""),
    {NULL},
};

/* Haarnoja et al. 2018 for rates and targets, BenchMARL for clipping. */
static const struct algorithm_default defaults[] = {
    {"polyak", "0.005"},
    {"clip_norm", "5"},
    {"optimizer.learning_rate", "0.0003"},
    {"settings.clip_by", "global"},
    {NULL},
};

static const struct algo_about isac_about = {
    .info = {.summary = "each agent alone: soft actor-critic on its own observation",
             .use =
                 "rows that are expensive, discrete or continuous actions, exploration "
                 "by the policy's own entropy; for one agent it is sac",
             .stages = "learn(all, writes)",
             .source = "Haarnoja et al. 2018, Soft actor-critic algorithms and "
                       "applications; Christodoulou 2019, Soft actor-critic for discrete "
                       "action settings",
             .method = method,
             .own_critic = 1,
             .defaults = defaults,
             .scalars = scalars,
             .shares = 1},
    .settings = settings};
static const struct algo_about masac_about = {
    .info = {.summary = "soft actor-critic with critics that see all observations and "
                        "the others' actions",
             .use = "as isac, where agents cooperate or compete; the policies stay "
                    "random as far as target_entropy_share or target_entropy_each says",
             .stages = "propose(all) > critic(all, writes) > learn(all, writes)",
             .source = "Haarnoja et al. 2018, Soft actor-critic algorithms and "
                       "applications; Iqbal, Sha 2019, Actor-attention-critic for "
                       "multi-agent reinforcement learning",
             .method = method,
             .defaults = defaults,
             .scalars = scalars,
             .shares = 1},
    .settings = settings};

const struct algo_ops isac_ops = {
    KIT_OPS("isac", isac_about, ISAC, build, sac_done, act)};
const struct algo_ops masac_ops = {
    KIT_OPS("masac", masac_about, MASAC, build, sac_done, act)};
