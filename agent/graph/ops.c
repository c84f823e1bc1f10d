#include "agent/graph/ops.h"

#include "agent/graph/graph_internal.h"

#include <string.h>

/* zeros and ones with at least this many elements are built by Fill, not by one Const, as
 * in TensorFlow */
enum { SMALL_CONSTANT = 1000 };

static struct output finish(struct op_builder *b)
{
    return (struct output){op_finish(b), 0};
}

/* Begins an op that has its own constants, in a name scope with the op's name. */
static struct op_builder *begin_at_scope(struct graph *g, const char *type)
{
    return op_begin(g, type, graph_name_scope(g));
}

static void enter(struct graph *g, const char *name, const char *default_name)
{
    name_scope_enter(g, name != NULL ? name : default_name);
}

static struct output finish_scope(struct graph *g, struct op_builder *b)
{
    struct output y = finish(b);

    name_scope_leave(g);
    return y;
}

struct output placeholder(struct graph *g, enum dtype dtype, const struct shape *shape,
                          const char *name)
{
    struct op_builder *b = op_begin(g, "Placeholder", name);

    op_attr_type(b, "dtype", dtype);
    op_attr_shape(b, "shape", shape);
    return finish(b);
}

/* ---- constants ---- */

struct output constant(struct graph *g, const struct tensor *value, const char *name)
{
    struct op_builder *b = op_begin(g, "Const", name);

    op_attr_tensor(b, "value", value);
    op_attr_type(b, "dtype", value->dtype);
    return finish(b);
}

struct output constant_f32(struct graph *g, float value, const char *name)
{
    struct tensor t = tensor_scalar_f32(&value);

    return constant(g, &t, name);
}

struct output constant_i32(struct graph *g, int32_t value, const char *name)
{
    struct tensor t = tensor_view(DT_INT32, SHAPE_SCALAR, &value);

    return constant(g, &t, name);
}

struct output constant_i32s(struct graph *g, const int32_t *values, size_t n,
                            const char *name)
{
    struct tensor t = tensor_const_view(DT_INT32, SHAPE((int64_t)n), values);

    return constant(g, &t, name);
}

/* The bytes of one number; -1 for a type that brood cannot compute with, otherwise 0. */
static int number_bytes(enum dtype dtype, double value, unsigned char bytes[8])
{
    float f32;
    int32_t i32;
    int64_t i64;

    switch (dtype) {
    case DT_FLOAT:
        f32 = (float)value;
        memcpy(bytes, &f32, sizeof(f32));
        return 0;
    case DT_DOUBLE:
        memcpy(bytes, &value, sizeof(value));
        return 0;
    case DT_INT32:
        i32 = (int32_t)value;
        memcpy(bytes, &i32, sizeof(i32));
        return 0;
    case DT_INT64:
        i64 = (int64_t)value;
        memcpy(bytes, &i64, sizeof(i64));
        return 0;
    case DT_UINT8:
    case DT_BOOL:
        bytes[0] = (unsigned char)(int64_t)value;
        return 0;
    default: /* zero has the same bytes in all other types */
        memset(bytes, 0, 8);
        return value == 0.0 && dtype_size(dtype) != 0 && dtype_size(dtype) <= 8 ? 0 : -1;
    }
}

struct output constant_like(struct graph *g, enum dtype dtype, double value,
                            const char *name)
{
    _Alignas(8) unsigned char bytes[8];
    struct tensor t = tensor_view(dtype, SHAPE_SCALAR, bytes);

    if (number_bytes(dtype, value, bytes) != 0) {
        (void)graph_fail(g, ERR_DTYPE, "no constant %g of type %s", value,
                         dtype_name(dtype));
        return OUTPUT_NONE;
    }
    return constant(g, &t, name);
}

static struct output shape_constant(struct graph *g, const struct shape *shape,
                                    const char *name)
{
    int32_t dims[SHAPE_MAX_RANK];

    for (int i = 0; i < shape->rank; i++)
        dims[i] = (int32_t)shape->dim[i];
    return constant_i32s(g, dims, (size_t)shape->rank, name);
}

