/* maddpg.c - multi-agent deep deterministic policy gradient, and its one-agent case, ddpg.
 *
 * Source   Lowe, Wu, Tamar, Harb, Abbeel, Mordatch, "Multi-agent actor-critic for mixed
 *          cooperative-competitive environments", NIPS 2017, Algorithm 1; openai/maddpg
 *          for names and the penalty on logits. ddpg: Lillicrap et al., "Continuous control
 *          with deep reinforcement learning", ICLR 2016. Policies: actor.h.
 *
 * Critics  of what joint.h says. That of ddpg sees its own observation and action, and so needs
 *          no proposals of others: one stage, `learn`, does all of it.
 *          Critic and policy are two stages of about the same length, so that an odd number
 *          of agents shares an even number of cores well.
 * Trials   with optimizer accept_reject, changes of the networks are tried on the batch
 *          (agent/nn/accept_reject.h), and there are no gradients and no norms.
 */
#include "agent/algo/actor.h"
#include "agent/algo/rows.h"
#include "agent/algo/scalars.h"
#include "agent/graph/arithmetic.h"

static const char *const maddpg_method[] = {
    "o, o' observations now and next, u actions, mu the policy, Q the critic, mu' and Q'",
    "their targets, w the row's importance, 0 where the agent is not alive",
    "propose  u' = mu'(o'), of every agent for itself",
    "critic   y = reward + discount (1 - terminated) Q'(o', u')",
    "         Q: one step down the mean of w (Q(o, u) - y)^2",
    "learn    mu: one step down -mean Q(o, mu(own o), others' u)",
    "             + logit_penalty mean(mu's outputs^2), with the Q just updated",
    "         mu', Q': t = (1 - polyak) t + polyak v",
    NULL,
};
static const char *const ddpg_method[] = {
    "o, o' own observations now and next, u the own action, mu the policy, Q the critic,",
    "mu' and Q' their targets, w the row's importance, 0 where the agent is not alive",
    "learn    u' = mu'(o')",
    "         y = reward + discount (1 - terminated) Q'(o', u')",
    "         Q: one step down the mean of w (Q(o, u) - y)^2",
    "         mu: one step down -mean Q(o, mu(o)) + logit_penalty mean(mu's outputs^2),",
    "             with the Q just updated",
    "         mu', Q': t = (1 - polyak) t + polyak v",
    NULL,
};

enum variant { MADDPG, DDPG };
enum { CRITIC, ACTOR };

struct algo {
    struct kit kit;
    struct joint joint;
    struct actor actor;
    struct critic critic, target_critic;
    struct output target, weight; /* placeholders (B, 1) */
    struct output td;             /* (B, 1) Q - y */
    struct output critic_loss, q_mean, actor_loss;
    struct matrix *next_q, *error; /* (B, 1) */
    int is_alone;                  /* ddpg */
};

/* ---- the stages ---- */

static void propose(struct algo *a, struct batch *b)
{
    actor_propose(&a->actor, b, NULL);
    batch_output(b, "action", a->actor.proposal);
}

static void critic(struct algo *a, struct batch *b)
{
    if (a->is_alone)
        actor_propose(&a->actor, b, NULL);
    joint_feed(b, &a->joint, &a->target_critic, a->joint.next);
    batch_fetch(b, a->target_critic.q, a->next_q);
    batch_run(b);
    batch_targets(b, a->next_q);

    batch_weigh(b, WEIGH_ROWS);
    joint_feed(b, &a->joint, &a->critic, a->joint.now);
    batch_feed(b, a->target, a->kit.target);
    batch_feed(b, a->weight, a->kit.weight);
    batch_scalar(b, "critic_loss", a->critic_loss);
    batch_scalar(b, "q_mean", a->q_mean);
    batch_fetch(b, a->td, a->error);
    batch_step(b, CRITIC, 1);
    batch_report_errors(b, a->error);
}

static void policy(struct algo *a, struct batch *b)
{
    joint_feed_others(b, &a->joint);
    batch_feed_live(b, a->actor.penalty);
    actor_feed(&a->actor, b);
    batch_scalar(b, "actor_loss", a->actor_loss);
    batch_step(b, ACTOR, 1);
}

static const struct stage_of stages[] = {{"propose", propose, 1}};
static const struct update maddpg_updates[] = {
    {"critic", {"propose/action"}, critic, CRITIC, 1, .scales_rewards = 1},
    {"learn", {NULL}, policy, ACTOR, 1, .after = kit_move_targets},
};
static const struct update ddpg_updates[] = {
    {"learn", {NULL}, critic, CRITIC, 1, .scales_rewards = 1},
    {"learn", {NULL}, policy, ACTOR, 1, .after = kit_move_targets},
};
static const struct kit_plan plans[] = {
    [MADDPG] = {stages, 1, maddpg_updates, 2}, [DDPG] = {NULL, 0, ddpg_updates, 2}};

/* ---- the graph ---- */

