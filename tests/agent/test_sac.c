/* isac and masac against the formulas of sac.c, written out here in double precision:
 * gradients by finite differences, steps of plain gradient descent. */
#include "agent/algo/choices.h"
#include "common/rng/rng.h"
#include "tests/support/agent_config.h"
#include "tests/support/tanh_net.h"
#include "tests/support/test_main.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    AGENTS = 2,
    OBS = 3,
    WIDTH_MAX = 4,
    HIDDEN = 5,
    B = 6,
    IN_MAX = AGENTS * (OBS + WIDTH_MAX) + AGENTS,
    OUT_MAX = 2 * WIDTH_MAX,
    UPDATES = 3
};
#define DISCOUNT 0.75
#define POLYAK   0.25
#define RATE     0.1
#define ALPHA    0.6
#define SHARE    0.3 /* target_entropy_share */
#define EACH     -0.8

static const struct space discrete = {.width = 4, .n_heads = 1, .heads = {4}};
static const struct space masked = {.width = 4, .n_heads = 1, .heads = {4}, .masked = 1};
static const struct space two_heads = {
    .width = 4, .n_heads = 2, .heads = {2, 2}, .masked = 1};
static const struct space box = {.box = 1, .width = 2, .low = -2, .high = 1};

struct variant {
    const char *algorithm, *critic;
    const struct space *space;
    int joint;
    int64_t groups;
    int weighted;
    double clip_norm;
    int shared, has_id; /* agents share parameters; agents see their id */
};

static const struct variant variants[] = {
    {"masac", "", &discrete, 1, 1, 0, 5},
    {"masac", "", &masked, 1, 1, 1, 0.3},
    {"masac", "", &two_heads, 1, AGENTS, 1, 5},
    {"masac", ", input: own", &masked, 0, 1, 0, 0.3},
    {"isac", "", &masked, 0, AGENTS, 1, 5},
    {"isac", "", &box, 0, 1, 1, 5},
    {"masac", "", &box, 1, 1, 0, 0.3},
    {"masac", "", &box, 1, AGENTS, 1, 5},
    {"masac", "", &two_heads, 1, 1, 0, 0.3, .has_id = 1},
    {"masac", "", &masked, 1, 1, 1, 0.3, .shared = 1},
    {"masac", "", &discrete, 1, AGENTS, 0, 5, .shared = 1, .has_id = 1},
    {"masac", "", &box, 1, AGENTS, 1, 5, .shared = 1, .has_id = 1},
    {"isac", "", &masked, 0, AGENTS, 1, 5, .shared = 1, .has_id = 1},
    {"isac", "", &box, 0, 1, 1, 0.3, .shared = 1},
};
enum { N_VARIANTS = sizeof(variants) / sizeof(variants[0]) };

/* ---- rows ---- */

struct row {
    float obs[OBS], next_obs[OBS], action[WIDTH_MAX], reward, terminated, alive;
    uint8_t allowed[WIDTH_MAX], next_allowed[WIDTH_MAX];
};

struct data { /* of a group of rows, as the log has them */
    struct row row[B][AGENTS];
    float weight[B];
};

static int allows_some(const struct space *s, const uint8_t *mask)
{
    for (int h = 0; h < s->n_heads; mask += s->heads[h++])
        if (memchr(mask, 1, (size_t)s->heads[h]) == NULL)
            return 0;
    return 1;
}

static void make_mask(const struct space *s, uint64_t draw, uint8_t *ret)
{
    do {
        for (int64_t c = 0; c < s->width; c++)
            ret[c] = !s->masked || (draw >> c & 3) != 0;
        draw = draw / 3 + 1;
    } while (s->masked && !allows_some(s, ret));
}

/* Row 1 is cut by a limit; row 2 is an end for both; agent_1 leaves after row 3; agent_0
 * is absent in row 4; in row 5 of a masked space only one choice is allowed. */
static void make_rows(struct data *d, const struct space *s, uint64_t group)
{
    for (uint64_t i = 0; i < B; i++)
        for (uint64_t k = 0; k < AGENTS; k++) {
            const struct rng_key key = rng_key_make(11, "test", k ? "one" : "zero");
            struct row *x = &d->row[i][k];
            const uint64_t at = group * B + i;
            float draw[2 * OBS + WIDTH_MAX + 1];
            uint64_t any[3];

            rng_uniform_f32(key, at, 0, draw, sizeof(draw) / sizeof(draw[0]));
            rng_below(key, at, 64, 1u << 20, any, 3);
            *x = (struct row){.reward = 2 * draw[0] - 1, .alive = !(i == 4 && k == 0)};
            for (int o = 0; o < OBS; o++) {
                x->obs[o] = 2 * draw[1 + o] - 1;
                x->next_obs[o] = 2 * draw[1 + OBS + o] - 1;
            }
            make_mask(s, any[0], x->allowed);
            make_mask(s, any[1], x->next_allowed);
            if (s->masked && i == 5) {
                memset(x->allowed, 0, sizeof(x->allowed));
                x->allowed[0] = x->allowed[s->width - 1] = 1;
                x->allowed[0] = s->n_heads == 2;
            }
            x->terminated = i == 2 || (i == 3 && k == 1) || (i == 4 && k == 0);
            d->weight[i] = (float)(1 + i % 3) * 0.5f;
            if (x->alive == 0) {
                x->reward = 0;
                continue;
            }
            if (s->box)
                for (int c = 0; c < s->width; c++)
                    x->action[c] = (float)(s->low + (s->high - s->low) *
                                                        (double)draw[1 + 2 * OBS + c]);
            else
                choice_to_action(s, (int32_t)(any[2] % 4), x->action);
        }
}

