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
 * Notation pi the policy (actor.h), u the own action, u' the one proposed after the row;
 *          s, s' the state: the seen agents' observations, then the actions of the seen agents
 *          but the own one, each in the order of seen.h; Q1, Q2 the critics (q_func/... and
 *          q_func/twin/...), Q' their targets. Discrete: Q(s) has a value of each choice c, and
 *          the own action is no input. Box: Q(s, u).
 *          mean(x) = sum(m x) / max(1, sum m), m = alive times the row's importance.
 * Stages   actor_critic.h. s' has the others' u'; log pi is the own: each agent maximises its own
 *          entropy. The policy learns with the critics just updated, and the others' actions as
 *          stored; the gradient goes through u. The step of alpha is made in the same run, with
 *          the policy before it; variable temperature/log_alpha begins with log(initial_alpha).
 */
#include "agent/algo/actor_critic.h"
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

struct algo {
    struct actor_critic ac;
    struct output log_alpha;
};

/* ---- critics ---- */

/* The weights of a batch's rows make the sum a mean. */
static struct output mean(struct algo *a, struct output x, const char *name)
{
    return sum_of(a->ac.kit.graph, mul(a->ac.kit.graph, a->ac.weight, x), name);
}

/* alpha log pi - q, expected over the choices: (B, 1). */
static struct output soft_loss(struct algo *a, struct output p, struct output log_prob,
                               struct output q)
{
    struct graph *g = a->ac.kit.graph;
    const struct output x = sub(g, mul(g, a->ac.alpha, log_prob), q);

    return actor_is_box(&a->ac.actor) ? x : sum_of_row(g, mul(g, p, x));
}

static void make_next_value(struct algo *a, struct output action)
{
    struct actor_critic *p = &a->ac;
    struct graph *g = p->kit.graph;
    struct output prob = OUTPUT_NONE, loss;

    p->target_critic = joint_twins(&p->joint, action, "target_q_func", REUSE_INHERIT);
    if (!actor_is_box(&p->actor))
        prob = unary(g, "Exp", p->next_log_prob, NULL);
    loss = soft_loss(a, prob, p->next_log_prob, joint_min(&p->joint, &p->target_critic));
    p->next_value = unary(g, "Neg", loss, "next_value");
}

/* action: a box's u, or the choice, one-hot. */
static void make_critic_loss(struct algo *a, struct output action)
{
    struct actor_critic *p = &a->ac;
    struct graph *g = p->kit.graph;
    const struct output half = constant_f32(g, 0.5f, NULL);
    struct output q = p->critic.q, twin = p->critic.twin, errors;

    if (!actor_is_box(&p->actor)) {
        q = sum_of_row(g, mul(g, action, q));
        twin = sum_of_row(g, mul(g, action, twin));
    }
    p->q_mean = mean(a, mul(g, half, add(g, q, twin)), "q_mean");
    errors = actor_critic_errors(p, q, twin);
    p->critic_loss = mean(a, mul(g, half, errors), "critic_loss");
}

/* ---- policy and temperature ---- */

static void make_alpha(struct algo *a)
{
    struct kit *k = &a->ac.kit;
    const struct initializer init = constant_initializer(log(k->settings->initial_alpha));
    struct variable *v;

    variable_scope_enter(k->graph, "temperature", NULL, REUSE_INHERIT);
    v = get_variable(k->graph, "log_alpha", DT_FLOAT, &SHAPE_SCALAR, &init, 0);
    variable_scope_leave(k->graph);
    a->log_alpha = v != NULL ? v->read : OUTPUT_NONE;
    a->ac.alpha = unary(k->graph, "Exp", a->log_alpha, "alpha");
}

