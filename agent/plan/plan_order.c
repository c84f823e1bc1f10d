/* Finds the operations that a run needs and puts them in order.
 *
 * A control edge orders two operations. If neither the operation waited for nor anything
 * that it depends on has an effect (a variable or file written, a value checked, a branch
 * taken), the edge is dropped, together with the operations that only it needed. So the
 * gates between gradients (graph_gradients_gated) cost nothing.
 *
 * There are three kinds of edges: data, control, and use-before-write, which uses.h
 * describes: a use of a variable runs before each write to it from which no path leads to the
 * use. The users of a value that ReadVariableOp read come before the write, too, so that the
 * value need not be copied; where that would close a cycle, the read copies it. */
#include "agent/graph/import.h"
#include "agent/graph/op_def.h"
#include "agent/plan/plan.h"
#include "agent/plan/uses.h"
#include "common/err/check.h"

#include <stdio.h>
#include <string.h>

/* A ReadVariableOp of a variable that the run writes. */
struct read {
    int at;             /* its id */
    struct edge *users; /* of its value; to -1: a fetch */
    struct read *next;  /* of the same variable */
};

struct sorter {
    struct arena *arena;
    struct graph *graph;
    const struct run_args *args;
    int n;                 /* number of operations in the graph */
    unsigned char *needed; /* [operations] */
    unsigned char *does;   /* it has an effect, or depends on an operation that has one */
    unsigned char *fed;    /* at least one of its outputs is fed */
    /* all of its outputs are fed, or it ran in an earlier stage: no control edge needs
     * it */
    unsigned char *given;
    struct edge **after; /* successors */
    int *n_before;       /* predecessors not yet in order */
    /* [operations] id of the variable whose bytes or handle output 0 has; -1: none, or which
     * one depends on a branch */
    int *behind;
    struct uses_walk walk;
    struct edge **uses;  /* [operations] of a variable that the run writes */
    struct read **reads; /* [operations] of a resource variable that the run writes */
    struct edge *
        *deciders; /* [operations] Switches that a variable's bytes decide about */
    struct reach reach;
    int *stack;
};

static int is_fed(const struct sorter *s, struct output x)
{
    return s->fed[operation_id(x.op)] && run_is_fed(s->args, x);
}

static int writes(const struct operation *op)
{
    return (operation_def(op)->flags & OP_WRITES) != 0;
}

/* ---- which control edges matter ---- */

static int has_effect(const unsigned char *does, const struct operation *op)
{
    const unsigned seen = OP_WRITES | OP_AWAITED | OP_FOREIGN;
    int ret = (operation_def(op)->flags & seen) != 0;

    for (int i = 0; !ret && i < operation_n_inputs(op); i++)
        ret = does[operation_id(operation_input(op, i).op)];
    for (int i = 0; !ret && i < operation_n_control_inputs(op); i++)
        ret = does[operation_id(operation_control_input(op, i))];
    return ret;
}

static int waits_for_later(const struct operation *op)
{
    const int id = operation_id(op);

    for (int i = 0; i < operation_n_inputs(op); i++)
        if (operation_id(operation_input(op, i).op) > id)
            return 1;
    for (int i = 0; i < operation_n_control_inputs(op); i++)
        if (operation_id(operation_control_input(op, i)) > id)
            return 1;
    return 0;
}

/* Marks everything that depends on an operation with an effect. */
static void spread(const struct graph *g, struct arena *arena, unsigned char *does)
{
    const int n = graph_n_operations(g);
    struct edge **users = ARENA_ARRAY(arena, struct edge *, n);
    int *stack = ARENA_ARRAY(arena, int, n), depth = 0;

    for (int id = 0; id < n; id++) {
        const struct operation *op = graph_operation_at(g, id);

        for (int i = 0; i < operation_n_inputs(op); i++)
            edge_add(arena, &users[operation_id(operation_input(op, i).op)], id);
        for (int i = 0; i < operation_n_control_inputs(op); i++)
            edge_add(arena, &users[operation_id(operation_control_input(op, i))], id);
        if (does[id])
            stack[depth++] = id;
    }
    while (depth > 0)
        for (struct edge *e = users[stack[--depth]]; e != NULL; e = e->next)
            if (!does[e->to]) {
                does[e->to] = 1;
                stack[depth++] = e->to;
            }
}

/* Visits the operations in the order of their creation, in which inputs mostly come
 * first. */
