#include "agent/graph/op_table.h"

#include "agent/graph/graph_internal.h"
#include "agent/graph/import.h"
#include "agent/graph/op_rules.h"
#include "agent/graph/signature.h"

#include <string.h>

static const struct op_family *const families[] = {
    &ops_of_math,  &ops_of_matrix, &ops_of_reduce, &ops_of_array,  &ops_of_join,
    &ops_of_slice, &ops_of_index,  &ops_of_nn,     &ops_of_random, &ops_of_state,
    &ops_of_io,    &ops_of_flow,   &ops_of_conv,   &ops_of_arrays};
enum { N_FAMILIES = sizeof(families) / sizeof(families[0]) };

const struct op_def *op_def_at(size_t i)
{
    for (size_t f = 0; f < N_FAMILIES; f++) {
        if (i < families[f]->n)
            return &families[f]->rows[i];
        i -= families[f]->n;
    }
    return NULL;
}

const struct op_def *op_def_find(const char *type)
{
    for (size_t f = 0; f < N_FAMILIES; f++)
        for (size_t i = 0; i < families[f]->n; i++)
            if (strcmp(families[f]->rows[i].type, type) == 0)
                return &families[f]->rows[i];
    return NULL;
}

/* ---- libm ---- */

static int is_libm(struct operation *op)
{
    const unsigned flags = operation_def(op)->flags;
    enum dtype dtype;

    if ((flags & (OP_LIBM | OP_LIBM_DOUBLE)) == 0)
        return 0;
    dtype = output_dtype((struct output){op, 0});
    return dtype == DT_DOUBLE || (dtype == DT_FLOAT && (flags & OP_LIBM) != 0);
}

const struct operation *graph_first_libm(const struct graph *g)
{
    for (int id = 0; id < graph_n_operations(g); id++)
        if (is_libm(graph_operation_at(g, id)))
            return graph_operation_at(g, id);
    return NULL;
}

/* ---- foreign ops ---- */

const struct op_def *op_def_foreign(struct graph *g, const char *type,
                                    const char *signature, unsigned flags)
{
    struct op_def *d = ARENA_NEW(&g->arena, struct op_def);
    struct signature_room room;
    struct signature sig;

    d->type = arena_strdup(&g->arena, type);
    d->flags = flags | OP_FOREIGN;
    d->shape = shape_none;
    d->grad = grad_missing;
    d->signature = arena_strdup(&g->arena, signature);
    return signature_parse(&sig, &room, d->signature) == 0 ? d : NULL;
}
