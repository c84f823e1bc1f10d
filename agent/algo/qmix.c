/* The mixing network of qmix, in the central process (Rashid et al. 2018, with the sizes of
 * EPyMARL): s is what all of the team observe, side by side.
 *
 *     w1 = |s > 64 relu > N M|     b1 = s > M
 *     w2 = |s > 64 relu > M|       v  = s > M relu > 1
 *     q_mixed = elu(q w1 + b1) w2 + v                      M = 32
 *
 * It grows with every q, since the weights of q do not fall below 0. An agent that is not
 * there has q = 0. The stage mix learns from mean of w (y - q_mixed)^2 and returns the
 * gradient of that loss by each q, from before its own step, and the episodes'
 * priorities.
 *
 * Where several teams learn together, each has a mixer of its own, which knows nothing of the
 * others; the settings are one for all. Of one team the variables are central/mixer/...; of
 * several, central/<team>/mixer/.... */
#include "agent/algo/q_learner.h"

#include "agent/algo/parts.h"
#include "agent/algo/rows.h"
#include "agent/graph/ops.h"
#include "agent/nn/nn.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

enum { MIXED = 32, HYPER = 64 };

struct mixer {   /* of one team */
    char *scope; /* "central", "central/<team>" */
    struct q_team team;
    size_t *place; /* [N] of its members among all agents that learn together */
    struct q_rows rows;
    struct reward_scale scale;
    int64_t state;                        /* S, width of the joint state */
    struct output q, state_in, y, weight; /* (n, N), (n, S), (n, 1), (n, 1) */
    struct output mixed, target_mixed;    /* (n, 1) */
    struct output dq, norm, learning_rate;
    struct operation *train, *update_target, *copy_target;
    int64_t n; /* rows there is room for */
    void *memory;
    float *states, *next_states;                     /* (n, S) */
    float *values, *nexts;                           /* (n, N) */
    float *q_mixed, *next_mixed, *targets, *weights; /* (n) */
    float *slopes;                                   /* (n, N) */
};

struct mixers {       /* of all teams that learn together */
    struct mixer *of; /* [teams] */
    struct operation *copy_targets;
    int64_t n; /* rows there is room for */
    void *memory;
    float *answer;    /* (agents, n) */
    float *priority;  /* (teams, B), B at most n */
    double *measured; /* (teams, Q_REPORTED) */
};

/* ---- the network ---- */

static struct output layer(struct graph *g, struct output x, int64_t n,
                           enum activation activation, const char *scope)
{
    const struct initializer init = linear_initializer(output_shape(x).dim[1]);

    return fully_connected_from(g, x, n, activation, scope, &init, &init);
}

static struct output network(struct graph *g, const struct mixer *m, const char *scope)
{
    static const int32_t columns = 1;
    struct output w1, w2, hidden, value, sum;

    variable_scope_enter(g, scope, NULL, REUSE_INHERIT);
    w1 = layer(g, m->state_in, HYPER, ACTIVATION_RELU, "w1_hidden");
    w1 = unary(g, "Abs",
               layer(g, w1, (int64_t)m->team.n * MIXED, ACTIVATION_LINEAR, "w1"), NULL);
    sum = layer(g, m->state_in, MIXED, ACTIVATION_LINEAR, "b1");
    for (size_t i = 0; i < m->team.n; i++) {
        struct output w = slice_columns(g, w1, (int64_t)i * MIXED, MIXED, NULL);
        struct output q = slice_columns(g, m->q, (int64_t)i, 1, NULL);

        sum = binary(g, "Add", sum, binary(g, "Mul", w, q, "mul"), "add");
    }
    hidden = unary(g, "Elu", sum, NULL);
    w2 = layer(g, m->state_in, HYPER, ACTIVATION_RELU, "w2_hidden");
    w2 = unary(g, "Abs", layer(g, w2, MIXED, ACTIVATION_LINEAR, "w2"), NULL);
    value = layer(g, m->state_in, MIXED, ACTIVATION_RELU, "v_hidden");
    value = layer(g, value, 1, ACTIVATION_LINEAR, "v");
    hidden = reduce(g, "Sum", binary(g, "Mul", hidden, w2, "mul"), &columns, 1, 1, NULL);
    variable_scope_leave(g);
    return binary(g, "Add", hidden, value, "q_mixed");
}

