/* Products of every size, form and instruction set have the bits that dense.h defines,
 * which are computed here one element at a time; they write nothing outside of C and read nothing
 * behind their operands, which end where memory does. */
#include "agent/kernels/loops.h"
#include "agent/ops/kernel.h"
#include "tests/support/test_main.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SIDE = 330, FLOATS = SIDE * SIDE };
/* Floats before and behind C, which must not change. */
enum { BEFORE = 16, BEHIND = 256 };

enum { OPERANDS = 4 };

struct bench {
    float *end[OPERANDS]; /* of memory that no operand may be read behind */
    float a[FLOATS], b[FLOATS], feature[FLOATS], bias[SIDE];
    float want[BEFORE + FLOATS + BEHIND], got[BEFORE + FLOATS + BEHIND];
    float want_sums[SIDE], got_sums[SIDE];
};

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* The bytes of FLOATS floats, in whole pages. */
static size_t operand_size(void)
{
    return (FLOATS * sizeof(float) + page_size() - 1) / page_size() * page_size();
}

/* The end of memory for FLOATS floats; what follows cannot be read, or, with
 * BROOD_TEST_READABLE_END, not be written. */
static float *end_of_memory(void)
{
    const size_t page = page_size(), size = operand_size();
    const int behind = getenv("BROOD_TEST_READABLE_END") != NULL ? PROT_READ : PROT_NONE;
    char *p = mmap(NULL, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                   -1, 0);

    ck_assert_ptr_ne(p, MAP_FAILED);
    ck_assert_int_eq(mprotect(p + size, page, behind), 0);
    return (float *)(p + size);
}

static struct bench *bench_new(void)
{
    struct bench *t = calloc(1, sizeof(*t));

    for (int i = 0; i < OPERANDS; i++)
        t->end[i] = end_of_memory();
    for (int i = 0; i < FLOATS; i++) {
        t->a[i] = (float)(i * 7919 % 2003 - 1001) / 700.0f;
        t->b[i] = (float)(i * 6007 % 1999 - 999) / 900.0f;
        t->feature[i] = (float)(i * 31 % 17 - 8);
    }
    for (int i = 0; i < SIDE; i++)
        t->bias[i] = (float)(i * 13 % 29 - 14) / 10.0f;
    return t;
}

static void bench_free(struct bench *t)
{
    for (int i = 0; i < OPERANDS; i++)
        munmap((char *)t->end[i] - operand_size(), operand_size() + page_size());
    free(t);
}

/* ---- the definition ---- */

static float product_at(const struct dense *d, int64_t i, int64_t j)
{
    float x = 0;

    for (int64_t l = 0; l < d->k; l++)
        x = fmaf(d->transposed_a ? d->a[l * d->lda + i] : d->a[i * d->lda + l],
                 d->transposed_b ? d->b[j * d->ldb + l] : d->b[l * d->ldb + j], x);
    return x;
}

static float after(const struct dense *d, float x, float f)
{
    switch (d->after) {
    case DENSE_RELU:
        return x < 0 ? 0 : x;
    case DENSE_LEAKY_RELU:
        return x > 0 ? x : x * d->alpha;
    case DENSE_RELU_GRAD:
        return f > 0 ? x : 0;
    case DENSE_LEAKY_RELU_GRAD:
        return f > 0 ? x : x * d->alpha;
    default:
        return x;
    }
}

static void define(const struct dense *d, float *c, float *sums)
{
    for (int64_t j = 0; j < d->n; j++) {
        float sum = 0;

        for (int64_t i = 0; i < d->m; i++) {
            float x = product_at(d, i, j);

            x = after(d, d->bias ? x + d->bias[j] : x,
                      d->feature ? d->feature[i * d->ld_feature + j] : 0);
            x = d->add ? c[i * d->ldc + j] + x : x;
            c[i * d->ldc + j] = x;
            sum += x;
        }
        sums[j] = d->add_sums ? sums[j] + sum : sum;
    }
}

/* ---- comparing with it ---- */

/* The number of floats of want and got that are compared for a product. */
static size_t extent(const struct dense *d)
{
    return BEFORE + (size_t)((d->m - 1) * d->ldc + d->n) + BEHIND;
}

static void begin(const struct dense *d, float *c, float *sums)
{
    for (size_t i = 0; i < extent(d); i++)
        c[i] = (float)i / 64;
    for (int i = 0; i < d->n; i++)
        sums[i] = (float)i;
}

/* A copy of `rows` rows that ends where memory does; NULL of NULL. */
static const float *before_end(float *end, const float *x, int64_t rows, int64_t width,
                               int64_t ld)
{
    const size_t n = (size_t)((rows - 1) * ld + width);

    return x == NULL ? NULL : memcpy(end - n, x, n * sizeof(*x));
}

