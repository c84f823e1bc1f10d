/* lapack.h - factors of square matrices of doubles by OpenBLAS, for `numerics: native`.
 *
 * Matrices are row by row. The bits depend on the CPU and on the build, as those of blas_product
 * (dense.h) do; the same call on the same machine gives the same bits. No function has a state.
 */
#ifndef AGENT_KERNELS_LAPACK_H
#define AGENT_KERNELS_LAPACK_H

#include <stdint.h>

/* Whether OpenBLAS is faster than plain loops for matrices of n rows; they may have no others. */
int lapack_wants(int64_t n);

/* Replaces the lower triangle of a (n, n) by l, l l' = a; only that triangle is read, the other
 * one is left. 0, or -1: a is not positive definite. */
int lapack_cholesky(double *a, int64_t n);

/* Replaces a (n, n) by its factors: a triangle with its diagonal below, one with a diagonal of
 * ones above. pivots (n): the columns that were exchanged. Returns the sign of the exchanges,
 * which the product of the diagonal, the determinant, lacks. */
int lapack_factor(double *a, int64_t n, int32_t *pivots);
/* Replaces b (n, k) by the solution of a x = b; a and pivots are lapack_factor's, and no element
 * of the diagonal is 0. */
void lapack_solve(const double *a, int64_t n, const int32_t *pivots, double *b,
                  int64_t k);

/* Replaces b (n, k) by the solution of a x = b; a is triangular, the other triangle is not read,
 * and no element of the diagonal is 0. */
void lapack_triangle(const double *a, int64_t n, int lower, double *b, int64_t k);

#endif
