/* ia2c, ippo, maa2c, mappo, happo and coma against the formulas of on_policy.h,
 * written out here in double precision: gradients by finite differences, steps of plain
 * gradient descent. */
#include "common/mem/xmalloc.h"
#include "common/rng/rng.h"
#include "tests/support/tanh_net.h"
#include "tests/support/test_main.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define OBS       3
#define WIDTH     4
#define COPIES    2
#define STEPS     6
#define ROWS      (COPIES * STEPS) /* of one agent */
#define AGENTS    2
#define HIDDEN    5
#define INPUT_MAX (2 * OBS + WIDTH + 2)
#define RATE      0.2
#define CLIP      0.3 /* clip_norm */

static const struct space discrete = {.width = WIDTH, .n_heads = 1, .heads = {WIDTH}};
static const struct space masked = {
    .width = WIDTH, .n_heads = 1, .heads = {WIDTH}, .masked = 1};
static const struct space two_heads = {.width = WIDTH, .n_heads = 2, .heads = {1, 3}};
static const struct space box = {.box = 1, .width = WIDTH, .low = -2, .high = 2};
static const struct space hybrid =
    {/* numbers beside two choices, of which some are masked */
     .box = 1,  .width = WIDTH, .n_heads = 1, .heads = {2},
     .low = -2, .high = 2,      .masked = 1};
static const struct space hybrid_heads = {
    .box = 1, .width = WIDTH, .n_heads = 2, .heads = {2, 1}, .low = -2, .high = 2};

struct variant {
    const char *algorithm, *settings;
    const struct space *space;
    int joint, id, epochs, n_step, normalizes_advantages, popart, normalizes_values;
    double clip_ratio, huber, entropy; /* 0: none */
    int share;
    int in_turns; /* happo */
    int scales;   /* 1: rewards are scaled */
    int choices;  /* coma: C; 0: another algorithm */
    double lambda;
    int target_every;
    double target_kl; /* 0: none */
};

static const struct variant variants[] = {
    {"mappo", "epochs: 2, clip_ratio: 0.1, entropy: 0.05, huber: 0.3", &discrete, 1, 0, 2,
     0, 1, 0, 1, 0.1, 0.3, 0.05},
    {"ippo", "epochs: 3, agent_id: true, value_norm: none, huber: none", &masked, 0, 1, 3,
     0, 1, 0, 0, 0.2, 0, 0.01},
    {"ippo", "epochs: 1, value_norm: popart, entropy: 0, reward_scale: standard",
     &two_heads, 0, 0, 1, 0, 1, 1, 1, 0.2, 10, 0, 0, 0, 1},
    {"maa2c", "n_step: 3, agent_id: true", &discrete, 1, 1, 1, 3, 0, 0, 0, 0, 0, 0.01},
    {"mappo", "epochs: 2, advantage_norm: false, gae: 0.95", &box, 1, 0, 2, 0, 0, 0, 1,
     0.2, 10, 0.01},
    {"mappo", "epochs: 2, entropy: 0.05, huber: none", &discrete, 1, 0, 2, 0, 1, 0, 1,
     0.2, 0, 0.05, 1},
    {"ia2c", "n_step: 2, value_norm: running, reward_scale: standard", &masked, 0, 0, 1,
     2, 0, 0, 1, 0, 0, 0.01, 1, 0, 1},
    {"happo", "epochs: 2, clip_ratio: 0.1, entropy: 0.05", &masked, 1, 0, 2, 0, 1, 0, 1,
     0.1, 10, 0.05, 0, 1},
    {"happo",
     "epochs: 3, n_step: 2, value_norm: none, agent_id: true, "
     "reward_scale: standard",
     &box, 1, 1, 3, 2, 1, 0, 0, 0.2, 10, 0.01, 0, 1, 1},
    {"ippo", "epochs: 2, agent_id: true, value_norm: none, huber: none, entropy: 0.05",
     &hybrid, 0, 1, 2, 0, 1, 0, 0, 0.2, 0, 0.05},
    {"maa2c", "n_step: 3, entropy: 0.02", &hybrid_heads, 1, 0, 1, 3, 0, 0, 0, 0, 0, 0.02},
    {"mappo", "epochs: 2, entropy: 0.05, huber: none", &hybrid, 1, 0, 2, 0, 1, 0, 1, 0.2,
     0, 0.05, 1},
    {"happo", "epochs: 2, entropy: 0.05", &hybrid_heads, 1, 0, 2, 0, 1, 0, 1, 0.2, 10,
     0.05, 0, 1},
    {.algorithm = "coma",
     .settings = "lambda: 0.7, target_every: 2, agent_id: true, entropy: 0.05",
     .space = &masked,
     .joint = 1,
     .id = 1,
     .epochs = 1,
     .entropy = 0.05,
     .choices = WIDTH,
     .lambda = 0.7,
     .target_every = 2},
    {.algorithm = "coma",
     .settings = "lambda: 0, n_step: 3, target_every: 0, value_norm: popart, "
                 "advantage_norm: true, "
                 "epochs: 2",
     .space = &two_heads,
     .joint = 1,
     .epochs = 2,
     .n_step = 3,
     .normalizes_advantages = 1,
     .popart = 1,
     .normalizes_values = 1,
     .entropy = 0.01,
     .choices = 3},
    {.algorithm = "coma",
     .settings = "target_every: 1, value_norm: running, reward_scale: standard",
     .scales = 1,
     .space = &discrete,
     .joint = 1,
     .epochs = 1,
     .normalizes_values = 1,
     .entropy = 0.01,
     .share = 1,
     .choices = WIDTH,
     .lambda = 0.8,
     .target_every = 1},
    {.algorithm = "mappo",
     .settings = "epochs: 6, huber: none, entropy: 0.05, target_kl: 0.168",
     .space = &discrete,
     .joint = 1,
     .epochs = 6,
     .normalizes_advantages = 1,
     .normalizes_values = 1,
     .clip_ratio = 0.2,
     .entropy = 0.05,
     .share = 1,
     .target_kl = 0.168}, /* one pass, then all */
    {.algorithm = "ippo",
     .settings = "epochs: 6, huber: none, target_kl: 0.1505",
     .space = &masked,
     .epochs = 6,
     .normalizes_advantages = 1,
     .normalizes_values = 1,
     .clip_ratio = 0.2,
     .entropy = 0.01,
     .target_kl = 0.1505},
};

/* ---- the team and its rows ---- */

