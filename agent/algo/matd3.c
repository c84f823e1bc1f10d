/* matd3.c - maddpg with twin critics, noise on the targets' actions and a slower policy; with
 *           one agent it is TD3.
 *
 * Source   Ackermann, Gabler, Osa, Sugiyama, "Reducing overestimation bias in multi-agent
 *          domains using double centralized critics", 2019; Fujimoto, van Hoof, Meger,
 *          "Addressing function approximation error in actor-critic methods", ICML 2018,
 *          Algorithm 1. Policies: actor.h.
 *
 * Notation Q1, Q2 are q_func/... and q_func/twin/...
 * e        is 0 of Gumbel policies, which sample; u' keeps within the bounds.
 * learn    All other updates leave the block as it is.
 * Priority the larger of |Q1 - y| and |Q2 - y|
 */
#include "agent/algo/actor.h"
#include "agent/algo/scalars.h"
#include "agent/graph/arithmetic.h"
#include "common/rng/rng.h"

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

enum { CRITIC, ACTOR };

struct algo {
    struct kit kit;
    struct joint joint;
    struct actor actor;
    struct critic critic, target_critic;
    struct output target, weight; /* placeholders (B, 1) */
    struct output distance;       /* (B, 1) the larger of |Q1 - y| and |Q2 - y| */
    struct output critic_loss, q_mean, actor_loss;
    struct live *noise, *noise_clip;
    struct matrix *next_q, *error; /* (B, 1) */
    struct matrix *smoothing;      /* (G B, U) */
};

/* ---- the stages ---- */

