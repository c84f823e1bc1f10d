/* iql on sequences, vdn and qmix: one update against the same update in double
 * precision. */
#include "agent/algo/choices.h"
#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "common/rng/rng.h"
#include "tests/support/team.h"
#include "tests/support/test_main.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    AGENTS = 2,
    OBS = 3,
    MOVES = 3,
    B = 3,
    L = 4,
    ROWS = B * L,
    MAX_PARAMETERS = 8192,
    ROWS_COUNTED = 6 /* steps between updates */
};

static const struct space moves = {.width = MOVES, .n_heads = 1, .heads = {MOVES}};
static const struct space masked = {
    .width = MOVES, .n_heads = 1, .heads = {MOVES}, .masked = 1};

/* ---- a team with its central process ---- */

#define MAX_OUTPUTS 16
struct run {
    struct team *team;
    struct member central; /* ops NULL: there is no central process */
    struct {
        char key[64]; /* "agent_0/q" */
        struct tensor value;
    } output[MAX_OUTPUTS];
    int n_outputs;
    int64_t length;
    struct symmetry_group symmetry; /* no factors: no symmetry */
    struct arena arena;
    float priorities[AGENTS][B]; /* of the newest answers */
    size_t n_priorities;
};

#define OK(call, err) CHECK((call) >= 0, "%s", (err).msg)

static void make_central(struct run *r)
{
    const struct agent_config *c = &r->team->config;
    struct member *m = &r->central;
    const struct session_options options = {0};
    struct algo_args args = {.graph = m->graph = graph_new(),
                             .config = c,
                             .settings = &r->team->settings,
                             .agents = r->team->spaces,
                             .n_agents = AGENTS,
                             .self = AGENTS,
                             .central = 1,
                             .max_steps = r->length};
    struct err err;

    m->ops = algo_find(c->algorithm);
    args.ops = m->ops;
    OK(algo_new(&m->algo, &args, &err), err);
    OK(session_new(&m->session, m->graph, &options, &err), err);
    OK(session_fix_layout(m->session, &err), err);
    OK(m->ops->init(m->algo, m->session, rng_key_make(7, "central", PURPOSE_INIT), &err),
       err);
    team_find_reads(r->team, m);
}

/* One factor for all agents: negates the first number of observations, and swaps moves 1
 * and 2. One for each agent: swaps its other two numbers. */
static void make_symmetry(struct run *r)
{
    static const uint32_t widths[] = {1, MOVES};
    static const int32_t codes[1 + MOVES] = {~0, 0, 2, 1};
    struct symmetry_group *g = &r->symmetry;
    const size_t all = symmetry_add_generators(g, &r->arena, 2, widths, 1, codes);

    for (uint32_t k = 0; k < AGENTS; k++) {
        const struct symmetry_run obs = {k, SYMMETRY_OBS, 0, 1, 1, 0};
        const struct symmetry_run move = {k, SYMMETRY_ACTION, 0, 1, MOVES, 1};
        const struct symmetry_run view = {k, SYMMETRY_OBS, 1, 2, 1, 0};

        symmetry_add_run(g, &r->arena, all, &obs);
        symmetry_add_run(g, &r->arena, all, &move);
        symmetry_add_run(g, &r->arena, symmetry_add_orders(g, &r->arena, 2), &view);
    }
}

/* args: config and rows are set. */
static struct run *run_of(struct team_args args, const struct space *space,
                          int64_t length)
{
    struct run *r = xcalloc(1, sizeof(*r));
    const char *config = args.config;

    args.n = AGENTS;
    args.obs = OBS;
    args.space = *space;
    args.max_steps = length;
    if (strstr(config, "symmetry: env") != NULL) {
        make_symmetry(r);
        args.symmetry = &r->symmetry;
    }
    r->length = length;
    r->team = team_new(&args);
    if (strstr(config, "qmix") != NULL)
        make_central(r);
    return r;
}

static struct run *run_new(const char *config, const struct space *space, int64_t length,
                           uint64_t n_rows, int share)
{
    struct team_args args = team_spread(config, n_rows);

    args.share = share;
    return run_of(args, space, length);
}

static void forget_outputs(struct run *r)
{
    for (int i = 0; i < r->n_outputs; i++)
        tensor_free(&r->output[i].value);
    r->n_outputs = 0;
}

static void run_free(struct run *r)
{
    forget_outputs(r);
    if (r->central.ops != NULL) {
        reads_done(&r->central.reads);
        algo_free(r->central.ops, r->central.algo);
        session_free(r->central.session);
        graph_free(r->central.graph);
    }
    team_free(r->team);
    arena_done(&r->arena);
    free(r);
}

static const struct tensor *find_input(void *ctx, const char *agent, const char *name)
{
    struct run *r = ctx;
    char key[64];

    (void)snprintf(key, sizeof(key), "%s/%s", agent, name);
    for (int i = 0; i < r->n_outputs; i++)
        if (strcmp(r->output[i].key, key) == 0)
            return &r->output[i].value;
    return NULL;
}

