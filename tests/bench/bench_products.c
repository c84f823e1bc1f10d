/* Our matrix products against OpenBLAS's: forward (X W), backward (dY W^T) and weight
 * gradients (X^T dY), of sizes that policies and critics have and of large ones. Both in
 * turn, medians; the geometric mean of the ratios, and the worst of those with at least
 * 64 outputs.
 *
 *     bench_products [all]        all: also prints the rows that otherwise count only in
 *                                 the summary
 */
#include "agent/kernels/loops.h"
#include "common/err/check.h"
#include "tests/bench/median.h"
#include "tests/bench/yardstick.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS     15
/* small products are repeated until a round has this many operations */
#define ROUND_FLOP 4e5
#define MOST       (1024 * 1024)

enum form { FORWARD, BACKWARD, WEIGHTS };

static const char *const form_names[] = {"X W", "dY W^T", "X^T dY"};

struct summary {
    double log_sum, worst;
    struct dense worst_of;
    int n;
};

static double now_us(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static float *numbers(void)
{
    float *x = aligned_alloc(64, MOST * sizeof(float));

    CHECK(x != NULL);
    for (int i = 0; i < MOST; i++)
        x[i] = (float)((unsigned)i * 7919u % 2001u) / 1000.0f - 1.0f;
    return x;
}

static struct dense product(enum form form, int64_t m, int64_t n, int64_t k)
{
    static float *a, *b, *c;

    if (a == NULL)
        a = numbers(), b = numbers(), c = numbers();
    return (struct dense){.m = m,
                          .n = n,
                          .k = k,
                          .a = a,
                          .lda = form == WEIGHTS ? m : k,
                          .transposed_a = form == WEIGHTS,
                          .b = b,
                          .ldb = form == BACKWARD ? k : n,
                          .transposed_b = form == BACKWARD,
                          .c = c,
                          .ldc = n};
}

static double time_of(void (*fn)(const struct dense *d), const struct dense *d,
                      int repeat)
{
    const double begin = now_us();

    for (int i = 0; i < repeat; i++)
        fn(d);
    return (now_us() - begin) / repeat;
}

static void measure(enum form form, int64_t m, int64_t n, int64_t k, int shown,
                    struct summary *s)
{
    const struct dense d = product(form, m, n, k);
    const double flop = 2.0 * (double)m * (double)n * (double)k;
    const int repeat = 1 + (int)(ROUND_FLOP / flop);
    double ours[ROUNDS], blas[ROUNDS], us, ratio;

    for (int i = 0; i < ROUNDS; i++) {
        ours[i] = time_of(dense_whole, &d, repeat);
        blas[i] = time_of(blas_product, &d, repeat);
    }
    us = median(ours, ROUNDS);
    ratio = us / median(blas, ROUNDS);
    s->log_sum += log(ratio);
    s->n++;
    if (m * n >= 64 && ratio > s->worst) {
        s->worst = ratio;
        s->worst_of = d;
    }
    if (shown)
        (void)printf("%-6s %5lld x %4lld, k %4lld: %9.2f us, %6.1f GFlop/s, %.2f of "
                     "OpenBLAS's time\n",
                     form_names[form], (long long)m, (long long)n, (long long)k, us,
                     flop / us / 1e3, ratio);
}

int main(int argc, char **argv)
{
    static const struct {
        enum form form;
        int64_t m, n, k;
    } named[] = {
        {FORWARD, 1024, 64, 69},  {FORWARD, 128, 64, 64},   {FORWARD, 128, 64, 18},
        {FORWARD, 32, 64, 18},    {FORWARD, 1, 64, 18},     {FORWARD, 1024, 5, 64},
        {FORWARD, 1024, 1, 64},   {FORWARD, 128, 128, 54},  {BACKWARD, 1024, 64, 64},
        {BACKWARD, 1024, 5, 64},  {BACKWARD, 128, 64, 1},   {WEIGHTS, 64, 64, 1024},
        {WEIGHTS, 69, 64, 128},   {WEIGHTS, 64, 5, 128},    {WEIGHTS, 64, 1, 1024},
        {FORWARD, 256, 256, 256}, {FORWARD, 512, 512, 512}, {FORWARD, 1024, 1024, 1024},
    };
    static const int64_t rows[] = {1, 3, 32, 64, 128, 256, 1024};
    static const int64_t columns[] = {1, 2, 5, 8, 16, 32, 64, 128, 512};
    static const int64_t depths[] = {1, 5, 18, 54, 64, 69, 128, 512};
    const int all = argc > 1 && strcmp(argv[1], "all") == 0;
    struct summary s = {0};

    (void)printf("kernels: %s; peak of the core %.1f GFlop/s\n", kern_loops()->isa,
                 yardstick_peak() / 1e9);
    for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++)
        measure(named[i].form, named[i].m, named[i].n, named[i].k, 1, &s);
    s = (struct summary){0};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (size_t j = 0; j < sizeof(columns) / sizeof(columns[0]); j++)
            for (size_t l = 0; l < sizeof(depths) / sizeof(depths[0]); l++) {
                measure(FORWARD, rows[i], columns[j], depths[l], all, &s);
                measure(BACKWARD, rows[i], columns[j], depths[l], all, &s);
                measure(WEIGHTS, depths[l], columns[j], rows[i], all, &s);
            }
    (void)printf(
        "%d products: geometric mean %.2f (goal: below 0.75); worst of those with "
        "64 outputs: %lld x %lld, k %lld, %.2f (goal: at most 1.1)\n",
        s.n, exp(s.log_sum / s.n), (long long)s.worst_of.m, (long long)s.worst_of.n,
        (long long)s.worst_of.k, s.worst);
    return 0;
}