static struct output small_constant(struct graph *g, enum dtype dtype,
                                    const struct shape *shape, double value)
{
    unsigned char one[8];
    _Alignas(8) unsigned char all[8 * SMALL_CONSTANT];
    size_t size = dtype_size(dtype);
    int64_t n = shape_elements(shape);
    struct op_builder *b;
    struct tensor t = tensor_view(dtype, *shape, all);

    if (number_bytes(dtype, value, one) != 0) {
        (void)graph_fail(g, ERR_DTYPE, "no constant %g of type %s", value,
                         dtype_name(dtype));
        return OUTPUT_NONE;
    }
    for (int64_t i = 0; i < n; i++)
        memcpy(all + (size_t)i * size, one, size);
    b = begin_at_scope(g, "Const");
    op_attr_tensor(b, "value", &t);
    op_attr_type(b, "dtype", dtype);
    return finish(b);
}

static struct output filled(struct graph *g, enum dtype dtype, const struct shape *shape,
                            double value, const char *name)
{
    struct output y = OUTPUT_NONE;
    struct op_builder *b;

    name_scope_enter(g, name);
    if (!shape_known(shape))
        (void)graph_fail(g, ERR_SHAPE, "%s: the shape %s is not known", name,
                         shape_text(shape));
    else if (shape_elements(shape) < SMALL_CONSTANT)
        y = small_constant(g, dtype, shape, value);
    else {
        struct output dims = shape_constant(g, shape, "shape_as_tensor");
        struct output v = constant_like(g, dtype, value, "Const");

        b = begin_at_scope(g, "Fill");
        op_input(b, dims);
        op_input(b, v);
        y = finish(b);
    }
    name_scope_leave(g);
    return y;
}

struct output zeros(struct graph *g, enum dtype dtype, const struct shape *shape,
                    const char *name)
{
    return filled(g, dtype, shape, 0.0, name != NULL ? name : "zeros");
}

struct output ones(struct graph *g, enum dtype dtype, const struct shape *shape,
                   const char *name)
{
    return filled(g, dtype, shape, 1.0, name != NULL ? name : "ones");
}

/* ---- one, two, three inputs ---- */

struct output unary(struct graph *g, const char *type, struct output x, const char *name)
{
    struct op_builder *b = op_begin(g, type, name);

    op_input(b, x);
    return finish(b);
}

struct output binary(struct graph *g, const char *type, struct output x, struct output y,
                     const char *name)
{
    struct op_builder *b = op_begin(g, type, name);

    op_input(b, x);
    op_input(b, y);
    return finish(b);
}

struct output ternary(struct graph *g, const char *type, struct output x, struct output y,
                      struct output z, const char *name)
{
    struct op_builder *b = op_begin(g, type, name);

    op_input(b, x);
    op_input(b, y);
    op_input(b, z);
    return finish(b);
}

struct output zeros_like(struct graph *g, struct output x, const char *name)
{
    return unary(g, "ZerosLike", x, name != NULL ? name : "zeros_like");
}

struct output ones_like(struct graph *g, struct output x, const char *name)
{
    struct output dims, one;
    struct op_builder *b;

    if (!output_valid(x))
        return OUTPUT_NONE;
    enter(g, name, "ones_like");
    dims = shape_of(g, x, NULL);
    one = constant_like(g, output_dtype(x), 1.0, NULL);
    b = begin_at_scope(g, "Fill");
    op_input(b, dims);
    op_input(b, one);
    return finish_scope(g, b);
}

struct output matmul(struct graph *g, struct output a, struct output b, int transpose_a,
                     int transpose_b, const char *name)
{
    struct op_builder *op = op_begin(g, "MatMul", name);

    op_input(op, a);
    op_input(op, b);
    op_attr_bool(op, "transpose_a", transpose_a);
    op_attr_bool(op, "transpose_b", transpose_b);
    return finish(op);
}

struct output conv2d(struct graph *g, struct output x, struct output filter,
                     int64_t stride, const char *padding, const char *name)
{
    const int64_t strides[] = {1, stride, stride, 1};
    struct op_builder *b = op_begin(g, "Conv2D", name);

    op_input(b, x);
    op_input(b, filter);
    op_attr_ints(b, "strides", strides, 4);
    op_attr_string(b, "padding", padding);
    return (struct output){op_finish(b), 0};
}

struct output bias_add(struct graph *g, struct output x, struct output bias,
                       const char *name)
{
    return binary(g, "BiasAdd", x, bias, name);
}

