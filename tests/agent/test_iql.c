#include "agent/algo/choices.h"
#include "common/mem/xmalloc.h"
#include "common/rng/rng.h"
#include "tests/support/agent_config.h"
#include "tests/support/team.h"
#include "tests/support/test_main.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SMALL  "{algorithm: iql, critic: {hidden: [16, 16]}}"
#define BATCH  8
#define OBS    3
#define MOVES  4
#define COPIES 64

/* ---- choices ---- */

static const struct space two_heads = {.width = 8, .n_heads = 2, .heads = {5, 3}};

/* The number of a choice is that of a particle world: move + 5 * word. */
START_TEST(test_choices_and_back)
{
    float action[8];

    ck_assert_int_eq(choices_count(&two_heads, 15), 15);
    ck_assert_int_eq(choices_count(&two_heads, 14), 0);
    ck_assert_int_eq(choices_count(&(struct space){.width = 2}, 100), 0);
    for (int32_t c = 0; c < 15; c++) {
        choice_to_action(&two_heads, c, action);
        for (int i = 0; i < 8; i++)
            ck_assert_float_eq(action[i], i == c % 5 || i == 5 + c / 5);
        ck_assert_int_eq(choice_of_action(&two_heads, action), c);
    }
}
END_TEST

START_TEST(test_hardened_heads)
{
    float x[2][8] = {{1, 3, 2, 3, 0, -1, -2, -1}, {0, 0, 0, 0, 0.5f, 0.1f, 0.2f, 0.3f}};
    const float want[2][8] = {{0, 1, 0, 0, 0, 1, 0, 0}, {0, 0, 0, 0, 1, 0, 0, 1}};

    choices_harden(&two_heads, x[0], NULL, 2);
    ck_assert_mem_eq(x, want, sizeof(want));
}
END_TEST

/* In a head without an allowed choice, any may be chosen. */
START_TEST(test_masks)
{
    static const uint8_t masks[3][8] = {
        {1, 0, 1, 0, 0, 0, 1, 0}, {0, 0, 0, 0, 0, 0, 1, 1}, {0}};
    static const int best[3][2] = {{2, 1}, {1, 2}, {1, 0}};
    const float row[8] = {1, 3, 2, 3, 0, 9, -2, -1};
    uint8_t allowed[15];
    float x[3][8];

    ck_assert_int_eq(choice_best_of(row, masks[0], 5), 2);
    ck_assert_int_eq(choice_best_of(row, masks[1], 5), 1);
    ck_assert_int_eq(choice_best_of(row, NULL, 5), 1);
    for (int i = 0; i < 3; i++)
        memcpy(x[i], row, sizeof(row));
    choices_harden(&two_heads, x[0], masks[0], 3);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 8; k++)
            ck_assert_float_eq(x[i][k], k == best[i][0] || k == 5 + best[i][1]);
    ck_assert_int_eq(choices_allowed(&two_heads, masks[0], 15, allowed), 2);
    for (int c = 0; c < 15; c++)
        ck_assert_int_eq(allowed[c], c == 0 + 5 || c == 2 + 5);
    ck_assert_int_eq(choices_allowed(&two_heads, masks[1], 15, allowed), 10);
    for (int c = 0; c < 15; c++)
        ck_assert_int_eq(allowed[c], c >= 5);
    ck_assert_int_eq(choices_allowed(&two_heads, masks[2], 15, allowed), 15);
    ck_assert_int_eq(choices_allowed(&two_heads, NULL, 15, allowed), 15);
}
END_TEST

/* ---- acting ---- */

struct acting {
    const uint8_t *allowed; /* (COPIES, U) or NULL */
    float obs[COPIES * OBS], actions[COPIES * 8];
    uint64_t step, counter[COPIES], first[COPIES];
};

static struct team *open_team(const char *config, struct space space)
{
    struct team_args args = team_spread(config, 100);

