/* Level-based foraging on grids that the tests set up through the world's state. */
#include "common/config/yaml_tree.h"
#include "supervisor/env/env_class.h"
#include "tests/support/test_main.h"

#include <stdlib.h>
#include <string.h>

enum { SIZE = 5, PLAYERS = 2, WIDTH = 3 * 2 + 3 * PLAYERS, ROOM = 27 };
enum { NONE, NORTH, SOUTH, WEST, EAST, LOAD, N_ACTIONS };

struct fixture {
    struct arena arena;
    void *world;
    /* One copy's state, in the layout of foraging.c. */
    struct {
        int32_t player[PLAYERS][3]; /* row, column, level */
        int32_t cell[SIZE][SIZE];
        int32_t all_food;
    } s;
    double rewards[PLAYERS];
    uint8_t terminated[PLAYERS];
    float obs[PLAYERS][ROOM];
};

static int describe(struct fixture *f, struct env_config *config, const char *text,
                    const void **ret_params, struct err *err)
{
    struct env_spec spec;
    struct yaml_node *tree;

    *f = (struct fixture){0};
    *config = (struct env_config){.id = "foraging"};
    ck_assert_int_eq(yaml_tree_parse(&tree, &f->arena, text, strlen(text), "f", 1, err),
                     0);
    config->params = tree;
    return env_class_describe(env_class_find("foraging"), config, &f->arena, ret_params,
                              &spec, err);
}

static void open_as(struct fixture *f, enum env_observe observe, const char *params)
{
    const struct env_class *class = env_class_find("foraging");
    struct env_config config;
    const void *p;
    struct err err = {0};

    ck_assert_msg(describe(f, &config, params, &p, &err) == 0, "%s", err.msg);
    config.observe = observe;
    f->world = class->ops->open(class, &config, p, 1, &f->arena);
}

static void open_world(struct fixture *f, const char *params)
{
    open_as(f, ENV_OBSERVE_VECTOR, params);
}

static void set_player(struct fixture *f, size_t i, int32_t row, int32_t col,
                       int32_t level)
{
    f->s.player[i][0] = row;
    f->s.player[i][1] = col;
    f->s.player[i][2] = level;
}

static void set_food(struct fixture *f, int32_t row, int32_t col, int32_t level)
{
    f->s.cell[row][col] = level;
    f->s.all_food += level;
}

static void load(struct fixture *f)
{
    ck_assert_uint_eq(foraging_ops.state_bytes(f->world), sizeof(f->s));
    ck_assert_int_eq(foraging_ops.load(f->world, &f->s, NULL), 0);
}

static void play(struct fixture *f, int first, int second)
{
    float values[PLAYERS][N_ACTIONS] = {{0}};
    const float *actions[] = {values[0], values[1]};
    double *reward[] = {&f->rewards[0], &f->rewards[1]};
    uint8_t *terminated[] = {&f->terminated[0], &f->terminated[1]};
    float *obs[] = {f->obs[0], f->obs[1]};

    values[0][first] = values[1][second] = 1;
    foraging_ops.step(f->world, actions, reward, terminated);
    foraging_ops.observe(f->world, 0, 1, obs);
    foraging_ops.save(f->world, &f->s);
}

static void expect_at(const struct fixture *f, size_t i, int32_t row, int32_t col)
{
    ck_assert_int_eq(f->s.player[i][0], row);
    ck_assert_int_eq(f->s.player[i][1], col);
}

#define GRID "{size: 5, players: 2, food: 2, penalty: 0.5}"