/* The i-th stage of a process. */
static void run_stage(struct run *r, struct member *m, const char *name, size_t i,
                      uint64_t update, const uint64_t *rows, int64_t batch,
                      const float *weights)
{
    size_t n;
    const struct stage_args args = {.stage = &m->ops->stages(m->algo, &n)[i],
                                    .step = ROWS_COUNTED * (update + 1),
                                    .update = update,
                                    .slot = update % 4,
                                    .groups = 1,
                                    .batch = batch,
                                    .length = r->length,
                                    .rows = rows,
                                    .weights = weights,
                                    .store = r->team->store,
                                    .symmetry = r->team->symmetry,
                                    .input = find_input,
                                    .input_ctx = r};
    struct stage_result res = {0};
    struct err err;

    OK(team_run_stage(r->team, m, &args, &res, &err), err);
    for (int k = 0; k < res.n_outputs; k++) {
        (void)snprintf(r->output[r->n_outputs].key, 64, "%s/%s", name,
                       res.output[k].name);
        OK(tensor_copy(&r->output[r->n_outputs++].value, &res.output[k].value, &err),
           err);
    }
    if (res.n_scalars > 0)
        m->learned = res;
    if (res.priorities.data != NULL)
        memcpy(r->priorities[r->n_priorities++], res.priorities.data, sizeof(float[B]));
}

static void update(struct run *r, uint64_t number, const uint64_t *rows, int64_t batch,
                   const float *weights)
{
    size_t n;
    const struct member *first = &r->team->members[r->team->spaces[0].other];
    const struct stage *s = first->ops->stages(first->algo, &n);

    forget_outputs(r);
    r->n_priorities = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i].runner == STAGE_CENTRAL)
            run_stage(r, &r->central, "central", i, number, rows, batch, weights);
        if (s[i].runner == STAGE_PS)
            run_stage(r, &r->team->members[AGENTS], "ps", i, number, rows, batch,
                      weights);
        for (size_t k = 0; k < AGENTS && s[i].runner == STAGE_LEARNERS; k++)
            if (!r->team->spaces[k].other)
                run_stage(r, &r->team->members[k], r->team->spaces[k].name, i, number,
                          rows, batch, weights);
    }
}

/* ---- rows ---- */

struct row {
    int there;
    float obs[AGENTS][OBS], next_obs[AGENTS][OBS];
    float reward, terminated[AGENTS], alive[AGENTS];
    int move[AGENTS];
    uint8_t next_allowed[AGENTS][MOVES];
};

static void write_row(struct team *t, uint64_t row, const struct row *x)
{
    for (size_t k = 0; k < AGENTS; k++) {
        float one_hot[MOVES] = {0};
        const float reward = x->alive[k] > 0 ? x->reward : 0;

        one_hot[x->move[k]] = 1;
        team_write(t, row, k, "obs", x->obs[k]);
        team_write(t, row, k, "next_obs", x->next_obs[k]);
        team_write(t, row, k, "action", one_hot);
        team_write(t, row, k, "reward", &reward);
        team_write(t, row, k, "terminated", &x->terminated[k]);
        team_write(t, row, k, "alive", &x->alive[k]);
        if (t->args.space.masked)
            team_write_mask(t, row, k, "next_allowed", x->next_allowed[k]);
    }
}

/* Episode 0: four steps, then cut by a limit; agent_1 is cut after its second step. 1: over
 * after two steps. 2: agent_1 leaves with its second step; over after three. */
static void make_rows(struct team *t, struct row *x, uint64_t *rows)
{
    static const int length[B] = {4, 2, 3};
    const struct rng_key key = rng_key_make(5, "test", "rows");

    memset(x, 0, ROWS * sizeof(*x));
    for (uint64_t i = 0; i < ROWS; i++) {
        const int b = (int)i / L, step = (int)i % L, last = length[b] - 1;
        float draw[AGENTS * OBS + 1];

        rows[i] = step <= last ? 2 * i + 1 : ROW_NONE;
        rng_uniform_f32(key, i, 0, draw, AGENTS * OBS + 1);
        x[i].there = step <= last;
        x[i].reward = 4 * draw[AGENTS * OBS] - 2;
        for (size_t k = 0; k < AGENTS; k++) {
            for (size_t o = 0; o < OBS; o++) {
                x[i].obs[k][o] = 2 * draw[k * OBS + o] - 1;
                x[i].next_obs[k][o] = 1 - draw[k * OBS + o]; /* of the last step */
            }
            x[i].alive[k] = !(b != 1 && k == 1 && step >= 2);
            x[i].terminated[k] = (b == 1 && step == 1) || (b == 2 && step == 2) ||
                                 (b == 2 && k == 1 && step == 1);
            x[i].move[k] = (int)((i + k * k + i * i / 3) % MOVES);
            for (int c = 0; c < MOVES; c++)
                x[i].next_allowed[k][c] =
                    !t->args.space.masked || (i + k + (uint64_t)c) % 3 != 0;
        }
        if (step > 0 && step <= last)
            memcpy(x[i - 1].next_obs, x[i].obs, sizeof(x[i].obs));
    }
    for (uint64_t i = 0; i < ROWS; i++)
        if (x[i].there)
            write_row(t, rows[i], &x[i]);
}

