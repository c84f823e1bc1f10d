#include "supervisor/study/halving.h"
#include "supervisor/study/study.h"
#include "tests/support/test_main.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char dir[] = "/tmp/brood-study-XXXXXX";
static char file[64], base[64];

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "we");

    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
}

static void set_up(void)
{
    (void)memcpy(dir + strlen(dir) - 6, "XXXXXX", 6);
    ck_assert_ptr_nonnull(mkdtemp(dir));
    (void)snprintf(file, sizeof(file), "%s/s.yaml", dir);
    (void)snprintf(base, sizeof(base), "%s/base.yaml", dir);
    put(base, "env: {id: simple_spread}\n");
}

static void tear_down(void)
{
    (void)unlink(file);
    (void)unlink(base);
    (void)rmdir(dir);
}

static void read_study(struct study *s, const char *text)
{
    struct err err = {0};

    put(file, text);
    ck_assert_msg(study_read(s, file, &err) == 0, "%s", err.msg);
}

static const char *sets_of(const struct study *s, size_t trial, struct arena *arena)
{
    const char *sets[STUDY_MAX_SETS], *all = "";
    const size_t n = study_sets(s, trial, sets, arena);

    for (size_t i = 0; i < n; i++)
        all = arena_printf(arena, "%s%s%s", all, i > 0 ? " " : "", sets[i]);
    return all;
}

START_TEST(a_grid_has_every_combination_and_the_last_key_changes_fastest)
{
    static const char *const expected[] = {"a=1 b=[8] c=[8]", "a=1 b=[8, 8] c=[8, 8]",
                                           "a=2 b=[8] c=[8]", "a=2 b=[8, 8] c=[8, 8]"};
    struct arena arena = ARENA_ZERO;
    struct study s;

    read_study(&s,
               "base: base.yaml\nsearch: {a: [1, 2], 'b, c': {choice: [[8], [8, 8]]}}\n");
    ck_assert_uint_eq(s.trials, 4);
    for (size_t i = 0; i < 4; i++)
        ck_assert_str_eq(sets_of(&s, i, &arena), expected[i]);
    ck_assert_str_eq(s.base_text, "{env: {id: simple_spread}}\n");
    study_done(&s);
    arena_done(&arena);
}
END_TEST

START_TEST(draws_are_within_their_ranges_and_follow_from_the_seed)
{
    struct arena arena = ARENA_ZERO;
    struct study s, longer;
    int seen[4] = {0};
    size_t low = 0;

    read_study(
        &s, "{base: base.yaml, method: random, trials: 400, search: {u: {uniform: [-1, "
            "1]}, l: {log_uniform: [0.001, 1]}, i: {int: [3, 6]}, c: [x, y]}}\n");
    read_study(&longer,
               "{base: base.yaml, method: random, trials: 500, search: {u: {uniform: "
               "[-1, 1]}, l: {log_uniform: [0.001, 1]}, i: {int: [3, 6]}, c: [x, "
               "y]}}\n");
    for (size_t t = 0; t < s.trials; t++) {
        const double u = strtod(study_value(&s, t, 0, &arena), NULL);
        const double l = strtod(study_value(&s, t, 1, &arena), NULL);
        const long i = strtol(study_value(&s, t, 2, &arena), NULL, 10);

        ck_assert(u >= -1 && u <= 1 && l >= 0.001 && l <= 1 && i >= 3 && i <= 6);
        seen[i - 3]++;
        low += l < 0.0316; /* half of the logarithms */
        ck_assert_str_eq(sets_of(&s, t, &arena), sets_of(&longer, t, &arena));
    }
    for (int i = 0; i < 4; i++)
        ck_assert_int_gt(seen[i], 60);
    ck_assert(low > 150 && low < 250);
    ck_assert_int_eq(study_check_same(&s, &longer, NULL), 0);
    ck_assert_int_eq(study_check_same(&longer, &s, NULL), ERR_CONFIG);
    study_done(&s);
    study_done(&longer);
    arena_done(&arena);
}
END_TEST

