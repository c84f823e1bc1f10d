#include "common/ckpt/bundle.h"
#include "common/mem/xmalloc.h"
#include "common/rng/rng.h"
#include "tests/support/agent_config.h"
#include "tests/support/team.h"
#include "tests/support/test_main.h"

#include <math.h>
#include <string.h>

#define SMALL "{actor: {hidden: [16, 16]}, critic: {hidden: [16, 16]}}"
#define BATCH 64

static uint64_t batch_rows[4 * BATCH];

static void draw_rows(uint64_t n_rows)
{
    rng_below(rng_key_make(3, "test", "rows"), 0, 0, n_rows, batch_rows, 4 * BATCH);
}

static struct team *open_spread(const char *config)
{
    const struct team_args args = team_spread(config, 500);

    draw_rows(args.n_rows);
    return team_new(&args);
}

static void *copy_block(const struct member *m)
{
    void *p = xmalloc(session_block_bytes(m->session));

    session_snapshot(m->session, p);
    return p;
}

static int block_equals(const struct member *m, const void *block)
{
    return memcmp(session_block(m->session), block, session_block_bytes(m->session)) == 0;
}

/* ---- names ---- */

/* The checkpoint is that of two agents of openai/maddpg. It has a variable for each of
 * ours, and no others, with the same type and rank; sizes differ. */
START_TEST(test_names_of_a_real_checkpoint)
{
    struct team_args args = team_spread("{}", 1);
    struct bundle_reader *b;
    struct team *t;
    struct err err;
    char prefix[4096];
    const struct collection_item *items;
    size_t n, n_keys;

    if (test_shared_dir() == NULL) {
        (void)fprintf(stderr, "# no BROOD_SHARED_DIR: names are not compared\n");
        return;
    }
    (void)snprintf(prefix, sizeof(prefix),
                   "%s/data/tf-checkpoints/01-mbeliaev1-maddpg/policy/h10s5/5/",
                   test_shared_dir());
    ck_assert_msg(bundle_reader_new(&b, prefix, &err) == 0, "%s", err.msg);
    args.n = 2;
    t = team_new(&args);
    n_keys = bundle_reader_count(b);
    ck_assert_uint_eq(n_keys, 104);
    for (size_t i = 0; i < 2; i++) {
        n = collection_get(t->members[i].graph, GLOBAL_VARIABLES, NULL, &items);
        ck_assert_uint_eq(n, 52);
        for (size_t k = 0; k < n; k++) {
            const struct variable *v = items[k].variable;
            const struct bundle_entry *e = bundle_reader_find(b, v->name);

            ck_assert_msg(e != NULL, "%s is not in the checkpoint", v->name);
            ck_assert_int_eq(e->dtype, v->dtype);
            ck_assert_int_eq(e->shape.rank, v->shape.rank);
        }
    }
    bundle_reader_free(b);
    team_free(t);
}
END_TEST

START_TEST(test_variables)
{
    struct team *t = open_spread("{}");
    const struct graph *g = t->members[1].graph;
    const struct variable *v;

    v = variable_find(g, "agent_1/q_func/fully_connected/weights");
    ck_assert(v != NULL && shape_equal(&v->shape, &SHAPE(3 * 18 + 3 * 5, 64)));
    v = variable_find(g, "agent_1/p_func/fully_connected_2/weights");
    ck_assert(v != NULL && shape_equal(&v->shape, &SHAPE(64, 5)));
    v = variable_find(g, "agent_1/agent_1/q_func/fully_connected_1/biases/Adam_1");
    ck_assert(v != NULL && shape_equal(&v->shape, &SHAPE(64)));
    ck_assert_ptr_nonnull(variable_find(g, "agent_1/beta1_power"));
    ck_assert_ptr_nonnull(variable_find(g, "agent_1_1/beta2_power"));
    ck_assert_ptr_null(variable_find(g, "agent_0/q_func/fully_connected/weights"));
    ck_assert_uint_eq(collection_get(t->members[1].graph, HYPERPARAMETERS, NULL, NULL),
                      7 + 2 * 3); /* three may be schedules: two more each */
    team_free(t);
}
END_TEST

