/* op_rules.h - shape and gradient rules shared by the rows of the op table, and parts of
 * them.
 *
 * A rule reads attributes from the operation, shapes and known values from its arguments.
 * A gradient rule builds the same nodes with the same names as TensorFlow 1.13
 * (python/ops/..._grad.py).
 */
#ifndef AGENT_OPS_OP_RULES_H
#define AGENT_OPS_OP_RULES_H

#include "agent/graph/op_def.h"
#include "agent/graph/ops.h"
#include "agent/ops/kernel.h"

/* The rows of one source file, ops_of_<name>. */
#define OP_FAMILY(rows)                                                                  \
    {                                                                                    \
        (rows), sizeof(rows) / sizeof((rows)[0])                                         \
    }
#define OP_FAMILIES(X)                                                                   \
    X(array)                                                                             \
    X(axes)                                                                              \
    X(bins)                                                                              \
    X(boxes)                                                                             \
    X(containers)                                                                        \
    X(conv)                                                                              \
    X(ctc)                                                                               \
    X(depthwise)                                                                         \
    X(diagonals)                                                                         \
    X(dilation)                                                                          \
    X(einsum)                                                                            \
    X(examples)                                                                          \
    X(flow)                                                                              \
    X(functions)                                                                         \
    X(index)                                                                             \
    X(io)                                                                                \
    X(join)                                                                              \
    X(linalg)                                                                            \
    X(lists)                                                                             \
    X(math)                                                                              \
    X(matrix)                                                                            \
    X(nn)                                                                                \
    X(norm)                                                                              \
    X(order)                                                                             \
    X(pass)                                                                              \
    X(patches)                                                                           \
    X(patterns)                                                                          \
    X(pool)                                                                              \
    X(quantize)                                                                          \
    X(random)                                                                            \
    X(random_candidates)                                                                 \
    X(random_laws)                                                                       \
    X(random_stateless)                                                                  \
    X(reduce)                                                                            \
    X(resize)                                                                            \
    X(rnn)                                                                               \
    X(scatter)                                                                           \
    X(segments)                                                                          \
    X(sets)                                                                              \
    X(slice)                                                                             \
    X(solve)                                                                             \
    X(space)                                                                             \
    X(sparse)                                                                            \
    X(sparse_parts)                                                                      \
    X(state)                                                                             \
    X(summaries)                                                                         \
    X(tables)                                                                            \
    X(text)                                                                              \
    X(training)
#define OP_FAMILY_DECLARED(name) extern const struct op_family ops_of_##name;
OP_FAMILIES(OP_FAMILY_DECLARED)
#undef OP_FAMILY_DECLARED

/* The kernel of a row: a function, or one of the kinds that need none (op_def.h). */
#define CALL(fn)                                                                         \
    {                                                                                    \
        KERNEL_CALL, (fn)                                                                \
    }
#define GEMM(fn)                                                                         \
    {                                                                                    \
        KERNEL_GEMM, (fn)                                                                \
    }
#define LOOP                                                                             \
    {                                                                                    \
        KERNEL_LOOP, NULL                                                                \
    }
#define ALIAS                                                                            \
    {                                                                                    \
        KERNEL_ALIAS, NULL                                                               \
    }
#define PLANNED                                                                          \
    {                                                                                    \
        KERNEL_PLANNED, NULL                                                             \
    }

/* ---- shape rules ---- */
/* every output has the shape of input 0 */
int shape_same(const struct shape_args *args);
int shape_declared(const struct shape_args *args);         /* the attribute `shape` */
int shape_of_value(const struct shape_args *args);         /* the value of input 0 */
int shape_scalar(const struct shape_args *args);           /* every output is a scalar */
int shape_scalars(const struct shape_args *args);          /* and every input */
int shape_broadcast_inputs(const struct shape_args *args); /* of inputs 0 and 1 */
/* all inputs and outputs have the same shape */
int shape_merged(const struct shape_args *args);
int shape_none(const struct shape_args *args); /* no outputs, or nothing is known */
/* input 2 (a scalar) rows, each the rest of input 0 after the dimensions of input 1 */
int shape_unsorted_segments(const struct shape_args *args);

