/* The order between the blocks of a run (stages.c) that use a variable and those that write
 * it: uses.h, rules 1 and 2, for uses and writes in different plans. A loop is one block, which
 * uses and writes what its operations do. */
#include "agent/flow/stages.h"
#include "agent/graph/op_def.h"
#include "agent/plan/plan.h"

#include <string.h>

struct ordering {
    struct arena *arena;
    struct block_order *q;
    const struct graph *graph;
    int n;      /* operations of the graph */
    int *block; /* [operations] its block, or -1: the run does not need it */
    struct uses_walk walk;
    struct edge **after; /* [blocks] those that need it */
    struct reach reach;
};

/* ---- the operations of a loop, with those of the loops inside it ---- */

static int leaves(const struct while_loop *l, const struct operation *op)
{
    const struct attr *a =
        operation_is_enter(op) ? operation_attr(op, "frame_name") : NULL;

    return a != NULL && a->kind == ATTR_STRING && strcmp(a->s, l->frame) == 0;
}

static void add_inside(struct ordering *o, const struct operation *op, int block,
                       int *depth)
{
    const int id = operation_id(op);

    if (reach_has(&o->reach, id))
        return;
    o->reach.mark[id] = o->reach.n_marks;
    o->block[id] = block;
    o->reach.stack[(*depth)++] = id;
}

static void mark_loop(struct ordering *o, const struct while_loop *l, int block)
{
    int depth = 0;

    o->reach.n_marks++;
    add_inside(o, l->cond, block, &depth);
    for (int i = 0; i < l->n_variables; i++)
        add_inside(o, l->variables[i].next, block, &depth);
    while (depth > 0) {
        const struct operation *op =
            graph_operation_at(o->graph, o->reach.stack[--depth]);

        if (leaves(l, op))
            continue;
        for (int i = 0; i < operation_n_inputs(op); i++)
            add_inside(o, operation_input(op, i).op, block, &depth);
        for (int i = 0; i < operation_n_control_inputs(op); i++)
            if (plan_awaits(o->q->effects, op, i))
                add_inside(o, operation_control_input(op, i), block, &depth);
    }
}

/* ---- blocks ---- */

/* ---- variables ---- */

static int is_cut(const void *ctx, struct output x)
{
    const struct ordering *o = ctx;

    return o->q->is_given(o->q->ctx, x);
}

static const struct operation *variable_behind(struct output x)
{
    while (!operation_is_variable(x.op)) {
        if (operation_n_inputs(x.op) == 0 || operation_is_merge(x.op) ||
            !op_passes_on(x.op, 0))
            return NULL;
        x = operation_input(x.op, 0);
    }
    return x.op;
}

static void find_users(struct ordering *o)
{
    struct edge **users = ARENA_ARRAY(o->arena, struct edge *, o->n + 1);

    for (int id = 0; id < o->n; id++) {
        const struct operation *op = graph_operation_at(o->graph, id);

        for (int i = 0; i < operation_n_inputs(op); i++) {
            const int from = operation_id(operation_input(op, i).op);

            if (users[from] == NULL || users[from]->to != id)
                edge_add(o->arena, &users[from], id);
        }
    }
    uses_begin(&o->walk, o->arena, o->graph);
    o->walk.users = users;
    o->walk.is_cut = is_cut;
    o->walk.ctx = o;
}

/* Puts the blocks that use the variable before the one that writes it, except those that come
 * after it. */
static void order_uses(struct ordering *o, const struct edge *uses, int block)
{
    if (uses != NULL)
        reach_from(&o->reach, block);
    for (const struct edge *e = uses; e != NULL; e = e->next) {
        const int use = o->block[e->to];

        if (use < 0 || use == block || reach_has(&o->reach, use))
            continue;
        edge_add(o->arena, &o->q->before[block], use);
        edge_add(o->arena, &o->after[use], block);
    }
}

static void order_writes(struct ordering *o)
{
    struct edge **uses = ARENA_ARRAY(o->arena, struct edge *, o->n + 1);
    unsigned char *known = ARENA_ARRAY(o->arena, unsigned char, o->n + 1);

    for (int id = 0; id < o->n; id++) {
        const struct operation *op = graph_operation_at(o->graph, id);

        if (o->block[id] < 0 || (operation_def(op)->flags & OP_WRITES) == 0)
            continue;
        o->q->writes = 1;
        for (int i = 0; i < operation_n_inputs(op); i++) {
            const struct operation *v =
                op_writes(op, i) ? variable_behind(operation_input(op, i)) : NULL;
            const int k = v != NULL ? operation_id(v) : -1;

            if (v == NULL)
                continue;
            if (!known[k]) {
                uses_restart(&o->walk);
                uses_follow(&o->walk, o->arena, v, &uses[k]);
                known[k] = 1;
            }
            order_uses(o, uses[k], o->block[id]);
        }
    }
}

void blocks_order(struct block_order *q, struct arena *arena)
{
    struct ordering o = {
        .arena = arena, .q = q, .graph = q->graph, .n = graph_n_operations(q->graph)};

    o.block = ARENA_ARRAY(arena, int, o.n + 1);
    o.after = ARENA_ARRAY(arena, struct edge *, q->n_blocks + 1);
    o.reach = (struct reach){.after = o.after,
                             .mark = ARENA_ARRAY(arena, int, q->n_blocks + 1),
                             .stack = ARENA_ARRAY(arena, int, q->n_blocks + 1)};
    q->before = ARENA_ARRAY(arena, struct edge *, q->n_blocks + 1);
    for (int id = 0; id < o.n; id++)
        o.block[id] = q->block_of(q->ctx, id);
    for (int i = 0; i < q->n_units; i++)
        if (q->units[i].loop != NULL)
            mark_loop(&o, q->units[i].loop, o.n + i);
    find_users(&o);
    int from;
    for (int block = 0; block < o.q->n_blocks; block++)
        for (int i = 0; o.q->need(o.q->ctx, block, i, &from); i++)
            if (from >= 0)
                edge_add(o.arena, &o.after[from], block);
    order_writes(&o);
}