START_TEST(what_is_no_study_is_named_with_its_line)
{
    static const struct {
        const char *text, *says;
    } wrong[] = {
        {"base: base.yaml\n", "s.yaml:1: search: expected the keys to search"},
        {"search: {a: [1]}\n", "s.yaml:1: base: expected the path of a configuration"},
        {"base: base.yaml\nserch: {}\n",
         "s.yaml:2: serch: serch is no key of a study; did you mean 'search'?"},
        {"base: base.yaml\nsearch:\n  a: 3\n", "s.yaml:3: a: expected a list of values"},
        {"base: base.yaml\nsearch: {a: {log_uniform: [0, 1]}}\nmethod: random\n",
         "s.yaml:2: a: expected two numbers above 0"},
        {"base: base.yaml\nsearch: {a: {uniform: [0, 1]}}\n",
         "s.yaml:2: a: a grid needs a list of values"},
        {"base: base.yaml\nsearch: {a: [1]}\nmethod: random\n",
         "s.yaml:1: trials: expected the number of random trials"},
        {"base: base.yaml\nsearch: {a: [1]}\nmethod: {asha: {rungs: [5, 5]}}\n",
         "s.yaml:3: method.asha.rungs: expected ascending numbers"},
        {"base: base.yaml\nsearch: {a: [1]}\nmethod: {asha: {}}\n",
         "s.yaml:3: method.asha.rungs: expected the environment steps"},
        {"base: base.yaml\nsearch: {a: [1]}\nseeds: [1, 1]\n",
         "s.yaml:3: seeds: seed 1 is given twice"},
        {"base: base.yaml\nsearch: {a: [1]}\nmetric: {mode: best}\n",
         "s.yaml:3: metric.mode: expected max or min"},
        {"base: base.yaml\nsearch: {a: [1]}\nlimits: {memory: much}\n",
         "s.yaml:3: limits.memory: expected a size such as 8G"},
        {"base: none.yaml\nsearch: {a: [1]}\n", "none.yaml: No such file or directory"},
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct err err = {0};
        struct study s;

        put(file, wrong[i].text);
        ck_assert_int_lt(study_read(&s, file, &err), 0);
        ck_assert_msg(strstr(err.msg, wrong[i].says) != NULL, "%s", err.msg);
    }
}
END_TEST

START_TEST(the_best_part_of_a_rung_continues)
{
    static const size_t trial[] = {2, 5, 7, 8, 9, 11};
    const double value[] = {3, (double)NAN, 8, 3, 9, 1};
    size_t kept[6];

    ck_assert_uint_eq(halving_keep(trial, value, 6, 0.34, 1, kept), 2);
    ck_assert(kept[0] == 7 && kept[1] == 9);
    ck_assert_uint_eq(halving_keep(trial, value, 6, 0.5, 1, kept), 3);
    ck_assert(kept[0] == 2 && kept[1] == 7 && kept[2] == 9); /* the first of equal ones */
    ck_assert_uint_eq(halving_keep(trial, value, 6, 0.34, 0, kept), 2);
    ck_assert(kept[0] == 2 && kept[1] == 11);
    ck_assert_uint_eq(halving_keep(trial, value, 6, 0.01, 1, kept), 1);
    ck_assert_uint_eq(halving_keep(trial, value, 6, 0.99, 1, kept),
                      5); /* not the failed */
    ck_assert_uint_eq(halving_keep(trial + 1, value + 1, 1, 0.5, 1, kept), 0);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("study");
    TCase *tc = tcase_create("study");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, a_grid_has_every_combination_and_the_last_key_changes_fastest);
    tcase_add_test(tc, draws_are_within_their_ranges_and_follow_from_the_seed);
    tcase_add_test(tc, what_is_no_study_is_named_with_its_line);
    tcase_add_test(tc, the_best_part_of_a_rung_continues);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
