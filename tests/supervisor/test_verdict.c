#include "common/config/schema.h"
#include "supervisor/rollout/verdict.h"
#include "tests/support/test_main.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct stop_when_config above(double limit, int64_t evaluations)
{
    return (struct stop_when_config){.metric = "eval/x",
                                     .above = limit,
                                     .below = (double)NAN,
                                     .evaluations = evaluations};
}

static struct stop_when_config without_best(int64_t evaluations, int is_min)
{
    return (struct stop_when_config){.metric = "eval/x",
                                     .above = (double)NAN,
                                     .below = (double)NAN,
                                     .evaluations = 1,
                                     .without_best = evaluations,
                                     .is_min = is_min};
}

/* The number of values after which the run ends; 0: it goes on. */
static size_t end_of(const struct stop_when_config *rule, const double *values, size_t n)
{
    struct verdict v = {0};

    ck_assert(!verdict_ends(&v, rule));
    for (size_t i = 0; i < n; i++) {
        verdict_take(&v, rule, values[i], 100 * (i + 1));
        if (verdict_ends(&v, rule))
            return i + 1;
    }
    return 0;
}

#define END_OF(rule, ...)                                                                \
    end_of(&(rule), (const double[]){__VA_ARGS__},                                       \
           sizeof((const double[]){__VA_ARGS__}) / sizeof(double))

START_TEST(a_limit_is_passed_so_often_in_a_row)
{
    struct stop_when_config once = above(475, 1), thrice = above(475, 3), below = once;

    ck_assert_uint_eq(END_OF(once, 475, 474, 475.5), 3);
    ck_assert_uint_eq(END_OF(thrice, 476, 477, 475, 480, 480, 480, 480), 6);
    ck_assert_uint_eq(END_OF(thrice, 476, 477), 0);
    /* what has no value is not beyond the limit */
    ck_assert_uint_eq(END_OF(thrice, 476, 477, (double)NAN, 480, 480), 0);
    ck_assert_uint_eq(END_OF(once, (double)INFINITY), 1);
    below.above = (double)NAN;
    below.below = -3;
    ck_assert_uint_eq(END_OF(below, -3, 5, (double)NAN, -3.5), 4);
}
END_TEST

START_TEST(no_new_best_so_often_in_a_row)
{
    struct stop_when_config highest = without_best(2, 0), lowest = without_best(2, 1);

    ck_assert_uint_eq(END_OF(highest, 1, 2, 3, 2, 4, 4, 4, 5), 7);
    ck_assert_uint_eq(END_OF(lowest, 1, 2, 0, 0, -1, 7, -1), 7);
    ck_assert_uint_eq(END_OF(highest, 1, (double)NAN, 2, 3), 0);
    ck_assert_uint_eq(END_OF(highest, (double)NAN, (double)NAN), 2);
    ck_assert_uint_eq(END_OF(highest, (double)-INFINITY, -5, (double)INFINITY), 0);
}
END_TEST

START_TEST(of_equal_values_the_earlier_is_the_best)
{
    struct best_value b = {0};

    ck_assert(!best_value_take(&b, 0, (double)NAN, 1));
    ck_assert(!b.is_known);
    ck_assert(best_value_take(&b, 0, -2, 2));
    ck_assert(!best_value_take(&b, 0, -2, 3));
    ck_assert(!best_value_take(&b, 0, -3, 4));
    ck_assert_uint_eq(b.step, 2);
    ck_assert(best_value_take(&b, 1, -3, 5));
    ck_assert(!best_value_take(&b, 1, (double)NAN, 6));
    ck_assert_uint_eq(b.step, 5);
    ck_assert_double_eq(b.value, -3);
}
END_TEST

static void expect_words(struct stop_when_config rule, const char *want)
{
    char *text = stop_when_text(&rule);

    ck_assert_str_eq(text, want);
    free(text);
}

START_TEST(words)
{
    struct stop_when_config below = above(0, 1);

    below.below = -0.1;
    below.above = (double)NAN;
    expect_words(above(475, 3), "eval/x above 475 for 3 evaluations");
    expect_words(below, "eval/x below -0.1");
    expect_words(without_best(20, 0),
                 "eval/x without a new highest value for 20 evaluations");
    expect_words(without_best(1, 1),
                 "eval/x without a new lowest value for 1 evaluation");
}
END_TEST

START_TEST(the_state_is_loaded_by_the_same_rule_alone)
{
    struct run_config c = {.run = {.has_stop_when = 1, .stop_when = without_best(5, 0)}};
    struct verdict v = {0}, is;
    struct wbuf b = {0};
    struct err err;

    verdict_save(&v, &(struct run_config){0}, &b);
    ck_assert_uint_eq(b.len, 0);
    verdict_take(&v, &c.run.stop_when, -1.5, 100);
    verdict_take(&v, &c.run.stop_when, -2.5, 200);
    verdict_save(&v, &c, &b);
    ck_assert_int_eq(verdict_load(&is, &c, b.data, b.len, &err), 0);
    ck_assert_uint_eq(is.in_a_row, 1);
    ck_assert_uint_eq(is.best.step, 100);
    ck_assert_double_eq(is.best.value, -1.5);

    c.run.stop_when.without_best = 6;
    ck_assert_int_eq(verdict_load(&is, &c, b.data, b.len, &err), 0);
    ck_assert(is.in_a_row == 0 && !is.best.is_known);
    c.run.has_stop_when = 0;
    ck_assert_int_eq(verdict_load(&is, &c, b.data, b.len, &err), 0);
    ck_assert(is.in_a_row == 0 && !is.best.is_known);

    for (size_t len = 0; len < b.len; len++) {
        uint8_t *cut = malloc(len + 1);

        memcpy(cut, b.data, len);
        ck_assert_int_eq(verdict_load(&is, &c, cut, len, &err), ERR_FORMAT);
        free(cut);
    }
    wbuf_u8(&b, 0);
    ck_assert_int_eq(verdict_load(&is, &c, b.data, b.len, &err), ERR_FORMAT);
    wbuf_done(&b);
}
END_TEST

