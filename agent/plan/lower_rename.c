/* Operations whose results are bytes of an input: they become aliases of it. */
#include "agent/plan/lower.h"

#include "agent/graph/op_def.h"

#include <string.h>

int lower_adds_many(const struct operation *op)
{
    return operation_is(op, "AddN") || operation_is(op, "AccumulateNV2");
}

static int all_ones(const struct lowering *l, int v)
{
    const struct tensor *t = &value_at(l, v)->tensor;

    if (!is_const(l, v) || t->dtype != DT_FLOAT)
        return 0;
    for (int64_t i = 0; i < tensor_elements(t); i++)
        if (tensor_f32(t)[i] != 1.0f)
            return 0;
    return 1;
}

/* Whether the dimensions with more than one element keep their order. */
static int keeps_order(const struct tensor *x, const struct tensor *perm)
{
    int64_t before = -1;

    for (int64_t i = 0; i < tensor_elements(perm); i++) {
        int64_t d = tensor_int(perm, i);

        if (x->shape.dim[d] == 1)
            continue;
        if (d < before)
            return 0;
        before = d;
    }
    return 1;
}

/* The input whose bytes output 0 has unchanged; -1: none. */
static int same_input(const struct lowering *l, const struct node *n)
{
    const char *type = operation_type(n->op);
    int64_t size = elements(l, n->out[0]);

    if (n->n_out != 1)
        return -1;
    if ((operation_def(n->op)->flags & OP_SAME_IF_WHOLE) != 0 &&
        elements(l, n->in[0]) == size)
        return 0;
    if (strcmp(type, "Transpose") == 0 && is_const(l, n->in[1]) &&
        keeps_order(&value_at(l, n->in[0])->tensor, &value_at(l, n->in[1])->tensor))
        return 0;
    if (strcmp(type, "Cast") == 0 &&
        value_at(l, n->in[0])->tensor.dtype == value_at(l, n->out[0])->tensor.dtype)
        return 0;
    if (lower_adds_many(n->op) && n->n_in == 1)
        return 0;
    if (strcmp(type, "Mul") == 0)
        for (int i = 0; i < 2; i++)
            if (all_ones(l, n->in[!i]) && elements(l, n->in[i]) == size)
                return i;
    if (strcmp(type, "RealDiv") == 0 && all_ones(l, n->in[1]) &&
        elements(l, n->in[0]) == size)
        return 0;
    if ((strcmp(type, "Select") == 0 || strcmp(type, "SelectV2") == 0) &&
        is_const(l, n->in[0]) && elements(l, n->in[0]) == 1) {
        const int i = *(const uint8_t *)value_at(l, n->in[0])->tensor.data ? 1 : 2;

        return elements(l, n->in[i]) == size ? i : -1;
    }
    if (strcmp(type, "ConcatV2") == 0 || strcmp(type, "Pack") == 0)
        for (int i = 0; i < n->n_in - (type[0] == 'C'); i++)
            if (elements(l, n->in[i]) == size)
                return i;
    return -1;
}

/* For a slice whose bytes are contiguous, such as the leading rows of a matrix: its offset
 * in bytes; otherwise -1. */
static int64_t slice_offset(const struct lowering *l, const struct node *n)
{
    if (!operation_is(n->op, "Slice") || !is_const(l, n->in[1]))
        return -1;
    const struct tensor *x = &value_at(l, n->in[0])->tensor;
    const struct shape *y = &value_at(l, n->out[0])->tensor.shape;
    if (x->dtype == DT_STRING)
        return -1;
    int64_t strides[SHAPE_MAX_RANK], offset = 0;
    int whole = 1; /* all dimensions inside the current one are complete */
    dense_strides(&x->shape, dtype_size(x->dtype), strides);
    for (int d = y->rank - 1; d >= 0; d--) {
        if (!whole && y->dim[d] != 1)
            return -1;
        whole = whole && y->dim[d] == x->shape.dim[d];
        offset += tensor_int(&value_at(l, n->in[1])->tensor, d) * strides[d];
    }
    return offset;
}

/* ---- their results ---- */

int lower_same_bytes(struct lowering *l, const struct operation *op, int x,
                     struct shape shape, size_t offset)
{
    if (lower_is_choice(l, x))
        return lower_choice_alias(l, x, shape);
    if (lower_changes(l, x) && operation_def(op)->kernel.kind != KERNEL_ALIAS)
        x = lower_copy(l, op, x);
    else if (l->order->copy[operation_id(op)])
        x = lower_copy(l, op, x);
    else if (!lower_changes(l, x) && offset == 0 &&
             shape_equal(&shape, &value_at(l, x)->tensor.shape))
        return x;
    return lower_alias(l, x, shape, offset);
}

/* Returns the axis along which the node cuts input `*ret_x` into its outputs; -1 if it
 * does not. */
static int cut_axis(const struct lowering *l, const struct node *n, int *ret_x)
{
    const int sized = operation_is(n->op, "SplitV"), at = sized ? 2 : 0;
    int64_t axis;

    *ret_x = n->in[operation_is(n->op, "Split")];
    if (operation_is(n->op, "Unpack"))
        axis = operation_attr(n->op, "axis")->i;
    else if ((sized || operation_is(n->op, "Split")) && is_const(l, n->in[at]))
        axis = tensor_int(&value_at(l, n->in[at])->tensor, 0);
    else
        return -1;
    return (int)(axis < 0 ? axis + value_at(l, *ret_x)->tensor.shape.rank : axis);
}

/* Lowers Split and Unpack along the outermost dimension: each piece is a range of the
 * input's bytes, so nothing is copied. */
static int lower_cut(struct lowering *l, const struct node *n, int *ret)
{
    int x;
    const int axis = cut_axis(l, n, &x);
    size_t offset = 0;

    if (axis < 0 || value_at(l, x)->tensor.dtype == DT_STRING)
        return 0;
    for (int d = 0; d < axis; d++)
        if (value_at(l, x)->tensor.shape.dim[d] != 1)
            return 0;
    x = lower_dense(l, x);
    for (int i = 0; i < n->n_out; i++) {
        const struct tensor part = value_at(l, n->out[i])->tensor;

        ret[i] = lower_same_bytes(l, n->op, x, part.shape, offset);
        offset += (size_t)tensor_elements(&part) * dtype_size(part.dtype);
    }
    return 1;
}

int lower_rename(struct lowering *l, const struct node *n, int *ret)
{
    if (lower_cut(l, n, ret))
        return 1;

    struct shape shape = value_at(l, n->out[0])->tensor.shape;
    int same = same_input(l, n);
    int64_t offset = same >= 0 ? 0 : slice_offset(l, n);

    if (same < 0 && offset < 0)
        return 0;
    *ret = lower_same_bytes(l, n->op, lower_dense(l, n->in[same >= 0 ? same : 0]), shape,
                            (size_t)offset);
    return 1;
}