    args.n = 2;
    args.obs = OBS;
    args.space = space;
    return team_new(&args);
}

static const struct space moves = {.width = MOVES, .n_heads = 1, .heads = {MOVES}};

static void act(struct team *t, struct acting *a, enum act_mode mode, size_t from,
                size_t n)
{
    struct member *m = &t->members[0];
    const size_t width = (size_t)t->spaces[0].width;
    const uint8_t *allowed = a->allowed != NULL ? a->allowed + from * width : NULL;
    const struct act_args args = {.mode = mode,
                                  .step = a->step + from,
                                  .allowed = allowed,
                                  .n_copies = n,
                                  .obs = a->obs + from * OBS,
                                  .key = rng_key_make(7, "agent_0", PURPOSE_ACT),
                                  .counter = a->counter + from,
                                  .draw_first = a->first + from};
    struct act_result res = {.actions = a->actions + from * width};
    struct err err;

    ck_assert_msg(m->ops->act(m->algo, m->session, &args, &res, &err) == 0, "%s",
                  err.msg);
}

static struct acting make_acting(void)
{
    struct acting a = {.allowed = NULL};

    rng_uniform_f32(rng_key_make(9, "test", "obs"), 0, 0, a.obs, COPIES * OBS);
    for (uint64_t e = 0; e < COPIES; e++)
        a.counter[e] = 1000 + e;
    return a;
}

/* The share of many explored choices that differ from the greedy ones. */
static double share_explored(const char *config, const struct space *space)
{
    struct team *t = open_team(config, *space);
    const size_t width = (size_t)space->width;
    struct acting greedy = make_acting(), any = greedy;
    int differ = 0;

    act(t, &greedy, ACT_GREEDY, 0, COPIES);
    for (int round = 0; round < 50; round++) {
        act(t, &any, ACT_EXPLORE, 0, COPIES);
        for (size_t e = 0; e < COPIES; e++) {
            differ += memcmp(any.actions + e * width, greedy.actions + e * width,
                             width * sizeof(float)) != 0;
            any.counter[e] += COPIES;
        }
    }
    team_free(t);
    return (double)differ / (50 * COPIES);
}

/* Exploring chooses among all, the greedy choice included. */
START_TEST(test_epsilon)
{
    static const char *const half =
        "{algorithm: iql, settings: {epsilon: 0.5}, critic: {hidden: [16]}}";
    static const char *const never =
        "{algorithm: iql, settings: {epsilon: 0}, critic: {hidden: [16]}}";
    static const char *const always =
        "{algorithm: iql, settings: {epsilon: 1}, critic: {hidden: [16]}}";

    ck_assert_double_eq(share_explored(never, &moves), 0);
    ck_assert_double_eq_tol(share_explored(half, &moves), 0.5 * 3 / 4, 0.03);
    ck_assert_double_eq_tol(share_explored(always, &moves), 3.0 / 4, 0.03);
    ck_assert_double_eq_tol(share_explored(always, &two_heads), 14.0 / 15, 0.02);
}
END_TEST

/* "1 to 0 over 100": each copy's epsilon is that of its own step. */
START_TEST(test_epsilon_falls)
{
    struct team *t = open_team("{algorithm: iql, settings: {epsilon: 1 to 0 over 100}, "
                               "critic: {hidden: [16]}}",
                               moves);
    struct acting greedy = make_acting(), any = greedy;
    int differ[2] = {0};

    act(t, &greedy, ACT_GREEDY, 0, COPIES);
    for (int round = 0; round < 50; round++) {
        any.step = 68; /* epsilon: 0.32 for copy 0, 0 from copy 32 on */
        act(t, &any, ACT_EXPLORE, 0, COPIES);
        for (size_t e = 0; e < COPIES; e++) {
            differ[e >= 32] += memcmp(any.actions + e * MOVES, greedy.actions + e * MOVES,
                                      MOVES * sizeof(float)) != 0;
            any.counter[e] += COPIES;
        }
    }
    ck_assert_int_eq(differ[1], 0);
    ck_assert_double_eq_tol(differ[0] / (50.0 * 32), 0.165 * 3 / 4, 0.03);
    team_free(t);
}
END_TEST

