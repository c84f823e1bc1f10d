/* matd3, and maddpg and ddpg with shared parameters, against the formulas of matd3.c,
 * written out here in double precision: gradients by central differences, steps of
 * gradient descent or Adam. */
#include "common/mem/xmalloc.h"
#include "common/rng/rng.h"
#include "tests/support/tanh_net.h"
#include "tests/support/test_main.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    AGENTS = 2,
    OBS = 3,
    WIDTH = 4,
    HIDDEN = 4,
    ROWS = 7,
    UPDATES = 5,
    INPUT = OBS + AGENTS, /* with an id */
    JOINT = AGENTS * (OBS + WIDTH) + AGENTS
};
#define RATE     0.1
#define CLIP     0.2 /* clip_norm */
#define DISCOUNT 0.9
#define POLYAK   0.25
#define PENALTY  0.02
#define NOISE    0.8
#define BOUND    0.3 /* of the noise */

static const struct space box = {.box = 1, .width = WIDTH, .low = -2, .high = 1};
static const struct space masked = {
    .width = WIDTH, .n_heads = 1, .heads = {WIDTH}, .masked = 1};
static const struct space two_heads = {.width = WIDTH, .n_heads = 2, .heads = {1, 3}};

static const struct variant {
    const struct space *space;
    int delay, by_all; /* clip_by: global */
    int adam;
    float weight;                 /* of the first row; 0: no weights */
    const char *algorithm;        /* NULL: matd3 */
    int shared, has_id, own_only; /* own_only: a critic sees its own agent only */
} variants[] = {
    {&box, 2, 0, 0, 0},
    {&box, 1, 1, 0, 0.9f},
    {&box, 3, 1, 1, 0.04f}, /* the weights sum to less than 1 */
    {&masked, 2, 0, 1, 0.9f},
    {&two_heads, 2, 1, 0, 0},
    {&masked, 1, 0, 0, 0, .has_id = 1},
    {&box, 2, 1, 1, 0.9f, .shared = 1},
    {&masked, 2, 0, 1, 0.9f, .shared = 1, .has_id = 1},
    {&two_heads, 1, 1, 1, 0.9f, "maddpg", .shared = 1, .has_id = 1},
    {&box, 1, 0, 0, 0, "maddpg", .shared = 1},
    {&masked, 1, 1, 1, 0.9f, "ddpg", .shared = 1, .own_only = 1},
    {&box, 1, 0, 1, 0, "ddpg", .shared = 1, .has_id = 1, .own_only = 1},
};

static const char *name_of(const struct variant *v)
{
    return v->algorithm != NULL ? v->algorithm : "matd3";
}

static int is_twin(const struct variant *v)
{
    return v->algorithm == NULL;
}

/* ---- the team and its rows ---- */

static struct team *open_team(const struct variant *v)
{
    char config[768] = "", own[160] = "";
    struct team_args args = team_spread(config, 2 * ROWS);

    if (is_twin(v))
        (void)snprintf(own, sizeof(own),
                       ", policy_delay: %d, target_policy_noise: %g, target_noise_clip: "
                       "%g",
                       v->delay, NOISE, BOUND);
    (void)snprintf(
        config, sizeof(config),
        "{algorithm: %s, discount: %g, clip_norm: %g, polyak: %g, "
        "actor: {hidden: [%d], activation: tanh}, critic: {hidden: [%d], activation: "
        "tanh}, optimizer: {type: %s, learning_rate: %g%s}, settings: {agent_id: %s, "
        "logit_penalty: %g, clip_by: %s%s}}",
        name_of(v), DISCOUNT, CLIP, POLYAK, HIDDEN, HIDDEN, v->adam ? "adam" : "sgd",
        RATE, v->adam ? ", epsilon: 0.01" : "", v->has_id ? "true" : "false", PENALTY,
        v->by_all ? "global" : "variable", own);
    args.share = v->shared;
    args.n = AGENTS;
    args.obs = OBS;
    args.space = *v->space;
    return team_new(&args);
}

struct row {
    double obs[AGENTS][OBS], next_obs[AGENTS][OBS], action[AGENTS][WIDTH];
    double reward[AGENTS], terminated[AGENTS], alive[AGENTS];
    double allowed[AGENTS][WIDTH], next_allowed[AGENTS][WIDTH];
};