/* The first optimiser of the scope is the critic's, the second the policy's. */
START_TEST(test_whose_powers)
{
    struct team *t = open_spread("{}");
    const struct operation *op = graph_operation(
        t->members[0].graph, "agent_0/Adam/update_agent_0/q_func/fully_connected/weights/"
                             "ApplyAdam");

    ck_assert_ptr_nonnull(op);
    ck_assert_str_eq(operation_name(operation_input(op, 3).op),
                     "agent_0/beta1_power/read");
    op = graph_operation(t->members[0].graph,
                         "agent_0_1/Adam/update_agent_0/p_func/fully_connected/weights/"
                         "ApplyAdam");
    ck_assert_ptr_nonnull(op);
    ck_assert_str_eq(operation_name(operation_input(op, 3).op),
                     "agent_0_1/beta1_power/read");
    team_free(t);
}
END_TEST

START_TEST(test_local_critic)
{
    struct team *t = open_spread("{critic: {input: own}}");
    const struct variable *v =
        variable_find(t->members[0].graph, "agent_0/q_func/fully_connected/weights");

    ck_assert(shape_equal(&v->shape, &SHAPE(18 + 5, 64)));
    team_update(t, 0, batch_rows, 1, BATCH, NULL);
    team_free(t);
}
END_TEST

START_TEST(test_critic_with_late_action)
{
    struct team *t = open_spread("{critic: {hidden: [128, 32], activation: leaky_relu, "
                                 "after_action: [64], output_init: 0.003}}");

    ck_assert_ptr_nonnull(variable_find(t->members[0].graph,
                                        "agent_0/q_func/output/fully_connected/weights"));
    team_update(t, 0, batch_rows, 1, BATCH, NULL);
    ck_assert(isfinite(team_scalar(&t->members[0], "critic_loss")));
    team_free(t);
}
END_TEST

START_TEST(test_targets_start_as_copies)
{
    static const char *const pairs[][2] = {
        {"p_func/fully_connected/weights", "target_p_func/fully_connected/weights"},
        {"q_func/fully_connected_2/weights", "target_q_func/fully_connected_2/weights"},
    };
    struct team *t = open_spread("{}");

    for (int i = 0; i < 2; i++) {
        const struct tensor a = team_variable(t, 0, pairs[i][0]);
        const struct tensor b = team_variable(t, 0, pairs[i][1]);

        ck_assert(tensor_equal(&a, &b));
        ck_assert(tensor_f32(&a)[0] != 0);
    }
    team_free(t);
}
END_TEST

/* ---- stages ---- */

START_TEST(test_stages)
{
    struct team *t = open_spread("{}");
    size_t n;
    const struct stage *s = t->members[0].ops->stages(t->members[0].algo, &n);

    ck_assert_uint_eq(n, 3);
    ck_assert_str_eq(s[0].name, "propose");
    ck_assert(!s[0].writes);
    ck_assert_str_eq(s[1].name, "critic");
    ck_assert(s[1].writes);
    ck_assert_str_eq(s[1].reads[0], "propose/action");
    ck_assert_int_eq(s[1].repeat_from, 1);
    ck_assert_str_eq(s[2].name, "learn");
    ck_assert(s[2].writes);
    ck_assert_ptr_null(s[2].reads[0]); /* stage learn waits for no other agent */
    ck_assert_int_eq(s[2].repeat_from, 2);
    team_free(t);

    t = open_spread("{algorithm: ddpg}");
    s = t->members[0].ops->stages(t->members[0].algo, &n);
    ck_assert_uint_eq(n, 1);
    ck_assert_str_eq(s[0].name, "learn");
    ck_assert(s[0].writes);
    ck_assert_ptr_null(s[0].reads[0]);
    team_free(t);
}
END_TEST