START_TEST(moves_and_their_limits)
{
    struct fixture f;

    open_world(&f, GRID);
    set_player(&f, 0, 0, 0, 1);
    set_player(&f, 1, 4, 4, 1);
    set_food(&f, 1, 1, 1);
    load(&f);
    play(&f, NORTH, EAST); /* off the grid */
    expect_at(&f, 0, 0, 0);
    expect_at(&f, 1, 4, 4);
    play(&f, EAST, NORTH);
    expect_at(&f, 0, 0, 1);
    expect_at(&f, 1, 3, 4);
    play(&f, SOUTH, WEST); /* onto food */
    expect_at(&f, 0, 0, 1);
    expect_at(&f, 1, 3, 3);
    play(&f, WEST, SOUTH);
    expect_at(&f, 0, 0, 0);
    expect_at(&f, 1, 4, 3);
    ck_assert_double_eq(f.rewards[0] + f.rewards[1], 0);
    arena_done(&f.arena);
}
END_TEST

START_TEST(where_two_want_to_be_nobody_goes)
{
    struct fixture f;

    open_world(&f, GRID);
    set_player(&f, 0, 2, 0, 1);
    set_player(&f, 1, 2, 2, 1);
    set_food(&f, 3, 1, 2);
    load(&f);
    play(&f, EAST, WEST); /* both to (2, 1) */
    expect_at(&f, 0, 2, 0);
    expect_at(&f, 1, 2, 2);
    play(&f, EAST, NONE);
    play(&f, EAST, NONE); /* onto a player that stays */
    expect_at(&f, 0, 2, 1);
    play(&f, EAST, WEST); /* they change places */
    expect_at(&f, 0, 2, 2);
    expect_at(&f, 1, 2, 1);
    arena_done(&f.arena);
}
END_TEST

START_TEST(food_is_loaded_by_enough)
{
    struct fixture f;

    open_world(&f, GRID);
    set_player(&f, 0, 1, 2, 1);
    set_player(&f, 1, 2, 1, 2);
    set_food(&f, 2, 2, 3);
    set_food(&f, 0, 4, 1);
    load(&f);
    play(&f, LOAD, NONE); /* too weak alone */
    ck_assert_double_eq(f.rewards[0], -0.5);
    ck_assert_double_eq(f.rewards[1], 0);
    play(&f, LOAD, LOAD); /* levels 1 + 2 = 3; all food is worth 4 */
    ck_assert_double_eq(f.rewards[0], 1.0 * 3 / (3.0 * 4));
    ck_assert_double_eq(f.rewards[1], 2.0 * 3 / (3.0 * 4));
    ck_assert_int_eq(f.s.cell[2][2], 0);
    ck_assert_int_eq(f.terminated[0], 0);
    play(&f, LOAD, LOAD); /* nothing to load: no penalty */
    ck_assert_double_eq(f.rewards[0], 0);
    arena_done(&f.arena);
}
END_TEST

START_TEST(the_last_food_ends_it)
{
    struct fixture f;

    open_world(&f, GRID);
    set_player(&f, 0, 1, 2, 2);
    set_player(&f, 1, 4, 4, 1);
    set_food(&f, 2, 2, 2);
    load(&f);
    play(&f, LOAD, NONE);
    ck_assert_double_eq(f.rewards[0], 1.0);
    ck_assert_int_eq(f.terminated[0], 1);
    ck_assert_int_eq(f.terminated[1], 1);
    arena_done(&f.arena);
}
END_TEST

START_TEST(what_is_seen)
{
    const float all_0[WIDTH] = {1, 1, 2, 3, 3, 1, 0, 1, 1, 3, 4, 2};
    const float near_0[WIDTH] = {1, 1, 2, -1, -1, 0, 0, 1, 1, -1, -1, 0};
    const float near_1[WIDTH] = {1, 0, 1, -1, -1, 0, 1, 1, 2, -1, -1, 0};
    struct fixture f;

    for (int k = 0; k < 2; k++) {
        open_world(&f, k == 0 ? GRID : "{size: 5, players: 2, food: 2, sight: 1}");
        set_player(&f, 0, 0, 1, 1);
        set_player(&f, 1, 3, 4, 2);
        set_food(&f, 1, 1, 2);
        set_food(&f, 3, 3, 1);
        load(&f);
        play(&f, NONE, NONE);
        ck_assert_mem_eq(f.obs[0], k == 0 ? all_0 : near_0, sizeof(all_0));
        if (k == 1)
            ck_assert_mem_eq(f.obs[1], near_1, sizeof(near_1));
        arena_done(&f.arena);
    }
}
END_TEST

