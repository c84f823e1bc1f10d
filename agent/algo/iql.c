/* iql.c - independent Q-learning: each agent has its own deep Q-network. From whole episodes it
 *         learns in q_learner.c.
 *
 * Source   Tampuu et al. 2017, "Multiagent cooperation and competition with deep
 *          reinforcement learning"; Mnih et al. 2015, "Human-level control through deep
 *          reinforcement learning". Hysteresis: Matignon, Laurent, Le Fort-Piat 2007,
 *          "Hysteretic Q-learning"; with networks: Omidshafiei et al. 2017, "Deep
 *          decentralized multi-task multi-agent reinforcement learning under partial
 *          observability".
 *
 * Notation o, o' the own observation now and next, u the choice: a combination of the action's
 *          heads (choices.h), for each of which the network, the configuration's `critic`, has
 *          an output; w the row's importance, 0 where the agent is not alive.
 * act      the best choice; exploring, any choice with probability epsilon. Where actions
 *          are masked, only among the possible ones.
 * learn    y = reward + discount (1 - terminated) max Q'(o', .), of the choices that are
 *          possible there
 *          d = y - Q(o, u)
 *          Q:  one step down the mean of w (max(d, 0)^2 + hysteresis max(-d, 0)^2)
 *          In a team that shares its reward, a bad reward may be another agent's fault.
 *          With hysteresis below 1 it weighs less than a good one.
 *          Q': t = (1 - polyak) t + polyak v
 */
#include "agent/algo/choices.h"
#include "agent/algo/kit.h"
#include "agent/algo/rows.h"
#include "agent/algo/scalars.h"
#include "agent/graph/arithmetic.h"
#include "common/mem/xmalloc.h"
#include "common/rng/rng.h"

#include <stdlib.h>

struct algo {
    struct kit kit;
    int32_t n_choices;                                 /* C */
    struct pictures pictures;                          /* that its network sees */
    struct output observation, choice, target, weight; /* placeholders */
    struct output q, target_q;                         /* (B, C) */
    struct output td;                                  /* (B, 1) d */
    struct output loss, q_mean;
    struct live *hysteresis, *epsilon, *rate;
    struct matrix *obs, *next_obs, *choices, *next_q, *next; /* of rows */
    struct matrix *open;          /* (B, C) choices that are possible next; masked only */
    struct matrix *error;         /* (B, 1) */
    struct matrix *values, *draw; /* of copies: (E, C), (E, 1) */
    uint8_t *allowed;             /* (C) of one copy */
};

/* ---- acting ---- */

static int act(struct algo *a, struct session *s, const struct act_args *args,
               struct act_result *ret, struct err *err)
{
    const size_t width = (size_t)a->kit.self->width, choices = (size_t)a->n_choices;
    const int greedy = args->mode == ACT_GREEDY;
    struct batch b = batch_to_act(&a->kit, s, args, err);
    float *draw = batch_room(&b, a->draw);
    const float *values;
    struct ramp epsilon;
    const int rc = live_ramp(a->epsilon, s, &epsilon, err);

    if (rc < 0)
        return rc;
    batch_feed_data(&b, a->observation, args->obs, a->kit.self->obs);
    batch_fetch(&b, a->q, a->values);
    batch_run(&b);
    values = batch_take(&b, a->values);
    if (!greedy && b.rc == 0)
        rng_uniform_rows_f32(args->key, args->counter, args->draw_first, draw,
                             args->n_copies, 1);
    for (size_t e = 0; e < (size_t)b.n; e++) {
        const int32_t choice = choice_epsilon_greedy(
            a->kit.self, values + e * choices,
            args->allowed != NULL ? args->allowed + e * width : NULL, a->n_choices,
            greedy ? NULL : &draw[e], (float)ramp_value(&epsilon, act_step(args, e)),
            a->allowed);

        choice_to_action(a->kit.self, choice, ret->actions + e * width);
    }
    return b.rc;
}

/* ---- learning ---- */

/* The largest of n values whose choice is open (NULL: all are). */
static float best_open(const float *q, const float *open, int32_t n)
{
    int32_t best = -1;

    if (open == NULL)
        return q[choice_best(q, n)];
    for (int32_t i = 0; i < n; i++)
        if (open[i] != 0 && (best < 0 || q[i] > q[best]))
            best = i;
    return q[best < 0 ? 0 : best];
}

