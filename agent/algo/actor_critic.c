#include "agent/algo/actor_critic.h"

#include "agent/algo/rows.h"
#include "agent/graph/arithmetic.h"

static struct actor_critic *actor_critic_of(struct algo *a)
{
    return (struct actor_critic *)(void *)a;
}

/* ---- the stages ---- */

static void find_proposals(struct algo *a, struct batch *b)
{
    struct actor_critic *p = actor_critic_of(a);

    actor_propose(&p->actor, b, p->smooth);
}

static void propose(struct algo *a, struct batch *b)
{
    struct actor_critic *p = actor_critic_of(a);

    find_proposals(a, b);
    batch_output(b, "action", p->actor.proposal);
    if (p->kind->is_soft)
        batch_output(b, "log_prob", p->actor.log_probs);
}

static void critic(struct algo *a, struct batch *b)
{
    struct actor_critic *p = actor_critic_of(a);

    if (p->kind->is_alone)
        find_proposals(a, b);
    joint_feed(b, &p->joint, &p->target_critic, NEXT);
    if (p->kind->is_soft)
        batch_feed(b, p->next_log_prob, p->next_log_probs);
    batch_fetch(b, p->next_value, p->next_q);
    batch_run(b);
    batch_targets(b, p->next_q);

    batch_weigh(b, p->kind->weighing);
    joint_feed(b, &p->joint, &p->critic, NOW);
    batch_feed(b, p->target, p->kit.target);
    batch_feed(b, p->weight, p->kit.weight);
    batch_scalar(b, "critic_loss", p->critic_loss);
    batch_scalar(b, "q_mean", p->q_mean);
    batch_fetch(b, p->error, p->errors);
    batch_step(b, ACTOR_CRITIC_CRITIC, 1);
    batch_report_errors(b, p->errors);
}

static void policy(struct algo *a, struct batch *b)
{
    struct actor_critic *p = actor_critic_of(a);

    joint_feed_others(b, &p->joint);
    if (p->in_actor_loss != NULL)
        batch_feed_live(b, p->in_actor_loss);
    batch_weigh(b, p->kind->weighing);
    batch_feed(b, p->weight, p->kit.weight);
    actor_feed(&p->actor, b);
    batch_scalar(b, "actor_loss", p->actor_loss);
    if (output_valid(p->entropy))
        batch_scalar(b, "entropy", p->entropy);
    if (output_valid(p->alpha))
        batch_scalar(b, "alpha", p->alpha);
    batch_step(b, ACTOR_CRITIC_ACTOR, p->kit.n_steps - ACTOR_CRITIC_ACTOR);
}

static int moves_policy(const struct algo *a, uint64_t update)
{
    const int64_t delay = ((const struct actor_critic *)(const void *)a)->delay;

    return delay == 0 || (update + 1) % (uint64_t)delay == 0;
}

static const struct stage_of stages[] = {{"propose", propose, 1}};
/* The policy's steps: all behind the critic's. */
#define POLICY_UPDATE                                                                    \
    {                                                                                    \
        "learn", {NULL}, policy, ACTOR_CRITIC_ACTOR, 0, .after = kit_move_targets,       \
                                                        .is_due = moves_policy           \
    }
static const struct update joint_updates[] = {
    {"critic", {"propose/action"}, critic, ACTOR_CRITIC_CRITIC, 1, .scales_rewards = 1},
    POLICY_UPDATE};
static const struct update soft_joint_updates[] = {
    {"critic",
     {"propose/action", "own:propose/log_prob"},
     critic,
     ACTOR_CRITIC_CRITIC,
     1,
     .scales_rewards = 1},
    POLICY_UPDATE};
static const struct update alone_updates[] = {
    {"learn", {NULL}, critic, ACTOR_CRITIC_CRITIC, 1, .scales_rewards = 1},
    POLICY_UPDATE};
static const struct kit_plan joint_plan = {stages, 1, joint_updates, 2},
                             soft_joint_plan = {stages, 1, soft_joint_updates, 2},
                             alone_plan = {NULL, 0, alone_updates, 2};

/* ---- building ---- */

static int actor_critic_check(const struct algo_args *args,
                              const struct actor_critic_kind *kind, struct err *err)
{
    const struct agent_config *c = args->config;
    int rc = check_agent_id(args->settings, err);

    if (rc == 0 && kind->is_soft)
        rc = check_optimizers(c, err);
    if (rc == 0 && args->share != NULL &&
        (network_optimizer(c, &c->critic)->type == OPT_ACCEPT_REJECT ||
         network_optimizer(c, &c->actor)->type == OPT_ACCEPT_REJECT))
        rc =
            err_set_at(err, ERR_CONFIG, ERR_AT(.key = "optimizer.type"),
                       "accept_reject has no gradients to share, expected another one or "
                       "share: none");
    if (rc == 0 && !kind->is_alone)
        rc = rows_check_symmetry(args->agents, args->n_agents, args->self, 0, err);
    return rc;
}

/* A soft agent's own action is beside what its critics see: of the rows (one-hot, if it is
 * discrete), and the one that was proposed after them, with its log-probability. */
