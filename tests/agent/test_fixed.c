/* Agents that act and never learn: which actions they choose, as a function of the key
 * alone. */
#include "agent/algo/algo.h"
#include "common/ckpt/bundle.h"
#include "common/mem/xmalloc.h"
#include "common/rng/rng.h"
#include "common/wire/cursor.h"
#include "tests/support/test_main.h"

#include <math.h>
#include <string.h>

enum { MAX_ROWS = 4096, MAX_WIDTH = 16 };

static struct space discrete(const char *name, int64_t obs, int32_t first, int32_t second)
{
    struct space s = {.obs = obs,
                      .width = first + second,
                      .n_heads = second > 0 ? 2 : 1,
                      .heads = {first, second}};

    (void)snprintf(s.name, sizeof(s.name), "%s", name);
    (void)snprintf(s.team, sizeof(s.team), "%.*s", (int)strcspn(name, "_"), name);
    return s;
}

static struct space box(int64_t width, double low, double high)
{
    return (struct space){.name = "agent_0",
                          .team = "agent",
                          .obs = 1,
                          .width = width,
                          .box = 1,
                          .low = low,
                          .high = high};
}

/* One agent of such an algorithm. */
struct player {
    struct agent_config config;
    struct algorithm_settings settings;
    struct algo_args from; /* the graph and weights of an imported policy */
    struct graph *graph;
    struct session *session;
    const struct algo_ops *ops;
    struct algo *algo;
};

static int try_open(struct player *p, const char *algorithm, const char *env,
                    const struct space *agents, size_t n, size_t self, struct err *err)
{
    struct algo_args args = p->from;

    p->graph = graph_new();
    p->ops = algo_find(algorithm);
    args.ops = p->ops;
    args.agents = agents;
    args.n_agents = n;
    args.self = self;
    args.env = env;
    args.graph = p->graph;
    args.config = &p->config;
    args.settings = &p->settings;
    ck_assert_ptr_nonnull(p->ops);
    return algo_new(&p->algo, &args, err);
}

static void open_player(struct player *p, const char *algorithm, const char *env,
                        const struct space *agents, size_t n, size_t self)
{
    struct err err = {0};

    ck_assert_msg(try_open(p, algorithm, env, agents, n, self, &err) == 0, "%s", err.msg);
    ck_assert_int_eq(session_new(&p->session, p->graph, NULL, &err), 0);
}

static void close_player(struct player *p)
{
    algo_free(p->ops, p->algo);
    session_free(p->session);
    graph_free(p->graph);
    *p = (struct player){0};
}

static void act(struct player *p, uint64_t seed, size_t rows, const float *obs,
                float *ret)
{
    static uint64_t counter[MAX_ROWS], first[MAX_ROWS];
    struct act_args args = {.mode = ACT_EXPLORE,
                            .n_copies = rows,
                            .obs = obs,
                            .key = rng_key_make(seed, "agent_0", PURPOSE_ACT),
                            .counter = counter,
                            .draw_first = first};
    struct act_result result = {.actions = ret};
    struct err err = {0};

    for (size_t i = 0; i < rows; i++)
        counter[i] = i;
    ck_assert_msg(p->ops->act(p->algo, p->session, &args, &result, &err) == 0, "%s",
                  err.msg);
}

/* ---- random, noop ---- */

static float obs[MAX_ROWS * MAX_WIDTH], actions[MAX_ROWS * MAX_WIDTH],
    again[MAX_ROWS * MAX_WIDTH];

START_TEST(random_choices_are_even)
{
    const struct space s = discrete("agent_0", 1, 5, 3);
    int count[8] = {0};
    struct player p = {0};

    open_player(&p, "random", "toy", &s, 1, 0);
    act(&p, 1, MAX_ROWS, obs, actions);
    for (size_t i = 0; i < MAX_ROWS; i++) {
        float sum[2] = {0};

        for (int k = 0; k < 8; k++) {
            ck_assert(actions[i * 8 + k] == 0.0f || actions[i * 8 + k] == 1.0f);
            sum[k >= 5] += actions[i * 8 + k];
            count[k] += actions[i * 8 + k] > 0;
        }
        ck_assert(sum[0] == 1.0f && sum[1] == 1.0f);
    }
    /* five deviations of a binomial count */
    for (int k = 0; k < 8; k++) {
        const double share = k < 5 ? 0.2 : 1.0 / 3;

        ck_assert_double_lt(fabs(count[k] - MAX_ROWS * share),
                            5 * sqrt(MAX_ROWS * share * (1 - share)));
    }
    act(&p, 1, 100, obs, again);
    ck_assert_mem_eq(actions, again, 100 * 8 * sizeof(float));
    act(&p, 2, 100, obs, again);
    ck_assert_mem_ne(actions, again, 100 * 8 * sizeof(float));
    close_player(&p);
}
END_TEST