static void take_column(struct team *t, uint64_t row, size_t agent, const char *column,
                        size_t n, double *ret)
{
    const int c = store_layout_find(&t->layout, t->spaces[agent].name, column);
    float x[WIDTH];

    store_view_gather(t->store, c, &row, 1, x, n);
    for (size_t i = 0; i < n; i++)
        ret[i] = (double)x[i];
}

static void write_masks(struct team *t, uint64_t row, size_t agent, struct row *x)
{
    uint8_t now[WIDTH], next[WIDTH];

    for (size_t i = 0; i < WIDTH; i++) {
        /* in row 5 no choice is allowed, which means that all are */
        now[i] = (row + agent + i) % 3 != 0 && row != 5;
        next[i] = (row + 2 * agent + i) % 3 != 1;
        x->allowed[agent][i] = now[i] || row == 5;
        x->next_allowed[agent][i] = next[i];
    }
    team_write_mask(t, row, agent, "allowed", now);
    team_write_mask(t, row, agent, "next_allowed", next);
}

/* Row 1 of the batch is an end for both agents; row 2 is cut by a limit; agent_1 leaves
 * with row 3 and is absent in row 4. */
static void make_rows(struct team *t, uint64_t *rows, struct row *x)
{
    static const float no = 0, yes = 1;

    for (uint64_t i = 0; i < ROWS; i++) {
        rows[i] = 2 * i + 1;
        team_write_joint(t, rows[i], "truncated", i == 2);
        for (size_t k = 0; k < AGENTS; k++) {
            const int ends = i == 1 || (i == 3 && k == 1) || (i == 4 && k == 1);

            team_write(t, rows[i], k, "terminated", ends ? &yes : &no);
            team_write(t, rows[i], k, "alive", i == 4 && k == 1 ? &no : &yes);
            if (i == 4 && k == 1)
                team_write(t, rows[i], k, "reward", &no);
            take_column(t, rows[i], k, "obs", OBS, x[i].obs[k]);
            take_column(t, rows[i], k, "next_obs", OBS, x[i].next_obs[k]);
            take_column(t, rows[i], k, "action", WIDTH, x[i].action[k]);
            take_column(t, rows[i], k, "reward", 1, &x[i].reward[k]);
            take_column(t, rows[i], k, "terminated", 1, &x[i].terminated[k]);
            take_column(t, rows[i], k, "alive", 1, &x[i].alive[k]);
            for (size_t c = 0; c < WIDTH; c++)
                x[i].allowed[k][c] = x[i].next_allowed[k][c] = 1;
            if (t->args.space.masked)
                write_masks(t, rows[i], k, &x[i]);
        }
    }
}

/* ---- the algorithms, written out ---- */

struct optimizer { /* moments of a critic and its twin, or of a policy */
    double m[2 * TANH_NET_MAX], v[2 * TANH_NET_MAX];
    int steps;
};

struct learner {
    struct tanh_net critic[2], target_critic[2], policy, target_policy;
    struct optimizer critic_moments, policy_moments;
};

struct written {
    const struct variant *v;
    const struct row *x;
    double importance[ROWS];
    struct learner of[AGENTS];
    /* of the current update */
    double proposal[AGENTS][ROWS][WIDTH];
    double uniform[AGENTS][ROWS][WIDTH]; /* Gumbel noise of each agent's newest policy */
    double m[AGENTS][ROWS], y[AGENTS][ROWS];
};

static void softmax_of(const double *x, int n, double *ret)
{
    double top = -HUGE_VAL, sum = 0;

    for (int i = 0; i < n; i++)
        top = fmax(top, x[i]);
    for (int i = 0; i < n; i++)
        sum += ret[i] = exp(x[i] - top);
    for (int i = 0; i < n; i++)
        ret[i] /= sum;
}

/* An observation, followed by the id, if there is one. Returns the number of columns. */
static int see(int has_id, size_t self, const double *obs, double *ret)
{
    memcpy(ret, obs, OBS * sizeof(double));
    for (size_t k = 0; has_id && k < AGENTS; k++)
        ret[OBS + k] = k == self;
    return has_id ? INPUT : OBS;
}

