#include "agent/algo/gae.h"
#include "tests/support/test_main.h"

#define G 0.5f /* discount */
#define L 0.5f /* lambda */

/* Two copies of five steps. Copy 0 is truncated after its second step, copy 1 terminated
 * after its third; the window ends in the middle of both last episodes. */
static const float reward[10] = {1, 2, 3, 4, 5, 1, 1, 8, 2, 2};
static const float terminated[10] = {0, 0, 0, 0, 0, 0, 0, 1, 0, 0};
static const float cut[10] = {0, 1, 0, 0, 1, 0, 0, 1, 0, 1};
static const float value[10] = {1, 1, 2, 2, 3, 4, 2, 1, 1, 3};
/* The value of the next row, except after a cut, where it is another number. */
static const float next_value[10] = {1, 6, 2, 3, 8, 2, 1, 99, 3, 4};

static struct gae_args window(void)
{
    return (struct gae_args){.copies = 2,
                             .steps = 5,
                             .reward = reward,
                             .terminated = terminated,
                             .cut = cut,
                             .value = value,
                             .next_value = next_value,
                             .discount = G};
}

/* By hand: d = reward + G next (0 if terminated) - value, A = d + G L A of the next row. */
START_TEST(test_advantages)
{
    static const float delta[10] = {0.5f, 4, 2, 3.5f, 6, -2, -0.5f, 7, 2.5f, 1};
    static const float want[10] = {0.5f + 4 / 4.0f,
                                   4,
                                   2 + (3.5f + 6 / 4.0f) / 4,
                                   3.5f + 6 / 4.0f,
                                   6,
                                   -2 + (-0.5f + 7 / 4.0f) / 4,
                                   -0.5f + 7 / 4.0f,
                                   7,
                                   2.5f + 1 / 4.0f,
                                   1};
    const struct gae_args a = window();
    float advantage[10], returns[10];

    gae_advantages(&a, L, advantage, returns);
    for (int i = 0; i < 10; i++) {
        ck_assert_float_eq(advantage[i], want[i]);
        ck_assert_float_eq(returns[i], want[i] + value[i]);
    }
    gae_advantages(&a, 0, advantage, returns);
    for (int i = 0; i < 10; i++)
        ck_assert_float_eq(advantage[i], delta[i]);
}
END_TEST

START_TEST(test_n_step)
{
    /* two steps, or one where the episode or the window ends first */
    static const float want[10] = {1 + 2 * G + 6 * G * G,
                                   2 + 6 * G,
                                   3 + 4 * G + 3 * G * G,
                                   4 + 5 * G + 8 * G * G,
                                   5 + 8 * G,
                                   1 + 1 * G + 1 * G * G,
                                   1 + 8 * G,
                                   8,
                                   2 + 2 * G + 4 * G * G,
                                   2 + 4 * G};
    const struct gae_args a = window();
    float advantage[10], returns[10];

    gae_n_step(&a, 2, advantage, returns);
    for (int i = 0; i < 10; i++) {
        ck_assert_float_eq(returns[i], want[i]);
        ck_assert_float_eq(advantage[i], want[i] - value[i]);
    }
}
END_TEST

/* With lambda 1 and n at least the number of steps, both are the sums of all rewards. */
START_TEST(test_whole_returns)
{
    const struct gae_args a = window();
    float advantage[10], returns[10], advantage_n[10], returns_n[10];

    gae_advantages(&a, 1, advantage, returns);
    gae_n_step(&a, 100, advantage_n, returns_n);
    for (int i = 0; i < 10; i++)
        ck_assert_float_eq_tol(returns[i], returns_n[i], 1e-5f);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("gae");
    TCase *tc = tcase_create("gae");

    tcase_add_test(tc, test_advantages);
    tcase_add_test(tc, test_n_step);
    tcase_add_test(tc, test_whole_returns);
    suite_add_tcase(suite, tc);
    return suite;
}

TEST_MAIN(make_suite)