/* ---- the update in double precision ---- */

/* All trainable variables of some scopes, concatenated. */
struct parameters {
    size_t n;
    double v[MAX_PARAMETERS];
};

static void take(struct parameters *p, struct member *m, const char *name, size_t n)
{
    struct variable *v = variable_find(m->graph, name);
    struct tensor t;
    struct err err;

    CHECK(v != NULL, "%s", name);
    OK(session_variable(m->session, v, &t, &err), err);
    CHECK((size_t)tensor_elements(&t) == n && p->n + n <= MAX_PARAMETERS, "%s", name);
    for (size_t i = 0; i < n; i++)
        p->v[p->n++] = (double)tensor_f32(&t)[i];
}

/* Linear Q-networks: (OBS, MOVES) weights and MOVES biases of each agent. */
enum { NET = OBS * MOVES + MOVES };

static void take_networks(struct parameters *p, struct run *r, const char *scope)
{
    for (size_t k = 0; k < AGENTS; k++) {
        char name[96];

        (void)snprintf(name, sizeof(name), "agent_%zu/%s/fully_connected/weights", k,
                       scope);
        take(p, &r->team->members[k], name, OBS * MOVES);
        (void)snprintf(name, sizeof(name), "agent_%zu/%s/fully_connected/biases", k,
                       scope);
        take(p, &r->team->members[k], name, MOVES);
    }
}

static void take_mixer(struct parameters *p, struct run *r, const char *scope)
{
    static const struct {
        const char *name;
        size_t in, out;
    } layers[] = {{"w1_hidden", AGENTS * OBS, 64},
                  {"w1", 64, AGENTS * 32},
                  {"b1", AGENTS * OBS, 32},
                  {"w2_hidden", AGENTS * OBS, 64},
                  {"w2", 64, 32},
                  {"v_hidden", AGENTS * OBS, 32},
                  {"v", 32, 1}};

    for (size_t i = 0; i < sizeof(layers) / sizeof(layers[0]); i++) {
        char name[96];

        (void)snprintf(name, sizeof(name), "central/%s/%s/weights", scope,
                       layers[i].name);
        take(p, &r->central, name, layers[i].in * layers[i].out);
        (void)snprintf(name, sizeof(name), "central/%s/%s/biases", scope, layers[i].name);
        take(p, &r->central, name, layers[i].out);
    }
}

static double q_of(const double *net, const float *obs, int move)
{
    double q = net[OBS * MOVES + move];

    for (int o = 0; o < OBS; o++)
        q += (double)obs[o] * net[o * MOVES + move];
    return q;
}

/* y (out) = x W + b; returns the parameters after these. */
static const double *apply_layer(const double *p, const double *x, int in, int out,
                                 double *y)
{
    for (int j = 0; j < out; j++) {
        y[j] = p[in * out + j];
        for (int i = 0; i < in; i++)
            y[j] += x[i] * p[i * out + j];
    }
    return p + in * out + out;
}

static void relu(double *x, int n)
{
    for (int i = 0; i < n; i++)
        x[i] = fmax(x[i], 0);
}

static double mix(const double *p, const double q[AGENTS], const float obs[AGENTS][OBS])
{
    double s[AGENTS * OBS], h[64], w1[AGENTS * 32], b1[32], w2[32], hv[32], v, sum;

    for (int i = 0; i < AGENTS * OBS; i++)
        s[i] = (double)obs[i / OBS][i % OBS];
    p = apply_layer(p, s, AGENTS * OBS, 64, h);
    relu(h, 64);
    p = apply_layer(p, h, 64, AGENTS * 32, w1);
    p = apply_layer(p, s, AGENTS * OBS, 32, b1);
    p = apply_layer(p, s, AGENTS * OBS, 64, h);
    relu(h, 64);
    p = apply_layer(p, h, 64, 32, w2);
    p = apply_layer(p, s, AGENTS * OBS, 32, hv);
    relu(hv, 32);
    (void)apply_layer(p, hv, 32, 1, &v);
    sum = v;
    for (int j = 0; j < 32; j++) {
        double x = b1[j];

        for (int k = 0; k < AGENTS; k++)
            x += q[k] * fabs(w1[k * 32 + j]);
        sum += (x > 0 ? x : exp(x) - 1) * fabs(w2[j]);
    }
    return sum;
}

/* The rows under the symmetries that the update draws: for each episode, one number in
 * [0, 1) for the factor of all agents, then one for each agent's factor. */