START_TEST(the_kept_one_is_known_to_whoever_reads_it)
{
    struct run_config c = {
        .checkpoint = {.has_keep_best = 1, .keep_best = {.metric = "eval/x"}}};
    struct verdict v = {0}, is;
    struct best_value kept;
    struct wbuf b = {0};
    struct err err;

    verdict_save(&v, &c, &b);
    ck_assert_int_eq(verdict_load_kept(&kept, b.data, b.len, &err), 1);
    ck_assert(!kept.is_known && kept.step == 0);
    wbuf_clear(&b);
    best_value_take(&v.kept, 0, 7, 300);
    verdict_save(&v, &c, &b);
    ck_assert_int_eq(verdict_load_kept(&kept, b.data, b.len, &err), 1);
    ck_assert(kept.is_known && kept.step == 300 && kept.value == 7);
    ck_assert_int_eq(verdict_load(&is, &c, b.data, b.len, &err), 0);
    ck_assert(is.kept.step == 300 && is.in_a_row == 0);
    /* the lowest one is another */
    c.checkpoint.keep_best.is_min = 1;
    ck_assert_int_eq(verdict_load(&is, &c, b.data, b.len, &err), 0);
    ck_assert(!is.kept.is_known);
    wbuf_clear(&b);
    c = (struct run_config){.run = {.has_stop_when = 1, .stop_when = above(1, 1)}};
    verdict_save(&v, &c, &b);
    ck_assert_int_eq(verdict_load_kept(&kept, b.data, b.len, &err), 0);
    ck_assert_int_eq(verdict_load_kept(&kept, b.data, b.len - 1, &err), ERR_FORMAT);
    wbuf_done(&b);
}
END_TEST

/* Whether the checkpoint of that step is the one that is kept; 0: none is. */
static int keeps(const struct verdict *v, uint64_t step)
{
    return v->kept.is_known == (step > 0) && v->kept.step == step;
}

START_TEST(a_checkpoint_that_cannot_be_written_is_not_the_kept_one)
{
    struct run_config c = {
        .checkpoint = {.has_keep_best = 1, .keep_best = {.metric = "eval/x"}}};
    const struct keep_best_config *rule = &c.checkpoint.keep_best;
    struct verdict v = {0}, resumed;
    struct wbuf b = {0};
    struct err err;

    ck_assert(verdict_keep(&v, rule, 1, 100));
    verdict_keep_failed(&v, 100);
    ck_assert(keeps(&v, 0));
    ck_assert(verdict_keep(&v, rule, 1, 200));
    /* while that of step 300 is written, there is a worse evaluation */
    ck_assert(verdict_keep(&v, rule, 2, 300));
    ck_assert(!verdict_keep(&v, rule, 0, 400));
    verdict_keep_failed(&v, 300);
    ck_assert(keeps(&v, 200));
    verdict_keep_failed(&v, 400);
    ck_assert(keeps(&v, 200));
    /* a better one, and that is not written either */
    ck_assert(verdict_keep(&v, rule, 3, 500));
    ck_assert(verdict_keep(&v, rule, 4, 600));
    verdict_keep_failed(&v, 500);
    ck_assert(keeps(&v, 600));
    verdict_keep_failed(&v, 600);
    ck_assert(keeps(&v, 0));
    /* a run that was resumed from it writes it again; the one from which it began is there */
    ck_assert(verdict_keep(&v, rule, 5, 700));
    verdict_save(&v, &c, &b);
    ck_assert_int_eq(verdict_load(&resumed, &c, b.data, b.len, &err), 0);
    verdict_keep_failed(&resumed, 700);
    ck_assert(keeps(&resumed, 700));
    wbuf_done(&b);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("verdict");
    TCase *tc = tcase_create("verdict");

    tcase_add_test(tc, a_limit_is_passed_so_often_in_a_row);
    tcase_add_test(tc, no_new_best_so_often_in_a_row);
    tcase_add_test(tc, of_equal_values_the_earlier_is_the_best);
    tcase_add_test(tc, the_kept_one_is_known_to_whoever_reads_it);
    tcase_add_test(tc, a_checkpoint_that_cannot_be_written_is_not_the_kept_one);
    tcase_add_test(tc, words);
    tcase_add_test(tc, the_state_is_loaded_by_the_same_rule_alone);
    suite_add_tcase(s, tc);
    return s;
}
TEST_MAIN(make_suite)
