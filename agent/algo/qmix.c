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
#include "agent/algo/scalars.h"
#include "agent/graph/ops.h"
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
    size_t agents, teams;            /* that learn together */
    size_t agent, team;              /* the agent's place among them, and its team's */
    struct matrix *slope, *priority; /* (n), (B) */

    /* Of the central process. */
    struct mixer *mixers;      /* [teams] */
    size_t *place;             /* [n_agents] of each among those that learn */
    struct matrix *slopes;     /* (agents, n), row-major */
    struct matrix *priorities; /* (teams, B) */
    double *measured;          /* [teams] */
};

/* ---- the agents' stages ---- */

/* The central process's part of that name for the k-th of `parts`; NULL: the batch has failed. */
static const void *part_of_central(struct batch *b, const char *name, enum dtype dtype,
                                   size_t parts, size_t k, int64_t elements)
{
    const struct tensor *t = b->args->input(b->args->input_ctx, "central", name);
    const int64_t all = (int64_t)parts * elements;

    if (b->rc < 0)
        return NULL;
    if (t == NULL || t->dtype != dtype || tensor_elements(t) != all) {
        batch_fail(b, err_set(b->err, ERR_PROTOCOL, "input central/%s: %lld %s expected",
                              name, (long long)all, dtype_name(dtype)));
        return NULL;
    }
    return (const char *)t->data + k * (size_t)elements * dtype_size(dtype);
}

/* The slopes of the rows, in the order of time. */
static const float *take_slopes(struct algo *a, struct batch *b)
{
    const float *x = part_of_central(b, "dq", DT_FLOAT, a->agents, a->agent,
                                     b->args->batch * b->args->length);
    float *slope;

    batch_in_time(b);
    slope = batch_room(b, a->slope);
    for (int64_t i = 0; i < b->n; i++)
        slope[i] = b->place[i] == ROW_NOT_REQUESTED ? 0 : x[b->place[i]];
    return slope;
}

/* The episodes' priorities, if the request has weights. */
static void answer_priorities(struct algo *a, struct batch *b)
{
    const int64_t n = b->args->batch;
    const float *x = part_of_central(b, "priorities", DT_FLOAT, a->teams, a->team, n);
    float *to = batch_room(b, a->priority);

    if (b->rc < 0 || b->weights == NULL)
        return;
    memcpy(to, x, (size_t)n * sizeof(*to));
    b->ret->priorities = tensor_view(DT_FLOAT, SHAPE(1, n), to);
}

static void learn(struct algo *a, struct batch *b)
{
    const float *slope = take_slopes(a, b);
    const double *measured =
        part_of_central(b, "measured", DT_DOUBLE, a->teams, a->team, EPISODES_MEASURED);

    if (measured != NULL)
        episodes_report(b, measured);
    q_network_descend(&a->q, b, slope);
    answer_priorities(a, b);
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
            slopes[(int64_t)a->place[m->team.member[k]] * b->n + i] =
                slope[(size_t)i * m->team.n + k];
    *norms += norm;
}

/* Means over the teams. */
static void report(struct algo *a, struct batch *b, double norms)
{
    double mean[EPISODES_MEASURED] = {0};

    for (size_t i = 0; i < a->teams * EPISODES_MEASURED; i++)
        mean[i % EPISODES_MEASURED] += a->measured[i] / (double)a->teams;
    episodes_report(b, mean);
    batch_show(b, "mixer_grad_norm", norms / (double)a->teams);
}

static void mix(struct algo *a, struct batch *b)
{
    const int64_t batch = b->args->batch, length = b->args->length;
    const int64_t agents = (int64_t)a->agents, teams = (int64_t)a->teams;
    float *slopes = batch_room(b, a->slopes), *priorities = batch_room(b, a->priorities);
    double norms = 0;

    for (size_t k = 0; b->rc == 0 && k < a->teams; k++)
        mix_team(a, b, k, slopes, priorities, &norms);
    batch_move_targets(b);
    report(a, b, norms);
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
    free(a->place);
    free(a->measured);
    q_network_done(&a->q);
}

