#include "common/numerics/elementary.h"
#include "common/rng/rng.h"
#include "tests/support/test_main.h"

#include <math.h>
#include <string.h>

enum { N = 200000 };

static struct rng_key test_key(void)
{
    return rng_key_make(1, "agent_0", "act");
}

/* The published test vectors of Random123 (kat_vectors), philox4x32 with 10 rounds. */
START_TEST(blocks_are_the_published_ones)
{
    static const struct {
        uint64_t block, counter;
        struct rng_key key;
        uint32_t out[4];
    } KAT[] = {
        {0, 0, {{0, 0}}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX,
         UINT64_MAX,
         {{UINT32_MAX, UINT32_MAX}},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {0x85a308d3243f6a88u,
         0x0370734413198a2eu,
         {{0xa4093822, 0x299f31d0}},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };

    for (size_t i = 0; i < sizeof(KAT) / sizeof(KAT[0]); i++) {
        uint32_t w[4];

        rng_block(KAT[i].key, KAT[i].counter, KAT[i].block, w);
        ck_assert_mem_eq(w, KAT[i].out, sizeof(w));
    }
}
END_TEST

START_TEST(uniforms_are_words_of_blocks)
{
    float x[9];
    uint32_t w[4];

    rng_uniform_f32(test_key(), 7, 0, x, 9);
    for (size_t i = 0; i < 9; i++) {
        rng_block(test_key(), 7, i / 4, w);
        ck_assert(x[i] == (float)(w[i % 4] >> 8) / 16777216.0f);
    }
}
END_TEST

START_TEST(keys_differ_by_seed_name_purpose_and_label)
{
    struct rng_key keys[] = {
        rng_key_make(1, "a", "bc"),
        rng_key_make(1, "ab", "c"),
        rng_key_make(2, "a", "bc"),
        rng_key_make(1, "a", "bd"),
        rng_key_make(1ull << 63, "", ""),
        rng_key_make(0, "", ""),
        rng_key_derive(rng_key_make(1, "a", "bc"), "x"),
        rng_key_derive(rng_key_make(1, "a", "bc"), "y"),
    };
    size_t n = sizeof(keys) / sizeof(keys[0]);

    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < i; j++)
            ck_assert_mem_ne(&keys[i], &keys[j], sizeof(keys[0]));
    }
    ck_assert_mem_eq(&keys[0], &(struct rng_key[]){rng_key_make(1, "a", "bc")},
                     sizeof(keys[0]));
}
END_TEST

typedef void (*fill_fn)(uint64_t first, void *dst, size_t n);

static void fill_uniform_f32(uint64_t first, void *dst, size_t n)
{
    rng_uniform_f32(test_key(), 3, first, dst, n);
}
static void fill_uniform_f64(uint64_t first, void *dst, size_t n)
{
    rng_uniform_f64(test_key(), 3, first, dst, n);
}
static void fill_normal_f32(uint64_t first, void *dst, size_t n)
{
    rng_normal_f32(test_key(), 3, first, dst, n);
}
static void fill_normal_f64(uint64_t first, void *dst, size_t n)
{
    rng_normal_f64(test_key(), 3, first, dst, n);
}
static void fill_gumbel_f32(uint64_t first, void *dst, size_t n)
{
    rng_gumbel_f32(test_key(), 3, first, dst, n);
}
static void fill_below(uint64_t first, void *dst, size_t n)
{
    rng_below(test_key(), 3, first, 1000003, dst, n);
}

static const struct {
    fill_fn fill;
    size_t size;
} FILLS[] = {
    {fill_uniform_f32, 4}, {fill_uniform_f64, 8}, {fill_normal_f32, 4},
    {fill_normal_f64, 8},  {fill_gumbel_f32, 4},  {fill_below, 8},
};

enum { N_FILLS = sizeof(FILLS) / sizeof(FILLS[0]), WHOLE = 301 };

START_TEST(any_split_gives_the_same_numbers)
{
    fill_fn fill = FILLS[_i].fill;
    size_t size = FILLS[_i].size;
    unsigned char whole[WHOLE * 8], parts[WHOLE * 8];

    fill(0, whole, WHOLE);
    for (size_t step = 1; step < 150; step++) {
        memset(parts, 0, sizeof(parts));
        for (size_t at = 0; at < WHOLE; at += step) {
            size_t n = WHOLE - at < step ? WHOLE - at : step;

            fill(at, parts + at * size, n);
        }
        ck_assert_mem_eq(whole, parts, WHOLE * size);
    }
}
END_TEST

