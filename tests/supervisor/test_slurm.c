/* Output of Slurm's programs that is parsed, and the arguments of their calls. */
#include "common/config/yaml_tree.h"
#include "supervisor/node/slurm.h"
#include "tests/support/test_main.h"

#include <stdlib.h>
#include <string.h>

START_TEST(ids_are_found_by_the_whole_name)
{
    char ids[64];

    ck_assert_uint_eq(slurm_find_ids("", "a", ids, sizeof(ids)), 0);
    ck_assert_str_eq(ids, "");
    ck_assert_uint_eq(slurm_find_ids("12 a\n13 ab\n14 b\n15.0 a  \nsqueue: error: a\n"
                                     " a\n16.batch a\n17_3 a",
                                     "a", ids, sizeof(ids)),
                      3);
    ck_assert_str_eq(ids, "12 15.0 17_3 ");
    ck_assert_uint_eq(slurm_find_ids("12 a\n13 a\n", "a", ids, 6), 1); /* what fits */
    ck_assert_str_eq(ids, "12 ");
}
END_TEST

START_TEST(a_job_that_waits_is_known_by_its_messages)
{
    ck_assert_int_eq(slurm_says_waiting(""), 0);
    ck_assert_int_eq(slurm_says_waiting("srun: job 3 queued and waiting for resources"),
                     1);
    ck_assert_int_eq(slurm_says_waiting("srun: job 3 queued and waiting for resources | "
                                        "srun: job 3 has been allocated resources"),
                     0);
}
END_TEST

START_TEST(names_have_no_comma)
{
    const uint8_t id[CHANNEL_ID_BYTES] = {0xab, 1, 2, 3, 4, 5, 6};
    char name[SLURM_NAME_BYTES], run[400];

    slurm_make_name(name, "spread", 2, id);
    ck_assert_str_eq(name, "brood-spread-2-ab0102030405");
    slurm_make_name(name, "a,b c", 0, id);
    ck_assert_str_eq(name, "brood-a_b_c-0-ab0102030405");
    memset(run, 'x', sizeof(run));
    run[sizeof(run) - 1] = '\0';
    slurm_make_name(name, run, 1023, id);
    ck_assert_str_eq(name + strlen(name) - strlen("x-1023-ab0102030405"),
                     "x-1023-ab0102030405");
}
END_TEST

static void expect_words(struct cluster_config *config, const char *expected)
{
    struct arena arena = ARENA_ZERO;
    struct words w = {.arena = &arena};
    char text[1024] = "";

    slurm_add_words(&w, config, 1, "brood-x-1-0");
    for (size_t i = 0; i < w.n; i++) {
        ck_assert_uint_lt(strlen(text) + strlen(w.list[i]) + 2, sizeof(text));
        (void)strcat(strcat(text, w.list[i]), " ");
    }
    ck_assert_str_eq(text, expected);
    arena_done(&arena);
}

/* Outside of a job each node is a job; inside, it is a step on its own machine. */
START_TEST(steps_name_their_job_and_machine)
{
    struct cluster_config config = {.launcher = LAUNCHER_SLURM};
    struct yaml_node word = {.text = "--partition=all"}, *words[] = {&word};
    const struct yaml_node options = {.child = words, .n = 1};
    struct err err = {0};

    config.options = &options;
    ck_assert_int_eq(unsetenv("SLURM_JOB_ID"), 0);
    ck_assert_ptr_null(slurm_job());
    ck_assert_uint_eq(slurm_nodes(&config), 1);
    expect_words(&config, "srun --unbuffered --propagate=NONE --partition=all --nodes=1 "
                          "--ntasks=1 --job-name=brood-x-1-0 ");
    ck_assert_int_eq(setenv("SLURM_JOB_ID", "77", 1), 0);
    ck_assert_int_eq(setenv("SLURM_JOB_NUM_NODES", "3", 1), 0);
    ck_assert_uint_eq(slurm_nodes(&config), 3);
    expect_words(&config,
                 "srun --unbuffered --propagate=NONE --partition=all --nodes=1 "
                 "--ntasks=1 --job-name=brood-x-1-0 --jobid=77 --relative=1 --overlap ");
    config.nodes = 2;
    ck_assert_uint_eq(slurm_nodes(&config), 2);
    ck_assert_int_eq(setenv("PATH", "/nowhere", 1), 0);
    ck_assert_int_eq(slurm_check(&config, &err), ERR_CONFIG);
    ck_assert_ptr_nonnull(strstr(err.msg, "needs the program srun"));
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("slurm");
    TCase *t = tcase_create("slurm");

    tcase_add_test(t, ids_are_found_by_the_whole_name);
    tcase_add_test(t, a_job_that_waits_is_known_by_its_messages);
    tcase_add_test(t, names_have_no_comma);
    tcase_add_test(t, steps_name_their_job_and_machine);
    suite_add_tcase(s, t);
    return s;
}
TEST_MAIN(make_suite)
