/* In what two runs differ: their variables, their settings. */
#include "common/mem/xmalloc.h"
#include "supervisor/diff/setting_parts.h"
#include "supervisor/diff/values.h"
#include "tests/support/test_main.h"

#include <math.h>
#include <string.h>

/* ---- variables ---- */

static struct block_variable variables[] = {
    {.name = (char[]){"a/hyperparameters/rate"}, .dtype = DT_FLOAT, .offset = 0},
    {.name = (char[]){"a/step"}, .dtype = DT_INT64, .offset = 8},
    {.name = (char[]){"a/w"},
     .dtype = DT_FLOAT,
     .shape = {.rank = 1, .dim = {3}},
     .offset = 16},
};
static const struct block_table table = {.n = 3, .variables = variables};

struct block {
    float rate, unused;
    int64_t step;
    float w[3];
};

START_TEST(test_values)
{
    const struct block here = {.rate = 1, .step = 7, .w = {1, 2, 3}};
    struct block there = here;
    struct values_part part;

    there.rate = 2;
    there.unused = 3;
    ck_assert_int_eq(values_compare(&part, &table, &here, &there), 0);
    ck_assert_uint_eq(values_sum(&table, &here), values_sum(&table, &there));
    there.w[1] = 2.5f;
    there.w[2] = -1;
    ck_assert_int_eq(values_compare(&part, &table, &here, &there), 1);
    ck_assert_uint_ne(values_sum(&table, &here), values_sum(&table, &there));
    ck_assert(part.variable == 2 && part.n == 1 && part.element == 1);
    ck_assert(part.here == 2 && part.there == 2.5 && part.largest == 4);
    there.step = 8;
    ck_assert_int_eq(values_compare(&part, &table, &here, &there), 1);
    ck_assert(part.variable == 1 && part.n == 2 && part.here == 7 && part.largest == 1);
    there = here;
    there.w[0] = NAN;
    ck_assert_int_eq(values_compare(&part, &table, &here, &there), 1);
    ck_assert(part.here == 1 && isnan(part.there) && isnan(part.largest));
}
END_TEST

/* ---- settings ---- */

static struct err err;

static struct settings_course course_of(const char *run, const char *const *changes,
                                        const uint64_t *steps, size_t n)
{
    char *text = xasprintf("run: {%s}\nenv: {id: simple_spread}\n", run);
    const struct config_options options = {0};
    struct settings_course c = {0};

    ck_assert_msg(run_config_parse(&c.config, text, strlen(text), "x", &options, &err) ==
                      0,
                  "%s", err.msg);
    free(text);
    for (size_t i = 0; i < n; i++) {
        struct config_setting set;

        ck_assert_msg(config_setting_parse(&set, &c.config, changes[i], &err) == 0, "%s",
                      err.msg);
        change_plan_add(&c.plan, steps[i], &set);
        free(set.path);
    }
    return c;
}

static void check_part(const struct setting_parts *p, size_t i, const char *key,
                       const char *here, const char *there, uint64_t from)
{
    ck_assert_uint_gt(p->n, i);
    ck_assert_str_eq(p->list[i].key, key);
    ck_assert_str_eq(p->list[i].here, here);
    ck_assert_str_eq(p->list[i].there, there);
    ck_assert_uint_eq(p->list[i].from, from);
}

START_TEST(test_settings)
{
    static const char *const changes[] = {"defaults.discount=0.9", "defaults.polyak=0.5",
                                          "run.env_steps=2000", "defaults.polyak=0.7"};
    struct settings_course a = course_of("name: a, seed: 1, env_steps: 1000", changes,
                                         (const uint64_t[]){100, 300, 400, 500}, 4),
                           b = course_of("name: b, seed: 2, env_steps: 2000", changes,
                                         (const uint64_t[]){100, 340}, 2);
    struct setting_parts p = {0};

    setting_parts_find(&p, &a, &b, 1000);
    ck_assert_uint_eq(p.n, 2);
    check_part(&p, 0, "run.seed", "1", "2", 0);
    check_part(&p, 1, "defaults.polyak", "0.5", "0.01", 300);
    ck_assert_uint_eq(setting_parts_newest(&p, 299), 0);
    ck_assert_uint_eq(setting_parts_newest(&p, 300), 300);
    setting_parts_done(&p);

    setting_parts_find(&p, &b, &a, 300); /* what comes later is not looked at */
    ck_assert_uint_eq(p.n, 1);
    setting_parts_done(&p);

    b.begin = 320;
    setting_parts_find(&p, &a, &b, 1000);
    check_part(&p, 1, "defaults.polyak", "0.5", "0.01", 320);
    setting_parts_done(&p);
    settings_course_done(&a);
    a = course_of("name: a, seed: 2, env_steps: 1000", NULL, NULL, 0);
    setting_parts_find(&p, &b, &a, 1000);
    check_part(&p, p.n - 1, "run.env_steps", "2000", "1000", 320);
    ck_assert_uint_eq(setting_parts_newest(&p, 50), UINT64_MAX);
    setting_parts_done(&p);
    settings_course_done(&a);
    settings_course_done(&b);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("diff");
    TCase *tc = tcase_create("diff");

    tcase_add_test(tc, test_values);
    tcase_add_test(tc, test_settings);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