static void learn(struct algo *a, struct batch *b)
{
    const float *q, *open;
    float *next;

    batch_feed(b, a->observation, a->next_obs);
    batch_fetch(b, a->target_q, a->next_q);
    batch_run(b);
    q = batch_take(b, a->next_q);
    open = a->open != NULL ? batch_take(b, a->open) : NULL;
    next = batch_room(b, a->next);
    for (int64_t i = 0; i < b->n; i++)
        next[i] = best_open(q + i * a->n_choices,
                            open != NULL ? open + i * a->n_choices : NULL, a->n_choices);
    batch_targets(b, a->next);

    batch_weigh(b, WEIGH_ROWS);
    batch_feed(b, a->observation, a->obs);
    batch_feed(b, a->choice, a->choices);
    batch_feed(b, a->target, a->kit.target);
    batch_feed(b, a->weight, a->kit.weight);
    batch_feed_live(b, a->hysteresis);
    batch_scalar(b, "critic_loss", a->loss);
    batch_scalar(b, "q_mean", a->q_mean);
    batch_fetch(b, a->td, a->error);
    batch_step(b, 0, 1);
    batch_report_errors(b, a->error);
    batch_show(b, "epsilon", (double)a->epsilon->value);
}

static const struct update updates[] = {
    {"learn", {NULL}, learn, 0, 1, .scales_rewards = 1, .after = kit_move_targets}};
static const struct kit_plan plan = {NULL, 0, updates, 1};

/* ---- the graph ---- */

static struct output network(struct algo *a, const char *scope)
{
    struct graph *g = a->kit.graph;
    const struct network_config *net = &a->kit.config->critic;
    struct output q;

    variable_scope_enter(g, scope, NULL, REUSE_AUTO);
    q = see_pictures(g, a->observation, net, &a->pictures);
    q = mlp(g, q, net, a->n_choices);
    variable_scope_leave(g);
    return q;
}

static void make_placeholders(struct algo *a)
{
    struct kit *k = &a->kit;

    a->observation = kit_placeholder(k, k->self->obs, "observation");
    if (!kit_learns(k))
        return;
    a->choice = kit_placeholder(k, a->n_choices, "choice");
    a->target = kit_placeholder(k, 1, "target");
    a->weight = kit_placeholder(k, 1, "is_weight");
}

static void make_lives(struct algo *a)
{
    struct kit *k = &a->kit;
    const struct agent_config *c = k->config;
    const struct algorithm_settings *set = k->settings;
    struct graph *g = k->graph;

    if (kit_makes_steps(k))
        kit_add_clip_norm(k);
    if (!kit_learns(k))
        return;
    kit_add_polyak(k);
    a->hysteresis = kit_add_live(
        k, live_fed(g, "settings.hysteresis", set->hysteresis, 0, "hysteresis"));
    k->discount = kit_add_live(k, live_new(g, "discount", c->discount));
    a->epsilon = kit_add_live(k, live_schedule(g, "settings.epsilon", &set->epsilon));
}

/* The good and the bad surprises, squared. */
static void make_loss(struct algo *a)
{
    struct graph *g = a->kit.graph;
    static const int32_t columns = 1;
    struct output q =
        reduce(g, "Sum", mul(g, a->q, a->choice), &columns, 1, 1, "q_chosen");
    struct output good, bad;

    a->td = binary(g, "Sub", a->target, q, "td_error");
    good = square(g, unary(g, "Relu", a->td, NULL));
    bad = square(g, unary(g, "Relu", negative(g, a->td), NULL));
    bad = mul(g, bad, a->hysteresis->constant);
    a->loss = mean_of(g, mul(g, a->weight, add(g, good, bad)), "loss");
    a->q_mean = mean_of(g, q, "q_mean");
}

static void make_step(struct algo *a)
{
    struct kit *k = &a->kit;
    struct step step = kit_critic_step(k, "q_func", a->rate, a->loss);
    struct output constant;

    step.rate_name = "learning_rate";
    (void)kit_add_step(k, step);
    kit_share_steps(k);
    if (!kit_makes_steps(k))
        return;
    constant = a->rate->constant;
    *a->rate = live_critic_rate(k->graph, k->config);
    live_bind(k->graph, a->rate, constant);
}

static void make_target(struct algo *a)
{
    static const struct following target = {"target_q_func", "q_func"};
    struct kit *k = &a->kit;
    struct graph *g = k->graph;

    a->target_q = named(g, network(a, "target_q_func"), "target_q");
    kit_follow(k, &target, 1, kit_keep(k), "update_target", "init_target");
}

