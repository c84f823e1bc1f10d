/* Operations on float16 and bfloat16: computed in float32, and rounded. What only moves elements
 * moves these as any others. */
#include "agent/plan/lower.h"

#include "agent/graph/op_def.h"
#include "agent/kernels/loops.h"
#include "common/mem/xmalloc.h"

#include <string.h>

static int is_half(const struct lowering *l, int v)
{
    const enum dtype t = value_at(l, v)->tensor.dtype;

    return t == DT_HALF || t == DT_BFLOAT16;
}

static int has_half(const struct lowering *l, const struct node *n)
{
    for (int i = 0; i < n->n_in + n->n_out; i++)
        if (is_half(l, i < n->n_in ? n->in[i] : n->out[i - n->n_in]))
            return 1;
    return 0;
}

int lower_needs_float32(const struct lowering *l, const struct node *n,
                        const struct kernel *row)
{
    const char *signature = operation_def(n->op)->signature;

    return has_half(l, n) &&
           (row->kind == KERNEL_LOOP || strstr(signature, "float_type") != NULL ||
            strstr(signature, "number_type") != NULL);
}

/* A float32 value of the shape of v. */
static int widened(struct lowering *l, int v)
{
    return plan_add_value(l->plan, VALUE_BUFFER, DT_FLOAT, value_at(l, v)->tensor.shape);
}

/* Adds a node that converts `from` to the value `to`. */
static int convert(struct lowering *l, const struct operation *op, int from, int to)
{
    const enum dtype dtype = value_at(l, from)->tensor.dtype,
                     ret = value_at(l, to)->tensor.dtype;
    struct loop_row *row = ARENA_NEW(&l->plan->arena, struct loop_row);
    struct node n = lower_call(l, op, NULL, from, value_at(l, to)->tensor.shape);

    *row = (struct loop_row){"Cast", dtype, ret, kern_loops()->cast(dtype, ret)};
    n.kind = NODE_LOOP;
    n.loop = row;
    n.out[0] = to;
    if (is_const(l, from) && lower_may_be_owned(l, &n))
        return lower_fold(l, &n);
    lower_add_node(l, &n);
    return 0;
}

int lower_in_float32(struct lowering *l, struct node *n, const struct kernel *row,
                     int *out)
{
    struct node wide = *n;
    int *wide_out = lower_ints(l, n->n_out), rc = 0;

    wide.in = lower_ints(l, n->n_in);
    wide.out = lower_ints(l, n->n_out);
    for (int i = 0; i < n->n_in && rc == 0; i++) {
        wide.in[i] = n->in[i];
        if (!is_half(l, n->in[i]))
            continue;
        wide.in[i] = widened(l, n->in[i]);
        rc = convert(l, n->op, n->in[i], wide.in[i]);
    }
    for (int i = 0; i < n->n_out; i++)
        wide_out[i] = wide.out[i] =
            is_half(l, n->out[i]) ? widened(l, n->out[i]) : n->out[i];
    if (rc == 0)
        rc = lower_kernel(l, &wide, row, wide_out);
    for (int i = 0; i < n->n_out && rc == 0; i++) {
        out[i] = wide_out[i];
        if (!is_half(l, n->out[i]))
            continue;
        rc = convert(l, n->op, wide_out[i], n->out[i]);
        out[i] = n->out[i];
    }
    return rc;
}

void lower_write_in_float32(struct lowering *l, struct node *n)
{
    int64_t total = 0;

    if (!has_half(l, n) || n->call == kern_assign)
        return;
    for (int i = 0; i < n->n_in; i++)
        total += is_half(l, n->in[i]) ? elements(l, n->in[i]) : 0;
    n->call = kern_in_float32;
    n->n_out = 1;
    n->out = lower_ints(l, 1);
    n->out[0] = plan_add_value(l->plan, VALUE_BUFFER, DT_FLOAT, SHAPE(total));
}