static uint64_t first_row; /* of the window in the log */

/* The row of the window with copy i / STEPS and time i % STEPS. */
static uint64_t row_of(int i)
{
    return first_row + (uint64_t)(i % STEPS * COPIES + i / STEPS);
}

/* Copy 0 is truncated after step 2, copy 1 terminated after step 3; agent_0 has left copy
 * 1 in the last step. */
static void write_ends(struct team *t)
{
    static const float no = 0, yes = 1;

    for (int i = 0; i < ROWS; i++) {
        team_write_joint(t, row_of(i), "first", i % STEPS == 0 || i == 3 || i == 10);
        team_write_joint(t, row_of(i), "truncated", i == 2);
        for (size_t k = 0; k < t->args.n; k++) {
            const float log_prob = -0.5f - 0.1f * (float)i;

            team_write(t, row_of(i), k, "terminated", i == 9 ? &yes : &no);
            team_write(t, row_of(i), k, "log_prob", &log_prob);
        }
    }
    team_write(t, row_of(11), 0, "alive", &no);
}

/* The first entry of an action that is a number. */
static int first_number(const struct space *s)
{
    int n = 0;

    for (int h = 0; h < s->n_heads; h++)
        n += s->heads[h];
    return s->box ? n : WIDTH;
}

static void write_samples(struct team *t, const struct space *s)
{
    float x[WIDTH];

    for (int i = 0; i < ROWS; i++) {
        rng_normal_f32(rng_key_make(3, "test", "sample"), (uint64_t)i, 0, x, WIDTH);
        for (int h = 0, at = 0; h < s->n_heads; at += s->heads[h++])
            for (int k = 0; k < s->heads[h]; k++)
                x[at + k] = k == i / 3 % s->heads[h];
        for (size_t k = 0; k < t->args.n; k++)
            team_write(t, row_of(i), k, "sample", x);
    }
}

/* In every third row one choice is forbidden, but never the one that was made; of the numbers
 * of a hybrid action the mask says nothing. */
static void write_masks(struct team *t, const struct space *s)
{
    for (int i = 0; i < ROWS; i += 3) {
        uint8_t mask[WIDTH] = {1, 1, 1, 1};
        float action[WIDTH] = {0, 0, 1, 0};

        if (s->box) {
            mask[1 - i / 3 % 2] = mask[2] = 0;
            team_write_mask(t, row_of(i), 0, "allowed", mask);
            continue;
        }
        mask[i % 2] = 0;
        team_write(t, row_of(i), 0, "action", action);
        team_write_mask(t, row_of(i), 0, "allowed", mask);
    }
}

static struct team *open_teams(const struct variant *v, int apart)
{
    char config[512] = "";
    struct team_args args = team_spread(config, 2 * ROWS);
    struct team *t;

    (void)snprintf(
        config, sizeof(config),
        "{algorithm: %s, discount: 0.9, clip_norm: %g, polyak: 0.1, optimizer: "
        "{type: sgd, learning_rate: %g}, actor: {hidden: [%d], activation: "
        "tanh}, critic: {hidden: [%d], activation: tanh}, settings: {%s}}",
        v->algorithm, CLIP, RATE, HIDDEN, HIDDEN, v->settings);
    args.n = AGENTS;
    args.obs = OBS;
    args.share = v->share;
    args.window_rows = ROWS;
    args.copies = COPIES;
    args.space = *v->space;
    args.apart = apart;
    t = team_new(&args);
    write_ends(t);
    if (v->space->box)
        write_samples(t, v->space);
    if (v->space->masked)
        write_masks(t, v->space);
    return t;
}

static struct team *open_team(const struct variant *v)
{
    return open_teams(v, 0);
}

/* The newest output of `prepare` of each agent. */
static double sums[AGENTS][8];
static struct tensor answers[AGENTS], found;
/* The newest output of `turn`, (teams, E, T). */
static float factor[AGENTS * ROWS];
static int64_t factor_teams = 1;

/* The proposals for next observations that coma's agents get of each other. */
static float proposal[AGENTS][ROWS][WIDTH];

static void write_proposals(const struct space *space)
{
    memset(proposal, 0, sizeof(proposal));
    for (int k = 0; k < AGENTS; k++)
        for (int i = 0; i < ROWS; i++)
            for (int h = 0, at = 0; h < space->n_heads; at += space->heads[h++])
                proposal[k][i][at + (i + k) % space->heads[h]] = 1;
}

static const struct tensor *find_input(void *ctx, const char *agent, const char *name)
{
    if (strcmp(agent, INPUT_PREVIOUS) == 0) {
        ck_assert_str_eq(name, "factor");
        found = tensor_view(DT_FLOAT, SHAPE(factor_teams, COPIES, STEPS), factor);
        return &found;
    }
    if (strcmp(name, "action") == 0) {
        found = tensor_view(DT_FLOAT, SHAPE(1, ROWS, WIDTH),
                            proposal[agent[strlen("agent_")] - '0']);
        return &found;
    }
    ck_assert_str_eq(name, "sums");
    found = answers[agent[strlen("agent_")] - '0'];
    return &found;
}

/* The member's own stage of that name. */
static const struct stage *stage_of_member(const struct member *m, const char *name)
{
    size_t n;
    const struct stage *s = m->ops->stages(m->algo, &n);

    while (strcmp(s->name, name) != 0)
        s++;
    return s;
}

static void run_stage(struct team *t, const struct stage *of_first, size_t member,
                      uint64_t update, uint64_t repeat, struct stage_result *ret)
{
    struct member *m = &t->members[member];
    const struct stage *stage = stage_of_member(m, of_first->name);
    uint64_t rows[ROWS];
    const struct stage_args args = {
        .stage = stage,
        .step = ROWS,
        .update = update,
        .repeat = repeat,
        .groups = 1,
        .batch = COPIES,
        .length = STEPS,
        .rows = rows,
        .slot = 0,
        .store = t->store,
        .key = team_stage_key(t, member, stage->name),
        .permutation =
            rng_key_make(t->args.seed, t->spaces[member].name, PURPOSE_PERMUTATION),
        .counter = update,
        .input = find_input};
    struct err err;

    for (int i = 0; i < ROWS; i++)
        rows[i] = row_of(i);
    *ret = (struct stage_result){0};
    ck_assert_msg(team_run_stage(t, m, &args, ret, &err) == 0, "%s", err.msg);
    if (ret->n_outputs > 0 && strcmp(stage->name, "turn") == 0) {
        const struct tensor *x = &ret->output[0].value;

        factor_teams = x->shape.dim[0];
        memcpy(factor, x->data, (size_t)tensor_elements(x) * sizeof(float));
    } else if (ret->n_outputs > 0 && strcmp(stage->name, "propose") != 0) {
        const struct tensor *x = &ret->output[0].value;

        memcpy(sums[member], x->data, (size_t)tensor_elements(x) * sizeof(double));
        answers[member] = tensor_view(x->dtype, x->shape, sums[member]);
    }
}

