/* The critic that a client trains: names, one step by hand, targets that follow the
 * critic. */
#include "agent/algo/algo.h"
#include "common/mem/xmalloc.h"
#include "tests/support/agent_config.h"
#include "tests/support/test_main.h"

#include <math.h>
#include <string.h>

enum { BATCH = 8, OBS = 6, ACTION = 3 };

struct bench {
    struct run_config config;
    struct algorithm_settings settings;
    struct space space;
    struct graph *graph;
    struct session *session;
    const struct algo_ops *ops;
    struct algo *algo;
    float inputs[BATCH * OBS], action[BATCH * ACTION], y[BATCH], weight[BATCH];
};

static struct err err;

static struct bench *bench_new(const char *config)
{
    struct bench *b = xcalloc(1, sizeof(*b));
    struct algo_args args = {.config = &b->config.defaults,
                             .settings = &b->settings,
                             .agents = &b->space,
                             .n_agents = 1};

    ck_assert_msg(agent_config_from_text(&b->config, config, &err) == 0, "%s", err.msg);
    algorithm_settings_read(&b->settings, &b->config.defaults);
    b->space = (struct space){.name = "critic_3", .obs = OBS, .width = ACTION};
    b->graph = args.graph = graph_new();
    b->ops = args.ops = algo_find("critic");
    ck_assert_msg(algo_new(&b->algo, &args, &err) == 0, "%s", err.msg);
    ck_assert_int_eq(session_new(&b->session, b->graph, NULL, &err), 0);
    ck_assert_msg(
        b->ops->init(b->algo, b->session, rng_key_make(1, "critic_3", "init"), &err) == 0,
        "%s", err.msg);
    for (int i = 0; i < BATCH * OBS; i++)
        b->inputs[i] = (float)((i * 37) % 11) / 5 - 1;
    for (int i = 0; i < BATCH * ACTION; i++)
        b->action[i] = (float)((i * 17) % 7) / 7;
    for (int i = 0; i < BATCH; i++) {
        b->y[i] = (float)(i % 3) - 1;
        b->weight[i] = 1;
    }
    return b;
}

static void bench_free(struct bench *b)
{
    algo_free(b->ops, b->algo);
    session_free(b->session);
    graph_free(b->graph);
    run_config_done(&b->config);
    free(b);
}

static struct output tensor_of(struct bench *b, const char *name)
{
    char full[128];
    struct output x;

    (void)snprintf(full, sizeof(full), "critic_3/%s", name);
    ck_assert_msg(graph_tensor(b->graph, full, &x, &err) == 0, "%s", err.msg);
    return x;
}

/* Runs with everything fed; fetches one tensor into ret and runs one target; each may be
 * NULL. */
static void run(struct bench *b, const char *fetch, float *ret, int64_t rows,
                int64_t columns, const char *target)
{
    struct feed feeds[4 + 3] = {
        {tensor_of(b, "inputs:0"), tensor_view(DT_FLOAT, SHAPE(BATCH, OBS), b->inputs)},
        {tensor_of(b, "action:0"),
         tensor_view(DT_FLOAT, SHAPE(BATCH, ACTION), b->action)},
        {tensor_of(b, "q_predicted:0"), tensor_view(DT_FLOAT, SHAPE(BATCH, 1), b->y)},
        {tensor_of(b, "is_weight:0"), tensor_view(DT_FLOAT, SHAPE(BATCH, 1), b->weight)},
    };
    struct output x = fetch != NULL ? tensor_of(b, fetch) : OUTPUT_NONE;
    struct tensor value = rows > 0 ? tensor_view(DT_FLOAT, SHAPE(rows, columns), ret)
                                   : tensor_view(DT_FLOAT, SHAPE_SCALAR, ret);
    struct operation *op = NULL;
    struct run_args args = {.feeds = feeds, .n_feeds = 4};
    char full[128];
    float live[3];
    size_t n;
    const struct live *lives = b->ops->lives(b->algo, &n);

    ck_assert_uint_eq(n, 3);
    for (size_t i = 0; i < n; i++) {
        ck_assert_int_eq(live_value(&lives[i], b->session, 0, &live[i], &err), 0);
        feeds[args.n_feeds++] =
            (struct feed){lives[i].constant, tensor_scalar_f32(&live[i])};
    }

    if (fetch != NULL) {
        args.fetches = &x;
        args.n_fetches = 1;
    }
    if (target != NULL) {
        (void)snprintf(full, sizeof(full), "critic_3/%s", target);
        op = graph_operation(b->graph, full);
        ck_assert_ptr_nonnull(op);
        args.targets = &op;
        args.n_targets = 1;
    }
    ck_assert_msg(session_run(b->session, &args, &value, &err) == 0, "%s", err.msg);
}

static float loss(struct bench *b)
{
    float x;

    run(b, "loss:0", &x, 0, 0, NULL);
    return x;
}