static int build_graph(struct algo *a, struct err *err)
{
    struct kit *k = &a->kit;

    variable_scope_enter(k->graph, k->self->name, NULL, REUSE_INHERIT);
    make_placeholders(a);
    make_lives(a);
    kit_scale_rewards(k);
    a->q = named(k->graph, network(a, "q_func"), "q");
    name_policy(k->graph, a->observation, a->q, POLICY_SCORES_COMBINATIONS);
    if (kit_learns(k))
        make_loss(a);
    make_step(a);
    if (kit_learns(k))
        make_target(a);
    variable_scope_leave(k->graph);
    return kit_finish(k, err);
}

/* ---- the algorithm ---- */

static void iql_free(struct algo *a)
{
    if (a == NULL)
        return;
    kit_done(&a->kit);
    free(a->allowed);
    free(a);
}

static int check(const struct space *self, const struct agent_config *c, struct err *err)
{
    const struct optimizer_config *o = network_optimizer(c, &c->critic);

    if (self->box || choices_count(self, CHOICES_MAX) == 0)
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "algorithm"),
                          "iql needs a discrete action space, of at most %d "
                          "choices",
                          CHOICES_MAX);
    if (o->type == OPT_ACCEPT_REJECT)
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "optimizer.type"),
                          "iql learns by gradients");
    return 0;
}

static void make_matrices(struct algo *a)
{
    struct matrices *all = &a->kit.matrices;
    struct matrix *action = matrix_new(all, 0);

    a->obs = matrix_new(all, 0);
    a->next_obs = matrix_new(all, 0);
    matrix_share_memory(a->next_obs, a->obs);
    (void)matrix_add_obs(a->obs, NOW, a->kit.index);
    (void)matrix_add_obs(a->next_obs, NEXT, a->kit.index);
    (void)matrix_add_action(action, a->kit.index);
    a->choices = matrix_of_choices(all, action, a->n_choices);
    if (a->kit.self->masked)
        a->open = matrix_of_masks(all, NEXT, a->n_choices);
    a->next_q = matrix_new(all, a->n_choices);
    a->next = matrix_new(all, 1);
    a->error = matrix_new(all, 1);
    a->values = matrix_new(all, a->n_choices);
    a->draw = matrix_new(all, 1);
}

static int build(struct algo **ret, const struct algo_args *args, struct err *err)
{
    const struct agent_config *c = args->config;
    struct algo *a;
    int rc = check(&args->agents[args->self], c, err);

    if (rc < 0)
        return rc;
    a = xcalloc(1, sizeof(*a));
    kit_init(&a->kit, args, &plan, 0);
    a->rate = kit_add_live(&a->kit, (struct live){0});
    a->n_choices = choices_count(a->kit.self, CHOICES_MAX);
    a->allowed = xcalloc((size_t)a->n_choices, 1);
    make_matrices(a);
    rc = pictures_of(&c->critic, "critic.conv", a->kit.self, NULL, 1, &a->pictures, err);
    if (rc == 0)
        rc = build_graph(a, err);
    if (rc == 0)
        *ret = a;
    else
        iql_free(a);
    return rc;
}

/* ---- description ---- */

static const char *const settings[] = {EPISODE_SETTINGS, "hysteresis", "own_batches",
                                       NULL};

static const struct algorithm_scalar scalars[] = {
    SCALARS_OF_Q_NETWORK(SCALAR_BY_AGENT),
    SCALAR("target_q_std", "deviation of the targets; not of whole episodes", "reward"),
    {NULL},
};

/* What needs more than single rows (q_learner.c). */
static const struct algorithm_bound episodes_if[] = {
    {"lambda", 0},    {"n_step", 1},      {"target_every", 0},
    {"recurrent", 0}, {"last_action", 0}, {"agent_id", 0},
    {NULL},
};

static const struct algo_about about = {
    .info = {.summary = "each agent alone: a deep Q-network of its own observation",
             .use = "discrete actions, and tasks where agents can learn as if they were "
                    "alone; with `hysteresis`, games that punish miscoordination",
             .stages = "learn(all, writes)",
             .source =
                 "Tampuu et al. 2017, Multiagent cooperation and competition with deep "
                 "reinforcement learning; Matignon et al. 2007, Hysteretic Q-learning",
             .episodes_if = episodes_if,
             .scalars = scalars,
             .own_critic = 1,
             .shares = 1},
    .settings = settings};

const struct algo_ops iql_ops = {KIT_OPS("iql", about, 0, build, iql_free, act)};