struct scalars {
    double actor_loss, critic_loss, actor_norm, critic_norm;
    double kl, clipped, explained, passes;
};

static void add_scalars(struct scalars *to, const struct stage_result *res)
{
    for (int i = 0; i < res->n_scalars; i++) {
        const char *name = res->scalar[i].name;
        const double x = res->scalar[i].value;

        to->actor_loss += strcmp(name, "actor_loss") == 0 ? x : 0;
        to->critic_loss += strcmp(name, "critic_loss") == 0 ? x : 0;
        to->actor_norm += strcmp(name, "actor_grad_norm") == 0 ? x : 0;
        to->critic_norm += strcmp(name, "critic_grad_norm") == 0 ? x : 0;
        to->kl += strcmp(name, "approx_kl") == 0 ? x : 0;
        to->clipped += strcmp(name, "clip_fraction") == 0 ? x : 0;
        to->explained += strcmp(name, "explained_variance") == 0 ? x : 0;
        to->passes += strcmp(name, "epochs") == 0 ? x : 0;
    }
}

/* Runs all stages of an update in the driver's order; returns the sums of their
 * scalars. */
static struct scalars learn(struct team *t, uint64_t update)
{
    const struct member *m = &t->members[0];
    size_t n;
    const struct stage *stages = m->ops->stages(m->algo, &n);
    struct scalars ret = {0};
    uint64_t repeat = 0;

    for (size_t i = 0; i < n; i++) {
        const int is_ps = stages[i].runner == STAGE_PS;
        const size_t first = is_ps ? AGENTS : 0;
        const size_t end = is_ps ? AGENTS + 1 : t->args.share ? AGENTS : 1;

        for (size_t k = first; k < end; k++) {
            struct stage_result res;

            run_stage(t, &stages[i], k, update, repeat, &res);
            add_scalars(&ret, &res);
        }
        if (stages[i].repeat > 1 && ++repeat < (uint64_t)stages[i].repeat)
            i = (size_t)stages[i].repeat_from - 1;
    }
    return ret;
}

/* ---- the algorithms, written out ---- */

struct data { /* of one row */
    double input[INPUT_MAX], state[INPUT_MAX], next_state[INPUT_MAX];
    double action[WIDTH], allowed[WIDTH], next_action[WIDTH];
    double reward, terminated, cut, alive, log_prob;
    double value, next_value, advantage, returns;
    double factor; /* product of the quotients of agents that had their turns before */
};

struct written {
    const struct variant *v;
    struct tanh_net actor, critic, target;
    double log_std[WIDTH]; /* of the policy */
    double statistics[3];
    int n; /* rows of all agents that learn together */
    struct data row[AGENTS * ROWS];
};

/* Log-probability of the row's action, and the entropy. */
static double policy(const struct written *w, const struct data *d, double *ret_entropy)
{
    const struct space *s = w->v->space;
    double out[WIDTH], sum = 0;
    int at = 0;

    tanh_net_forward(&w->actor, d->input, out);
    *ret_entropy = 0;
    for (int k = first_number(s), j = 0; k < WIDTH; k++, j++) {
        const double z = (d->action[k] - out[k]) / exp(w->log_std[j]);

        sum -= z * z / 2 + w->log_std[j] + log(2 * acos(-1)) / 2;
        *ret_entropy += w->log_std[j] + (log(2 * acos(-1)) + 1) / 2;
    }
    for (int h = 0; h < s->n_heads; at += s->heads[h++]) {
        double total = 0;

        for (int k = at; k < at + s->heads[h]; k++)
            total += d->allowed[k] != 0 ? exp(out[k]) : 0;
        for (int k = at; k < at + s->heads[h]; k++) {
            const double log_p = out[k] - log(total);

            if (d->allowed[k] == 0)
                continue;
            sum += d->action[k] * log_p;
            *ret_entropy -= exp(log_p) * log_p;
        }
    }
    return sum;
}

/* The number of the choice that an action encodes; the first head varies fastest. */
static int choice_of(const struct written *w, const double *action)
{
    const struct space *s = w->v->space;
    int choice = 0;

    for (int h = 0, at = 0, step = 1; h < s->n_heads; at += s->heads[h++]) {
        int best = 0;

        for (int k = 0; k < s->heads[h]; k++)
            best = action[at + k] > action[at + best] ? k : best;
        choice += step * best;
        step *= s->heads[h];
    }
    return choice;
}

/* The critic's value of a state, or of an action in it. */
static double value_of(const struct written *w, const struct tanh_net *n,
                       const double *state, const double *action)
{
    double out[WIDTH];

    tanh_net_forward(n, state, out);
    return out[w->v->choices > 0 ? choice_of(w, action) : 0];
}

/* The mean of the critic's values of all possible actions of the agent. */
static double baseline(const struct written *w, const struct data *d)
{
    const struct space *s = w->v->space;
    double out[WIDTH], sum = 0, entropy;

    tanh_net_forward(&w->critic, d->state, out);
    for (int c = 0; c < w->v->choices; c++) {
        struct data other = *d;
        int rest = c, possible = 1;

        memset(other.action, 0, sizeof(other.action));
        for (int h = 0, at = 0; h < s->n_heads; at += s->heads[h++]) {
            other.action[at + rest % s->heads[h]] = 1;
            possible = possible && d->allowed[at + rest % s->heads[h]] != 0;
            rest /= s->heads[h];
        }
        sum += possible ? exp(policy(w, &other, &entropy)) * out[c] : 0;
    }
    return sum;
}

static double alive_rows(const struct written *w)
{
    double n = 0;

    for (int i = 0; i < w->n; i++)
        n += w->row[i].alive;
    return n;
}

static double bounded(double x, double low, double high)
{
    return fmin(fmax(x, low), high);
}

