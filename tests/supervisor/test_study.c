#include "common/wire/cursor.h"
#include "supervisor/study/halving.h"
#include "supervisor/study/lineage.h"
#include "supervisor/study/population.h"
#include "supervisor/study/rungs.h"
#include "supervisor/study/study_dir.h"
#include "tests/support/test_main.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
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
    ck_assert_msg(study_read(s, file, NULL, 0, &err) == 0, "%s", err.msg);
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
        low += l < 0.0316; /* half of the range of logarithms */
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
         "s.yaml:2: serch: unknown key, expected base, search, method, metric, trials, "
         "seeds, seed or limits; did you mean 'search'?"},
        {"base: base.yaml\nsearch:\n  a: 3\n", "s.yaml:3: a: expected a list of values"},
        {"base: base.yaml\nsearch:\n  a: [3]\n  'b, run.seed': [1]\n",
         "s.yaml:4: b, run.seed: the seeds of a study are given by `seeds: [1, 2]`"},
        {"base: base.yaml\nsearch: {' , ': [1]}\n",
         "s.yaml:2: search: found ' , ', expected the path of a key"},
        {"base: base.yaml\nsearch: {'': [1]}\n",
         "s.yaml:2: search: found '', expected the path of a key"},
        {"base: base.yaml\nsearch:\n  'b, a': [3]\n  a: [1]\n",
         "s.yaml:4: a: another key sets a, too"},
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
        {"base: base.yaml\nsearch: {a: [1]}\nmethod: {pbt: {population: 4, rounds: 2}}\n",
         "s.yaml:3: method.pbt: expected `interval`"},
        {"base: base.yaml\nsearch: {a: [1]}\nmethod: {pbt: {population: 4, rounds: 2, "
         "interval: 9, factors: [1.25, 0.8]}}\n",
         "s.yaml:3: method.pbt.factors: expected [DOWN, UP]"},
        {"base: base.yaml\nsearch: {a: [1]}\nmethod: {pbt: {population: 4, rounds: 2, "
         "interval: 9, quantile: 0.6}}\n",
         "s.yaml:3: method.pbt.quantile: found '0.6', expected a number of at least "
         "0.001 "
         "and at most 0.5"},
        {"base: base.yaml\nsearch: {a: [1]}\nseeds: [1, 1]\n",
         "s.yaml:3: seeds: seed 1 is given twice"},
        {"base: base.yaml\nsearch: {a: [1]}\nmetric: {mode: best}\n",
         "s.yaml:3: metric.mode: found 'best', expected min or max"},
        {"base: base.yaml\nsearch: {a: [1]}\nlimits: {memory: much}\n",
         "s.yaml:3: limits.memory: found 'much', expected none or a size with its unit"},
        {"search: {a: [1]}\nbase: none.yaml\n", "s.yaml:2: base: "},
        {"base: none.yaml\nsearch: {a: [1]}\n", "none.yaml: No such file or directory"},
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct err err = {0};
        struct study s;

        put(file, wrong[i].text);
        ck_assert_int_lt(study_read(&s, file, NULL, 0, &err), 0);
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
    ck_assert(kept[0] == 2 && kept[1] == 7 && kept[2] == 9); /* first of equal values */
    ck_assert_uint_eq(halving_keep(trial, value, 6, 0.34, 0, kept), 2);
    ck_assert(kept[0] == 2 && kept[1] == 11);
    ck_assert_uint_eq(halving_keep(trial, value, 6, 0.01, 1, kept), 1);
    ck_assert_uint_eq(halving_keep(trial, value, 6, 0.99, 1, kept),
                      5); /* not the failed one */
    ck_assert_uint_eq(halving_keep(trial + 1, value + 1, 1, 0.5, 1, kept), 0);
}
END_TEST

/* ---- population based training ---- */

static const char pbt[] =
    "{base: base.yaml, search: {l: {log_uniform: [0.001, 1]}, i: {int: [1, 9]}, c: [x, "
    "y, "
    "z]}, method: {pbt: {population: 8, interval: 100, rounds: 50, resample: %s}}}\n";

static void read_pbt(struct study *s, const char *resample)
{
    char text[512];

    (void)snprintf(text, sizeof(text), pbt, resample);
    read_study(s, text);
}