unsigned char *plan_effects(const struct graph *g, struct arena *arena)
{
    const int n = graph_n_operations(g);
    unsigned char *does = ARENA_ARRAY(arena, unsigned char, n);
    int is_in_order = 1;

    for (int id = 0; id < n; id++) {
        const struct operation *op = graph_operation_at(g, id);

        does[id] = (unsigned char)has_effect(does, op);
        is_in_order &= does[id] || !waits_for_later(op);
    }
    if (!is_in_order)
        spread(g, arena, does);
    return does;
}

/* A NoOp exists only to run its control inputs. The loop itself has waited for those of an
 * Enter (flow/loops.c). */
int plan_awaits(const unsigned char *effects, const struct operation *op,
                int control_input)
{
    if (operation_is_enter(op))
        return 0;
    return operation_n_outputs(op) == 0 ||
           effects[operation_id(operation_control_input(op, control_input))];
}

static int awaits(const struct sorter *s, const struct operation *op, int control_input)
{
    return !s->given[operation_id(operation_control_input(op, control_input))] &&
           plan_awaits(s->does, op, control_input);
}

static void find_given(struct sorter *s)
{
    int *n_fed = ARENA_ARRAY(s->arena, int, s->n);

    for (size_t i = 0; i < s->args->n_feeds; i++) {
        const struct operation *op = s->args->feeds[i].output.op;
        const int id = operation_id(op);

        s->fed[id] = 1;
        n_fed[id]++;
        s->given[id] |= s->args->feeds[i].output.index < 0 ||
                        (n_fed[id] == operation_n_outputs(op) && !writes(op));
    }
}

/* ---- pruning ---- */

static void need(struct sorter *s, const struct operation *op, int *depth)
{
    int id = operation_id(op);

    if (s->needed[id])
        return;
    s->needed[id] = 1;
    s->stack[(*depth)++] = id;
}

static void prune(struct sorter *s)
{
    int depth = 0;

    for (size_t i = 0; i < s->args->n_targets; i++)
        need(s, s->args->targets[i], &depth);
    for (size_t i = 0; i < s->args->n_fetches; i++)
        if (!is_fed(s, s->args->fetches[i]))
            need(s, s->args->fetches[i].op, &depth);
    while (depth > 0) {
        const struct operation *op = graph_operation_at(s->graph, s->stack[--depth]);

        for (int i = 0; i < operation_n_inputs(op); i++)
            if (!is_fed(s, operation_input(op, i)))
                need(s, operation_input(op, i).op, &depth);
        for (int i = 0; i < operation_n_control_inputs(op); i++)
            if (awaits(s, op, i))
                need(s, operation_control_input(op, i), &depth);
    }
}

/* ---- edges ---- */

static void add_edge(struct sorter *s, int from, int to)
{
    edge_add(s->arena, &s->after[from], to);
    s->n_before[to]++;
}

static void graph_edges(struct sorter *s)
{
    for (int id = 0; id < s->n; id++) {
        if (!s->needed[id])
            continue;
        const struct operation *op = graph_operation_at(s->graph, id);
        for (int i = 0; i < operation_n_inputs(op); i++)
            if (!is_fed(s, operation_input(op, i)))
                add_edge(s, operation_id(operation_input(op, i).op), id);
        for (int i = 0; i < operation_n_control_inputs(op); i++)
            if (awaits(s, op, i))
                add_edge(s, operation_id(operation_control_input(op, i)), id);
    }
}

/* ---- uses and writes of variables ---- */

static int is_cut(const void *ctx, struct output x)
{
    return is_fed(ctx, x);
}

/* Returns the variable whose bytes or handle the output has; -1: none. */
static int variable_of(const struct sorter *s, struct output x)
{
    if (!is_fed(s, x))
        return op_carries(x) ? s->behind[operation_id(x.op)] : -1;
    for (size_t i = 0; i < s->args->n_feeds; i++)
        if (output_same(s->args->feeds[i].output, x) &&
            s->args->feeds[i].memory_of != NULL)
            return operation_id(s->args->feeds[i].memory_of);
    return -1;
}

/* Finds the variable behind each operation. Inputs come first, since only control edges, and
 * loops, which plans do not see, point forward. */
static void find_behind(struct sorter *s)
{
    for (int id = 0; id < s->n; id++) {
        const struct operation *op = graph_operation_at(s->graph, id);

        s->behind[id] = -1;
        if (!s->needed[id])
            continue;
        if (operation_is_variable(op)) {
            s->behind[id] = id;
        } else if (operation_n_inputs(op) > 0 && !operation_is_merge(op) &&
                   (op_passes_on(op, 0) || operation_is(op, "ReadVariableOp"))) {
            const struct output x = operation_input(op, 0);

            if (operation_id(x.op) < id || is_fed(s, x))
                s->behind[id] = variable_of(s, x);
        }
    }
}