static void write_rows(struct team *t, const struct data *d, uint64_t first)
{
    for (uint64_t i = 0; i < B; i++) {
        team_write_joint(t, first + i, "truncated", i == 1);
        for (size_t k = 0; k < AGENTS; k++) {
            const struct row *x = &d->row[i][k];

            team_write(t, first + i, k, "obs", x->obs);
            team_write(t, first + i, k, "next_obs", x->next_obs);
            team_write(t, first + i, k, "action", x->action);
            team_write(t, first + i, k, "reward", &x->reward);
            team_write(t, first + i, k, "terminated", &x->terminated);
            team_write(t, first + i, k, "alive", &x->alive);
            if (!t->args.space.masked)
                continue;
            team_write_mask(t, first + i, k, "allowed", x->allowed);
            team_write_mask(t, first + i, k, "next_allowed", x->next_allowed);
        }
    }
}

static struct team *open_team(const struct variant *v)
{
    char config[512] = "";
    struct team_args args = team_spread(config, (uint64_t)v->groups * B);

    (void)snprintf(config, sizeof(config),
                   "{algorithm: %s, discount: %g, polyak: %g, clip_norm: %g, optimizer: "
                   "{type: sgd, learning_rate: %g}, actor: {hidden: [%d], activation: "
                   "tanh}, critic: {hidden: [%d], activation: tanh%s}, settings: "
                   "{initial_alpha: %g, target_entropy_share: %g, target_entropy_each: "
                   "%g, agent_id: %s}}",
                   v->algorithm, DISCOUNT, POLYAK, v->clip_norm, RATE, HIDDEN, HIDDEN,
                   v->critic, ALPHA, SHARE, EACH, v->has_id ? "true" : "false");
    args.share = v->shared;
    args.n = AGENTS;
    args.obs = OBS;
    args.space = *v->space;
    return team_new(&args);
}

/* ---- the algorithms, written out ---- */

struct agent { /* an agent, and the parts of its loss */
    struct tanh_net actor, q[2], target[2];
    double log_alpha;
    const struct data *d; /* of its group */
    double weight[B];     /* of each row in the means */
    double mass;          /* the divisor of the rows' own weights; 0: all of them are 0 */
    double y[B];
};

struct written {
    const struct variant *v;
    const struct space *s;
    size_t self; /* the agent whose losses are computed */
    struct agent agent[AGENTS];
    double proposal[AGENTS][AGENTS][B][WIDTH_MAX]; /* [agent][group] */
    double log_prob[AGENTS][AGENTS][B][WIDTH_MAX];
    float noise[AGENTS][B * WIDTH_MAX]; /* for the actor's loss; box */
};

static int is_possible(const struct space *s, const uint8_t *mask, int choice)
{
    float action[WIDTH_MAX];

    choice_to_action(s, choice, action);
    for (int64_t c = 0; c < s->width; c++)
        if (action[c] > 0 && !mask[c])
            return 0;
    return 1;
}

/* The input of the policy of agent `self`: its observation, and its id if there is one.
 * Returns the number of columns. */
static int see(int has_id, size_t self, const float *obs, double *ret)
{
    int n = 0;

    for (int o = 0; o < OBS; o++)
        ret[n++] = (double)obs[o];
    for (size_t k = 0; has_id && k < AGENTS; k++)
        ret[n++] = k == self;
    return n;
}

/* log pi of each choice, or -infinity. */
static void categorical(const struct space *s, const struct tanh_net *actor, size_t self,
                        const float *obs, const uint8_t *mask, double *ret)
{
    double x[OBS + AGENTS], sum = 0;

    (void)see(actor->in > OBS, self, obs, x);
    tanh_net_forward(actor, x, ret);
    for (int c = 0; c < 4; c++)
        sum += is_possible(s, mask, c) ? exp(ret[c]) : 0;
    for (int c = 0; c < 4; c++)
        ret[c] = is_possible(s, mask, c) ? ret[c] - log(sum) : -HUGE_VAL;
}