enum { MAX_WIDTH = 70 };

/* Rows of any width, that begin at any number, or are too long to share a chunk. */
START_TEST(rows_are_draws_of_their_own)
{
    enum { ROWS = 21 };
    static float rows[ROWS * MAX_WIDTH], alone[MAX_WIDTH];
    uint64_t counter[ROWS], first[ROWS];
    size_t width = (size_t)_i;

    for (size_t r = 0; r < ROWS; r++) {
        counter[r] = r % 3 == 0 ? UINT64_MAX - r : 1000 * r;
        first[r] = r % 4 == 3 ? (1ull << 35) + r : r;
    }
    for (size_t n = 0; n <= ROWS; n += 7) {
        rng_uniform_rows_f32(test_key(), counter, first, rows, n, width);
        for (size_t r = 0; r < n; r++) {
            rng_uniform_f32(test_key(), counter[r], first[r], alone, width);
            ck_assert_mem_eq(rows + r * width, alone, width * sizeof(float));
        }
        rng_normal_rows_f32(test_key(), counter, first, rows, n, width);
        for (size_t r = 0; r < n; r++) {
            rng_normal_f32(test_key(), counter[r], first[r], alone, width);
            ck_assert_mem_eq(rows + r * width, alone, width * sizeof(float));
        }
    }
}
END_TEST

/* FNV-1a of the first numbers of each kind: a change of one bit of any of them makes old
 * runs irreproducible. */
START_TEST(numbers_stay_what_they_are)
{
    static const uint64_t HASHES[N_FILLS] = {0xb2d95fd4ed4840e1u, 0x7854493ea1108e0cu,
                                             0x749b34e48a5d8bc1u, 0xa2618f630fc3b4b7u,
                                             0xeeef7f35cb37d415u, 0x35145e8cf123eb0eu};
    unsigned char bytes[WHOLE * 8];
    uint64_t h = 0xcbf29ce484222325u;

    FILLS[_i].fill(0, bytes, WHOLE);
    for (size_t i = 0; i < WHOLE * FILLS[_i].size; i++)
        h = (h ^ bytes[i]) * 0x100000001b3u;
    ck_assert_msg(h == HASHES[_i], "kind %d gives 0x%016llx", _i, (unsigned long long)h);
}
END_TEST

struct moments {
    double mean, var, skew, lo, hi, serial;
};

static struct moments moments_of(const double *x, size_t n)
{
    struct moments m = {.lo = x[0], .hi = x[0]};

    for (size_t i = 0; i < n; i++) {
        m.mean += x[i] / (double)n;
        m.lo = fmin(m.lo, x[i]);
        m.hi = fmax(m.hi, x[i]);
    }
    for (size_t i = 0; i < n; i++) {
        double d = x[i] - m.mean;

        m.var += d * d / (double)n;
        m.skew += d * d * d / (double)n;
        if (i > 0)
            m.serial += d * (x[i - 1] - m.mean) / (double)n;
    }
    m.skew /= pow(m.var, 1.5);
    m.serial /= m.var;
    return m;
}

static struct moments draw_moments(int kind)
{
    static double x[N];
    static float f[N];

    if (FILLS[kind].size == 8) {
        FILLS[kind].fill(0, x, N);
    } else {
        FILLS[kind].fill(0, f, N);
        for (size_t i = 0; i < N; i++)
            x[i] = (double)f[i];
    }
    return moments_of(x, N);
}

/* Tolerances are about five standard errors at N draws. */
START_TEST(moments_are_the_distributions)
{
    static const struct {
        double mean, var, skew, tol_mean, tol_var, tol_skew, lo, hi;
    } EXPECT[] = {
        {0.5, 1.0 / 12, 0, 0.0033, 0.00084, 0.02, 0, 1},
        {0.5, 1.0 / 12, 0, 0.0033, 0.00084, 0.02, 0, 1},
        {0, 1, 0, 0.011, 0.016, 0.028, -5.8, 5.8},
        {0, 1, 0, 0.011, 0.016, 0.028, -8.6, 8.6},
        /* Euler's constant, pi^2/6, 12 sqrt(6) zeta(3) / pi^3 */
        {0.5772157, 1.6449341, 1.1395471, 0.0145, 0.04, 0.06, -2.9, 17},
    };
    struct moments m = draw_moments(_i);

    ck_assert_double_eq_tol(m.mean, EXPECT[_i].mean, EXPECT[_i].tol_mean);
    ck_assert_double_eq_tol(m.var, EXPECT[_i].var, EXPECT[_i].tol_var);
    ck_assert_double_eq_tol(m.skew, EXPECT[_i].skew, EXPECT[_i].tol_skew);
    ck_assert_double_eq_tol(m.serial, 0, 5 / sqrt(N));
    ck_assert_double_ge(m.lo, EXPECT[_i].lo);
    ck_assert_double_le(m.hi, EXPECT[_i].hi);
}
END_TEST