static double actor_loss(const struct written *w)
{
    const double c = w->v->clip_ratio > 0 ? w->v->clip_ratio : HUGE_VAL;
    double sum = 0;

    for (int i = 0; i < w->n; i++) {
        const struct data *d = &w->row[i];
        double entropy, ratio = exp(policy(w, d, &entropy) - d->log_prob);

        sum += d->alive * (d->factor * fmin(ratio * d->advantage,
                                            bounded(ratio, 1 - c, 1 + c) * d->advantage) +
                           w->v->entropy * entropy);
    }
    return -sum / alive_rows(w);
}

/* How far the policy is from the one that played, and the share of rows that are clipped. */
static void measure_policy(const struct written *w, double *ret_kl, double *ret_clipped)
{
    const double c = w->v->clip_ratio > 0 ? w->v->clip_ratio : HUGE_VAL;

    *ret_kl = *ret_clipped = 0;
    for (int i = 0; i < w->n; i++) {
        const struct data *d = &w->row[i];
        double entropy, ratio = exp(policy(w, d, &entropy) - d->log_prob);

        *ret_kl += d->alive * (ratio - 1 - log(ratio)) / alive_rows(w);
        *ret_clipped += d->alive * (ratio < 1 - c || ratio > 1 + c) / alive_rows(w);
    }
}

static double huber(double x, double delta)
{
    return delta == 0 || fabs(x) <= delta ? x * x / 2
                                          : delta * delta / 2 + delta * (fabs(x) - delta);
}

static double critic_loss(const struct written *w)
{
    const double c = w->v->clip_ratio > 0 ? w->v->clip_ratio : HUGE_VAL;
    double sum = 0;

    for (int i = 0; i < w->n; i++) {
        const struct data *d = &w->row[i];
        const double v = value_of(w, &w->critic, d->state, d->action);

        sum += d->alive * fmax(huber(d->returns - v, w->v->huber),
                               huber(d->returns - d->value - bounded(v - d->value, -c, c),
                                     w->v->huber));
    }
    return sum / alive_rows(w);
}

/* The gradient of the loss by the n doubles at x, by central differences. */
static void differentiate(const struct written *w, double (*loss)(const struct written *),
                          double *x, int n, double *ret)
{
    const double step = 1e-5;

    for (int i = 0; i < n; i++) {
        const double was = x[i];
        double up;

        x[i] = was + step;
        up = loss(w);
        x[i] = was - step;
        ret[i] = (up - loss(w)) / (2 * step);
        x[i] = was;
    }
}

static double descend(struct written *w, struct tanh_net *n,
                      double (*loss)(const struct written *))
{
    const int n_std = n == &w->actor ? WIDTH - first_number(w->v->space) : 0;
    const int size = tanh_net_size(n);
    double g[TANH_NET_MAX + WIDTH], norm = 0;

    differentiate(w, loss, n->p, size, g);
    differentiate(w, loss, w->log_std, n_std, g + size);
    for (int i = 0; i < size + n_std; i++)
        norm += g[i] * g[i];
    norm = sqrt(norm);
    for (int i = 0; i < size + n_std; i++)
        *(i < size ? &n->p[i] : &w->log_std[i - size]) -=
            RATE * g[i] * fmin(1, CLIP / norm);
    return norm;
}

static void scale_of(const struct written *w, double *ret_mean, double *ret_deviation)
{
    const double *x = w->statistics, d = fmax(x[2], 1e-5);

    *ret_mean = w->v->normalizes_values ? x[0] / d : 0;
    *ret_deviation =
        w->v->normalizes_values ? sqrt(fmax(x[1] / d - x[0] / d * x[0] / d, 0.01)) : 1;
}

static void estimate(struct written *w)
{
    const int has_target = w->v->n_step > 0 || w->v->choices > 0;
    const struct tanh_net *judge = has_target ? &w->target : &w->critic;
    double mean, deviation, later = 0;

    scale_of(w, &mean, &deviation);
    for (int i = w->n - 1; i >= 0; i--) {
        struct data *d = &w->row[i];
        double own, next;

        d->value = value_of(w, &w->critic, d->state, d->action);
        next = d->cut != 0
                   ? value_of(w, judge, d->next_state, d->next_action)
                   : value_of(w, judge, w->row[i + 1].state, w->row[i + 1].action);
        d->next_value = next * deviation + mean;
        own = d->value * deviation + mean;
        if (w->v->choices > 0) {
            d->returns =
                d->reward + 0.9 * (1 - d->terminated) *
                                ((1 - w->v->lambda) * d->next_value +
                                 w->v->lambda * (d->cut != 0 ? d->next_value : later));
            later = d->returns;
            d->advantage = (d->value - baseline(w, d)) * deviation;
            continue;
        }
        later = d->reward + 0.9 * (1 - d->terminated) * d->next_value - own +
                (d->cut != 0 ? 0 : 0.9 * 0.95 * later);
        d->advantage = later;
        d->returns = later + own;
    }
    for (int i = 0; w->v->n_step > 0 && i < w->n; i++) {
        struct data *d = &w->row[i];
        double weight = 1;

        d->returns = 0;
        for (int k = 0;; k++) {
            const struct data *at = &w->row[i + k];

            d->returns += weight * at->reward;
            weight *= 0.9;
            if (k + 1 < w->v->n_step && at->cut == 0)
                continue;
            d->returns += weight * (1 - at->terminated) * at->next_value;
            break;
        }
        if (w->v->choices == 0)
            d->advantage = d->returns - (d->value * deviation + mean);
    }
}

/* 1 - Var(returns - values) / Var(returns). */
static double explained_variance(const struct written *w)
{
    const double n = alive_rows(w);
    double mean, deviation, g = 0, e = 0, gg = 0, ee = 0;

    scale_of(w, &mean, &deviation);
    for (int i = 0; i < w->n; i++) {
        const struct data *d = &w->row[i];
        const double error = d->returns - (d->value * deviation + mean);

        g += d->alive * d->returns / n;
        e += d->alive * error / n;
        gg += d->alive * d->returns * d->returns / n;
        ee += d->alive * error * error / n;
    }
    return 1 - (ee - e * e) / (gg - g * g);
}

static void normalize_advantages(struct written *w)
{
    double mean = 0, squares = 0;

    for (int i = 0; i < w->n; i++)
        mean += w->row[i].alive * w->row[i].advantage / alive_rows(w);
    for (int i = 0; i < w->n; i++)
        squares += w->row[i].alive * pow(w->row[i].advantage - mean, 2) / alive_rows(w);
    for (int i = 0; i < w->n; i++)
        w->row[i].advantage = (w->row[i].advantage - mean) / (sqrt(squares) + 1e-5);
}

