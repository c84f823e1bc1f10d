/* Finds the guard of each operation: the conditions, set by Switches, under which it
 * runs. An operation is alive while all of its inputs are, so its guard is the union of
 * theirs. A Merge is alive while any of its inputs is, so its guard is the
 * intersection; inputs that are fed dead do not count. */
#include "agent/plan/plan.h"

#include <string.h>

static int has(const struct guard *g, const struct condition *c)
{
    for (int i = 0; i < g->n; i++)
        if (output_same(g->conditions[i].predicate, c->predicate) &&
            g->conditions[i].version == c->version &&
            g->conditions[i].branch == c->branch)
            return 1;
    return 0;
}

/* A guard that is being made. There is place for one condition more than an operation may
 * have: that of a Switch's output, and to find an operation that has too many. */
struct draft {
    struct guard guard; /* has the conditions below */
    struct condition conditions[PLAN_MAX_BRANCHES + 1];
};

static void plan_guard_begin(struct draft *d)
{
    d->guard = (struct guard){0, d->conditions};
}

static void plan_guard_add(struct draft *d, const struct condition *c)
{
    if (d->guard.n <= PLAN_MAX_BRANCHES && !has(&d->guard, c))
        d->conditions[d->guard.n++] = *c;
}

static void add_all(struct draft *d, const struct guard *g)
{
    for (int i = 0; i < g->n; i++)
        plan_guard_add(d, &g->conditions[i]);
}

/* Returns the number of the guard; a new number if there is no equal one yet. */
static int intern(struct plan *p, const struct draft *d)
{
    const struct guard *g = &d->guard;
    struct guard *kept;

    for (int k = 0; k < p->n_guards; k++) {
        int same = p->guards[k].n == g->n;

        for (int i = 0; same && i < g->n; i++)
            same = has(&p->guards[k], &g->conditions[i]);
        if (same)
            return k;
    }
    if ((p->n_guards & (p->n_guards - 1)) == 0) { /* 0, 1, 2, 4, ...: there is no place */
        struct guard *all = ARENA_ARRAY(&p->arena, struct guard, 2 * p->n_guards + 1);

        if (p->n_guards > 0)
            memcpy(all, p->guards, sizeof(*all) * (size_t)p->n_guards);
        p->guards = all;
    }
    kept = &p->guards[p->n_guards];
    *kept = (struct guard){g->n, ARENA_ARRAY(&p->arena, struct condition, g->n + 1)};
    if (g->n > 0)
        memcpy(kept->conditions, g->conditions, sizeof(*g->conditions) * (size_t)g->n);
    return p->n_guards++;
}

int guard_both(struct plan *p, int a, int b)
{
    struct draft d;

    if (a == b || p->guards[b].n == 0 || a == p->never)
        return a;
    if (b == p->never)
        return b;
    plan_guard_begin(&d);
    add_all(&d, &p->guards[a]);
    add_all(&d, &p->guards[b]);
    return intern(p, &d);
}

static int common(struct plan *p, int a, int b)
{
    struct draft d;

    plan_guard_begin(&d);
    for (int i = 0; i < p->guards[a].n; i++)
        if (has(&p->guards[b], &p->guards[a].conditions[i]))
            plan_guard_add(&d, &p->guards[a].conditions[i]);
    return intern(p, &d);
}

static int with_branch(struct plan *p, int guard, struct output predicate, int version,
                       int branch)
{
    const struct condition c = {predicate, version, branch, -1};
    struct draft d;

    if (guard == p->never || has(&p->guards[guard], &c))
        return guard;
    plan_guard_begin(&d);
    add_all(&d, &p->guards[guard]);
    plan_guard_add(&d, &c);
    return intern(p, &d);
}

int guard_of_input(struct plan *p, const struct order *order, struct output x)
{
    const int feed = plan_feed_of(p, x), id = operation_id(x.op);

    if (feed >= 0)
        return p->feeds[feed].is_dead ? p->never : 0;
    return operation_is_switch(x.op)
               ? with_branch(p, order->guard[id], operation_input(x.op, 1),
                             order->version[id], x.index)
               : order->guard[id];
}

/* Whether the guards differ in branches that one predicate chose at different times, between
 * which it was written: neither of the guards may hold, or both. */
static int is_mixed(const struct plan *p, int a, int b)
{
    for (int i = 0; i < p->guards[a].n; i++)
        for (int k = 0; k < p->guards[b].n; k++) {
            const struct condition *x = &p->guards[a].conditions[i];
            const struct condition *y = &p->guards[b].conditions[k];

            if (x->version != y->version && output_same(x->predicate, y->predicate) &&
                !has(&p->guards[b], x) && !has(&p->guards[a], y))
                return 1;
        }
    return 0;
}

/* Returns the operation's guard, or an error. */
static int guard_of_op(struct plan *p, const struct order *order,
                       const struct operation *op, struct err *err)
{
    const int merge = operation_is_merge(op);
    int guard = 0, n_alive = 0;

    if (operation_is(op, "ControlTrigger"))
        return 0;
    for (int i = 0; i < operation_n_inputs(op); i++) {
        const int one = guard_of_input(p, order, operation_input(op, i));

        for (int k = 0; merge && k < i; k++)
            if (is_mixed(p, one, guard_of_input(p, order, operation_input(op, k))))
                return err_set(
                    err, ERR_UNSUPPORTED,
                    "%s joins branches that one variable decided about before and after "
                    "it was written",
                    operation_name(op));
        if (!merge)
            guard = guard_both(p, guard, one);
        else if (one != p->never)
            guard = n_alive++ == 0 ? one : common(p, guard, one);
    }
    if (merge && n_alive == 0 && p->never >= 0)
        guard = p->never;
    for (int i = 0; i < operation_n_control_inputs(op); i++)
        guard = guard_both(p, guard,
                           order->guard[operation_id(operation_control_input(op, i))]);
    return guard;
}

/* Gives the guard `never` to operations that ran in an earlier stage and were dead
 * there. */
static void find_dead(struct plan *p, int *guard_of)
{
    const struct condition no_predicate = {OUTPUT_NONE, 0, 0, -1};
    struct draft never;

    plan_guard_begin(&never);
    plan_guard_add(&never, &no_predicate);
    p->never = -1;
    for (size_t i = 0; i < p->n_feeds; i++) {
        if (!p->feeds[i].is_dead)
            continue;
        p->never = p->never >= 0 ? p->never : intern(p, &never);
        if (p->feeds[i].output.index < 0)
            guard_of[operation_id(p->feeds[i].output.op)] = p->never;
    }
}

int plan_guards(struct plan *p, struct arena *scratch, struct order *order,
                struct err *err)
{
    struct draft none;

    plan_guard_begin(&none);
    (void)intern(p, &none);
    order->guard = ARENA_ARRAY(scratch, int, graph_n_operations(p->graph));
    find_dead(p, order->guard);
    for (int k = 0; k < order->n; k++) {
        const struct operation *op = order->ops[k];
        const int guard = guard_of_op(p, order, op, err);

        if (guard < 0)
            return guard;
        if (p->guards[guard].n > PLAN_MAX_BRANCHES)
            return err_set(err, ERR_LIMIT,
                           "%s depends on more than %d branches of conditions at once",
                           operation_name(op), PLAN_MAX_BRANCHES);
        order->guard[operation_id(op)] = guard;
    }
    return 0;
}
