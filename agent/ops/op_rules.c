#include "agent/ops/op_rules.h"

#include "common/err/check.h"

#include <string.h>

/* ---- attributes ---- */

float float_attr(const struct operation *op, const char *name, float otherwise)
{
    const struct attr *a = operation_attr(op, name);

    return a != NULL ? a->f : otherwise;
}

int channel_axis(const struct operation *op, int rank)
{
    const struct attr *a = operation_attr(op, "data_format");

    return a != NULL && a->s_len > 1 && a->s[1] == 'C' ? 1 : rank - 1;
}

/* ---- shape rules ---- */

int shape_same(const struct shape_args *args)
{
    for (int i = 0; i < operation_n_outputs(args->op); i++)
        args->out[i] = args->in[0];
    return 0;
}

int shape_of_value(const struct shape_args *args)
{
    return value_sizes(args, 0, &args->out[0]);
}

int shape_declared(const struct shape_args *args)
{
    args->out[0] = *attr_shape(args->op, "shape");
    return 0;
}

int shape_scalar(const struct shape_args *args)
{
    for (int i = 0; i < operation_n_outputs(args->op); i++)
        args->out[i] = SHAPE_SCALAR;
    return 0;
}

int shape_scalars(const struct shape_args *args)
{
    for (int i = 0; i < args->n_in; i++)
        if (want_rank(args, i, 0) != 0)
            return ERR_SHAPE;
    return shape_scalar(args);
}

int shape_none(const struct shape_args *args)
{
    return 0;
}

int shape_broadcast_inputs(const struct shape_args *args)
{
    if (shape_broadcast(&args->in[0], &args->in[1], &args->out[0]) != 0)
        return err_set(args->err, ERR_SHAPE, "shapes %s and %s do not broadcast",
                       shape_text(&args->in[0]), shape_text(&args->in[1]));
    return 0;
}

int shape_merged(const struct shape_args *args)
{
    struct shape all = args->in[0];

    for (int i = 1; i < args->n_in; i++)
        if (shape_merge(&all, &args->in[i], &all) != 0)
            return err_set(args->err, ERR_SHAPE, "shapes %s and %s differ",
                           shape_text(&all), shape_text(&args->in[i]));
    for (int i = 0; i < operation_n_outputs(args->op); i++)
        args->out[i] = all;
    return 0;
}

int64_t dim_of(const struct shape *s, int i)
{
    return s->rank >= 0 && i < s->rank ? s->dim[i] : -1;
}

int value_ints(const struct shape_args *args, int i, int64_t *ret, int max)
{
    const struct tensor *t = args->value[i];
    int64_t n;

    if (t == NULL || (t->dtype != DT_INT32 && t->dtype != DT_INT64))
        return -1;
    n = tensor_elements(t);
    for (int64_t k = 0; k < n && k < max; k++)
        ret[k] = t->dtype == DT_INT32 ? ((const int32_t *)t->data)[k]
                                      : ((const int64_t *)t->data)[k];
    return n <= max ? (int)n : -1;
}

/* Returns the known part of a shape that the graph computes by Shape, or by a Pack of
 * known and unknown numbers. */
static struct shape computed_shape(struct output x, const struct shape *own)
{
    struct shape s = SHAPE_UNKNOWN;

    if (operation_is(x.op, "Shape"))
        return output_shape(operation_input(x.op, 0));
    if (operation_is(x.op, "VariableShape") &&
        operation_behind_handle(operation_input(x.op, 0)) != NULL)
        return *attr_shape(operation_behind_handle(operation_input(x.op, 0)), "shape");
    if (own->rank != 1 || own->dim[0] < 0 || own->dim[0] > SHAPE_MAX_RANK)
        return s;
    s.rank = (int)own->dim[0];
    for (int i = 0; i < s.rank; i++) {
        const struct tensor *t =
            operation_is(x.op, "Pack") ? output_constant(operation_input(x.op, i)) : NULL;

        s.dim[i] = t != NULL && t->dtype == DT_INT32 ? *(const int32_t *)t->data : -1;
    }
    return s;
}