/* Lets the last layer give the same values as before when they are scaled back. */
static void rescale(struct tanh_net *n, const double was[2], const double is[2])
{
    int at[TANH_NET_PARTS + 1];

    tanh_net_parts(n, at);
    for (int i = at[2]; i < at[3]; i++)
        n->p[i] *= was[1] / is[1];
    for (int i = at[3]; i < at[4]; i++)
        n->p[i] = (n->p[i] * was[1] + was[0] - is[0]) / is[1];
}

static void normalize_returns(struct written *w)
{
    double mean = 0, squares = 0, was[2], is[2];

    for (int i = 0; i < w->n; i++) {
        mean += w->row[i].alive * w->row[i].returns / alive_rows(w);
        squares += w->row[i].alive * pow(w->row[i].returns, 2) / alive_rows(w);
    }
    scale_of(w, &was[0], &was[1]);
    for (int i = 0; i < w->v->epochs; i++) {
        w->statistics[0] = 0.99999 * w->statistics[0] + 0.00001 * mean;
        w->statistics[1] = 0.99999 * w->statistics[1] + 0.00001 * squares;
        w->statistics[2] = 0.99999 * w->statistics[2] + 0.00001;
    }
    scale_of(w, &is[0], &is[1]);
    for (int i = 0; i < w->n; i++)
        w->row[i].returns = (w->row[i].returns - is[0]) / is[1];
    if (!w->v->popart)
        return;
    rescale(&w->critic, was, is);
    rescale(&w->target, was, is);
    for (int i = 0; i < w->n; i++)
        w->row[i].value = (w->row[i].value * was[1] + was[0] - is[0]) / is[1];
}

static void read_probabilities(const struct written *w, double ret[AGENTS * ROWS])
{
    double entropy;

    for (int i = 0; i < w->n; i++)
        ret[i] = exp(policy(w, &w->row[i], &entropy));
}

/* One update; returns its passes. ret: means of actor loss, critic loss, both norms, the policy's
 * distance and the share of clipped rows; the explained variance. Multiplies the quotients of the
 * new and old probabilities into the factors. */
static int learn_written(struct written *w, double ret[7])
{
    double before[AGENTS * ROWS], after[AGENTS * ROWS], kl = 0;
    int passes = 0;

    memset(ret, 0, 7 * sizeof(*ret));
    read_probabilities(w, before);
    estimate(w);
    ret[6] = explained_variance(w);
    if (w->v->normalizes_advantages)
        normalize_advantages(w);
    if (w->v->normalizes_values)
        normalize_returns(w);
    while (passes < w->v->epochs && (w->v->target_kl == 0 || kl <= w->v->target_kl)) {
        double clipped;

        measure_policy(w, &kl, &clipped);
        ret[4] += kl;
        ret[5] += clipped;
        ret[0] += actor_loss(w);
        ret[1] += critic_loss(w);
        ret[2] += descend(w, &w->actor, actor_loss);
        ret[3] += descend(w, &w->critic, critic_loss);
        passes++;
    }
    for (int k = 0; k < 6; k++)
        ret[k] /= passes;
    read_probabilities(w, after);
    for (int i = 0; w->v->in_turns && i < w->n; i++)
        w->row[i].factor *= w->row[i].alive != 0 ? after[i] / before[i] : 1;
    return passes;
}

/* ---- reading networks and rows ---- */

static void read_into(double *ret, struct tensor t)
{
    for (int64_t i = 0; i < tensor_elements(&t); i++)
        ret[i] = (double)tensor_f32(&t)[i];
}

static void read_column(struct team *t, int i, const char *agent, const char *name,
                        double *ret)
{
    const int column = store_layout_find(&t->layout, agent, name);
    const uint64_t row = row_of(i);
    float x[OBS + WIDTH];

    ck_assert_int_ge(column, 0);
    store_view_gather(t->store, column, &row, 1, x, t->layout.columns[column].elements);
    for (uint32_t k = 0; k < t->layout.columns[column].elements; k++)
        ret[k] = (double)x[k];
}

static void read_row(struct team *t, const struct variant *v, int agent, int i,
                     struct data *d)
{
    const char *own = t->spaces[agent].name, *other = t->spaces[1 - agent].name;
    const uint64_t row = row_of(i);
    double first = 0, truncated, next_alive = 1;
    int at = v->joint ? 2 * OBS : OBS; /* position in state */

    d->factor = 1;
    read_column(t, i, own, "obs", d->input);
    read_column(t, i, own, "obs", d->state);
    read_column(t, i, own, "next_obs", d->next_state);
    if (v->joint) {
        read_column(t, i, other, "obs", d->state + OBS);
        read_column(t, i, other, "next_obs", d->next_state + OBS);
    }
    if (v->choices > 0) {
        read_column(t, i, other, "action", d->state + at);
        for (int k = 0; k < WIDTH; k++) {
            d->next_state[at++] = (double)proposal[1 - agent][i][k];
            d->next_action[k] = (double)proposal[agent][i][k];
        }
    }
    if (v->id) { /* the id of agent_0, the first of two */
        d->input[OBS] = 1;
        d->state[at] = d->next_state[at] = 1;
    }
    read_column(t, i, own, v->space->box ? "sample" : "action", d->action);
    read_column(t, i, own, "reward", &d->reward);
    read_column(t, i, own, "terminated", &d->terminated);
    read_column(t, i, own, "alive", &d->alive);
    read_column(t, i, own, "log_prob", &d->log_prob);
    read_column(t, i, NULL, "truncated", &truncated);
    if (i + 1 < ROWS) {
        read_column(t, i + 1, NULL, "first", &first);
        read_column(t, i + 1, own, "alive", &next_alive);
    }
    d->cut = i % STEPS == STEPS - 1 || first != 0 || truncated != 0 ||
             d->terminated != 0 || (d->alive != 0 && next_alive == 0);
    for (int k = 0; k < WIDTH; k++)
        d->allowed[k] = 1;
    if (v->space->masked) {
        uint8_t mask[WIDTH];

        store_view_gather_bytes(t->store, store_layout_find(&t->layout, own, "allowed"),
                                &row, 1, mask);
        for (int k = 0; k < WIDTH; k++)
            d->allowed[k] = mask[k];
    }
}

/* Subtracts the mean of the rewards and divides by their deviation, over all rows in
 * which an agent was alive. */