START_TEST(names_are_the_first_users)
{
    static const struct {
        const char *name;
        int64_t rows, columns;
    } expected[] = {
        {"critic_3/performance_network/fully_connected/weights", OBS, 128},
        {"critic_3/performance_network/fully_connected_1/weights", 128, 32},
        {"critic_3/performance_network/fully_connected_2/weights", 32 + ACTION, 64},
        {"critic_3/performance_network/output/fully_connected/weights", 64, 1},
        {"critic_3/target_network/output/fully_connected/weights", 64, 1},
    };
    struct bench *b = bench_new("{algorithm: critic, critic: {hidden: [128, 32], "
                                "activation: leaky_relu, after_action: [64], "
                                "output_init: 0.003}}");
    struct tensor t;

    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        const struct variable *v = variable_find(b->graph, expected[i].name);

        ck_assert_msg(v != NULL, "%s", expected[i].name);
        ck_assert_int_eq(v->shape.dim[0], expected[i].rows);
        ck_assert_int_eq(v->shape.dim[1], expected[i].columns);
        ck_assert_int_eq(session_variable(b->session, v, &t, &err), 0);
        for (int k = 0; i >= 3 && k < 64; k++)
            ck_assert_float_le(fabsf(tensor_f32(&t)[k]), 0.003f);
    }
    bench_free(b);
}
END_TEST

START_TEST(training_learns_what_it_is_told)
{
    struct bench *b = bench_new("{algorithm: critic, clip_norm: none, optimizer: "
                                "{learning_rate: 0.01}, critic: {hidden: [16], "
                                "after_action: [16]}}");
    float q[BATCH], td[BATCH], before = loss(b), sum = 0;

    run(b, "q:0", q, BATCH, 1, NULL);
    run(b, "td_error:0", td, BATCH, 1, NULL);
    for (int i = 0; i < BATCH; i++) {
        ck_assert_float_eq(td[i], b->y[i] - q[i]);
        sum += td[i] * td[i];
    }
    ck_assert_float_eq_tol(before, sum / BATCH, 1e-5f);
    for (int i = 0; i < 300; i++)
        run(b, NULL, NULL, 0, 0, "train");
    ck_assert_msg(loss(b) < before / 20, "%g of %g", (double)loss(b), (double)before);
    bench_free(b);
}
END_TEST

/* Samples of weight 0 have no effect. */
START_TEST(importance_weights_count)
{
    struct bench *b = bench_new("{algorithm: critic, optimizer: {type: sgd, "
                                "learning_rate: 0.1}}");
    const size_t n = session_block_bytes(b->session);
    void *before = xmalloc(n);

    memset(b->weight, 0, sizeof(b->weight));
    memcpy(before, session_block(b->session), n);
    run(b, NULL, NULL, 0, 0, "train");
    ck_assert_mem_eq(before, session_block(b->session), n);
    b->weight[2] = 1;
    run(b, NULL, NULL, 0, 0, "train");
    ck_assert(memcmp(before, session_block(b->session), n) != 0);
    free(before);
    bench_free(b);
}
END_TEST

START_TEST(the_target_follows)
{
    struct bench *b = bench_new("{algorithm: critic, polyak: 0.25, critic: "
                                "{after_action: [8]}}");
    const char *names[] = {"critic_3/performance_network/output/fully_connected/biases",
                           "critic_3/target_network/output/fully_connected/biases"};
    float q[BATCH], target[BATCH];
    struct tensor t[2];

    run(b, "q:0", q, BATCH, 1, NULL);
    run(b, "target_q:0", target, BATCH, 1, NULL);
    ck_assert_mem_eq(q, target, sizeof(q));
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(
            session_variable(b->session, variable_find(b->graph, names[i]), &t[i], &err),
            0);
    tensor_f32(&t[0])[0] = 8;
    tensor_f32(&t[1])[0] = 4;
    run(b, NULL, NULL, 0, 0, "update_target");
    ck_assert_float_eq(tensor_f32(&t[1])[0], 5);
    ck_assert_float_eq(tensor_f32(&t[0])[0], 8);
    bench_free(b);
}
END_TEST

/* dQ/da of a mean, compared with differences. */
START_TEST(gradients_of_actions)
{
    struct bench *b = bench_new("{algorithm: critic, critic: {activation: tanh}}");
    float grad[BATCH * ACTION], up, down;

    run(b, "action_gradients:0", grad, BATCH, ACTION, NULL);
    b->action[4] += 0.01f;
    run(b, "q_mean:0", &up, 0, 0, NULL);
    b->action[4] -= 0.02f;
    run(b, "q_mean:0", &down, 0, 0, NULL);
    ck_assert_float_eq_tol(grad[4], (up - down) / 0.02f, 1e-3f);
    bench_free(b);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("critic");
    TCase *tc = tcase_create("critic");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, names_are_the_first_users);
    tcase_add_test(tc, training_learns_what_it_is_told);
    tcase_add_test(tc, importance_weights_count);
    tcase_add_test(tc, the_target_follows);
    tcase_add_test(tc, gradients_of_actions);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