START_TEST(cells_are_seen_as_three_layers)
{
    /* player 0 is in the corner: cells off the grid cannot be entered */
    const float levels[ROOM] = {0, 0, 0, 0, 1, 2, 0, 0, 0, /* players */
                                0, 0, 0, 0, 0, 0, 0, 0, 3, /* food */
                                0, 0, 0, 0, 0, 0, 0, 1, 0};
    struct fixture f;

    for (int k = 0; k < 2; k++) {
        float want[ROOM];

        memcpy(want, levels, sizeof(want));
        want[5] = k == 0 ? 2 : 1;
        open_world(&f, k == 0 ? "{size: 5, food: 2, sight: 1, grid: true}"
                              : "{size: 5, food: 2, sight: 1, grid: true, "
                                "observe_levels: false}");
        set_player(&f, 0, 0, 0, 1);
        set_player(&f, 1, 0, 1, 2);
        set_food(&f, 1, 1, 3);
        load(&f);
        play(&f, NONE, NONE);
        ck_assert_mem_eq(f.obs[0], want, sizeof(want));
        arena_done(&f.arena);
    }
}
END_TEST

/* Food, then the other player; what is out of sight or loaded is all 0. */
START_TEST(entities_are_what_is_in_sight)
{
    const float both[] = {1, 1, 1, 1, 0, -1, -1, 3, 1, 0, 1,
                          0, 1, 2, 1, 0, 0,  0,  0, 0, 0};
    const float one[] = {1, 1, 2, 0, 1, 0, -1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    struct fixture f;

    open_as(&f, ENV_OBSERVE_ENTITIES, "{size: 5, food: 2, sight: 1}");
    set_player(&f, 0, 2, 2, 1);
    set_player(&f, 1, 2, 3, 2);
    set_food(&f, 1, 1, 3);
    set_food(&f, 4, 0, 1);
    load(&f);
    play(&f, NONE, NONE);
    ck_assert_mem_eq(f.obs[0], both, sizeof(both));
    ck_assert_mem_eq(f.obs[1], one, sizeof(one));
    arena_done(&f.arena);
}
END_TEST

START_TEST(levels_may_be_hidden_and_rewards_whole)
{
    const float want[WIDTH - PLAYERS] = {1, 1, 2, -1, -1, 0, 0, 1, 1, 0};
    struct fixture f;

    open_world(&f, "{size: 5, food: 2, observe_levels: false, normalize_reward: false}");
    set_player(&f, 0, 0, 1, 1);
    set_player(&f, 1, 1, 0, 2);
    set_food(&f, 1, 1, 2);
    set_food(&f, 3, 3, 1);
    load(&f);
    f.s.cell[3][3] = 0;
    load(&f);
    play(&f, NONE, NONE);
    ck_assert_mem_eq(f.obs[0], want, sizeof(want));
    play(&f, LOAD, LOAD);
    ck_assert_double_eq(f.rewards[0], 2);
    ck_assert_double_eq(f.rewards[1], 4);
    arena_done(&f.arena);
}
END_TEST

START_TEST(fields_and_levels_are_as_given)
{
    enum { ROWS = 4, COLUMNS = 9 };
    struct rng_key key = rng_key_make(3, "env/0", "reset");
    struct {
        int32_t player[PLAYERS][3], cell[ROWS][COLUMNS], all_food;
    } s;
    struct fixture f;
    int seen = 0;

    open_world(&f, "{rows: 4, columns: 9, food: 2, min_level: 2, max_level: 3, "
                   "min_food_level: 4, max_food_level: 5}");
    ck_assert_uint_eq(foraging_ops.state_bytes(f.world), sizeof(s));
    for (uint64_t e = 0; e < 300; e++) {
        foraging_ops.reset(f.world, 0, &(struct env_episode){key, e, e});
        foraging_ops.save(f.world, &s);
        for (int i = 0; i < PLAYERS; i++) {
            ck_assert_int_ge(s.player[i][2], 2);
            ck_assert_int_le(s.player[i][2], 3);
            seen |= (s.player[i][1] > ROWS ? 1 : 0) | (s.player[i][2] == 2 ? 2 : 4);
        }
        for (int i = 0; i < ROWS * COLUMNS; i++) {
            const int32_t level = s.cell[i / COLUMNS][i % COLUMNS];

            ck_assert(level == 0 || level == 4 || level == 5);
            seen |= level == 4 ? 8 : level == 5 ? 16 : 0;
        }
    }
    ck_assert_int_eq(seen, 31);
    arena_done(&f.arena);
}
END_TEST

/* Food never lies beside other food, on the border or on a player, and it can be
 * loaded. */
static void expect_right_beginning(const struct fixture *f, int cooperate)
{
    int32_t most = f->s.player[0][2] + f->s.player[1][2], sum = 0;

    for (int32_t r = 0; r < SIZE; r++) {
        for (int32_t c = 0; c < SIZE; c++) {
            int32_t level = f->s.cell[r][c];

            if (level == 0)
                continue;
            sum += level;
            ck_assert(r > 0 && r < SIZE - 1 && c > 0 && c < SIZE - 1);
            ck_assert_int_le(level, most);
            ck_assert_int_ge(level, cooperate ? most : 1);
            ck_assert(f->s.cell[r + 1][c] == 0 && f->s.cell[r][c + 1] == 0 &&
                      f->s.cell[r + 1][c + 1] == 0 && f->s.cell[r + 1][c - 1] == 0);
            for (size_t i = 0; i < PLAYERS; i++)
                ck_assert(f->s.player[i][0] != r || f->s.player[i][1] != c);
        }
    }
    ck_assert_int_eq(sum, f->s.all_food);
    ck_assert_int_gt(sum, 0);
    ck_assert(memcmp(f->s.player[0], f->s.player[1], 2 * sizeof(int32_t)) != 0);
}

START_TEST(beginnings_are_drawn_by_key)
{
    struct rng_key key = rng_key_make(3, "env/0", "reset");
    struct fixture f, again;

    for (int k = 0; k < 2; k++) {
        open_world(&f, k == 0 ? GRID : "{size: 5, players: 2, food: 2, cooperate: true}");
        for (uint64_t e = 0; e < 500; e++) {
            foraging_ops.reset(f.world, 0, &(struct env_episode){key, e, e});
            foraging_ops.save(f.world, &f.s);
            expect_right_beginning(&f, k);
        }
        again = f;
        foraging_ops.reset(f.world, 0, &(struct env_episode){key, 499, 499});
        foraging_ops.save(f.world, &f.s);
        ck_assert_mem_eq(&f.s, &again.s, sizeof(f.s));
        arena_done(&f.arena);
    }
}
END_TEST

START_TEST(impossible_states_are_refused)
{
    struct fixture f;
    struct err err = {0};

    open_world(&f, GRID);
    load(&f);
    f.s.player[1][0] = SIZE;
    ck_assert_int_eq(foraging_ops.load(f.world, &f.s, &err), ERR_CORRUPT);
    f.s.player[1][0] = -1;
    ck_assert_int_eq(foraging_ops.load(f.world, &f.s, &err), ERR_CORRUPT);
    f.s.player[1][0] = 0;
    f.s.cell[2][2] = -1;
    ck_assert_int_eq(foraging_ops.load(f.world, &f.s, &err), ERR_CORRUPT);
    arena_done(&f.arena);
}
END_TEST

static const struct {
    const char *params, *message; /* NULL: the food fits */
} rooms[] = {
    {"{size: 4, players: 15, food: 1}", NULL},
    {"{size: 5, players: 14, food: 2}", NULL},
    {"{size: 20, players: 32, food: 64}", NULL},
    {"{size: 4, players: 32}", "f:1: env.params.players: 32 players and 2 food do not "
                               "fit into size 4, which has 16 "
                               "cells, and places for 1 food"},
    {"{size: 4, players: 16, food: 1}", "f:1: env.params.players: 16 players and 1 food "
                                        "do not fit into size 4, which has 16 "
                                        "cells, and places for 1 food"},
    {"{players: 2,\n size: 5,\n food: 3}",
     "f:3: env.params.food: 2 players and 3 food do not fit into size 5, which has 25 "
     "cells, and places for 2 food"},
    {"{size: 4}",
     "f:1: env.params.food: 2 players and 2 food do not fit into size 4, which has 16 "
     "cells, and places for 1 food"},
    {"{min_level: 3}",
     "f:1: env.params.max_level: found 2, expected at least min_level, 3"},
    {"{max_food_level: 2,\n min_food_level: 3}",
     "f:1: env.params.max_food_level: found 2, expected at least min_food_level, 3"},
    {"{columns: 3}", "f:1: env.params.columns: found 3, expected at least the smallest "
                     "field's, 4"},
    {"{size: 19, food: 59}",
     "f:1: env.params.food: 2 players and 59 food do not fit into size 19, which has 361 "
     "cells, and places for 58 food"},
};

START_TEST(what_has_no_place_is_told_in_one_line)
{
    struct fixture f;
    struct env_config config;
    const void *p;
    struct err err = {0};
    int rc = describe(&f, &config, rooms[_i].params, &p, &err);

    ck_assert_int_eq(rc, rooms[_i].message != NULL ? ERR_CONFIG : 0);
    if (rc < 0)
        ck_assert_str_eq(err.msg, rooms[_i].message);
    arena_done(&f.arena);
}
END_TEST

/* The largest number of cells from `at` on of which no two are nearer than three
 * steps. */
static int most_from(int side, int at, uint64_t taken)
{
    int best = 0, row = at / side, col = at % side, is_free = 1;

    if (at == side * side)
        return 0;
    for (int i = 0; i < at; i++)
        if ((taken >> i & 1) != 0 && abs(i / side - row) + abs(i % side - col) < 3)
            is_free = 0;
    if (is_free)
        best = 1 + most_from(side, at + 1, taken | UINT64_C(1) << at);
    row = most_from(side, at + 1, taken);
    return row > best ? row : best;
}

START_TEST(as_much_food_fits_as_can_be_placed)
{
    const int size = _i, most = most_from(size - 2, 0, 0);

    for (int food = most; food <= most + 1; food++) {
        struct fixture f;
        struct env_config config;
        const void *p;
        char params[64];
        struct err err = {0};

        (void)snprintf(params, sizeof(params), "{size: %d, players: 1, food: %d}", size,
                       food);
        ck_assert_int_eq(describe(&f, &config, params, &p, &err),
                         food <= most ? 0 : ERR_CONFIG);
        arena_done(&f.arena);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("foraging");
    TCase *tc = tcase_create("foraging");

    tcase_add_test(tc, moves_and_their_limits);
    tcase_add_test(tc, where_two_want_to_be_nobody_goes);
    tcase_add_test(tc, food_is_loaded_by_enough);
    tcase_add_test(tc, the_last_food_ends_it);
    tcase_add_test(tc, what_is_seen);
    tcase_add_test(tc, cells_are_seen_as_three_layers);
    tcase_add_test(tc, entities_are_what_is_in_sight);
    tcase_add_test(tc, levels_may_be_hidden_and_rewards_whole);
    tcase_add_test(tc, fields_and_levels_are_as_given);
    tcase_add_test(tc, beginnings_are_drawn_by_key);
    tcase_add_test(tc, impossible_states_are_refused);
    tcase_add_loop_test(tc, what_has_no_place_is_told_in_one_line, 0,
                        sizeof(rooms) / sizeof(rooms[0]));
    tcase_add_loop_test(tc, as_much_food_fits_as_can_be_placed, 4, 9);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