START_TEST(test_proposals_are_distributions)
{
    struct team *t = open_spread("{}");
    const float *p;

    team_update(t, 0, batch_rows, 1, BATCH, NULL);
    p = tensor_f32(&t->members[2].proposal);
    for (int b = 0; b < BATCH; b++, p += 5) {
        double sum = 0;

        for (int i = 0; i < 5; i++) {
            ck_assert(p[i] >= 0 && p[i] <= 1);
            sum += (double)p[i];
        }
        ck_assert_double_eq_tol(sum, team_is_gone(t, batch_rows[b], 2) ? 0 : 1, 1e-5);
    }
    team_free(t);
}
END_TEST

START_TEST(test_propose_is_pure)
{
    struct team *t = open_spread("{}");
    struct stage_result res;
    struct err err;
    void *before = copy_block(&t->members[0]);

    ck_assert_int_eq(
        team_stage(t, 0, "propose", 0, batch_rows, 1, BATCH, NULL, &res, &err), 0);
    ck_assert(block_equals(&t->members[0], before));
    free(before);
    team_free(t);
}
END_TEST

START_TEST(test_learn_is_deterministic)
{
    struct team *a = open_spread(SMALL), *b = open_spread(SMALL);
    void *start = copy_block(&a->members[1]);

    for (uint64_t u = 0; u < 5; u++) {
        team_update(a, u, batch_rows, 1, BATCH, NULL);
        team_update(b, u, batch_rows, 1, BATCH, NULL);
    }
    ck_assert(!block_equals(&a->members[1], start));
    for (size_t i = 0; i < 3; i++) {
        void *block = copy_block(&a->members[i]);

        ck_assert(block_equals(&b->members[i], block));
        ck_assert_double_eq(team_scalar(&a->members[i], "actor_loss"),
                            team_scalar(&b->members[i], "actor_loss"));
        free(block);
    }
    free(start);
    team_free(a);
    team_free(b);
}
END_TEST

/* Each update draws different noise. */
START_TEST(test_update_number_counts)
{
    struct team *t = open_spread(SMALL);
    struct stage_result res;
    struct err err;
    float first;

    ck_assert_int_eq(
        team_stage(t, 0, "propose", 1, batch_rows, 1, BATCH, NULL, &res, &err), 0);
    first = tensor_f32(&res.output[0].value)[0];
    ck_assert_int_eq(
        team_stage(t, 0, "propose", 2, batch_rows, 1, BATCH, NULL, &res, &err), 0);
    ck_assert_float_ne(first, tensor_f32(&res.output[0].value)[0]);
    team_free(t);
}
END_TEST

/* own_batches: three groups of rows; each agent learns from its own group, as if
 * alone. */
START_TEST(test_groups)
{
    struct team *grouped = open_spread(SMALL), *single = open_spread(SMALL);
    double want;

    team_update(grouped, 0, batch_rows, 3, BATCH, NULL);
    team_update(single, 0, batch_rows + 2 * BATCH, 1, BATCH, NULL);
    /* the noise of the proposals differs, so the targets do, but not Q of the rows */
    want = team_scalar(&single->members[2], "q_mean");
    ck_assert_double_eq(team_scalar(&grouped->members[2], "q_mean"), want);
    ck_assert_double_ne(team_scalar(&grouped->members[1], "q_mean"),
                        team_scalar(&single->members[1], "q_mean"));
    team_free(grouped);
    team_free(single);
}
END_TEST

/* Rows of weight 0 do not count in the critic's loss. */
START_TEST(test_weights)
{
    struct team *t = open_spread(SMALL);
    float weights[BATCH] = {0};

    team_update(t, 0, batch_rows, 1, BATCH, weights);
    ck_assert_double_eq(team_scalar(&t->members[0], "critic_loss"), 0);
    ck_assert_double_eq(team_scalar(&t->members[0], "critic_grad_norm"), 0);
    ck_assert_double_gt(team_scalar(&t->members[0], "actor_grad_norm"), 0);
    team_free(t);
}
END_TEST

