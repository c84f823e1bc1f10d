/* kernel.h - the functions that compute operations: one table row per operation type.
 *
 * Most operations are loops over elements (KERNEL_LOOP, loops.h) or return the bytes of an
 * input unchanged (KERNEL_ALIAS); the planner fuses the former and removes the latter. The
 * function of a KERNEL_CALL gets tensors with known shapes and allocated storage, and writes
 * every element of its outputs. It returns an error for invalid values (an index out of
 * range), which makes the run fail; the operation's shape rule has checked shapes and
 * dtypes.
 */
#ifndef AGENT_SESSION_KERNELS_KERNEL_H
#define AGENT_SESSION_KERNELS_KERNEL_H

#include "agent/graph/graph.h"
#include "agent/session/kernels/dense.h"
#include "common/rng/rng.h"

struct kernel_args {
    const struct operation *op;
    int n_in, n_out;
    /* A variable's reference is a view of its value in the session's block. */
    struct tensor *const *in;
    struct tensor *const *out;
    /* Per input: elements from one row to the next, 0: dense. NULL: all inputs are dense.
     * Only for kern_copy and kern_concat. */
    const int64_t *row_stride;
    struct rng_key key; /* of this operation, for this run */
    uint64_t counter;
    int initialized; /* flag of the variable that input 0 refers to */
    struct err *err;
};

typedef int (*kernel_fn)(const struct kernel_args *args); /* 0 or an error code */

enum kernel_kind {
    KERNEL_CALL,
    KERNEL_LOOP,    /* element by element, NumPy broadcasting */
    KERNEL_ALIAS,   /* output 0 has the bytes of input 0, perhaps another shape */
    KERNEL_GEMM,    /* MatMul of float32; `call` for the other dtypes */
    KERNEL_PLANNED, /* Const, Placeholder, NoOp, VariableV2: nothing to compute */
};

struct kernel_row {
    const char *type;
    enum kernel_kind kind;
    kernel_fn call;
};

const struct kernel_row *kernel_find(const char *type); /* NULL: none */
const struct kernel_row *kernel_at(size_t i);           /* NULL past the end */

/* ---- products (dense.h) ---- */

/* Computes all of C; in blocks of DENSE_BLOCK rows if it sums over the batch. */
void dense_whole(const struct dense *d);

/* Whether OpenBLAS computes a product of these sizes under native numerics: each side at
 * least 256, and m n k at least 512 x 512 x 512. */
int blas_wants(int64_t m, int64_t n, int64_t k);
/* C = A B, or C += A B with `add`; ignores bias, after and column_sums. */
void blas_product(const struct dense *d);

/* ---- the kernels, by file ---- */
#define KERNEL(name) int name(const struct kernel_args *args);
/* kern_matmul.c */
KERNEL(kern_matmul)
KERNEL(kern_batch_matmul)
/* kern_conv.c */
KERNEL(kern_conv2d)
KERNEL(kern_conv2d_backprop_input)
KERNEL(kern_conv2d_backprop_filter)
KERNEL(kern_max_pool)
KERNEL(kern_max_pool_grad)
KERNEL(kern_max_pool_grad_grad)
/* kern_qr.c */
KERNEL(kern_qr)
/* kern_copy.c */
KERNEL(kern_copy)
KERNEL(kern_assert)
KERNEL(kern_check_numerics)
/* kern_shape.c */
KERNEL(kern_shape)
KERNEL(kern_size)
KERNEL(kern_rank)
KERNEL(kern_concat_offset)
KERNEL(kern_broadcast_gradient_args)
KERNEL(kern_fill)
KERNEL(kern_range)
/* kern_array.c */
KERNEL(kern_concat)
KERNEL(kern_split)
KERNEL(kern_pack)
KERNEL(kern_unpack)
KERNEL(kern_slice)
KERNEL(kern_pad)
KERNEL(kern_strided_slice)
KERNEL(kern_strided_slice_grad)
KERNEL(kern_transpose)
KERNEL(kern_tile)
KERNEL(kern_broadcast_to)
KERNEL(kern_diag_part)
/* kern_index.c */
KERNEL(kern_gather)
KERNEL(kern_gather_nd)
KERNEL(kern_scatter_nd)
KERNEL(kern_segment_sum)
KERNEL(kern_where)
KERNEL(kern_invert_permutation)
KERNEL(kern_one_hot)
KERNEL(kern_dynamic_stitch)
/* kern_reduce.c */
KERNEL(kern_sum)
KERNEL(kern_mean)
KERNEL(kern_prod)
KERNEL(kern_max)
KERNEL(kern_min)
KERNEL(kern_all)
KERNEL(kern_any)
KERNEL(kern_arg_max)
KERNEL(kern_arg_min)
KERNEL(kern_bias_add_grad)
KERNEL(kern_half_sum)
/* kern_nn.c */
KERNEL(kern_softmax)
KERNEL(kern_log_softmax)
KERNEL(kern_softmax_xent)
KERNEL(kern_sparse_softmax_xent)
/* kern_random.c */
KERNEL(kern_random_uniform)
KERNEL(kern_random_normal)
KERNEL(kern_truncated_normal)
KERNEL(kern_random_uniform_int)
KERNEL(kern_key_counter)
KERNEL(kern_stateless_uniform)
/* kern_state.c */
KERNEL(kern_assign)
KERNEL(kern_follow)
KERNEL(kern_assign_add)
KERNEL(kern_assign_sub)
KERNEL(kern_is_initialized)
KERNEL(kern_need_value)
KERNEL(kern_apply_gradient_descent)
KERNEL(kern_apply_momentum)
KERNEL(kern_apply_rms_prop)
KERNEL(kern_apply_adam)
/* kern_io.c */
KERNEL(kern_save)
KERNEL(kern_restore)
KERNEL(kern_merge_checkpoints)
KERNEL(kern_sharded_filename)
KERNEL(kern_string_join)
KERNEL(kern_scalar_summary)
KERNEL(kern_merge_summary)
#undef KERNEL