static void show(const struct row *x, uint64_t update, struct row *seen)
{
    const struct rng_key key = rng_key_make(7, "experience", PURPOSE_SYMMETRY);

    memcpy(seen, x, ROWS * sizeof(*x));
    for (uint64_t i = 0; i < ROWS; i++) {
        float u[1 + AGENTS];

        rng_uniform_f32(key, update, i / L * (1 + AGENTS), u, 1 + AGENTS);
        for (size_t k = 0; k < AGENTS; k++) {
            const size_t one = u[1 + k] < 0.5f ? 2 : 1, two = 3 - one;
            struct row *to = &seen[i];

            to->obs[k][1] = x[i].obs[k][one];
            to->obs[k][2] = x[i].obs[k][two];
            to->next_obs[k][1] = x[i].next_obs[k][one];
            to->next_obs[k][2] = x[i].next_obs[k][two];
            if (u[0] < 0.5f)
                continue;
            to->obs[k][0] *= -1;
            to->next_obs[k][0] *= -1;
            to->move[k] = (3 - x[i].move[k]) % 3;
            to->next_allowed[k][1] = x[i].next_allowed[k][2];
            to->next_allowed[k][2] = x[i].next_allowed[k][1];
        }
    }
}

enum kind { ALONE, SUM, MIXER };

struct expected {
    enum kind kind;
    const struct row *x;
    const float *weights;
    double discount, lambda, hysteresis;
    double mean[AGENTS], scale[AGENTS]; /* reward: (r - mean) scale; a team's: [0] */
    double y[AGENTS][ROWS];             /* a team's: [0] */
};

/* The value of all agents' choices together; ALONE: agent k's. */
static double together(const struct expected *e, const double *mixer, size_t k,
                       const double q[AGENTS], const float obs[AGENTS][OBS])
{
    return e->kind == ALONE ? q[k] : e->kind == SUM ? q[0] + q[1] : mix(mixer, q, obs);
}

/* Computes y of each row, from the networks and the target networks. */
static void expect_targets(struct expected *e, const double *nets, const double *targets,
                           const double *target_mixer, size_t k)
{
    for (int b = 0; b < B; b++) {
        double after = 0;

        for (int t = L - 1; t >= 0; t--) {
            const int i = b * L + t;
            const struct row *x = &e->x[i];
            const double reward =
                e->kind == ALONE && x->alive[k] == 0 ? 0 : (double)x->reward;
            double next[AGENTS] = {0}, v, over = 1;

            if (!x->there)
                continue;
            for (size_t j = 0; j < AGENTS; j++) {
                double best = -INFINITY;
                int move = 0;

                if ((e->kind != ALONE || j == k) && x->alive[j] > 0)
                    over *= (double)x->terminated[j];
                if (x->alive[j] == 0 || x->terminated[j] == 1)
                    continue;
                for (int c = 0; c < MOVES; c++) {
                    const double q = q_of(nets + j * NET, x->next_obs[j], c);

                    if (x->next_allowed[j][c] && q > best) {
                        best = q;
                        move = c;
                    }
                }
                next[j] = q_of(targets + j * NET, x->next_obs[j], move);
            }
            v = together(e, target_mixer, k, next, x->next_obs);
            if (t + 1 < L && e->x[i + 1].there &&
                (e->kind != ALONE || x->alive[k] == 0 || e->x[i + 1].alive[k] > 0))
                v = (1 - e->lambda) * v + e->lambda * after;
            after = (reward - e->mean[k]) * e->scale[k] + e->discount * (1 - over) * v;
            e->y[k][i] = after;
        }
    }
}

/* Computes y - q of a row; returns 0 if the row does not count. */
static int error_of(const struct expected *e, const double *nets, const double *mixer,
                    size_t k, int i, double *ret)
{
    const struct row *x = &e->x[i];
    double q[AGENTS];

    if (!x->there || (e->kind == ALONE && x->alive[k] == 0))
        return 0;
    for (size_t j = 0; j < AGENTS; j++)
        q[j] = x->alive[j] > 0 ? q_of(nets + j * NET, x->obs[j], x->move[j]) : 0;
    *ret = e->y[k][i] - together(e, mixer, k, q, x->obs);
    return 1;
}

static double loss_of(const struct expected *e, const double *nets, const double *mixer,
                      size_t k)
{
    double sum = 0, weights = 0, d;

    for (int i = 0; i < ROWS; i++) {
        const double w = (double)e->weights[i / L];

        if (!error_of(e, nets, mixer, k, i, &d))
            continue;
        sum += w * d * d * (d < 0 ? e->hysteresis : 1);
        weights += w;
    }
    return sum / fmax(weights, 1);
}

static void check_priorities(const struct run *r, const struct expected *e,
                             const double *nets, const double *mixer)
{
    ck_assert_uint_eq(r->n_priorities, AGENTS);
    for (size_t k = 0; k < AGENTS; k++)
        for (int b = 0; b < B; b++) {
            double most = 0, sum = 0, n = 0, d;

            for (int i = b * L; i < (b + 1) * L; i++) {
                if (!error_of(e, nets, mixer, e->kind == ALONE ? k : 0, i, &d))
                    continue;
                most = fmax(most, fabs(d));
                sum += fabs(d);
                n++;
            }
            ck_assert_double_eq_tol((double)r->priorities[k][b],
                                    0.9 * most + 0.1 * sum / n, 1e-5);
        }
}

static float read_log(struct team *t, uint64_t row, size_t agent, const char *column)
{
    float x;
    const int c = store_layout_find(&t->layout, t->spaces[agent].name, column);

    store_view_gather(t->store, c, &row, 1, &x, 1);
    return x;
}