START_TEST(test_missing_input)
{
    struct team *t = open_spread(SMALL);
    struct stage_result res;
    struct err err;
    void *before = copy_block(&t->members[0]);

    ck_assert_int_eq(
        team_stage(t, 0, "critic", 0, batch_rows, 1, BATCH, NULL, &res, &err),
        ERR_PROTOCOL);
    ck_assert_str_eq(err.msg, "input agent_0/action is missing");
    ck_assert(block_equals(&t->members[0], before));
    free(before);
    team_free(t);
}
END_TEST

/* ---- accept_reject ---- */

/* One network learns; the other has a rate near 0. */
static const struct {
    const char *config, *loss;
} trials[] = {
    {"{actor: {hidden: [16], optimizer: {learning_rate: 1.0e-9}}, "
     "critic: {hidden: [16], optimizer: {tries: 20}}, "
     "optimizer: {type: accept_reject, learning_rate: 0.02}}",
     "critic_loss"},
    {"{actor: {hidden: [16], optimizer: {tries: 20}}, "
     "critic: {hidden: [16], optimizer: {learning_rate: 1.0e-9}}, "
     "optimizer: {type: accept_reject, learning_rate: 0.05}}",
     "actor_loss"},
};

/* With the same batch in every update the loss falls, without slots or gradients. An
 * agent that takes over in between does the same, because the perturbations of an update
 * depend only on the block and the update's number. */
START_TEST(test_accept_reject)
{
    struct team *a = open_spread(trials[_i].config), *b = open_spread(trials[_i].config);
    const struct member *m = &a->members[0];
    double first = 0, last = 0;

    ck_assert_ptr_null(variable_find(m->graph, "agent_0/beta1_power"));
    for (uint64_t u = 0; u < 40; u++) {
        for (size_t i = 0; i < 3 && u == 38; i++)
            session_restore(b->members[i].session, session_block(a->members[i].session));
        team_update(a, u, batch_rows, 1, BATCH, NULL);
        if (u >= 38)
            team_update(b, u, batch_rows, 1, BATCH, NULL);
        *(u < 20 ? &first : &last) += team_scalar(m, trials[_i].loss);
    }
    ck_assert_double_lt(last, first - 0.1 * fabs(first));
    for (size_t i = 0; i < 3; i++)
        ck_assert(block_equals(&b->members[i], session_block(a->members[i].session)));
    team_free(a);
    team_free(b);
}
END_TEST

/* ---- act ---- */

#define COPIES 8

struct acting {
    float obs[COPIES * 18];
    float actions[COPIES * 18];
    uint64_t counter[COPIES], first[COPIES];
};

static struct acting make_acting(int64_t obs)
{
    struct acting a = {.first = {0}};

    rng_uniform_f32(rng_key_make(9, "test", "obs"), 0, 0, a.obs, (size_t)(COPIES * obs));
    for (uint64_t e = 0; e < COPIES; e++)
        a.counter[e] = 1000 + e;
    return a;
}

static void act(struct team *t, struct acting *a, enum act_mode mode, size_t from,
                size_t n)
{
    struct member *m = &t->members[0];
    const struct act_args args = {.mode = mode,
                                  .n_copies = n,
                                  .obs = a->obs + from * (size_t)t->args.obs,
                                  .key = rng_key_make(7, "agent_0", PURPOSE_ACT),
                                  .counter = a->counter + from,
                                  .draw_first = a->first + from};
    struct act_result res = {.actions = a->actions + from * (size_t)t->spaces[0].width};
    struct err err;

    ck_assert_msg(m->ops->act(m->algo, m->session, &args, &res, &err) == 0, "%s",
                  err.msg);
}

static const struct {
    const char *config;
    int box;
} act_rows[] = {{SMALL, 0}, {"{settings: {execute: soft}}", 1}};

/* An action depends only on the observation and counter of its row. On some machines the
 * last bit of a matrix product depends on its height, so soft actions are compared with a
 * tolerance. */