/* An action and the logarithm of its density in units of (-1, 1). */
static double squashed(const struct space *s, const struct tanh_net *actor, size_t self,
                       const float *obs, const float *noise, double *ret)
{
    double x[OBS + AGENTS], out[OUT_MAX], log_prob = 0;

    (void)see(actor->in > OBS, self, obs, x);
    tanh_net_forward(actor, x, out);
    for (int64_t c = 0; c < s->width; c++) {
        const double log_std = fmin(fmax(out[s->width + c], -20), 2);
        const double z = (double)noise[c], y = tanh(out[c] + exp(log_std) * z);

        ret[c] = (s->low + s->high) / 2 + (s->high - s->low) / 2 * y;
        log_prob -= z * z / 2 + log_std + log(2 * acos(-1)) / 2 + log(1 - y * y);
    }
    return log_prob;
}

/* The input of the critics in row i, without the own action: in the agents' order, or
 * with the own agent first. actions: of the others. Returns the number of columns. */
static int state_of(const struct written *w, const struct row x[AGENTS], int next,
                    const double actions[AGENTS][WIDTH_MAX], double *ret)
{
    const size_t first = w->v->shared || w->v->has_id ? w->self : 0;
    int n = 0;

    for (size_t i = 0; i < AGENTS; i++) {
        const size_t k = (first + i) % AGENTS;

        if (w->v->joint || k == w->self)
            n += see(w->v->has_id && k == w->self, k, next ? x[k].next_obs : x[k].obs,
                     ret + n);
    }
    for (size_t k = 0; k < AGENTS; k++)
        for (int64_t c = 0; w->v->joint && k != w->self && c < w->s->width; c++)
            ret[n++] = actions[k][c];
    return n;
}

/* The smaller values of the two critics, for all choices or for the action. */
static void judge(const struct tanh_net q[2], double *state, int n, const double *action,
                  int64_t width, double *ret)
{
    double other[OUT_MAX];

    for (int64_t c = 0; c < width; c++)
        state[n + c] = action[c];
    tanh_net_forward(&q[0], state, ret);
    tanh_net_forward(&q[1], state, other);
    for (int c = 0; c < q[0].out; c++)
        ret[c] = fmin(ret[c], other[c]);
}

static void expect_targets(struct written *w, int64_t group)
{
    struct agent *a = &w->agent[w->self];
    double weights = 0;

    for (int i = 0; i < B; i++) {
        const struct row *x = &a->d->row[i][w->self];

        a->weight[i] = (double)x->alive * (w->v->weighted ? (double)a->d->weight[i] : 1);
        weights += a->weight[i];
    }
    for (int i = 0; i < B; i++) {
        const struct row *x = a->d->row[i];
        double state[IN_MAX], q[OUT_MAX], actions[AGENTS][WIDTH_MAX], v = 0;
        const double *log_p = w->log_prob[w->self][group][i];
        int n;

        for (size_t k = 0; k < AGENTS; k++)
            memcpy(actions[k], w->proposal[k][group][i], sizeof(actions[k]));
        n = state_of(w, x, 1, actions, state);
        judge(a->target, state, n, actions[w->self], w->s->box ? w->s->width : 0, q);
        if (w->s->box)
            v = q[0] - exp(a->log_alpha) * log_p[0];
        for (int c = 0; !w->s->box && c < 4; c++)
            v += isinf(log_p[c]) ? 0
                                 : exp(log_p[c]) * (q[c] - exp(a->log_alpha) * log_p[c]);
        a->y[i] = (double)x[w->self].reward +
                  DISCOUNT * (1 - (double)x[w->self].terminated) * v;
        a->weight[i] /= fmax(weights, 1);
    }
    a->mass = weights > 0 ? fmax(weights, 1) : 0;
}

/* The errors of both critics in row i. */
static void errors(const struct written *w, int i, double ret[2])
{
    const struct agent *a = &w->agent[w->self];
    const struct row *x = a->d->row[i];
    double state[IN_MAX], q[OUT_MAX], actions[AGENTS][WIDTH_MAX];
    int n;

    for (size_t k = 0; k < AGENTS; k++)
        for (int c = 0; c < WIDTH_MAX; c++)
            actions[k][c] = (double)x[k].action[c];
    n = state_of(w, x, 0, actions, state);
    for (int64_t c = 0; w->s->box && c < w->s->width; c++)
        state[n + c] = actions[w->self][c];
    for (int k = 0; k < 2; k++) {
        tanh_net_forward(&a->q[k], state, q);
        ret[k] = q[w->s->box ? 0 : choice_of_action(w->s, x[w->self].action)] - a->y[i];
    }
}

static double critic_loss(const struct written *w)
{
    double sum = 0, e[2];

    for (int i = 0; i < B; i++) {
        errors(w, i, e);
        sum += w->agent[w->self].weight[i] * (e[0] * e[0] + e[1] * e[1]) / 2;
    }
    return sum;
}

/* Returns the mean of alpha log pi - Q; *ret_entropy: that of -log pi; *ret_excess: that
 * of log pi + H. */
