#include "common/rng/rng.h"
#include "supervisor/env/assignment.h"
#include "tests/support/test_main.h"

#include <math.h>

enum { MOST = 6, ROUNDS = 200 };

/* The least cost of all assignments of workers `from` .. n-1 to the jobs that are not
 * taken. */
static double least(const double *cost, size_t n, size_t from, unsigned taken)
{
    double best = from == n ? 0.0 : (double)INFINITY;

    for (size_t j = 0; from < n && j < n; j++)
        if ((taken & 1u << j) == 0)
            best = fmin(best,
                        cost[from * n + j] + least(cost, n, from + 1, taken | 1u << j));
    return best;
}

/* n = _i + 1. In every second round costs are whole numbers, so that many assignments
 * have the same cost. */
START_TEST(test_least_of_all)
{
    const size_t n = (size_t)_i + 1;
    struct arena arena = ARENA_ZERO;
    struct assignment *a = assignment_new(n, &arena);
    double cost[MOST * MOST];

    for (uint64_t round = 0; round < ROUNDS; round++) {
        const size_t *job;
        double sum = 0.0;
        unsigned taken = 0;

        rng_uniform_f64(rng_key_make(1, "assignment", "cost"), round, 0, cost, n * n);
        for (size_t i = 0; round % 2 && i < n * n; i++)
            cost[i] = floor(4.0 * cost[i]);
        job = assignment_solve(a, cost);
        for (size_t i = 0; i < n; i++) {
            sum += cost[i * n + job[i]];
            taken |= 1u << job[i];
        }
        ck_assert_uint_eq(taken, (1u << n) - 1);
        ck_assert_double_eq_tol(sum, least(cost, n, 0, 0), 1e-14);
    }
    arena_done(&arena);
}
END_TEST

/* The choice of SciPy's linear_sum_assignment among assignments of the same cost. */
START_TEST(test_choice_among_equals)
{
    static const struct {
        double cost[16];
        size_t job[4];
    } cases[] = {
        {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, {0, 1, 2, 3}},
        {{1, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0}, {1, 0, 2, 3}},
        {{1, 1, 0, 0, 0, 0, 1, 1, 0, 0, 1, 1, 0, 1, 1, 1}, {2, 0, 1, 3}},
        {{1, 0, 0, 1, 1, 1, 1, 0, 1, 0, 0, 1, 1, 0, 0, 0}, {1, 3, 2, 0}},
        {{0, 1, 1, 1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0}, {0, 1, 2, 3}},
        {{0, 0, 0, 0, 1, 1, 1, 0, 1, 1, 1, 0, 2, 1, 1, 0}, {0, 3, 1, 2}},
    };
    struct arena arena = ARENA_ZERO;
    struct assignment *a = assignment_new(4, &arena);

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        ck_assert_mem_eq(assignment_solve(a, cases[i].cost), cases[i].job,
                         sizeof(cases[i].job));
    arena_done(&arena);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("assignment");
    TCase *tc = tcase_create("assignment");

    tcase_add_loop_test(tc, test_least_of_all, 0, MOST);
    tcase_add_test(tc, test_choice_among_equals);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
