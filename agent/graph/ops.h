/* ops.h - one builder for each common op; op_begin (graph.h) builds the others.
 *
 * Each returns output 0 of the new operation, named by TensorFlow's default for that
 * Python function unless `name` is given. Broadcasting is NumPy's.
 */
#ifndef AGENT_GRAPH_OPS_H
#define AGENT_GRAPH_OPS_H

#include "agent/graph/graph.h"

struct output placeholder(struct graph *g, enum dtype dtype, const struct shape *shape,
                          const char *name);
struct output constant(struct graph *g, const struct tensor *value, const char *name);
struct output constant_f32(struct graph *g, float value, const char *name);
struct output constant_i32(struct graph *g, int32_t value, const char *name);
struct output constant_like(struct graph *g, enum dtype dtype, double value,
                            const char *name); /* a scalar of any number type */
struct output constant_i32s(struct graph *g, const int32_t *values, size_t n,
                            const char *name);
struct output matmul(struct graph *g, struct output a, struct output b, int transpose_a,
                     int transpose_b, const char *name);
/* x (batch, y, x, channels), filter (y, x, channels in, out); padding "SAME" or "VALID" */
struct output conv2d(struct graph *g, struct output x, struct output filter,
                     int64_t stride, const char *padding, const char *name);
struct output bias_add(struct graph *g, struct output x, struct output bias,
                       const char *name);
/* type: "Add", "Sub", "Mul", "RealDiv", "Maximum", "Minimum", "Greater", ... */
struct output binary(struct graph *g, const char *type, struct output x, struct output y,
                     const char *name);
/* Any op of three inputs and no attributes that must be given. */
struct output ternary(struct graph *g, const char *type, struct output x, struct output y,
                      struct output z, const char *name);
/* type: "Relu", "Tanh", "Exp", "Log", "Neg", "Square", "Sqrt", "Identity", ... */
struct output unary(struct graph *g, const char *type, struct output x, const char *name);
/* Operator `type` with x and a scalar constant of x's type, named as Python's operators
 * do: `<name>/y` and `<name>`. */
struct output with_scalar(struct graph *g, const char *type, struct output x, double y,
                          const char *name);
struct output zeros_like(struct graph *g, struct output x, const char *name);
struct output ones_like(struct graph *g, struct output x, const char *name);
/* One Const below 1000 elements; otherwise Fill, with `shape_as_tensor` and `Const`. */
struct output zeros(struct graph *g, enum dtype dtype, const struct shape *shape,
                    const char *name);
struct output ones(struct graph *g, enum dtype dtype, const struct shape *shape,
                   const char *name);
struct output leaky_relu(struct graph *g, struct output x, float alpha, const char *name);
struct output softmax(struct graph *g, struct output logits, const char *name);
/* type: "Sum", "Mean", "Max", "Min", "Prod"; n_axes 0: all axes. */
struct output reduce(struct graph *g, const char *type, struct output x,
                     const int32_t *axes, size_t n_axes, int keep_dims, const char *name);
/* tf.stack, (n, ...) */
struct output stacked(struct graph *g, const struct output *values, size_t n,
                      const char *name);
struct output concat(struct graph *g, const struct output *values, size_t n, int axis,
                     const char *name);
struct output slice_columns(struct graph *g, struct output x, int64_t begin, int64_t size,
                            const char *name); /* Slice of axis 1 */
/* tf.split: x along the axis in n equal pieces, or in pieces of these sizes; ret[n] */
void split(struct graph *g, struct output x, int n, int axis, const char *name,
           struct output *ret);
void split_into(struct graph *g, struct output x, const int32_t *sizes, int n, int axis,
                const char *name, struct output *ret);
struct output reshape(struct graph *g, struct output x, const struct shape *shape,
                      const char *name);
struct output shape_of(struct graph *g, struct output x, const char *name);
struct output cast(struct graph *g, struct output x, enum dtype dtype, const char *name);
struct output stop_gradient(struct graph *g, struct output x, const char *name);
struct output random_uniform(struct graph *g, struct output shape, float low, float high,
                             const char *name);
struct output random_normal(struct graph *g, struct output shape, float mean,
                            float stddev, const char *name);
/* Draws of a known shape, as initialisers need them: the shape is the Const
 * `<name>/shape`, dtype any floating type. */
struct output random_uniform_of(struct graph *g, enum dtype dtype,
                                const struct shape *shape, double low, double high,
                                const char *name);
/* type: "RandomStandardNormal" or "TruncatedNormal" */
struct output random_normal_of(struct graph *g, const char *type, enum dtype dtype,
                               const struct shape *shape, double mean, double stddev,
                               const char *name);
struct output where(struct graph *g, struct output cond, struct output t, struct output e,
                    const char *name);
struct operation *group(struct graph *g, struct operation *const *ops, size_t n,
                        const char *name); /* NoOp with control inputs */
/* tf.tuple: every value becomes available only after all are computed. ret[n] may be
 * `values`; OUTPUT_NONE stays OUTPUT_NONE. */
void tuple(struct graph *g, const struct output *values, size_t n, const char *name,
           struct output *ret);
struct operation *no_op(struct graph *g, const char *name);
/* tf.clip_by_norm (the composite of TF 1.13). */
struct output clip_by_norm(struct graph *g, struct output t, struct output clip_norm,
                           const char *name);
struct output clip_by_norm_number(struct graph *g, struct output t, double clip_norm,
                                  const char *name);

/* tf.clip_by_value of TF 1.13: Minimum, then Maximum; at a bound the gradient passes. */
struct output clip_by_value(struct graph *g, struct output t, double low, double high,
                            const char *name);

#endif