static double actor_losses(const struct written *w, double *ret_entropy,
                           double *ret_excess)
{
    const struct agent *a = &w->agent[w->self];
    const double alpha = exp(a->log_alpha);
    double loss = 0;

    *ret_entropy = *ret_excess = 0;
    for (int i = 0; i < B; i++) {
        const struct row *x = a->d->row[i], *own = &x[w->self];
        double state[IN_MAX], q[OUT_MAX], actions[AGENTS][WIDTH_MAX], log_p[OUT_MAX];
        double entropy = 0, target = EACH * (double)w->s->width;
        int n, possible = 0;

        for (size_t k = 0; k < AGENTS; k++)
            for (int c = 0; c < WIDTH_MAX; c++)
                actions[k][c] = (double)x[k].action[c];
        n = state_of(w, x, 0, actions, state);
        if (w->s->box) {
            entropy = -squashed(w->s, &a->actor, w->self, own->obs,
                                w->noise[w->self] + i * w->s->width, actions[w->self]);
            judge(a->q, state, n, actions[w->self], w->s->width, q);
            loss -= a->weight[i] * (alpha * entropy + q[0]);
        } else {
            judge(a->q, state, n, NULL, 0, q);
            categorical(w->s, &a->actor, w->self, own->obs, own->allowed, log_p);
            for (int c = 0; c < 4; c++) {
                if (isinf(log_p[c]))
                    continue;
                possible++;
                entropy -= exp(log_p[c]) * log_p[c];
                loss += a->weight[i] * exp(log_p[c]) * (alpha * log_p[c] - q[c]);
            }
            target = SHARE * log((double)possible);
        }
        *ret_entropy += a->weight[i] * entropy;
        *ret_excess += a->weight[i] * (target - entropy);
    }
    return loss;
}

static double actor_loss(const struct written *w)
{
    double entropy, excess;

    return actor_losses(w, &entropy, &excess);
}

/* One clipped step of gradient descent on the parameters of n nets. Returns the
 * gradient's norm. */
static double descend(const struct written *w, double (*loss)(const struct written *),
                      struct tanh_net *const *nets, int n)
{
    static double grad[2][TANH_NET_MAX];
    double norm = 0;

    for (int k = 0; k < n; k++)
        for (int i = 0; i < tanh_net_size(nets[k]); i++) {
            const double v = nets[k]->p[i], h = 1e-5;
            double above;

            nets[k]->p[i] = v + h;
            above = loss(w);
            nets[k]->p[i] = v - h;
            grad[k][i] = (above - loss(w)) / (2 * h);
            nets[k]->p[i] = v;
            norm += grad[k][i] * grad[k][i];
        }
    norm = sqrt(norm);
    for (int k = 0; k < n; k++)
        for (int i = 0; i < tanh_net_size(nets[k]); i++)
            nets[k]->p[i] -=
                RATE * grad[k][i] * w->v->clip_norm / fmax(norm, w->v->clip_norm);
    return norm;
}

/* ---- the team's variables ---- */

static void take(struct team *t, size_t k, struct agent *a)
{
    const struct tensor log_alpha = team_variable(t, k, "temperature/log_alpha");

    tanh_net_read(&a->actor, t, k, "p_func");
    tanh_net_read(&a->q[0], t, k, "q_func");
    tanh_net_read(&a->q[1], t, k, "q_func/twin");
    tanh_net_read(&a->target[0], t, k, "target_q_func");
    tanh_net_read(&a->target[1], t, k, "target_q_func/twin");
    a->log_alpha = (double)tensor_f32(&log_alpha)[0];
}

static void check_agent(struct team *t, size_t k, const struct agent *want)
{
    static struct agent got;

    take(t, k, &got);
    tanh_net_check("actor", &got.actor, &want->actor);
    for (int i = 0; i < 2; i++) {
        tanh_net_check("critic", &got.q[i], &want->q[i]);
        tanh_net_check("target critic", &got.target[i], &want->target[i]);
    }
    ck_assert_double_eq_tol(got.log_alpha, want->log_alpha, 1e-5);
}

/* ---- an update ---- */

static struct rng_key noise_key(const struct team *t, size_t k, const char *stage,
                                const char *label)
{
    return rng_key_derive(team_stage_key(t, k, stage), label);
}

/* Agent k's proposals for the rows of `groups` groups, beginning with `first`, with
 * consecutive draws. */
