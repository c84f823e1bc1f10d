#include "agent/graph/op_def.h"

#include "agent/graph/graph_internal.h"
#include "agent/graph/import.h"
#include "agent/graph/signature.h"
#include "common/err/check.h"

#include <string.h>

/* ---- the table ---- */

const struct op_def *op_def_at(const struct op_table *t, size_t i)
{
    for (size_t f = 0; f < t->n; f++) {
        if (i < t->families[f]->n)
            return &t->families[f]->rows[i];
        i -= t->families[f]->n;
    }
    return NULL;
}

const struct op_def *op_def_find(const struct op_table *t, const char *type)
{
    for (size_t f = 0; f < t->n; f++)
        for (size_t i = 0; i < t->families[f]->n; i++)
            if (strcmp(t->families[f]->rows[i].type, type) == 0)
                return &t->families[f]->rows[i];
    return NULL;
}

const struct op_def *operation_def(const struct operation *op)
{
    return op->def;
}

const struct signature *operation_signature(const struct operation *op)
{
    return op->sig;
}

const struct signature_arg *operation_argument(const struct operation *op, int i)
{
    for (int k = 0; k < op->sig->n_in; k++) {
        const struct signature_arg *arg = &op->sig->in[k];
        const int which = arg->number.len > 0 ? arg->number_attr : arg->type_attr;
        const struct attr *a = arg->is_list && which >= 0
                                   ? operation_attr(op, op->sig->attrs[which].text)
                                   : NULL;
        const int n = a == NULL ? 1 : a->kind == ATTR_LIST_TYPE ? (int)a->n : (int)a->i;

        if (i < n)
            return arg;
        i -= n;
    }
    return NULL;
}

/* ---- attributes ---- */

static const struct attr *need_attr(const struct operation *op, const char *name)
{
    const struct attr *a = operation_attr(op, name);

    CHECK(a != NULL, "%s has no attribute %s", operation_type(op), name);
    return a;
}

int64_t attr_int(const struct operation *op, const char *name)
{
    return need_attr(op, name)->i;
}

const struct shape *attr_shape(const struct operation *op, const char *name)
{
    return &need_attr(op, name)->shape;
}

/* ---- shapes ---- */

int want_rank(const struct shape_args *args, int i, int rank)
{
    const struct shape *s = &args->in[i];

    if (s->rank < 0 || s->rank == rank)
        return 0;
    return err_set(args->err, ERR_SHAPE, "input %d must have %d dimensions, but is %s", i,
                   rank, shape_text(s));
}

int operation_infer_shapes(const struct shape_args *args)
{
    const struct op_def *def = operation_def(args->op);
    const char *ranks = def->ranks != NULL ? def->ranks : "";

    for (int i = 0; i < args->n_in && ranks[i] != '\0'; i++)
        if (ranks[i] != '?' && want_rank(args, i, ranks[i] - '0') != 0)
            return ERR_SHAPE;
    return def->shape != NULL ? def->shape(args) : 0;
}

static int names(const char *words, struct span name)
{
    for (const char *p = words; *p != '\0'; p += strspn(p, " ")) {
        const size_t len = strcspn(p, " ");

        if (len == name.len && memcmp(p, name.p, len) == 0)
            return 1;
        p += len;
    }
    return 0;
}

int operation_is_sized_by(const struct operation *op, int i)
{
    const char *words = operation_def(op)->sized_by;
    const struct signature_arg *arg = words != NULL ? operation_argument(op, i) : NULL;

    return arg != NULL && names(words, arg->name);
}

/* ---- conditions and loops ---- */

int operation_is_switch(const struct operation *op)
{
    return operation_is(op, "Switch") || operation_is(op, "RefSwitch");
}

int operation_is_merge(const struct operation *op)
{
    return operation_is(op, "Merge") || operation_is(op, "RefMerge");
}

int operation_is_enter(const struct operation *op)
{
    return operation_is(op, "Enter") || operation_is(op, "RefEnter");
}

/* ---- variables ---- */

int operation_is_variable(const struct operation *op)
{
    return (operation_def(op)->flags & OP_VARIABLE) != 0;
}