int value_shape(const struct shape_args *args, int i, struct shape *ret)
{
    const struct tensor *t = args->value[i];
    struct shape s = {0};

    if (args->in[i].rank > 1)
        return err_set(args->err, ERR_SHAPE, "a shape must be a vector, not %s",
                       shape_text(&args->in[i]));
    if (t == NULL) {
        *ret = args->is_planning
                   ? SHAPE_UNKNOWN
                   : computed_shape(operation_input(args->op, i), &args->in[i]);
        return 0;
    }
    if (tensor_elements(t) > SHAPE_MAX_RANK)
        return err_set(args->err, ERR_SHAPE,
                       "%lld dimensions, but at most %d are possible",
                       (long long)tensor_elements(t), SHAPE_MAX_RANK);
    s.rank = value_ints(args, i, s.dim, SHAPE_MAX_RANK);
    *ret = s;
    return 0;
}

int value_sizes(const struct shape_args *args, int i, struct shape *ret)
{
    if (value_shape(args, i, ret) != 0)
        return ERR_SHAPE;
    for (int k = 0; args->value[i] != NULL && k < ret->rank; k++)
        if (ret->dim[k] < 0)
            return err_set(args->err, ERR_SHAPE, "dimension %d may not be %lld", k,
                           (long long)ret->dim[k]);
    return 0;
}

int variable_shape(const struct shape_args *args, int i, const char *type,
                   struct shape *ret)
{
    const struct output x = operation_input(args->op, i);
    const struct operation *v;

    *ret = args->in[i];
    if (output_dtype(x) != DT_RESOURCE)
        return 0;
    v = operation_behind_handle(x);
    if (v != NULL && type != NULL && attr_int(v, "dtype") != attr_int(args->op, type))
        return err_set(args->err, ERR_DTYPE, "variable %s has dtype %s, not %s",
                       operation_name(v), dtype_name((enum dtype)attr_int(v, "dtype")),
                       dtype_name((enum dtype)attr_int(args->op, type)));
    if (!args->is_planning) /* a plan knows the variable, wherever its handle comes from */
        *ret = v != NULL ? *attr_shape(v, "shape") : SHAPE_UNKNOWN;
    return 0;
}

int wrap_axis(const struct shape_args *args, int rank, int64_t *axis)
{
    if (*axis < -rank || *axis >= rank)
        return err_set(args->err, ERR_SHAPE,
                       "axis %lld, but the input has %d dimensions: %s", (long long)*axis,
                       rank, shape_text(&args->in[0]));
    if (*axis < 0)
        *axis += rank;
    return 0;
}

int insert_axis(const struct shape_args *args, const struct shape *s, const int64_t *axis,
                int64_t dim)
{
    struct shape out = *s;
    int64_t at;

    if (out.rank < 0)
        return 0;
    if (out.rank == SHAPE_MAX_RANK)
        return err_set(args->err, ERR_SHAPE, "more than %d dimensions", SHAPE_MAX_RANK);
    if (axis == NULL) {
        args->out[0] = shape_of_rank(out.rank + 1);
        return 0;
    }
    at = *axis;
    if (wrap_axis(args, out.rank + 1, &at) != 0)
        return ERR_SHAPE;
    shape_insert(&out, (int)at, dim);
    args->out[0] = out;
    return 0;
}

size_t element_bytes(const struct operation *op)
{
    const enum dtype t = (enum dtype)attr_int(op, "T");

    return t == DT_HALF || t == DT_BFLOAT16 ? sizeof(float) : dtype_size(t);
}

int grad_only_of_files(struct graph *g, const struct operation *op, const char *what)
{
    return graph_fail(g, ERR_UNSUPPORTED,
                      "'%s' uses %s: gradients through these are not built here, only "
                      "those of a file run",
                      operation_name(op), what);
}

int kernel_check_shapes(const struct kernel_args *a)
{
    enum { MAX = 8 };
    struct shape in[MAX], out[MAX];
    const struct tensor *value[MAX];
    const struct shape_args rule = {a->op, a->n_in, in, value, out, a->err, 1};

    CHECK(a->n_in <= MAX && a->n_out <= MAX, "%s", operation_name(a->op));
    for (int i = 0; i < a->n_in; i++) {
        value[i] = a->in[i];
        in[i] = a->in[i]->shape;
    }
    for (int i = 0; i < a->n_out; i++)
        out[i] = SHAPE_UNKNOWN;
    return operation_infer_shapes(&rule);
}