static void ck_set(struct bench *t, struct dense d, const struct kern_loops *set)
{
    const size_t sums = d.column_sums ? (size_t)d.n * sizeof(float) : 0;

    begin(&d, t->got, t->got_sums);
    d.c = t->got + BEFORE;
    d.a = before_end(t->end[0], d.a, d.transposed_a ? d.k : d.m,
                     d.transposed_a ? d.m : d.k, d.lda);
    d.b = before_end(t->end[1], d.b, d.transposed_b ? d.n : d.k,
                     d.transposed_b ? d.k : d.n, d.ldb);
    d.bias = before_end(t->end[2], d.bias, 1, d.n, 0);
    d.feature = before_end(t->end[3], d.feature, d.m, d.n, d.ld_feature);
    set->dense(&d);
    if (memcmp(t->got, t->want, extent(&d) * sizeof(float)) != 0 ||
        memcmp(t->got_sums, t->want_sums, sums) != 0)
        ck_abort_msg("%s: %lld x %lld, k %lld, turned %d %d, after %d, add %d, sums %d",
                     set->isa, (long long)d.m, (long long)d.n, (long long)d.k,
                     d.transposed_a, d.transposed_b, (int)d.after, d.add, sums > 0);
}

static void ck_defined(struct bench *t, struct dense d)
{
    d.a = t->a;
    d.b = t->b;
    d.lda = d.lda != 0 ? d.lda : d.transposed_a ? d.m : d.k;
    d.ldb = d.ldb != 0 ? d.ldb : d.transposed_b ? d.k : d.n;
    d.ldc = d.ldc != 0 ? d.ldc : d.n;
    begin(&d, t->want, t->want_sums);
    d.c = t->want + BEFORE;
    define(&d, d.c, t->want_sums);
    if (d.column_sums)
        d.column_sums = t->got_sums;
    for (int k = 0; kern_loops_at(k) != NULL; k++)
        ck_set(t, d, kern_loops_at(k));
}

static const int64_t sides[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  11, 12,
                                13, 15, 16, 17, 23, 31, 32, 33, 47, 64, 65};
#define N_SIDES (sizeof(sides) / sizeof(sides[0]))

START_TEST(every_size)
{
    struct bench *t = bench_new();
    const int turned = _i;
    const size_t stride = (size_t)test_stride();

    for (size_t i = 0; i < N_SIDES; i++)
        for (size_t j = (i + (size_t)turned) % stride; j < N_SIDES; j += stride)
            for (size_t l = 0; l < N_SIDES; l += 3)
                ck_defined(t, (struct dense){.m = sides[i],
                                             .n = sides[j],
                                             .k = sides[l],
                                             .transposed_a = turned & 1,
                                             .transposed_b = turned >> 1});
    bench_free(t);
}
END_TEST

/* Bias, activations, gradients, sums of columns; rows that are not adjacent. */
START_TEST(everything_that_comes_after)
{
    static const int64_t columns[] = {1, 5, 8, 16, 33, 64};
    struct bench *t = bench_new();

    for (int64_t m = 1; m <= 40; m += test_stride() > 1 ? 7 : 3)
        for (size_t j = 0; j < sizeof(columns) / sizeof(columns[0]); j++)
            for (int what = DENSE_AS_IS; what <= DENSE_LEAKY_RELU_GRAD; what++)
                for (int more = 0; more < 4; more++)
                    ck_defined(
                        t, (struct dense){.m = m,
                                          .n = columns[j],
                                          .k = 18,
                                          .lda = 69,
                                          .ldb = columns[j] + 3,
                                          .ldc = columns[j] + 2,
                                          .bias = more & 1 ? t->bias : NULL,
                                          .after = (enum dense_after)what,
                                          .alpha = 0.2f,
                                          .feature = t->feature,
                                          .ld_feature = 70,
                                          .column_sums = more & 2 ? t->got_sums : NULL,
                                          .add_sums = m > 20});
    bench_free(t);
}
END_TEST

/* For a few rows, tiles are wider. */
START_TEST(few_rows_of_many_columns)
{
    static const int64_t columns[] = {63, 64, 65, 100, 127, 128, 129, 200, 257, 330};
    struct bench *t = bench_new();

    for (int64_t m = 1; m <= 4; m++)
        for (size_t j = 0; j < sizeof(columns) / sizeof(columns[0]); j++)
            for (int what = 0; what < 16; what++)
                ck_defined(t,
                           (struct dense){.m = m,
                                          .n = columns[j],
                                          .k = what % 3 == 0 ? 1 : 19,
                                          .transposed_a = what & 1,
                                          .transposed_b = (what >> 1) & 1,
                                          .add = (what >> 2) & 1,
                                          .bias = what & 8 ? t->bias : NULL,
                                          .after = what & 8 ? DENSE_RELU : DENSE_AS_IS,
                                          .column_sums = what & 8 ? t->got_sums : NULL});
    bench_free(t);
}
END_TEST