static double chi_square(const size_t *count, size_t n_cells, double expected)
{
    double sum = 0;

    for (size_t i = 0; i < n_cells; i++)
        sum += pow((double)count[i] - expected, 2) / expected;
    return sum;
}

START_TEST(uniforms_fill_every_cell)
{
    static float x[N];
    size_t count[100] = {0};

    rng_uniform_f32(test_key(), 9, 0, x, N);
    for (size_t i = 0; i < N; i++)
        count[(size_t)(x[i] * 100)]++;
    /* p = 1e-5 for 99 degrees of freedom */
    ck_assert_double_lt(chi_square(count, 100, N / 100.0), 170);
}
END_TEST

START_TEST(normals_have_the_normal_cells)
{
    static float x[N];
    size_t count[20] = {0};

    rng_normal_f32(test_key(), 9, 0, x, N);
    for (size_t i = 0; i < N; i++)
        count[(size_t)(10 * erfc(-(double)x[i] / sqrt(2)))]++;
    /* p < 1e-5 for 19 degrees of freedom */
    ck_assert_double_lt(chi_square(count, 20, N / 20.0), 60);
}
END_TEST

START_TEST(gumbels_pick_by_softmax)
{
    static const float LOGITS[3] = {0, 1, -1};
    static float g[N * 3];
    double total = exp(0) + exp(1) + exp(-1);
    size_t count[3] = {0};

    rng_gumbel_f32(test_key(), 9, 0, g, N * 3);
    for (size_t i = 0; i < N; i++) {
        size_t best = 0;

        for (size_t k = 1; k < 3; k++) {
            if (LOGITS[k] + g[3 * i + k] > LOGITS[best] + g[3 * i + best])
                best = k;
        }
        count[best]++;
    }
    for (size_t k = 0; k < 3; k++)
        ck_assert_double_eq_tol((double)count[k] / N, exp((double)LOGITS[k]) / total,
                                0.006);
}
END_TEST

START_TEST(integers_stay_below_their_bound)
{
    static const uint64_t BOUNDS[] = {1,         2, 3, 10, 1ull << 32, (1ull << 63) + 1,
                                      UINT64_MAX};
    uint64_t x[500];

    for (size_t b = 0; b < sizeof(BOUNDS) / sizeof(BOUNDS[0]); b++) {
        uint64_t most = 0;

        rng_below(test_key(), b, 0, BOUNDS[b], x, 500);
        for (size_t i = 0; i < 500; i++) {
            ck_assert(x[i] < BOUNDS[b]);
            most = x[i] > most ? x[i] : most;
        }
        ck_assert(most >= BOUNDS[b] - 1 - BOUNDS[b] / 50);
    }
}
END_TEST

/* With this bound, multiplying and shifting alone gives even results twice as often as
 * odd ones. */
START_TEST(integers_are_unbiased_where_rejection_is_common)
{
    const uint64_t bound = (UINT64_MAX / 3) * 2;
    static uint64_t x[N];
    size_t even = 0;

    rng_below(test_key(), 5, 0, bound, x, N);
    for (size_t i = 0; i < N; i++)
        even += x[i] % 2 == 0;
    ck_assert_double_eq_tol((double)even / N, 0.5, 0.006);
}
END_TEST

START_TEST(permutations_hold_each_number_once_in_every_place)
{
    size_t count[25] = {0};
    uint32_t p[200];
    int seen[200] = {0};

    rng_permutation(test_key(), 0, p, 200);
    for (size_t i = 0; i < 200; i++) {
        ck_assert_uint_lt(p[i], 200);
        ck_assert_int_eq(seen[p[i]]++, 0);
    }
    for (uint64_t c = 0; c < 20000; c++) {
        rng_permutation(test_key(), c, p, 5);
        for (size_t i = 0; i < 5; i++)
            count[5 * i + p[i]]++;
    }
    ck_assert_double_lt(chi_square(count, 25, 4000), 60);
    rng_permutation(test_key(), 0, p, 0);
}
END_TEST

