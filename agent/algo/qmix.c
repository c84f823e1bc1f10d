/* The mixing network of qmix, in the central process (Rashid et al. 2018, with the sizes of
 * EPyMARL): s is what all of the team observe, side by side.
 *
 *     w1 = |s > 64 relu > N M|     b1 = s > M
 *     w2 = |s > 64 relu > M|       v  = s > M relu > 1
 *     q_mixed = elu(q w1 + b1) w2 + v                      M = 32
 *
 * It grows with every q, since the weights of q do not fall below 0. An agent that is not
 * there has q = 0. The stage mix learns from mean of w (y - q_mixed)^2 and gives back that
 * loss's gradient by each q, as of before its own step, and the episodes' priorities. */
#include "agent/algo/q_learner.h"

#include "agent/algo/parts.h"
#include "agent/algo/rows.h"
#include "agent/graph/ops.h"
#include "agent/nn/nn.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

enum { MIXED = 32, HYPER = 64 };

struct mixer {
    int64_t state;                        /* S, width of the joint state */
    struct output q, state_in, y, weight; /* (n, N), (n, S), (n, 1), (n, 1) */
    struct output mixed, target_mixed;    /* (n, 1) */
    struct output dq, norm;
    struct operation *train, *update_target, *copy_target;
    int64_t n; /* rows there is room for */
    void *memory;
    float *states, *next_states;                     /* (n, S) */
    float *values, *nexts;                           /* (n, N) */
    float *q_mixed, *next_mixed, *targets, *weights; /* (n) */
    float *slopes;                                   /* (n, N) */
    float *answer;                                   /* (N, n) */
    float *priority;                                 /* (B), n at most */
    double measured[Q_REPORTED];
};

/* ---- the network ---- */

static struct output layer(struct graph *g, struct output x, int64_t n,
                           enum activation activation, const char *scope)
{
    const struct initializer init = linear_initializer(output_shape(x).dim[1]);

    return fully_connected_from(g, x, n, activation, scope, &init, &init);
}

static struct output network(struct algo *a, const char *scope)
{
    static const int32_t columns = 1;
    struct graph *g = a->graph;
    const struct mixer *m = a->mixer;
    struct output w1, w2, hidden, value, sum;