/* Of the rewards of agents first .. end-1 in the log's first rows: *ret_mean is the mean;
 * returns 1 / the deviation. */
static double expect_scale(struct team *t, size_t first, size_t end, uint64_t rows,
                           double *ret_mean)
{
    double n = 0, mean = 0, squares = 0;

    for (int pass = 0; pass < 2; pass++) {
        for (uint64_t row = 0; row < rows; row++)
            for (size_t k = first; k < end; k++) {
                const double x = (double)read_log(t, row, k, "reward");

                if (read_log(t, row, k, "alive") == 0)
                    continue;
                n += pass == 0;
                mean += pass == 0 ? x : 0;
                squares += pass == 1 ? (x - mean) * (x - mean) : 0;
            }
        mean /= pass == 0 ? n : 1;
    }
    *ret_mean = mean;
    return 1 / sqrt(squares / n + 1e-8);
}

static void expect_scales(struct expected *e, struct run *r, int share, uint64_t rows)
{
    const char *setting = strstr(r->team->args.config, "reward_scale: ");
    const int own = e->kind == ALONE && !share;

    for (size_t k = 0; k < AGENTS; k++) {
        e->mean[k] = 0;
        e->scale[k] = 1;
        if (setting == NULL)
            continue;
        e->scale[k] =
            expect_scale(r->team, own ? k : 0, own ? k + 1 : AGENTS, rows, &e->mean[k]);
        e->mean[k] *= strstr(setting, "standard") != NULL;
    }
}

/* The process that computes targets has counted the rows once: the central one, or each
 * agent of a team. */
static void check_counted(struct run *r, enum kind kind, uint64_t rows)
{
    for (size_t k = 0; k < (kind == MIXER ? 1 : AGENTS); k++) {
        struct member *m = kind == MIXER ? &r->central : &r->team->members[k];
        const char *name = kind == MIXER ? "central/reward_scale/statistics"
                           : k == 0      ? "agent_0/reward_scale/statistics"
                                         : "agent_1/reward_scale/statistics";
        struct tensor t;
        struct err err;

        OK(session_variable(m->session, variable_find(m->graph, name), &t, &err), err);
        ck_assert_double_eq(((const double *)t.data)[0], (double)rows);
    }
}

/* v -= rate d(loss)/dv for every stride-th number, by central differences. */
static void descend(const struct expected *e, double *p, size_t n, size_t stride,
                    const double *nets, const double *mixer, size_t k, double rate)
{
    double *step = xcalloc(n, sizeof(*step));

    for (size_t i = 0; i < n; i += stride) {
        const double v = p[i], h = 1e-5;
        double above, below;

        p[i] = v + h;
        above = loss_of(e, nets, mixer, k);
        p[i] = v - h;
        below = loss_of(e, nets, mixer, k);
        p[i] = v;
        step[i] = rate * (above - below) / (2 * h);
    }
    for (size_t i = 0; i < n; i++)
        p[i] -= step[i];
    free(step);
}

static void check_close(const struct parameters *got, const struct parameters *want)
{
    ck_assert_uint_eq(got->n, want->n);
    for (size_t i = 0; i < got->n; i++)
        ck_assert_double_eq_tol(got->v[i], want->v[i], 1e-5);
}

/* Each agent's network makes the sum of the steps of all networks, times `part`. */
static void share_steps(struct parameters *p, const struct parameters *before,
                        double part)
{
    for (size_t i = 0; i < NET; i++) {
        double step = 0;

        for (size_t k = 0; k < AGENTS; k++)
            step += part * (p->v[k * NET + i] - before->v[k * NET + i]);
        for (size_t k = 0; k < AGENTS; k++)
            p->v[k * NET + i] = before->v[k * NET + i] + step;
    }
}

enum { STRIDE = 17 };

/* The mixer has thousands of parameters: checks every STRIDE-th, and takes over all. */
static void take_checked(struct parameters *mixer, struct run *r)
{
    static struct parameters now;

    now.n = 0;
    take_mixer(&now, r, "mixer");
    ck_assert_uint_eq(now.n, mixer->n);
    for (size_t i = 0; i < now.n; i += STRIDE)
        ck_assert_double_eq_tol(now.v[i], mixer->v[i], 1e-5);
    *mixer = now;
}

static void follow(struct parameters *t, const struct parameters *p, double share)
{
    for (size_t i = 0; i < t->n; i++)
        t->v[i] += share * (p->v[i] - t->v[i]);
}

#define SETTINGS                                                                         \
    "discount: 0.5, polyak: 0.25, clip_norm: none, critic: {hidden: []}, "               \
    "optimizer: {type: sgd, learning_rate: 0.05}"

