/* qmix.c - a network of the joint state mixes the values of a team's agents.
 *
 * Source   Rashid et al. 2018, "QMIX: monotonic value function factorisation for deep multi-agent
 *          reinforcement learning".
 *
 * Networks q_network.h, mixer.h; targets: targets.h.
 *
 * Where several teams learn together, each has a mixer of its own, which knows nothing of the
 * others; their settings are those of the first team's first agent. Of one team the variables are
 * central/mixer/...; of several, central/<team>/mixer/....
 */
#include "agent/algo/mixer.h"
#include "agent/algo/q_network.h"
#include "agent/algo/rows.h"
#include "agent/algo/scalars.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

static const char *const method[] = {
    "Q_i, Q'_i network and target network of agent i, 0 where it is not alive; mix,",
    "mix' the mixing network of its team and its target; s, s' the joint state now and",
    "next; rows are whole episodes, w the importance of one, 0 where no member is alive",
    "values   Q_i(o_i, u_i), and next Q'_i(o'_i, u'_i), u'_i the best possible choice of",
    "         Q'_i, or with double_q of Q_i",
    "mix      q = mix(Q_1(o_1, u_1), ..; s), next = mix'(Q'_1(o'_1, u'_1), ..; s')",
    "         y = reward + discount (1 - terminated) next, or n_step or lambda rewards",
    "         mix: one step down the mean of w (y - q)^2; gives out the slopes d/dQ_i,",
    "             from before the step",
    "learn    Q_i: one step down its slope",
    "Q'_i, mix': t = (1 - polyak) t + polyak v, or t = v each target_every-th update",
    NULL,
};

struct algo {
    struct q_network q;
    size_t teams, team;    /* that learn together, and which is the agent's */
    struct matrix *slope;  /* (n) of the central process's answer */
    struct matrix *answer; /* (B) */

    /* Of the central process. */
    struct mixer *mixers;  /* [teams] */
    struct matrix *slopes; /* (n_agents, n), row-major; 0 of agents that are in no team */
    struct matrix *priorities; /* (teams, B) */
    double *measured;          /* [teams] */
};

/* ---- the agents' stages ---- */

static void learn(struct algo *a, struct batch *b)
{
    const double *measured = batch_input(b, "central", "measured", DT_DOUBLE,
                                         (int64_t)a->teams * EPISODES_MEASURED);

    if (measured != NULL)
        episodes_report(b, measured + a->team * EPISODES_MEASURED);
    batch_in_time(b);
    q_network_descend(&a->q, b, batch_take(b, a->slope));
    /* the episodes' priorities, if the request has weights */
    const int64_t n = b->args->batch;
    const float *x =
        batch_input(b, "central", "priorities", DT_FLOAT, (int64_t)a->teams * n);
    float *to = batch_room(b, a->answer);
    if (b->rc < 0 || b->weights == NULL)
        return;
    memcpy(to, x + (int64_t)a->team * n, (size_t)n * sizeof(*to));
    b->ret->priorities = tensor_view(DT_FLOAT, SHAPE(1, n), to);
}

/* ---- the central process's stage ---- */

static void mix_team(struct algo *a, struct batch *b, size_t team, float *slopes,
                     float *priorities, double *norms)
{
    struct mixer *m = &a->mixers[team];
    double norm = 0;
    const float *slope =
        mixer_learn(m, b, a->q.lambda->value, priorities + (int64_t)team * b->sequences,
                    a->measured + team * EPISODES_MEASURED, &norm);

    for (size_t k = 0; slope != NULL && k < m->team.n; k++)
        for (int64_t i = 0; i < b->n; i++)
            slopes[(int64_t)m->team.member[k] * b->n + i] =
                slope[(size_t)i * m->team.n + k];
    *norms += norm;
}

static void mix(struct algo *a, struct batch *b)
{
    const int64_t batch = b->args->batch, length = b->args->length;
    const int64_t agents = (int64_t)a->q.kit.n_agents, teams = (int64_t)a->teams;
    float *slopes = batch_room(b, a->slopes), *priorities = batch_room(b, a->priorities);
    double norms = 0;

    if (b->rc == 0)
        memset(slopes, 0, (size_t)(agents * b->n) * sizeof(*slopes));
    for (size_t k = 0; b->rc == 0 && k < a->teams; k++)
        mix_team(a, b, k, slopes, priorities, &norms);
    batch_move_targets(b);
    /* means over the teams */
    double mean[EPISODES_MEASURED] = {0};
    for (size_t i = 0; i < a->teams * EPISODES_MEASURED; i++)
        mean[i % EPISODES_MEASURED] += a->measured[i] / (double)a->teams;
    episodes_report(b, mean);
    batch_show(b, "mixer_grad_norm", norms / (double)a->teams);
    if (b->rc < 0)
        return;
    stage_output(b->ret, "dq",
                 tensor_view(DT_FLOAT, SHAPE(agents, batch, length), slopes));
    stage_output(b->ret, "priorities",
                 tensor_view(DT_FLOAT, SHAPE(teams, batch), priorities));
    stage_output(b->ret, "measured",
                 tensor_view(DT_DOUBLE, SHAPE(teams * EPISODES_MEASURED), a->measured));
}

