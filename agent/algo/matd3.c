/* matd3.c - maddpg with twin critics, noise on the targets' actions and a slower policy; with
 *           one agent it is TD3.
 *
 * Source   Ackermann, Gabler, Osa, Sugiyama, "Reducing overestimation bias in multi-agent
 *          domains using double centralized critics", 2019; Fujimoto, van Hoof, Meger,
 *          "Addressing function approximation error in actor-critic methods", ICML 2018,
 *          Algorithm 1. Policies: actor.h; stages: actor_critic.h.
 *
 * Notation Q1, Q2 are q_func/... and q_func/twin/...
 * e        is 0 of Gumbel policies, which sample; u' keeps within the bounds.
 * learn    All other updates leave the block as it is.
 * Priority the larger of |Q1 - y| and |Q2 - y|
 */
#include "agent/algo/actor_critic.h"
#include "agent/graph/arithmetic.h"

#include <math.h>

static const char *const method[] = {
    "o, o' observations now and next, u actions, mu the policy, Q1 and Q2 the critics,",
    "mu', Q1', Q2' their targets, w the row's importance, 0 where the agent is not alive",
    "propose  u' = mu'(o') + e, of every agent for itself, n normal:",
    "         e = clip(target_policy_noise n, +-target_noise_clip), in half ranges",
    "critic   y = reward + discount (1 - terminated) min(Q1'(o', u'), Q2'(o', u'))",
    "         Q1, Q2: one step down mean_w((Q1 - y)^2 + (Q2 - y)^2), of one optimiser",
    "learn    in updates d - 1, 2 d - 1, ... only, d = policy_delay:",
    "         mu: one step down -mean_w Q1(o, mu(own o), others' u)",
    "             + logit_penalty mean_w(mu's outputs^2)",
    "         mu', Q1', Q2': t = (1 - polyak) t + polyak v",
    "mean_w(x) = sum(w x) / max(1, sum w)",
    NULL,
};

struct algo {
    struct actor_critic ac;
    struct live *noise, *noise_clip;
    struct matrix *smoothing; /* (G B, U) */
};

/* ---- propose ---- */

/* Adds the noise e to n proposals x. */
static void smooth(struct algo *a, struct batch *b, float *x)
{
    const struct space *space = a->ac.kit.self;
    const float low = (float)space->low, high = (float)space->high;
    const float half = (high - low) / 2;
    const float deviation = a->noise->value, clip = a->noise_clip->value;
    const float *noise;

    batch_draw_normal(b, a->smoothing, "smoothing");
    noise = batch_take(b, a->smoothing);
    for (int64_t i = 0; i < b->n * space->width; i++) {
        const float e = fminf(fmaxf(deviation * noise[i], -clip), clip);

        x[i] = fminf(fmaxf(x[i] + half * e, low), high);
    }
}

/* ---- networks and losses ---- */

static void make_critics(struct actor_critic *p)
{
    struct kit *k = &p->kit;
    const struct output own = p->joint.action[p->joint.seen.own];
    struct graph *g = k->graph;
    struct output errors;

    p->critic = joint_twins(&p->joint, own, "q_func", REUSE_INHERIT);
    if (kit_learns(k)) {
        p->q_mean = mean_of(g, p->critic.q, NULL);
        errors = actor_critic_errors(p, p->critic.q, p->critic.twin);
        p->critic_loss = mean_of(g, mul(g, p->weight, errors), NULL);
    }
    (void)kit_add_step(k, kit_critic_step(k, "q_func", p->critic_rate, p->critic_loss));
    if (!kit_learns(k))
        return;
    p->target_critic = joint_twins(&p->joint, own, "target_q_func", REUSE_INHERIT);
    p->next_value = joint_min(&p->joint, &p->target_critic);
}

static struct output mean_of_rows(struct actor_critic *p, struct output x)
{
    return mean_of(p->kit.graph, mul(p->kit.graph, p->weight, x), NULL);
}

static void make_actor_loss(struct actor_critic *p)
{
    struct graph *g = p->kit.graph;
    struct output penalty = mean_of_rows(p, actor_penalty(&p->actor));
    const struct critic judge =
        joint_critic(&p->joint, p->actor.policy.action, "q_func", REUSE_TRUE);

    penalty = mul(g, penalty, p->actor.penalty->constant);
    p->in_actor_loss = p->actor.penalty;
    p->actor_loss = add(g, negative(g, mean_of_rows(p, judge.q)), penalty);
}

static void make_lives(struct algo *a)
{
    struct kit *k = &a->ac.kit;
    const struct algorithm_settings *set = k->settings;

    a->noise = kit_add_live(k, live_schedule(k->graph, "settings.target_policy_noise",
                                             &set->target_policy_noise));
    a->noise_clip = kit_add_live(
        k, live_new(k->graph, "settings.target_noise_clip", set->target_noise_clip));
}

static void make(struct algo *a)
{
    struct kit *k = &a->ac.kit;

    a->ac.delay = k->settings->policy_delay;
    a->ac.smooth = a->ac.actor.kind == ACTOR_DETERMINISTIC ? smooth : NULL;
    a->smoothing = matrix_new(&k->matrices, k->self->width);
    make_critics(&a->ac);
    actor_critic_add_policy(&a->ac, make_actor_loss);
}

/* ---- the algorithm ---- */

static const struct actor_critic_kind kind = {.weighing = WEIGH_MEAN,
                                              .weight = "is_weight",
                                              .make_lives = make_lives,
                                              .make = make};

static int matd3_build(struct algo *a, const struct algo_args *args, struct err *err)
{
    return actor_critic_build(&a->ac, args, &kind, err);
}

/* ---- description ---- */

static const char *const settings[] = {
    ACTOR_CRITIC_SETTINGS, ACTOR_SETTINGS,      "policy_delay",
    "target_policy_noise", "target_noise_clip", NULL,
};

static const struct algorithm_scalar scalars[] = {
    SCALARS_OF_CRITIC, SCALARS_OF_ACTOR, {NULL}};

static const struct algo_about about = {
    .info = {.summary =
                 "maddpg with the smaller of two critics' values, noise on the targets' "
                 "actions, and a slower policy; one agent alone: td3",
             .use = "as maddpg, mostly for continuous actions; for one agent it is td3",
             .stages = "propose(all) > critic(all, writes) > learn(all, writes)",
             .source =
                 "Ackermann et al. 2019, Reducing overestimation bias in multi-agent "
                 "domains using double centralized critics; Fujimoto et al. 2018, "
                 "Addressing function approximation error in actor-critic methods",
             .method = method,
             .scalars = scalars,
             .shares = 1},
    .settings = settings};

const struct algo_ops matd3_ops = {ACTOR_CRITIC_OPS("matd3", about, 0, matd3_build)};