/* The places of an agent, or of the central process, among what learns together. */
static void count(struct algo *a)
{
    const struct kit *k = &a->q.kit;

    a->place = xcalloc(k->n_agents, sizeof(*a->place));
    for (size_t i = 0; i < k->n_agents; i++) {
        const int begins = team_begins(k->agents, i);

        if (k->self != NULL && begins && strcmp(k->agents[i].team, k->self->team) == 0)
            a->team = a->teams;
        a->place[i] = a->agents;
        a->agents += !k->agents[i].other;
        a->teams += (size_t)begins;
    }
    if (k->index < k->n_agents)
        a->agent = a->place[k->index];
}

/* The operations of all teams as the kit's own. */
static void join_teams(struct kit *k, struct operation **moves, struct operation **copies,
                       size_t n)
{
    if (n > 1) {
        k->update_targets = group(k->graph, moves, n, "update_targets");
        k->init_targets = group(k->graph, copies, n, "init_targets");
    }
}

static int build_central(struct algo *a, struct err *err)
{
    struct kit *k = &a->q.kit;
    struct operation **moves = xcalloc(a->teams, sizeof(struct operation *));
    struct operation **copies = xcalloc(a->teams, sizeof(struct operation *));
    size_t n = 0;

    a->mixers = xcalloc(a->teams, sizeof(*a->mixers));
    a->measured = xcalloc(a->teams * EPISODES_MEASURED, sizeof(*a->measured));
    a->slopes = matrix_new(&k->matrices, (int64_t)a->agents);
    a->priorities = matrix_new(&k->matrices, (int64_t)a->teams);
    variable_scope_enter(k->graph, k->scope, NULL, REUSE_INHERIT);
    q_network_add_lives(&a->q, 0);
    for (size_t i = 0; i < k->n_agents; i++) {
        if (!team_begins(k->agents, i))
            continue;
        mixer_init(&a->mixers[n], k, k->agents[i].team, a->teams == 1);
        mixer_build(&a->mixers[n], a->q.rate);
        moves[n] = k->update_targets;
        copies[n++] = k->init_targets;
    }
    variable_scope_leave(k->graph);
    join_teams(k, moves, copies, n);
    free(moves);
    free(copies);
    return kit_finish(k, err);
}

/* The mixer sees all of the team under the symmetry of its first agent. */
static int check_symmetry(const struct kit *k, struct err *err)
{
    const struct space *first = k->agents;

    while (first->other || strcmp(first->team, k->self->team) != 0)
        first++;
    if (k->self->symmetric == first->symmetric)
        return 0;
    return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "settings.symmetry"),
                      "the mixer sees all of the team under one symmetry; expected what "
                      "%s has",
                      first->name);
}

static int build_agent(struct algo *a, const struct algo_args *args, struct err *err)
{
    struct kit *k = &a->q.kit;
    int rc = check_symmetry(k, err);

    a->slope = matrix_new(&k->matrices, 1);
    a->priority = matrix_new(&k->matrices, 1);
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

static int build(struct algo *a, const struct algo_args *args, struct err *err)
{
    int rc;

    kit_init(&a->q.kit, args, &plan, 0);
    count(a);
    a->q.max_steps = args->max_steps;
    rc = q_network_check_optimizer(args->config, err);
    if (rc < 0)
        return rc;
    return args->central ? build_central(a, err) : build_agent(a, args, err);
}

/* ---- the interface ---- */

static void qmix_reads(struct algo *a, struct reads *r)
{
    kit_reads(a, r);
    for (size_t k = 0; a->mixers != NULL && k < a->teams; k++)
        reward_scale_reads(&a->mixers[k].scale, r);
}

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

const struct algo_ops qmix_ops = {.name = "qmix",
                                  .about = &about,
                                  .size = sizeof(struct algo),
                                  .build = build,
                                  .done = qmix_done,
                                  .stages = kit_stages,
                                  .carry_width = q_network_carry,
                                  .rows = q_network_rows,
                                  .reads = qmix_reads,
                                  .lives = kit_lives,
                                  .init = kit_init_values,
                                  .act = q_network_act,
                                  .stage = kit_stage};
