/* Constant folding: computes what depends on shapes and constants only while planning,
 * and finds operations that leave the bytes of an input unchanged. */
#include "agent/session/lower.h"

#include "agent/graph/op_def.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

#define FOLD_MAX_BYTES (16u << 20)

/* ---- constants ---- */

int lower_may_be_owned(const struct lowering *l, const struct node *n)
{
    size_t bytes = 0;

    for (int i = 0; i < n->n_out; i++) {
        const struct tensor *t = &value_at(l, n->out[i])->tensor;

        if (dtype_size(t->dtype) == 0 && t->dtype != DT_STRING)
            return 0;
        bytes += tensor_bytes(t);
    }
    return bytes <= FOLD_MAX_BYTES;
}

int lower_foldable(const struct lowering *l, const struct node *n)
{
    const unsigned flags = operation_def(n->op)->flags;

    if ((flags & (OP_STATEFUL | OP_WRITES)) != 0 || !lower_may_be_owned(l, n))
        return 0;
    /* an Assert on a branch fails only if the branch is taken */
    if (l->guard != 0 && (flags & OP_AWAITED) != 0)
        return 0;
    if ((flags & OP_SHAPES_ONLY) != 0)
        return 1;
    for (int i = 0; i < n->n_in; i++)
        if (!is_const(l, n->in[i]))
            return 0;
    return 1;
}

void lower_own(struct lowering *l, struct tensor t)
{
    struct plan *p = l->plan;

    ARRAY_GROW(p->owned, p->n_owned, p->cap_owned);
    p->owned[p->n_owned++] = t;
}

/* Kernels that move strings copy only `struct tensor_string`, so this copies the bytes of
 * each string. If the kernel failed, it clears the strings instead. */
static void own_strings(const struct tensor *t, int failed)
{
    struct tensor_string *s = t->data;

    for (int64_t i = 0; i < tensor_elements(t); i++) {
        const struct tensor_string from = s[i];

        s[i] = (struct tensor_string){0};
        if (!failed && from.len_bytes > 0) /* any bytes, zeros, too */
            s[i] = (struct tensor_string){
                memcpy(xmalloc(from.len_bytes), from.bytes, from.len_bytes),
                from.len_bytes};
    }
}

int lower_fold(struct lowering *l, const struct node *n)
{
    struct plan *p = l->plan;

    for (int i = 0; i < n->n_out; i++) {
        struct tensor t;
        int rc = tensor_alloc(&t, value_at(l, n->out[i])->tensor.dtype,
                              value_at(l, n->out[i])->tensor.shape, l->err);

        if (rc < 0)
            return rc;
        lower_own(l, t);
        t.owned = 0;
        value_at(l, n->out[i])->tensor = t;
        value_at(l, n->out[i])->kind = VALUE_CONST;
    }
    /* ZerosLike and similar operations use no element of an operand, but their loops load
     * it: use the memory of the result. */
    if (n->kind == NODE_LOOP && !is_const(l, n->in[0]))
        n->in[0] = lower_const(l, value_at(l, n->out[0])->tensor);
    const int moves = (operation_def(n->op)->flags & OP_MAKES_STRINGS) == 0;
    int rc = node_evaluate(p, n, l->err);
    for (int i = 0; i < n->n_out && moves; i++)
        if (value_at(l, n->out[i])->tensor.dtype == DT_STRING)
            own_strings(&value_at(l, n->out[i])->tensor, rc < 0);
    return rc;
}

/* ---- operations that leave bytes unchanged ---- */

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

int lower_same_input(const struct lowering *l, const struct node *n)
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

int64_t lower_slice_offset(const struct lowering *l, const struct node *n)
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
