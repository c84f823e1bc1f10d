/* Whole products: by dense.h, or by OpenBLAS if they are large and their bits may differ from
 * one machine to another. */
#include "agent/kernels/dense.h"
#include "agent/kernels/loops.h"
#include "common/numerics/cpu_kernels.h"

#include <cblas.h>
#include <stdlib.h>

/* Adds the product of one block, `rows` rows of A^T and B from `first` on, to C. The
 * first block sets C. */
static void add_block(const struct dense *whole, int64_t first, int64_t rows)
{
    struct dense d = *whole;

    d.k = rows;
    d.a += first * d.lda;
    d.b += d.transposed_b ? first : first * d.ldb;
    d.add = first > 0;
    kern_loops()->dense(&d);
}

void dense_whole(const struct dense *d)
{
    if (!d->transposed_a || d->k <= DENSE_BLOCK) {
        kern_loops()->dense(d);
        return;
    }
    for (int64_t k = 0; k < d->k; k += DENSE_BLOCK)
        add_block(d, k, d->k - k < DENSE_BLOCK ? d->k - k : DENSE_BLOCK);
}

/* ---- Operands in sanitized builds ---- */

#ifdef DENSE_CHECKED
#include <sanitizer/asan_interface.h>

static void check_rows(const float *x, int64_t rows, int64_t width, int64_t ld)
{
    for (int64_t i = 0; x != NULL && i < rows; i++) {
        void *row = (void *)(uintptr_t)(x + i * ld);
        const volatile char *bad =
            __asan_region_is_poisoned(row, (size_t)width * sizeof *x);

        if (bad != NULL)
            (void)*bad;
    }
}

void dense_check(const struct dense *d)
{
    if (d->m == 0 || d->n == 0)
        return;
    check_rows(d->a, d->transposed_a ? d->k : d->m, d->transposed_a ? d->m : d->k,
               d->lda);
    check_rows(d->b, d->transposed_b ? d->n : d->k, d->transposed_b ? d->k : d->n,
               d->ldb);
    check_rows(d->c, d->m, d->n, d->ldc);
    check_rows(d->feature, d->m, d->n, d->ld_feature);
    check_rows(d->bias, 1, d->n, 0);
    check_rows(d->column_sums, 1, d->n, 0);
}
#endif

/* ---- OpenBLAS ---- */

#ifdef __x86_64__
/* OpenBLAS recognises processors by model number. On a processor newer than itself it
 * falls back to SSE3 kernels, which run at a sixth of the speed. This constructor, which
 * runs before OpenBLAS's own, therefore looks at what the processor can do and chooses
 * the kernels through OpenBLAS's environment variable, unless the user has set it. As a
 * result, the bits of a product depend only on which of these three classes the processor
 * is in. */
__attribute__((constructor(101))) static void choose_blas_kernels(void)
{
    if (cpu_kernels_are_here(CPU_KERNELS_AVX512))
        (void)setenv("OPENBLAS_CORETYPE", "SkylakeX", 0);
    else if (cpu_kernels_are_here(CPU_KERNELS_AVX2))
        (void)setenv("OPENBLAS_CORETYPE", "Haswell", 0);
}
#endif

/* OpenBLAS packs its operands first, which is not worth it for smaller products. */
#define BLAS_SIDE     256
#define BLAS_MULTIPLY (512ll * 512 * 512)

int blas_wants(int64_t m, int64_t n, int64_t k)
{
    return m >= BLAS_SIDE && n >= BLAS_SIDE && k >= BLAS_SIDE &&
           (double)m * (double)n * (double)k >= (double)BLAS_MULTIPLY;
}

void blas_product(const struct dense *d)
{
    cblas_sgemm(CblasRowMajor, d->transposed_a ? CblasTrans : CblasNoTrans,
                d->transposed_b ? CblasTrans : CblasNoTrans, (blasint)d->m, (blasint)d->n,
                (blasint)d->k, 1.0f, d->a, (blasint)d->lda, d->b, (blasint)d->ldb,
                d->add ? 1.0f : 0.0f, d->c, (blasint)d->ldc);
}