static void make_lives(struct algo *a)
{
    struct actor_critic *p = &a->ac;
    const struct algorithm_settings *set = p->kit.settings;
    const int is_box = actor_is_box(&p->actor);
    const char *key =
        is_box ? "settings.target_entropy_each" : "settings.target_entropy_share";
    const double value = is_box ? set->target_entropy_each : set->target_entropy_share;

    p->in_actor_loss =
        kit_add_live(&p->kit, live_fed(p->kit.graph, key, value, 0, "target_entropy"));
}

/* H of each row: (B, 1), or one number for all. */
static struct output target_entropy(struct actor_critic *p)
{
    struct graph *g = p->kit.graph;
    const double most = actor_is_box(&p->actor) ? (double)p->kit.self->width
                                                : log((double)p->actor.n_choices);

    return mul(g, p->in_actor_loss->constant,
               p->actor.masked ? logarithm(g, sum_of_row(g, p->actor.allowed))
                               : constant_f32(g, (float)most, NULL));
}

/* Returns the loss of log alpha. */
static struct output make_actor_losses(struct algo *a)
{
    struct actor_critic *p = &a->ac;
    const struct policy *pi = &p->actor.policy;
    struct critic judge = p->critic;
    struct graph *g = p->kit.graph;
    struct output log_prob = pi->log_prob, loss;

    if (actor_is_box(&p->actor))
        judge = joint_twins(&p->joint, pi->action, "q_func", REUSE_TRUE);
    else
        log_prob = sum_of_row(g, mul(g, pi->p, log_prob));
    loss = soft_loss(a, pi->p, pi->log_prob, joint_min(&p->joint, &judge));
    p->actor_loss = mean(a, loss, "actor_loss");
    p->entropy = mean(a, negative(g, log_prob), "entropy");
    loss = mean(a, add(g, log_prob, target_entropy(p)), NULL);
    return unary(g, "Neg", mul(g, a->log_alpha, loss), "alpha_loss");
}

/* ---- the algorithm ---- */

static void make(struct algo *a)
{
    static const struct following targets = {"target_q_func", "q_func"};
    struct actor_critic *p = &a->ac;
    struct kit *k = &p->kit;
    const struct output action = p->joint.action[p->joint.seen.own];
    struct output alpha_loss = OUTPUT_NONE;
    struct step alpha;

    actor_make_policy(&p->actor);
    make_alpha(a);
    p->critic = joint_twins(&p->joint, action, "q_func", REUSE_INHERIT);
    if (kit_learns(k)) {
        make_critic_loss(a, action);
        make_next_value(a, action);
        alpha_loss = make_actor_losses(a);
    }
    (void)kit_add_step(k, kit_critic_step(k, "q_func", p->critic_rate, p->critic_loss));
    (void)kit_add_step(k, kit_actor_step(k, "p_func", p->actor_rate, p->actor_loss));
    alpha = kit_actor_step(k, "temperature",
                           kit_makes_steps(k) ? kit_add_live(k, *p->actor_rate) : NULL,
                           alpha_loss);
    alpha.norm_name = alpha.rate_name = NULL;
    (void)kit_add_step(k, alpha);
    if (kit_learns(k))
        kit_follow(k, &targets, 1, kit_keep(k), "update_targets", "init_targets");
}

static const struct actor_critic_kind kinds[] = {
    [ISAC] = {1, 1, WEIGH_SHARES, "row_weight", make_lives, make},
    [MASAC] = {0, 1, WEIGH_SHARES, "row_weight", make_lives, make}};

static int sac_build(struct algo *a, const struct algo_args *args, struct err *err)
{
    return actor_critic_build(&a->ac, args, &kinds[args->ops->variant], err);
}

/* ---- descriptions ---- */

static const char *const settings[] = {ACTOR_CRITIC_SETTINGS, "initial_alpha",
                                       "target_entropy_share", "target_entropy_each",
                                       NULL};

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

const struct algo_ops isac_ops = {ACTOR_CRITIC_OPS("isac", isac_about, ISAC, sac_build)};
const struct algo_ops masac_ops = {
    ACTOR_CRITIC_OPS("masac", masac_about, MASAC, sac_build)};