struct output leaky_relu(struct graph *g, struct output x, float alpha, const char *name)
{
    struct op_builder *b = op_begin(g, "LeakyRelu", name);

    op_input(b, x);
    op_attr_float(b, "alpha", alpha);
    return finish(b);
}

struct output softmax(struct graph *g, struct output logits, const char *name)
{
    return unary(g, "Softmax", logits, name);
}

struct output stop_gradient(struct graph *g, struct output x, const char *name)
{
    return unary(g, "StopGradient", x, name);
}

struct output where(struct graph *g, struct output cond, struct output t, struct output e,
                    const char *name)
{
    return ternary(g, "Select", cond, t, e, name);
}

struct output cast(struct graph *g, struct output x, enum dtype dtype, const char *name)
{
    struct op_builder *b;

    if (!output_valid(x) || (output_dtype(x) == dtype && !output_is_ref(x)))
        return x;
    b = op_begin(g, "Cast", name);
    op_input(b, x);
    op_attr_type(b, "DstT", dtype);
    return finish(b);
}

struct output with_scalar(struct graph *g, const char *type, struct output x, double y,
                          const char *name)
{
    struct output r;

    if (!output_valid(x))
        return OUTPUT_NONE;
    name_scope_enter(g, name);
    r = binary(g, type, x, constant_like(g, output_dtype(x), y, "y"),
               graph_name_scope(g));
    name_scope_leave(g);
    return r;
}

/* ---- reductions ---- */

static struct output reduce_over(struct graph *g, const char *type, struct output x,
                                 struct output axes, int keep_dims, const char *name)
{
    struct op_builder *b = op_begin(g, type, name);

    op_input(b, x);
    op_input(b, axes);
    op_attr_bool(b, "keep_dims", keep_dims);
    return finish(b);
}

/* All axes of x: a Const when the rank is known, otherwise range(0, rank(x)). */
static struct output all_axes(struct graph *g, struct output x)
{
    int32_t axes[SHAPE_MAX_RANK];
    int rank = output_shape(x).rank;
    struct output start, limit, delta;

    for (int i = 0; i < rank; i++)
        axes[i] = i;
    if (rank >= 0)
        return constant_i32s(g, axes, (size_t)rank, NULL);
    limit = unary(g, "Rank", x, NULL);
    name_scope_enter(g, "range");
    start = constant_i32(g, 0, "start");
    delta = constant_i32(g, 1, "delta");
    start = ternary(g, "Range", start, limit, delta, graph_name_scope(g));
    name_scope_leave(g);
    return start;
}

struct output reduce(struct graph *g, const char *type, struct output x,
                     const int32_t *axes, size_t n_axes, int keep_dims, const char *name)
{
    struct output dims;

    if (!output_valid(x))
        return OUTPUT_NONE;
    if (n_axes == 0)
        return reduce_over(g, type, x, all_axes(g, x), keep_dims, name);
    enter(g, name, type);
    dims = n_axes == 1 ? constant_i32(g, axes[0], "reduction_indices")
                       : constant_i32s(g, axes, n_axes, "reduction_indices");
    dims = reduce_over(g, type, x, dims, keep_dims, graph_name_scope(g));
    name_scope_leave(g);
    return dims;
}

/* ---- shapes and pieces ---- */

struct output stacked(struct graph *g, const struct output *values, size_t n,
                      const char *name)
{
    struct op_builder *b = op_begin(g, "Pack", name);

    for (size_t i = 0; i < n; i++)
        op_input(b, values[i]);
    return (struct output){op_finish(b), 0};
}

struct output concat(struct graph *g, const struct output *values, size_t n, int axis,
                     const char *name)
{
    struct output dim;
    struct op_builder *b;

    enter(g, name, "concat");
    dim = constant_i32(g, axis, n == 1 ? "concat_dim" : "axis");
    b = begin_at_scope(g, n == 1 ? "Identity" : "ConcatV2");
    for (size_t i = 0; i < n; i++)
        op_input(b, values[i]);
    if (n != 1)
        op_input(b, dim);
    return finish_scope(g, b);
}