START_TEST(the_worst_become_forks_of_the_best_unless_those_are_not_better)
{
    static const double bad = (double)NAN;
    const double distinct[] = {5, 1, 7, 2, 8, 3, 4, 6}, one[] = {3, 1, 3, 3, 3, 3, 3, 3};
    const double failed[] = {bad, 1, bad, bad, 4, 4, 2, 2};
    const double none[] = {bad, bad, bad, bad, bad, bad, bad, bad};
    int chosen[8] = {0};
    size_t from[8];
    struct study s;

    read_pbt(&s, "0.25"); /* two of eight are replaced */
    for (size_t round = 0; round < 50; round++) {
        population_choose(&s, round, distinct, from);
        for (size_t i = 0; i < 8; i++) {
            const int is_worst = i == 1 || i == 3;

            ck_assert(is_worst ? from[i] == 2 || from[i] == 4 : from[i] == i);
            chosen[from[i]] += is_worst;
        }
        population_choose(&s, round, one, from); /* 7 is equal to the best */
        for (size_t i = 0; i < 8; i++)
            ck_assert(i == 1 ? from[i] == 0 || from[i] == 2 : from[i] == i);
        population_choose(&s, round, failed, from);
        for (size_t i = 0; i < 8; i++)
            ck_assert(isnan(failed[i]) ? from[i] == 4 || from[i] == 5 : from[i] == i);
        population_choose(&s, round, none, from);
        for (size_t i = 0; i < 8; i++)
            ck_assert_uint_eq(from[i], i);
    }
    ck_assert(chosen[2] > 30 && chosen[4] > 30);
    s.is_max = 0;
    population_choose(&s, 0, distinct, from);
    ck_assert((from[2] == 1 || from[2] == 3) && (from[4] == 1 || from[4] == 3));
    population_choose(&s, 0, failed, from);
    ck_assert(from[0] == 1 || from[0] == 6); /* the first of equal values */
    study_done(&s);
}
END_TEST

START_TEST(a_fork_changes_each_setting_within_its_range)
{
    struct arena arena = ARENA_ZERO;
    int up = 0, moved[4] = {0};
    struct study s;

    read_pbt(&s, "0");
    for (size_t round = 0; round < 50; round++) {
        for (size_t i = 0; i < 8; i++) {
            const char *l = population_explore(&s, round, i, 0, "0.01", &arena);
            const char *n = population_explore(&s, round, i, 1, "1", &arena);
            const char *c = population_explore(&s, round, i, 2, "y", &arena);

            ck_assert(strcmp(l, "0.008") == 0 || strcmp(l, "0.0125") == 0);
            ck_assert_str_eq(population_explore(&s, round, i, 0, "0.01", &arena), l);
            up += strcmp(l, "0.0125") == 0;
            /* 1.25 is rounded to 1, and could never grow */
            ck_assert(strcmp(n, "1") == 0 || strcmp(n, "2") == 0);
            moved[0] += strcmp(n, "2") == 0;
            ck_assert(strcmp(c, "x") == 0 || strcmp(c, "z") == 0);
            moved[1] += strcmp(c, "z") == 0;
            l = population_explore(&s, round, i, 0, "0.9", &arena);
            ck_assert(strcmp(l, "0.72") == 0 || strcmp(l, "1") == 0);
        }
    }
    ck_assert(up > 150 && up < 250 && moved[0] > 150 && moved[0] < 250);
    ck_assert(moved[1] > 150 && moved[1] < 250);
    study_done(&s);
    read_pbt(&s, "1");
    for (size_t i = 0; i < 400; i++) {
        const char *l = population_explore(&s, i / 8, i % 8, 0, "0.01", &arena);

        ck_assert(strtod(l, NULL) >= 0.001 && strtod(l, NULL) <= 1);
        moved[2] += strtod(l, NULL) > 0.0316; /* half of the range of logarithms */
    }
    ck_assert(moved[2] > 150 && moved[2] < 250);
    study_done(&s);
    arena_done(&arena);
}
END_TEST

