/* The warehouse: who moves, and what is refused. test_package_episodes.c plays whole episodes. */
#include "common/config/yaml_tree.h"
#include "supervisor/env/env_class.h"
#include "supervisor/env/rware_moves.h"
#include "tests/support/test_main.h"

#include <stdlib.h>
#include <string.h>

enum { COPIES = 2 };

struct fixture {
    struct arena arena;
    struct env_spec spec;
    void *world;
};

static int describe(struct fixture *f, struct env_config *config, const char *params,
                    const void **ret_params, struct err *err)
{
    struct yaml_node *tree;

    *f = (struct fixture){0};
    *config = (struct env_config){.id = "rware"};
    ck_assert_int_eq(
        yaml_tree_parse(&tree, &f->arena, params, strlen(params), "f", 1, err), 0);
    config->params = tree;
    return env_class_describe(env_class_find("rware"), config, &f->arena, ret_params,
                              &f->spec, err);
}

static void open_world(struct fixture *f, const char *params)
{
    struct env_config config;
    const void *values;
    struct err err = {0};

    ck_assert_msg(describe(f, &config, params, &values, &err) == 0, "%s", err.msg);
    f->world = rware_ops.open(NULL, &config, values, COPIES, &f->arena);
}

static void reset(struct fixture *f, size_t copy, uint64_t episode)
{
    const struct env_episode e = {
        .key = rng_key_make(7, "test", "env"), .episode = episode, .number = episode};

    rware_ops.reset(f->world, copy, &e);
}

START_TEST(episodes_are_drawn_by_key)
{
    struct fixture f;
    char *state[3];

    open_world(&f, "{agents: 4}");
    for (uint64_t k = 0; k < 3; k++) {
        state[k] = malloc(rware_ops.state_bytes(f.world));
        reset(&f, 0, k % 2);
        reset(&f, 1, 7);
        rware_ops.save(f.world, state[k]);
    }
    ck_assert_mem_eq(state[0], state[2], rware_ops.state_bytes(f.world));
    ck_assert_mem_ne(state[0], state[1], rware_ops.state_bytes(f.world));
    for (int k = 0; k < 3; k++)
        free(state[k]);
    arena_done(&f.arena);
}
END_TEST

/* A robot at `at` wants to go to `to`, both cells of a line or, at 10 and more, of the next row;
 * `moves` says who gets there. */
static const struct {
    const char *what;
    struct {
        int at, to;
    } robot[5];
    const char *moves;
} crowds[] = {
    {"a column follows its head", {{3, 4}, {2, 3}, {1, 2}}, "111"},
    {"nobody moves behind one that stays", {{3, 3}, {2, 3}, {1, 2}}, "100"},
    {"two do not change places", {{1, 2}, {2, 1}, {3, 2}}, "000"},
    {"four drive in a circle, and one waits",
     {{1, 2}, {2, 12}, {12, 11}, {11, 1}, {0, 1}},
     "11110"},
    {"the longer column goes first", {{1, 2}, {4, 3}, {3, 2}}, "011"},
    {"of two equal ones the first that was added", {{1, 2}, {3, 2}}, "10"},
    {"an earlier robot's wish is added before a later robot's cell",
     {{4, 3}, {0, 1}, {1, 2}, {3, 2}},
     "1001"},
};

START_TEST(who_moves)
{
    struct rware_wish wish[5];
    uint8_t moves[5];
    const size_t n = strlen(crowds[_i].moves);

    for (size_t i = 0; i < n; i++) {
        const int at = crowds[_i].robot[i].at, to = crowds[_i].robot[i].to;

        wish[i] = (struct rware_wish){at % 10, at / 10, to % 10, to / 10, -1};
        for (size_t k = 0; k < n; k++) {
            if (crowds[_i].robot[k].at == to)
                wish[i].blocker = (int32_t)k;
        }
    }
    rware_resolve(wish, n, moves);
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(moves[i] == (crowds[_i].moves[i] == '1'), "%s: robot %zu",
                      crowds[_i].what, i);
}
END_TEST

/* Words of 4 bytes behind the 48 of the generator: a robot's x, y, direction, shelf, delivered,
 * message, and of two robots; then 32 shelves, two requests, and two counts. */
