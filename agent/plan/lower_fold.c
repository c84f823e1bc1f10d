/* Constant folding: computes what depends on shapes and constants only while planning. */
#include "agent/plan/lower.h"

#include "agent/graph/op_def.h"
#include "common/err/check.h"
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

static int evaluate_loop(struct plan *p, const struct node *n)
{
    struct arena scratch = ARENA_ZERO;
    struct loop_program *l = plan_single_loop(p, &scratch, n);
    void *memory =
        l->scratch >= 0 ? mem_aligned(tensor_bytes(&p->values[l->scratch].tensor)) : NULL;

    CHECK(l->scratch < 0 || memory != NULL);
    loop_run(l, p->values, memory);
    free(memory);
    arena_done(&scratch);
    return 0;
}

/* Runs one node while planning; its inputs must be constants. */
static int evaluate(struct plan *p, const struct node *n, struct err *err)
{
    struct tensor **in, **out;

    if (n->kind == NODE_LOOP)
        return evaluate_loop(p, n);
    in = ARENA_ARRAY(&p->arena, struct tensor *, n->n_in + 1);
    out = ARENA_ARRAY(&p->arena, struct tensor *, n->n_out + 1);
    for (int i = 0; i < n->n_in; i++)
        in[i] = &p->values[n->in[i]].tensor;
    for (int i = 0; i < n->n_out; i++)
        out[i] = &p->values[n->out[i]].tensor;
    struct kernel_args args = {.op = n->op,
                               .n_in = n->n_in,
                               .n_out = n->n_out,
                               .in = in,
                               .out = out,
                               .numerics = p->numerics,
                               .err = err};
    return n->call(&args);
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
    int rc = evaluate(p, n, l->err);
    for (int i = 0; i < n->n_out && moves; i++)
        if (value_at(l, n->out[i])->tensor.dtype == DT_STRING)
            own_strings(&value_at(l, n->out[i])->tensor, rc < 0);
    return rc;
}