START_TEST(random_points_fill_the_box)
{
    const struct space s = box(2, -3, 1), open = box(2, -INFINITY, INFINITY);
    /* of 32 bits, the lower bound is higher, and adding the width would pass the upper one */
    const struct space coarse = box(2, 1000.00004, 1000.0002);
    float low = INFINITY, high = -INFINITY;
    struct player p = {0};

    open_player(&p, "random", "toy", &s, 1, 0);
    act(&p, 1, MAX_ROWS, obs, actions);
    for (size_t i = 0; i < MAX_ROWS * 2; i++) {
        low = fminf(low, actions[i]);
        high = fmaxf(high, actions[i]);
    }
    ck_assert(low >= -3.0f && low < -2.99f && high <= 1.0f && high > 0.99f);
    close_player(&p);
    open_player(&p, "random", "toy", &coarse, 1, 0);
    act(&p, 1, MAX_ROWS, obs, actions);
    low = INFINITY;
    high = -INFINITY;
    for (size_t i = 0; i < MAX_ROWS * 2; i++) {
        low = fminf(low, actions[i]);
        high = fmaxf(high, actions[i]);
    }
    ck_assert(low == (float)coarse.low && high == (float)coarse.high);
    close_player(&p);
    open_player(&p, "random", "toy", &open, 1, 0);
    act(&p, 1, MAX_ROWS, obs, actions);
    for (size_t i = 0; i < MAX_ROWS * 2; i++)
        ck_assert(isfinite(actions[i]));
    close_player(&p);
}
END_TEST

/* Two choices and two numbers. */
static struct space hybrid(double low, double high)
{
    struct space s = box(4, low, high);

    s.n_heads = 1;
    s.heads[0] = 2;
    return s;
}

/* However close the bounds are, also without any: choices are even and numbers within them. */
START_TEST(random_choices_beside_numbers)
{
    static const double bounds[][2] = {
        {-3, 1}, {1000.00004, 1000.0002}, {-INFINITY, INFINITY}};
    const double low = bounds[_i][0], high = bounds[_i][1];
    const struct space s = hybrid(low, high);
    struct player p = {0};
    double sum[4] = {0};

    open_player(&p, "random", "toy", &s, 1, 0);
    act(&p, 1, MAX_ROWS, obs, actions);
    for (size_t i = 0; i < MAX_ROWS; i++) {
        const float *x = actions + 4 * i;

        ck_assert(x[0] + x[1] == 1 && (x[0] == 0 || x[0] == 1));
        for (int k = 0; k < 4; k++)
            sum[k] += (double)x[k] / MAX_ROWS;
        for (int k = 2; k < 4; k++)
            ck_assert(isfinite(x[k]) && x[k] >= (float)low && x[k] <= (float)high);
    }
    ck_assert_double_eq_tol(sum[0], 0.5, 5 * sqrt(0.25 / MAX_ROWS));
    for (int k = 2; k < 4 && high - low == 4; k++)
        ck_assert_double_eq_tol(sum[k], (low + high) / 2, 0.2);
    close_player(&p);
    open_player(&p, "noop", "toy", &s, 1, 0);
    act(&p, 1, 1, obs, actions);
    ck_assert(actions[0] == 1 && actions[1] == 0);
    ck_assert(actions[2] == (low > 0 ? (float)low : 0) && actions[3] == actions[2]);
    close_player(&p);
}
END_TEST

START_TEST(noop)
{
    static const float first_choices[] = {1, 0, 0, 0, 0, 1, 0, 0};
    const struct space s = discrete("agent_0", 1, 5, 3), around = box(2, -3, 1),
                       above = box(2, 2, 4);
    struct player p = {0};

    open_player(&p, "noop", "toy", &s, 1, 0);
    act(&p, 1, 1, obs, actions);
    ck_assert_mem_eq(actions, first_choices, sizeof(first_choices));
    close_player(&p);
    open_player(&p, "noop", "toy", &around, 1, 0);
    act(&p, 1, 1, obs, actions);
    ck_assert(actions[0] == 0.0f && actions[1] == 0.0f);
    close_player(&p);
    open_player(&p, "noop", "toy", &above, 1, 0);
    act(&p, 1, 1, obs, actions);
    ck_assert(actions[0] == 2.0f && actions[1] == 2.0f);
    close_player(&p);
}
END_TEST