/* Returns the variable that a write changes by argument i; -1: none. */
static int written_by(const struct sorter *s, const struct operation *op, int i)
{
    return op_writes(op, i) ? variable_of(s, operation_input(op, i)) : -1;
}

static void find_written(const struct sorter *s, struct order *ret)
{
    for (int id = 0; id < s->n; id++) {
        const struct operation *op = graph_operation_at(s->graph, id);

        if (!s->needed[id] || !writes(op))
            continue;
        for (int i = 0; i < operation_n_inputs(op); i++)
            if (written_by(s, op, i) >= 0)
                ret->written[written_by(s, op, i)] = 1;
    }
}

/* Meets the users of the feeds that are the memory of the variable. */
static void meet_fed(struct sorter *s, const struct operation *variable)
{
    for (size_t k = 0; k < s->args->n_feeds; k++) {
        const struct output x = s->args->feeds[k].output;

        if (s->args->feeds[k].memory_of != variable)
            continue;
        for (int id = 0; id < s->n; id++) {
            const struct operation *op = graph_operation_at(s->graph, id);

            for (int i = 0; s->needed[id] && i < operation_n_inputs(op); i++)
                if (output_same(operation_input(op, i), x) && uses_meet(&s->walk, op, i))
                    edge_add(s->arena, &s->uses[operation_id(variable)], id);
        }
    }
}

/* Finds the values that reads of a resource variable pass on, and who uses them. */
static void find_reads(struct sorter *s, int variable)
{
    for (const struct edge *e = s->uses[variable]; e != NULL; e = e->next) {
        const struct operation *op = graph_operation_at(s->graph, e->to);
        struct read *r;

        if (!operation_is(op, "ReadVariableOp"))
            continue;
        r = ARENA_NEW(s->arena, struct read);
        *r = (struct read){.at = e->to, .next = s->reads[variable]};
        s->reads[variable] = r;
        uses_restart(&s->walk);
        uses_follow(&s->walk, s->arena, op, &r->users);
        for (size_t i = 0; i < s->args->n_fetches; i++) {
            const struct output x = s->args->fetches[i];

            if (op_carries(x) && !is_fed(s, x) &&
                s->walk.mark[operation_id(x.op)] == s->walk.n_walks)
                edge_add(s->arena, &r->users, -1);
        }
    }
}

static void find_uses(struct sorter *s, const struct order *order)
{
    uses_begin(&s->walk, s->arena, s->graph);
    s->walk.users = s->after;
    s->walk.is_cut = is_cut;
    s->walk.ctx = s;
    for (int v = 0; v < s->n; v++) {
        const struct operation *variable = graph_operation_at(s->graph, v);

        if (!order->written[v])
            continue;
        uses_restart(&s->walk);
        meet_fed(s, variable);
        uses_follow(&s->walk, s->arena, variable, &s->uses[v]);
        if (!output_is_ref((struct output){graph_operation_at(s->graph, v), 0})) {
            find_reads(s, v);
            continue;
        }
        for (const struct edge *e = s->uses[v]; e != NULL; e = e->next)
            if (operation_is_switch(graph_operation_at(s->graph, e->to)))
                edge_add(s->arena, &s->deciders[e->to], v);
    }
}

/* ---- their order ---- */

/* Orders the uses of what the operation writes before it, except those that depend on it.
 * More edges to an operation do not change what it reaches. */
static void order_uses(struct sorter *s, const struct operation *op)
{
    const int id = operation_id(op);
    int is_known = 0; /* reach_from(id) was called */

    for (int i = 0; i < operation_n_inputs(op); i++) {
        const int v = written_by(s, op, i);

        for (const struct edge *e = v < 0 ? NULL : s->uses[v]; e != NULL; e = e->next) {
            if (e->to == id)
                continue;
            if (!is_known)
                reach_from(&s->reach, id);
            is_known = 1;
            if (!reach_has(&s->reach, e->to))
                add_edge(s, e->to, id);
        }
    }
}

/* Orders the users of what the read passes on before the write; the read copies the value
 * for users that come after it, for the write if it changes parts of the variable, and for a
 * Switch, whose predicate is looked at before each step. */
static void order_users(struct sorter *s, const struct read *r, int write,
                        struct order *ret)
{
    const struct operation *op = graph_operation_at(s->graph, write);

