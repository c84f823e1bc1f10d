#include "common/numerics/trig.h"
#include "common/rng/rng.h"
#include "tests/support/test_main.h"

#include <float.h>
#include <math.h>

enum { N = 20000 };

/* Errors stay below half a unit in the last place, if long double is precise enough to
 * show it; otherwise close to libm. */
static void expect_nearest(double found, long double want, const char *what, double x)
{
    const double size = fabs((double)want);
    const double unit = nextafter(size, INFINITY) - size;
    const double slack = LDBL_MANT_DIG > DBL_MANT_DIG ? 0.5 + 0x1p-9 : 2.0;

    if (!(fabsl((long double)found - want) <= slack * unit))
        ck_abort_msg("%s of %a: %a, want %La", what, x, found, want);
}

static void draw(const char *purpose, double *ret)
{
    rng_uniform_f64(rng_key_make(1, "trig", purpose), 0, 0, ret, N);
}

START_TEST(sin_and_cos_are_nearest)
{
    static const double widest[] = {1e-8, 1.0, 13.0, 1e5};
    static double u[N];

    draw("sin", u);
    for (int i = 0; i < N; i++) {
        const double x = (2.0 * u[i] - 1.0) * widest[_i];
        double s, c;

        sincos_f64(x, &s, &c);
        expect_nearest(s, sinl((long double)x), "sin", x);
        expect_nearest(c, cosl((long double)x), "cos", x);
    }
}
END_TEST

START_TEST(atan2_is_nearest)
{
    static const int shrink[] = {0, -10, -70, -600};
    static double u[N], v[N];

    draw("y", u);
    draw("x", v);
    for (int i = 0; i < N; i++) {
        const double a = 2.0 * u[i] - 1.0, b = ldexp(2.0 * v[i] - 1.0, shrink[_i]);

        expect_nearest(atan2_f64(a, b), atan2l((long double)a, (long double)b), "y", a);
        expect_nearest(atan2_f64(b, a), atan2l((long double)b, (long double)a), "x", a);
    }
}
END_TEST

/* Doubles next to multiples of pi/2, where most of the digits cancel, and values that glibc
 * 2.36 rounds to the other side; expected values computed with 400 bits. */
START_TEST(hard_arguments)
{
    static const struct {
        double x, sin, cos;
    } cases[] = {
        {0x1.921fb54442d18p+1, 0x1.1a62633145c07p-53, -0x1.0000000000000p+0},
        {0x1.921fb54442d18p+0, 0x1.0000000000000p+0, 0x1.1a62633145c07p-54},
        {0x1.2d97c7f3321d2p+2, -0x1.0000000000000p+0, -0x1.a79394c9e8a0ap-53},
        {0x1.921fb54442d18p+2, -0x1.1a62633145c07p-52, 0x1.0000000000000p+0},
        {-0x1.921fb54442d18p+1, -0x1.1a62633145c07p-53, -0x1.0000000000000p+0},
        {0x1.c463abeccb2bbp+3, 0x1.0000000000000p+0, 0x1.3daeaf976e788p-51},
        {0x1.921fb54442d18p-1, 0x1.6a09e667f3bccp-1, 0x1.6a09e667f3bcdp-1},
        {0x1.1170000000000p+16, -0x1.a59e631ba6f3dp-1, 0x1.227c3863b3ce7p-1},
        {0x1.6667d9f5b41f1p+3, -0x1.f552112870c1dp-1, 0x1.a01bf7d7c59b3p-3},
        {0x1.8510d955ba50dp+3, -0x1.965b5d62b95abp-2, 0x1.d5f5caba2e00bp-1},
        {0x1.467c10125faf1p+3, -0x1.674d38c1bcd58p-1, -0x1.6cc1521f1fa41p-1},
        {0x1.7e468c797a76fp+2, -0x1.3881956c61613p-2, 0x1.e79317a9bc2bcp-1},
        {0x1.40735fe78f725p+3, -0x1.1c8fbbabbe161p-1, -0x1.a9a3a65649bd5p-1},
        {0x1.e892f8b844a7ap+0, 0x1.e3151be56cb73p-1, -0x1.534412d53dcddp-2},
        {0x1.b80d34399f9b5p-1, 0x1.83d7180787835p-1, 0x1.4e40591527c83p-1},
        {0x1.797d5a709ecd3p+1, 0x1.87b7f31c6dea9p-3, -0x1.f68c1bab8edccp-1},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        double s, c;

        sincos_f64(cases[i].x, &s, &c);
        ck_assert_msg(s == cases[i].sin && c == cases[i].cos, "%a: %a %a", cases[i].x, s,
                      c);
    }
}
END_TEST

static int same(double a, double b)
{
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

START_TEST(special_values)
{
    static const double x[] = {0.0, -0.0,      1.0,        -1.0,    INFINITY, -INFINITY,
                               NAN, 0x1p-1074, -0x1p-1074, DBL_MAX, -DBL_MAX, DBL_MIN};
    const size_t n = sizeof(x) / sizeof(x[0]);
    double s, c;

    for (size_t i = 0; i < n * n; i++)
        ck_assert_msg(same(atan2_f64(x[i / n], x[i % n]), atan2(x[i / n], x[i % n])),
                      "atan2 of %a, %a: %a", x[i / n], x[i % n],
                      atan2_f64(x[i / n], x[i % n]));
    sincos_f64(-0.0, &s, &c);
    ck_assert(same(s, -0.0) && c == 1.0);
    sincos_f64(NAN, &s, &c);
    ck_assert(isnan(s) && isnan(c));
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("trig");
    TCase *tc = tcase_create("trig");

    tcase_add_loop_test(tc, sin_and_cos_are_nearest, 0, 4);
    tcase_add_loop_test(tc, atan2_is_nearest, 0, 4);
    tcase_add_test(tc, hard_arguments);
    tcase_add_test(tc, special_values);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