static void scale_rewards(struct written *w)
{
    double n = 0, sum = 0, squares = 0, deviation;

    for (int i = 0; i < w->n; i++) {
        const double x = w->row[i].alive * w->row[i].reward;

        n += w->row[i].alive;
        sum += x;
        squares += x * x;
    }
    deviation = sqrt(squares / n - sum / n * (sum / n) + 1e-8);
    for (int i = 0; i < w->n; i++)
        w->row[i].reward = (w->row[i].reward - sum / n) / deviation;
}

/* The networks and rows of one agent; for agent_0 of a group that shares, the rows of
 * all. */
static struct written read_member(struct team *t, const struct variant *v, size_t k)
{
    struct written w = {.v = v};

    tanh_net_read(&w.actor, t, k, "p_func");
    tanh_net_read(&w.critic, t, k, "v_func");
    if (v->space->box)
        read_into(w.log_std, team_variable(t, k, "p_func/log_std"));
    if (v->n_step > 0 || v->choices > 0)
        tanh_net_read(&w.target, t, k, "target_v_func");
    for (w.n = 0; w.n < (v->share ? AGENTS : 1) * ROWS; w.n++)
        read_row(t, v, (int)k + w.n / ROWS, w.n % ROWS, &w.row[w.n]);
    if (v->scales)
        scale_rewards(&w);
    return w;
}

static struct written read_all(struct team *t, const struct variant *v)
{
    return read_member(t, v, 0);
}

static void expect(const char *what, const double *want, const double *got, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(fabs(want[i] - got[i]) < 1e-5, "%s[%zu]: %.8g, expected %.8g", what,
                      i, got[i], want[i]);
}

/* Two updates, so that the second one starts with changed statistics and targets. Agents
 * that share parameters learn as one from the rows of both. */
START_TEST(learning_written_out)
{
    const struct variant *v = &variants[_i];
    struct team *t = open_team(v);
    struct written w;

    write_proposals(v->space);
    w = read_all(t, v);
    for (uint64_t update = 0; update < 2; update++) {
        const int agents = v->share ? AGENTS : 1;
        struct scalars got;
        struct written now;
        double want[7], steps; /* norms of a group's steps are summed */
        int passes;

        for (int i = 0; v->in_turns && i < ROWS; i++) {
            factor[i] = 0.4f + 0.1f * (float)i;
            w.row[i].factor = (double)factor[i];
        }
        got = learn(t, update);

        passes = learn_written(&w, want);
        steps = v->share ? passes : 1;
        ck_assert_double_eq(got.passes, v->target_kl > 0 ? agents * passes : 0);

        if (v->target_every > 0 && (update + 1) % (uint64_t)v->target_every == 0)
            w.target = w.critic;
        else if (v->target_every == 0 && (v->n_step > 0 || v->choices > 0))
            tanh_net_follow(&w.target, &w.critic, 0.1);
        now = read_all(t, v);
        tanh_net_check("actor", &now.actor, &w.actor);
        expect("log_std", w.log_std, now.log_std, WIDTH);
        tanh_net_check("critic", &now.critic, &w.critic);
        tanh_net_check("target", &now.target, &w.target);
        for (int i = 0; v->in_turns && i < ROWS; i++)
            ck_assert_double_eq_tol((double)factor[i], w.row[i].factor, 1e-5);
        ck_assert_double_eq_tol(got.actor_norm / steps, want[2], 1e-5);
        ck_assert_double_eq_tol(got.critic_norm / steps, want[3], 1e-5);
        if (v->share) /* each loss is a mean over the agent's own rows */
            continue;
        ck_assert_double_eq_tol(got.actor_loss, want[0], 1e-5);
        ck_assert_double_eq_tol(got.critic_loss, want[1], 1e-5);
        ck_assert_double_eq_tol(got.kl, want[4], 1e-5);
        ck_assert_double_eq_tol(got.clipped, want[5], 1e-6);
        ck_assert_double_eq_tol(got.explained, want[6], 1e-5 * fabs(want[6]) + 1e-5);
    }
    team_free(t);
}
END_TEST

/* Runs the turns of two agents, agent_1's first. ret[k]: for each row, the probability of
 * agent k's action after its turn, divided by that before. */
static void take_turns(struct team *t, const struct variant *v, double ret[AGENTS][ROWS])
{
    const struct member *m = &t->members[0];
    size_t n;
    const struct stage *stages = m->ops->stages(m->algo, &n);
    struct stage_result res;

    for (size_t k = 0; k < AGENTS; k++)
        run_stage(t, &stages[0], k, 0, 0, &res);
    for (size_t k = AGENTS; k-- > 0;) {
        struct written before = read_member(t, v, k), after;
        double was[AGENTS * ROWS], is[AGENTS * ROWS];

        run_stage(t, &stages[1], k, 0, 0, &res);
        after = read_member(t, v, k);
        read_probabilities(&before, was);
        read_probabilities(&after, is);
        for (int i = 0; i < ROWS; i++)
            ret[k][i] = before.row[i].alive != 0 ? is[i] / was[i] : 1;
    }
}

/* The factors after two turns are the products of both agents' quotients; agent_0's is 1
 * where it was absent. Agents of different teams have separate factors. */
START_TEST(factors_of_two_agents)
{
    static const struct variant v = {"happo", "epochs: 2", &discrete, 1,  0,    2, 0, 1,
                                     0,       1,           0.2,       10, 0.01, 0, 1};
    struct team *t = open_teams(&v, _i);
    double quotient[AGENTS][ROWS], far = 0;

    factor_teams = 1;
    for (int i = 0; i < ROWS; i++)
        factor[i] = 1;
    take_turns(t, &v, quotient);
    ck_assert_int_eq(factor_teams, _i ? AGENTS : 1);
    for (int i = 0; i < ROWS; i++) {
        const double *const q[] = {&quotient[0][i], &quotient[1][i]};

        far = fmax(far, fabs(*q[0] - 1) * fabs(*q[1] - 1));
        ck_assert_double_eq_tol((double)factor[i], _i ? *q[0] : *q[0] * *q[1], 1e-5);
        if (_i)
            ck_assert_double_eq_tol((double)factor[ROWS + i], *q[1], 1e-5);
    }
    ck_assert_double_gt(far, 1e-4);
    ck_assert_double_eq(quotient[0][11], 1); /* agent_0 was absent */
    ck_assert_double_ne(quotient[1][11], 1);
    team_free(t);
}
END_TEST