    for (const struct edge *e = r->users; e != NULL; e = e->next) {
        if (e->to == write) {
            if ((operation_def(op)->flags & OP_WRITES_PARTS) != 0)
                ret->copy[r->at] = 1;
            continue;
        }
        if (e->to < 0 || reach_has(&s->reach, e->to) ||
            operation_is_switch(graph_operation_at(s->graph, e->to)))
            ret->copy[r->at] = 1;
        else
            add_edge(s, e->to, write);
    }
}

static void order_read_values(struct sorter *s, const struct operation *op,
                              struct order *ret)
{
    const int id = operation_id(op);
    int is_known = 0; /* reach_from(id) was called */

    for (int i = 0; i < operation_n_inputs(op); i++) {
        const int v = written_by(s, op, i);

        for (const struct read *r = v < 0 ? NULL : s->reads[v]; r != NULL; r = r->next) {
            if (!is_known)
                reach_from(&s->reach, id);
            is_known = 1;
            if (!reach_has(&s->reach, r->at))
                order_users(s, r, id, ret);
        }
    }
}

/* Numbers the versions of what decides about a Switch: the writes so far to the variables
 * behind its predicate. */
static void find_versions(const struct sorter *s, struct order *ret)
{
    int *n_writes = ARENA_ARRAY(s->arena, int, s->n);

    for (int k = 0; k < ret->n; k++) {
        const struct operation *op = ret->ops[k];
        const int id = operation_id(op);

        for (const struct edge *e = s->deciders[id]; e != NULL; e = e->next)
            ret->version[id] += n_writes[e->to] + (ret->version[id] == 0);
        for (int i = 0; writes(op) && i < operation_n_inputs(op); i++)
            if (written_by(s, op, i) >= 0)
                n_writes[written_by(s, op, i)]++;
    }
}

/* ---- sorting: of the operations that are ready, the one created first is next ---- */

