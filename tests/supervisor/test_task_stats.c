/* Statistics over several tasks, by small cases that were computed by hand. */
#include "supervisor/metrics/task_stats.h"
#include "tests/support/test_main.h"

#include <math.h>

static double tau[TASK_TAUS]; /* 0, 0.01, ..., 1 */

static void setup(void)
{
    for (size_t k = 0; k < TASK_TAUS; k++)
        tau[k] = (double)k / (TASK_TAUS - 1);
}

static struct task_stats stats_of(const char *name, size_t tasks, size_t runs,
                                  const double *score)
{
    const struct task_scores s = {name, tasks, runs, score};
    struct task_stats ret;

    task_stats_of(&ret, &s, tau);
    return ret;
}

START_TEST(aggregates)
{
    static const double score[] = {0.5, 0.25, 0, 0.25, 1.5, 1, 2, 0.5, 0, 0, 1, 0.75};
    const struct task_stats s = stats_of("a", 3, 4, score);

    /* of 0 0 0 .25 .25 .5 .5 .75 1 1 1.5 2 the middle half is .25 ... 1 */
    ck_assert_double_eq_tol(s.stat[TASK_IQM].value, 3.25 / 6, 1e-15);
    ck_assert_double_eq(s.stat[TASK_MEDIAN].value, 0.4375); /* .25, .4375, 1.25 */
    ck_assert_double_eq_tol(s.stat[TASK_MEAN].value, 1.9375 / 3, 1e-15);
    /* what exceeds 1 makes up for nothing */
    ck_assert_double_eq_tol(s.stat[TASK_GAP].value, (12 - 6.25) / 12, 1e-15);
    ck_assert_double_eq_tol(s.profile[0].value, 9.0 / 12, 1e-15); /* greater, not equal */
    ck_assert_double_eq_tol(s.profile[50].value, 5.0 / 12, 1e-15);
    ck_assert_double_eq_tol(s.profile[100].value, 2.0 / 12, 1e-15);
    for (size_t k = 0; k < TASK_STATS; k++)
        ck_assert(s.stat[k].low < s.stat[k].value && s.stat[k].value < s.stat[k].high);
}
END_TEST

START_TEST(median_of_two_tasks_is_their_mean)
{
    static const double score[] = {0.25, 0.25, 1, 0.5};

    ck_assert_double_eq(stats_of("a", 2, 2, score).stat[TASK_MEDIAN].value, 0.5);
}
END_TEST

/* Equal runs in each task leave nothing to chance, however different the tasks are. */
START_TEST(resamples_keep_to_their_tasks)
{
    static const double score[] = {0, 0, 0, 0.5, 0.5, 0.5, 1, 1, 1};
    const struct task_stats s = stats_of("a", 3, 3, score);

    for (size_t k = 0; k < TASK_STATS; k++)
        ck_assert(s.stat[k].low == s.stat[k].value && s.stat[k].high == s.stat[k].value);
    for (size_t k = 0; k < TASK_TAUS; k++)
        ck_assert(s.profile[k].low == s.profile[k].value &&
                  s.profile[k].high == s.profile[k].value);
}
END_TEST

START_TEST(one_run_has_no_interval)
{
    static const double score[] = {0.25, 0.75};
    const struct task_scores one = {"a", 2, 1, score}, other = {"b", 2, 1, score};
    const struct task_stats s = stats_of("a", 2, 1, score);
    const struct estimate e = task_improvement(&one, &other);

    ck_assert_double_eq(s.stat[TASK_MEAN].value, 0.5);
    ck_assert(isnan(s.stat[TASK_MEAN].low) && isnan(s.profile[10].high));
    ck_assert(e.value == 0.5 && isnan(e.low) && isnan(e.high));
}
END_TEST

START_TEST(intervals_depend_on_the_name_alone)
{
    static const double score[] = {0.1, 0.7, 0.4, 0.9, 0.35, 0.6, 0.2, 0.8};
    const struct task_stats a = stats_of("a", 2, 4, score),
                            again = stats_of("a", 2, 4, score),
                            b = stats_of("b", 2, 4, score);

    for (size_t k = 0; k < TASK_STATS; k++)
        ck_assert(a.stat[k].low == again.stat[k].low &&
                  a.stat[k].high == again.stat[k].high);
    ck_assert(a.stat[TASK_MEAN].low != b.stat[TASK_MEAN].low);
}
END_TEST

START_TEST(improvement_counts_pairs_of_a_task)
{
    static const double x[] = {1, 2, 3, 3}, y[] = {0, 2, 5, 3, 4, 3};
    const struct task_scores a = {"a", 2, 2, x}, b = {"b", 2, 3, y};
    const struct estimate e = task_improvement(&a, &b), back = task_improvement(&b, &a);

    /* of six pairs each: 1 > 0, 2 > 0, 2 = 2; and 3 = 3 four times */
    ck_assert_double_eq_tol(e.value, (2.5 + 2) / 12, 1e-15);
    ck_assert_double_eq_tol(back.value, 1 - e.value, 1e-15);
    ck_assert(e.low < e.value && e.value < e.high);
    ck_assert_double_eq_tol(back.low, 1 - e.high, 1e-15);
    ck_assert_double_eq_tol(back.high, 1 - e.low, 1e-15);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("task_stats");
    TCase *tc = tcase_create("task_stats");

    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, aggregates);
    tcase_add_test(tc, median_of_two_tasks_is_their_mean);
    tcase_add_test(tc, resamples_keep_to_their_tasks);
    tcase_add_test(tc, one_run_has_no_interval);
    tcase_add_test(tc, intervals_depend_on_the_name_alone);
    tcase_add_test(tc, improvement_counts_pairs_of_a_task);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
