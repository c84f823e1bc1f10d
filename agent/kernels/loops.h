/* loops.h - the inner loops of the kernels, compiled once for each instruction set.
 *
 * loops.c is built for the baseline, x86-64-v3 and x86-64-v4; kern_loops() returns the best
 * set that this machine can run. All sets give the same bits: no fused multiply-add, no
 * reassociation, and the order of every sum is fixed and does not depend on how the data is
 * divided into calls.
 */
#ifndef AGENT_KERNELS_LOOPS_H
#define AGENT_KERNELS_LOOPS_H

#include "agent/kernels/dense.h"
#include "common/numerics/numerics.h"
#include "common/tensor/dtype.h"

#include <stddef.h>
#include <stdint.h>

/* dst[i] = f(a[i], b[i], c[i]) for i < n. dst may be one of the sources; alpha is the
 * operation's constant, if it has one. */
typedef void (*loop_fn)(void *dst, const void *a, const void *b, const void *c, size_t n,
                        float alpha);

struct loop_row {
    const char *type; /* TensorFlow's operation */
    enum dtype dtype; /* of its first data operand (Select: of the branches) */
    enum dtype ret;   /* of its result */
    loop_fn fn;
};

/* A sum in progress (numerics.h). */
struct lane_sums {
    float lane[SUM_LANES];  /* of the current block; 0 before the first element */
    float total[SUM_LANES]; /* of the blocks before it; undefined in the first one */
};

struct adam_args { /* Kingma & Ba 2015 as tf.train writes it: rate is bias-corrected */
    float rate, beta1, beta2, epsilon;
    int nesterov;
};

struct kern_loops {
    const char *isa;
    dense_fn dense;
    dense_transpose_fn transpose;
    const struct loop_row *rows; /* ends with type NULL */
    /* Conversion between two dtypes, NULL when there is none. */
    loop_fn (*cast)(enum dtype from, enum dtype to);
    /* lane[(start + i) % SUM_LANES] += x[i]; where (start + i) is a multiple of SUM_BLOCK, what
     * the lanes have is added to their totals first, and a block begins. */
    void (*sum_lanes)(struct lane_sums *sums, const float *x, size_t start, size_t n);
    /* acc[(start + i) % period] += x[i] */
    void (*sum_columns)(float *acc, const float *x, size_t start, size_t n,
                        size_t period);
    /* dst[r] = sum of the r-th row of x (rows, n) */
    void (*sum_rows)(float *dst, const float *x, size_t rows, size_t n);
    /* Softmax (or its logarithm) of each row of x (rows, n). */
    void (*softmax)(float *dst, const float *x, size_t rows, size_t n);
    void (*log_softmax)(float *dst, const float *x, size_t rows, size_t n);
    /* dst[i] = x[i], with every NaN replaced by the canonical one. dst may be x. */
    void (*canonical_nan)(float *dst, const float *x, size_t n);
    void (*adam)(float *var, float *m, float *v, const float *grad, size_t n,
                 const struct adam_args *args);
    /* dst[i] = x[i] p + y[i] q, with every NaN replaced by the canonical one. dst may be x or
     * y. */
    void (*follow)(float *dst, const float *x, float p, const float *y, float q,
                   size_t n);
};

const struct kern_loops *kern_loops(void);
/* The row of an operation type for a dtype, NULL if there is none. */
const struct loop_row *kern_loop_find(const char *type, enum dtype dtype);
/* For tests: every set this machine can run, NULL past the end. */
const struct kern_loops *kern_loops_at(int i);

/* The sum of n elements, that of all lanes in a fixed order. */
float loop_sum_finish(const struct lane_sums *sums, size_t n);

#endif
