/* Finds the guard of each operation: the conditions, set by Switches, under which it
 * runs. An operation is alive while all of its inputs are, so its guard is the union of
 * theirs. A Merge is alive while any of its inputs is, so its guard is the
 * intersection; inputs that are fed dead do not count. */
#include "agent/session/plan.h"

#include <string.h>

int is_switch(const struct operation *op)
{
    return operation_is(op, "Switch") || operation_is(op, "RefSwitch");
}

static int same_condition(const struct condition *a, const struct condition *b)
{
    return a->predicate.op == b->predicate.op &&
           a->predicate.index == b->predicate.index && a->branch == b->branch;
}

static int has(const struct guard *g, const struct condition *c)
{
    for (int i = 0; i < g->n; i++)
        if (same_condition(&g->conditions[i], c))
            return 1;
    return 0;
}

/* Returns the number of the guard; a new number if there is no equal one yet. */
static int intern(struct plan *p, const struct guard *g)
{
    struct guard *all;

    for (int k = 0; k < p->n_guards; k++) {
        int same = p->guards[k].n == g->n;

        for (int i = 0; same && i < g->n; i++)
            same = has(&p->guards[k], &g->conditions[i]);
        if (same)
            return k;
    }
    all = ARENA_ARRAY(&p->arena, struct guard, p->n_guards + 1);
    if (p->n_guards > 0)
        memcpy(all, p->guards, sizeof(*all) * (size_t)p->n_guards);
    all[p->n_guards] = *g;
    p->guards = all;
    return p->n_guards++;
}

static struct guard empty_guard(struct plan *p, int capacity)
{
    return (struct guard){0, ARENA_ARRAY(&p->arena, struct condition, capacity + 1)};
}

static int both(struct plan *p, int a, int b)
{
    const struct guard *x = &p->guards[a], *y = &p->guards[b];
    struct guard g;

    if (a == b || y->n == 0 || a == p->never)
        return a;
    if (b == p->never)
        return b;
    g = empty_guard(p, x->n + y->n);
    for (int i = 0; i < x->n; i++)
        g.conditions[g.n++] = x->conditions[i];
    for (int i = 0; i < y->n; i++)
        if (!has(x, &y->conditions[i]))
            g.conditions[g.n++] = y->conditions[i];
    return intern(p, &g);
}

static int common(struct plan *p, int a, int b)
{
    const struct guard *x = &p->guards[a], *y = &p->guards[b];
    struct guard g = empty_guard(p, x->n);

    for (int i = 0; i < x->n; i++)
        if (has(y, &x->conditions[i]))
            g.conditions[g.n++] = x->conditions[i];
    return intern(p, &g);
}

static int with_branch(struct plan *p, int guard, struct output predicate, int branch)
{
    const struct guard *x = &p->guards[guard];
    struct condition c = {predicate, branch, -1};
    struct guard g;

    if (guard == p->never || has(x, &c))
        return guard;
    g = empty_guard(p, x->n + 1);
    if (x->n > 0)
        memcpy(g.conditions, x->conditions, sizeof(c) * (size_t)x->n);
    g.n = x->n;
    g.conditions[g.n++] = c;
    return intern(p, &g);
}

static int guard_of_output(struct plan *p, const int *guard_of, struct output x)
{
    int guard = guard_of[operation_id(x.op)];

    return is_switch(x.op) ? with_branch(p, guard, operation_input(x.op, 1), x.index)
                           : guard;
}

static const struct plan_feed *feed_of(const struct plan *p, struct output x)
{
    for (size_t i = 0; i < p->n_feeds; i++)
        if (p->feeds[i].output.op == x.op && p->feeds[i].output.index == x.index)
            return &p->feeds[i];
    return NULL;
}

int guard_of_input(struct plan *p, const int *guard_of, struct output x)
{
    const struct plan_feed *f = feed_of(p, x);

    if (f != NULL)
        return f->is_dead ? p->never : 0;
    return guard_of_output(p, guard_of, x);
}

static int guard_of_op(struct plan *p, const int *guard_of, const struct operation *op)
{
    int merge = operation_is(op, "Merge"), guard = 0, n_alive = 0;

    if (operation_is(op, "ControlTrigger"))
        return 0;
    for (int i = 0; i < operation_n_inputs(op); i++) {
        struct output x = operation_input(op, i);
        int one = guard_of_input(p, guard_of, x);

        if (!merge)
            guard = both(p, guard, one);
        else if (one != p->never)
            guard = n_alive++ == 0 ? one : common(p, guard, one);
    }
    if (merge && n_alive == 0 && p->never >= 0)
        guard = p->never;
    for (int i = 0; i < operation_n_control_inputs(op); i++)
        guard = both(p, guard, guard_of[operation_id(operation_control_input(op, i))]);
    return guard;
}

/* Gives the guard `never` to operations that ran in an earlier stage and were dead
 * there. */
static void find_dead(struct plan *p, int *guard_of)
{
    struct guard never = empty_guard(p, 1);

    p->never = -1;
    never.conditions[never.n++] = (struct condition){OUTPUT_NONE, 0, -1};
    for (size_t i = 0; i < p->n_feeds; i++) {
        if (!p->feeds[i].is_dead)
            continue;
        p->never = p->never >= 0 ? p->never : intern(p, &never);
        if (p->feeds[i].output.index < 0)
            guard_of[operation_id(p->feeds[i].output.op)] = p->never;
    }
}

void plan_guards(struct plan *p, struct arena *scratch, struct order *order)
{
    struct guard none = {0};

    (void)intern(p, &none);
    order->guard = ARENA_ARRAY(scratch, int, graph_n_operations(p->graph));
    find_dead(p, order->guard);
    for (int k = 0; k < order->n; k++)
        order->guard[operation_id(order->ops[k])] =
            guard_of_op(p, order->guard, order->ops[k]);
}
