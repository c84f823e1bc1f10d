/* maddpg.c - multi-agent deep deterministic policy gradient, and its one-agent case, ddpg.
 *
 * Source   Lowe, Wu, Tamar, Harb, Abbeel, Mordatch, "Multi-agent actor-critic for mixed
 *          cooperative-competitive environments", NIPS 2017, Algorithm 1; openai/maddpg
 *          for names and the penalty on logits. ddpg: Lillicrap et al., "Continuous control
 *          with deep reinforcement learning", ICLR 2016. Policies: actor.h.
 *
 * Stages   actor_critic.h. The critic of ddpg sees its own observation and action.
 * Trials   with optimizer accept_reject, changes of the networks are tried on the batch
 *          (agent/nn/accept_reject.h), and there are no gradients and no norms.
 */
#include "agent/algo/actor_critic.h"
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

struct algo {
    struct actor_critic ac;
};

/* ---- networks and losses ---- */

static void make_critic(struct actor_critic *p)
{
    struct kit *k = &p->kit;
    const struct output own = p->joint.action[p->joint.seen.own];
    struct graph *g = k->graph;

    p->critic = joint_critic(&p->joint, own, "q_func", REUSE_INHERIT);
    if (kit_learns(k)) {
        p->q_mean = mean_of(g, p->critic.q, NULL);
        p->error = sub(g, p->critic.q, p->target);
        p->critic_loss = mean_of(g, mul(g, p->weight, square(g, p->error)), NULL);
    }
    (void)kit_add_step(k, kit_critic_step(k, "q_func", p->critic_rate, p->critic_loss));
    if (!kit_learns(k))
        return;
    p->target_critic = joint_critic(&p->joint, own, "target_q_func", REUSE_INHERIT);
    p->next_value = p->target_critic.q;
}

static void make_actor_loss(struct actor_critic *p)
{
    struct graph *g = p->kit.graph;
    struct output penalty = mean_of(g, actor_penalty(&p->actor), NULL);
    const struct critic judge =
        joint_critic(&p->joint, p->actor.policy.action, "q_func", REUSE_TRUE);

    penalty = mul(g, penalty, p->actor.penalty->constant);
    p->in_actor_loss = p->actor.penalty;
    p->actor_loss = add(g, negative(g, mean_of(g, judge.q, NULL)), penalty);
}

static void make(struct algo *a)
{
    make_critic(&a->ac);
    actor_critic_add_policy(&a->ac, make_actor_loss);
}

/* ---- the algorithm ---- */

static const struct actor_critic_kind kinds[] = {
    [MADDPG] = {.weighing = WEIGH_ROWS, .weight = "is_weight", .make = make},
    [DDPG] = {
        .is_alone = 1, .weighing = WEIGH_ROWS, .weight = "is_weight", .make = make}};

static int maddpg_build(struct algo *a, const struct algo_args *args, struct err *err)
{
    return actor_critic_build(&a->ac, args, &kinds[args->ops->variant], err);
}

/* ---- descriptions ---- */

static const char *const settings[] = {ACTOR_CRITIC_SETTINGS, ACTOR_SETTINGS, NULL};

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
    ACTOR_CRITIC_OPS("maddpg", maddpg_about, MADDPG, maddpg_build)};
const struct algo_ops ddpg_ops = {
    ACTOR_CRITIC_OPS("ddpg", ddpg_about, DDPG, maddpg_build)};