/* Each copy may choose two moves of four, different ones: exploring chooses any of them,
 * and the greedy choice is the better one. */
START_TEST(test_masked_choices)
{
    static const char *const always =
        "{algorithm: iql, settings: {epsilon: 1}, critic: {hidden: [16]}}";
    struct space masked = moves;
    struct acting a = make_acting(), one = a, free_choice = a;
    uint8_t allowed[COPIES * MOVES] = {0}, only[COPIES * MOVES];
    int seen[2] = {0};
    struct team *t;

    masked.masked = 1;
    t = open_team(always, masked);
    act(t, &free_choice, ACT_GREEDY, 0, COPIES);
    for (size_t e = 0; e < COPIES; e++)
        allowed[e * MOVES + e % 4] = allowed[e * MOVES + (e + 1 + e / 4 % 3) % 4] = 1;
    a.allowed = allowed;
    for (int round = 0; round < 50; round++) {
        act(t, &a, ACT_EXPLORE, 0, COPIES);
        for (size_t e = 0; e < COPIES; e++) {
            const int32_t c = choice_of_action(&masked, a.actions + e * MOVES);

            ck_assert_int_eq(allowed[e * MOVES + (size_t)c], 1);
            seen[(size_t)c == e % 4]++;
            a.counter[e] += COPIES;
        }
    }
    ck_assert_double_eq_tol((double)seen[0] / (50 * COPIES), 0.5, 0.03);
    act(t, &a, ACT_GREEDY, 0, COPIES);
    for (size_t e = 0; e < COPIES; e++) {
        const int32_t c = choice_of_action(&masked, a.actions + e * MOVES);
        const int32_t best = choice_of_action(&masked, free_choice.actions + e * MOVES);

        ck_assert_int_eq(allowed[e * MOVES + (size_t)c], 1);
        ck_assert(!allowed[e * MOVES + (size_t)best] || c == best);
    }
    one.allowed = only;
    for (size_t k = 0; k < MOVES; k++) {
        memset(only, 0, sizeof(only));
        for (size_t e = 0; e < COPIES; e++)
            only[e * MOVES + k] = 1;
        act(t, &one, k % 2 ? ACT_GREEDY : ACT_EXPLORE, 0, COPIES);
        for (size_t e = 0; e < COPIES; e++)
            ck_assert_float_eq(one.actions[e * MOVES + k], 1);
    }
    team_free(t);
}
END_TEST

/* An action depends only on the observation and counter of its row; nothing is
 * written. */
START_TEST(test_act_is_pure)
{
    struct team *t = open_team(SMALL, two_heads);
    struct acting all = make_acting(), one = all;
    const size_t n = session_block_bytes(t->members[0].session);
    void *before = xmalloc(n);

    session_snapshot(t->members[0].session, before);
    act(t, &all, ACT_SAMPLE, 0, COPIES);
    for (size_t e = 0; e < COPIES; e++)
        act(t, &one, ACT_SAMPLE, e, 1);
    ck_assert_mem_eq(all.actions, one.actions, sizeof(all.actions));
    ck_assert_mem_eq(session_block(t->members[0].session), before, n);
    free(before);
    team_free(t);
}
END_TEST

/* ---- learning ---- */

struct row {
    float obs[OBS], next_obs[OBS], reward, terminated, alive, weight;
    uint8_t next_allowed[MOVES]; /* all zeros: any move is allowed */
    int move;
};

/* A network of one layer, q = obs W + b, and plain gradient descent. */
#define LINEAR(reward_scale)                                                             \
    "{algorithm: iql, discount: 0.5, polyak: 0.25, clip_norm: none, "                    \
    "settings: {hysteresis: 0.2, reward_scale: " reward_scale "}, "                      \
    "critic: {hidden: []}, "                                                             \
    "optimizer: {type: sgd, learning_rate: 0.1 to 0.05 over 10}}"

