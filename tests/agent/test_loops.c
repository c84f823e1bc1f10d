/* All instruction sets that this machine can run give the same bits in every loop. */
#include "agent/kernels/loops.h"
#include "common/mem/xmalloc.h"
#include "tests/support/test_main.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 1027, BYTES = 8 * N };

struct operands {
    _Alignas(64) unsigned char a[BYTES], b[BYTES], c[BYTES];
};

#define FILL(T)                                                                          \
    for (int i = 0; i < N; i++)                                                          \
        ((T *)dst)[i] = (T)(((i * 7919 + salt * 104729) % 41 - 20) * scale);

static void fill(void *dst, enum dtype dtype, int salt)
{
    double scale = 1;

    switch (dtype) {
    case DT_FLOAT:
        scale = 0.37;
        FILL(float)
        break;
    case DT_DOUBLE:
        scale = 0.37;
        FILL(double)
        break;
    case DT_BOOL:
        for (int i = 0; i < N; i++)
            ((unsigned char *)dst)[i] = (i * 7919 + salt) % 3 == 0;
        break;
    default:
        switch (dtype_size(dtype)) {
        case 8:
            FILL(int64_t)
            break;
        case 4:
            FILL(int32_t)
            break;
        case 2:
            FILL(int16_t)
            break;
        default:
            FILL(int8_t)
        }
    }
}

static const struct loop_row *row_like(const struct kern_loops *set,
                                       const struct loop_row *row)
{
    return set->rows + (row - kern_loops_at(0)->rows);
}

/* Compares bits; all NaNs count as equal. */
static int same(const void *a, const void *b, enum dtype dtype)
{
    const float *x = a, *y = b;
    const double *u = a, *v = b;

    if (memcmp(a, b, N * dtype_size(dtype)) == 0)
        return 1;
    for (int i = 0; i < N; i++) {
        if (dtype == DT_FLOAT && memcmp(&x[i], &y[i], 4) != 0 &&
            (x[i] == x[i] || y[i] == y[i]))
            return 0;
        if (dtype == DT_DOUBLE && memcmp(&u[i], &v[i], 8) != 0 &&
            (u[i] == u[i] || v[i] == v[i]))
            return 0;
    }
    return dtype == DT_FLOAT || dtype == DT_DOUBLE;
}

START_TEST(every_loop_gives_the_same_bits)
{
    static struct operands in;
    static _Alignas(64) unsigned char want[BYTES], got[BYTES];

    for (const struct loop_row *r = kern_loops_at(0)->rows; r->type; r++) {
        int select = strcmp(r->type, "Select") == 0;

        fill(in.a, select ? DT_BOOL : r->dtype, 1);
        fill(in.b, r->dtype, 2);
        fill(in.c, r->dtype, 3);
        r->fn(want, in.a, in.b, in.c, N, 0.3f);
        for (int i = 1; kern_loops_at(i); i++) {
            row_like(kern_loops_at(i), r)->fn(got, in.a, in.b, in.c, N, 0.3f);
            ck_assert_msg(same(want, got, r->ret), "%s of %s, %s", r->type,
                          dtype_name(r->dtype), kern_loops_at(i)->isa);
        }
    }
}
END_TEST

/* A sum in one call equals the same sum in three calls, with any set and element by
 * element. */
START_TEST(sums_do_not_depend_on_the_cut)
{
    static const size_t periods[] = {1, 5, 15, 16, 31, 32, 33, 64, 69, 128};
    static struct operands in;

    fill(in.a, DT_FLOAT, 4);
    const float *x = (const void *)in.a;
    for (int i = 0; kern_loops_at(i); i++) {
        const struct kern_loops *set = kern_loops_at(i);

        for (size_t k = 0; k < sizeof(periods) / sizeof(periods[0]); k++) {
            float want[128] = {0}, got[128] = {0}, whole[128] = {0};
            const size_t p = periods[k], cuts[] = {0, 333, 333 + p, N};

            for (size_t e = 0; e < N; e++)
                want[e % p] += x[e];
            set->sum_columns(whole, x, 0, N, p);
            for (int c = 0; c < 3; c++)
                set->sum_columns(got, x + cuts[c], cuts[c], cuts[c + 1] - cuts[c], p);
            ck_assert_mem_eq(want, got, sizeof(want));
            ck_assert_mem_eq(want, whole, sizeof(want));
        }
        struct lane_sums want = {0}, got = {0};
        for (size_t e = 0; e < N; e++)
            want.lane[e % SUM_LANES] += x[e];
        set->sum_lanes(&got, x, 0, 333);
        set->sum_lanes(&got, x + 333, 333, N - 333);
        ck_assert_mem_eq(&want, &got, sizeof(want));
    }
}
END_TEST