/* ---- heuristic ---- */

static int chosen(const float *x, int n)
{
    int best = 0;

    for (int i = 1; i < n; i++)
        best = x[i] > x[best] ? i : best;
    return best;
}

START_TEST(rules_of_spread)
{
    struct space s[2];
    struct player p = {0};
    /* velocity, position, landmarks left and right of both, the other, its speech */
    float first[14] = {0, 0, 0, 0, -1, 0, 1, 0, -0.5f, 0};
    float second[14] = {0, 0, 0, 0, -0.5f, 0, 1.5f, 0, 0.5f, 0};

    s[0] = discrete("agent_0", 12, 5, 0);
    s[1] = discrete("agent_1", 12, 5, 0);
    open_player(&p, "heuristic", "simple_spread", s, 2, 0);
    act(&p, 1, 1, first, actions);
    ck_assert_int_eq(chosen(actions, 5), 2); /* the other is nearer to the left one */
    close_player(&p);
    open_player(&p, "heuristic", "simple_spread", s, 2, 1);
    act(&p, 1, 1, second, actions);
    ck_assert_int_eq(chosen(actions, 5), 1);
    close_player(&p);
}
END_TEST

START_TEST(rules_of_speaker_and_listener)
{
    struct space s[2];
    struct player p = {0};
    const float colour[3] = {0.15f, 0.65f, 0.15f};
    float listener[11] = {0, 0, 1, 0, 0, -1, -1, 0, 0, 0, 0};

    s[0] = discrete("speaker_0", 3, 3, 0);
    s[1] = discrete("listener_0", 11, 5, 0);
    open_player(&p, "heuristic", "simple_speaker_listener", s, 2, 0);
    act(&p, 1, 1, colour, actions);
    ck_assert_int_eq(chosen(actions, 3), 1);
    close_player(&p);
    open_player(&p, "heuristic", "simple_speaker_listener", s, 2, 1);
    act(&p, 1, 1, listener, actions);
    ck_assert_int_eq(chosen(actions, 5), 0); /* no word was spoken yet */
    listener[9] = 1;
    act(&p, 1, 1, listener, actions);
    ck_assert_int_eq(chosen(actions, 5), 3); /* down */
    close_player(&p);
}
END_TEST

START_TEST(rules_for_what_they_know_only)
{
    const struct space s = discrete("agent_0", 7, 5, 0);
    struct player p = {0};
    struct err err = {0};

    ck_assert_int_eq(try_open(&p, "heuristic", "simple_crypto", &s, 1, 0, &err),
                     ERR_CONFIG);
    ck_assert_ptr_nonnull(strstr(err.msg, "simple_crypto"));
    close_player(&p);
    ck_assert_int_eq(try_open(&p, "heuristic", "simple", &s, 1, 0, &err), ERR_CONFIG);
    ck_assert_ptr_nonnull(strstr(err.msg, "agent_0 observes 7 numbers"));
    close_player(&p);
}
END_TEST

/* ---- frozen ---- */

#define REAL "data/tf-checkpoints/01-mbeliaev1-maddpg/policy/h10s5/5/"

enum { REAL_OBS = 8, REAL_UNITS = 32, REAL_ACTIONS = 9 };

/* y = relu?(x W + b) of one row; sums in float64. */
static void layer(struct bundle_reader *b, const char *name, const double *x, int n,
                  double *y, int m, int with_relu)
{
    char key[128];
    struct tensor w, bias;
    struct err err;

    (void)snprintf(key, sizeof(key), "agent_0/p_func/%s/weights", name);
    ck_assert_int_eq(bundle_reader_read(b, bundle_reader_find(b, key), &w, &err), 0);
    (void)snprintf(key, sizeof(key), "agent_0/p_func/%s/biases", name);
    ck_assert_int_eq(bundle_reader_read(b, bundle_reader_find(b, key), &bias, &err), 0);
    ck_assert(shape_equal(&w.shape, &SHAPE(n, m)));
    for (int j = 0; j < m; j++) {
        y[j] = (double)tensor_f32(&bias)[j];
        for (int i = 0; i < n; i++)
            y[j] += x[i] * (double)tensor_f32(&w)[i * m + j];
        if (with_relu && y[j] < 0)
            y[j] = 0;
    }
    tensor_free(&w);
    tensor_free(&bias);
}