struct output slice_columns(struct graph *g, struct output x, int64_t begin, int64_t size,
                            const char *name)
{
    const int32_t from[] = {0, (int32_t)begin}, sizes[] = {-1, (int32_t)size};
    struct output at, by;

    enter(g, name, "Slice");
    at = constant_i32s(g, from, 2, "begin");
    by = constant_i32s(g, sizes, 2, "size");
    at = ternary(g, "Slice", x, at, by, graph_name_scope(g));
    name_scope_leave(g);
    return at;
}

static void finish_pieces(struct graph *g, struct op_builder *b, int n,
                          struct output *ret)
{
    struct operation *op;

    op_attr_int(b, "num_split", n);
    op = op_finish(b);
    name_scope_leave(g);
    for (int i = 0; i < n; i++)
        ret[i] = op != NULL ? (struct output){op, i} : OUTPUT_NONE;
}

void split(struct graph *g, struct output x, int n, int axis, const char *name,
           struct output *ret)
{
    struct output dim;
    struct op_builder *b;

    enter(g, name, "split");
    dim = constant_i32(g, axis, "split_dim");
    b = begin_at_scope(g, "Split");
    op_input(b, dim);
    op_input(b, x);
    finish_pieces(g, b, n, ret);
}

void split_into(struct graph *g, struct output x, const int32_t *sizes, int n, int axis,
                const char *name, struct output *ret)
{
    struct output each, dim;
    struct op_builder *b;

    enter(g, name, "split");
    each = constant_i32s(g, sizes, (size_t)n, "size_splits");
    dim = constant_i32(g, axis, "split_dim");
    b = begin_at_scope(g, "SplitV");
    op_input(b, x);
    op_input(b, each);
    op_input(b, dim);
    finish_pieces(g, b, n, ret);
}

struct output reshape(struct graph *g, struct output x, const struct shape *shape,
                      const char *name)
{
    struct output dims;

    enter(g, name, "Reshape");
    dims = shape_constant(g, shape, "shape");
    dims = binary(g, "Reshape", x, dims, graph_name_scope(g));
    name_scope_leave(g);
    return dims;
}

struct output shape_of(struct graph *g, struct output x, const char *name)
{
    struct shape s;

    if (!output_valid(x))
        return OUTPUT_NONE;
    s = output_shape(x);
    if (shape_known(&s))
        return shape_constant(g, &s, name != NULL ? name : "Shape");
    return unary(g, "Shape", x, name);
}

/* ---- random numbers ---- */

static struct output draw(struct graph *g, const char *type, enum dtype dtype,
                          struct output shape)
{
    struct op_builder *b = op_begin(g, type, NULL);

    op_input(b, shape);
    op_attr_type(b, "dtype", dtype);
    return finish(b);
}

/* RandomUniform * (max - min) + min, in a scope with the result's name. */
static struct output uniform_nodes(struct graph *g, enum dtype dtype, struct output shape,
                                   double low, double high)
{
    struct output min = constant_like(g, dtype, low, "min");
    struct output max = constant_like(g, dtype, high, "max");
    struct output u = draw(g, "RandomUniform", dtype, shape);
    struct output range = binary(g, "Sub", max, min, "sub");
    struct output scaled = binary(g, "Mul", u, range, "mul");

    return binary(g, "Add", scaled, min, graph_name_scope(g));
}

static struct output normal_nodes(struct graph *g, const char *type, enum dtype dtype,
                                  struct output shape, double mean, double stddev)
{
    struct output m = constant_like(g, dtype, mean, "mean");
    struct output s = constant_like(g, dtype, stddev, "stddev");
    struct output z = draw(g, type, dtype, shape);
    struct output scaled = binary(g, "Mul", z, s, "mul");

    return binary(g, "Add", scaled, m, graph_name_scope(g));
}

struct output random_uniform(struct graph *g, struct output shape, float low, float high,
                             const char *name)
{
    struct output y;

    enter(g, name, "random_uniform");
    y = uniform_nodes(g, DT_FLOAT, shape, (double)low, (double)high);
    name_scope_leave(g);
    return y;
}

struct output random_normal(struct graph *g, struct output shape, float mean,
                            float stddev, const char *name)
{
    struct output y;

    enter(g, name, "random_normal");
    y = normal_nodes(g, "RandomStandardNormal", DT_FLOAT, shape, (double)mean,
                     (double)stddev);
    name_scope_leave(g);
    return y;
}

