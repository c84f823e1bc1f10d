/* Targets against tables worked out by hand. */
#include "agent/algo/targets.h"
#include "tests/support/test_main.h"

#include <stddef.h>

enum { B = 4, L = 4, N = B * L };

/* The sequences: cut by a limit after step 1; over with step 1; all four steps; two
 * rows. */
static const float reward[N] = {1, 2, 4, 8, 1, 2, 4, 8, 1, 2, 4, 8, 1, 2, 99, 99};
static const float terminated[N] = {0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1};
static const float truncated[N] = {0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1};
static const float mask[N] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0};
static const float value[N] = {16, 32, 64, 128, 16, 32, 64, 128,
                               16, 32, 64, 128, 16, 32, 99, 99};

static struct target_rows rows(void)
{
    return (struct target_rows){.batch = B,
                                .length = L,
                                .reward = reward,
                                .terminated = terminated,
                                .truncated = truncated,
                                .mask = mask,
                                .value = value,
                                .discount = 0.5f};
}

static void check(const float *y, const float *want)
{
    for (int i = 0; i < N; i++)
        ck_assert_msg(y[i] == want[i], "row %d: %g, expected %g", i, (double)y[i],
                      (double)want[i]);
}

START_TEST(test_one_step)
{
    /* r + v / 2 */
    static const float want[N] = {9, 18, 36, 72, 9, 2,  36, 72,
                                  9, 18, 36, 72, 9, 18, 0,  0};
    const struct target_rows r = rows();
    float y[N];

    targets_n_step(&r, 1, y);
    check(y, want);
    targets_lambda(&r, 0, y);
    check(y, want);
}
END_TEST

START_TEST(test_n_step)
{
    /* row 0: 1 + 2/2 + 32/4, cut there; row 4: 1 + 2/2, over; row 8: 1 + 2/2 + 4/4 + 64/8 */
    static const float want[N] = {10, 18, 40, 72, 2,  2,  40, 72,
                                  11, 22, 40, 72, 10, 18, 0,  0};
    const struct target_rows r = rows();
    float y[N];

    targets_n_step(&r, 3, y);
    check(y, want);
}
END_TEST

START_TEST(test_lambda)
{
    /* r + (v + y(t+1)) / 4; at a cut or the end r + v / 2 */
    static const float want[N] = {1 + (16 + 18) / 4.0f,
                                  18,
                                  4 + (64 + 72) / 4.0f,
                                  72,
                                  1 + (16 + 2) / 4.0f,
                                  2,
                                  38,
                                  72,
                                  1 + (16 + 19.5f) / 4,
                                  2 + (32 + 38) / 4.0f,
                                  38,
                                  72,
                                  1 + (16 + 18) / 4.0f,
                                  18,
                                  0,
                                  0};
    const struct target_rows r = rows();
    float y[N];

    targets_lambda(&r, 0.5f, y);
    check(y, want);
}
END_TEST

/* lambda 1 sums all rewards, and so does n_step with this number of steps. */
START_TEST(test_all_steps)
{
    const struct target_rows r = rows();
    float y[N], want[N];

    targets_n_step(&r, L, want);
    targets_lambda(&r, 1, y);
    check(y, want);
}
END_TEST

START_TEST(test_without_masks_and_cuts)
{
    struct target_rows r = rows();
    float y[N];

    r.mask = r.truncated = NULL;
    targets_n_step(&r, 2, y);
    ck_assert_float_eq(y[1], 2 + 2 + 16);     /* continues with row 2 */
    ck_assert_float_eq(y[13], 2 + 99 / 2.0f); /* row 14 counts, and is the end */
}
END_TEST

/* By hand: d = r + v / 2 - V, or r - V where it is over; A = d + A(t+1) / 4. V of a row that goes on
 * is v of the one before. */
START_TEST(test_advantages)
{
    static const float V[N] = {16, 16, 32, 64, 16, 16, 32, 64,
                               16, 16, 32, 64, 16, 16, 99, 99};
    static const float want[N] = {-7 + 2 / 4.0f,
                                  2,
                                  4 + 8 / 4.0f,
                                  8,
                                  -7 - 14 / 4.0f,
                                  -14,
                                  4 + 8 / 4.0f,
                                  8,
                                  -7 + (2 + 6 / 4.0f) / 4,
                                  2 + 6 / 4.0f,
                                  4 + 8 / 4.0f,
                                  8,
                                  -7 + 2 / 4.0f,
                                  2,
                                  0,
                                  0};
    const struct target_rows r = rows();
    float advantage[N], returns[N];

    targets_advantages(&r, V, 0.5f, advantage, returns);
    check(advantage, want);
    for (int i = 0; i < N; i++)
        ck_assert(returns[i] == (mask[i] > 0 ? want[i] + V[i] : 0));
    targets_advantages(&r, V, 1, advantage, returns);
    targets_n_step(&r, L, advantage);
    check(returns, advantage); /* both are the sums of all rewards */
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("targets");
    TCase *tc = tcase_create("targets");

    tcase_add_test(tc, test_one_step);
    tcase_add_test(tc, test_n_step);
    tcase_add_test(tc, test_lambda);
    tcase_add_test(tc, test_all_steps);
    tcase_add_test(tc, test_without_masks_and_cuts);
    tcase_add_test(tc, test_advantages);
    suite_add_tcase(suite, tc);
    return suite;
}

TEST_MAIN(make_suite)