/* The policy's output, and the action that it gives with the noise of a row. */
static void decide(const struct space *s, const struct tanh_net *policy, size_t self,
                   const double *obs, const double *allowed, const double *uniform,
                   double *ret_raw, double *ret_action)
{
    double scores[WIDTH], x[INPUT];
    int at = 0;

    (void)see(policy->in > OBS, self, obs, x);
    tanh_net_forward(policy, x, ret_raw);
    for (int i = 0; i < WIDTH; i++) {
        scores[i] = ret_raw[i];
        ret_action[i] = s->low + (s->high - s->low) * (tanh(ret_raw[i]) + 1) / 2;
        if (!s->box)
            scores[i] += allowed[i] != 0 ? -log(-log(uniform[i])) : -1e8;
    }
    for (int h = 0; h < s->n_heads; at += s->heads[h++])
        softmax_of(scores + at, s->heads[h], ret_action + at);
}

/* The critic's value. Agents are in their order, or the own agent is first. */
static double value(const struct variant *v, const struct tanh_net *critic, size_t self,
                    const double obs[AGENTS][OBS], const double action[AGENTS][WIDTH])
{
    const size_t first = v->shared || v->has_id || v->own_only ? self : 0;
    const size_t n_seen = v->own_only ? 1 : AGENTS;
    double x[JOINT], q;
    int n = 0;

    for (size_t i = 0; i < n_seen; i++) {
        const size_t k = (first + i) % AGENTS;

        n += see(v->has_id && k == self, k, obs[k], x + n);
    }
    for (size_t i = 0; i < n_seen; i++, n += WIDTH)
        memcpy(x + n, action[(first + i) % AGENTS], WIDTH * sizeof(double));
    ck_assert_int_eq(n, critic->in);
    tanh_net_forward(critic, x, &q);
    return q;
}

/* The divisor of means; maddpg divides by the number of rows. */
static double mass(const struct written *w, size_t self)
{
    double sum = 0;

    for (int i = 0; i < ROWS; i++)
        sum += w->m[self][i];
    return is_twin(w->v) ? fmax(sum, 1) : ROWS;
}

static double critic_loss(const struct written *w, const struct learner *l, size_t self)
{
    double sum = 0;

    for (int i = 0; i < ROWS; i++)
        for (int c = 0; c < 1 + is_twin(w->v); c++) {
            const double q =
                value(w->v, &l->critic[c], self, w->x[i].obs, w->x[i].action);

            sum += w->m[self][i] * (q - w->y[self][i]) * (q - w->y[self][i]);
        }
    return sum / mass(w, self);
}

static double policy_loss(const struct written *w, const struct learner *l, size_t self)
{
    double sum = 0;

    for (int i = 0; i < ROWS; i++) {
        const struct row *x = &w->x[i];
        const double m = is_twin(w->v) ? w->m[self][i] : 1;
        double raw[WIDTH], action[AGENTS][WIDTH], squares = 0;

        memcpy(action, x->action, sizeof(action));
        decide(w->v->space, &l->policy, self, x->obs[self], x->allowed[self],
               w->uniform[self][i], raw, action[self]);
        for (int k = 0; k < WIDTH; k++)
            squares += x->allowed[self][k] * raw[k] * raw[k];
        sum += m * (PENALTY * squares / WIDTH -
                    value(w->v, &l->critic[0], self, x->obs, action));
    }
    return sum / mass(w, self);
}

typedef double loss_fn(const struct written *, const struct learner *, size_t);

/* The mean over the rows of all agents, which share their parameters. */
static double loss_of_all(const struct written *w, const struct learner *l, loss_fn *loss)
{
    double sum = 0, rows = 0;

    for (size_t k = 0; k < AGENTS; k++) {
        sum += mass(w, k) * loss(w, l, k);
        rows += mass(w, k);
    }
    return sum / rows;
}

static double critic_loss_of_all(const struct written *w, const struct learner *l,
                                 size_t self)
{
    (void)self;
    return loss_of_all(w, l, critic_loss);
}

static double policy_loss_of_all(const struct written *w, const struct learner *l,
                                 size_t self)
{
    (void)self;
    return loss_of_all(w, l, policy_loss);
}

/* The loss with x in place of *p, which is a part of l. */
static double loss_at(const struct written *w, struct learner *l, size_t self,
                      loss_fn *loss, double *p, double x)
{
    const double before = *p;
    double ret;

    *p = x;
    ret = loss(w, l, self);
    *p = before;
    return ret;
}