static const struct stage_of stages[] = {{"values", q_network_values},
                                         {"mix", mix, .runner = STAGE_CENTRAL,
                                          .writes = 1,
                                          .reads = {"values/q", "values/next"}}};
static const struct update updates[] = {{"learn",
                                         {"mix/dq", "mix/priorities", "mix/measured"},
                                         learn,
                                         0,
                                         1,
                                         .after = kit_move_targets}};
static const struct kit_plan plan = {stages,        2, updates, 1, ROWS_EPISODES,
                                     .one_batch = 1};

/* ---- the algorithm ---- */

static void qmix_done(struct algo *a)
{
    for (size_t k = 0; a->mixers != NULL && k < a->teams; k++)
        mixer_done(&a->mixers[k]);
    free(a->mixers);
    free(a->measured);
    q_network_done(&a->q);
}

static int build_central(struct algo *a, struct err *err)
{
    struct kit *k = &a->q.kit;
    struct following *targets = xcalloc(a->teams, sizeof(*targets));
    size_t n = 0;

    a->mixers = xcalloc(a->teams, sizeof(*a->mixers));
    a->measured = xcalloc(a->teams * EPISODES_MEASURED, sizeof(*a->measured));
    a->slopes = matrix_new(&k->matrices, (int64_t)k->n_agents);
    a->priorities = matrix_new(&k->matrices, (int64_t)a->teams);
    variable_scope_enter(k->graph, k->scope, NULL, REUSE_INHERIT);
    q_network_add_lives(&a->q, 0);
    for (size_t i = 0; i < k->n_agents; i++) {
        struct mixer *m = &a->mixers[n];

        if (!team_begins(k->agents, i))
            continue;
        mixer_init(m, k, k->agents[i].team, a->teams == 1);
        mixer_build(m, a->q.rate);
        targets[n++] = (struct following){m->target_scope, m->scope};
    }
    kit_follow(k, targets, n, kit_keep(k), "update_targets", "init_targets");
    variable_scope_leave(k->graph);
    free(targets);
    return kit_finish(k, err);
}

static int build_agent(struct algo *a, const struct algo_args *args, struct err *err)
{
    struct kit *k = &a->q.kit;
    int rc = rows_check_symmetry(args->agents, args->n_agents, args->self, 1, err);

    a->slope = matrix_new(&k->matrices, 0);
    matrix_add_central(a->slope, "dq", k->index, k->n_agents);
    a->answer = matrix_new(&k->matrices, 1);
    if (rc == 0)
        rc = q_network_init(&a->q, args, err);
    if (rc < 0)
        return rc;
    variable_scope_enter(k->graph, k->scope, NULL, REUSE_INHERIT);
    q_network_add_lives(&a->q, 1);
    q_network_build(&a->q);
    q_network_build_descent(&a->q);
    variable_scope_leave(k->graph);
    return kit_finish(k, err);
}

static int qmix_build(struct algo *a, const struct algo_args *args, struct err *err)
{
    int rc;

    kit_init(&a->q.kit, args, &plan, 0);
    a->teams = teams_count(args->agents, args->n_agents,
                           args->central ? NULL : a->q.kit.self->team, &a->team);
    a->q.max_steps = args->max_steps;
    rc = q_network_check_optimizer(args->config, err);
    if (rc < 0)
        return rc;
    return args->central ? build_central(a, err) : build_agent(a, args, err);
}

/* ---- description ---- */

static const char *const settings[] = {EPISODE_SETTINGS, NULL};

static const struct algorithm_scalar scalars[] = {
    SCALARS_OF_Q_NETWORK(SCALAR_BY_AGENT | SCALAR_BY_CENTRAL),
    {"mixer_grad_norm", "norm of the mixer's gradients, before clipping", "",
     SCALAR_BY_CENTRAL},
    {NULL},
};

static const struct algo_about about = {
    .info = {.summary = "Q-networks whose values a network of the joint state mixes",
             .use = "cooperation with one reward, discrete actions, and a joint value "
                    "that is more than a sum",
             .stages = "values(all) > mix(central, writes) > learn(all, writes)",
             .source = "Rashid et al. 2018, QMIX: monotonic value function "
                       "factorisation for deep multi-agent reinforcement learning",
             .method = method,
             .defaults = team_defaults,
             .scalars = scalars,
             .own_critic = 1,
             .central = 1,
             .team_reward = 1,
             .rows = ROWS_EPISODES,
             .shares = 1},
    .settings = settings};

const struct algo_ops qmix_ops = {Q_NETWORK_OPS("qmix", about, qmix_build, qmix_done)};