enum { LONG = (1 << 22) + 1027 };

/* Numbers from 0 to 1. */
static float *long_row(void)
{
    float *x = xmalloc(LONG * sizeof(*x));
    uint32_t state = 1;

    for (size_t i = 0; i < LONG; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(state >> 8) * 0x1p-24f;
    }
    return x;
}

/* The sum of n elements, each block in lanes of its own. */
static float sum_of_blocks(const float *x, size_t n)
{
    struct lane_sums sums = {0};

    for (size_t first = 0; first < n; first += SUM_BLOCK) {
        float lane[SUM_LANES] = {0};

        for (size_t i = first; i < n && i < first + SUM_BLOCK; i++)
            lane[i % SUM_LANES] += x[i];
        for (int k = 0; k < SUM_LANES; k++)
            sums.lane[k] += lane[k];
    }
    return loop_sum_finish(&sums, 0);
}

/* A sum of millions of elements has the same bits with any set and any cut, and is that of its
 * blocks; that of one block is that of its lanes. */
START_TEST(long_sums_do_not_depend_on_the_cut)
{
    static const size_t lengths[] = {SUM_BLOCK - 1, SUM_BLOCK, SUM_BLOCK + 1,
                                     3 * SUM_BLOCK, 3 * SUM_BLOCK + 5};
    static const size_t cuts[] = {999, 4096, SUM_BLOCK - 1, SUM_BLOCK, SUM_BLOCK + 33};
    float *x = long_row(), got;

    for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++) {
        const size_t n = lengths[l];
        const float want = sum_of_blocks(x, n);

        for (int i = 0; kern_loops_at(i); i++) {
            const struct kern_loops *set = kern_loops_at(i);

            set->sum_rows(&got, x, 1, n);
            ck_assert_mem_eq(&got, &want, sizeof(got));
            for (size_t c = 0; c < sizeof(cuts) / sizeof(cuts[0]); c++) {
                struct lane_sums sums = {0};

                for (size_t at = 0; at < n; at += cuts[c])
                    set->sum_lanes(&sums, x + at, at,
                                   n - at < cuts[c] ? n - at : cuts[c]);
                got = loop_sum_finish(&sums, n);
                ck_assert_mem_eq(&got, &want, sizeof(got));
            }
        }
    }
    free(x);
}
END_TEST

/* In one chain a lane, the sum of the squares is off by 2e-5, that of a softmax by 1e-4. */
START_TEST(long_sums_are_close)
{
    const size_t n = test_stride() > 1 ? LONG / 8 : LONG;
    float *x = long_row(), *y = xmalloc(n * sizeof(*y)), got;
    double squares = 0, exps = 0;

    for (size_t i = 0; i < n; i++) {
        y[i] = x[i] * x[i];
        squares += (double)y[i];
        exps += exp((double)x[i]);
    }
    for (int i = 0; kern_loops_at(i); i++) {
        kern_loops_at(i)->sum_rows(&got, y, 1, n);
        ck_assert_double_lt(fabs((double)got / squares - 1), 1e-6);
    }
    for (int i = 0; kern_loops_at(i); i++) {
        kern_loops_at(i)->softmax(y, x, 1, n);
        ck_assert_double_lt(fabs((double)y[0] / exp((double)x[0]) * exps - 1), 1e-6);
        kern_loops_at(i)->log_softmax(y, x, 1, n);
        ck_assert_double_lt(fabs(((double)y[0] - (double)x[0]) / log(exps) + 1), 1e-6);
    }
    free(x);
    free(y);
}
END_TEST

