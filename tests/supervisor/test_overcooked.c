/* The kitchen: what is refused. test_package_episodes.c plays whole episodes. */
#include "common/config/yaml_tree.h"
#include "supervisor/env/env_class.h"
#include "tests/support/test_main.h"

#include <stdlib.h>
#include <string.h>

enum { COPIES = 2, CELLS = 5 * 4 };

/* One copy's state, in the layout of overcooked.c. */
struct copy {
    int32_t step, served;
    struct {
        int32_t cell, direction, held[4];
    } cook[2];
    int32_t thing[CELLS][4]; /* kind, onions, tomatoes, steps cooked */
};

static int describe(struct arena *arena, const char *params, void **ret_world,
                    struct err *err)
{
    const struct env_class *class = env_class_find("overcooked");
    struct env_config config = {.id = "overcooked"};
    struct env_spec spec;
    struct yaml_node *tree;
    const void *values;
    int rc;

    ck_assert_int_eq(yaml_tree_parse(&tree, arena, params, strlen(params), "f", 1, err),
                     0);
    config.params = tree;
    rc = env_class_describe(class, &config, arena, &values, &spec, err);
    if (rc == 0)
        *ret_world = overcooked_ops.open(class, &config, values, COPIES, arena);
    return rc;
}

enum { ONION = 1, DISH = 3, SOUP = 4, COUNTER = 0, POT = 2, FLOOR = 6, ONIONS = 5 };

/* A thing in a cell, or in the first cook's hands. */
static const struct {
    const char *what;
    int cell; /* -1: in hands */
    int32_t thing[4];
    int is_possible;
} things[] = {
    {"an onion on a counter", COUNTER, {ONION}, 1},
    {"an onion on the floor", FLOOR, {ONION}, 0},
    {"an onion in a pot", POT, {ONION}, 0},
    {"a dish on an onion box", ONIONS, {DISH}, 0},
    {"a soup that waits in a pot", POT, {SOUP, 2, 0, -1}, 1},
    {"a soup that waits on a counter", COUNTER, {SOUP, 2, 0, -1}, 0},
    {"a soup that cooks in a pot", POT, {SOUP, 2, 1, 7}, 1},
    {"a soup that has cooked too long", POT, {SOUP, 3, 0, 21}, 0},
    {"a soup of nothing", POT, {SOUP, 0, 0, -1}, 0},
    {"a soup of four onions", POT, {SOUP, 4, 0, -1}, 0},
    {"a soup of four ingredients", POT, {SOUP, 2, 2, -1}, 0},
    {"a soup of fewer than no onions", POT, {SOUP, -1, 3, -1}, 0},
    {"a ready soup in hands", -1, {SOUP, 3, 0, 20}, 1},
    {"a soup in hands that is not ready", -1, {SOUP, 3, 0, 19}, 0},
    {"an onion that cooks", -1, {ONION, 0, 0, 4}, 0},
    {"an unknown thing", -1, {5}, 0},
    {"a thing below nothing", COUNTER, {-1}, 0},
};

START_TEST(what_can_be_is_loaded)
{
    struct arena arena = {0};
    struct err err = {0};
    struct copy copies[COPIES], after[COPIES];
    const struct env_episode e = {.number = 0};
    int32_t *to = things[_i].cell < 0
                      ? copies[1].cook[0].held
                      : copies[1].thing[things[_i].cell < 0 ? 0 : things[_i].cell];
    void *world;

    ck_assert_int_eq(describe(&arena, "{}", &world, &err), 0);
    ck_assert_uint_eq(overcooked_ops.state_bytes(world), sizeof(copies));
    for (size_t c = 0; c < COPIES; c++)
        overcooked_ops.reset(world, c, &e);
    overcooked_ops.save(world, copies);
    memcpy(to, things[_i].thing, sizeof(things[_i].thing));
    ck_assert_msg(overcooked_ops.load(world, copies, &err) ==
                      (things[_i].is_possible ? 0 : ERR_CORRUPT),
                  "%s", things[_i].what);
    overcooked_ops.save(world, after);
    ck_assert_int_eq(memcmp(copies, after, sizeof(after)) == 0, things[_i].is_possible);
    arena_done(&arena);
}
END_TEST

START_TEST(impossible_cooks_are_refused)
{
    static const int32_t cell[] = {COUNTER, -1, CELLS, 7, FLOOR};
    static const int32_t direction[] = {0, 0, 0, 0, 4};
    struct arena arena = {0};
    struct err err = {0};
    struct copy copies[COPIES];
    const struct env_episode e = {.number = 0};
    void *world;

    ck_assert_int_eq(describe(&arena, "{}", &world, &err), 0);
    for (size_t c = 0; c < COPIES; c++)
        overcooked_ops.reset(world, c, &e);
    overcooked_ops.save(world, copies);
    copies[0].cook[1].cell = 7; /* and the first cook, too, for one of them */
    copies[0].cook[0].cell = cell[_i];
    copies[0].cook[0].direction = direction[_i];
    ck_assert_int_eq(overcooked_ops.load(world, copies, &err), ERR_CORRUPT);
    ck_assert_ptr_nonnull(strstr(err.msg, "copy 0"));
    arena_done(&arena);
}
END_TEST

static const char *const refused[][2] = {
    {"{layout: cramped_rom}", "did you mean 'cramped_room'?"},
    {"{layout: \"XPX\\nX1\"}", "line 2 of the kitchen: it is not as long as the first"},
    {"{layout: \"XPX\\nX?X\"}", "line 2 of the kitchen: expected X, O, T, D, P, S"},
    {"{layout: \"XPDSX\\nX1 1X\\nXXXXX\"}", "line 2 of the kitchen: expected X, O"},
    {"{layout: \"XPDSX\\nX1 2 \\nXXXXX\"}", "line 2 of the kitchen: a cook could leave"},
    {"{layout: \"XPDXX\\nX1 2X\\nXXXXX\"}", "expected at least one D, P and S each"},
    {"{layout: \"XPDSX\\nX1  X\\nXXXXX\"}", "expected one 1 and one 2, the cooks"},
    {"{recipes: {too: {}}}", "found 'too', expected 1 to 3 ingredients, o before t"},
    {"{recipes: {oooo: {}}}", "found 'oooo'"},
    {"{recipes: {ooo: {value: 20, tme: 3}}}", "env.params.recipes.ooo"},
    {"{recipes: {ooo: {time: 0}}}", "env.params.recipes.ooo.time"},
};

START_TEST(a_kitchen_that_cannot_be_is_told_in_one_line)
{
    struct arena arena = {0};
    struct err err = {0};
    void *world;

    ck_assert_int_eq(describe(&arena, refused[_i][0], &world, &err), ERR_CONFIG);
    ck_assert_msg(strstr(err.msg, refused[_i][1]) != NULL, "%s", err.msg);
    arena_done(&arena);
}
END_TEST

#define N(table) (sizeof(table) / sizeof((table)[0]))

static Suite *make_suite(void)
{
    Suite *s = suite_create("overcooked");
    TCase *tc = tcase_create("overcooked");

    tcase_add_loop_test(tc, what_can_be_is_loaded, 0, N(things));
    tcase_add_loop_test(tc, impossible_cooks_are_refused, 0, 5);
    tcase_add_loop_test(tc, a_kitchen_that_cannot_be_is_told_in_one_line, 0, N(refused));
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