    variable_scope_enter(g, scope, NULL, REUSE_INHERIT);
    w1 = layer(g, m->state_in, HYPER, ACTIVATION_RELU, "w1_hidden");
    w1 = unary(g, "Abs",
               layer(g, w1, (int64_t)a->team.n * MIXED, ACTIVATION_LINEAR, "w1"), NULL);
    sum = layer(g, m->state_in, MIXED, ACTIVATION_LINEAR, "b1");
    for (size_t i = 0; i < a->team.n; i++) {
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

/* weight: of the loss's mean, its division done. */
static int make_training(struct algo *a, struct err *err)
{
    struct graph *g = a->graph;
    struct mixer *m = a->mixer;
    struct minimizer min = {.scope = "central/mixer/",
                            .optimizer = network_optimizer(a->config, &a->config->critic),
                            .clip_norm = a->live[Q_CLIP_NORM].constant,
                            .clip_by = a->config->settings.clip_by};
    struct output error, loss;
    int r;

    m->y = placeholder(g, DT_FLOAT, &SHAPE(-1, 1), "target");
    m->weight = placeholder(g, DT_FLOAT, &SHAPE(-1, 1), "is_weight");
    error = unary(g, "Square", binary(g, "Sub", m->y, m->mixed, "td_error"), NULL);
    loss =
        reduce(g, "Sum", binary(g, "Mul", m->weight, error, "mul"), NULL, 0, 0, "loss");
    r = graph_gradients(g, &loss, 1, &m->q, 1, NULL, NULL, 0, &m->dq, err);
    if (r < 0)
        return r;
    m->train = minimize_clipped(g, loss, &min, err);
    m->norm = min.norm;
    live_bind(g, &a->live[Q_RATE], min.learning_rate);
    return m->train != NULL ? 0 : ERR_ARG;
}

static void make_target(struct algo *a)
{
    static const struct following target = {"target_mixer", "mixer"};
    struct graph *g = a->graph;
    const struct output polyak = a->live[Q_POLYAK].constant;
    struct output keep = binary(g, "Sub", constant_f32(g, 1.0f, NULL), polyak, "keep");

    a->mixer->target_mixed = network(a, "target_mixer");
    follow_variables(g, "central", &target, 1, keep, polyak, "update_target",
                     "init_target", &a->mixer->update_target, &a->mixer->copy_target);
}

int mixer_new(struct algo *a, struct err *err)
{
    struct mixer *m = a->mixer = xcalloc(1, sizeof(*m));
    struct graph *g = a->graph;
    int r;

    for (size_t i = 0; i < a->team.n; i++)
        m->state += a->agents[a->team.member[i]].obs;
    variable_scope_enter(g, "central", NULL, REUSE_INHERIT);
    q_make_lives(a);
    q_make_scale(a);
    m->state_in = placeholder(g, DT_FLOAT, &SHAPE(-1, m->state), "state");
    m->q = placeholder(g, DT_FLOAT, &SHAPE(-1, (int64_t)a->team.n), "q");
    m->mixed = network(a, "mixer");
    r = make_training(a, err);
    if (r == 0)
        make_target(a);
    variable_scope_leave(g);
    a->init_variables = initialize_variables(g);
    if (graph_error(g) != NULL)
        return err_pass(err, graph_error(g));
    return r;
}

void mixer_free(struct mixer *m)
{
    if (m == NULL)
        return;
    free(m->memory);
    free(m);
}

struct operation *mixer_copy_target(const struct mixer *m)
{
    return m->copy_target;
}

/* ---- the stage ---- */

static size_t lay_out(const struct algo *a, float *base, size_t n)
{
    struct mixer *m = a->mixer;
    size_t used = 0;

    m->states = rows_take(base, &used, n * (size_t)m->state);
    m->next_states = rows_take(base, &used, n * (size_t)m->state);
    m->values = rows_take(base, &used, n * a->team.n);
    m->nexts = rows_take(base, &used, n * a->team.n);
    m->slopes = rows_take(base, &used, n * a->team.n);
    m->answer = rows_take(base, &used, n * a->team.n);
    m->q_mixed = rows_take(base, &used, n);
    m->next_mixed = rows_take(base, &used, n);
    m->targets = rows_take(base, &used, n);
    m->weights = rows_take(base, &used, n);
    m->priority = rows_take(base, &used, n);
    return used;
}

static int reserve(struct algo *a, int64_t n, struct err *err)
{
    struct mixer *m = a->mixer;

    if (n <= m->n)
        return 0;
    m->n = 0;
    if (rows_allocate(&m->memory, lay_out(a, NULL, (size_t)n), n, err) < 0)
        return ERR_NOMEM;
    (void)lay_out(a, m->memory, (size_t)n);
    m->n = n;
    return 0;
}

/* Shows an agent's observations (B, L) under the symmetry of each episode. */
static void turn_obs(const struct stage_args *args, size_t agent, float *x, int64_t width)
{
    for (int64_t t = 0; t < args->length; t++)
        symmetry_obs(args->symmetry, agent, (size_t)args->batch, x + t * width,
                     (size_t)(args->length * width));
}

static void gather_states(struct algo *a, const struct stage_args *args, size_t n)
{
    struct mixer *m = a->mixer;
    size_t column = 0;

    for (size_t k = 0; k < a->team.n; k++) {
        const size_t agent = a->team.member[k];

        store_view_gather(args->store, a->team.columns[k].obs, args->rows, n,
                          m->states + column, (size_t)m->state);
        store_view_gather(args->store, a->team.columns[k].next_obs, args->rows, n,
                          m->next_states + column, (size_t)m->state);
        turn_obs(args, agent, m->states + column, m->state);
        turn_obs(args, agent, m->next_states + column, m->state);
        column += (size_t)a->agents[agent].obs;
    }
}

/* The team's outputs of that name side by side: dst (n, N). */
static int put_beside(const struct algo *a, const struct stage_args *args,
                      const char *name, int64_t n, float *dst, struct err *err)
{
    const size_t width = a->team.n;
    const float *x;

    memset(dst, 0, (size_t)n * width * sizeof(float));
    for (size_t k = 0; k < width; k++) {
        const int r = q_team_output(&a->team, k, a->agents, args, name, &x, err);

        if (r < 0)
            return r;
        for (int64_t i = 0; x != NULL && i < n; i++)
            dst[(size_t)i * width + k] = x[i];
    }
    return 0;
}

static int run_mixed(struct algo *a, struct session *s, struct output mixed,
                     const float *q, const float *states, int64_t n, float *ret,
                     struct err *err)
{
    const struct mixer *m = a->mixer;
    const struct feed feeds[] = {
        {m->q, tensor_const_view(DT_FLOAT, SHAPE(n, (int64_t)a->team.n), q)},
        {m->state_in, tensor_const_view(DT_FLOAT, SHAPE(n, m->state), states)}};
    const struct run_args run = {
        .feeds = feeds, .n_feeds = 2, .fetches = &mixed, .n_fetches = 1};
    struct tensor value = tensor_view(DT_FLOAT, SHAPE(n, 1), ret);

    return session_run(s, &run, &value, err);
}

/* One step of the mixer; slopes: by each q, as of before. */
static int run_train(struct algo *a, struct session *s, const struct stage_args *args,
                     int64_t n, struct stage_result *ret, struct err *err)
{
    struct mixer *m = a->mixer;
    const struct feed feeds[] = {
        {m->q, tensor_view(DT_FLOAT, SHAPE(n, (int64_t)a->team.n), m->values)},
        {m->state_in, tensor_view(DT_FLOAT, SHAPE(n, m->state), m->states)},
        {m->y, tensor_view(DT_FLOAT, SHAPE(n, 1), m->targets)},
        {m->weight, tensor_view(DT_FLOAT, SHAPE(n, 1), m->weights)},
        {a->live[Q_CLIP_NORM].constant, tensor_scalar_f32(&a->live_value[Q_CLIP_NORM])},
        {a->live[Q_RATE].constant, tensor_scalar_f32(&a->live_value[Q_RATE])}};
    const struct output fetches[] = {m->dq, m->norm, m->mixed};
    const struct run_args run = {.feeds = feeds,
                                 .n_feeds = 6,
                                 .fetches = fetches,
                                 .n_fetches = 3,
                                 .targets = &m->train,
                                 .n_targets = 1,
                                 .key = args->key,
                                 .counter = args->counter};
    float norm;
    struct tensor values[] = {
        tensor_view(DT_FLOAT, SHAPE(n, (int64_t)a->team.n), m->slopes),
        tensor_scalar_f32(&norm), tensor_view(DT_FLOAT, SHAPE(n, 1), m->q_mixed)};
    int r = session_run(s, &run, values, err);

    if (r < 0)
        return r;
    for (int64_t i = 0; i < n; i++)
        for (size_t k = 0; k < a->team.n; k++)
            m->answer[(int64_t)k * n + i] = m->slopes[(size_t)i * a->team.n + k];
    q_measure(&a->rows, m->q_mixed, m->targets, 1, n, m->measured);
    q_report(m->measured, ret);
    stage_scalar(ret, "mixer_grad_norm", (double)norm);
    return 0;
}

int mixer_stage(struct algo *a, struct session *s, const struct stage_args *args,
                struct stage_result *ret, struct err *err)
{
    struct mixer *m = a->mixer;
    const int64_t n = args->batch * args->length;
    struct reward_scaling scale;
    float share;
    int r;

    if ((r = reserve(a, n, err)) < 0 ||
        (r = symmetry_draw(args->symmetry, args->update, 0, (size_t)args->batch, err)) <
            0 ||
        (r = reward_scale_read(&a->scale, s, args, &scale, err)) < 0 ||
        (r = q_rows_gather(&a->rows, &a->team, a->team.n, args, args->rows, args->weights,
                           &scale, err)) < 0 ||
        (r = put_beside(a, args, "q", n, m->values, err)) < 0 ||
        (r = put_beside(a, args, "next", n, m->nexts, err)) < 0)
        return r;
    gather_states(a, args, (size_t)n);
    r = run_mixed(a, s, m->target_mixed, m->nexts, m->next_states, n, m->next_mixed, err);
    if (r < 0)
        return r;
    q_targets(&a->rows, a->config, m->next_mixed, a->live_value[Q_DISCOUNT],
              a->live_value[Q_LAMBDA], args->batch, args->length, m->targets);
    share = q_rows_share(&a->rows, n);
    for (int64_t i = 0; i < n; i++)
        m->weights[i] = share * a->rows.weight[i];
    if ((r = run_train(a, s, args, n, ret, err)) < 0)
        return r;
    q_priorities(&a->rows, m->q_mixed, m->targets, args->batch, args->length,
                 m->priority);
    ret->n_outputs = 3;
    ret->output[0].name = "dq";
    ret->output[0].value = tensor_view(
        DT_FLOAT, SHAPE((int64_t)a->team.n, args->batch, args->length), m->answer);
    ret->output[1].name = "priorities";
    ret->output[1].value = tensor_view(DT_FLOAT, SHAPE(1, args->batch), m->priority);
    ret->output[2].name = "measured";
    ret->output[2].value = tensor_view(DT_DOUBLE, SHAPE(Q_REPORTED), m->measured);
    return q_move_target(a, s, m->update_target, m->copy_target, args->update, err);
}
