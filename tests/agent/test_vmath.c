/* exp, log and related functions over all of float32: their accuracy, and the same bits
 * with every instruction set; casts of numbers that no other type holds.
 */
#include "agent/kernels/loops.h"
#include "tests/support/test_main.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK 4096

/* The distance between tested numbers, a prime: a million of them, or 65,000 in sanitized
 * builds, which look for other faults. */
#ifdef __SANITIZE_ADDRESS__
#define STRIDE 65537
#else
#define STRIDE 4099
#endif

/* ---- accuracy ---- */

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double softplus(double x)
{
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

static double elu(double x)
{
    return x < 0 ? expm1(x) : x;
}

/* The errors allowed, in units in the last place: vmath.h promises 4. */
static const struct {
    const char *type;
    double (*want)(double x);
    double ulps;
} functions[] = {
    {"Exp", exp, 4},         {"Log", log, 4},           {"Tanh", tanh, 4},
    {"Sigmoid", sigmoid, 4}, {"Softplus", softplus, 4}, {"Elu", elu, 4},
};
enum { N_FUNCTIONS = sizeof(functions) / sizeof(functions[0]) };

/* The distance between float32 numbers around x; constant for subnormal numbers. */
static double unit_at(double x)
{
    int exponent;

    (void)frexp(x, &exponent);
    return ldexp(1, exponent < -125 ? -149 : exponent - 24);
}

static int close_enough(float have, double want, double ulps)
{
    double limit = ulps * unit_at(want);

    if (isnan(want) || isinf(want))
        return isnan(want) ? isnan(have) : (double)have == want;
    if (fabs(want) + limit > (double)FLT_MAX && isinf(have))
        return (have > 0) == (want > 0);
    return fabs((double)have - want) <= limit;
}

/* Numbers of every exponent and sign, infinities and NaNs included. */
static void spread(float *x, uint32_t first, uint32_t step)
{
    for (uint32_t i = 0; i < CHUNK; i++) {
        uint32_t bits = first + i * step;

        memcpy(&x[i], &bits, sizeof(bits));
    }
}

/* Compares bits; all NaNs count as equal. */
static int same_floats(const float *a, const float *b)
{
    for (int i = 0; i < CHUNK; i++)
        if (memcmp(&a[i], &b[i], sizeof(a[i])) != 0 && !(isnan(a[i]) && isnan(b[i])))
            return 0;
    return 1;
}

static void check_accuracy(int f, const float *x)
{
    const struct loop_row *row = kern_loop_find(functions[f].type, DT_FLOAT);
    float y[CHUNK], same[CHUNK];

    row->fn(y, x, NULL, NULL, CHUNK, 0);
    for (int i = 0; i < CHUNK; i++) {
        double want = functions[f].want((double)x[i]);

        /* faster than an assertion each */
        if (!close_enough(y[i], want, functions[f].ulps))
            ck_abort_msg("%s of %a is %a, not %a", functions[f].type, (double)x[i],
                         (double)y[i], want);
    }
    for (int i = 0; kern_loops_at(i) != NULL; i++) {
        const struct kern_loops *set = kern_loops_at(i);

        set->rows[row - kern_loops()->rows].fn(same, x, NULL, NULL, CHUNK, 0);
        ck_assert_msg(same_floats(y, same), "%s differs on %s from %a on",
                      functions[f].type, set->isa, (double)x[0]);
    }
}

START_TEST(functions_are_accurate_over_all_numbers)
{
    const uint32_t stride = (uint32_t)test_stride();
    float x[CHUNK];

    for (uint32_t k = 0; k < UINT32_MAX / STRIDE / CHUNK; k += stride) {
        spread(x, k * STRIDE * CHUNK, STRIDE);
        check_accuracy(_i, x);
    }
}
END_TEST

/* All numbers around the points at which a formula changes. */
START_TEST(functions_are_accurate_around_their_seams)
{
    static const float seams[] = {0.0f,    0.625f,      1.0f,   0.70710678f, 88.7228f,
                                  -103.9f, 0.34657359f, 17.33f, -87.336f,    FLT_MIN};
    float x[CHUNK];

    for (size_t k = 0; k < sizeof(seams) / sizeof(seams[0]); k++) {
        uint32_t bits;

        memcpy(&bits, &seams[k], sizeof(bits));
        spread(x, bits - CHUNK / 2, 1);
        check_accuracy(_i, x);
    }
}
END_TEST

static float value_of(const char *type, float x)
{
    float y;

    kern_loop_find(type, DT_FLOAT)->fn(&y, &x, NULL, NULL, 1, 0);
    return y;
}

START_TEST(special_values_are_those_of_libm)
{
    static const char *const all[] = {"Exp", "Log", "Tanh", "Sigmoid", "Softplus", "Elu"};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        ck_assert_msg(isnan(value_of(all[i], NAN)), "%s of NaN", all[i]);
    ck_assert_float_eq(value_of("Exp", INFINITY), INFINITY);
    ck_assert_float_eq(value_of("Exp", -INFINITY), 0);
    ck_assert_float_eq(value_of("Exp", 0), 1);
    ck_assert_float_eq(value_of("Exp", 89), INFINITY);
    ck_assert_float_eq(value_of("Log", INFINITY), INFINITY);
    ck_assert_float_eq(value_of("Log", 0), -INFINITY);
    ck_assert_float_eq(value_of("Log", -0.0f), -INFINITY);
    ck_assert_float_eq(value_of("Log", 1), 0);
    ck_assert(isnan(value_of("Log", -1)) && isnan(value_of("Log", -INFINITY)));
    ck_assert_float_eq(value_of("Tanh", INFINITY), 1);
    ck_assert_float_eq(value_of("Tanh", -INFINITY), -1);
    ck_assert_float_eq(value_of("Tanh", 0), 0);
    ck_assert_float_eq(value_of("Sigmoid", INFINITY), 1);
    ck_assert_float_eq(value_of("Sigmoid", -INFINITY), 0);
    ck_assert_float_eq(value_of("Sigmoid", 0), 0.5f);
    ck_assert_float_eq(value_of("Softplus", INFINITY), INFINITY);
    ck_assert_float_eq(value_of("Softplus", -INFINITY), 0);
    ck_assert_float_eq(value_of("Elu", -INFINITY), -1);
}
END_TEST

/* ---- casts ---- */

/* Fractions, zeros, numbers too large for some or all integers, infinities and NaN. */
START_TEST(casts_agree_on_every_instruction_set)
{
    static const double x[] = {0,       -0.0, 0.5,      -0.5,     1.9,       -1.9,
                               127.5,   -129, 255.99,   65536.5,  0x1p31,    -0x1p31,
                               -0x1p32, 1e10, 0x1p63,   -0x1p63,  -0x1.1p63, 1e300,
                               -1e300,  NAN,  INFINITY, -INFINITY};
    enum { N = sizeof(x) / sizeof(x[0]) };
    static const enum dtype from[] = {DT_FLOAT, DT_DOUBLE};
    float single[N];

    for (int i = 0; i < N; i++)
        single[i] = (float)x[i];
    for (int f = 0; f < 2; f++)
        for (int to = 1; to <= DT_UINT64; to++) {
            const void *in = from[f] == DT_FLOAT ? (const void *)single : x;
            loop_fn fn = kern_loops_at(0)->cast(from[f], (enum dtype)to);
            double y[2][N] = {{0}};

            if (fn == NULL)
                continue;
            fn(y[0], in, NULL, NULL, N, 0);
            for (int k = 1; kern_loops_at(k) != NULL; k++) {
                kern_loops_at(k)->cast(from[f], (enum dtype)to)(y[1], in, NULL, NULL, N,
                                                                0);
                ck_assert_mem_eq(y[0], y[1], sizeof(y[0]));
            }
        }
}
END_TEST

START_TEST(casts_out_of_range_give_the_smallest_integer)
{
    static const double x[] = {1e10, -1e10, NAN, INFINITY, -INFINITY};
    int32_t y[5];
    int64_t z[5];
    const double far[] = {1e30, -1e30, NAN, INFINITY, -INFINITY};

    kern_loops()->cast(DT_DOUBLE, DT_INT32)(y, x, NULL, NULL, 5, 0);
    kern_loops()->cast(DT_DOUBLE, DT_INT64)(z, far, NULL, NULL, 5, 0);
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq(y[i], INT32_MIN);
        ck_assert_int_eq(z[i], INT64_MIN);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("vmath");
    TCase *tc = tcase_create("vmath");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, functions_are_accurate_over_all_numbers, 0, N_FUNCTIONS);
    tcase_add_loop_test(tc, functions_are_accurate_around_their_seams, 0, N_FUNCTIONS);
    tcase_add_test(tc, special_values_are_those_of_libm);
    tcase_add_test(tc, casts_agree_on_every_instruction_set);
    tcase_add_test(tc, casts_out_of_range_give_the_smallest_integer);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
