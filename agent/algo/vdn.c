/* vdn.c - value decomposition: the value of what a team does is the sum of its agents' values.
 *
 * Source   Sunehag et al. 2018, "Value-decomposition networks for cooperative multi-agent
 *          learning".
 *
 * Networks q_network.h; targets: targets.h. The team has N agents.
 */
#include "agent/algo/episodes.h"
#include "agent/algo/q_network.h"
#include "agent/algo/scalars.h"
#include "agent/algo/team.h"

static const char *const method[] = {
    "Q_i, Q'_i network and target network of agent i, 0 where it is not alive; rows",
    "are whole episodes, w the importance of one, 0 where no member is alive",
    "values   Q_i(o_i, u_i), and next Q'_i(o'_i, u'_i), u'_i the best possible choice of",
    "         Q'_i, or with double_q of Q_i",
    "learn    q = sum of Q_i(o_i, u_i), next = sum of Q'_i(o'_i, u'_i), over the team",
    "         y = reward + discount (1 - terminated) next, or n_step or lambda rewards",
    "         Q_i: one step down the mean of w (y - q)^2, by the slope d/dQ_i",
    "         Q'_i: t = (1 - polyak) t + polyak v, or t = v each target_every-th update",
    NULL,
};

struct algo {
    struct q_network q;
    struct team team;
    struct episodes episodes;
    struct matrix *values, *nexts;       /* (n, N) of the members */
    struct matrix *value, *next, *slope; /* (n) */
};

/* ---- stages ---- */

static const float *sum_of_members(struct batch *b, struct matrix *of, struct matrix *sum)
{
    const int64_t members = matrix_width(of);
    const float *x = batch_take(b, of);
    float *ret = batch_room(b, sum);

    for (int64_t i = 0; i < b->n; i++) {
        ret[i] = 0;
        for (int64_t k = 0; k < members; k++)
            ret[i] += x[i * members + k];
    }
    return ret;
}

static void learn(struct algo *a, struct batch *b)
{
    struct episodes *e = &a->episodes;
    const float *q, *next;
    double measured[EPISODES_MEASURED];
    float *slope;

    batch_in_time(b);
    q = sum_of_members(b, a->values, a->value);
    next = sum_of_members(b, a->nexts, a->next);
    episodes_take(e, b, a->q.kit.scale);
    episodes_find_targets(e, b, next, a->q.lambda->value);

    slope = batch_room(b, a->slope);
    for (int64_t i = 0; i < b->n; i++)
        slope[i] = -2 * e->share * e->weight[i] * (e->target[i] - q[i]);
    episodes_measure(e, b, q, 1, measured);
    episodes_report(b, measured);
    q_network_descend(&a->q, b, slope);
    episodes_answer_priorities(e, b, q);
}

static const struct stage_of stages[] = {{"values", q_network_values}};
static const struct update updates[] = {{"learn",
                                         {"values/q", "values/next"},
                                         learn,
                                         0,
                                         1,
                                         .scales_rewards = 1,
                                         .after = kit_move_targets}};
static const struct kit_plan plan = {stages,        1, updates, 1, ROWS_EPISODES,
                                     .one_batch = 1};

/* ---- the algorithm ---- */

static void vdn_done(struct algo *a)
{
    q_network_done(&a->q);
    team_done(&a->team);
}

static int build_graph(struct algo *a, struct err *err)
{
    struct kit *k = &a->q.kit;

    variable_scope_enter(k->graph, k->scope, NULL, REUSE_INHERIT);
    q_network_add_lives(&a->q, 1);
    if (kit_learns(k))
        k->scale = kit_add_scale(k, a->team.member, a->team.n);
    q_network_build(&a->q);
    q_network_build_descent(&a->q);
    variable_scope_leave(k->graph);
    return kit_finish(k, err);
}

static int vdn_build(struct algo *a, const struct algo_args *args, struct err *err)
{
    struct matrices *all = &a->q.kit.matrices;
    int rc;

    kit_init(&a->q.kit, args, &plan, 0);
    team_init(&a->team, args->agents, args->n_agents, a->q.kit.self->team);
    episodes_init(&a->episodes, &a->q.kit, a->team.member, a->team.n);
    a->values = team_outputs(&a->team, all, "q");
    a->nexts = team_outputs(&a->team, all, "next");
    a->value = matrix_new(all, 1);
    a->next = matrix_new(all, 1);
    a->slope = matrix_new(all, 1);
    rc = q_network_init(&a->q, args, err);
    return rc == 0 ? build_graph(a, err) : rc;
}

/* ---- description ---- */

static const char *const settings[] = {EPISODE_SETTINGS, NULL};

static const struct algorithm_scalar scalars[] = {
    SCALARS_OF_Q_NETWORK(SCALAR_BY_AGENT),
    {NULL},
};

static const struct algo_about about = {
    .info = {.summary = "Q-networks whose sum is the value of what the team does",
             .use = "cooperation with one reward and discrete actions",
             .stages = "values(all) > learn(all, writes)",
             .source = "Sunehag et al. 2018, Value-decomposition networks for "
                       "cooperative multi-agent learning",
             .method = method,
             .defaults = team_defaults,
             .scalars = scalars,
             .own_critic = 1,
             .team_reward = 1,
             .rows = ROWS_EPISODES,
             .shares = 1},
    .settings = settings};

const struct algo_ops vdn_ops = {Q_NETWORK_OPS("vdn", about, vdn_build, vdn_done)};