START_TEST(test_act_rows_are_independent)
{
    struct team_args args = team_spread(act_rows[_i].config, 1);
    struct acting all = make_acting(18), one = all;
    struct team *t;
    void *before;

    args.space.box = act_rows[_i].box;
    t = team_new(&args);
    before = copy_block(&t->members[0]);
    act(t, &all, ACT_EXPLORE, 0, COPIES);
    for (size_t e = 0; e < COPIES; e++)
        act(t, &one, ACT_EXPLORE, e, 1);
    for (size_t i = 0; i < COPIES * 5; i++)
        ck_assert_float_eq_tol(all.actions[i], one.actions[i], 1e-6f);
    ck_assert(block_equals(&t->members[0], before));
    free(before);
    team_free(t);
}
END_TEST

START_TEST(test_hard_actions_are_one_hot)
{
    struct team *t = open_spread(SMALL);
    struct acting a = make_acting(18);
    int moves[5] = {0};

    for (int round = 0; round < 20; round++) {
        act(t, &a, ACT_EXPLORE, 0, COPIES);
        for (int e = 0; e < COPIES; e++) {
            float sum = 0;

            for (int i = 0; i < 5; i++) {
                sum += a.actions[e * 5 + i];
                moves[i] += a.actions[e * 5 + i] == 1;
            }
            ck_assert_float_eq(sum, 1);
            a.counter[e] += COPIES;
        }
    }
    /* a fresh policy is nearly uniform, and the noise changes from step to step */
    for (int i = 0; i < 5; i++)
        ck_assert_int_gt(moves[i], 5);
    team_free(t);
}
END_TEST

START_TEST(test_greedy_is_argmax)
{
    struct team *t = open_spread(SMALL);
    struct acting a = make_acting(18);
    const struct feed feed = {
        graph_operation(t->members[0].graph, "observation0") != NULL
            ? (struct output){graph_operation(t->members[0].graph, "observation0"), 0}
            : OUTPUT_NONE,
        tensor_view(DT_FLOAT, SHAPE(COPIES, 18), a.obs)};
    struct output logits;
    struct run_args run = {
        .feeds = &feed, .n_feeds = 1, .fetches = &logits, .n_fetches = 1};
    struct tensor value = TENSOR_NONE;
    struct err err;

    ck_assert_int_eq(graph_tensor(t->members[0].graph,
                                  "agent_0_1/p_func/fully_connected_2/BiasAdd:0", &logits,
                                  &err),
                     0);
    ck_assert_msg(session_run(t->members[0].session, &run, &value, &err) == 0, "%s",
                  err.msg);
    act(t, &a, ACT_GREEDY, 0, COPIES);
    for (int e = 0; e < COPIES; e++) {
        const float *x = tensor_f32(&value) + e * 5;
        int best = 0;

        for (int i = 1; i < 5; i++)
            if (x[i] > x[best])
                best = i;
        for (int i = 0; i < 5; i++)
            ck_assert_float_eq(a.actions[e * 5 + i], i == best);
    }
    tensor_free(&value);
    team_free(t);
}
END_TEST

/* Moves and speech: each head has its own distribution and its own maximum. */
START_TEST(test_two_heads)
{
    struct team_args args = team_spread("{}", 1);
    struct acting a = make_acting(18);
    struct team *t;

    args.space = (struct space){
        .width = 8, .particle = 1, .n_heads = 2, .heads = {5, 3}, .high = 1};
    t = team_new(&args);
    act(t, &a, ACT_EXPLORE, 0, COPIES);
    for (int e = 0; e < COPIES; e++) {
        float moves = 0, speech = 0;

        for (int i = 0; i < 8; i++)
            *(i < 5 ? &moves : &speech) += a.actions[e * 8 + i];
        ck_assert_float_eq(moves, 1);
        ck_assert_float_eq(speech, 1);
    }
    team_free(t);
}
END_TEST

/* ---- deterministic policies ---- */

static const struct space bounded = {.width = 2, .box = 1, .low = -3, .high = 1};

