#include "tests/bench/yardstick.h"

#include "common/err/check.h"
#include "common/numerics/cpu_kernels.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

static int64_t floats_of_a(const struct dense *d)
{
    return d->lda * (d->transposed_a ? d->k : d->m);
}

static int64_t floats_of_b(const struct dense *d)
{
    return d->ldb * (d->transposed_b ? d->n : d->k);
}

/* An array of `floats` floats, made at the first call. Operands of one size share their
 * memory, so that they are in the cache whenever they fit. */
static float *shared(size_t floats)
{
    static struct {
        size_t floats;
        float *at;
    } made[64];
    size_t i = 0;

    while (made[i].at != NULL && made[i].floats != floats)
        CHECK(++i < sizeof(made) / sizeof(made[0]));
    if (made[i].at == NULL) {
        made[i].floats = floats;
        made[i].at = aligned_alloc(64, (floats * sizeof(float) + 63) / 64 * 64);
        CHECK(made[i].at != NULL);
        for (size_t k = 0; k < floats; k++)
            made[i].at[k] = (float)(k * 7919 % 2001) / 1000.0f - 1.0f;
    }
    return made[i].at;
}

void yardstick_prepare(struct dense *products, size_t n)
{
    static float *out;
    int64_t most = 0;

    for (size_t i = 0; i < n; i++)
        most = products[i].ldc * products[i].m > most ? products[i].ldc * products[i].m
                                                      : most;
    free(out);
    out = aligned_alloc(64, ((size_t)most * sizeof(float) + 63) / 64 * 64);
    CHECK(out != NULL);
    memset(out, 0, (size_t)most * sizeof(float));
    for (size_t i = 0; i < n; i++) {
        products[i].a = shared((size_t)floats_of_a(&products[i]));
        products[i].b = shared((size_t)floats_of_b(&products[i]));
        products[i].c = out;
    }
}

static void by_chunks(struct dense d)
{
    int64_t *side = d.transposed_a ? &d.k : &d.m;
    const int64_t all = *side;

    for (int64_t row = 0; row < all; row += DENSE_BLOCK) {
        *side = all - row < DENSE_BLOCK ? all - row : DENSE_BLOCK;
        d.add = d.transposed_a && row > 0;
        blas_product(&d);
        d.a += DENSE_BLOCK * d.lda;
        if (d.transposed_a)
            d.b += DENSE_BLOCK * d.ldb;
        else
            d.c += DENSE_BLOCK * d.ldc;
    }
}

void yardstick_run(const struct dense *products, size_t n)
{
    for (size_t i = 0; i < n; i++)
        by_chunks(products[i]);
}

double yardstick_flop(const struct dense *products, size_t n)
{
    double flop = 0;

    for (size_t i = 0; i < n; i++)
        flop +=
            2.0 * (double)products[i].m * (double)products[i].n * (double)products[i].k;
    return flop;
}

#define CHAINS 10
#define STEPS  200000

#ifdef __x86_64__
__attribute__((target("avx512f"))) static double multiply_512(void)
{
    const __m512 x = _mm512_set1_ps(1.0000001f), y = _mm512_set1_ps(1e-9f);
    __m512 sum[CHAINS];

    for (int c = 0; c < CHAINS; c++)
        sum[c] = _mm512_set1_ps((float)c);
    for (int i = 0; i < STEPS; i++)
        for (int c = 0; c < CHAINS; c++)
            sum[c] = _mm512_fmadd_ps(sum[c], x, y);
    for (int c = 1; c < CHAINS; c++)
        sum[0] = _mm512_add_ps(sum[0], sum[c]);
    return (double)_mm512_cvtss_f32(sum[0]);
}

__attribute__((target("avx2,fma"))) static double multiply_256(void)
{
    const __m256 x = _mm256_set1_ps(1.0000001f), y = _mm256_set1_ps(1e-9f);
    __m256 sum[CHAINS];

    for (int c = 0; c < CHAINS; c++)
        sum[c] = _mm256_set1_ps((float)c);
    for (int i = 0; i < STEPS; i++)
        for (int c = 0; c < CHAINS; c++)
            sum[c] = _mm256_fmadd_ps(sum[c], x, y);
    for (int c = 1; c < CHAINS; c++)
        sum[0] = _mm256_add_ps(sum[0], sum[c]);
    return (double)_mm256_cvtss_f32(sum[0]);
}
#endif

static double multiply(int *ret_lanes)
{
#ifdef __x86_64__
    const enum cpu_kernels kernels = cpu_kernels();

    *ret_lanes = kernels == CPU_KERNELS_AVX512 ? 16 : 8;
    if (kernels >= CPU_KERNELS_AVX2)
        return kernels == CPU_KERNELS_AVX512 ? multiply_512() : multiply_256();
#endif
    *ret_lanes = 0;
    return 0;
}

double yardstick_peak(void)
{
    volatile double kept;
    double best = 0;
    int lanes = 0;

    for (int i = 0; i < 20; i++) {
        struct timespec a, b;
        double seconds;

        (void)clock_gettime(CLOCK_MONOTONIC, &a);
        kept = multiply(&lanes);
        (void)clock_gettime(CLOCK_MONOTONIC, &b);
        seconds = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9;
        if (2.0 * CHAINS * STEPS * lanes / seconds > best)
            best = 2.0 * CHAINS * STEPS * lanes / seconds;
    }
    (void)kept;
    return best;
}
