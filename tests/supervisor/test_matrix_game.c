/* Matrix games: the published tables, tables from a configuration, and wrong ones. */
#include "common/config/yaml_tree.h"
#include "supervisor/env/env.h"
#include "tests/support/test_main.h"

#include <string.h>

static struct arena arena;
static struct err err;

static void setup(void)
{
    arena = ARENA_ZERO;
    err = (struct err){0};
}

static void teardown(void)
{
    arena_done(&arena);
}

static const struct yaml_node *parse(const char *text)
{
    struct yaml_node *root = NULL;

    ck_assert_int_eq(yaml_tree_parse(&root, &arena, text, strlen(text), "f", 1, &err), 0);
    return root;
}

static struct vec_env *open_game(const char *id, const char *params)
{
    struct env_config config = {.id = id,
                                .copies = 2,
                                .max_steps = 3,
                                .params = params != NULL ? parse(params) : NULL};
    struct vec_env *v;

    ck_assert_msg(vec_env_new(&v, &config, 1, ENV_DRAWS_TRAINING, 0, &err) == 0, "%s",
                  err.msg);
    vec_env_reset(v);
    return v;
}

/* Both copies play the joint action (a, b, c; one number for each agent). */
static struct env_step play(struct vec_env *v, const size_t *joint)
{
    const struct env_spec *spec = vec_env_spec(v);
    float values[3][2 * 8] = {{0}};
    const float *actions[3];
    struct env_step s;

    for (size_t p = 0; p < spec->n_agents; p++) {
        size_t width = (size_t)spec->agents[p].space.width;

        values[p][joint[p]] = values[p][width + joint[p]] = 1.0f;
        actions[p] = values[p];
    }
    ck_assert_int_eq(vec_env_step(v, actions, &s, NULL), 0);
    return s;
}

static void expect_payoffs(const char *id, const char *params, size_t n,
                           const double *first, const double *second)
{
    struct vec_env *v = open_game(id, params);

    for (size_t a = 0; a < n; a++) {
        for (size_t b = 0; b < n; b++) {
            struct env_step s = play(v, (const size_t[]){a, b});

            ck_assert_double_eq(s.reward[0][0], first[a * n + b]);
            ck_assert_double_eq(s.reward[1][1], second[a * n + b]);
        }
    }
    vec_env_free(v);
}

START_TEST(published_tables)
{
    const double climbing[] = {11, -30, 0, -30, 7, 6, 0, 0, 5};
    const double penalty[] = {10, 0, -25, 0, 2, 0, -25, 0, 10};
    const double penalty_0[] = {10, 0, 0, 0, 2, 0, 0, 0, 10};
    const double dilemma[] = {3, 0, 5, 1}, dilemma_other[] = {3, 5, 0, 1};
    const double hunt[] = {4, 1, 3, 2}, hunt_other[] = {4, 3, 1, 2};

    expect_payoffs("climbing", NULL, 3, climbing, climbing);
    expect_payoffs("penalty", NULL, 3, penalty, penalty);
    expect_payoffs("penalty", "{k: 0}", 3, penalty_0, penalty_0);
    expect_payoffs("prisoners_dilemma", NULL, 2, dilemma, dilemma_other);
    expect_payoffs("stag_hunt", NULL, 2, hunt, hunt_other);
}
END_TEST

START_TEST(a_table_of_three)
{
    struct vec_env *v =
        open_game("matrix_game", "{payoffs: {all: [[[1, 2], [3, 4]], [[5, 6], [7, 8]], "
                                 "[[9, 10], [11, 12.5]]]}}");
    struct env_step s;

    ck_assert_uint_eq(vec_env_spec(v)->n_agents, 3);
    ck_assert_int_eq(vec_env_spec(v)->agents[0].space.width, 3);
    ck_assert_int_eq(vec_env_spec(v)->agents[2].space.width, 2);
    s = play(v, (const size_t[]){1, 0, 1});
    ck_assert_double_eq(s.reward[2][0], 6);
    s = play(v, (const size_t[]){2, 1, 1});
    ck_assert_double_eq(s.reward[0][1], 12.5);
    vec_env_free(v);
}
END_TEST

START_TEST(the_last_joint_action_is_seen)
{
    struct vec_env *v = open_game("climbing", "{observe_last: true}");
    const float nothing[6] = {0}, last[6] = {0, 0, 1, 0, 1, 0};
    struct env_step s;

    ck_assert_int_eq(vec_env_spec(v)->agents[1].obs_width, 6);
    ck_assert_mem_eq(vec_env_obs(v, 1), nothing, sizeof(nothing));
    s = play(v, (const size_t[]){2, 1});
    ck_assert_mem_eq(s.next_obs[0] + 6, last, sizeof(last));
    (void)play(v, (const size_t[]){0, 0});
    s = play(v, (const size_t[]){2, 1}); /* max_steps: a new episode begins */
    ck_assert_int_eq(s.truncated[0], 1);
    ck_assert_int_eq(s.terminated[0][0], 0);
    ck_assert_mem_eq(s.next_obs[0], last, sizeof(last));
    ck_assert_mem_eq(vec_env_obs(v, 0), nothing, sizeof(nothing));
    vec_env_free(v);
}
END_TEST