struct linear {
    float w[OBS][MOVES], b[MOVES];
};

static struct linear linear_of(struct team *t, const char *scope)
{
    struct linear ret;
    char name[64];
    struct tensor v;

    (void)snprintf(name, sizeof(name), "%s/fully_connected/weights", scope);
    v = team_variable(t, 1, name);
    memcpy(ret.w, v.data, sizeof(ret.w));
    (void)snprintf(name, sizeof(name), "%s/fully_connected/biases", scope);
    v = team_variable(t, 1, name);
    memcpy(ret.b, v.data, sizeof(ret.b));
    return ret;
}

static double value(const struct linear *l, const float *obs, int move)
{
    double q = (double)l->b[move];

    for (int i = 0; i < OBS; i++)
        q += (double)(obs[i] * l->w[i][move]);
    return q;
}

static double target_of(const struct linear *target, const struct row *r, double scale)
{
    static const uint8_t none[MOVES];
    double best = -INFINITY;

    for (int move = 0; move < MOVES; move++)
        if (r->next_allowed[move] || memcmp(r->next_allowed, none, MOVES) == 0)
            best = fmax(best, value(target, r->next_obs, move));
    return scale * (double)r->reward + 0.5 * (1 - (double)r->terminated) * best;
}

static double read_log(struct team *t, uint64_t row, const char *column)
{
    float x;

    store_view_gather(t->store, store_layout_find(&t->layout, "agent_1", column), &row, 1,
                      &x, 1);
    return (double)x;
}

/* 1 / the deviation of the rewards of agent_1 in the first n rows of the log. */
static double scale_of(struct team *t, uint64_t n)
{
    double alive = 0, mean = 0, squares = 0;

    for (uint64_t k = 0; k < n; k++) {
        alive += read_log(t, k, "alive");
        mean += read_log(t, k, "alive") * read_log(t, k, "reward");
    }
    mean /= fmax(alive, 1);
    for (uint64_t k = 0; k < n; k++) {
        const double d = read_log(t, k, "reward") - mean;

        squares += read_log(t, k, "alive") * d * d;
    }
    return n > 1 ? 1 / sqrt(squares / alive + 1e-8) : 1;
}

/* One step of gradient descent, written out. Returns the loss before it. */
static double descend(struct linear *l, const struct linear *target,
                      const struct row *rows, uint64_t step_number, double scale)
{
    const double rate = fmax(0.1 - 0.005 * (double)step_number, 0.05);
    const struct linear before = *l;
    double loss = 0;

    for (int k = 0; k < BATCH; k++) {
        const struct row *r = &rows[k];
        const double error =
            target_of(target, r, scale) - value(&before, r->obs, r->move);
        const double w = (error < 0 ? 0.2 : 1) * (double)(r->weight * r->alive) / BATCH;
        const double step = rate * 2 * w * error;

        loss += w * error * error;
        l->b[r->move] += (float)step;
        for (int i = 0; i < OBS; i++)
            l->w[i][r->move] += (float)(step * (double)r->obs[i]);
    }
    return loss;
}

static void follow(struct linear *target, const struct linear *l)
{
    for (int move = 0; move < MOVES; move++) {
        target->b[move] += (l->b[move] - target->b[move]) / 4;
        for (int i = 0; i < OBS; i++)
            target->w[i][move] += (l->w[i][move] - target->w[i][move]) / 4;
    }
}

static void check_close(const struct linear *a, const struct linear *b)
{
    const float *x = a->w[0], *y = b->w[0];

    for (size_t i = 0; i < sizeof(*a) / sizeof(float); i++)
        ck_assert_float_eq_tol(x[i], y[i], 1e-5f);
}