/* The gradient of the loss by the n numbers at p. */
static void differentiate(const struct written *w, struct learner *l, size_t self,
                          loss_fn *loss, double *p, size_t n, double *ret)
{
    const double h = 1e-5;

    for (size_t i = 0; i < n; i++)
        ret[i] = (loss_at(w, l, self, loss, p + i, p[i] + h) -
                  loss_at(w, l, self, loss, p + i, p[i] - h)) /
                 (2 * h);
}

static double norm_of(const double *x, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

static void shorten(double *x, size_t n, double norm)
{
    for (size_t i = 0; i < n; i++)
        x[i] *= CLIP / fmax(norm, CLIP);
}

/* Clips the gradients of the tensors of the nets, and makes a step. */
static void step_down(const struct variant *v, struct tanh_net *nets, int n_nets,
                      struct optimizer *o, double *grad)
{
    const size_t size = (size_t)tanh_net_size(nets);
    const double all = norm_of(grad, size * (size_t)n_nets);
    int parts[TANH_NET_PARTS + 1];
    size_t at = 0;

    tanh_net_parts(nets, parts);
    for (int i = 0; i < n_nets * TANH_NET_PARTS; i++) {
        const int part = i % TANH_NET_PARTS;
        const size_t n = (size_t)(parts[part + 1] - parts[part]);

        shorten(grad + at, n, v->by_all ? all : norm_of(grad + at, n));
        at += n;
    }
    o->steps++;
    for (size_t i = 0; i < at; i++) {
        const double rate =
            RATE * sqrt(1 - pow(0.999, o->steps)) / (1 - pow(0.9, o->steps));
        double *p = &nets[i / size].p[i % size];

        o->m[i] = 0.9 * o->m[i] + 0.1 * grad[i];
        o->v[i] = 0.999 * o->v[i] + 0.001 * grad[i] * grad[i];
        *p -= v->adam ? rate * o->m[i] / (sqrt(o->v[i]) + 0.01) : RATE * grad[i];
    }
}

/* Draws the uniform noise of a policy in a stage; with shared parameters, in one
 * repetition of the stage. */
static void draw_uniform(struct written *w, const struct team *t, size_t agent,
                         const char *stage, const char *name, uint64_t counter)
{
    struct rng_key key = team_stage_key(t, agent, stage);
    float u[ROWS * WIDTH];
    char op[64];

    (void)snprintf(op, sizeof(op), "agent_%zu_1/%s/RandomUniform", agent, name);
    key = rng_key_derive(key, op);
    rng_uniform_f32(key, counter, 0, u, ROWS * WIDTH);
    for (int i = 0; i < ROWS * WIDTH; i++)
        w->uniform[agent][i / WIDTH][i % WIDTH] = fmax((double)u[i], (double)FLT_MIN);
}

static double bounded(double x, double low, double high)
{
    return fmin(fmax(x, low), high);
}

static void propose(struct written *w, const struct team *t, size_t k, uint64_t update)
{
    const struct space *s = w->v->space;
    const int alone = strcmp(name_of(w->v), "ddpg") == 0;
    const struct rng_key key =
        rng_key_derive(team_stage_key(t, k, "propose"), "smoothing");
    float noise[ROWS * WIDTH];

    draw_uniform(w, t, k, alone ? "gradients" : "propose", "random_uniform_1",
                 alone ? 2 * update : update);
    rng_normal_f32(key, update, 0, noise, ROWS * WIDTH);
    for (int i = 0; i < ROWS; i++) {
        double raw[WIDTH], *a = w->proposal[k][i];

        decide(s, &w->of[k].target_policy, k, w->x[i].next_obs[k],
               w->x[i].next_allowed[k], w->uniform[k][i], raw, a);
        for (int c = 0; s->box && is_twin(w->v) && c < WIDTH; c++)
            a[c] = bounded(
                a[c] + 1.5 * bounded(NOISE * (double)noise[i * WIDTH + c], -BOUND, BOUND),
                s->low, s->high);
    }
}

static void set_targets(struct written *w, size_t k)
{
    for (int i = 0; i < ROWS; i++) {
        const struct row *x = &w->x[i];
        double action[AGENTS][WIDTH], q = HUGE_VAL;

        memset(action, 0, sizeof(action)); /* of agents that are not there any more */
        for (size_t j = 0; j < AGENTS; j++)
            if (x->alive[j] != 0 && x->terminated[j] == 0)
                memcpy(action[j], w->proposal[j][i], sizeof(action[j]));
        for (int c = 0; c < 1 + is_twin(w->v); c++)
            q = fmin(q, value(w->v, &w->of[k].target_critic[c], k, x->next_obs, action));
        w->m[k][i] = x->alive[k] * w->importance[i];
        w->y[k][i] = x->reward[k] + DISCOUNT * (1 - x->terminated[k]) * q;
    }
}

static int moves_policy(const struct variant *v, uint64_t update)
{
    return (update + 1) % (uint64_t)v->delay == 0;
}

static void draw_policy_noise(struct written *w, const struct team *t, size_t k,
                              uint64_t update)
{
    draw_uniform(w, t, k, w->v->shared ? "gradients" : "learn", "random_uniform",
                 w->v->shared ? 2 * update + 1 : update);
}

/* A step of the critics, or of the policy. Returns the gradient's norm. */
static double learn_critics(struct written *w, struct learner *l, size_t k, loss_fn *loss)
{
    const size_t n = (size_t)tanh_net_size(l->critic);
    const int twins = 1 + is_twin(w->v);
    double grad[2 * TANH_NET_MAX], norm;

    for (int c = 0; c < twins; c++)
        differentiate(w, l, k, loss, l->critic[c].p, n, grad + (size_t)c * n);
    norm = norm_of(grad, (size_t)twins * n);
    step_down(w->v, l->critic, twins, &l->critic_moments, grad);
    return norm;
}

static double learn_policy(struct written *w, struct learner *l, size_t k, loss_fn *loss)
{
    double grad[TANH_NET_MAX], norm;

    differentiate(w, l, k, loss, l->policy.p, (size_t)tanh_net_size(&l->policy), grad);
    norm = norm_of(grad, (size_t)tanh_net_size(&l->policy));
    step_down(w->v, &l->policy, 1, &l->policy_moments, grad);
    return norm;
}

static void follow_all(const struct variant *v, struct learner *l)
{
    for (int c = 0; c < 1 + is_twin(v); c++)
        tanh_net_follow(&l->target_critic[c], &l->critic[c], POLYAK);
    tanh_net_follow(&l->target_policy, &l->policy, POLYAK);
}

/* Agent k's update after all proposals. Returns the losses before the steps and the norms
 * of the gradients; those of the policy are 0 if it does not learn in this update. */
static void learn(struct written *w, const struct team *t, size_t k, uint64_t update,
                  double ret[4])
{
    struct learner *l = &w->of[k];

    set_targets(w, k);
    ret[0] = critic_loss(w, l, k);
    ret[1] = learn_critics(w, l, k, critic_loss);
    ret[2] = ret[3] = 0;
    if (!moves_policy(w->v, update))
        return;
    draw_policy_noise(w, t, k, update);
    ret[2] = policy_loss(w, l, k);
    ret[3] = learn_policy(w, l, k, policy_loss);
    follow_all(w->v, l);
}

/* ---- the networks of the team ---- */

static void take_learner(struct team *t, const struct variant *v, size_t k,
                         struct learner *l)
{
    tanh_net_read(&l->critic[0], t, k, "q_func");
    tanh_net_read(&l->target_critic[0], t, k, "target_q_func");
    if (is_twin(v)) {
        tanh_net_read(&l->critic[1], t, k, "q_func/twin");
        tanh_net_read(&l->target_critic[1], t, k, "target_q_func/twin");
    }
    tanh_net_read(&l->policy, t, k, "p_func");
    tanh_net_read(&l->target_policy, t, k, "target_p_func");
}

static void check_learner(struct team *t, const struct variant *v, size_t k,
                          const struct learner *want)
{
    static struct learner got;

    take_learner(t, v, k, &got);
    for (int c = 0; c < 1 + is_twin(v); c++) {
        tanh_net_check("critic", &got.critic[c], &want->critic[c]);
        tanh_net_check("target critic", &got.target_critic[c], &want->target_critic[c]);
    }
    tanh_net_check("policy", &got.policy, &want->policy);
    tanh_net_check("target policy", &got.target_policy, &want->target_policy);
}

static void check_priorities(const struct written *w, const struct member *m, size_t k)
{
    ck_assert(shape_equal(&m->priorities.shape, &SHAPE(1, ROWS)));
    for (int i = 0; i < ROWS; i++) {
        double td = 0;

        for (int c = 0; c < 1 + is_twin(w->v) && w->m[k][i] != 0; c++)
            td = fmax(td, fabs(value(w->v, &w->of[k].critic[c], k, w->x[i].obs,
                                     w->x[i].action) -
                               w->y[k][i]));
        ck_assert_double_eq_tol((double)tensor_f32(&m->priorities)[i], td, 1e-5);
    }
}

/* want: losses and norms, as returned by `learn`. */
static void check_scalars(const struct member *m, const double want[4])
{
    ck_assert_double_eq_tol(team_scalar(m, "critic_loss"), want[0], 1e-5);
    ck_assert_double_eq_tol(team_scalar(m, "critic_grad_norm"), want[1], 1e-5 * want[1]);
    ck_assert_double_gt(want[1], CLIP);
    ck_assert_int_eq(m->learned.n_scalars, want[3] > 0 ? 10 : 7);
    if (want[3] > 0) {
        ck_assert_double_eq_tol(team_scalar(m, "actor_loss"), want[2], 1e-5);
        ck_assert_double_eq_tol(team_scalar(m, "actor_grad_norm"), want[3], 1e-5);
    }
}

/* The update of agents that share parameters: the mean over everyone's rows makes each
 * step. */
static void check_shared_update(struct written *w, struct team *t, uint64_t update,
                                int has_weights)
{
    const struct member *ps = &t->members[AGENTS];
    const int moves = moves_policy(w->v, update);
    struct learner *l = &w->of[0];
    double norm;

    for (size_t k = 0; k < AGENTS; k++) {
        const struct member *m = &t->members[k];

        set_targets(w, k);
        ck_assert_double_eq_tol(team_scalar(m, "critic_loss"), critic_loss(w, l, k),
                                1e-5);
        if (has_weights)
            check_priorities(w, m, k);
        draw_policy_noise(w, t, k, update);
    }
    norm = learn_critics(w, l, 0, critic_loss_of_all);
    ck_assert_double_eq_tol(team_scalar(ps, "critic_grad_norm"), norm, 1e-5 * norm);
    ck_assert_int_eq(ps->learned.n_scalars, 2 * (1 + moves)); /* norms, rates */
    for (size_t k = 0; k < AGENTS && moves; k++)
        ck_assert_double_eq_tol(team_scalar(&t->members[k], "actor_loss"),
                                policy_loss(w, l, k), 1e-5);
    if (moves) {
        norm = learn_policy(w, l, 0, policy_loss_of_all);
        ck_assert_double_eq_tol(team_scalar(ps, "actor_grad_norm"), norm, 1e-5);
        follow_all(w->v, l);
    }
    for (size_t k = 0; k < AGENTS; k++)
        check_learner(t, w->v, k, l);
}

START_TEST(test_updates_written_out)
{
    const struct variant *v = &variants[_i];
    static struct written w;
    struct row x[ROWS];
    uint64_t rows[ROWS];
    float weights[ROWS];
    struct team *t = open_team(v);

    memset(&w, 0, sizeof(w));
    w.v = v;
    w.x = x;
    make_rows(t, rows, x);
    for (int i = 0; i < ROWS; i++) {
        weights[i] = v->weight > 0 ? v->weight / (float)(1 + i) : 1;
        w.importance[i] = (double)weights[i];
    }
    for (size_t k = 0; k < AGENTS; k++)
        take_learner(t, v, k, &w.of[k]);
    for (uint64_t u = 0; u < UPDATES; u++) {
        team_update(t, u, rows, 1, ROWS, v->weight > 0 ? weights : NULL);
        for (size_t k = 0; k < AGENTS; k++)
            propose(&w, t, k, u);
        if (v->shared)
            check_shared_update(&w, t, u, v->weight > 0);
        for (size_t k = 0; k < AGENTS && !v->shared; k++) {
            double want[4];

            set_targets(&w, k);
            if (v->weight > 0)
                check_priorities(&w, &t->members[k], k);
            learn(&w, t, k, u, want);
            check_scalars(&t->members[k], want);
            check_learner(t, v, k, &w.of[k]);
        }
        for (size_t k = 0; k < AGENTS; k++)
            /* starts from the team's values, so that rounding errors do not add up */
            take_learner(t, v, k, &w.of[k]);
    }
    team_free(t);
}
END_TEST

/* ---- acting ---- */

/* Each agent acts with its own id. */
START_TEST(test_acts_greedily)
{
    const struct variant *v = &variants[_i];
    const struct space *s = v->space;
    static const uint64_t counter[ROWS], first[ROWS];
    static struct learner l;
    struct row x[ROWS];
    uint64_t rows[ROWS];
    struct team *t = open_team(v);

    make_rows(t, rows, x);
    for (size_t k = 0; k < AGENTS; k++) {
        float obs[ROWS * OBS], got[ROWS * WIDTH];
        const struct act_args act = {.mode = ACT_GREEDY,
                                     .n_copies = ROWS,
                                     .obs = obs,
                                     .key = rng_key_make(7, "test", PURPOSE_ACT),
                                     .counter = counter,
                                     .draw_first = first};
        struct act_result res = {.actions = got};
        struct err err;

        take_learner(t, v, k, &l);
        for (int i = 0; i < ROWS * OBS; i++)
            obs[i] = (float)x[i / OBS].obs[k][i % OBS];
        ck_assert_int_eq(t->members[k].ops->act(t->members[k].algo, t->members[k].session,
                                                &act, &res, &err),
                         0);
        for (int i = 0; i < ROWS; i++) {
            double in[INPUT], raw[WIDTH];

            (void)see(v->has_id, k, x[i].obs[k], in);
            tanh_net_forward(&l.policy, in, raw);
            for (int c = 0; s->box && c < WIDTH; c++)
                ck_assert_double_eq_tol(
                    (double)got[i * WIDTH + c],
                    s->low + (s->high - s->low) * (tanh(raw[c]) + 1) / 2, 1e-5);
            for (int h = 0, at = 0; h < s->n_heads; at += s->heads[h++]) {
                int best = at;

                for (int c = at; c < at + s->heads[h]; c++)
                    best = raw[c] > raw[best] ? c : best;
                ck_assert_float_eq(got[i * WIDTH + best], 1);
            }
        }
    }
    team_free(t);
}
END_TEST

/* ---- the delay ---- */

/* Between updates of the policy, stage learn does not change the block. An agent that
 * takes over at any update goes on in the same way. */
START_TEST(test_delay_counts_updates)
{
    struct team *a = open_team(&variants[2]), *b = open_team(&variants[2]);
    const size_t bytes = session_block_bytes(a->members[0].session);
    char *before = xmalloc(bytes);
    struct row x[ROWS];
    uint64_t rows[ROWS];
    struct stage_result res;
    struct err err;

    make_rows(a, rows, x);
    make_rows(b, rows, x);
    for (uint64_t u = 0; u < 7; u++) {
        session_snapshot(a->members[1].session, before);
        ck_assert_int_eq(team_stage(a, 1, "learn", u, rows, 1, ROWS, NULL, &res, &err),
                         0);
        ck_assert_int_eq(memcmp(before, session_block(a->members[1].session), bytes) == 0,
                         u % 3 != 2);
        session_restore(b->members[1].session, before);
        ck_assert_int_eq(team_stage(b, 1, "learn", u, rows, 1, ROWS, NULL, &res, &err),
                         0);
        ck_assert_mem_eq(session_block(a->members[1].session),
                         session_block(b->members[1].session), bytes);
    }
    free(before);
    team_free(a);
    team_free(b);
}
END_TEST

/* ---- forms of the critic ---- */

static const char *const forms[] = {
    "{algorithm: matd3, critic: {input: own}}",
    "{algorithm: matd3, critic: {hidden: [16], after_action: [8], output_init: 0.003}}",
    "{algorithm: matd3, critic: {hidden: [16]}, optimizer: {type: accept_reject}}",
};

/* Both critics have their own variables from the start, and both learn. */
START_TEST(test_twins_differ)
{
    const char *layer =
        _i == 1 ? "output/fully_connected/weights" : "fully_connected/weights";
    struct team_args args = team_spread(forms[_i], 50);
    struct team *t = team_new(&args);
    char name[2][96], target[96];
    struct tensor now[2], twin_target;
    float first[2];
    uint64_t rows[32];

    (void)snprintf(name[0], sizeof(name[0]), "q_func/%s", layer);
    (void)snprintf(name[1], sizeof(name[1]), "q_func/twin/%s", layer);
    (void)snprintf(target, sizeof(target), "target_q_func/twin/%s", layer);
    for (int c = 0; c < 2; c++) {
        now[c] = team_variable(t, 0, name[c]);
        first[c] = tensor_f32(&now[c])[0];
    }
    twin_target = team_variable(t, 0, target);
    ck_assert(tensor_equal(&now[1], &twin_target));
    ck_assert_float_ne(first[0], first[1]);
    rng_below(rng_key_make(3, "test", "rows"), 0, 0, 50, rows, 32);
    for (uint64_t u = 0; u < 8; u++)
        team_update(t, u, rows, 1, 32, NULL);
    ck_assert(isfinite(team_scalar(&t->members[0], "critic_loss")));
    for (int c = 0; c < 2; c++)
        ck_assert_float_ne(first[c], tensor_f32(&now[c])[0]);
    ck_assert(!tensor_equal(&now[1], &twin_target));
    team_free(t);
}
END_TEST

/* ---- learning ---- */

/* One agent (which makes it TD3) in a world of one step: an action a has the reward
 * -(a - obs / 2)^2, and the policy finds a = obs / 2. */
START_TEST(test_finds_the_best_action)
{
    enum { N = 256, BATCH = 64 };
    struct team_args args = team_spread(
        "{algorithm: matd3, polyak: 0.05, actor: {hidden: [16]}, critic: {hidden: [32]}, "
        "optimizer: {learning_rate: 0.005}, clip_norm: none, settings: {logit_penalty: "
        "0}}",
        N);
    struct team *t;
    const uint64_t counter[1] = {0}, draw_first[1] = {0};
    double worst = 0;

    args.n = 1;
    args.obs = 1;
    args.space = (struct space){.box = 1, .width = 1, .low = -1, .high = 1};
    t = team_new(&args);
    for (uint64_t row = 0; row < N; row++) {
        float x[2], reward, end = 1;

        rng_uniform_f32(rng_key_make(5, "test", "actions"), row, 0, x, 2);
        x[0] = 2 * x[0] - 1;
        x[1] = 2 * x[1] - 1;
        reward = -(x[1] - x[0] / 2) * (x[1] - x[0] / 2);
        team_write(t, row, 0, "obs", &x[0]);
        team_write(t, row, 0, "action", &x[1]);
        team_write(t, row, 0, "reward", &reward);
        team_write(t, row, 0, "terminated", &end);
    }
    for (uint64_t u = 0; u < 1500; u++) {
        uint64_t rows[BATCH];

        rng_below(rng_key_make(3, "test", "rows"), u, 0, N, rows, BATCH);
        team_update(t, u, rows, 1, BATCH, NULL);
    }
    for (float obs = -0.9f; obs < 1; obs += 0.3f) {
        float action;
        const struct act_args act = {.mode = ACT_GREEDY,
                                     .n_copies = 1,
                                     .obs = &obs,
                                     .key = rng_key_make(7, "agent_0", PURPOSE_ACT),
                                     .counter = counter,
                                     .draw_first = draw_first};
        struct act_result res = {.actions = &action};
        struct err err;

        ck_assert_int_eq(t->members[0].ops->act(t->members[0].algo, t->members[0].session,
                                                &act, &res, &err),
                         0);
        worst = fmax(worst, fabs((double)(action - obs / 2)));
    }
    ck_assert_double_lt(worst, 0.1);
    team_free(t);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("matd3");
    TCase *tc = tcase_create("matd3");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, test_updates_written_out, 0,
                        sizeof(variants) / sizeof(variants[0]));
    tcase_add_loop_test(tc, test_acts_greedily, 0,
                        sizeof(variants) / sizeof(variants[0]));
    tcase_add_test(tc, test_delay_counts_updates);
    tcase_add_loop_test(tc, test_twins_differ, 0, sizeof(forms) / sizeof(forms[0]));
    tcase_add_test(tc, test_finds_the_best_action);
    suite_add_tcase(suite, tc);
    return suite;
}
TEST_MAIN(make_suite)