/* The mean of the members' actor losses in the first minibatch of two. */
static double first_actor_loss(struct team *t)
{
    static const int until_actor = 3; /* prepare, normalize, actor */
    const struct member *m = &t->members[0];
    size_t n;
    const struct stage *stages = m->ops->stages(m->algo, &n);
    struct scalars ret = {0};

    for (int i = 0; i < until_actor; i++)
        for (size_t k = 0; k < AGENTS; k++) {
            struct stage_result res;

            run_stage(t, &stages[i], k, 0, 0, &res);
            add_scalars(&ret, &res);
        }
    return ret.actor_loss / AGENTS;
}

/* If a process runs the stages of an update again, they choose the same rows, although
 * `prepare` overwrites the memory of the order of rows. */
START_TEST(an_update_again_has_the_same_minibatches)
{
    static const struct variant v = {.algorithm = "mappo",
                                     .settings = "minibatches: 2, value_norm: none",
                                     .space = &discrete,
                                     .share = 1};
    struct team *t = open_team(&v);
    const double once = first_actor_loss(t);

    ck_assert_double_eq(first_actor_loss(t), once);
    team_free(t);
}
END_TEST

/* Whether a critic may look up what agents propose after row i: something ends there. */
static int is_end(struct team *t, int i)
{
    double truncated, first = 0, is_here, stays = 1;

    read_column(t, i, NULL, "truncated", &truncated);
    if (i % STEPS == STEPS - 1 || truncated != 0)
        return 1;
    read_column(t, i + 1, NULL, "first", &first);
    for (int k = 0; k < AGENTS && first == 0; k++) {
        read_column(t, i, t->spaces[k].name, "alive", &is_here);
        read_column(t, i + 1, t->spaces[k].name, "alive", &stays);
        first = is_here != 0 && stays == 0;
    }
    return first != 0;
}

/* coma's proposals are draws of the policy at next observations: the choice with the
 * largest sum of its score and keyed noise. There are none where nothing ends. */
START_TEST(proposals_are_keyed_draws)
{
    const struct variant v = {.algorithm = "coma",
                              .settings = "lambda: 0.5",
                              .space = &masked,
                              .joint = 1,
                              .choices = WIDTH};
    const uint64_t update = 5;
    struct team *t = open_team(&v);
    struct member *m = &t->members[0];
    struct written w = read_all(t, &v);
    const uint8_t mask[WIDTH] = {1, 0, 1, 1};
    struct stage_result res;
    size_t n, n_ends = 0;
    float draw[ROWS][WIDTH];

    for (int i = 0; i < ROWS; i++)
        team_write_mask(t, row_of(i), 0, "next_allowed", mask);
    run_stage(t, &m->ops->stages(m->algo, &n)[0], 0, update, 0, &res);
    ck_assert_str_eq(res.output[0].name, "action");
    rng_uniform_f32(team_stage_key(t, 0, "propose"), update, 0, draw[0], ROWS * WIDTH);
    for (int i = 0; i < ROWS; i++) {
        const float *action = tensor_f32(&res.output[0].value) + i * WIDTH;
        double scores[WIDTH];
        int best = 0;

        tanh_net_forward(&w.actor, w.row[i].next_state, scores);
        for (int k = 0; k < WIDTH; k++) {
            scores[k] -= log(-log((double)draw[i][k]));
            best = mask[k] != 0 && scores[k] > scores[best] ? k : best;
        }
        for (int k = 0; k < WIDTH; k++)
            ck_assert_float_eq(action[k], k == best && is_end(t, i) &&
                                              !team_is_gone(t, row_of(i), 0));
        n_ends += (size_t)is_end(t, i);
    }
    ck_assert_uint_gt(n_ends, COPIES);
    ck_assert_uint_lt(n_ends, ROWS);
    team_free(t);
}
END_TEST

/* ---- a recurrent critic ---- */

enum { UNITS = 3, CHUNK = 4 };

/* The critic's values of CHUNK steps from row i on, as its minibatches run it. */
static void run_chunk(struct team *t, int i, const float *carry, float ret[CHUNK])
{
    static const char *const names[] = {"agent_0/state", "agent_0/critic_carry",
                                        "agent_0/critic_first"};
    struct member *m = &t->members[0];
    float state[CHUNK][2 * OBS] = {0}, first[CHUNK] = {0};
    const float *const data[] = {state[0], carry, first};
    const struct shape shapes[] = {SHAPE(CHUNK, 2 * OBS), SHAPE(1, UNITS),
                                   SHAPE(CHUNK, 1)};
    const struct output value = {graph_operation(m->graph, "agent_0/value"), 0};
    struct tensor to = tensor_view(DT_FLOAT, SHAPE(CHUNK, 1), ret);
    struct feed feeds[3];
    const struct run_args run = {
        .feeds = feeds, .n_feeds = 3, .fetches = &value, .n_fetches = 1};
    struct err err;

    for (int k = 0; k < CHUNK && i / STEPS == (i + k) / STEPS; k++) {
        double own[OBS], other[OBS], is_first;

        read_column(t, i + k, "agent_0", "obs", own);
        read_column(t, i + k, "agent_1", "obs", other);
        read_column(t, i + k, NULL, "first", &is_first);
        for (int j = 0; j < OBS; j++) {
            state[k][j] = (float)own[j];
            state[k][OBS + j] = (float)other[j];
        }
        first[k] = (float)is_first;
    }
    for (int k = 0; k < 3; k++)
        feeds[k] = (struct feed){{graph_operation(m->graph, names[k]), 0},
                                 tensor_const_view(DT_FLOAT, shapes[k], data[k])};
    ck_assert_ptr_nonnull(value.op);
    ck_assert_msg(session_run(m->session, &run, &to, &err) == 0, "%s", err.msg);
}

static const float *floats_of(struct team *t, const char *variable)
{
    const struct tensor x = team_variable(t, 0, variable);

    return tensor_f32(&x);
}

/* Chunks that begin with the carry that was kept give the values of the whole window, to the bit,
 * also where an episode begins in one. A window goes on with what the one before it has left; if
 * rows are missing between them, with 0. */