static void expect_proposals(struct written *w, const struct team *t, size_t k,
                             const struct data *d, int64_t first, int64_t groups,
                             uint64_t update)
{
    const int alone = strcmp(w->v->algorithm, "isac") == 0;
    const char *stage = !alone ? "propose" : w->v->shared ? "gradients" : "learn";
    const struct rng_key key = noise_key(t, k, stage, "next");
    const uint64_t counter = alone && w->v->shared ? 2 * update : update;
    const size_t each = w->s->box ? (size_t)w->s->width : 1;
    float noise[AGENTS * B * WIDTH_MAX];

    if (w->s->box)
        rng_normal_f32(key, counter, 0, noise, (size_t)groups * B * each);
    else
        rng_uniform_f32(key, counter, 0, noise, (size_t)groups * B);
    for (int64_t i = 0; i < groups * B; i++) {
        const int64_t group = first + i / B;
        const struct row *x = &d[group].row[i % B][k];
        double *action = w->proposal[k][group][i % B], below = 0;
        double *log_p = w->log_prob[k][group][i % B];
        float chosen[WIDTH_MAX] = {0};
        int choice = -1;

        if (w->s->box) {
            log_p[0] = squashed(w->s, &w->agent[k].actor, k, x->next_obs,
                                noise + (size_t)i * each, action);
        } else {
            categorical(w->s, &w->agent[k].actor, k, x->next_obs, x->next_allowed, log_p);
            while (below <= (double)noise[i])
                below += exp(log_p[++choice]);
            choice_to_action(w->s, choice, chosen);
        }
        for (int64_t c = 0; !w->s->box && c < w->s->width; c++)
            action[c] = (double)chosen[c];
        for (int64_t c = 0; c < w->s->width; c++)
            action[c] *= x->alive > 0 && x->terminated == 0;
    }
}

/* Prepares agent k's update: its targets, and the noise of its actor. */
static void expect_rows(struct written *w, const struct team *t, size_t k,
                        const struct data *d, uint64_t update)
{
    const int64_t group = w->v->groups > 1 ? (int64_t)k : 0;
    const char *stage = w->v->shared ? "gradients" : "learn";
    const uint64_t counter = w->v->shared ? 2 * update + 1 : update;

    w->self = k;
    w->agent[k].d = &d[group];
    if (strcmp(w->v->algorithm, "isac") == 0)
        expect_proposals(w, t, k, d, group, 1, update);
    expect_targets(w, group);
    rng_normal_f32(noise_key(t, k, stage, "now"), counter, 0, w->noise[k],
                   B * WIDTH_MAX / 2);
}

static void check_critic(const struct written *w, const struct member *m)
{
    double e[2];

    for (int i = 0; w->v->weighted && i < B; i++) {
        errors(w, i, e);
        ck_assert_double_eq_tol(
            (double)tensor_f32(&m->priorities)[i],
            w->agent[w->self].weight[i] != 0 ? fmax(fabs(e[0]), fabs(e[1])) : 0, 1e-5);
    }
    ck_assert_double_eq_tol(team_scalar(m, "critic_loss"), critic_loss(w), 1e-5);
}

/* Checks the actor's scalars; returns the mean of log pi + H, which moves the
 * temperature. */
static double check_actor(const struct written *w, const struct member *m)
{
    const struct agent *a = &w->agent[w->self];
    double entropy, excess;

    ck_assert_double_eq_tol(team_scalar(m, "actor_loss"),
                            actor_losses(w, &entropy, &excess), 1e-5);
    ck_assert_double_eq_tol(team_scalar(m, "entropy"), entropy, 1e-5);
    ck_assert_double_eq_tol(team_scalar(m, "alpha"), exp(a->log_alpha), 1e-5);
    return excess;
}

/* Updates temperature and targets; the gradient of the temperature is that of -log_alpha
 * excess. */
static void expect_rest(const struct written *w, struct agent *a, double excess)
{
    a->log_alpha += RATE * fmin(fmax(excess, -w->v->clip_norm), w->v->clip_norm);
    for (int q = 0; q < 2; q++)
        tanh_net_follow(&a->target[q], &a->q[q], POLYAK);
}

/* Computes agent k's update, compares it with the reported scalars, and updates its
 * parameters. */
static void expect_update(struct written *w, struct team *t, size_t k,
                          const struct data *d, uint64_t update)
{
    struct agent *a = &w->agent[k];
    const struct member *m = &t->members[k];
    double excess;

    expect_rows(w, t, k, d, update);
    check_critic(w, m);
    ck_assert_double_eq_tol(
        team_scalar(m, "critic_grad_norm"),
        descend(w, critic_loss, (struct tanh_net *[]){&a->q[0], &a->q[1]}, 2), 1e-5);
    excess = check_actor(w, m);
    ck_assert_double_eq_tol(team_scalar(m, "actor_grad_norm"),
                            descend(w, actor_loss, (struct tanh_net *[]){&a->actor}, 1),
                            1e-5);
    expect_rest(w, a, excess);
}

/* The mean loss over everyone's rows, with the parameters of agent_0. */
static double loss_of_all(const struct written *w, double (*loss)(const struct written *))
{
    static struct written x;
    double sum = 0, mass = 0;

    x = *w;
    for (x.self = 0; x.self < AGENTS; x.self++) {
        struct agent *a = &x.agent[x.self];

        a->actor = w->agent[0].actor;
        memcpy(a->q, w->agent[0].q, sizeof(a->q));
        sum += a->mass * loss(&x);
        mass += a->mass;
    }
    return sum / mass;
}