/* The number of steps of `delta` within [start, limit). Unsigned arithmetic, since the
 * difference of two int64_t may not fit in one. */
uint64_t range_length(int64_t start, int64_t limit, int64_t delta)
{
    uint64_t up = (uint64_t)limit - (uint64_t)start, step = (uint64_t)delta;

    if (delta > 0)
        return limit > start ? (up - 1) / step + 1 : 0;
    return limit < start ? (0 - up - 1) / (0 - step) + 1 : 0;
}

/* ---- gradient rules ---- */

int grad_none(struct graph *g, struct operation *op, const struct output *grad_out,
              struct output *grad_in)
{
    return 0;
}

int grad_done(const struct output *grads, int n)
{
    for (int i = 0; i < n; i++)
        if (!output_valid(grads[i]))
            return -1;
    return 0;
}

struct output input_of(const struct operation *op, int i)
{
    return operation_input(op, i);
}

struct output output_of(struct operation *op, int i)
{
    return (struct output){op, i};
}

struct broadcast_args broadcast_args(struct graph *g, struct output x, struct output y)
{
    struct broadcast_args r = {.shape_x = shape_of(g, x, NULL),
                               .shape_y = shape_of(g, y, NULL)};

    r.axes_x = binary(g, "BroadcastGradientArgs", r.shape_x, r.shape_y, NULL);
    r.axes_y = (struct output){r.axes_x.op, 1};
    return r;
}

struct output unbroadcast(struct graph *g, struct output grad, struct output axes,
                          struct output shape)
{
    return binary(g, "Reshape", binary(g, "Sum", grad, axes, NULL), shape, NULL);
}

int same_known_shape(struct output x, struct output y)
{
    struct shape a = output_shape(x), b = output_shape(y);

    return shape_known(&a) && shape_equal(&a, &b);
}

struct output scalar_with(struct graph *g, const char *type, double x, struct output y,
                          const char *name)
{
    struct output r;

    if (!output_valid(y))
        return OUTPUT_NONE;
    name_scope_enter(g, name);
    r = binary(g, type, constant_like(g, output_dtype(y), x, "x"), y,
               graph_name_scope(g));
    name_scope_leave(g);
    return r;
}

struct output zeros_as(struct graph *g, struct output x)
{
    struct output dims = shape_of(g, x, NULL), r;

    if (!output_valid(x))
        return OUTPUT_NONE;
    name_scope_enter(g, "zeros");
    r = binary(g, "Fill", dims, constant_like(g, output_dtype(x), 0.0, "Const"),
               graph_name_scope(g));
    name_scope_leave(g);
    return r;
}

struct output gather_rows(struct graph *g, struct output x, struct output indices)
{
    struct output axis, r;

    name_scope_enter(g, "GatherV2");
    axis = constant_i32(g, 0, "axis");
    r = ternary(g, "GatherV2", x, indices, axis, graph_name_scope(g));
    name_scope_leave(g);
    return r;
}

struct output vector_slice(struct graph *g, struct output x, int32_t begin, int32_t end,
                           const char *mask)
{
    struct output from, to, by;
    struct op_builder *b;

    name_scope_enter(g, "strided_slice");
    from = constant_i32s(g, &begin, 1, "stack");
    to = constant_i32s(g, &end, 1, "stack_1");
    by = constant_i32s(g, (const int32_t[]){1}, 1, "stack_2");
    b = op_begin(g, "StridedSlice", graph_name_scope(g));
    op_input(b, x);
    op_input(b, from);
    op_input(b, to);
    op_input(b, by);
    if (mask != NULL)
        op_attr_int(b, mask, 1);
    name_scope_leave(g);
    return (struct output){op_finish(b), 0};
}

struct output range_to(struct graph *g, struct output n)
{
    const struct output start = constant_i32(g, 0, "range/start");
    const struct output delta = constant_i32(g, 1, "range/delta");

    return ternary(g, "Range", start, n, delta, "range");
}

struct output rank_of(struct graph *g, struct output x)
{
    int rank = output_shape(x).rank;

    return rank >= 0 ? constant_i32(g, rank, "Rank") : unary(g, "Rank", x, NULL);
}

struct output sum_last_axis(struct graph *g, struct output x)
{
    return reduce(g, "Sum", x, (const int32_t[]){-1}, 1, 1, NULL);
}