static void make_soft_matrices(struct actor_critic *p)
{
    struct kit *k = &p->kit;
    struct matrices *all = &k->matrices;
    struct matrix *own = matrix_new(all, 0), *next = p->actor.proposal;

    matrix_add_action(own, k->index);
    p->next_log_probs = p->actor.log_probs;
    if (!p->kind->is_alone) {
        next = matrix_new(all, 0);
        p->next_log_probs = matrix_new(all, 0);
        matrix_add_output(next, k->index, "action", k->self->width, OUTPUT_NUMBERS);
        matrix_add_output(p->next_log_probs, k->index, "log_prob", p->actor.n_log_probs,
                          OUTPUT_NUMBERS);
    }
    p->joint.own_now =
        p->actor.n_choices > 0 ? matrix_of_choices(all, own, p->actor.n_choices) : own;
    p->joint.own_next = p->actor.n_choices > 0 ? NULL : next;
}

static int init(struct actor_critic *p, const struct algo_args *args,
                const struct actor_critic_kind *kind, struct err *err)
{
    const struct kit_plan *plan = kind->is_alone  ? &alone_plan
                                  : kind->is_soft ? &soft_joint_plan
                                                  : &joint_plan;
    int rc = actor_init(&p->actor, args, kind->is_soft, err);

    if (rc == 0)
        rc = actor_critic_check(args, kind, err);
    if (rc < 0)
        return rc;
    kit_init(&p->kit, args, plan, 0);
    p->kind = kind;
    joint_init(&p->joint, &p->kit, args,
               kind->is_alone || args->config->critic.input == CRITIC_OWN, kind->is_soft);
    actor_make_matrices(&p->actor, &p->joint);
    joint_take_proposals(&p->joint, kind->is_alone ? p->actor.proposal : NULL);
    if (kind->is_soft)
        make_soft_matrices(p);
    p->next_q = matrix_new(&p->kit.matrices, 1);
    p->errors = matrix_new(&p->kit.matrices, 1);
    return seen_forms(&p->joint.seen, args->config, &p->actor.form, &p->joint.form, err);
}

/* ---- the graph ---- */

int actor_critic_build(struct actor_critic *p, const struct algo_args *args,
                       const struct actor_critic_kind *kind, struct err *err)
{
    const int rc = init(p, args, kind, err);

    if (rc < 0)
        return rc;
    struct kit *k = &p->kit;
    joint_make_observations(&p->joint);
    variable_scope_enter(k->graph, k->self->name, NULL, REUSE_INHERIT);
    joint_make_actions(&p->joint, p->actor.n_choices);
    if (kit_learns(k)) {
        p->target = kit_placeholder(k, 1, "target");
        p->weight = kit_placeholder(k, 1, p->kind->weight);
    }
    if (kit_learns(k) && p->kind->is_soft)
        p->next_log_prob = kit_placeholder(k, p->actor.n_log_probs, "next_log_prob");
    kit_add_usual_lives(k, &p->actor_rate, &p->critic_rate);
    actor_make_lives(&p->actor);
    if (kit_learns(k) && p->kind->make_lives != NULL)
        p->kind->make_lives((struct algo *)(void *)p);
    kit_scale_rewards(k);
    kind->make((struct algo *)(void *)p);
    kit_share_steps(&p->kit);
    variable_scope_leave(p->kit.graph);
    return kit_finish(&p->kit, err);
}

void actor_critic_add_policy(struct actor_critic *p,
                             void (*make_loss)(struct actor_critic *p))
{
    static const struct following both[] = {{"target_q_func", "q_func"},
                                            {"target_p_func", "p_func"}};
    struct kit *k = &p->kit;

    kit_reopen_scope(k);
    actor_make_policy(&p->actor);
    if (kit_learns(k))
        make_loss(p);
    (void)kit_add_step(k, kit_actor_step(k, "p_func", p->actor_rate, p->actor_loss));
    if (!kit_learns(k))
        return;
    p->actor.target = actor_policy(&p->actor, "target_p_func");
    kit_follow(k, both, 2, kit_keep(k), "update_targets", "init_targets");
}

struct output actor_critic_errors(struct actor_critic *p, struct output q,
                                  struct output twin)
{
    struct graph *g = p->kit.graph;
    const struct output d = sub(g, q, p->target), d_2 = sub(g, twin, p->target);
    const struct output squares = square(g, d), squares_2 = square(g, d_2);
    const struct output distance = absolute(g, d), distance_2 = absolute(g, d_2);

    p->error = binary(g, "Maximum", distance, distance_2, "error");
    return add(g, squares, squares_2);
}

/* ---- the interface ---- */

void actor_critic_done(struct algo *a)
{
    joint_done(&actor_critic_of(a)->joint);
    kit_done(&actor_critic_of(a)->kit);
}

int actor_critic_act(struct algo *a, struct session *s, const struct act_args *args,
                     struct act_result *ret, struct err *err)
{
    return actor_act(&actor_critic_of(a)->actor, s, args, ret, err);
}