static double critic_loss_of_all(const struct written *w)
{
    return loss_of_all(w, critic_loss);
}

static double actor_loss_of_all(const struct written *w)
{
    return loss_of_all(w, actor_loss);
}

static void take_over(struct written *w)
{
    for (size_t k = 1; k < AGENTS; k++) {
        w->agent[k].actor = w->agent[0].actor;
        memcpy(w->agent[k].q, w->agent[0].q, sizeof(w->agent[0].q));
    }
}

/* The update of agents that share parameters: the mean over everyone's rows makes each
 * step. */
static void expect_shared_update(struct written *w, struct team *t, const struct data *d,
                                 uint64_t update)
{
    const struct member *ps = &t->members[AGENTS];
    struct agent *a = &w->agent[0];
    double excess = 0, mass = 0;

    for (size_t k = 0; k < AGENTS; k++) {
        expect_rows(w, t, k, d, update);
        check_critic(w, &t->members[k]);
    }
    ck_assert_double_eq_tol(
        team_scalar(ps, "critic_grad_norm"),
        descend(w, critic_loss_of_all, (struct tanh_net *[]){&a->q[0], &a->q[1]}, 2),
        1e-5);
    take_over(w);
    for (w->self = 0; w->self < AGENTS; w->self++) {
        excess += w->agent[w->self].mass * check_actor(w, &t->members[w->self]);
        mass += w->agent[w->self].mass;
    }
    ck_assert_double_eq_tol(
        team_scalar(ps, "actor_grad_norm"),
        descend(w, actor_loss_of_all, (struct tanh_net *[]){&a->actor}, 1), 1e-5);
    take_over(w);
    for (size_t k = 0; k < AGENTS; k++)
        expect_rest(w, &w->agent[k], excess / mass);
}

START_TEST(test_updates_written_out)
{
    const struct variant *v = &variants[_i];
    static struct written w;
    static struct data d[AGENTS];
    struct team *t = open_team(v);
    uint64_t rows[AGENTS * B];
    float weights[AGENTS * B];

    w = (struct written){.v = v, .s = v->space};
    for (int64_t g = 0; g < v->groups; g++) {
        make_rows(&d[g], v->space, (uint64_t)g);
        write_rows(t, &d[g], (uint64_t)g * B);
        memcpy(weights + g * B, d[g].weight, sizeof(d[g].weight));
    }
    for (uint64_t i = 0; i < AGENTS * B; i++)
        rows[i] = i;
    for (size_t k = 0; k < AGENTS; k++)
        take(t, k, &w.agent[k]);
    ck_assert_double_eq_tol(exp(w.agent[0].log_alpha), ALPHA, 1e-6);
    for (uint64_t u = 0; u < UPDATES; u++) {
        for (size_t k = 0; k < AGENTS; k++)
            expect_proposals(&w, t, k, d, 0, v->groups, u);
        team_update(t, u, rows, v->groups, B, v->weighted ? weights : NULL);
        for (size_t k = 0; k < AGENTS && !v->shared; k++)
            expect_update(&w, t, k, d, u);
        if (v->shared)
            expect_shared_update(&w, t, d, u);
        for (size_t k = 0; k < AGENTS; k++)
            check_agent(t, k, &w.agent[k]);
    }
    team_free(t);
}
END_TEST

/* ---- acting ---- */

enum { COPIES = 256 };

struct acting {
    float obs[COPIES * OBS], actions[COPIES * WIDTH_MAX];
    uint8_t allowed[COPIES * WIDTH_MAX];
};

static void act(struct team *t, struct acting *a, enum act_mode mode, size_t from,
                size_t n)
{
    struct member *m = &t->members[0];
    const size_t width = (size_t)t->spaces[0].width;
    uint64_t counter[COPIES], first[COPIES] = {0};
    const struct act_args args = {
        .mode = mode,
        .n_copies = n,
        .obs = a->obs + from * OBS,
        .allowed = t->spaces[0].masked ? a->allowed + from * width : NULL,
        .key = rng_key_make(7, "agent_0", PURPOSE_ACT),
        .counter = counter,
        .draw_first = first};
    struct act_result res = {.actions = a->actions + from * width};
    struct err err;

    for (size_t e = 0; e < n; e++)
        counter[e] = 1000 + from + e;
    ck_assert_msg(m->ops->act(m->algo, m->session, &args, &res, &err) == 0, "%s",
                  err.msg);
}

/* All copies have the same observation; choices 0 and 2 are allowed. */
static void make_acting(struct acting *a)
{
    for (size_t e = 0; e < COPIES; e++) {
        static const uint8_t mask[WIDTH_MAX] = {1, 0, 1, 0};

        for (size_t o = 0; o < OBS; o++)
            a->obs[e * OBS + o] = 0.5f - 0.3f * (float)o;
        memcpy(a->allowed + e * WIDTH_MAX, mask, sizeof(mask));
    }
}