START_TEST(test_deterministic_policy)
{
    struct team_args args = team_spread("{settings: {exploration_noise: 0.5}}", 200);
    struct acting greedy = make_acting(18), explored = greedy;
    double differ = 0;
    struct team *t;

    args.space = bounded;
    t = team_new(&args);
    draw_rows(args.n_rows);
    act(t, &greedy, ACT_GREEDY, 0, COPIES);
    act(t, &explored, ACT_EXPLORE, 0, COPIES);
    for (int i = 0; i < COPIES * 2; i++) {
        ck_assert(greedy.actions[i] > -3 && greedy.actions[i] < 1);
        ck_assert(explored.actions[i] >= -3 && explored.actions[i] <= 1);
        differ += fabs((double)(greedy.actions[i] - explored.actions[i])) / 16;
    }
    ck_assert(differ > 0.2 && differ < 2); /* half of the half range, which is 2 */
    team_update(t, 0, batch_rows, 1, BATCH, NULL);
    ck_assert_double_gt(team_scalar(&t->members[0], "actor_grad_norm"), 0);
    team_free(t);
}
END_TEST

/* A saturated policy gives the middle plus half the width, which rounds to more than the upper
 * bound. */
START_TEST(test_actions_stay_in_the_box)
{
    static const char *const algorithms[] = {"maddpg", "ddpg", "matd3"};
    static const enum act_mode modes[] = {ACT_EXPLORE, ACT_SAMPLE, ACT_GREEDY};
    const float low = 0.1f, high = 0.7f;

    for (size_t k = 0; k < 3; k++) {
        char *config = xasprintf("{algorithm: %s}", algorithms[k]);
        struct team_args args = team_spread(config, 1);
        struct acting a = make_acting(18);
        struct team *t;
        int n_high = 0;

        args.space = (struct space){.width = 2, .box = 1, .low = 0.1, .high = 0.7};
        t = team_new(&args);
        for (size_t i = 0; i < COPIES * 18; i++)
            a.obs[i] = 1e6f * (a.obs[i] - 0.5f);
        for (size_t m = 0; m < 3; m++) {
            act(t, &a, modes[m], 0, COPIES);
            for (int i = 0; i < COPIES * 2; i++) {
                ck_assert(a.actions[i] >= low && a.actions[i] <= high);
                n_high += a.actions[i] == high;
            }
        }
        ck_assert_int_gt(n_high, 0);
        team_free(t);
        free(config);
    }
}
END_TEST

/* ---- invalid configurations ---- */

static int try_build(const char *config, struct space space, struct err *err)
{
    const struct team_args args = team_spread(config, 1);
    struct run_config c;
    struct algo *algo = NULL;
    struct space agents[1] = {space};
    struct graph *g = graph_new();
    struct algorithm_settings settings;
    const struct algo_args a = {.ops = algo_find("maddpg"),
                                .graph = g,
                                .config = &c.defaults,
                                .settings = &settings,
                                .agents = agents,
                                .n_agents = 1};
    int r;

    agents[0].obs = args.obs;
    (void)snprintf(agents[0].name, AGENT_NAME_MAX, "agent_0");
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
    const struct space discrete = team_spread("{}", 1).space;
    struct err err;

    ck_assert_int_eq(try_build("{settings: {execute: soft}}", discrete, &err),
                     ERR_CONFIG);
    ck_assert_int_eq(try_build("{settings: {policy: deterministic}}", discrete, &err),
                     ERR_CONFIG);
    ck_assert_int_eq(try_build("{settings: {policy: gumbel}}", bounded, &err),
                     ERR_CONFIG);
    ck_assert_int_eq(try_build("{}", discrete, &err), 0);
}
END_TEST

/* ---- values: ends and limits ---- */

/* Reward 1 at every step, and the state never changes. If the episode is cut by a limit
 * (truncated), the value is 1 / (1 - discount); at an end (terminated) it is 1. */