/* Rows of agent_1 with different weights; some are ends, in one the agent is absent. */
static void write_rows(struct team *t, struct row *rows, int masked)
{
    const struct rng_key key = rng_key_make(5, "test", "rows");

    for (uint64_t k = 0; k < BATCH; k++) {
        struct row *r = &rows[k];
        float x[2 * OBS + 2], one_hot[MOVES] = {0};

        rng_uniform_f32(key, k, 0, x, 2 * OBS + 2);
        memcpy(r->obs, x, sizeof(r->obs));
        memcpy(r->next_obs, x + OBS, sizeof(r->next_obs));
        r->reward = 4 * x[2 * OBS] - 2;
        r->weight = 2 * x[2 * OBS + 1];
        r->terminated = k % 3 == 0;
        r->alive = k != 5;
        r->move = (int)(k % MOVES);
        one_hot[r->move] = 1;
        team_write(t, k, 1, "obs", r->obs);
        team_write(t, k, 1, "next_obs", r->next_obs);
        team_write(t, k, 1, "reward", &r->reward);
        team_write(t, k, 1, "terminated", &r->terminated);
        team_write(t, k, 1, "alive", &r->alive);
        team_write(t, k, 1, "action", one_hot);
        for (unsigned move = 0; move < MOVES; move++)
            r->next_allowed[move] = masked ? k * 5 % 16 >> move & 1 : 1;
        if (masked)
            team_write_mask(t, k, 1, "next_allowed", r->next_allowed);
    }
}

/* Without masks, and with; with raw rewards, and divided by their deviation. */
START_TEST(test_learning_written_out)
{
    const int masked = _i % 2, scales = _i / 2;
    const struct space space = {
        .width = MOVES, .n_heads = 1, .heads = {MOVES}, .masked = masked};
    struct team *t = open_team(scales ? LINEAR("running") : LINEAR("none"), space);
    struct linear q = linear_of(t, "q_func"), target = linear_of(t, "target_q_func");
    uint64_t batch[BATCH];
    float weights[BATCH];
    struct row rows[BATCH];
    struct linear now;

    write_rows(t, rows, masked);
    for (uint64_t k = 0; k < BATCH; k++) {
        batch[k] = k;
        weights[k] = rows[k].weight;
    }
    ck_assert_mem_eq(&q, &target, sizeof(q));
    for (uint64_t u = 0; u < 20; u++) {
        const double scale = scales ? scale_of(t, u) : 1;
        double loss = descend(&q, &target, rows, u, scale);

        team_update(t, u, batch, 1, BATCH, weights);
        ck_assert_double_eq_tol(team_scalar(&t->members[1], "critic_loss"), loss, 1e-5);
        follow(&target, &q);
    }
    now = linear_of(t, "q_func");
    check_close(&now, &q);
    now = linear_of(t, "target_q_func");
    check_close(&now, &target);
    team_free(t);
}
END_TEST

/* own_batches: each agent learns from the rows of its own group. */
START_TEST(test_groups)
{
    struct team *grouped = open_team(SMALL, moves), *single = open_team(SMALL, moves);
    uint64_t batch[2 * BATCH];

    for (uint64_t k = 0; k < 2 * BATCH; k++)
        batch[k] = 3 * k;
    team_update(grouped, 0, batch, 2, BATCH, NULL);
    team_update(single, 0, batch + BATCH, 1, BATCH, NULL);
    ck_assert_double_eq(team_scalar(&grouped->members[1], "critic_loss"),
                        team_scalar(&single->members[1], "critic_loss"));
    ck_assert_double_ne(team_scalar(&grouped->members[0], "critic_loss"),
                        team_scalar(&single->members[0], "critic_loss"));
    team_free(grouped);
    team_free(single);
}
END_TEST

/* Two players, neither of whom sees the other's move: the reward is 1 for the same move
 * and -3 for different ones, so that on average every move looks worse than staying out
 * (move 3: 0). If disappointments count fully, staying out wins; if they hardly count,
 * the best move does. */