/* Choices are as frequent as the policy says, forbidden ones never occur, and the greedy
 * choice is the most likely. Each copy's choice is the same as if it were alone. */
START_TEST(test_choices)
{
    static const int of_masked[] = {1, 12};
    static struct acting all, one;
    struct team *t = open_team(&variants[of_masked[_i]]);
    static struct agent a;
    double log_p[OUT_MAX];
    float sum[WIDTH_MAX] = {0};

    make_acting(&all);
    one = all;
    take(t, 0, &a);
    categorical(&masked, &a.actor, 0, all.obs, all.allowed, log_p);
    act(t, &all, ACT_EXPLORE, 0, COPIES);
    for (size_t e = 0; e < COPIES; e++)
        act(t, &one, ACT_EXPLORE, e, 1);
    ck_assert(memcmp(all.actions, one.actions, sizeof(all.actions)) == 0);
    for (size_t i = 0; i < COPIES * WIDTH_MAX; i++)
        sum[i % WIDTH_MAX] += all.actions[i];
    ck_assert_float_eq(sum[1] + sum[3], 0);
    ck_assert_float_eq(sum[0] + sum[2], COPIES);
    ck_assert_double_eq_tol((double)sum[0] / COPIES, exp(log_p[0]), 0.1);
    act(t, &all, ACT_GREEDY, 0, COPIES);
    for (size_t e = 0; e < COPIES; e++)
        ck_assert_float_eq(all.actions[e * WIDTH_MAX + (log_p[2] > log_p[0] ? 2 : 0)], 1);
    team_free(t);
}
END_TEST

START_TEST(test_numbers)
{
    static const int of_box[] = {5, 11};
    static struct acting all;
    struct team *t = open_team(&variants[of_box[_i]]);
    static struct agent a;
    double action[WIDTH_MAX];

    make_acting(&all);
    take(t, 0, &a);
    act(t, &all, ACT_EXPLORE, 0, COPIES);
    for (uint64_t e = 0; e < COPIES; e++) {
        float noise[2];

        rng_normal_f32(rng_key_make(7, "agent_0", PURPOSE_ACT), 1000 + e, 0, noise, 2);
        (void)squashed(&box, &a.actor, 0, all.obs, noise, action);
        for (size_t c = 0; c < 2; c++)
            ck_assert_double_eq_tol((double)all.actions[2 * e + c], action[c], 1e-5);
    }
    act(t, &all, ACT_GREEDY, 0, COPIES);
    (void)squashed(&box, &a.actor, 0, all.obs, (const float[]){0, 0}, action);
    for (size_t i = 0; i < 2 * COPIES; i++)
        ck_assert_double_eq_tol((double)all.actions[i], action[i % 2], 1e-5);
    team_free(t);
}
END_TEST

/* ---- learning ---- */

static const struct {
    const char *algorithm;
    const struct space *space;
    int shared;
} learners[] = {{"isac", &discrete, 0}, {"masac", &discrete, 0}, {"isac", &box, 0},
                {"masac", &box, 0},     {"masac", &discrete, 1}, {"isac", &box, 1}};

/* After this number of updates the best actions are known. Sanitized builds, which look
 * for other faults, make only some. */
enum { ENOUGH = 1200 };
#ifdef __SANITIZE_ADDRESS__
enum { LEARNING_UPDATES = 100 };
#else
enum { LEARNING_UPDATES = ENOUGH };
#endif

/* Episodes of one step: the best action becomes the greedy one, and the entropy reaches
 * its target. */