/* C is computed in strips of rows. */
START_TEST(short_sums_of_many_columns)
{
    static const int64_t rows[] = {18, 19, 36, 37, 73}, columns[] = {256, 257, 319};
    static const int64_t k[] = {1, 3, 8};
    struct bench *t = bench_new();
    const int every =
        test_stride() > 1 ? 3 : 1; /* no divisor of 16: each way with some rows */

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (int what = DENSE_AS_IS; what <= DENSE_LEAKY_RELU_GRAD; what++)
            for (int more = (int)i % every; more < 16; more += every)
                ck_defined(t, (struct dense){.m = rows[i],
                                             .n = columns[(i + (size_t)more) % 3],
                                             .k = k[(size_t)what % 3],
                                             .ldc = 321,
                                             .transposed_a = more & 1,
                                             .transposed_b = (more >> 1) & 1,
                                             .add = (more >> 2) & 1,
                                             .bias = more & 8 ? t->bias : NULL,
                                             .after = (enum dense_after)what,
                                             .alpha = 0.2f,
                                             .feature = t->feature,
                                             .ld_feature = 322});
    bench_free(t);
}
END_TEST

/* k is cut into parts and B is packed, which must not change the bits. */
START_TEST(large_ones)
{
    struct bench *t = bench_new();

    for (int turned = 0; turned<4; turned += test_stride()> 1 ? 3 : 1) {
        ck_defined(t, (struct dense){.m = 70,
                                     .n = 130,
                                     .k = 300,
                                     .transposed_a = turned & 1,
                                     .transposed_b = turned >> 1,
                                     .bias = t->bias,
                                     .after = DENSE_RELU,
                                     .column_sums = t->got_sums});
        ck_defined(t, (struct dense){.m = 300,
                                     .n = 3,
                                     .k = 257,
                                     .transposed_a = turned & 1,
                                     .transposed_b = turned >> 1});
    }
    bench_free(t);
}
END_TEST

/* The batch is summed over in blocks of 128 rows, which are added in order. */
START_TEST(blocks_of_the_batch)
{
    static const int64_t batch[] = {1, 127, 128, 129, 256, 300};
    static const int64_t n[] = {1, 5, 32};
    struct bench *t = bench_new();

    for (size_t q = 0; q < 3 * sizeof(batch) / sizeof(batch[0]); q++) {
        struct dense d = {.m = 21, .n = n[q % 3], .k = batch[q / 3], .transposed_a = 1};
        const int64_t all = d.k;

        d.a = t->a;
        d.b = t->b;
        d.lda = d.m;
        d.ldb = d.ldc = d.n;
        d.c = t->got;
        dense_whole(&d);
        d.c = t->want;
        for (int64_t row = 0; row < all; row += 128) {
            d.k = all - row < 128 ? all - row : 128;
            d.add = row > 0;
            d.a = t->a + row * d.lda;
            d.b = t->b + row * d.ldb;
            define(&d, d.c, t->want_sums);
        }
        ck_assert_mem_eq(t->got, t->want, (size_t)(d.m * d.n) * sizeof(float));
    }
    bench_free(t);
}
END_TEST

/* The sum that plain C rounds once is that of fma(). */
START_TEST(numbers_at_the_edges)
{
    static const float odd[] = {
        0x1p-149f,        -0x1p-126f, 0x1.fffffep127f, 0x1p-75f,      3e38f,
        -0x1.000002p-63f, 1.0f,       -0.0f,           0.0f,          0x1.fffffep-127f,
        0x1.8p-74f,       -0x1p127f,  1e-30f,          0x1.fffffep0f, -1e-38f,
        0x1.555556p10f,   NAN};
    enum { N = sizeof(odd) / sizeof(odd[0]) };
    struct bench *t = bench_new();

    for (int i = 0; i < N * N; i++) {
        t->a[i] = odd[i / N];
        t->b[i] = odd[(i * 7 + i / N) % N];
    }
    for (int64_t k = 1; k <= 3; k++)
        for (int64_t n = 1; n <= N;
             n += 4) /* a ReLU keeps NaN, and -0 from an underflow */
            for (int what = DENSE_AS_IS; what <= DENSE_RELU; what++)
                ck_defined(t, (struct dense){.m = N,
                                             .n = n,
                                             .k = k,
                                             .lda = N,
                                             .ldb = N,
                                             .after = (enum dense_after)what});
    bench_free(t);
}
END_TEST

START_TEST(turns)
{
    struct bench *t = bench_new();

    for (int k = 0; kern_loops_at(k) != NULL; k++)
        for (int64_t n = 1; n < 40; n++) {
            const int64_t rows = 41 - n, ld = rows + 2;

            kern_loops_at(k)->transpose(t->got, t->a, n, rows, ld);
            for (int64_t j = 0; j < n; j++)
                for (int64_t l = 0; l < rows; l++)
                    ck_assert_mem_eq(&t->got[l * n + j], &t->a[j * ld + l],
                                     sizeof(float));
        }
    bench_free(t);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("dense");
    TCase *tc = tcase_create("dense");

    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, every_size, 0, 4);
    tcase_add_test(tc, everything_that_comes_after);
    tcase_add_test(tc, few_rows_of_many_columns);
    tcase_add_test(tc, short_sums_of_many_columns);
    tcase_add_test(tc, large_ones);
    tcase_add_test(tc, blocks_of_the_batch);
    tcase_add_test(tc, numbers_at_the_edges);
    tcase_add_test(tc, turns);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