START_TEST(rows_and_adam_give_the_same_bits)
{
    static const struct adam_args adam = {0.01f, 0.9f, 0.999f, 1e-8f, 0};
    static struct operands in, first;
    static _Alignas(64) float y[2][N];
    static float sums[2][N];

    for (int i = 0; kern_loops_at(i); i++) {
        const struct kern_loops *set = kern_loops_at(i);
        const int k = i > 0;

        for (size_t n = 1; n <= 40; n += 13) {
            fill(in.a, DT_FLOAT, 5);
            set->softmax(y[k], (void *)in.a, N / n, n);
            set->sum_rows(sums[k], y[k], N / n, n);
            set->log_softmax(y[k], (void *)in.a, N / n, n);
        }
        fill(in.b, DT_FLOAT, 6);
        memset(in.c, 0, sizeof(in.c));
        set->adam((void *)in.a, (void *)in.b, (void *)in.c, y[k], N, &adam);
        if (i == 0)
            first = in;
        ck_assert(same(y[0], y[k], DT_FLOAT));
        ck_assert(same(sums[0], sums[k], DT_FLOAT));
        ck_assert(same(first.a, in.a, DT_FLOAT));
        ck_assert(same(first.c, in.c, DT_FLOAT));
    }
}
END_TEST

/* Rows computed side by side in registers have the same bits as rows computed alone. */
START_TEST(rows_do_not_depend_on_their_neighbours)
{
    static struct operands in;
    static _Alignas(64) float together[2][N], alone[2][N];

    for (int i = 0; kern_loops_at(i); i++) {
        const struct kern_loops *set = kern_loops_at(i);

        for (size_t n = 1; n <= 20; n++) {
            const size_t rows = N / n;

            fill(in.a, DT_FLOAT, 5);
            ((float *)(void *)in.a)[(rows / 2) * n] = NAN;
            set->softmax(together[0], (void *)in.a, rows, n);
            set->log_softmax(together[1], (void *)in.a, rows, n);
            for (size_t r = 0; r < rows; r++) {
                const float *row = (const float *)(void *)in.a + r * n;

                set->softmax(alone[0] + r * n, row, 1, n);
                set->log_softmax(alone[1] + r * n, row, 1, n);
            }
            for (size_t k = 0; k < rows * n; k++)
                for (int f = 0; f < 2; f++)
                    ck_assert(isnan(alone[f][k]) ? isnan(together[f][k])
                                                 : memcmp(&alone[f][k], &together[f][k],
                                                          sizeof(float)) == 0);
        }
    }
}
END_TEST

/* ---- Adam and polyak averages ---- */

static float one_nan(float x)
{
    return isnan(x) ? __builtin_nanf("") : x;
}

static float normal(float x)
{
    return fabsf(x) < 0x1p-126f ? 0.0f : x;
}

static void define_adam(float *var, float *m, float *v, const float *g, size_t n,
                        const struct adam_args *a)
{
    const float c1 = 1.0f - a->beta1, c2 = 1.0f - a->beta2;

    for (size_t i = 0; i < n; i++) {
        m[i] = one_nan(normal(m[i] + (g[i] - m[i]) * c1));
        v[i] = one_nan(normal(v[i] + (g[i] * g[i] - v[i]) * c2));
        const float step = a->nesterov ? m[i] * a->beta1 + g[i] * c1 : m[i];
        var[i] = one_nan(var[i] - a->rate * step / (sqrtf(v[i]) + a->epsilon));
    }
}

/* Fills with numbers; if odd, some of them are NaN, infinite, subnormal or -0. */
static void fill_odd(float *x, int salt, int odd)
{
    static const float strange[] = {NAN, INFINITY, -INFINITY, 0x1p-127f, -0.0f, 3e38f};

    for (int i = 0; i < N; i++)
        x[i] = odd && (i + salt) % 97 == 0
                   ? strange[(i + salt) / 97 % 6]
                   : (float)((i * 7919 + salt * 104729) % 41 - 20) * 0.37f;
    if (odd)
        x[0] = -__builtin_nanf("0x1234");
}