START_TEST(test_learns)
{
    enum { N = 128 };
    const struct space *s = learners[_i].space;
    char config[256] = "";
    struct team_args args = team_spread(config, N);
    static struct acting a;
    const float one = 1, obs[OBS] = {0.5f, -0.5f, 1};
    uint64_t rows[N];
    double entropy = 0;
    struct team *t;

    (void)snprintf(config, sizeof(config),
                   "{algorithm: %s, polyak: 0.05, actor: {hidden: [8]}, critic: {hidden: "
                   "[32]}, optimizer: {learning_rate: 0.01}, settings: {initial_alpha: "
                   "0.2, target_entropy_share: 0.5}}",
                   learners[_i].algorithm);
    args.n = AGENTS;
    args.obs = OBS;
    args.space = *s;
    args.share = learners[_i].shared;
    t = team_new(&args);
    for (uint64_t i = 0; i < N; i++) {
        rows[i] = i;
        for (size_t k = 0; k < AGENTS; k++) {
            float u[WIDTH_MAX] = {0}, reward = 0;

            rng_uniform_f32(rng_key_make(1, "test", "learn"), 2 * i + k, 0, u, 4);
            if (s->box) { /* best action: -1.5 in each dimension */
                for (size_t c = 0; c < 2; c++) {
                    u[c] = 3 * u[c] - 2;
                    reward -= (u[c] + 1.5f) * (u[c] + 1.5f);
                }
            } else { /* best choice: 3, then 2 */
                const int32_t choice = (int32_t)(4 * u[0]);

                choice_to_action(s, choice, u);
                reward = 0.5f * (float)choice;
            }
            team_write(t, i, k, "obs", obs);
            team_write(t, i, k, "action", u);
            team_write(t, i, k, "reward", &reward);
            team_write(t, i, k, "terminated", &one);
        }
    }
    for (uint64_t u = 0; u < LEARNING_UPDATES; u++) {
        team_update(t, u, rows, 1, N, NULL);
        entropy += u + 100 >= LEARNING_UPDATES
                       ? team_scalar(&t->members[0], "entropy") / 100
                       : 0;
    }
    ck_assert(isfinite(entropy));
    for (size_t e = 0; e < COPIES; e++)
        memcpy(a.obs + e * OBS, obs, sizeof(obs));
    act(t, &a, ACT_GREEDY, 0, 1);
    if ((int)LEARNING_UPDATES == (int)ENOUGH) {
        for (size_t c = 0; s->box && c < 2; c++)
            ck_assert_float_eq_tol(a.actions[c], -1.5f, 0.5f);
        if (!s->box)
            ck_assert_float_eq(a.actions[3], 1);
        ck_assert_double_eq_tol(entropy, s->box ? -2 : 0.5 * log(4), 0.1);
    }
    team_free(t);
}
END_TEST

/* ---- invalid configurations ---- */

static int try_build(const char *config, struct space space, int other_symmetric)
{
    struct run_config c;
    struct space agents[2] = {space, space};
    struct algo *algo = NULL;
    struct graph *g = graph_new();
    const struct algo_ops *ops;
    struct algo_args args = {.graph = g, .agents = agents, .n_agents = 2};
    struct algorithm_settings settings;
    struct err err;
    int r;

    for (int k = 0; k < 2; k++) {
        agents[k].obs = OBS;
        (void)snprintf(agents[k].name, AGENT_NAME_MAX, "agent_%d", k);
    }
    agents[1].symmetric = other_symmetric;
    ck_assert_msg(agent_config_from_text(&c, config, &err) == 0, "%s", err.msg);
    algorithm_settings_read(&settings, &c.defaults);
    args.config = &c.defaults;
    args.settings = &settings;
    ops = algo_find(c.defaults.algorithm);
    args.ops = ops;
    r = algo_new(&algo, &args, &err);
    algo_free(ops, algo);
    graph_free(g);
    run_config_done(&c);
    return r;
}

START_TEST(test_refused_configurations)
{
    struct space open = box;

    open.high = INFINITY;
    ck_assert_int_eq(try_build("{algorithm: masac}", box, 0), 0);
    ck_assert_int_eq(try_build("{algorithm: masac}", open, 0), ERR_CONFIG);
    ck_assert_int_eq(try_build("{algorithm: masac}", discrete, 1), ERR_CONFIG);
    ck_assert_int_eq(try_build("{algorithm: isac}", discrete, 1), 0);
    ck_assert_int_eq(
        try_build("{algorithm: isac, optimizer: {type: accept_reject}}", discrete, 0),
        ERR_CONFIG);
    ck_assert_int_eq(
        try_build("{algorithm: masac, settings: {agent_id: true, symmetry: env}}",
                  discrete, 0),
        ERR_CONFIG);
}
END_TEST

/* The pictures in a joint critic's input must be adjacent; an id would separate them. */
START_TEST(test_ids_beside_pictures)
{
    struct space seeing = discrete;

    seeing.image = (struct image_part){{3, 1, 1}, 0, 0}; /* as many numbers as OBS */
    ck_assert_int_eq(
        try_build("{algorithm: masac, critic: {conv: [[2, 1, 1]]}}", seeing, 0), 0);
    ck_assert_int_eq(
        try_build("{algorithm: masac, critic: {conv: [[2, 1, 1]]}, settings: "
                  "{agent_id: true}}",
                  seeing, 0),
        ERR_CONFIG);
    ck_assert_int_eq(try_build("{algorithm: isac, actor: {conv: [[2, 1, 1]]}, critic: "
                               "{conv: [[2, 1, 1]]}, settings: {agent_id: true}}",
                               seeing, 0),
                     0);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("sac");
    TCase *tc = tcase_create("sac");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, test_updates_written_out, 0, N_VARIANTS);
    tcase_add_loop_test(tc, test_choices, 0, 2);
    tcase_add_loop_test(tc, test_numbers, 0, 2);
    tcase_add_loop_test(tc, test_learns, 0, sizeof(learners) / sizeof(learners[0]));
    tcase_add_test(tc, test_refused_configurations);
    tcase_add_test(tc, test_ids_beside_pictures);
    suite_add_tcase(suite, tc);
    return suite;
}
TEST_MAIN(make_suite)