static const struct {
    enum kind kind;
    const struct space *space;
    double lambda, hysteresis;
    const char *config;
    int share;
} cases[] = {
    {ALONE, &moves, 0, 0.25,
     "{algorithm: iql, settings: {target_every: 2, hysteresis: 0.25}, " SETTINGS "}"},
    {ALONE, &masked, 0.5, 1,
     "{algorithm: iql, settings: {lambda: 0.5, symmetry: env, reward_scale: "
     "running}, " SETTINGS "}"},
    {SUM, &moves, 0, 1, "{algorithm: vdn, settings: {target_every: 2}, " SETTINGS "}"},
    {SUM, &masked, 0.75, 1,
     "{algorithm: vdn, settings: {lambda: 0.75, symmetry: env}, " SETTINGS "}"},
    {ALONE, &moves, 0, 1,
     "{algorithm: iql, settings: {target_every: 2, reward_scale: standard}, " SETTINGS
     "}",
     1},
    {SUM, &masked, 0.5, 1,
     "{algorithm: vdn, settings: {lambda: 0.5, symmetry: env, reward_scale: "
     "running}, " SETTINGS "}",
     1},
    {MIXER, &moves, 0, 1, "{algorithm: qmix, settings: {target_every: 2}, " SETTINGS "}"},
    {MIXER, &masked, 0.5, 1,
     "{algorithm: qmix, settings: {lambda: 0.5, symmetry: env, reward_scale: "
     "running}, " SETTINGS "}"},
    {MIXER, &masked, 0, 1,
     "{algorithm: qmix, settings: {target_every: 2, symmetry: env}, " SETTINGS "}", 1},
};

START_TEST(test_updates_written_out)
{
    const int every = strstr(cases[_i].config, "target_every") != NULL ? 2 : 0;
    const int scales = strstr(cases[_i].config, "reward_scale") != NULL;
    struct run *r =
        run_new(cases[_i].config, cases[_i].space, L, 2 * ROWS + 1, cases[_i].share);
    static struct parameters nets, targets, mixer, before_mixer, target_mixer, now;
    const float weights[B] = {1, 0.5f, 2};
    const size_t team = cases[_i].kind == ALONE ? AGENTS : 1;
    uint64_t rows[ROWS];
    struct row x[ROWS], seen[ROWS];
    struct expected e = {.kind = cases[_i].kind,
                         .x = seen,
                         .weights = weights,
                         .discount = 0.5,
                         .lambda = cases[_i].lambda,
                         .hysteresis = cases[_i].hysteresis};

    nets.n = targets.n = mixer.n = target_mixer.n = 0;
    make_rows(r->team, x, rows);
    take_networks(&nets, r, "q_func");
    take_networks(&targets, r, "target_q_func");
    if (e.kind == MIXER) {
        take_mixer(&mixer, r, "mixer");
        take_mixer(&target_mixer, r, "target_mixer");
    }
    for (uint64_t u = 0; u < 4; u++) {
        const struct member *judge = e.kind == MIXER ? &r->central : &r->team->members[0];
        const uint64_t counted = ROWS_COUNTED * (u + 1);
        struct parameters before = nets;
        double loss;

        memcpy(seen, x, sizeof(x));
        if (r->team->symmetry != NULL)
            show(x, u, seen);
        expect_scales(&e, r, cases[_i].share, counted);
        for (size_t k = 0; k < team; k++)
            expect_targets(&e, before.v, targets.v, target_mixer.v, k);
        loss = loss_of(&e, nets.v, mixer.v, 0);
        for (size_t k = 0; k < team; k++) { /* all steps start from the same networks */
            struct parameters moved = before;
            const size_t from = team > 1 ? k * NET : 0;
            const size_t n = team > 1 ? NET : AGENTS * NET;

            descend(&e, moved.v + from, n, 1, moved.v, mixer.v, k, 0.05);
            memcpy(nets.v + from, moved.v + from, n * sizeof(double));
        }
        if (cases[_i].share)
            share_steps(&nets, &before, team > 1 ? 1.0 / AGENTS : 1);
        before_mixer = mixer;
        if (e.kind == MIXER)
            descend(&e, mixer.v, mixer.n, STRIDE, before.v, mixer.v, 0, 0.05);
        update(r, u, rows, B, weights);
        check_priorities(r, &e, before.v, before_mixer.v);
        if (scales)
            check_counted(r, e.kind, counted);
        ck_assert_double_eq_tol(team_scalar(judge, "critic_loss"), loss, 1e-5);
        if (e.kind == MIXER) /* the team gets the loss from the mixer */
            ck_assert_double_eq(team_scalar(&r->team->members[1], "critic_loss"),
                                team_scalar(judge, "critic_loss"));
        if (e.kind == MIXER)
            take_checked(&mixer, r);
        if (every == 0 || u % 2 == 1) {
            follow(&targets, &nets, every == 0 ? 0.25 : 1);
            follow(&target_mixer, &mixer, every == 0 ? 0.25 : 1);
        }
    }
    now.n = 0;
    take_networks(&now, r, "q_func");
    check_close(&now, &nets);
    now.n = 0;
    take_networks(&now, r, "target_q_func");
    check_close(&now, &targets);
    if (e.kind == MIXER) {
        now.n = 0;
        take_mixer(&now, r, "target_mixer");
        check_close(&now, &target_mixer);
    }
    run_free(r);
}
END_TEST