static const struct {
    size_t word;
    int32_t value;
    const char *what;
} impossible[] = {
    {0, -1, "robot"},    {0, 10, "robot"},  {1, 11, "robot"},   {2, 4, "robot"},
    {3, 33, "robot"},    {3, -1, "robot"},  {4, 2, "robot"},    {5, 1, "robot"},
    {12, 110, "shelf"},  {13, -1, "shelf"}, {12, 104, "shelf"}, {44, 0, "request"},
    {44, 33, "request"}, {46, -1, "count"}, {47, -1, "count"},
};

START_TEST(an_impossible_state_is_refused)
{
    struct fixture f;
    struct err err = {0};
    size_t size;
    char *state, *before;

    open_world(&f, "{}");
    reset(&f, 0, 0);
    reset(&f, 1, 1);
    size = rware_ops.state_bytes(f.world);
    state = malloc(size);
    before = malloc(size);
    rware_ops.save(f.world, before);
    memcpy(state, before, size);
    memcpy(state + size / COPIES + 48 + 4 * impossible[_i].word, &impossible[_i].value,
           4);
    ck_assert_int_eq(rware_ops.load(f.world, state, &err), ERR_CORRUPT);
    ck_assert_ptr_nonnull(strstr(err.msg, "copy 1"));
    ck_assert_ptr_nonnull(strstr(err.msg, impossible[_i].what));
    rware_ops.save(f.world, state);
    ck_assert_mem_eq(state, before, size);
    free(state);
    free(before);
    arena_done(&f.arena);
}
END_TEST

START_TEST(two_robots_or_shelves_in_a_cell_are_refused)
{
    struct fixture f;
    size_t size;
    char *state;

    open_world(&f, "{}");
    reset(&f, 0, 0);
    reset(&f, 1, 1);
    size = rware_ops.state_bytes(f.world);
    state = malloc(size);
    for (int k = 0; k < 3; k++) { /* robots, shelves, requests */
        const size_t from[] = {0, 12, 44}, to[] = {6, 13, 45}, n[] = {2, 1, 1};

        rware_ops.save(f.world, state);
        memcpy(state + 48 + 4 * to[k], state + 48 + 4 * from[k], 4 * n[k]);
        ck_assert_int_eq(rware_ops.load(f.world, state, NULL), ERR_CORRUPT);
    }
    free(state);
    arena_done(&f.arena);
}
END_TEST

static const char *const refused[][2] = {
    {"{shelf_columns: 2}", "env.params.shelf_columns: found 2, expected an odd number"},
    {"{agents: 1, difficulty: hard}",
     "env.params.difficulty: 0 requested shelves, expected at least 1"},
    {"{requests: 32}", "env.params.requests: 32 requested shelves, expected at most 31"},
    {"{shelf_rows: 20}", "a floor of 10 x 182 cells"},
    {"{layout: \"x.g\\nx.\"}",
     "env.params.layout: line 2 of the floor: it is not as long as the first"},
    {"{layout: \"x.g\\nx.y\"}", "line 2 of the floor: expected x, . and g"},
    {"{layout: \"x..\\nx..\"}", "there is no g, a goal"},
    {"{layout: \"xg\", requests: 1}", "1 requested shelves, expected at most 0"},
    {"{layout: \"xg\\nxx\", agents: 5, requests: 1}", "5 robots, expected at most 4"},
    {"{layout: \" \"}", "line 1 of the floor"},
};

START_TEST(a_floor_that_cannot_be_is_told_in_one_line)
{
    struct fixture f;
    struct env_config config;
    const void *values;
    struct err err = {0};

    ck_assert_int_eq(describe(&f, &config, refused[_i][0], &values, &err), ERR_CONFIG);
    ck_assert_msg(strstr(err.msg, refused[_i][1]) != NULL, "%s", err.msg);
    arena_done(&f.arena);
}
END_TEST

#define N(table) (sizeof(table) / sizeof((table)[0]))

static Suite *make_suite(void)
{
    Suite *s = suite_create("rware");
    TCase *tc = tcase_create("rware");

    tcase_add_test(tc, episodes_are_drawn_by_key);
    tcase_add_loop_test(tc, who_moves, 0, N(crowds));
    tcase_add_loop_test(tc, an_impossible_state_is_refused, 0, N(impossible));
    tcase_add_test(tc, two_robots_or_shelves_in_a_cell_are_refused);
    tcase_add_loop_test(tc, a_floor_that_cannot_be_is_told_in_one_line, 0, N(refused));
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