struct output random_uniform_of(struct graph *g, enum dtype dtype,
                                const struct shape *shape, double low, double high,
                                const char *name)
{
    struct output y;

    enter(g, name, "random_uniform");
    y = uniform_nodes(g, dtype, shape_constant(g, shape, "shape"), low, high);
    name_scope_leave(g);
    return y;
}

struct output random_normal_of(struct graph *g, const char *type, enum dtype dtype,
                               const struct shape *shape, double mean, double stddev,
                               const char *name)
{
    struct output y;

    enter(g, name,
          strcmp(type, "TruncatedNormal") == 0 ? "truncated_normal" : "random_normal");
    y = normal_nodes(g, type, dtype, shape_constant(g, shape, "shape"), mean, stddev);
    name_scope_leave(g);
    return y;
}

/* ---- groups, clipping ---- */

struct operation *group(struct graph *g, struct operation *const *ops, size_t n,
                        const char *name)
{
    struct op_builder *b = op_begin(g, "NoOp", name != NULL ? name : "group_deps");

    for (size_t i = 0; i < n; i++)
        op_control_input(b, ops[i]);
    return op_finish(b);
}

void tuple(struct graph *g, const struct output *values, size_t n, const char *name,
           struct output *ret)
{
    struct op_builder *b;
    struct operation *gate;

    enter(g, name, "tuple");
    b = op_begin(g, "NoOp", "group_deps");
    for (size_t i = 0; i < n; i++)
        if (values[i].op != NULL)
            op_control_input(b, values[i].op);
    gate = op_finish(b);
    for (size_t i = 0; i < n; i++) {
        const struct output x = values[i];

        ret[i] = OUTPUT_NONE;
        if (x.op == NULL)
            continue;
        colocate_with_enter(g, x.op);
        b = op_begin(g, "Identity", "control_dependency");
        op_input(b, x);
        op_control_input(b, gate);
        ret[i] = finish(b);
        colocate_with_leave(g);
    }
    name_scope_leave(g);
}

struct operation *no_op(struct graph *g, const char *name)
{
    return op_finish(op_begin(g, "NoOp", name));
}

/* clip_norm: a tensor, or OUTPUT_NONE to use the number, for which each use builds a
 * Const. */
static struct output clip(struct graph *g, struct output t, struct output clip_norm,
                          double number, const char *name)
{
    struct output square, sum, nonzero, safe, norm, scaled, divisor, y;

    enter(g, name, "clip_by_norm");
    square = binary(g, "Mul", t, t, "mul");
    sum = reduce(g, "Sum", square, NULL, 0, 1, NULL);
    nonzero = with_scalar(g, "Greater", sum, 0.0, "Greater");
    /* the second Select keeps the root's infinite slope at 0 out of the gradients */
    safe = where(g, nonzero, sum, ones_like(g, sum, NULL), NULL);
    norm = where(g, nonzero, unary(g, "Sqrt", safe, NULL), sum, NULL);
    if (clip_norm.op != NULL) {
        scaled = binary(g, "Mul", t, clip_norm, "mul");
        divisor = binary(g, "Maximum", norm, clip_norm, NULL);
    } else {
        scaled = with_scalar(g, "Mul", t, number, "mul");
        divisor = with_scalar(g, "Maximum", norm, number, "Maximum");
    }
    y = unary(g, "Identity", binary(g, "RealDiv", scaled, divisor, "truediv"),
              graph_name_scope(g));
    name_scope_leave(g);
    return y;
}

struct output clip_by_norm(struct graph *g, struct output t, struct output clip_norm,
                           const char *name)
{
    return output_valid(clip_norm) ? clip(g, t, clip_norm, 0.0, name) : OUTPUT_NONE;
}

struct output clip_by_norm_number(struct graph *g, struct output t, double clip_norm,
                                  const char *name)
{
    return clip(g, t, OUTPUT_NONE, clip_norm, name);
}

struct output clip_by_value(struct graph *g, struct output t, double low, double high,
                            const char *name)
{
    struct output y;

    enter(g, name, "clip_by_value");
    if (output_valid(t)) {
        y = constant_like(g, output_dtype(t), high, "Minimum/y");
        t = binary(g, "Minimum", t, y, NULL);
        y = constant_like(g, output_dtype(t), low, "y");
        t = binary(g, "Maximum", t, y, graph_name_scope(g));
    }
    name_scope_leave(g);
    return t;
}
