/* Look-up tables. What a table is filled with is looked for in the graph (agent/ops/tables.c). */
#include "agent/plan/lower.h"

#include "agent/graph/op_def.h"

#include <string.h>

/* Whether both operations are the same table: TensorFlow shares those of one name. */
static int same_table(const struct operation *a, const struct operation *b)
{
    const struct attr *x = operation_attr(a, "shared_name");
    const struct attr *y = operation_attr(b, "shared_name");

    return a == b ||
           (x->s_len > 0 && x->s_len == y->s_len && memcmp(x->s, y->s, x->s_len) == 0);
}

static int is_filler(const struct operation *op)
{
    return operation_is(op, "InitializeTableV2") ||
           operation_is(op, "LookupTableImportV2");
}

/* Finds the operation that fills the table; it fails if there are none or several. */
static int find_filler(const struct lowering *l, const struct operation *table,
                       const struct operation **ret)
{
    const struct graph *g = l->plan->graph;

    *ret = NULL;
    for (int id = 0; id < graph_n_operations(g); id++) {
        const struct operation *op = graph_operation_at(g, id), *of;

        of = is_filler(op) ? operation_table(operation_input(op, 0)) : NULL;
        if (of == NULL || !same_table(of, table))
            continue;
        if (*ret != NULL)
            return err_set(l->err, ERR_UNSUPPORTED,
                           "%s is filled by %s and by %s: a table has one initialiser",
                           operation_name(table), operation_name(*ret),
                           operation_name(op));
        *ret = op;
    }
    if (*ret == NULL)
        return err_set(l->err, ERR_UNSUPPORTED,
                       "%s: no operation that can be run fills the table",
                       operation_name(table));
    return 0;
}

/* The value of a Const, perhaps passed on; NULL: it is none, or fed. */
static const struct tensor *constant_behind(const struct lowering *l, struct output x)
{
    while (plan_feed_of(l->plan, x) < 0 && operation_is(x.op, "Identity") &&
           operation_id(operation_input(x.op, 0).op) < operation_id(x.op))
        x = operation_input(x.op, 0);
    return plan_feed_of(l->plan, x) < 0 && operation_is(x.op, "Const")
               ? &operation_attr(x.op, "value")->tensor
               : NULL;
}

int lower_table(struct lowering *l, struct node *n)
{
    const struct operation *table = operation_table(operation_input(n->op, 0)), *filler;
    const int finds = n->n_in == 3 && !is_filler(n->op);
    const struct tensor *keys, *values;
    struct tensor index;
    int rc, *in = lower_ints(l, n->n_in + 2), k = 0;

    if (table == NULL)
        return err_set(l->err, ERR_UNSUPPORTED,
                       "%s: which table it uses is only known to the run",
                       operation_name(n->op));
    rc = find_filler(l, table, &filler);
    if (rc < 0)
        return rc;
    keys = constant_behind(l, operation_input(filler, 1));
    values = constant_behind(l, operation_input(filler, 2));
    if (keys == NULL || values == NULL)
        return err_set(l->err, ERR_UNSUPPORTED,
                       "%s fills the table with keys and values that are no constants",
                       operation_name(filler));
    if (tensor_elements(keys) != tensor_elements(values))
        return err_set(l->err, ERR_SHAPE, "%s: the table has %lld keys and %lld values",
                       operation_name(n->op), (long long)tensor_elements(keys),
                       (long long)tensor_elements(values));
    if (finds && (value_at(l, n->in[1])->tensor.dtype != keys->dtype ||
                  value_at(l, n->in[2])->tensor.dtype != values->dtype))
        return err_set(l->err, ERR_DTYPE, "%s: the table is of %s to %s",
                       operation_name(n->op), dtype_name(keys->dtype),
                       dtype_name(values->dtype));
    rc =
        tensor_alloc(&index, DT_INT32, SHAPE(table_slots(tensor_elements(keys))), l->err);
    if (rc < 0)
        return rc;
    lower_own(l, index);
    rc = table_index(filler, keys, values, &index, l->err);
    in[k++] = lower_const(l, index);
    in[k++] = lower_const(l, *keys);
    in[k++] = lower_const(l, *values);
    for (int i = 1; i < n->n_in && !is_filler(n->op); i++)
        in[k++] = n->in[i];
    n->in = in;
    n->n_in = k;
    return rc;
}
