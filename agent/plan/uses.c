#include "agent/plan/uses.h"

#include "agent/graph/op_def.h"
#include "agent/graph/signature.h"
#include "agent/ops/kernel.h"
#include "agent/plan/plan.h"

/* ---- edges ---- */

void edge_add(struct arena *arena, struct edge **list, int to)
{
    struct edge *e = ARENA_NEW(arena, struct edge);

    *e = (struct edge){to, *list};
    *list = e;
}

int reach_has(const struct reach *r, int to)
{
    return r->mark[to] == r->n_marks;
}

void reach_from(struct reach *r, int from)
{
    int depth = 0;

    r->n_marks++;
    r->mark[from] = r->n_marks;
    r->stack[depth++] = from;
    while (depth > 0)
        for (const struct edge *e = r->after[r->stack[--depth]]; e != NULL; e = e->next)
            if (!reach_has(r, e->to)) {
                r->mark[e->to] = r->n_marks;
                r->stack[depth++] = e->to;
            }
}

/* ---- operations ---- */

int takes_reference(const struct operation *op, int i)
{
    const struct signature_arg *arg = operation_argument(op, i);

    return arg != NULL && (arg->is_ref || span_is(arg->type, "resource"));
}

int op_writes(const struct operation *op, int i)
{
    return (operation_def(op)->flags & OP_WRITES) != 0 && takes_reference(op, i);
}

int op_passes_on(const struct operation *op, int i)
{
    if (operation_is_merge(op))
        return 1;
    if (i != 0)
        return 0;
    if (op_writes(op, 0))
        return operation_n_outputs(op) > 0 &&
               output_is_ref((struct output){
                   graph_operation_at(operation_graph(op), operation_id(op)), 0});
    if (operation_is(op, "Exit"))
        return 1;
    return operation_def(op)->kernel.kind == KERNEL_ALIAS &&
           !operation_is(op, "ReadVariableOp");
}

int op_carries(struct output x)
{
    return x.index == 0 || operation_is_switch(x.op);
}

/* ---- uses ---- */

void uses_begin(struct uses_walk *w, struct arena *arena, const struct graph *g)
{
    const int n = graph_n_operations(g);

    *w = (struct uses_walk){.graph = g};
    w->mark = ARENA_ARRAY(arena, int, n + 1);
    w->used = ARENA_ARRAY(arena, int, n + 1);
    w->stack = ARENA_ARRAY(arena, int, n + 1);
}

void uses_restart(struct uses_walk *w)
{
    w->n_walks++;
    w->depth = 0;
}

static void push(struct uses_walk *w, const struct operation *op)
{
    const int id = operation_id(op);

    if (w->mark[id] == w->n_walks)
        return;
    w->mark[id] = w->n_walks;
    w->stack[w->depth++] = id;
}

int uses_meet(struct uses_walk *w, const struct operation *user, int i)
{
    const int id = operation_id(user);

    if (op_passes_on(user, i)) {
        push(w, user);
        return 0;
    }
    if (op_writes(user, i) || w->used[id] == w->n_walks)
        return 0;
    w->used[id] = w->n_walks;
    return 1;
}

void uses_follow(struct uses_walk *w, struct arena *arena, const struct operation *from,
                 struct edge **ret)
{
    if (from != NULL)
        push(w, from);
    while (w->depth > 0) {
        const struct operation *op = graph_operation_at(w->graph, w->stack[--w->depth]);

        for (const struct edge *e = w->users[operation_id(op)]; e != NULL; e = e->next) {
            const struct operation *user = graph_operation_at(w->graph, e->to);

            for (int i = 0; i < operation_n_inputs(user); i++) {
                const struct output x = operation_input(user, i);

                if (x.op == op && op_carries(x) && !w->is_cut(w->ctx, x) &&
                    uses_meet(w, user, i))
                    edge_add(arena, ret, e->to);
            }
        }
    }
}