/* ---- several teams ---- */

/* The values of the central process's variable `central/<scope><name>`, and their
 * size. */
static void *mixer_values(struct run *r, const char *scope, const char *name,
                          size_t *ret_bytes)
{
    char full[160];
    struct variable *v;
    struct tensor t;
    struct err err;

    (void)snprintf(full, sizeof(full), "central/%s%s", scope, name);
    v = variable_find(r->central.graph, full);
    ck_assert_msg(v != NULL, "%s", full);
    OK(session_variable(r->central.session, v, &t, &err), err);
    *ret_bytes = tensor_bytes(&t);
    return t.data;
}

#define TWO_TEAMS                                                                        \
    "{algorithm: qmix, critic: {hidden: [8]}, settings: {target_every: 2, "              \
    "reward_scale: "                                                                     \
    "running}, optimizer: {learning_rate: 0.01}}"

/* Each of two teams of one agent learns as if it were the only team. */
START_TEST(test_teams_have_their_own_mixers)
{
    static const char *const names[] = {
        "mixer/w1_hidden/weights", "mixer/w1_hidden/biases", "mixer/w1/weights",
        "mixer/w1/biases",         "mixer/b1/weights",       "mixer/b1/biases",
        "mixer/w2_hidden/weights", "mixer/w2_hidden/biases", "mixer/w2/weights",
        "mixer/w2/biases",         "mixer/v_hidden/weights", "mixer/v_hidden/biases",
        "mixer/v/weights",         "mixer/v/biases"};
    enum { NAMES = sizeof(names) / sizeof(names[0]) };
    struct team_args args = team_spread(TWO_TEAMS, 2 * ROWS + 1);
    const char *const scope = _i == 0 ? "agent_0/" : "agent_1/";
    struct run *both, *one;
    uint64_t rows[ROWS];
    struct row x[ROWS];
    char target[96];
    size_t n, m;

    args.apart = 1;
    both = run_of(args, &moves, L);
    args.others = 2u >> _i; /* the other agent */
    one = run_of(args, &moves, L);
    make_rows(both->team, x, rows);
    make_rows(one->team, x, rows);
    for (size_t k = 0; k < NAMES; k++) { /* initial values depend on names */
        const void *from = mixer_values(both, scope, names[k], &n);

        memcpy(mixer_values(one, "", names[k], &m), from, n);
        ck_assert_uint_eq(n, m);
        (void)snprintf(target, sizeof(target), "target_%s", names[k]);
        memcpy(mixer_values(one, "", target, &m), from, n);
    }
    for (uint64_t u = 0; u < 4; u++) {
        update(both, u, rows, B, NULL);
        update(one, u, rows, B, NULL);
    }
    for (size_t k = 0; k < NAMES; k++) {
        const void *got = mixer_values(both, scope, names[k], &n);

        ck_assert_mem_eq(got, mixer_values(one, "", names[k], &m), n);
    }
    n = session_block_bytes(both->team->members[_i].session);
    ck_assert_mem_eq(session_block(both->team->members[_i].session),
                     session_block(one->team->members[_i].session), n);
    run_free(both);
    run_free(one);
}
END_TEST

/* If q_mixed is too low, no agent's value is decreased; if it is too high, none is
 * increased. */
START_TEST(test_mixer_is_monotone)
{
    struct run *r =
        run_new("{algorithm: qmix, critic: {hidden: [8]}}", &moves, L, 2 * ROWS + 1, 0);
    const struct tensor *dq;
    uint64_t rows[ROWS];
    struct row x[ROWS];
    int n = 0;

    make_rows(r->team, x, rows);
    update(r, 0, rows, B, NULL);
    dq = find_input(r, "central", "dq");
    for (int i = 0; i < ROWS; i++) {
        const float a = tensor_f32(dq)[i], b = tensor_f32(dq)[ROWS + i];

        ck_assert(x[i].there || (a == 0 && b == 0));
        ck_assert_float_ge(a * b, 0);
        n += a != 0 && b != 0;
    }
    ck_assert_int_ge(n, 8);
    run_free(r);
}
END_TEST

/* ---- recurrent ---- */

static const char *const recurrent[] = {
    "{algorithm: vdn, settings: {recurrent: 8, last_action: true, agent_id: true, "
    "epsilon: 0}, critic: {hidden: [8]}}",
    "{algorithm: vdn, settings: {recurrent: 8, cell: lstm, last_action: true, agent_id: "
    "true, epsilon: 0}, critic: {hidden: [8]}}",
};

/* An agent that acts step by step through an episode uses the same values as learning:
 * its greedy choice has the largest q among all moves that could be in the log. */
