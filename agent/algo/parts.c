#include "agent/algo/parts.h"

#include "agent/graph/ops.h"
#include "agent/nn/nn.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>

struct operation *minimize_clipped(struct graph *g, struct output loss,
                                   struct minimizer *m, struct err *err)
{
    const struct collection_item *items;
    size_t n = collection_get(g, TRAINABLE_VARIABLES, m->scope, &items);
    struct variable **vars = xcalloc(n, sizeof(struct variable *));
    struct gradient *grads = xcalloc(n, sizeof(*grads));
    struct operation *op = NULL;

    for (size_t i = 0; i < n; i++)
        vars[i] = items[i].variable;
    if (compute_gradients(g, loss, vars, n, grads, err) == 0) {
        m->norm = global_norm(g, grads, n);
        if (m->clip_by == CLIP_BY_GLOBAL)
            clip_gradients_by_global_norm(g, grads, n, m->norm, m->clip_norm);
        else
            clip_gradients_by_norm(g, grads, n, m->clip_norm);
        op = apply_gradients(g, m->optimizer, grads, n, NULL, NULL, &m->learning_rate);
    }
    free(vars);
    free(grads);
    return op;
}

size_t follow_variables(struct graph *g, const char *target, const char *source,
                        struct output keep, struct output polyak, struct operation **ops,
                        struct operation **copies)
{
    const struct collection_item *t, *v;
    size_t n = collection_get(g, TRAINABLE_VARIABLES, target, &t);

    (void)collection_get(g, TRAINABLE_VARIABLES, source, &v);
    for (size_t i = 0; i < n; i++) {
        struct output kept = binary(g, "Mul", keep, t[i].variable->read, "mul");
        struct output moved = binary(g, "Mul", polyak, v[i].variable->read, "mul");

        moved = binary(g, "Add", kept, moved, "add");
        ops[i] = variable_assign(t[i].variable, moved, NULL).op;
        copies[i] = variable_assign(t[i].variable, v[i].variable->read, NULL).op;
    }
    return n;
}
