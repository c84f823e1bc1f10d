#include "agent/plan/plan.h"

#include "common/mem/xmalloc.h"

int plan_add_value(struct plan *p, enum value_kind kind, enum dtype dtype,
                   struct shape shape)
{
    ARRAY_GROW(p->values, p->n_values, p->cap_values);
    p->values[p->n_values] = (struct value){
        .tensor = tensor_view(dtype, shape, NULL),
        .kind = kind,
        .root = p->n_values,
        .index = -1,
        .producer = -1,
        .shares_with = p->n_values,
    };
    return p->n_values++;
}

int plan_feed_of(const struct plan *p, struct output x)
{
    for (size_t i = 0; i < p->n_feeds; i++)
        if (output_same(p->feeds[i].output, x))
            return (int)i;
    return -1;
}

void plan_count_uses(struct plan *p)
{
    for (int v = 0; v < p->n_values; v++)
        p->values[v].uses = 0;
    for (size_t i = 0; i < p->n_fetches; i++)
        if (p->fetch_values[i] >= 0)
            p->values[p->values[p->fetch_values[i]].root].uses++;
    for (int k = 0; k < p->n_guards; k++)
        for (int i = 0; i < p->guards[k].n; i++)
            if (p->guards[k].conditions[i].value >= 0)
                p->values[p->values[p->guards[k].conditions[i].value].root].uses++;
    for (int k = p->n_nodes - 1; k >= 0; k--) {
        struct node *n = &p->nodes[k];
        int wanted = n->writes || n->keep;

        for (int i = 0; i < n->n_out; i++)
            wanted |= p->values[p->values[n->out[i]].root].uses > 0;
        n->dead = !wanted;
        for (int i = 0; wanted && i < n->n_in; i++)
            p->values[p->values[n->in[i]].root].uses++;
    }
}