static int learned_move(const char *config)
{
    struct team *t = open_team(config, moves);
    const float obs[OBS] = {1, 0, 0}, end = 1;
    struct acting a = make_acting();
    uint64_t batch[16];
    int best = 0;

    for (uint64_t k = 0; k < 16; k++) {
        int mine = (int)(k % 4), other = (int)(k / 4);
        float one_hot[MOVES] = {0}, reward = mine == 3 ? 0 : mine == other ? 1 : -3;

        batch[k] = k;
        one_hot[mine] = 1;
        team_write(t, k, 0, "obs", obs);
        team_write(t, k, 0, "action", one_hot);
        team_write(t, k, 0, "reward", &reward);
        team_write(t, k, 0, "terminated", &end);
    }
    for (uint64_t u = 0; u < 1000; u++)
        team_update(t, u, batch, 1, 16, NULL);
    memcpy(a.obs, obs, sizeof(obs));
    act(t, &a, ACT_GREEDY, 0, 1);
    for (int i = 0; i < MOVES; i++)
        best = a.actions[i] == 1 ? i : best;
    team_free(t);
    return best;
}

START_TEST(test_hysteresis_forgives)
{
    ck_assert_int_eq(learned_move("{algorithm: iql, critic: {hidden: [16]}}"), 3);
    ck_assert_int_lt(learned_move("{algorithm: iql, settings: {hysteresis: 0.01}, "
                                  "critic: {hidden: [16]}}"),
                     3);
}
END_TEST

/* ---- invalid configurations ---- */

static int try_build(const char *config, struct space space, struct err *err)
{
    struct run_config c;
    struct algo *algo = NULL;
    struct graph *g = graph_new();
    struct algorithm_settings settings;
    const struct algo_args a = {.ops = algo_find("iql"),
                                .graph = g,
                                .config = &c.defaults,
                                .settings = &settings,
                                .agents = &space,
                                .n_agents = 1};
    int r;

    space.obs = OBS;
    (void)snprintf(space.name, AGENT_NAME_MAX, "agent_0");
    ck_assert_msg(agent_config_from_text(&c, config, err) == 0, "%s", err->msg);
    algorithm_settings_read(&settings, &c.defaults);
    r = algo_new(&algo, &a, err);
    algo_free(a.ops, algo);
    graph_free(g);
    run_config_done(&c);
    return r;
}

START_TEST(test_refused_configurations)
{
    const struct space box = {.width = 2, .box = 1, .low = -1, .high = 1};
    const struct space many = {.width = 300, .n_heads = 3, .heads = {100, 100, 100}};
    struct err err;

    ck_assert_int_eq(try_build(SMALL, box, &err), ERR_CONFIG);
    ck_assert_int_eq(try_build(SMALL, many, &err), ERR_CONFIG);
    ck_assert_str_eq(err.msg, "algorithm: iql needs a discrete action space, of at most "
                              "4096 choices");
    ck_assert_int_eq(
        try_build("{algorithm: iql, optimizer: {type: accept_reject}}", moves, &err),
        ERR_CONFIG);
    ck_assert_int_eq(try_build(SMALL, moves, &err), 0);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("iql");
    TCase *tc = tcase_create("iql");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, test_choices_and_back);
    tcase_add_test(tc, test_hardened_heads);
    tcase_add_test(tc, test_masks);
    tcase_add_test(tc, test_epsilon);
    tcase_add_test(tc, test_epsilon_falls);
    tcase_add_test(tc, test_masked_choices);
    tcase_add_test(tc, test_act_is_pure);
    tcase_add_loop_test(tc, test_learning_written_out, 0, 4);
    tcase_add_test(tc, test_groups);
    tcase_add_test(tc, test_hysteresis_forgives);
    tcase_add_test(tc, test_refused_configurations);
    suite_add_tcase(suite, tc);
    return suite;
}

TEST_MAIN(make_suite)
