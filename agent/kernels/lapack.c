/* LAPACK has matrices column by column: it sees the transpose of ours. */
#include "agent/kernels/lapack.h"

#include <cblas.h>
#include <f77blas.h>

_Static_assert(sizeof(blasint) == sizeof(int32_t), "pivots are 32-bit integers");

#define LAPACK_SIDE 32

int lapack_wants(int64_t n)
{
    return n >= LAPACK_SIDE && n <= INT32_MAX;
}

/* The lower triangle l of a is the upper one of the transpose, u' u with u = l'. */
int lapack_cholesky(double *a, int64_t n)
{
    blasint rows = (blasint)n, info = 0;
    char triangle[] = "U";

    (void)BLASFUNC(dpotrf)(triangle, &rows, a, &rows, &info);
    for (int64_t i = 0; info == 0 && i < n; i++)
        info = !(a[i * n + i] > 0); /* it lets NaNs pass */
    return info == 0 ? 0 : -1;
}

/* The transpose is p l u, so that a = u' l' p'. */
int lapack_factor(double *a, int64_t n, int32_t *pivots)
{
    blasint rows = (blasint)n, info = 0; /* info: where the diagonal has a 0 */
    int sign = 1;

    (void)BLASFUNC(dgetrf)(&rows, &rows, a, &rows, pivots, &info);
    for (int64_t i = 0; i < n; i++)
        sign = pivots[i] != i + 1 ? -sign : sign;
    return sign;
}

static void solve_triangle(const double *a, int64_t n, enum CBLAS_UPLO triangle,
                           enum CBLAS_DIAG diagonal, double *b, int64_t k)
{
    if (k > 0)
        cblas_dtrsm(CblasRowMajor, CblasLeft, triangle, CblasNoTrans, diagonal,
                    (blasint)n, (blasint)k, 1, a, (blasint)n, b, (blasint)k);
}

void lapack_solve(const double *a, int64_t n, const int32_t *pivots, double *b, int64_t k)
{
    solve_triangle(a, n, CblasLower, CblasNonUnit, b, k);
    solve_triangle(a, n, CblasUpper, CblasUnit, b, k);
    for (int64_t i = n - 1; i >= 0; i--)
        cblas_dswap((blasint)k, b + i * k, 1, b + (pivots[i] - 1) * k, 1);
}

void lapack_triangle(const double *a, int64_t n, int lower, double *b, int64_t k)
{
    solve_triangle(a, n, lower ? CblasLower : CblasUpper, CblasNonUnit, b, k);
}
