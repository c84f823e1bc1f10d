/* exp_f64 and log1p_f64; the functions for draws are tested with the draws. */
#include "common/numerics/elementary.h"
#include "common/rng/rng.h"
#include "tests/support/test_main.h"

#include <float.h>
#include <math.h>

enum { N = 50000 };

static double units(double x)
{
    x = fabs(x);
    return x < DBL_MIN ? 0x1p-1074 : nextafter(x, INFINITY) - x;
}

struct range {
    double low, high;
};

typedef double (*f64_fn)(double x);
typedef long double (*exact_fn)(long double x);

/* Errors stay below 0.501 units in the last place, if long double is precise enough to
 * show it. libm's result, accurate to one unit, is at most a neighbour. */
static void expect_exact(f64_fn ours, f64_fn libm, exact_fn exact, struct range range)
{
    static double u[N];
    double slack = LDBL_MANT_DIG > DBL_MANT_DIG ? 0.501 : 2.0;

    rng_uniform_f64(rng_key_make(1, "x", "exact"), 0, 0, u, N);
    for (int i = 0; i < N; i++) {
        double x = range.low + (range.high - range.low) * u[i], found = ours(x);
        long double want = exact(x);
        double unit = units((double)want);

        if (!(fabsl((long double)found - want) <= slack * unit))
            ck_abort_msg("of %a: %a, want %La", x, found, want);
        if (!(fabs(found - libm(x)) <= 2.0 * unit))
            ck_abort_msg("of %a: %a, libm %a", x, found, libm(x));
    }
}

static const struct range exp_ranges[] = {{-745.2, -708.3}, {-708.0, -37.0},
                                          {-37.0, 0.0},     {-1.0, 1.0},
                                          {-1e-3, 1e-3},    {0.0, 709.0}};

START_TEST(exp_is_exact_to_the_last_place)
{
    expect_exact(exp_f64, exp, expl, exp_ranges[_i]);
}
END_TEST

static const struct range log1p_ranges[] = {
    {0.0, 1.0},  {0.0, 0.02},  {0.0, 1e-5},   {0.0, 1e-9},  {0.0, 1e-300}, {0.0, 1e-310},
    {-1.0, 0.0}, {-0.02, 0.0}, {-1e-9, 1e-9}, {0.0, 100.0}, {0.0, 1e20},   {0.0, 1e308}};

START_TEST(log1p_is_exact_to_the_last_place)
{
    expect_exact(log1p_f64, log1p, log1pl, log1p_ranges[_i]);
}
END_TEST

/* Checks that the function does not fall around `joint`, where two pieces of its table
 * meet: there 64 x / ln 2, or 32 (1 + x), is half an odd number. */
static void expect_rising(f64_fn f, double joint)
{
    double x = joint;

    for (int i = 0; i < 8; i++)
        x = nextafter(x, -INFINITY);
    for (int i = 0; i < 16; i++) {
        double next = nextafter(x, INFINITY);

        if (!(f(x) <= f(next)))
            ck_abort_msg("falls at %a", x);
        x = next;
    }
}

START_TEST(pieces_meet_in_order)
{
    const double step = 0x1.62e42fefa39efp-7;

    for (int k = -68800; k < 65400; k += 7)
        expect_rising(exp_f64, ((double)k + 0.5) * step);
    for (int k = 22; k < 1000; k++)
        expect_rising(log1p_f64, ((double)k + 0.5) / 32.0 - 1.0);
    expect_rising(log1p_f64, 0x1.6a09e667f3bcdp-1 - 1.0);
    expect_rising(log1p_f64, 0x1.6a09e667f3bcdp+0 - 1.0);
    expect_rising(exp_f64, -0x1.6232bdd7abcd2p+9); /* subnormal below */
}
END_TEST

static int same(double a, double b)
{
    return bits_of_f64(a) == bits_of_f64(b) || (isnan(a) && isnan(b));
}

START_TEST(ends_and_special_values)
{
    static const struct {
        double x, exp, log1p;
    } cases[] = {
        {0.0, 1.0, 0.0},
        {-0.0, 1.0, -0.0},
        {INFINITY, INFINITY, INFINITY},
        {-INFINITY, 0.0, NAN},
        {NAN, NAN, NAN},
        {-DBL_MAX, 0.0, NAN},
        {-746.0, 0.0, NAN},
        {-745.14, 0.0, NAN},
        {-745.13, 0x1p-1074, NAN},
        {0x1p-1074, 1.0, 0x1p-1074},
        {-0x1p-1074, 1.0, -0x1p-1074},
        {DBL_MIN, 1.0, DBL_MIN},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_msg(same(exp_f64(cases[i].x), cases[i].exp), "exp %a", cases[i].x);
        ck_assert_msg(same(log1p_f64(cases[i].x), cases[i].log1p), "log1p %a",
                      cases[i].x);
    }
    ck_assert(exp_f64(0x1.62e42fefa39efp+9) <= DBL_MAX);
    ck_assert(exp_f64(nextafter(0x1.62e42fefa39efp+9, INFINITY)) == INFINITY);
    ck_assert(exp_f64(DBL_MAX) == INFINITY);
    ck_assert(log1p_f64(-1.0) == -INFINITY);
    ck_assert(log1p_f64(1.0) == 0x1.62e42fefa39efp-1);
}
END_TEST

/* For x beyond 38, log(1 + exp(-x)) equals exp(-x), so the worlds leave out the log. */
START_TEST(log1p_of_little_is_itself)
{
    for (double x = 38.0; x < 750.0; x += 0.01) {
        if (log1p_f64(exp_f64(-x)) != exp_f64(-x))
            ck_abort_msg("not of %a", x);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("elementary");
    TCase *tc = tcase_create("elementary");

    tcase_add_loop_test(tc, exp_is_exact_to_the_last_place, 0,
                        sizeof(exp_ranges) / sizeof(exp_ranges[0]));
    tcase_add_loop_test(tc, log1p_is_exact_to_the_last_place, 0,
                        sizeof(log1p_ranges) / sizeof(log1p_ranges[0]));
    tcase_add_test(tc, pieces_meet_in_order);
    tcase_add_test(tc, ends_and_special_values);
    tcase_add_test(tc, log1p_of_little_is_itself);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
