/* dense.h - products of float32 matrices that give the same bits on every machine.
 *
 * Every element of a product is one chain of fused multiply-adds over k in order,
 *     x = +0;  x = fma(a(i, l), b(l, j), x)  for l = 0, 1, ..., k - 1
 * After that the bias is added and the activation or its gradient is applied, each rounded
 * as a separate operation. So the bits do not depend on instruction set, tile, leading
 * dimension, number of rows or neighbouring elements, and a fused product equals the result
 * of separate operations.
 *
 * If the product sums over the batch (weight and bias gradients), it sums blocks of
 * DENSE_BLOCK rows: each block is a chain of its own from +0, and the blocks are added in
 * order.
 *
 * dense.c is built once for each instruction set; kern_loops() returns the best one that
 * this machine can run.
 */
#ifndef AGENT_KERNELS_DENSE_H
#define AGENT_KERNELS_DENSE_H

#include <stddef.h>
#include <stdint.h>

#define DENSE_BLOCK 128 /* rows of the batch that are summed in one chain */

/* Applied to an element x after the bias; f is the element of `feature` at the same place. */
enum dense_after {
    DENSE_AS_IS,
    DENSE_RELU,            /* x < 0 ? 0 : x */
    DENSE_LEAKY_RELU,      /* x > 0 ? x : x alpha */
    DENSE_RELU_GRAD,       /* f > 0 ? x : 0 */
    DENSE_LEAKY_RELU_GRAD, /* f > 0 ? x : x alpha */
};

/* C (m, n) = A (m, k) B (k, n), then bias and `after`. Row strides in elements. */
struct dense {
    int64_t m, n, k;
    const float *a;
    int64_t lda;
    int transposed_a; /* A is stored transposed: element (i, l) at a[l lda + i] */
    const float *b;
    int64_t ldb;
    int transposed_b; /* likewise: element (l, j) at b[j ldb + l] */
    float *c;         /* does not overlap any operand */
    int64_t ldc;
    int add; /* add to C, which holds the sum of earlier blocks; k is the size of this block */
    const float *bias; /* (n), or NULL */
    enum dense_after after;
    float alpha;
    const float *feature; /* (m, n), for the gradients */
    int64_t ld_feature;
    /* (n), or NULL: receives the sum of each column of C, a chain over the rows from +0;
     * with add_sums it is added to the previous content. */
    float *column_sums;
    int add_sums;
};

typedef void (*dense_fn)(const struct dense *d);

/* dst (k, n) = the transpose of src (n, k), whose rows are ld elements apart. */
typedef void (*dense_transpose_fn)(float *dst, const float *src, int64_t n, int64_t k,
                                   int64_t ld);

/* Computes all of C; in blocks of DENSE_BLOCK rows if it sums over the batch. */
void dense_whole(const struct dense *d);

/* Sanitized builds only, in which dense.c is left out of the instrumentation: reads the first byte
 * of an operand that AddressSanitizer holds for poisoned, if there is one, so that it is reported
 * here. */
void dense_check(const struct dense *d);

/* Whether OpenBLAS computes a product of these sizes under native numerics: each side at
 * least 256, and m n k at least 512 x 512 x 512. */
int blas_wants(int64_t m, int64_t n, int64_t k);
/* C = A B, or C += A B with `add`; ignores bias, after and column_sums. */
void blas_product(const struct dense *d);

#endif