START_TEST(the_lineage_follows_from_the_file_of_values)
{
    const double first[] = {5, 1, 7, 2, 8, 3, (double)NAN, 6.25};
    const double second[] = {1, 2, 3, 4, 5, 6, 7, 8};
    /* the worst: 2 and 7 in the first round, 1 and 2 in the second */
    const size_t births[] = {2, 2, 0, 0, 0, 0, 1, 0};
    struct lineage l, again;
    struct err err = {0};
    char path[80];
    struct study s;

    read_pbt(&s, "0.25");
    ck_assert_int_eq(lineage_read(&l, &s, dir, &err), 0);
    ck_assert_uint_eq(l.n, 0);
    ck_assert_int_eq(lineage_add(&l, dir, first, &err), 0);
    ck_assert_int_eq(lineage_add(&l, dir, second, &err), 0);
    ck_assert_int_eq(lineage_read(&again, &s, dir, &err), 0);
    ck_assert_uint_eq(again.n, 2);
    ck_assert(isnan(lineage_value(&again, 0, 6)) && lineage_value(&again, 0, 7) == 6.25);
    for (size_t i = 0; i < 8; i++) {
        for (size_t r = 0; r < 2; r++)
            ck_assert_uint_eq(lineage_from(&l, r, i), lineage_from(&again, r, i));
        for (size_t k = 0; k < 3; k++)
            ck_assert_str_eq(lineage_settings(&l, 2, i)[k],
                             lineage_settings(&again, 2, i)[k]);
    }
    for (size_t i = 0; i < 8; i++)
        ck_assert_uint_eq(lineage_birth(&l, 2, i), births[i]);
    ck_assert_uint_eq(lineage_birth(&l, 1, 1), 1);
    lineage_done(&again);
    lineage_done(&l);
    (void)snprintf(path, sizeof(path), "%s/rounds.csv", dir);
    put(path, "round,env_steps\n1,100,5,1,7,2,8,3,,6\n2,100,1,2,3,4,5,6,7,8\n");
    ck_assert_int_eq(lineage_read(&l, &s, dir, &err), ERR_FORMAT);
    ck_assert_msg(strstr(err.msg, "rounds.csv:3: expected round 2 with the values of 8 "
                                  "members") != NULL,
                  "%s", err.msg);
    put(path, "round,env_steps\n1,100,5,1,7,2,8,3,,6,9\n");
    ck_assert_int_eq(lineage_read(&l, &s, dir, &err), ERR_FORMAT);
    (void)unlink(path);
    study_done(&s);
}
END_TEST

/* Sets the limit so that n more files can be opened; returns the limit that was. */
static rlim_t allow_files(unsigned n)
{
    const int next = dup(STDERR_FILENO);
    struct rlimit limit;
    rlim_t was;

    ck_assert_int_ge(next, 0);
    ck_assert_int_eq(close(next), 0);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    was = limit.rlim_cur;
    limit.rlim_cur = (rlim_t)next + n;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return was;
}

static void put_limit(rlim_t was)
{
    struct rlimit limit;

    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = was;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* A sweep that goes on writes the whole file: it would forget what it has not read. */
START_TEST(files_that_cannot_be_opened_are_not_taken_for_missing_ones)
{
    const double values[] = {5, 1, 7, 2, 8, 3, 4, 6};
    const struct rung_value passed = {
        .env_steps = 100, .trial = 1, .seed = 1, .value = 2};
    struct rungs rungs = {0};
    struct err err = {0};
    struct lineage l;
    char path[80];
    struct study s;
    int n_failed = 0;

    read_pbt(&s, "0.25");
    ck_assert_int_eq(lineage_read(&l, &s, dir, &err), 0);
    ck_assert_int_eq(lineage_add(&l, dir, values, &err), 0);
    lineage_done(&l);
    rungs_add(&rungs, &passed);
    ck_assert_int_eq(rungs_write(&rungs, dir, &err), 0);
    rungs_done(&rungs);
    for (unsigned n = 0; n < 6; n++) {
        const rlim_t was = allow_files(n);
        const int of_lineage = lineage_read(&l, &s, dir, &err);
        const int of_rungs = rungs_read(&rungs, dir, &err);

        put_limit(was);
        ck_assert_int_eq(of_lineage, of_lineage == 0 ? 0 : -EMFILE);
        ck_assert_int_eq(of_rungs, of_lineage);
        ck_assert_uint_eq(l.n, of_lineage == 0);
        ck_assert_uint_eq(rungs.n, of_rungs == 0);
        n_failed += of_lineage < 0;
        lineage_done(&l);
        rungs_done(&rungs);
    }
    ck_assert_int_gt(n_failed, 0);
    (void)snprintf(path, sizeof(path), "%s/rounds.csv", dir);
    ck_assert_int_eq(unlink(path), 0);
    (void)snprintf(path, sizeof(path), "%s/rungs.csv", dir);
    ck_assert_int_eq(unlink(path), 0);
    study_done(&s);
}
END_TEST

/* Makes a study of one run that has ended, with these rows; returns the value that it has for the
 * metric at that step (0: at its end). */
static double value_at_step(const char *rows, const char *metric, uint64_t until)
{
    static const char *const files[] = {"config.yaml", "metrics/progress.csv", "journal"};
    static const char *const folders[] = {"metrics", ""};
    const char *const texts[] = {
        "", rows,
        "2026-01-01T00:00:00.000Z step=0 event=start pid=1 keeper=1 build=x "
        "numerics=portable version=1\n"
        "2026-01-01T00:00:01.000Z step=64 event=end state=done code=0 pid=1 episodes=0 "
        "rounds=2 updates=0 restarts=0 seconds=1\n"};
    struct study_run run;
    struct study s;
    char path[96], text[128];
    double ret;

    (void)snprintf(path, sizeof(path), "%s/1-s1", dir);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof(path), "%s/1-s1/metrics", dir);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    for (int i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof(path), "%s/1-s1/%s", dir, files[i]);
        put(path, texts[i]);
    }
    (void)snprintf(text, sizeof(text),
                   "base: base.yaml\nsearch: {a: [1]}\nmetric: {%s}\n", metric);
    read_study(&s, text);
    study_run_look(&run, &s, dir, &(struct study_run_id){0}, until);
    ck_assert_int_eq(run.state, STUDY_RUN_REACHED);
    ret = run.value;
    study_run_done(&run);
    study_done(&s);
    for (int i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof(path), "%s/1-s1/%s", dir, files[i]);
        (void)unlink(path);
    }
    for (int i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof(path), "%s/1-s1/%s", dir, folders[i]);
        ck_assert_int_eq(rmdir(path), 0);
    }
    return ret;
}