/* m->weight: fed with weights that are already divided, so that their sum is a mean. */
static int make_training(struct algo *a, struct mixer *m, struct err *err)
{
    struct graph *g = a->graph;
    char *scope = xasprintf("%s/mixer/", m->scope);
    struct minimizer min = {.scope = scope,
                            .optimizer = network_optimizer(a->config, &a->config->critic),
                            .clip_norm = a->live[Q_CLIP_NORM].constant,
                            .clip_by = a->settings->clip_by};
    struct output error, loss;
    int r;

    m->y = placeholder(g, DT_FLOAT, &SHAPE(-1, 1), "target");
    m->weight = placeholder(g, DT_FLOAT, &SHAPE(-1, 1), "is_weight");
    error = unary(g, "Square", binary(g, "Sub", m->y, m->mixed, "td_error"), NULL);
    loss =
        reduce(g, "Sum", binary(g, "Mul", m->weight, error, "mul"), NULL, 0, 0, "loss");
    r = graph_gradients(g, &loss, 1, &m->q, 1, NULL, NULL, 0, &m->dq, err);
    if (r == 0)
        m->train = minimize_clipped(g, loss, &min, err);
    free(scope);
    if (r < 0)
        return r;
    m->norm = min.norm;
    m->learning_rate = min.learning_rate;
    live_bind(g, &a->live[Q_RATE], min.learning_rate);
    return m->train != NULL ? 0 : ERR_ARG;
}

static void make_target(struct algo *a, struct mixer *m)
{
    static const struct following target = {"target_mixer", "mixer"};
    struct graph *g = a->graph;
    const struct output polyak = a->live[Q_POLYAK].constant;
    struct output keep = binary(g, "Sub", constant_f32(g, 1.0f, NULL), polyak, "keep");

    m->target_mixed = network(g, m, "target_mixer");
    follow_variables(g, m->scope, &target, 1, keep, polyak, "update_target",
                     "init_target", &m->update_target, &m->copy_target);
}

/* Makes the mixer of a team, in the central process's scope. */
static int make_mixer(struct algo *a, struct mixer *m, const char *team, struct err *err)
{
    struct graph *g = a->graph;
    const int has_scope = a->mixed.teams > 1;
    int r;

    m->scope = xasprintf("central%s%s", has_scope ? "/" : "", has_scope ? team : "");
    q_team_init(&m->team, a->agents, a->n_agents, team);
    m->place = xcalloc(m->team.n, sizeof(*m->place));
    for (size_t i = 0; i < m->team.n; i++) {
        m->state += a->agents[m->team.member[i]].obs;
        m->place[i] = q_mixed_of(a->agents, a->n_agents, m->team.member[i]).agent;
    }
    if (has_scope)
        variable_scope_enter(g, team, NULL, REUSE_INHERIT);
    reward_scale_init(&m->scale, g, a->settings->reward_scale, a->agents, m->team.member,
                      m->team.n);
    m->state_in = placeholder(g, DT_FLOAT, &SHAPE(-1, m->state), "state");
    m->q = placeholder(g, DT_FLOAT, &SHAPE(-1, (int64_t)m->team.n), "q");
    m->mixed = network(g, m, "mixer");
    r = make_training(a, m, err);
    if (r == 0)
        make_target(a, m);
    if (has_scope)
        variable_scope_leave(g);
    return r;
}

int mixers_new(struct algo *a, struct err *err)
{
    const size_t n = a->mixed.teams;
    struct mixers *all = a->mixers = xcalloc(1, sizeof(*all));
    struct operation **copies = xcalloc(n, sizeof(struct operation *));
    struct graph *g = a->graph;
    size_t k = 0;
    int r = 0;

    all->of = xcalloc(n, sizeof(*all->of));
    all->measured = xcalloc(n * Q_REPORTED, sizeof(*all->measured));
    variable_scope_enter(g, "central", NULL, REUSE_INHERIT);
    q_make_lives(a);
    for (size_t i = 0; r == 0 && i < a->n_agents; i++) {
        if (q_mixed_of(a->agents, a->n_agents, i).team != k || a->agents[i].other)
            continue;
        r = make_mixer(a, &all->of[k], a->agents[i].team, err);
        copies[k] = all->of[k].copy_target;
        k++;
    }
    variable_scope_leave(g);
    all->copy_targets = n == 1 || r < 0 ? copies[0] : group(g, copies, n, "init_targets");
    free(copies);
    return finish_graph(g, r, &a->init_variables, err);
}

void mixers_free(struct algo *a)
{
    struct mixers *all = a->mixers;

    if (all == NULL)
        return;
    for (size_t k = 0; k < a->mixed.teams; k++) {
        struct mixer *m = &all->of[k];

        q_team_done(&m->team);
        q_rows_done(&m->rows);
        reward_scale_done(&m->scale);
        free(m->memory);
        free(m->place);
        free(m->scope);
    }
    free(all->memory);
    free(all->measured);
    free(all->of);
    free(all);
}

struct operation *mixers_copy_targets(const struct mixers *all)
{
    return all->copy_targets;
}