/* Every set gives the bits of the formula, also if some of a block are not finite. */
START_TEST(adam_is_its_formula)
{
    static const size_t lengths[] = {1, 5, 16, 33, 512, 600, N};
    static float x[4][N], want[3][N], got[3][N];
    const struct adam_args adam = {0.01f, 0.9f, 0.999f, 1e-8f, _i & 1};

    for (int k = 0; k < 4; k++)
        fill_odd(x[k], 3 * k, _i >> 1);
    for (int i = 0; kern_loops_at(i); i++)
        for (size_t k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++) {
            memcpy(want, x, sizeof(want));
            memcpy(got, x, sizeof(got));
            define_adam(want[0], want[1], want[2], x[3], lengths[k], &adam);
            kern_loops_at(i)->adam(got[0], got[1], got[2], x[3], lengths[k], &adam);
            ck_assert_mem_eq(want, got, sizeof(want));
        }
}
END_TEST

START_TEST(follow_rounds_each_step)
{
    static float x[2][N], want[N], got[N];

    fill_odd(x[0], 1, _i);
    fill_odd(x[1], 2, _i);
    for (int i = 0; i < N; i++) {
        const float kept = x[0][i] * 0.99f, moved = 0.01f * x[1][i];

        want[i] = one_nan(kept + moved);
    }
    for (int i = 0; kern_loops_at(i); i++) {
        memcpy(got, x[0], sizeof(got));
        kern_loops_at(i)->follow(got, got, 0.99f, x[1], 0.01f, N);
        ck_assert_mem_eq(want, got, sizeof(want));
        kern_loops_at(i)->follow(got, x[0], 0.99f, x[1], 0.01f, N);
        ck_assert_mem_eq(want, got, sizeof(want));
    }
}
END_TEST

/* The sign and payload of a NaN differ from machine to machine, so one NaN replaces
 * all. */
START_TEST(of_nans_one_is_left)
{
    const uint32_t given[] = {0xffc00000, 0x7f800001, 0x3f800000, 0x80000000, 0xff800000};
    const uint32_t left[] = {0x7fc00000, 0x7fc00000, 0x3f800000, 0x80000000, 0xff800000};
    uint32_t x[67], want[67], y[67];

    for (size_t i = 0; i < 67; i++) {
        x[i] = given[i % 5];
        want[i] = left[i % 5];
    }
    for (int i = 0; kern_loops_at(i); i++) {
        kern_loops_at(i)->canonical_nan((void *)y, (void *)x, 67);
        ck_assert_mem_eq(y, want, sizeof(y));
        memcpy(y, x, sizeof(y));
        kern_loops_at(i)->canonical_nan((void *)y, (void *)y, 67);
        ck_assert_mem_eq(y, want, sizeof(y));
    }
}
END_TEST

/* The number of rows does not change the softmax of a row. */
START_TEST(a_row_s_softmax_is_its_own)
{
    static struct operands in;
    static _Alignas(64) float all[N], alone[N];

    fill(in.a, DT_FLOAT, 7);
    for (size_t n = 1; n <= 20; n++) {
        for (size_t rows = 1; rows <= N / n; rows += 7) {
            kern_loops()->softmax(all, (void *)in.a, rows, n);
            for (size_t r = 0; r < rows; r++)
                kern_loops()->softmax(alone + r * n, (const float *)(void *)in.a + r * n,
                                      1, n);
            ck_assert_mem_eq(all, alone, rows * n * sizeof(float));
        }
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("loops");
    TCase *tc = tcase_create("loops");

    tcase_add_test(tc, every_loop_gives_the_same_bits);
    tcase_add_test(tc, sums_do_not_depend_on_the_cut);
    tcase_add_test(tc, long_sums_do_not_depend_on_the_cut);
    tcase_add_test(tc, long_sums_are_close);
    tcase_add_test(tc, rows_and_adam_give_the_same_bits);
    tcase_add_test(tc, rows_do_not_depend_on_their_neighbours);
    tcase_add_loop_test(tc, adam_is_its_formula, 0, 4);
    tcase_add_loop_test(tc, follow_rounds_each_step, 0, 2);
    tcase_add_test(tc, of_nans_one_is_left);
    tcase_add_test(tc, a_row_s_softmax_is_its_own);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