/* Adds the noise e to n proposals x. */
static void smooth(struct algo *a, struct batch *b, float *x)
{
    const struct space *space = a->kit.self;
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

static void propose(struct algo *a, struct batch *b)
{
    actor_propose(&a->actor, b, a->actor.deterministic ? smooth : NULL);
    batch_output(b, "action", a->actor.proposal);
}

static void critic(struct algo *a, struct batch *b)
{
    joint_feed(b, &a->joint, &a->target_critic, a->joint.next);
    batch_fetch(b, a->target_critic.q, a->next_q);
    batch_run(b);
    batch_targets(b, a->next_q);

    batch_weigh(b, WEIGH_MEAN);
    joint_feed(b, &a->joint, &a->critic, a->joint.now);
    batch_feed(b, a->target, a->kit.target);
    batch_feed(b, a->weight, a->kit.weight);
    batch_scalar(b, "critic_loss", a->critic_loss);
    batch_scalar(b, "q_mean", a->q_mean);
    batch_fetch(b, a->distance, a->error);
    batch_step(b, CRITIC, 1);
    batch_report_errors(b, a->error);
}

static void policy(struct algo *a, struct batch *b)
{
    joint_feed_others(b, &a->joint);
    batch_feed_live(b, a->actor.penalty);
    batch_weigh(b, WEIGH_MEAN);
    batch_feed(b, a->weight, a->kit.weight);
    actor_feed(&a->actor, b);
    batch_scalar(b, "actor_loss", a->actor_loss);
    batch_step(b, ACTOR, 1);
}

static int moves_policy(const struct algo *a, uint64_t update)
{
    return (update + 1) % (uint64_t)a->kit.settings->policy_delay == 0;
}

static const struct stage_of stages[] = {{"propose", propose, 1}};
static const struct update updates[] = {
    {"critic", {"propose/action"}, critic, CRITIC, 1, .scales_rewards = 1},
    {"learn",
     {NULL},
     policy,
     ACTOR,
     1,
     .after = kit_move_targets,
     .is_due = moves_policy},
};
static const struct kit_plan plan = {stages, 1, updates, 2};

/* ---- the graph ---- */

static void make_critics(struct algo *a)
{
    struct kit *k = &a->kit;
    const struct output own = a->joint.action[a->joint.seen.own];
    struct graph *g = k->graph;
    struct output error, td, td_2;

    a->critic = joint_critic(&a->joint, own, "q_func", REUSE_INHERIT);
    if (kit_learns(k)) {
        a->q_mean = mean_of(g, a->critic.q, NULL);
        td = sub(g, a->critic.q, a->target);
        error = square(g, td);
        td_2 = sub(g, joint_twin(&a->joint, &a->critic, "q_func"), a->target);
        error = add(g, error, square(g, td_2));
        td = absolute(g, td);
        td_2 = absolute(g, td_2);
        a->distance = binary(g, "Maximum", td, td_2, "max_td");
        a->critic_loss = mean_of(g, mul(g, a->weight, error), NULL);
    } else {
        (void)joint_twin(&a->joint, &a->critic, "q_func");
    }
    (void)kit_add_step(
        k, kit_critic_step(k, "q_func", a->actor.critic_rate, a->critic_loss));
    if (!kit_learns(k))
        return;
    a->target_critic = joint_critic(&a->joint, own, "target_q_func", REUSE_INHERIT);
    a->target_critic.q =
        binary(g, "Minimum", a->target_critic.q,
               joint_twin(&a->joint, &a->target_critic, "target_q_func"), "min_q");
}

static struct output mean_of_rows(struct algo *a, struct output x)
{
    return mean_of(a->kit.graph, mul(a->kit.graph, a->weight, x), NULL);
}

static void make_actor(struct algo *a, struct output keep)
{
    static const struct following both[] = {{"target_q_func", "q_func"},
                                            {"target_p_func", "p_func"}};
    struct kit *k = &a->kit;
    struct graph *g = k->graph;

    actor_make_policy(&a->actor);
    if (kit_learns(k)) {
        struct output penalty = mean_of_rows(a, actor_penalty(&a->actor));
        const struct critic judge =
            joint_critic(&a->joint, a->actor.policy.action, "q_func", REUSE_TRUE);

        penalty = mul(g, penalty, a->actor.penalty->constant);
        a->actor_loss = add(g, negative(g, mean_of_rows(a, judge.q)), penalty);
    }
    (void)kit_add_step(k, kit_actor_step(k, "p_func", a->actor.rate, a->actor_loss));
    if (!kit_learns(k))
        return;
    a->actor.target = actor_policy(&a->actor, "target_p_func");
    kit_follow(k, both, 2, keep, "update_targets", "init_targets");
}

static void make_noise_lives(struct algo *a)
{
    struct kit *k = &a->kit;
    const struct algorithm_settings *set = k->settings;

    if (!kit_learns(k))
        return;
    a->noise = kit_add_live(k, live_schedule(k->graph, "settings.target_policy_noise",
                                             &set->target_policy_noise));
    a->noise_clip = kit_add_live(
        k, live_new(k->graph, "settings.target_noise_clip", set->target_noise_clip));
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
    make_noise_lives(a);
    keep = actor_make_constants(&a->actor);
    kit_scale_rewards(k);
    actor_make_masks(&a->actor);
    make_critics(a);
    variable_scope_leave(k->graph);
    variable_scope_enter(k->graph, k->self->name, NULL, REUSE_INHERIT);
    make_actor(a, keep);
    kit_share_steps(k);
    variable_scope_leave(k->graph);
    return kit_finish(k, err);
}

/* ---- the algorithm ---- */

static void matd3_done(struct algo *a)
{
    joint_done(&a->joint);
    kit_done(&a->kit);
}

static int build(struct algo *a, const struct algo_args *args, struct err *err)
{
    int rc = actor_init(&a->actor, args, err);

    if (rc == 0)
        rc = actor_check(args, 1, err);
    if (rc < 0)
        return rc;
    kit_init(&a->kit, args, &plan, 0);
    joint_init(&a->joint, &a->kit, args, args->config->critic.input == CRITIC_OWN);
    joint_take_proposals(&a->joint, NULL);
    actor_make_matrices(&a->actor, &a->joint);
    a->next_q = matrix_new(&a->kit.matrices, 1);
    a->error = matrix_new(&a->kit.matrices, 1);
    a->smoothing = matrix_new(&a->kit.matrices, a->kit.self->width);
    rc = seen_forms(&a->joint.seen, args->config, &a->actor.form, &a->joint.form, err);
    return rc == 0 ? build_graph(a, err) : rc;
}

static int act(struct algo *a, struct session *s, const struct act_args *args,
               struct act_result *ret, struct err *err)
{
    return actor_act(&a->actor, s, args, ret, err);
}

/* ---- description ---- */

static const char *const settings[] = {
    ACTOR_SETTINGS, "policy_delay", "target_policy_noise", "target_noise_clip", NULL,
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

const struct algo_ops matd3_ops = {KIT_OPS("matd3", about, 0, build, matd3_done, act)};
