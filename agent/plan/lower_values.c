/* Creates values and nodes for the lowering pass. */
#include "agent/plan/lower.h"

#include "common/mem/xmalloc.h"

#include <string.h>

int lower_alias(struct lowering *l, int x, struct shape shape, size_t offset)
{
    const struct value of = *value_at(l, x);
    int v = plan_add_value(l->plan, of.kind, of.tensor.dtype, shape);
    struct value *a = value_at(l, v);

    a->root = of.root;
    a->offset = of.offset + offset;
    a->index = of.index;
    if ((of.kind == VALUE_CONST || of.kind == VALUE_TEXT) && of.tensor.data != NULL)
        a->tensor.data = (char *)of.tensor.data + offset;
    return v;
}

int lower_const(struct lowering *l, struct tensor t)
{
    int v = plan_add_value(l->plan, VALUE_CONST, t.dtype, t.shape);

    value_at(l, v)->tensor = t;
    value_at(l, v)->tensor.owned = 0;
    return v;
}

void lower_add_node(struct lowering *l, const struct node *n)
{
    struct plan *p = l->plan;

    ARRAY_GROW(p->nodes, p->n_nodes, p->cap_nodes);
    p->nodes[p->n_nodes] = *n;
    p->nodes[p->n_nodes++].guard = l->guard;
}

int *lower_ints(struct lowering *l, int n)
{
    return ARENA_ARRAY(l->scratch, int, n > 0 ? n : 1);
}

struct node lower_call(struct lowering *l, const struct operation *op, kernel_fn call,
                       int x, struct shape shape)
{
    struct node n = {.kind = NODE_CALL, .op = op, .call = call, .n_in = 1, .n_out = 1};

    n.in = lower_ints(l, 1);
    n.out = lower_ints(l, 1);
    n.in[0] = x;
    n.out[0] = plan_add_value(l->plan, VALUE_BUFFER, value_at(l, x)->tensor.dtype, shape);
    return n;
}

int lower_copy(struct lowering *l, const struct operation *op, int x)
{
    struct node n = lower_call(l, op, kern_copy, x, value_at(l, x)->tensor.shape);

    lower_add_node(l, &n);
    return n.out[0];
}

int lower_dense(struct lowering *l, int v)
{
    const struct value x = *value_at(l, v);

    if (x.row_stride == 0)
        return v;
    if (l->dense[x.index] < 0) {
        int guard = l->guard;

        l->guard = 0; /* nodes of other guards may use the copy */
        l->dense[x.index] = lower_copy(l, l->plan->feeds[x.index].output.op, v);
        l->guard = guard;
    }
    return l->dense[x.index];
}

int lower_runs_whenever(const struct lowering *l, int guard)
{
    return guard == 0 || guard == l->guard;
}