static void make_critic(struct algo *a)
{
    struct kit *k = &a->kit;
    const struct output own = a->joint.action[a->joint.seen.own];
    struct graph *g = k->graph;

    a->critic = joint_critic(&a->joint, own, "q_func", REUSE_INHERIT);
    if (kit_learns(k)) {
        a->q_mean = mean_of(g, a->critic.q, NULL);
        a->td = sub(g, a->critic.q, a->target);
        a->critic_loss = mean_of(g, mul(g, a->weight, square(g, a->td)), NULL);
    }
    (void)kit_add_step(
        k, kit_critic_step(k, "q_func", a->actor.critic_rate, a->critic_loss));
    if (kit_learns(k))
        a->target_critic = joint_critic(&a->joint, own, "target_q_func", REUSE_INHERIT);
}

static void make_actor(struct algo *a, struct output keep)
{
    static const struct following both[] = {{"target_q_func", "q_func"},
                                            {"target_p_func", "p_func"}};
    struct kit *k = &a->kit;
    struct graph *g = k->graph;

    actor_make_policy(&a->actor);
    if (kit_learns(k)) {
        struct output penalty = mean_of(g, actor_penalty(&a->actor), NULL);
        const struct critic judge =
            joint_critic(&a->joint, a->actor.policy.action, "q_func", REUSE_TRUE);

        penalty = mul(g, penalty, a->actor.penalty->constant);
        a->actor_loss = add(g, negative(g, mean_of(g, judge.q, NULL)), penalty);
    }
    (void)kit_add_step(k, kit_actor_step(k, "p_func", a->actor.rate, a->actor_loss));
    if (!kit_learns(k))
        return;
    a->actor.target = actor_policy(&a->actor, "target_p_func");
    kit_follow(k, both, 2, keep, "update_targets", "init_targets");
}

static int build_graph(struct algo *a, struct err *err)
{
    struct kit *k = &a->kit;
    struct output keep;

    joint_make_observations(&a->joint);
    variable_scope_enter(k->graph, k->self->name, NULL, REUSE_INHERIT);
    joint_make_actions(&a->joint);
    if (kit_learns(k)) {
        a->target = kit_placeholder(k, 1, "target");
        a->weight = kit_placeholder(k, 1, "is_weight");
    }
    actor_make_lives(&a->actor);
    keep = actor_make_constants(&a->actor);
    kit_scale_rewards(k);
    actor_make_masks(&a->actor);
    make_critic(a);
    variable_scope_leave(k->graph);
    variable_scope_enter(k->graph, k->self->name, NULL, REUSE_INHERIT);
    make_actor(a, keep);
    kit_share_steps(k);
    variable_scope_leave(k->graph);
    return kit_finish(k, err);
}

/* ---- the algorithm ---- */

static void maddpg_done(struct algo *a)
{
    joint_done(&a->joint);
    kit_done(&a->kit);
}

static int build(struct algo *a, const struct algo_args *args, struct err *err)
{
    const enum variant variant = (enum variant)args->ops->variant;
    int rc = actor_init(&a->actor, args, err);

    if (rc == 0)
        rc = actor_check(args, variant == MADDPG, err);
    if (rc < 0)
        return rc;
    kit_init(&a->kit, args, &plans[variant], 0);
    a->is_alone = variant == DDPG;
    joint_init(&a->joint, &a->kit, args,
               a->is_alone || args->config->critic.input == CRITIC_OWN);
    actor_make_matrices(&a->actor, &a->joint);
    joint_take_proposals(&a->joint, a->is_alone ? a->actor.proposal : NULL);
    a->next_q = matrix_new(&a->kit.matrices, 1);
    a->error = matrix_new(&a->kit.matrices, 1);
    rc = seen_forms(&a->joint.seen, args->config, &a->actor.form, &a->joint.form, err);
    return rc == 0 ? build_graph(a, err) : rc;
}

static int act(struct algo *a, struct session *s, const struct act_args *args,
               struct act_result *ret, struct err *err)
{
    return actor_act(&a->actor, s, args, ret, err);
}

/* ---- descriptions ---- */

static const char *const settings[] = {ACTOR_SETTINGS, NULL};

static const struct algorithm_scalar scalars[] = {
    SCALARS_OF_CRITIC, SCALARS_OF_ACTOR, {NULL}};

static const struct algo_about maddpg_about = {
    .info = {.summary = "critics that see all observations and actions, actors that see "
                        "their own",
             .use = "competition and mixed motives, discrete or continuous actions, rows "
                    "that are dear",
             .stages = "propose(all) > critic(all, writes) > learn(all, writes)",
             .source = "Lowe et al. 2017, Multi-agent actor-critic for mixed "
                       "cooperative-competitive environments",
             .method = maddpg_method,
             .is_default = 1,
             .scalars = scalars,
             .shares = 1},
    .settings = settings};
static const struct algo_about ddpg_about = {
    .info = {.summary = "each agent alone: an actor, and a critic of its own observation",
             .use = "agents whose success depends little on the others; the yardstick "
                    "for maddpg",
             .stages = "learn(all, writes)",
             .source = "Lillicrap et al. 2016, Continuous control with deep "
                       "reinforcement learning",
             .method = ddpg_method,
             .own_critic = 1,
             .scalars = scalars,
             .shares = 1},
    .settings = settings};

const struct algo_ops maddpg_ops = {
    KIT_OPS("maddpg", maddpg_about, MADDPG, build, maddpg_done, act)};
const struct algo_ops ddpg_ops = {
    KIT_OPS("ddpg", ddpg_about, DDPG, build, maddpg_done, act)};