/* ---- shared by the kernels ---- */

/* The number of floats of scratch memory that a convolution's kernel gets as one more
 * output, after the operation's own; 0 if `fn` is no such kernel. filter: shape of the
 * filter; pixels: elements of the output's gradient, or of the output, in one channel. */
int64_t kern_conv_scratch(kernel_fn fn, const struct shape *filter, int64_t pixels);

/* Output shapes that depend on input values: BroadcastGradientArgs, Where, RestoreV2 (which
 * reads the file). Leaves all others unchanged. value[i]: NULL if unknown. */
int kernel_sizes(const struct operation *op, const struct tensor *const *value,
                 struct shape *out, struct err *err);
/* The shapes of a RestoreV2 (kern_io.c). */
int restored_shapes(const struct operation *op, const struct tensor *const *value,
                    struct shape *out, struct err *err);

/* The bytes of a ScalarSummary's or MergeSummary's message, whatever the values are (their
 * memory is not read). Output strings of that length are written in place. */
size_t summary_bytes(const struct kernel_args *args);

/* Whether the kernel draws random numbers and so needs a key. */
int kernel_draws(kernel_fn fn);

/* The pattern of a float32 sum over `axes`: along each row (period: elements per row), down
 * the columns (period: number of columns), or another one. */
enum { SUM_OTHER, SUM_ROWS, SUM_COLUMNS };
int sum_pattern(const struct shape *x, const struct tensor *axes, size_t *ret_period);
/* The same for a sum over all axes but `kept`. */
int sum_pattern_but(const struct shape *x, int kept, size_t *ret_period);
/* Adds elements start .. start+n-1 of a matrix (total elements, `period` per row) to the sums
 * of its columns, y (period): sums blocks of DENSE_BLOCK rows in `part` (period) first. To
 * be called in order, beginning with start = 0; x points to element `start`. */
void sum_column_blocks(float *y, float *part, const float *x, size_t start, size_t n,
                       size_t period, size_t total);

/* A strided copy: `rank` dimensions of `dim` elements, strides in bytes (0: broadcast).
 */
struct copy_plan {
    int rank;
    int64_t dim[SHAPE_MAX_RANK];
    int64_t src_stride[SHAPE_MAX_RANK];
    int64_t dst_stride[SHAPE_MAX_RANK];
};
void copy_strided(void *dst, const void *src, const struct copy_plan *c, size_t elem);
/* Row-major strides in bytes. */
void dense_strides(const struct shape *s, size_t elem, int64_t *ret);

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

int64_t int_attr(const struct operation *op, const char *name, int64_t otherwise);
/* The channel dimension: the last one, or the second with data_format NCHW. */
int channel_axis(const struct operation *op, int rank);
float float_attr(const struct operation *op, const char *name, float otherwise);

#endif
