/* kernel.h - the functions that compute operations, and what the planner must know of them.
 *
 * The function of a row (op_def.h) gets tensors with known shapes and allocated storage, and
 * writes every element of its outputs. It returns an error for invalid values (an index out of
 * range), which makes the run fail; the operation's shape rule has checked shapes and dtypes.
 */
#ifndef AGENT_OPS_KERNEL_H
#define AGENT_OPS_KERNEL_H

#include "agent/graph/op_def.h"
#include "agent/kernels/dense.h"
#include "agent/kernels/strided.h"
#include "common/numerics/numerics.h"
#include "common/rng/rng.h"

struct kernel_args {
    const struct operation *op;
    int n_in, n_out;
    /* A variable's reference is a view of its value in the session's block. */
    struct tensor *const *in;
    struct tensor *const *out;
    /* Per input: elements from one row to the next, 0: dense. NULL: all inputs are dense.
     * Only with OP_ROWS_APART, and for kern_copy. */
    const int64_t *row_stride;
    enum numerics numerics; /* NATIVE: it may use OpenBLAS; never between plans */
    struct rng_key key;     /* of this operation, for this run */
    uint64_t counter;
    int initialized;           /* flag of the variable that input 0 refers to */
    const struct err *refusal; /* of kern_refuse: its error */
    struct err *err;
};

/* ---- kernels that the planner makes or knows ---- */
#define KERNEL(name) int name(const struct kernel_args *args);
KERNEL(kern_copy)
KERNEL(kern_concat)
KERNEL(kern_slice)
KERNEL(kern_tile)
KERNEL(kern_broadcast_to)
KERNEL(kern_sum)
KERNEL(kern_mean)
KERNEL(kern_bias_add_grad)
KERNEL(kern_half_sum)
KERNEL(kern_root_sum)
KERNEL(kern_softmax)
KERNEL(kern_log_softmax)
KERNEL(kern_assign)
KERNEL(kern_destroy)
KERNEL(kern_follow)
KERNEL(kern_is_initialized)
KERNEL(kern_need_value)
KERNEL(kern_refuse)
KERNEL(kern_in_float32)
#undef KERNEL

/* ---- look-up tables (tables.c) ---- */

/* The number of elements of the index of a table of n keys. */
int64_t table_slots(int64_t n);
/* Fills the index, an int32 vector, with which kernels of tables find keys. ERR_ARG: a key has
 * two values; op is named. */
int table_index(const struct operation *op, const struct tensor *keys,
                const struct tensor *values, struct tensor *index, struct err *err);

/* ---- shared by the kernels ---- */

/* The pattern of a float32 sum over `axes`: along each row (period: elements per row), down
 * the columns (period: number of columns), or another one. */
enum { SUM_OTHER, SUM_ROWS, SUM_COLUMNS };
int sum_pattern(const struct shape *x, const struct tensor *axes, size_t *ret_period);
/* The pattern of a sum over all axes but `kept`. */
int sum_pattern_but(const struct shape *x, int kept, size_t *ret_period);
/* Adds elements start .. start+n-1 of a matrix (total elements, `period` per row) to the sums
 * of its columns, y (period): sums blocks of DENSE_BLOCK rows in `part` (period) first. To
 * be called in order, beginning with start = 0; x points to element `start`. */
void sum_column_blocks(float *y, float *part, const float *x, size_t start, size_t n,
                       size_t period, size_t total);

/* Element i of an int32 or int64 tensor. */
static inline int64_t tensor_int(const struct tensor *t, int64_t i)
{
    return t->dtype == DT_INT64 ? ((const int64_t *)t->data)[i]
                                : ((const int32_t *)t->data)[i];
}

static inline void tensor_set_int(const struct tensor *t, int64_t i, int64_t v)
{
    if (t->dtype == DT_INT64)
        ((int64_t *)t->data)[i] = v;
    else
        ((int32_t *)t->data)[i] = (int32_t)v;
}

/* The channel dimension: the last one, or the second with data_format NCHW. */
int channel_axis(const struct operation *op, int rank);
float float_attr(const struct operation *op, const char *name, float otherwise);

#endif
