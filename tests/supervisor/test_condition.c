#include "supervisor/run/replay.h"
#include "tests/support/test_main.h"

#include <math.h>

static struct replay_condition parsed(const char *text)
{
    struct replay_condition c;
    struct err err = {0};

    ck_assert_msg(replay_condition_parse(&c, text, &err) == 0, "%s", err.msg);
    return c;
}

static int holds(const char *text, double value)
{
    const struct replay_condition c = parsed(text);

    return replay_condition_holds(&c, value);
}

START_TEST(test_relations)
{
    ck_assert(holds("x > 1", 2) && !holds("x > 1", 1) && !holds("x > 1", NAN));
    ck_assert(holds("x>=1", 1) && !holds("x>=1", 0.5));
    ck_assert(holds("x< -1e3", -2000) && !holds("x< -1e3", -1000));
    ck_assert(holds("x <= inf", INFINITY) && !holds("x < inf", INFINITY));
    ck_assert(holds("x is nonfinite", NAN) && holds("x is nonfinite", -INFINITY));
    ck_assert(!holds("x is nonfinite", 1e300));
    ck_assert_str_eq(parsed(" train/agent_0/critic_loss > 100 ").column,
                     "train/agent_0/critic_loss");
    ck_assert_str_eq(parsed("eval/return/agent_0 is nonfinite ").column,
                     "eval/return/agent_0");
}
END_TEST

START_TEST(test_what_is_no_condition)
{
    static const char *const texts[] = {"",        "x",           "> 1",
                                        "x >",     "x = 1",       "x == 1",
                                        "x => 1",  "x > one",     "x > 1 2",
                                        "x > nan", "x is finite", "x is nonfinite now",
                                        "x > 1x",  "is nonfinite"};
    struct replay_condition c;
    struct err err;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        ck_assert_msg(replay_condition_parse(&c, texts[i], &err) == ERR_ARG, "%s",
                      texts[i]);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("condition");
    TCase *tc = tcase_create("condition");

    tcase_add_test(tc, test_relations);
    tcase_add_test(tc, test_what_is_no_condition);
    suite_add_tcase(s, tc);
    return s;
}
TEST_MAIN(make_suite)
