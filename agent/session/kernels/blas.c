/* OpenBLAS, for large products where bits need not be the same on every machine. */
#include "agent/session/kernels/kernel.h"
#include "common/numerics/cpu_kernels.h"

#include <cblas.h>
#include <stdlib.h>

#ifdef __x86_64__
/* OpenBLAS knows processors by model number and falls back to SSE3 for those younger than
 * itself, a sixth of their speed. So its kernels are chosen here by what the processor
 * can do, through OpenBLAS's own variable, before its constructor reads it; the user's
 * choice stands. It also makes the bits of a product a matter of these three classes
 * alone. */
__attribute__((constructor(101))) static void choose_blas_kernels(void)
{
    if (cpu_kernels_are_here(CPU_KERNELS_AVX512))
        (void)setenv("OPENBLAS_CORETYPE", "SkylakeX", 0);
    else if (cpu_kernels_are_here(CPU_KERNELS_AVX2))
        (void)setenv("OPENBLAS_CORETYPE", "Haswell", 0);
}
#endif

/* Smaller ones are faster without packing. */
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
