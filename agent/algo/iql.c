/* iql.c - independent Q-learning: each agent has its own deep Q-network.
 *
 * Source   Tampuu et al. 2017, "Multiagent cooperation and competition with deep
 *          reinforcement learning"; Mnih et al. 2015, "Human-level control through deep
 *          reinforcement learning". Hysteresis: Matignon, Laurent, Le Fort-Piat 2007,
 *          "Hysteretic Q-learning"; with networks: Omidshafiei et al. 2017, "Deep
 *          decentralized multi-task multi-agent reinforcement learning under partial
 *          observability".
 *
 * Rows     single ones; or those of whole episodes, if a setting needs more (episodes_if).
 *          u is a combination of the action's heads (choices.h).
 * Loss     in a team that shares its reward, a bad reward may be another agent's fault. With
 *          hysteresis below 1 it weighs less than a good one.
 */
#include "agent/algo/episodes.h"
#include "agent/algo/q_network.h"
#include "agent/algo/scalars.h"
#include "agent/graph/arithmetic.h"

static const char *const method[] = {
    "o, o' the own observation now and next, u the choice, Q the network, Q' its target,",
    "w the row's importance, 0 where the agent is not alive",
    "y = reward + discount (1 - terminated) max Q'(o', .), of what is possible there; of",
    "    episodes also Q'(o', argmax Q(o', .)) (double_q), and n_step or lambda rewards",
    "d = y - Q(o, u)",
    "Q:  one step down the mean of w (max(d, 0)^2 + hysteresis max(-d, 0)^2)",
    "Q': t = (1 - polyak) t + polyak v, or t = v after each target_every-th update",
    NULL,
};

struct algo {
    struct q_network q;
    struct episodes episodes;
    struct output target, weight; /* placeholders, (n, 1) */
    struct output taken;          /* (n, 1) Q(o, u) */
    struct output loss;
    struct live *hysteresis;
    struct matrix *values; /* (n) */
};

/* ---- learning ---- */

static void learn(struct algo *a, struct batch *b)
{
    const float *next = q_network_find_next(&a->q, b), *values;
    double measured[EPISODES_MEASURED];

    episodes_take(&a->episodes, b, a->q.kit.scale);
    episodes_find_targets(&a->episodes, b, next, a->q.lambda->value);

    q_network_feed(&a->q, b);
    episodes_feed(&a->episodes, b, a->target, a->weight);
    batch_feed_live(b, a->hysteresis);
    batch_fetch(b, a->taken, a->values);
    batch_step(b, 0, 1);

    values = batch_take(b, a->values);
    episodes_measure(&a->episodes, b, values, a->hysteresis->value, measured);
    episodes_report(b, measured);
    episodes_answer_priorities(&a->episodes, b, values);
    batch_show(b, "epsilon", (double)a->q.epsilon->value);
}

static const struct update updates[] = {
    {"learn", {NULL}, learn, 0, 1, .scales_rewards = 1, .after = kit_move_targets}};
static const struct kit_plan of_rows = {NULL, 0, updates, 1};
static const struct kit_plan of_episodes = {NULL, 0, updates, 1, ROWS_EPISODES};

/* ---- the graph ---- */

static void make_lives(struct algo *a)
{
    struct kit *k = &a->q.kit;
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
    a->q.epsilon = kit_add_live(k, live_schedule(g, "settings.epsilon", &set->epsilon));
    a->q.lambda =
        kit_add_live(k, a->q.of_episodes ? live_new(g, "settings.lambda", set->lambda)
                                         : (struct live){0});
}

/* The good and the bad surprises, squared. */
static void make_loss(struct algo *a)
{
    struct graph *g = a->q.kit.graph;
    struct output d, good, bad;

    a->target = kit_placeholder(&a->q.kit, 1, "target");
    a->weight = kit_placeholder(&a->q.kit, 1, "is_weight");
    a->taken = q_network_taken(&a->q);
    d = binary(g, "Sub", a->target, a->taken, "td_error");
    good = square(g, unary(g, "Relu", d, NULL));
    bad = square(g, unary(g, "Relu", negative(g, d), NULL));
    bad = mul(g, bad, a->hysteresis->constant);
    a->loss = mul(g, a->weight, add(g, good, bad));
    a->loss = a->q.of_episodes ? sum_of(g, a->loss, "loss") : mean_of(g, a->loss, "loss");
}

static int build_graph(struct algo *a, struct err *err)
{
    struct kit *k = &a->q.kit;

    variable_scope_enter(k->graph, k->scope, NULL, REUSE_INHERIT);
    make_lives(a);
    kit_scale_rewards(k);
    q_network_build(&a->q);
    if (kit_learns(k))
        make_loss(a);
    q_network_build_step(&a->q, a->loss);
    if (kit_makes_steps(k))
        kit_make_critic_rate(k, a->q.rate);
    if (kit_learns(k))
        q_network_build_target(&a->q);
    variable_scope_leave(k->graph);
    return kit_finish(k, err);
}

/* ---- the algorithm ---- */

static void iql_done(struct algo *a)
{
    q_network_done(&a->q);
}

static int iql_build(struct algo *a, const struct algo_args *args, struct err *err)
{
    const int whole = algorithm_rows(args->config) == ROWS_EPISODES;
    int rc;

    kit_init(&a->q.kit, args, whole ? &of_episodes : &of_rows, 0);
    a->q.rate = kit_add_live(&a->q.kit, (struct live){0});
    a->values = matrix_new(&a->q.kit.matrices, 1);
    episodes_init(&a->episodes, &a->q.kit, &a->q.kit.index, 1);
    rc = q_network_init(&a->q, args, err);
    return rc == 0 ? build_graph(a, err) : rc;
}

/* ---- description ---- */

static const char *const settings[] = {EPISODE_SETTINGS, "hysteresis", "own_batches",
                                       NULL};

static const struct algorithm_scalar scalars[] = {
    SCALARS_OF_Q_NETWORK(SCALAR_BY_AGENT),
    {NULL},
};

/* What needs more than single rows. */
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
             .method = method,
             .episodes_if = episodes_if,
             .scalars = scalars,
             .own_critic = 1,
             .shares = 1},
    .settings = settings};

const struct algo_ops iql_ops = {Q_NETWORK_OPS("iql", about, iql_build, iql_done)};