START_TEST(state_is_exact_and_checked)
{
    struct vec_env *a = open_game("stag_hunt", "{observe_last: true}");
    struct vec_env *b = open_game("stag_hunt", "{observe_last: true}");
    size_t n = vec_env_state_bytes(a), n_refused = 0;
    unsigned char *state = malloc(n);

    (void)play(a, (const size_t[]){1, 0});
    vec_env_state_save(a, state);
    ck_assert_int_eq(vec_env_state_load(b, state, n, &err), 0);
    ck_assert_mem_eq(vec_env_obs(a, 0), vec_env_obs(b, 0), 8 * sizeof(float));
    for (size_t i = 0; i + 4 <= n; i += 4) {
        int32_t wild = 1 << 20, was;

        memcpy(&was, state + i, sizeof(was));
        memcpy(state + i, &wild, sizeof(wild));
        n_refused += vec_env_state_load(b, state, n, &err) == ERR_CORRUPT &&
                     strstr(err.msg, "there is no action") != NULL;
        memcpy(state + i, &was, sizeof(was));
    }
    ck_assert_uint_eq(n_refused, 4); /* the last actions of two agents in two copies */
    free(state);
    vec_env_free(a);
    vec_env_free(b);
}
END_TEST

START_TEST(wrong_tables_are_told_in_one_line)
{
    static const struct {
        const char *params, *message;
    } cases[] = {
        {"{payoffs: {all: 3}}",
         "f:1: env.params.payoffs: expected lists within lists, e.g. {all: [[1, 0], [0, "
         "1]]}"},
        {"{payoffs: {all: []}}",
         "f:1: env.params.payoffs: expected 1 to 64 actions of at most 8 agents"},
        {"{payoffs: {all: [[1, 2], [3]]}}",
         "f:1: env.params.payoffs: expected a list of 2 here"},
        {"{payoffs: {all: [[1, 2], [3, x]]}}",
         "f:1: env.params.payoffs: expected a number for a payoff"},
        {"{payoffs: {all: [[1, 2], [3, k]]}}",
         "f:1: env.params.payoffs: expected a number for a payoff"},
        {"{payoffs: {agent_0: [[1, 2], [3, 4]]}}",
         "f:1: env.params.payoffs: found 1 tables of 2 agents, expected all, or one of "
         "each"},
        {"{payoffs: {agent_0: [[1, 2], [3, 4]], eve: [[1, 2], [3, 4]]}}",
         "f:1: env.params.payoffs: agent_1 has no table"},
        {"{payoffs: {}}",
         "f:1: env.params.payoffs: is empty, expected e.g. {all: [[1, 0], [0, 1]]}"},
        {"{payoffs: }",
         "f:1: env.params.payoffs: is empty, expected e.g. {all: [[1, 0], [0, 1]]}"},
        {"{payoffs: {all: {}}}",
         "f:1: env.params.payoffs: expected lists within lists, e.g. {all: [[1, 0], [0, "
         "1]]}"},
        {"{payoffs: {all: [[], []]}}",
         "f:1: env.params.payoffs: expected 1 to 64 actions of at most 8 agents"},
        {"{payoffs: {all: [[1, 2], []]}}",
         "f:1: env.params.payoffs: expected a list of 2 here"},
        {"{payoffs: {all: [[1, 2], [{}, 3]]}}",
         "f:1: env.params.payoffs: expected a number for a payoff"},
        {"{payoffs: [1]}",
         "f:1: env.params.payoffs: found a list, expected a map of keys"},
    };
    struct env_config config = {.id = "matrix_game", .copies = 1, .max_steps = 1};
    const char *const *names;

    config.params = parse(cases[_i].params);
    ck_assert_int_eq(env_agent_names(NULL, &config, &names, &err), ERR_CONFIG);
    ck_assert_str_eq(err.msg, cases[_i].message);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("matrix_game");
    TCase *tc = tcase_create("matrix_game");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, published_tables);
    tcase_add_test(tc, a_table_of_three);
    tcase_add_test(tc, the_last_joint_action_is_seen);
    tcase_add_test(tc, state_is_exact_and_checked);
    tcase_add_loop_test(tc, wrong_tables_are_told_in_one_line, 0, 14);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
