/* Merges equal operations on equal values. */
#include "agent/session/lower.h"

#include "agent/graph/op_table.h"

#include <string.h>

static int attr_same(const struct attr *a, const struct attr *b)
{
    if (strcmp(a->name, b->name) != 0 || a->kind != b->kind)
        return 0;
    switch (a->kind) {
    case ATTR_INT:
    case ATTR_BOOL:
    case ATTR_TYPE:
        return a->i == b->i;
    case ATTR_FLOAT:
        return memcmp(&a->f, &b->f, sizeof(a->f)) == 0;
    case ATTR_SHAPE:
        return shape_equal(&a->shape, &b->shape);
    case ATTR_STRING:
        return a->s_len == b->s_len && memcmp(a->s, b->s, a->s_len) == 0;
    case ATTR_LIST_INT:
        return a->n == b->n && memcmp(a->list_i, b->list_i, a->n * sizeof(int64_t)) == 0;
    default:
        return 0;
    }
}

/* Attributes that begin with "_" (colocation) are ignored. */
static int attrs_same(const struct operation *a, const struct operation *b)
{
    if (operation_n_attrs(a) != operation_n_attrs(b))
        return 0;
    for (int i = 0; i < operation_n_attrs(a); i++) {
        const struct attr *x = operation_attr_at(a, i), *y = operation_attr_at(b, i);

        if (x->name[0] != '_' && !attr_same(x, y))
            return 0;
    }
    return 1;
}

int lower_mergeable(const struct lowering *l, const struct operation *op, const int *in)
{
    if (operation_def(op)->flags & (OP_STATEFUL | OP_WRITES))
        return 0;
    for (int i = 0; i < operation_n_inputs(op); i++)
        if (value_at(l, in[i])->kind == VALUE_VARIABLE && lower_changes(l, in[i]))
            return 0;
    return 1;
}

static struct lowered_op **bucket(struct lowering *l, const struct operation *op,
                                  const int *in)
{
    unsigned h = 0;

    for (const char *c = operation_type(op); *c; c++)
        h = h * 31u + (unsigned char)*c;
    for (int i = 0; i < operation_n_inputs(op); i++)
        h = h * 1000003u + (unsigned)in[i];
    return &l->buckets[(h ^ h >> 15) & (l->n_buckets - 1)];
}

const int *lower_find_duplicate(struct lowering *l, const struct operation *op,
                                const int *in)
{
    size_t bytes = sizeof(int) * (size_t)operation_n_inputs(op);

    for (const struct lowered_op *e = *bucket(l, op, in); e != NULL; e = e->next)
        if (strcmp(operation_type(e->op), operation_type(op)) == 0 &&
            operation_n_inputs(e->op) == operation_n_inputs(op) &&
            memcmp(e->in, in, bytes) == 0 && attrs_same(e->op, op) &&
            lower_runs_whenever(l, e->guard))
            return e->out;
    return NULL;
}

void lower_remember(struct lowering *l, const struct operation *op, const int *in,
                    const int *out)
{
    struct lowered_op **at = bucket(l, op, in);
    struct lowered_op *e = ARENA_NEW(l->scratch, struct lowered_op);

    *e = (struct lowered_op){op, in, out, l->guard, *at};
    *at = e;
}