static void heap_push(int *heap, int *n, int id)
{
    int i = (*n)++;

    for (; i > 0 && heap[(i - 1) / 2] > id; i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = id;
}

static int heap_pop(int *heap, int *n)
{
    int top = heap[0], last = heap[--*n], i = 0;

    for (;;) {
        int child = 2 * i + 1;

        if (child + 1 < *n && heap[child + 1] < heap[child])
            child++;
        if (child >= *n || heap[child] >= last)
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return top;
}

int plan_not_runnable(const struct operation *op, struct err *err)
{
    if (operation_reason(op) != NULL)
        return err_set(err, ERR_UNSUPPORTED, "%s: %s", operation_name(op),
                       operation_reason(op));
    return err_set(err, ERR_UNSUPPORTED, "%s: operations of type %s cannot be run",
                   operation_name(op), operation_type(op));
}

/* Reports the operations that never became ready. */
static int report_cycle(const struct sorter *s, struct err *err)
{
    const struct operation *first = NULL;

    for (int id = 0; id < s->n; id++) {
        const struct operation *op = graph_operation_at(s->graph, id);

        if (!s->needed[id] || s->n_before[id] == 0)
            continue;
        if (operation_def(op)->flags & OP_FOREIGN)
            return plan_not_runnable(op, err);
        first = first != NULL ? first : op;
    }
    return err_set(err, ERR_ARG,
                   "operation %s waits for itself: control edges form a cycle",
                   operation_name(first));
}

static int sort(struct sorter *s, struct order *ret, struct err *err)
{
    int n_ready = 0, n_needed = 0;

    for (int id = 0; id < s->n; id++) {
        n_needed += s->needed[id];
        if (s->needed[id] && s->n_before[id] == 0)
            heap_push(s->stack, &n_ready, id);
    }
    while (n_ready > 0) {
        int id = heap_pop(s->stack, &n_ready);

        ret->ops[ret->n++] = graph_operation_at(s->graph, id);
        for (struct edge *e = s->after[id]; e != NULL; e = e->next)
            if (--s->n_before[e->to] == 0)
                heap_push(s->stack, &n_ready, e->to);
    }
    return ret->n == n_needed ? 0 : report_cycle(s, err);
}

/* ---- variables that must be initialised when a run starts ---- */

/* Whether the operation writes all of the variable behind argument 0 without reading it. */
static int overwrites(const struct operation *op)
{
    const kernel_fn call = operation_def(op)->kernel.call;

    return call == kern_assign || call == kern_destroy;
}

/* Whether the operation, which does not write, reads the variable behind its handle. */
static int reads_handle(const struct operation *op)
{
    const struct op_def *d = operation_def(op);

    return operation_is(op, "ReadVariableOp") ||
           (d->kernel.kind == KERNEL_CALL && d->kernel.call != kern_is_initialized &&
            (d->flags & OP_SHAPES_ONLY) == 0);
}

/* Whether the operation needs the value of the variable behind argument i. */
static int needs_value(const struct operation *op, int i)
{
    struct output x = operation_input(op, i);

    if ((operation_is_switch(op) && i == 0) || operation_is_merge(op))
        return 0; /* passes the input on without reading it */
    if (output_dtype(x) == DT_RESOURCE && !writes(op))
        return reads_handle(op);
    return !takes_reference(op, i) || (writes(op) && !(i == 0 && overwrites(op)));
}

static void find_checked(struct sorter *s, struct plan *p, struct order *order,
                         const struct var_store *vars)
{
    unsigned char *known = ARENA_ARRAY(s->arena, unsigned char, s->n);

    p->checked = ARENA_ARRAY(&p->arena, int, s->n);
    for (int k = 0; k < order->n; k++) {
        const struct operation *op = order->ops[k];

        for (int i = 0; i < operation_n_inputs(op); i++) {
            const int v = variable_of(s, operation_input(op, i));

            if (v < 0)
                continue;
            if (p->n_guards > 1 && needs_value(op, i)) {
                /* if some branches may be dead, the variable is checked when the
                 * operation runs */
                struct check *c = ARENA_NEW(s->arena, struct check);

                *c = (struct check){graph_operation_at(s->graph, v),
                                    order->checks[operation_id(op)]};
                order->checks[operation_id(op)] = c;
            } else if (needs_value(op, i) && !known[v]) {
                p->checked[p->n_checked++] =
                    var_store_find(vars, graph_operation_at(s->graph, v));
            }
            if (needs_value(op, i) || writes(op))
                known[v] = 1;
        }
    }
    for (size_t i = 0; i < s->args->n_fetches; i++) {
        struct output x = s->args->fetches[i];
        int id = operation_id(x.op);

        if (operation_is_variable(x.op) && !is_fed(s, x) && !known[id])
            p->checked[p->n_checked++] = var_store_find(vars, x.op);
    }
}

int plan_order(struct plan *p, struct arena *scratch, const struct run_args *args,
               const struct var_store *vars, struct order *ret, struct err *err)
{
    int n = graph_n_operations(p->graph);
    struct sorter s = {
        .arena = scratch,
        .graph = p->graph,
        .args = args,
        .n = n,
        .needed = ARENA_ARRAY(scratch, unsigned char, n),
        .does = plan_effects(p->graph, scratch),
        .given = ARENA_ARRAY(scratch, unsigned char, n),
        .fed = ARENA_ARRAY(scratch, unsigned char, n),
        .after = ARENA_ARRAY(scratch, struct edge *, n),
        .n_before = ARENA_ARRAY(scratch, int, n),
        .behind = ARENA_ARRAY(scratch, int, n),
        .uses = ARENA_ARRAY(scratch, struct edge *, n),
        .reads = ARENA_ARRAY(scratch, struct read *, n),
        .deciders = ARENA_ARRAY(scratch, struct edge *, n),
        .stack = ARENA_ARRAY(scratch, int, n),
    };

    s.reach = (struct reach){
        .after = s.after, .mark = ARENA_ARRAY(scratch, int, n), .stack = s.stack};
    *ret = (struct order){
        .ops = ARENA_ARRAY(scratch, struct operation *, n),
        .copy = ARENA_ARRAY(scratch, unsigned char, n),
        .written = ARENA_ARRAY(scratch, unsigned char, n),
        .version = ARENA_ARRAY(scratch, int, n),
        .checks = ARENA_ARRAY(scratch, struct check *, n),
    };
    find_given(&s);
    prune(&s);
    graph_edges(&s);
    find_behind(&s);
    find_written(&s, ret);
    find_uses(&s, ret);
    for (int id = 0; id < n; id++)
        if (s.needed[id] && writes(graph_operation_at(p->graph, id)))
            order_uses(&s, graph_operation_at(p->graph, id));
    for (int id = 0; id < n; id++)
        if (s.needed[id] && writes(graph_operation_at(p->graph, id)))
            order_read_values(&s, graph_operation_at(p->graph, id), ret);
    int rc = sort(&s, ret, err);
    if (rc == 0)
        find_versions(&s, ret);
    if (rc == 0)
        rc = plan_guards(p, scratch, ret, err);
    if (rc == 0)
        find_checked(&s, p, ret, vars);
    return rc;
}