static int best_by_the_weights(struct bundle_reader *b, const float *row)
{
    double x[REAL_OBS], h[REAL_UNITS], g[REAL_UNITS], y[REAL_ACTIONS];
    int best = 0;

    for (int i = 0; i < REAL_OBS; i++)
        x[i] = (double)row[i];
    layer(b, "fully_connected", x, REAL_OBS, h, REAL_UNITS, 1);
    layer(b, "fully_connected_1", h, REAL_UNITS, g, REAL_UNITS, 1);
    layer(b, "fully_connected_2", g, REAL_UNITS, y, REAL_ACTIONS, 0);
    for (int i = 1; i < REAL_ACTIONS; i++)
        best = y[i] > y[best] ? i : best;
    return best;
}

/* An agent of a world with observations of 8 numbers and 9 actions acts by the weights of
 * a real run of openai/maddpg. The expected actions are computed with plain loops. */
START_TEST(the_weights_of_a_real_file_play)
{
    enum { ROWS = 200 };
    const struct space s = discrete("agent_0", REAL_OBS, REAL_ACTIONS, 0);
    struct player p = {
        .settings = {.observation = "observation0:0",
                     .action = "agent_0_1/p_func/fully_connected_2/BiasAdd:0"}};
    struct wbuf metagraph = {0};
    struct bundle_reader *b;
    struct err err = {0};
    char *prefix, *file;
    int used[REAL_ACTIONS] = {0}, n_used = 0;

    if (test_shared_dir() == NULL) {
        (void)fprintf(stderr, "# no BROOD_SHARED_DIR: no real weights are played\n");
        return;
    }
    prefix = xasprintf("%s/" REAL, test_shared_dir());
    file = xasprintf("%s.meta", prefix);
    ck_assert_int_eq(wbuf_read_file(&metagraph, file, 1 << 24, &err), 0);
    p.from = (struct algo_args){
        .metagraph = metagraph.data, .metagraph_bytes = metagraph.len, .prefix = prefix};
    open_player(&p, "frozen", "none", &s, 1, 0);
    ck_assert_msg(
        p.ops->init(p.algo, p.session, rng_key_make(1, "agent_0", "init"), &err) == 0,
        "%s", err.msg);
    rng_normal_f32(rng_key_make(1, "test", "obs"), 0, 0, obs, ROWS * REAL_OBS);
    act(&p, 1, ROWS, obs, actions);
    ck_assert_int_eq(bundle_reader_new(&b, prefix, &err), 0);
    for (int i = 0; i < ROWS; i++) {
        const int best = best_by_the_weights(b, obs + (size_t)i * REAL_OBS);

        ck_assert_int_eq(chosen(actions + (size_t)i * REAL_ACTIONS, REAL_ACTIONS), best);
        n_used += !used[best];
        used[best] = 1;
    }
    ck_assert_int_ge(n_used, 3);
    bundle_reader_free(b);
    close_player(&p);
    wbuf_done(&metagraph);
    free(file);
    free(prefix);
}
END_TEST

/* ---- requests of other agents ---- */

START_TEST(they_propose_and_never_write)
{
    static const char *const all[] = {"frozen", "heuristic", "noop", "random"};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        const struct stage *stages;
        size_t n;

        ck_assert_ptr_nonnull(algo_find(all[i]));
        stages = algo_find(all[i])->stages(NULL, &n);
        ck_assert_uint_eq(n, 1);
        ck_assert_str_eq(stages[0].name, "propose");
        ck_assert_int_eq(stages[0].writes, 0);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("fixed");
    TCase *tc = tcase_create("fixed");

    tcase_add_test(tc, random_choices_are_even);
    tcase_add_test(tc, random_points_fill_the_box);
    tcase_add_loop_test(tc, random_choices_beside_numbers, 0, 3);
    tcase_add_test(tc, noop);
    tcase_add_test(tc, rules_of_spread);
    tcase_add_test(tc, rules_of_speaker_and_listener);
    tcase_add_test(tc, rules_for_what_they_know_only);
    tcase_add_test(tc, the_weights_of_a_real_file_play);
    tcase_add_test(tc, they_propose_and_never_write);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