static double ulps(double got, double want, int bits)
{
    return fabs(got - want) / ldexp(1, ilogb(want) - bits + 1);
}

/* Instead of an assertion of Check, which takes longer than a logarithm even if it
 * holds. */
static void expect_below(double error, double bound, int i)
{
    if (!(error < bound))
        ck_abort_msg("%d: an error of %g, at most %g is meant", i, error, bound);
}

START_TEST(own_functions_are_close_to_libms)
{
    for (int i = 1; i < N; i++) {
        float u = (float)i / (float)N, s, c;
        double du = (double)i / N, ds, dc;

        expect_below(ulps((double)log_f32(u), log((double)u), 24), 2, i);
        expect_below(ulps(log_f64(du), log(du), 53), 2, i);
        sincos_turn_f32(u, &s, &c);
        expect_below(fabs((double)s - sin(2 * M_PI * (double)u)), 0x1p-22, i);
        expect_below(fabs((double)c - cos(2 * M_PI * (double)u)), 0x1p-22, i);
        sincos_turn_f64(du, &ds, &dc);
        expect_below(fabs(ds - sin(2 * M_PI * du)), 0x1p-50, i);
        expect_below(fabs(dc - cos(2 * M_PI * du)), 0x1p-50, i);
    }
    ck_assert_double_lt(ulps((double)log_f32(0x1p-24f), log(0x1p-24), 24), 2);
    ck_assert_double_lt(ulps((double)log_f32(1 - 0x1p-24f), log(1 - 0x1p-24), 24), 2);
    ck_assert_double_lt(ulps(log_f64(0x1p-53), log(0x1p-53), 53), 2);
    ck_assert(log_f64(1.0) == 0 && log_f32(1.0f) == 0);
}
END_TEST

static void record(void *ctx, struct rng_key key, uint64_t counter, uint64_t first,
                   size_t n)
{
    uint64_t *sum = ctx;

    *sum += key.k[0] + counter * 1000 + first * 100 + n;
}

START_TEST(every_draw_is_told_once)
{
    uint64_t sum = 0, x;
    uint32_t w[4];
    float f, rows[2];

    rng_set_audit(record, &sum);
    rng_uniform_f32(test_key(), 2, 3, &f, 1);
    ck_assert_uint_eq(sum, test_key().k[0] + 2301u);
    rng_permutation(test_key(), 0, w, 4);
    rng_below(test_key(), 0, 0, 5, &x, 1);
    rng_block(test_key(), 0, 0, w);
    ck_assert_uint_eq(sum, 4 * (uint64_t)test_key().k[0] + 2307u);
    sum = 0;
    rng_uniform_rows_f32(test_key(), (uint64_t[]){2, 5}, (uint64_t[]){3, 0}, rows, 2, 1);
    ck_assert_uint_eq(sum, 2 * (uint64_t)test_key().k[0] + 7302u);
    rng_set_audit(NULL, NULL);
    rng_uniform_f32(test_key(), 2, 3, &f, 1);
    ck_assert_uint_eq(sum, 2 * (uint64_t)test_key().k[0] + 7302u);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("rng");
    TCase *tc = tcase_create("rng");

    tcase_set_timeout(tc, 30); /* many logarithms, also under a sanitizer */
    tcase_add_test(tc, blocks_are_the_published_ones);
    tcase_add_test(tc, uniforms_are_words_of_blocks);
    tcase_add_test(tc, keys_differ_by_seed_name_purpose_and_label);
    tcase_add_loop_test(tc, any_split_gives_the_same_numbers, 0, N_FILLS);
    tcase_add_loop_test(tc, rows_are_draws_of_their_own, 1, MAX_WIDTH + 1);
    tcase_add_loop_test(tc, numbers_stay_what_they_are, 0, N_FILLS);
    tcase_add_loop_test(tc, moments_are_the_distributions, 0, 5);
    tcase_add_test(tc, uniforms_fill_every_cell);
    tcase_add_test(tc, normals_have_the_normal_cells);
    tcase_add_test(tc, gumbels_pick_by_softmax);
    tcase_add_test(tc, integers_stay_below_their_bound);
    tcase_add_test(tc, integers_are_unbiased_where_rejection_is_common);
    tcase_add_test(tc, permutations_hold_each_number_once_in_every_place);
    tcase_add_test(tc, own_functions_are_close_to_libms);
    tcase_add_test(tc, every_draw_is_told_once);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