static double learned_value(float terminated)
{
    struct team_args args = team_spread(
        "{algorithm: ddpg, discount: 0.9, polyak: 0.05, actor: {hidden: [4]}, "
        "critic: {hidden: [32]}, optimizer: {learning_rate: 0.01}, "
        "clip_norm: none}",
        8);
    const float one = 1, obs[2] = {0.5f, -0.5f};
    struct team *t;
    double q;

    args.n = 1;
    args.obs = 2;
    t = team_new(&args);
    for (uint64_t row = 0; row < 8; row++) {
        team_write(t, row, 0, "obs", obs);
        team_write(t, row, 0, "next_obs", obs);
        team_write(t, row, 0, "reward", &one);
        team_write(t, row, 0, "terminated", &terminated);
    }
    draw_rows(8);
    for (uint64_t u = 0; u < 2000; u++)
        team_update(t, u, batch_rows, 1, BATCH, NULL);
    q = team_scalar(&t->members[0], "q_mean");
    team_free(t);
    return q;
}

START_TEST(test_truncation_bootstraps)
{
    ck_assert_double_eq_tol(learned_value(0), 1 / (1 - 0.9), 0.3);
}
END_TEST

START_TEST(test_termination_does_not)
{
    ck_assert_double_eq_tol(learned_value(1), 1, 0.03);
}
END_TEST

/* With discount 0, targets are the rewards. Over the rows that were counted, their
 * deviation is 1 and (standard) their mean 0. The log has more rows than the update's
 * step says. */
START_TEST(test_scaled_rewards)
{
    static const char *const configs[] = {
        "{algorithm: maddpg, discount: 0, settings: {reward_scale: running}}",
        "{algorithm: matd3, discount: 0, settings: {reward_scale: standard}}",
        "{algorithm: masac, discount: 0, settings: {reward_scale: running}}",
        "{algorithm: isac, discount: 0, settings: {reward_scale: standard}}"};
    const struct team_args args = team_spread(configs[_i], 3 * BATCH);
    struct team *t = team_new(&args);
    uint64_t rows[BATCH];
    double mean = 0;

    for (uint64_t i = 0; i < BATCH; i++) {
        const int column = store_layout_find(&t->layout, "agent_0", "reward");
        float reward;

        rows[i] = i;
        store_view_gather(t->store, column, &rows[i], 1, &reward, 1);
        mean += (double)reward / BATCH;
    }
    team_update(t, BATCH, rows, 1, BATCH, NULL);
    ck_assert_double_eq_tol(team_scalar(&t->members[0], "target_q_std"), 1, 1e-5);
    if (_i % 2 == 1)
        ck_assert_double_eq_tol(team_scalar(&t->members[0], "target_q_mean"), 0, 1e-5);
    else
        ck_assert_double_lt(team_scalar(&t->members[0], "target_q_mean"), mean);
    team_free(t);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("maddpg");
    TCase *tc = tcase_create("maddpg");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, test_names_of_a_real_checkpoint);
    tcase_add_test(tc, test_variables);
    tcase_add_test(tc, test_whose_powers);
    tcase_add_test(tc, test_local_critic);
    tcase_add_test(tc, test_critic_with_late_action);
    tcase_add_test(tc, test_targets_start_as_copies);
    tcase_add_test(tc, test_stages);
    tcase_add_test(tc, test_proposals_are_distributions);
    tcase_add_test(tc, test_propose_is_pure);
    tcase_add_test(tc, test_learn_is_deterministic);
    tcase_add_test(tc, test_update_number_counts);
    tcase_add_test(tc, test_groups);
    tcase_add_test(tc, test_weights);
    tcase_add_test(tc, test_missing_input);
    tcase_add_loop_test(tc, test_accept_reject, 0, 2);
    tcase_add_loop_test(tc, test_act_rows_are_independent, 0, 2);
    tcase_add_test(tc, test_hard_actions_are_one_hot);
    tcase_add_test(tc, test_greedy_is_argmax);
    tcase_add_test(tc, test_two_heads);
    tcase_add_test(tc, test_deterministic_policy);
    tcase_add_test(tc, test_actions_stay_in_the_box);
    tcase_add_test(tc, test_refused_configurations);
    tcase_add_test(tc, test_truncation_bootstraps);
    tcase_add_test(tc, test_termination_does_not);
    tcase_add_loop_test(tc, test_scaled_rewards, 0, 4);
    suite_add_tcase(suite, tc);
    return suite;
}
TEST_MAIN(make_suite)