int operation_is_staged(const struct operation *op)
{
    struct output x = {graph_operation_at(operation_graph(op), operation_id(op)), 0};

    return (operation_def(op)->flags & OP_STAGED) != 0 ||
           (operation_def(op)->kernel.kind == KERNEL_LOOP &&
            operation_n_outputs(op) > 0 && output_dtype(x) == DT_VARIANT);
}

/* The operation that made the handle; NULL: none, or a loop carries it. */
static const struct operation *maker_of(struct output handle)
{
    while (output_valid(handle) && operation_n_inputs(handle.op) > 0) {
        const int id = operation_id(handle.op);

        handle = operation_input(handle.op,
                                 operation_is(handle.op, "IdentityN") ? handle.index : 0);
        if (output_valid(handle) && operation_id(handle.op) >= id)
            return NULL; /* the handle is carried by a loop */
    }
    return output_valid(handle) ? handle.op : NULL;
}

const struct operation *operation_behind_handle(struct output handle)
{
    const struct operation *op = maker_of(handle);

    return op != NULL && operation_is(op, "VarHandleOp") ? op : NULL;
}

const struct operation *operation_table(struct output handle)
{
    const struct operation *op = maker_of(handle);

    return op != NULL && operation_is(op, "HashTableV2") ? op : NULL;
}

/* ---- libm ---- */

static int is_libm(struct operation *op)
{
    const unsigned flags = operation_def(op)->flags;
    enum dtype dtype;

    if ((flags & (OP_LIBM | OP_LIBM_DOUBLE)) == 0)
        return 0;
    dtype = operation_n_outputs(op) > 0 ? output_dtype((struct output){op, 0})
                                        : (enum dtype)attr_int(op, "T");
    return dtype == DT_DOUBLE || (dtype_is_floating(dtype) && (flags & OP_LIBM) != 0);
}

const struct operation *graph_first_libm(const struct graph *g)
{
    for (int id = 0; id < graph_n_operations(g); id++)
        if (is_libm(graph_operation_at(g, id)))
            return graph_operation_at(g, id);
    return NULL;
}

/* ---- signatures ---- */

const struct signature *graph_read_signature(struct graph *g, const char *text)
{
    struct signature_room room;
    struct signature sig;

    if (signature_parse(&sig, &room, text) != 0)
        return NULL;
    sig.in = arena_memdup(&g->arena, sig.in, (size_t)sig.n_in * sizeof(*sig.in));
    sig.out = arena_memdup(&g->arena, sig.out, (size_t)sig.n_out * sizeof(*sig.out));
    sig.attrs =
        arena_memdup(&g->arena, sig.attrs, (size_t)sig.n_attrs * sizeof(*sig.attrs));
    for (int i = 0; i < sig.n_attrs; i++)
        sig.attrs[i].text =
            arena_strndup(&g->arena, sig.attrs[i].name.p, sig.attrs[i].name.len);
    return arena_memdup(&g->arena, &sig, sizeof(sig));
}

/* ---- foreign ops ---- */

int grad_missing(struct graph *g, struct operation *op, const struct output *grad_out,
                 struct output *grad_in)
{
    return graph_fail(g, ERR_UNSUPPORTED,
                      "No gradient defined for operation '%s' (op type: %s)",
                      operation_name(op), operation_type(op));
}

const struct op_def *op_def_foreign(struct graph *g, const char *type,
                                    const char *signature, unsigned flags)
{
    struct op_def *d = ARENA_NEW(&g->arena, struct op_def);

    d->type = arena_strdup(&g->arena, type);
    d->flags = flags | OP_FOREIGN;
    d->grad = grad_missing;
    d->signature = arena_strdup(&g->arena, signature);
    d->read = graph_read_signature(g, d->signature);
    return d->read != NULL ? d : NULL;
}

const struct op_def *op_def_widened(struct graph *g, const struct op_def *row,
                                    const char *signature)
{
    struct op_def *d = arena_memdup(&g->arena, row, sizeof(*row));

    d->signature = signature;
    d->read = graph_read_signature(g, d->signature);
    return d->read != NULL ? d : NULL;
}