/* ---- parts of shape rules ---- */
int64_t dim_of(const struct shape *s, int i); /* -1 if unknown */
/* The integers of input i if they are known; returns their number, otherwise -1. */
int value_ints(const struct shape_args *args, int i, int64_t *ret, int max);
/* Input i as a shape, as far as it is known. A known -1 stays -1 (Reshape). ERR_SHAPE:
 * too many dimensions. */
int value_shape(const struct shape_args *args, int i, struct shape *ret);
/* Input i as a shape in which a known -1 is an error. */
int value_sizes(const struct shape_args *args, int i, struct shape *ret);
/* Maps *axis from [-rank, rank) to [0, rank). */
int wrap_axis(const struct shape_args *args, int rank, int64_t *axis);
/* Output 0 is `s` with one more dimension, which is number `axis` of the result; axis NULL:
 * not known. */
int insert_axis(const struct shape_args *args, const struct shape *s, const int64_t *axis,
                int64_t dim);

/* The shape of the variable to which input i refers, by reference or by a handle; the graph may
 * not know it. ERR_DTYPE: its elements have another type than the attribute `type` (or NULL). */
int variable_shape(const struct shape_args *args, int i, const char *type,
                   struct shape *ret);

/* The bytes of an element of type T in a kernel, which gets halves as float32. */
size_t element_bytes(const struct operation *op);

/* For kernels: the shape rule once more, now that all values are known. ERR_SHAPE, ERR_ARG. */
int kernel_check_shapes(const struct kernel_args *a);

/* The number of steps of `delta` (not 0) within [start, limit). */
uint64_t range_length(int64_t start, int64_t limit, int64_t delta);
/* ---- gradient rules ---- */
/* Declares the head of a grad_fn (op_def.h). */
#define GRAD(name)                                                                       \
    static int name(struct graph *g, struct operation *op,                               \
                    const struct output *grad_out, struct output *grad_in)
/* A whole rule, of an op with one input that has a gradient: `gradient` computes it. */
#define GRAD_ONE(name, gradient)                                                         \
    GRAD(name)                                                                           \
    {                                                                                    \
        grad_in[0] = (gradient);                                                         \
        return grad_done(grad_in, 1);                                                    \
    }
int grad_none(struct graph *g, struct operation *op, const struct output *grad_out,
              struct output *grad_in); /* no input gets a gradient */
/* Fails: TensorFlow builds gradients through `what`, but here they are only run as a file has
 * them. */
int grad_only_of_files(struct graph *g, const struct operation *op, const char *what);
/* The result of a rule: 0 if all gradients are valid; otherwise -1, and the graph has the
 * error. */
int grad_done(const struct output *grads, int n);

/* Reverses broadcasting: sums over the axes that were broadcast, then reshapes to the
 * input's shape. */
struct broadcast_args {
    struct output shape_x, shape_y, axes_x, axes_y;
};
struct broadcast_args broadcast_args(struct graph *g, struct output x, struct output y);
struct output unbroadcast(struct graph *g, struct output grad, struct output axes,
                          struct output shape);
/* Whether all dimensions of both are known and equal, so that nothing was broadcast. */
int same_known_shape(struct output x, struct output y);

struct output input_of(const struct operation *op, int i);
struct output output_of(struct operation *op, int i);
/* with_scalar with the scalar as the left operand: `<name>/x`. */
struct output scalar_with(struct graph *g, const char *type, double x, struct output y,
                          const char *name);
struct output zeros_as(struct graph *g, struct output x); /* tf.zeros(tf.shape(x)) */
/* tf.gather(x, indices) */
struct output gather_rows(struct graph *g, struct output x, struct output indices);
struct output sum_last_axis(struct graph *g, struct output x); /* keep_dims */
/* x[begin:end] of a vector, named as Python's operator names it; mask: an attribute of
 * StridedSlice that is 1, or NULL. */
struct output vector_slice(struct graph *g, struct output x, int32_t begin, int32_t end,
                           const char *mask);
/* The int32 shape with ones for the axes: that of a reduction's result that keeps them. */
struct output kept_shape(struct graph *g, struct output shape, struct output axes);
struct output rank_of(struct graph *g, struct output x);  /* a constant if it is known */
struct output range_to(struct graph *g, struct output n); /* tf.range(n), of int32 */

#endif