START_TEST(test_acting_and_learning_agree)
{
    struct run *r = run_new(recurrent[_i], &moves, L, 2 * ROWS + 1, 0);
    struct member *m = &r->team->members[1];
    const int64_t width = m->ops->carry_width(m->algo);
    float carry[2][16 + MOVES] = {{9}}, q[MOVES][L], best[L];
    const float *qs;
    uint64_t rows[ROWS], counter = 0, draw = 0;
    struct row x[ROWS];
    int chosen[L];

    ck_assert_int_eq(width, (_i == 0 ? 8 : 16) + MOVES); /* an LSTM has c and h */
    make_rows(r->team, x, rows);
    for (int t = 0; t < L; t++) {
        const uint8_t first = t == 0;
        float action[MOVES];
        const struct act_args args = {.mode = ACT_GREEDY,
                                      .n_copies = 1,
                                      .obs = x[t].obs[1],
                                      .first = &first,
                                      .carry = carry[t % 2],
                                      .counter = &counter,
                                      .draw_first = &draw};
        struct act_result res = {.actions = action, .carry = carry[(t + 1) % 2]};
        struct err err;

        OK(m->ops->act(m->algo, m->session, &args, &res, &err), err);
        chosen[t] = choice_of_action(&moves, action);
        x[t].move[1] = chosen[t];
    }
    for (int t = 0; t < L; t++)
        best[t] = -INFINITY;
    /* The action of the last step does not influence the values before it, so all can be
     * tried. */
    for (int last = L - 1; last >= 0; last--)
        for (int c = 0; c < MOVES; c++) {
            for (int t = 0; t < L; t++)
                x[t].move[1] = t == last ? c : chosen[t];
            for (int t = 0; t < L; t++)
                write_row(r->team, rows[t], &x[t]);
            update(r, 0, rows, 1, (const float[]){0});
            qs = tensor_f32(find_input(r, "agent_1", "q"));
            q[c][last] = qs[last];
            best[last] = fmaxf(best[last], q[c][last]);
        }
    for (int t = 0; t < L; t++)
        ck_assert_float_eq_tol(q[chosen[t]][t], best[t], 1e-5f);
    run_free(r);
}
END_TEST

/* The first observation determines the right move in the last of three steps; only a
 * policy with memory can know it then. Returns the number of cases, of two, that are
 * right. */
static int remembered(const char *config)
{
    enum { STEPS = 3, EPISODES = 24 };
    struct run *r = run_new(config, &moves, STEPS, EPISODES * STEPS, 0);
    struct member *m = &r->team->members[0];
    uint64_t rows[EPISODES * STEPS], zero = 0;
    int right = 0;

    for (int i = 0; i < EPISODES * STEPS; i++) {
        const int episode = i / STEPS, step = i % STEPS;
        struct row x = {.alive = {1, 1}};

        rows[i] = (uint64_t)i;
        x.obs[0][0] = step == 0 ? (episode % 2 ? 1 : -1) : 0;
        x.obs[0][1] = (float)step;
        x.next_obs[0][1] = (float)(step + 1);
        x.move[0] = (episode / 2 + step) % MOVES;
        x.terminated[0] = x.terminated[1] = step == STEPS - 1;
        x.reward = step == STEPS - 1 && x.move[0] == episode % 2;
        write_row(r->team, rows[i], &x);
    }
    for (uint64_t u = 0; u < 150; u++)
        update(r, u, rows, EPISODES, NULL);
    for (int which = 0; which < 2; which++) {
        float carry[2][32] = {{0}}, action[MOVES];

        for (int step = 0; step < STEPS; step++) {
            const uint8_t first = step == 0;
            const float obs[OBS] = {step == 0 ? (which ? 1 : -1) : 0, (float)step, 0};
            const struct act_args args = {.mode = ACT_GREEDY,
                                          .n_copies = 1,
                                          .obs = obs,
                                          .first = &first,
                                          .carry = carry[step % 2],
                                          .counter = &zero,
                                          .draw_first = &zero};
            struct act_result res = {.actions = action, .carry = carry[(step + 1) % 2]};
            struct err err;

            OK(m->ops->act(m->algo, m->session, &args, &res, &err), err);
        }
        right += choice_of_action(&moves, action) == which;
    }
    run_free(r);
    return right;
}

START_TEST(test_memory)
{
    ck_assert_int_eq(remembered("{algorithm: iql, settings: {recurrent: 16}, critic: "
                                "{hidden: [16]}, optimizer: {learning_rate: 0.01}}"),
                     2);
    ck_assert_int_eq(
        remembered("{algorithm: iql, settings: {recurrent: 16, cell: lstm}, critic: "
                   "{hidden: [16]}, optimizer: {learning_rate: 0.01}}"),
        2);
    ck_assert_int_lt(remembered("{algorithm: iql, settings: {agent_id: true}, critic: "
                                "{hidden: [16]}, optimizer: {learning_rate: 0.01}}"),
                     2);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("q_learner");
    TCase *tc = tcase_create("q_learner");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, test_updates_written_out, 0,
                        sizeof(cases) / sizeof(cases[0]));
    tcase_add_loop_test(tc, test_teams_have_their_own_mixers, 0, 2);
    tcase_add_test(tc, test_mixer_is_monotone);
    tcase_add_loop_test(tc, test_acting_and_learning_agree, 0, 2);
    tcase_add_test(tc, test_memory);
    suite_add_tcase(suite, tc);
    return suite;
}

TEST_MAIN(make_suite)