void mixers_reads(struct algo *a, struct reads *r)
{
    for (size_t i = 0; i < a->mixed.teams; i++) {
        struct mixer *m = &a->mixers->of[i];

        for (size_t k = 0; k < m->team.n; k++)
            q_member_reads(&m->team, k, a->agents, 1, r);
        reward_scale_reads(&m->scale, r);
    }
}

/* ---- the stage ---- */

static size_t lay_out(struct mixer *m, float *base, size_t n)
{
    size_t used = 0;

    m->states = rows_take(base, &used, n * (size_t)m->state);
    m->next_states = rows_take(base, &used, n * (size_t)m->state);
    m->values = rows_take(base, &used, n * m->team.n);
    m->nexts = rows_take(base, &used, n * m->team.n);
    m->slopes = rows_take(base, &used, n * m->team.n);
    m->q_mixed = rows_take(base, &used, n);
    m->next_mixed = rows_take(base, &used, n);
    m->targets = rows_take(base, &used, n);
    m->weights = rows_take(base, &used, n);
    return used;
}

static size_t lay_out_answers(struct algo *a, float *base, size_t n)
{
    struct mixers *all = a->mixers;
    size_t used = 0;

    all->answer = rows_take(base, &used, n * a->mixed.agents);
    all->priority = rows_take(base, &used, n * a->mixed.teams);
    return used;
}

static int reserve(struct algo *a, int64_t n, struct err *err)
{
    struct mixers *all = a->mixers;
    int r;

    if (n <= all->n)
        return 0;
    all->n = 0;
    r = rows_allocate(&all->memory, lay_out_answers(a, NULL, (size_t)n), n, err);
    if (r == 0)
        (void)lay_out_answers(a, all->memory, (size_t)n);
    for (size_t k = 0; r == 0 && k < a->mixed.teams; k++) {
        struct mixer *m = &all->of[k];

        r = rows_allocate(&m->memory, lay_out(m, NULL, (size_t)n), n, err);
        if (r == 0)
            (void)lay_out(m, m->memory, (size_t)n);
    }
    all->n = r == 0 ? n : 0;
    return r;
}

/* Shows an agent's observations (B, L) under the symmetry of each episode. */
static void turn_obs(const struct stage_args *args, size_t agent, float *x, int64_t width)
{
    for (int64_t t = 0; t < args->length; t++)
        symmetry_obs(args->symmetry, agent, (size_t)args->batch, x + t * width,
                     (size_t)(args->length * width));
}

static void gather_states(const struct algo *a, struct mixer *m,
                          const struct stage_args *args, size_t n)
{
    size_t column = 0;

    for (size_t k = 0; k < m->team.n; k++) {
        const size_t agent = m->team.member[k];

        store_view_gather(args->store, m->team.columns[k].obs, args->rows, n,
                          m->states + column, (size_t)m->state);
        store_view_gather(args->store, m->team.columns[k].next_obs, args->rows, n,
                          m->next_states + column, (size_t)m->state);
        turn_obs(args, agent, m->states + column, m->state);
        turn_obs(args, agent, m->next_states + column, m->state);
        column += (size_t)a->agents[agent].obs;
    }
}

/* Puts the outputs of that name of the team's members side by side: dst (n, N). */
static int put_beside(const struct algo *a, const struct mixer *m,
                      const struct stage_args *args, const char *name, int64_t n,
                      float *dst, struct err *err)
{
    const size_t width = m->team.n;
    const float *x;

    memset(dst, 0, (size_t)n * width * sizeof(float));
    for (size_t k = 0; k < width; k++) {
        const int r = q_team_output(&m->team, k, a->agents, args, name, &x, err);

        if (r < 0)
            return r;
        for (int64_t i = 0; x != NULL && i < n; i++)
            dst[(size_t)i * width + k] = x[i];
    }
    return 0;
}

/* Sets next_mixed: the target mixer's value after each row. */
static int run_target(struct algo *a, struct mixer *m, struct session *s, int64_t n,
                      struct err *err)
{
    struct tensor value = tensor_view(DT_FLOAT, SHAPE(n, 1), m->next_mixed);

    feeds_begin(&a->feeds);
    feeds_add(&a->feeds, m->q, m->nexts, n, (int64_t)m->team.n);
    feeds_add(&a->feeds, m->state_in, m->next_states, n, m->state);
    return feeds_fetch(&a->feeds, s, &m->target_mixed, &value, 1, err);
}

/* One step of the mixer. Sets slopes: the gradient by each q, from before the step. */
static int run_train(struct algo *a, struct mixer *m, struct session *s,
                     const struct stage_args *args, int64_t n, float *ret_norm,
                     struct err *err)
{
    const int64_t members = (int64_t)m->team.n;
    struct fetches fetched = {0};
    struct run_args run;