static double value_of_run(const char *rows)
{
    return value_at_step(rows, "column: x, last: 2", 0);
}

START_TEST(a_value_that_is_not_finite_is_none)
{
    ck_assert(value_of_run("env_steps,x\n32,1\n64,2\n") == 1.5);
    ck_assert(isnan(value_of_run("env_steps,x\n32,1\n64,inf\n")));
    ck_assert(isnan(value_of_run("env_steps,x\n32,-inf\n64,2\n")));
    ck_assert(isnan(value_of_run("env_steps,x\n32,\n64,\n")));
    ck_assert(value_of_run("env_steps,x\n16,inf\n32,1\n64,2\n") == 1.5);
}
END_TEST

/* 4,000 rows, in 200 KiB: x is known in the first 10, y in every 100th, the first evaluations' column
 * only in the first 10, the second in all. first_row: instead of that of the first row. */
static char *long_rows(const char *first_row)
{
    static const char head[] = "env_steps,rollout/team_return/a,eval/team_return/a,"
                               "eval/team_return/b,x,y\n";
    struct wbuf b = {0};
    char line[128];

    wbuf_bytes(&b, head, strlen(head));
    wbuf_bytes(&b, first_row, strlen(first_row));
    for (int i = *first_row != '\0'; i < 4000; i++) {
        (void)snprintf(line, sizeof(line),
                       i < 10          ? "%1$d,%2$.30f,5,%1$d,%1$d,\n"
                       : i % 100 == 99 ? "%1$d,%2$.30f,,%1$d,,%1$d\n"
                                       : "%1$d,%2$.30f,,%1$d,,\n",
                       i + 1, 0.5);
        wbuf_bytes(&b, line, strlen(line));
    }
    wbuf_u8(&b, '\0');
    return (char *)b.data;
}

START_TEST(a_value_is_that_of_all_rows_where_the_newest_ones_are_not_enough)
{
    char *rows = long_rows(""), *damaged = long_rows("no number,1,1,1,1,1\n");

    ck_assert(value_at_step(rows, "column: x, last: 2", 0) == 9.5);
    ck_assert(value_at_step(rows, "column: y, last: 2", 0) == 3950);
    ck_assert(value_at_step(rows, "column: y, last: 30", 0) == 2550);
    ck_assert(value_at_step(rows, "column: y, last: 1", 150) == 100);
    ck_assert(value_at_step(rows, "mode: max, last: 2", 0) == 5);
    ck_assert(value_at_step(rows, "column: eval/team_return/b, last: 2", 3990) == 3989.5);
    /* where they are, the others are not read */
    ck_assert(value_at_step(damaged, "column: y, last: 2", 0) == 3950);
    ck_assert(isnan(value_at_step(damaged, "column: x, last: 2", 0)));
    free(damaged);
    free(rows);
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
    tcase_add_test(tc, the_worst_become_forks_of_the_best_unless_those_are_not_better);
    tcase_add_test(tc, a_fork_changes_each_setting_within_its_range);
    tcase_add_test(tc, the_lineage_follows_from_the_file_of_values);
    tcase_add_test(tc, files_that_cannot_be_opened_are_not_taken_for_missing_ones);
    tcase_add_test(tc, a_value_that_is_not_finite_is_none);
    tcase_add_test(tc, a_value_is_that_of_all_rows_where_the_newest_ones_are_not_enough);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
