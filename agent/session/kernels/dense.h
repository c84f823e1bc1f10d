/* dense.h - products of float32 matrices that give the same bits on every machine.
 *
 * Every element of a product is one chain of fused multiply-adds over k in order,
 *     x = +0;  x = fma(a(i, l), b(l, j), x)  for l = 0, 1, ..., k - 1
 * and what is done to it comes afterwards, each operation rounded as it would be alone:
 * the bias is added, then the activation or its gradient is taken. So the bits depend on
 * no instruction set, tile, leading dimension, number of rows or neighbour, and a fused
 * product equals one whose parts are fetched.
 *
 * Where the batch is what is summed over (weight and bias gradients), the sum goes in
 * blocks of DENSE_BLOCK rows: each block a chain of its own from +0, blocks added in
 * order.
 *
 * dense.c is built once for each instruction set; kern_loops() has the best one that this
 * machine can run.
 */
#ifndef AGENT_SESSION_KERNELS_DENSE_H
#define AGENT_SESSION_KERNELS_DENSE_H

#include <stddef.h>
#include <stdint.h>

#define DENSE_BLOCK 128 /* rows of the batch that are summed in one chain */

/* What becomes of an element x, after the bias; f is the feature at its place. */
enum dense_after {
    DENSE_AS_IS,
    DENSE_RELU,            /* x < 0 ? 0 : x */
    DENSE_LEAKY_RELU,      /* x > 0 ? x : x alpha */
    DENSE_RELU_GRAD,       /* f > 0 ? x : 0 */
    DENSE_LEAKY_RELU_GRAD, /* f > 0 ? x : x alpha */
};

/* C (m, n) = A (m, k) B (k, n) and what is done to it. Row strides in elements. */
struct dense {
    int64_t m, n, k;
    const float *a;
    int64_t lda;
    int turned_a; /* A is the transpose of what lies there: element (i, l) at a[l lda + i] */
    const float *b;
    int64_t ldb;
    int turned_b; /* likewise: element (l, j) at b[j ldb + l] */
    float *c;     /* apart from all operands */
    int64_t ldc;
    int add; /* to what lies in C, the sum of the blocks before: k is a block's */
    const float *bias; /* (n), or NULL */
    enum dense_after after;
    float alpha;
    const float *feature; /* (m, n) of the gradients */
    int64_t ld_feature;
    /* (n), or NULL: receives the sum of each column of C, a chain over the rows from +0;
     * with add_sums it is added to what lies there. */
    float *column_sums;
    int add_sums;
};

typedef void (*dense_fn)(const struct dense *d);

/* dst (k, n) = the transpose of src (n, k), whose rows are ld elements apart. */
typedef void (*dense_turn_fn)(float *dst, const float *src, int64_t n, int64_t k,
                              int64_t ld);

#endif