    feeds_begin(&a->feeds);
    feeds_add(&a->feeds, m->q, m->values, n, members);
    feeds_add(&a->feeds, m->state_in, m->states, n, m->state);
    feeds_add(&a->feeds, m->y, m->targets, n, 1);
    feeds_add(&a->feeds, m->weight, m->weights, n, 1);
    feeds_live(&a->feeds, &a->live[Q_CLIP_NORM]);
    feeds_push(&a->feeds, (struct feed){m->learning_rate,
                                        tensor_scalar_f32(&a->live[Q_RATE].value)});
    fetch_into(&fetched, m->dq, tensor_view(DT_FLOAT, SHAPE(n, members), m->slopes));
    fetch_into(&fetched, m->norm, tensor_scalar_f32(ret_norm));
    fetch_into(&fetched, m->mixed, tensor_view(DT_FLOAT, SHAPE(n, 1), m->q_mixed));
    run = collected_run(&a->feeds, &fetched, args, &m->train, 1);
    return session_run(s, &run, fetched.value, err);
}

/* Copies the slopes of the team's agents to their places among all agents. */
static void put_answers(struct algo *a, const struct mixer *m, int64_t n)
{
    for (size_t k = 0; k < m->team.n; k++) {
        float *to = a->mixers->answer + (int64_t)m->place[k] * n;

        for (int64_t i = 0; i < n; i++)
            to[i] = m->slopes[(size_t)i * m->team.n + k];
    }
}

/* One team's update. */
static int mix(struct algo *a, struct mixer *m, struct session *s,
               const struct stage_args *args, float *ret_norm, double *ret_measured,
               float *ret_priority, struct err *err)
{
    const int64_t n = args->batch * args->length;
    struct reward_scaling scale;
    float share;
    int r;

    if ((r = reward_scale_read(&m->scale, s, args, &scale, err)) < 0 ||
        (r = q_rows_gather(&m->rows, &m->team, m->team.n, args, args->rows, args->weights,
                           &scale, err)) < 0 ||
        (r = put_beside(a, m, args, "q", n, m->values, err)) < 0 ||
        (r = put_beside(a, m, args, "next", n, m->nexts, err)) < 0)
        return r;
    gather_states(a, m, args, (size_t)n);
    if ((r = run_target(a, m, s, n, err)) < 0)
        return r;
    q_targets(&m->rows, a->settings, m->next_mixed, a->live[Q_DISCOUNT].value,
              a->live[Q_LAMBDA].value, args->batch, args->length, m->targets);
    share = q_rows_share(&m->rows, n);
    for (int64_t i = 0; i < n; i++)
        m->weights[i] = share * m->rows.weight[i];
    if ((r = run_train(a, m, s, args, n, ret_norm, err)) < 0)
        return r;
    put_answers(a, m, n);
    q_measure(&m->rows, m->q_mixed, m->targets, 1, n, ret_measured);
    q_priorities(&m->rows, m->q_mixed, m->targets, args->batch, args->length,
                 ret_priority);
    return q_move_target(a, s, m->update_target, m->copy_target, args->update, err);
}

/* Reports means over the teams. */
static void report(const struct mixers *all, size_t teams, double norms,
                   struct stage_result *ret)
{
    double mean[Q_REPORTED] = {0};

    for (size_t i = 0; i < teams * Q_REPORTED; i++)
        mean[i % Q_REPORTED] += all->measured[i] / (double)teams;
    q_report(mean, ret);
    stage_scalar(ret, "mixer_grad_norm", norms / (double)teams);
}

int mixers_stage(struct algo *a, struct session *s, const struct stage_args *args,
                 struct stage_result *ret, struct err *err)
{
    const int64_t teams = (int64_t)a->mixed.teams, agents = (int64_t)a->mixed.agents;
    struct mixers *all = a->mixers;
    double norms = 0;
    int r;

    if ((r = reserve(a, args->batch * args->length, err)) < 0 ||
        (r = symmetry_draw(args->symmetry, args->update, 0, (size_t)args->batch, err)) <
            0)
        return r;
    for (int64_t k = 0; k < teams; k++) {
        float norm = 0;

        r = mix(a, &all->of[k], s, args, &norm, all->measured + k * Q_REPORTED,
                all->priority + k * args->batch, err);
        if (r < 0)
            return r;
        norms += (double)norm;
    }
    report(all, (size_t)teams, norms, ret);
    stage_output(
        ret, "dq",
        tensor_view(DT_FLOAT, SHAPE(agents, args->batch, args->length), all->answer));
    stage_output(ret, "priorities",
                 tensor_view(DT_FLOAT, SHAPE(teams, args->batch), all->priority));
    stage_output(ret, "measured",
                 tensor_view(DT_DOUBLE, SHAPE(teams * Q_REPORTED), all->measured));
    return 0;
}