START_TEST(chunks_of_a_critic_give_the_values_of_the_window)
{
    static const struct variant v = {"happo", "recurrent_critic: 3, chunk: 4, epochs: 1",
                                     &discrete, .joint = 1};
    struct team *t = open_team(&v);
    size_t n;
    const struct stage *prepare = t->members[0].ops->stages(t->members[0].algo, &n);
    const float *carries, *values, *end;
    struct stage_result res;
    float left[COPIES * UNITS];

    run_stage(t, prepare, 0, 0, 0, &res);
    values = floats_of(t, "window");
    carries = floats_of(t, "critic_carry/window");
    end = floats_of(t, "critic_carry/v_func");
    for (int e = 0; e < COPIES; e++)
        for (int i = e * STEPS; i < (e + 1) * STEPS; i += CHUNK) {
            const int steps = (e + 1) * STEPS - i < CHUNK ? (e + 1) * STEPS - i : CHUNK;
            float got[CHUNK];

            run_chunk(t, i, carries + i * UNITS, got);
            ck_assert_mem_eq(got, values + i, (size_t)steps * sizeof(float));
        }
    memcpy(left, end, sizeof(left));
    ck_assert_float_ne(left[0], 0);
    for (int missing = 0; missing < 2; missing++) {
        first_row = missing ? 2 : ROWS;
        for (int i = 0; i < ROWS && !missing; i++)
            team_write_joint(t, row_of(i), "first", 0);
        run_stage(t, prepare, 0, (uint64_t)missing + 1, 0, &res);
        for (int e = 0; e < COPIES; e++)
            for (int k = 0; k < UNITS; k++)
                ck_assert_float_eq(carries[e * STEPS * UNITS + k],
                                   missing ? 0 : left[e * UNITS + k]);
    }
    first_row = 0;
    team_free(t);
}
END_TEST

/* A chunk of the critic may be longer than a window, also where the policy has no chunks: the steps
 * that are missing learn nothing. */
START_TEST(a_chunk_of_a_critic_is_longer_than_the_window)
{
    static const char *const algorithms[] = {"ippo", "happo"};
    const struct variant v = {algorithms[_i], "recurrent_critic: 3, chunk: 12, epochs: 1",
                              &discrete, .joint = _i};
    struct team *t = open_team(&v);
    struct scalars s;

    factor_teams = 1;
    for (int i = 0; i < ROWS; i++)
        factor[i] = 1;
    s = learn(t, 0);
    ck_assert_double_gt(s.critic_loss, 0);
    ck_assert(isfinite(s.critic_loss));
    team_free(t);
}
END_TEST

/* ---- acting ---- */

/* Draws follow the policy: the frequencies of choices are their probabilities, numbers have
 * their means, and the column holds the logarithm of the probability of what was drawn. */
START_TEST(draws_follow_the_policy)
{
    enum { N = 20000 };
    const struct variant *v = &variants[_i];
    struct team *t = open_team(v);
    struct member *m = &t->members[0];
    struct written w = read_all(t, v);
    const size_t width = WIDTH;
    float *obs = xcalloc(N * OBS, sizeof(*obs)),
          *actions = xcalloc(N * width, sizeof(float));
    float *log_prob = xcalloc(N, sizeof(float)),
          *sample = xcalloc(N * width, sizeof(float));
    uint64_t *counter = xcalloc(N, sizeof(*counter)), *first = xcalloc(N, sizeof(*first));
    uint8_t *allowed = xcalloc(N * width, 1);
    const struct act_args args = {.mode = ACT_SAMPLE,
                                  .n_copies = N,
                                  .obs = obs,
                                  .allowed = v->space->masked ? allowed : NULL,
                                  .key = rng_key_make(7, "agent_0", PURPOSE_ACT),
                                  .counter = counter,
                                  .draw_first = first};
    struct act_result res = {.actions = actions, .columns = {log_prob, sample}};
    const size_t numbers = (size_t)first_number(v->space); /* from here on */
    struct data d = w.row[0];
    double mean[WIDTH] = {0}, both[WIDTH] = {0}, want[WIDTH];
    struct err err;

    for (uint64_t e = 0; e < N; e++) {
        counter[e] = e;
        for (int k = 0; k < OBS; k++)
            obs[e * OBS + (uint64_t)k] = (float)d.input[k];
        for (int k = 0; k < WIDTH; k++)
            allowed[e * width + (uint64_t)k] = (uint8_t)d.allowed[k];
    }
    ck_assert_msg(m->ops->act(m->algo, m->session, &args, &res, &err) == 0, "%s",
                  err.msg);
    for (size_t e = 0; e < N; e++) {
        double entropy;

        for (size_t k = 0; k < width; k++) {
            const float x =
                v->space->box ? sample[e * width + k] : actions[e * width + k];

            d.action[k] = (double)x;
            mean[k] += (double)x / N;
            if (k >= numbers)
                both[k] += (double)(actions[e * width] * x) / N;
            ck_assert_float_eq(actions[e * width + k],
                               k < numbers ? x : fminf(fmaxf(x, -2), 2));
        }
        if (e < 100)
            ck_assert_double_eq_tol((double)log_prob[e], policy(&w, &d, &entropy), 1e-4);
    }
    tanh_net_forward(&w.actor, d.input, want);
    for (size_t k = numbers; k < width; k++) {
        ck_assert_double_eq_tol(mean[k], want[k], 0.03);
        if (numbers > 0) /* independent of the choice */
            ck_assert_double_eq_tol(both[k], mean[0] * mean[k], 0.03);
    }
    for (size_t k = 0; v->space->n_heads == 1 && k < numbers; k++) {
        double total = 0;

        for (size_t j = 0; j < numbers; j++)
            total += d.allowed[j] != 0 ? exp(want[j]) : 0;
        ck_assert_double_eq_tol(mean[k], d.allowed[k] != 0 ? exp(want[k]) / total : 0,
                                0.015);
    }
    free(obs);
    free(actions);
    free(log_prob);
    free(sample);
    free(counter);
    free(first);
    free(allowed);
    team_free(t);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("policy_gradient");
    TCase *tc = tcase_create("policy_gradient");
    const int n = sizeof(variants) / sizeof(variants[0]);

    tcase_add_loop_test(tc, learning_written_out, 0, n);
    tcase_add_loop_test(tc, factors_of_two_agents, 0, 2);
    tcase_add_test(tc, an_update_again_has_the_same_minibatches);
    tcase_add_test(tc, proposals_are_keyed_draws);
    tcase_add_test(tc, chunks_of_a_critic_give_the_values_of_the_window);
    tcase_add_loop_test(tc, a_chunk_of_a_critic_is_longer_than_the_window, 0, 2);
    tcase_add_loop_test(tc, draws_follow_the_policy, 0, n);
    suite_add_tcase(suite, tc);
    return suite;
}

TEST_MAIN(make_suite)
