/* Cuts a run into stages. A block is an operation that a plan runs, or a unit: a staged
 * operation or a loop. The level of a block is the length of the longest chain of units
 * that must run before it. A unit's stage is its level; an operation's stage is the first
 * one in which a block needs it. */
#include "agent/flow/stages.h"

#include "agent/graph/op_def.h"
#include "agent/plan/plan.h"
#include "common/mem/xmalloc.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* The number of operations that scheduling one run may look at, which limits its time to
 * seconds. */
#define MAX_LOOKS ((int64_t)400000000)

struct builder {
    struct arena scratch;
    struct schedule *sc;
    const struct graph *graph;
    struct err *err;
    struct loop_finder finder;
    struct while_loop *loops;
    int n; /* number of operations in the graph */
    const struct schedule_query *query;
    int writes;
    int64_t *n_left; /* what is left of MAX_LOOKS for all schedules of the run */
    unsigned char *effects;
    unsigned char *known; /* [operations] plan_knows */
    unsigned char *seen;
    unsigned char *wanted; /* [operations] fetched or a target */
    int *slot_of;          /* [operations] its first slot, plus 1 */
    int *next_slot;        /* [slots] the next slot of the same operation, plus 1 */
    int cap_next;
    int *unit_of; /* [operations] its unit, plus 1 */
    int n_todo;
    int *todo; /* ids of operations to visit */
    int cap_units;
    int n_blocks;
    struct edge **before; /* block_order.before */
    int *level, *stage;   /* [operations, then units] a block's level and stage */
    int *order;           /* blocks, each after those that it needs */
    int n_order;
    int *fetch_stage; /* [slots] the stage whose plan computes it; INT_MAX: none */
    int cap_fetch;
    int *mark; /* [operations] the last walk that visited it */
    int n_marks;
};

/* ---- slots ---- */

static int find_slot(const struct builder *b, struct output x)
{
    for (int k = b->slot_of[operation_id(x.op)]; k > 0; k = b->next_slot[k - 1])
        if (b->sc->slots[k - 1].feed.output.index == x.index)
            return k - 1;
    return -1;
}

static int *longer(int *items, int *cap, int n)
{
    if (n <= *cap)
        return items;
    *cap = 2 * n;
    return xreallocarray(items, (size_t)*cap, sizeof(*items));
}

static int slot(struct builder *b, struct output x)
{
    struct schedule *sc = b->sc;
    const int id = operation_id(x.op);
    int k = find_slot(b, x);

    if (k >= 0)
        return k;
    ARRAY_GROW(sc->slots, sc->n_slots, sc->cap_slots);
    k = sc->n_slots++;
    sc->slots[k] = (struct slot){.feed.output = x, .handle = -1};
    b->next_slot = longer(b->next_slot, &b->cap_next, k + 1);
    b->next_slot[k] = b->slot_of[id];
    b->slot_of[id] = k + 1;
    b->fetch_stage = longer(b->fetch_stage, &b->cap_fetch, k + 1);
    b->fetch_stage[k] = INT_MAX;
    return k;
}

static int is_given(const struct builder *b, struct output x)
{
    const int k = find_slot(b, x);

    return k >= 0 && (size_t)k < b->sc->kind.n_given;
}

/* Whether all outputs are fed, so that nothing needs to run. */
static int is_whole(const struct builder *b, const struct operation *op)
{
    struct output x = {graph_operation_at(b->graph, operation_id(op)), 0};

    if (b->slot_of[operation_id(op)] == 0 || operation_n_outputs(op) == 0 ||
        (operation_def(op)->flags & OP_WRITES) != 0)
        return 0;
    for (; x.index < operation_n_outputs(op); x.index++)
        if (!is_given(b, x))
            return 0;
    return 1;
}

/* ---- what is needed ---- */

int stages_cut_at(const struct operation *op, const unsigned char *known)
{
    const struct op_def *d = operation_def(op);

    for (int i = 0; d->sized_by != NULL && i < operation_n_inputs(op); i++)
        if (!known[operation_id(operation_input(op, i).op)] &&
            operation_is_sized_by(op, i))
            return 1;
    return operation_is_staged(op);
}

static void push(struct builder *b, const struct operation *op)
{
    const int id = operation_id(op);

    if (b->seen[id])
        return;
    b->seen[id] = 1;
    b->todo[b->n_todo++] = id;
}

static void push_need(struct builder *b, struct output x)
{
    if (x.index < 0 ? !is_whole(b, x.op) : !is_given(b, x))
        push(b, x.op);
}

static struct unit *new_unit(struct builder *b, struct operation *op)
{
    struct schedule *sc = b->sc;

    ARRAY_GROW(sc->units, sc->n_units, b->cap_units);
    sc->units[sc->n_units] = (struct unit){.op = op};
    b->unit_of[operation_id(op)] = ++sc->n_units;
    return &sc->units[sc->n_units - 1];
}

static int leave_loop(struct builder *b, struct operation *exit)
{
    struct while_loop *loop;
    struct schedule *sc = b->sc;
    int rc = loop_find(&b->finder, &b->loops, exit, &loop);

    if (rc != 0)
        return rc;
    for (const struct schedule_query *q = b->query; q != NULL; q = q->around)
        if (q->of_loop == loop->cond)
            return err_set(b->err, ERR_FORMAT, "%s leaves a loop that needs it",
                           operation_name(exit));
    for (int i = 0; i < sc->n_units && b->unit_of[operation_id(exit)] == 0; i++)
        if (sc->units[i].loop == loop)
            b->unit_of[operation_id(exit)] = i + 1;
    if (b->unit_of[operation_id(exit)] == 0)
        new_unit(b, exit)->loop = loop;
    for (int i = 0; i < loop->n_needs; i++)
        push_need(b, loop->needs[i]);
    return 0;
}

static int is_variable_bytes(struct output x)
{
    return output_is_ref(x) ||
           (output_dtype(x) == DT_RESOURCE && operation_behind_handle(x) != NULL);
}

static int is_inside(const struct builder *b, const struct operation *op)
{
    if (operation_is(op, "NextIteration") || operation_is(op, "LoopCond"))
        return !(b->query->of_loop != NULL && b->wanted[operation_id(op)]);
    if (operation_is_enter(op))
        return !loop_is_transparent(op, b->query->kind.given, b->query->kind.n_given);
    return loop_is_merge(op);
}

static int visit(struct builder *b, struct operation *op)
{
    if (operation_is(op, "Exit"))
        return leave_loop(b, op);
    if (is_inside(b, op))
        return err_set(
            b->err, ERR_FORMAT,
            "%s is inside of a loop: only what leaves it through an Exit can be "
            "used outside",
            operation_name(op));
    if (stages_cut_at(op, b->known))
        (void)new_unit(b, op);
    b->writes |= (operation_def(op)->flags & OP_WRITES) != 0;
    for (int i = 0; i < operation_n_inputs(op); i++)
        push_need(b, operation_input(op, i));
    for (int i = 0; i < operation_n_control_inputs(op); i++)
        if (plan_awaits(b->effects, op, i))
            push_need(b, (struct output){operation_control_input(op, i), -1});
    return 0;
}

/* Rejects feeds of operations inside a loop, since they would be ignored. */
static int check_given(struct builder *b)
{
    for (const struct while_loop *l = b->loops; l != NULL && b->query->of_loop == NULL;
         l = l->next)
        for (size_t i = 0; i < b->sc->kind.n_given; i++)
            if (l->inside[operation_id(b->sc->kind.given[i].op)] &&
                !b->seen[operation_id(b->sc->kind.given[i].op)] &&
                operation_n_inputs(b->sc->kind.given[i].op) > 0)
                return err_set(b->err, ERR_ARG,
                               "%s is inside of the loop '%s': it cannot be fed",
                               operation_name(b->sc->kind.given[i].op), l->frame);
    return 0;
}

/* ---- blocks, and what each needs ---- */

static int block_of(const struct builder *b, const struct operation *op)
{
    const int id = operation_id(op);

    return b->unit_of[id] > 0 ? b->n + b->unit_of[id] - 1 : id;
}

static const struct operation *op_of(const struct builder *b, int block)
{
    return block >= b->n ? b->sc->units[block - b->n].op
                         : graph_operation_at(b->graph, block);
}

/* Finds need i of the block; returns 0 past the last. OUTPUT_NONE for a need that is fed,
 * and for a control edge that is dropped (plan_awaits). */
static int need_at(const struct builder *b, int block, int i, struct output *ret)
{
    const struct unit *u = block >= b->n ? &b->sc->units[block - b->n] : NULL;
    const struct operation *op = op_of(b, block);

    if (u != NULL && u->loop != NULL) {
        if (i >= u->loop->n_needs)
            return 0;
        *ret = u->loop->needs[i];
    } else if (i < operation_n_inputs(op)) {
        *ret = operation_input(op, i);
    } else {
        i -= operation_n_inputs(op);
        if (i >= operation_n_control_inputs(op))
            return 0;
        *ret = (struct output){operation_control_input(op, i), -1};
        if (!plan_awaits(b->effects, op, i))
            *ret = OUTPUT_NONE;
    }
    if (ret->op != NULL && (ret->index < 0 ? is_whole(b, ret->op) : is_given(b, *ret)))
        *ret = OUTPUT_NONE;
    return 1;
}

/* Whether every plan that needs the operation runs it again: at no cost, or because its
 * result is a variable's reference or handle, which cannot be fed. */
static int is_light(const struct builder *b, const struct operation *op)
{
    const struct kernel *row = &operation_def(op)->kernel;

    if (operation_is(op, "Const") || operation_is_variable(op) || operation_is_enter(op))
        return 1;
    if (row->kind != KERNEL_ALIAS || operation_n_outputs(op) == 0 ||
        (operation_def(op)->flags & OP_WRITES) != 0)
        return 0;
    if (!operation_is_switch(op) &&
        is_variable_bytes(
            (struct output){graph_operation_at(b->graph, operation_id(op)), 0}))
        return 1;
    return operation_n_inputs(op) == 1 &&
           (is_given(b, operation_input(op, 0)) ||
            (!b->writes && is_variable_bytes(operation_input(op, 0))));
}

/* A block's needs, then the blocks that must only run before it. */
struct needs {
    int i;
    int at_end; /* of the needs */
    const struct edge *before;
};

/* Finds the next block; *ret -1: a need that is fed. Returns 0 past the last. */
static int next_need(const struct builder *b, int block, struct needs *n, int *ret)
{
    struct output x;

    if (!n->at_end && need_at(b, block, n->i++, &x)) {
        *ret = x.op != NULL ? block_of(b, x.op) : -1;
        return 1;
    }
    if (!n->at_end)
        n->before = b->before != NULL ? b->before[block] : NULL;
    n->at_end = 1;
    if (n->before == NULL)
        return 0;
    *ret = n->before->to;
    n->before = n->before->next;
    return 1;
}

static int order_from(struct builder *b, int first, int *stack, struct needs *next)
{
    enum { OPEN = -2, NEW = -1 };
    int depth = 0;

    if (b->level[first] != NEW)
        return 0;
    b->level[first] = OPEN;
    stack[depth++] = first;
    while (depth > 0) {
        const int block = stack[depth - 1];
        struct needs all = {0};
        int from, level = 0;

        if (next_need(b, block, &next[block], &from)) {
            if (from >= 0 && b->level[from] == OPEN)
                return err_set(b->err, ERR_FORMAT, "operation %s waits for itself",
                               operation_name(op_of(b, from)));
            if (from >= 0 && b->level[from] == NEW) {
                b->level[from] = OPEN;
                stack[depth++] = from;
            }
            continue;
        }
        while (next_need(b, block, &all, &from))
            if (from >= 0 && b->level[from] + (from >= b->n) > level)
                level = b->level[from] + (from >= b->n);
        b->level[block] = level;
        b->order[b->n_order++] = block;
        depth--;
    }
    return 0;
}

static int find_levels(struct builder *b)
{
    struct needs *next;
    int *stack, rc = 0;

    b->level = ARENA_ARRAY(&b->scratch, int, b->n_blocks);
    b->stage = ARENA_ARRAY(&b->scratch, int, b->n_blocks);
    b->order = ARENA_ARRAY(&b->scratch, int, b->n_blocks);
    stack = ARENA_ARRAY(&b->scratch, int, b->n_blocks + 1);
    next = ARENA_ARRAY(&b->scratch, struct needs, b->n_blocks);
    memset(b->level, -1, sizeof(int) * (size_t)b->n_blocks);
    for (int id = 0; rc == 0 && id < b->n; id++)
        if (b->seen[id])
            rc =
                order_from(b, block_of(b, graph_operation_at(b->graph, id)), stack, next);
    return rc;
}

/* ---- who uses a variable, and who writes it (stages_uses.c) ---- */

static int ask_block(const void *ctx, int id)
{
    const struct builder *b = ctx;

    return b->seen[id] ? block_of(b, graph_operation_at(b->graph, id)) : -1;
}

static int ask_need(const void *ctx, int block, int i, int *ret)
{
    const struct builder *b = ctx;
    struct output x;

    *ret = -1;
    if (block < b->n && (!b->seen[block] || b->unit_of[block] > 0))
        return 0;
    if (!need_at(b, block, i, &x))
        return 0;
    *ret = x.op != NULL ? block_of(b, x.op) : -1;
    return 1;
}

static int ask_given(const void *ctx, struct output x)
{
    const struct builder *b = ctx;

    return b->query->of_loop == NULL && is_given(b, x);
}

static void order_blocks(struct builder *b)
{
    struct block_order q = {.graph = b->graph,
                            .effects = b->effects,
                            .n_units = b->sc->n_units,
                            .units = b->sc->units,
                            .ctx = b,
                            .block_of = ask_block,
                            .need = ask_need,
                            .is_given = ask_given};

    b->n_blocks = q.n_blocks = b->n + b->sc->n_units;
    if (b->sc->n_units == 0) /* one plan */
        return;
    blocks_order(&q, &b->scratch);
    b->writes |= q.writes;
    b->before = q.before;
}

static void find_stages(struct builder *b)
{
    int last = 0;

    for (int k = 0; k < b->n_order; k++) {
        const int block = b->order[k];
        const int level = b->level[block] + (block >= b->n);

        last = level > last ? level : last;
    }
    b->sc->n_stages = last + 1;
    for (int k = 0; k < b->n_order; k++)
        b->stage[b->order[k]] = last;
    for (int k = b->n_order - 1; k >= 0; k--) {
        const int block = b->order[k];
        struct needs all = {0};
        int from;

        if (block >= b->n)
            b->stage[block] = b->level[block];
        while (next_need(b, block, &all, &from))
            if (from >= 0 && from < b->n && b->stage[from] > b->stage[block])
                b->stage[from] = b->stage[block];
    }
}

/* ---- the slots of units ---- */

/* Returns the slot of a unit's input, which a plan computes in stage `at` at the
 * latest. */
static int stages_take(struct builder *b, struct output x, int at)
{
    const struct operation *op = x.op;
    int k;

    if (x.index < 0 && is_whole(b, op))
        return -1;
    k = slot(b, x);
    if ((size_t)k < b->sc->kind.n_given || b->unit_of[operation_id(op)] > 0)
        return k;
    if (!is_light(b, op))
        at = b->stage[operation_id(op)];
    if (at < b->fetch_stage[k])
        b->fetch_stage[k] = at;
    return k;
}

static int out_slot(struct builder *b, struct operation *op, int index)
{
    return op != NULL ? slot(b, (struct output){op, index}) : -1;
}

static void wire_unit(struct builder *b, struct unit *u)
{
    const int at = b->level[b->n + (int)(u - b->sc->units)];
    struct output x;
    const int id = (int)(u - b->sc->units) + b->n;
    int n = 0;

    if (u->loop != NULL) {
        n = u->loop->n_variables + u->loop->n_constants + u->loop->n_needs;
        u->in = ARENA_ARRAY(&b->sc->arena, int, n);
        for (int i = 0; i < u->loop->n_variables; i++)
            u->in[u->n_in++] =
                stages_take(b, operation_input(u->loop->variables[i].enter, 0), at);
        for (int i = 0; i < u->loop->n_constants; i++)
            u->in[u->n_in++] =
                stages_take(b, operation_input(u->loop->constants[i], 0), at);
        for (int i = 0; i < u->loop->n_needs; i++)
            if (u->loop->needs[i].index < 0)
                u->in[u->n_in++] = stages_take(b, u->loop->needs[i], at);
        u->n_out = u->loop->n_variables;
    } else {
        n = operation_n_inputs(u->op) + operation_n_control_inputs(u->op);
        u->in = ARENA_ARRAY(&b->sc->arena, int, n + 1);
        for (int i = 0; i < operation_n_inputs(u->op); i++)
            u->in[u->n_in++] = stages_take(b, operation_input(u->op, i), at);
        for (int i = operation_n_inputs(u->op); need_at(b, id, i, &x); i++)
            if (x.op != NULL)
                u->in[u->n_in++] = stages_take(b, x, at);
        u->n_out = operation_n_outputs(u->op);
    }
    u->out = ARENA_ARRAY(&b->sc->arena, int, u->n_out + 1);
    u->done = ARENA_ARRAY(&b->sc->arena, int, u->n_out + 1);
    for (int i = 0; i < u->n_out; i++) {
        struct operation *op = u->loop != NULL ? u->loop->variables[i].exit : u->op;

        u->out[i] = out_slot(b, op, u->loop != NULL ? 0 : i);
        u->done[i] = u->loop != NULL ? out_slot(b, op, -1) : -1;
    }
    if (u->loop == NULL)
        u->done[0] = out_slot(b, u->op, -1);
}

/* ---- the plans of the stages ---- */

static void feed(struct builder *b, struct stage *s, struct output x)
{
    const int k = slot(b, x), n = s->n_feeds;

    for (int i = 0; i < n; i++)
        if (s->feeds[i] == k)
            return;
    if (n == 0 ||
        /* the array is full: its capacity is 8, 16, 32, ... */
        (n >= 8 && (n & (n - 1)) == 0)) {
        int *more = ARENA_ARRAY(&b->sc->arena, int, n < 8 ? 8 : 2 * n);

        if (n > 0)
            memcpy(more, s->feeds, sizeof(int) * (size_t)n);
        s->feeds = more;
    }
    s->feeds[s->n_feeds++] = k;
}

/* Adds one need of the plan of stage `at`: the plan computes it, or it is fed. */
static void plan_needs(struct builder *b, int at, struct output x)
{
    struct stage *s = &b->sc->stages[at];
    const int id = operation_id(x.op), k = find_slot(b, x);

    if (x.index < 0 && is_whole(b, x.op)) {
        feed(b, s, x);
    } else if ((k >= 0 && (size_t)k < b->sc->kind.n_given) || b->unit_of[id] > 0) {
        feed(b, s, x);
    } else if (b->stage[id] < at && !is_light(b, x.op)) {
        feed(b, s, x);
        b->fetch_stage[slot(b, x)] = b->stage[id];
    } else if (b->mark[id] != b->n_marks) {
        b->mark[id] = b->n_marks;
        b->todo[b->n_todo++] = id;
    }
}

/* Lists what the plan of the stage computes for units and for later stages. */
static void fill_results(struct builder *b, int at)
{
    struct schedule *sc = b->sc;
    struct stage *s = &sc->stages[at];

    s->fetches = ARENA_ARRAY(&sc->arena, struct output, sc->n_slots);
    s->targets = ARENA_ARRAY(&sc->arena, struct operation *, sc->n_slots);
    s->fetched = ARENA_ARRAY(&sc->arena, int, sc->n_slots);
    s->done = ARENA_ARRAY(&sc->arena, int, sc->n_slots);
    for (int k = 0; k < sc->n_slots; k++) {
        const struct output x = sc->slots[k].feed.output;

        if (b->fetch_stage[k] != at)
            continue;
        if (x.index < 0) {
            s->done[s->n_targets] = k;
            s->targets[s->n_targets++] = x.op;
        } else {
            s->fetched[s->n_fetches] = k;
            s->fetches[s->n_fetches++] = x;
        }
    }
}

static void fill_last(struct builder *b)
{
    struct schedule *sc = b->sc;
    struct stage *s = &sc->stages[sc->n_stages - 1];

    s->fetches = arena_memdup(&sc->arena, sc->kind.wanted,
                              sc->kind.n_wanted * sizeof(*s->fetches));
    s->n_fetches = (int)sc->kind.n_wanted;
    s->targets = ARENA_ARRAY(&sc->arena, struct operation *, sc->kind.n_targets);
    for (size_t i = 0; i < sc->kind.n_targets; i++) {
        const int id = operation_id(sc->kind.targets[i]);

        if (b->unit_of[id] == 0 && b->stage[id] == sc->n_stages - 1)
            s->targets[s->n_targets++] = sc->kind.targets[i];
    }
}

static void fill_stage(struct builder *b, int at)
{
    struct schedule *sc = b->sc;
    struct stage *s = &sc->stages[at];

    if (at == sc->n_stages - 1)
        fill_last(b);
    else
        fill_results(b, at);
    b->n_marks++;
    for (int i = 0; i < s->n_fetches; i++)
        plan_needs(b, at, s->fetches[i]);
    for (int i = 0; i < s->n_targets; i++)
        plan_needs(b, at, (struct output){s->targets[i], -1});
    while (b->n_todo > 0) {
        const struct operation *op = graph_operation_at(b->graph, b->todo[--b->n_todo]);

        for (int i = 0; i < operation_n_inputs(op); i++)
            plan_needs(b, at, operation_input(op, i));
        for (int i = 0; i < operation_n_control_inputs(op); i++)
            if (plan_awaits(b->effects, op, i))
                plan_needs(b, at, (struct output){operation_control_input(op, i), -1});
    }
    for (int i = 0; i < sc->n_units; i++)
        s->n_units += b->level[b->n + i] == at;
    s->units = ARENA_ARRAY(&sc->arena, struct unit *, s->n_units + 1);
    s->n_units = 0;
    for (int k = 0; k < b->n_order; k++)
        if (b->order[k] >= b->n && b->level[b->order[k]] == at)
            s->units[s->n_units++] = &sc->units[b->order[k] - b->n];
}

/* ---- handles ---- */

/* Returns the slot whose handle x has, perhaps through operations that pass their input
 * on; -1: none. */
static int handle_slot(const struct builder *b, struct output x)
{
    for (int n = 0; n < b->n && output_dtype(x) == DT_RESOURCE; n++) {
        const int k = find_slot(b, x);
        const struct kernel *row = &operation_def(x.op)->kernel;

        if (k >= 0 && b->fetch_stage[k] == INT_MAX)
            return k;
        if (row->kind != KERNEL_ALIAS)
            return -1;
        x = operation_input(x.op, 0);
    }
    return -1;
}

/* ---- loops ---- */

static int cut(struct schedule **ret, const struct schedule_query *q, int64_t *n_left,
               struct err *err);

static size_t add_given(struct output *given, size_t n, struct operation *op, int index)
{
    if (op != NULL)
        given[n++] = (struct output){op, index};
    return n;
}

/* Makes the schedules of the loop's condition and body. give() in stages_run.c fills
 * their given outputs in the same order. */
static int cut_loop(struct builder *b, struct unit *u)
{
    const struct while_loop *l = u->loop;
    struct output *given =
        ARENA_ARRAY(&b->scratch, struct output, 3 * l->n_variables + l->n_constants + 1);
    struct output *next = ARENA_ARRAY(&b->scratch, struct output, l->n_variables);
    struct output cond = {graph_operation_at(b->graph, operation_id(l->cond)), 0};
    struct schedule_query q = {
        .graph = b->graph, .kind.given = given, .of_loop = l->cond, .around = b->query};
    int rc;

    for (int i = 0; i < l->n_variables; i++) {
        q.kind.n_given = add_given(given, q.kind.n_given, l->variables[i].merge, 0);
        q.kind.n_given = add_given(given, q.kind.n_given, l->variables[i].merge, 1);
        q.kind.n_given = add_given(given, q.kind.n_given, l->variables[i].taken, 1);
        next[i] = (struct output){l->variables[i].next, 0};
    }
    for (int i = 0; i < l->n_constants; i++)
        q.kind.n_given = add_given(given, q.kind.n_given, l->constants[i], 0);
    *b->n_left -= 2 * (int64_t)b->n;
    if (*b->n_left < 0)
        return err_set(b->err, ERR_LIMIT, "%s: too many loops in loops",
                       operation_name(cond.op));
    q.kind.wanted = &cond;
    q.kind.n_wanted = 1;
    rc = cut(&u->condition, &q, b->n_left, b->err);
    given[q.kind.n_given++] = cond;
    q.kind.wanted = next;
    q.kind.n_wanted = (size_t)l->n_variables;
    return rc == 0 ? cut(&u->body, &q, b->n_left, b->err) : rc;
}

/* ---- all ---- */

static int stages_build(struct builder *b)
{
    struct schedule *sc = b->sc;
    int rc = 0;

    for (size_t i = 0; i < sc->kind.n_wanted; i++)
        push_need(b, sc->kind.wanted[i]);
    for (size_t i = 0; i < sc->kind.n_targets; i++)
        push(b, sc->kind.targets[i]);
    while (rc == 0 && b->n_todo > 0)
        rc = visit(b, graph_operation_at(b->graph, b->todo[--b->n_todo]));
    if (rc == 0)
        rc = check_given(b);
    if (rc == 0)
        order_blocks(b);
    if (rc == 0)
        rc = find_levels(b);
    if (rc != 0)
        return rc;
    find_stages(b);
    sc->stages = ARENA_ARRAY(&sc->arena, struct stage, sc->n_stages);
    for (int i = 0; i < sc->n_units; i++)
        wire_unit(b, &sc->units[i]);
    /* A target whose stage is not the last one runs in its stage, even if nothing
     * needs it there. */
    for (size_t i = 0; i < sc->kind.n_targets; i++)
        if (b->unit_of[operation_id(sc->kind.targets[i])] == 0 &&
            b->stage[operation_id(sc->kind.targets[i])] < sc->n_stages - 1)
            (void)stages_take(b, (struct output){sc->kind.targets[i], -1},
                              b->stage[operation_id(sc->kind.targets[i])]);
    for (int at = sc->n_stages - 1; at >= 0; at--)
        fill_stage(b, at);
    sc->same_handle = ARENA_ARRAY(&sc->arena, int, sc->n_slots + 1);
    sc->wanted_handle = ARENA_ARRAY(&sc->arena, int, sc->kind.n_wanted + 1);
    for (int k = 0; k < sc->n_slots; k++)
        sc->same_handle[k] =
            b->fetch_stage[k] == INT_MAX || sc->slots[k].feed.output.index < 0
                ? -1
                : handle_slot(b, sc->slots[k].feed.output);
    for (size_t i = 0; i < sc->kind.n_wanted; i++)
        sc->wanted_handle[i] = handle_slot(b, sc->kind.wanted[i]);
    for (int i = 0; rc == 0 && i < sc->n_units; i++)
        if (sc->units[i].loop != NULL)
            rc = cut_loop(b, &sc->units[i]);
    return rc;
}

static int cut(struct schedule **ret, const struct schedule_query *q, int64_t *n_left,
               struct err *err)
{
    struct schedule *sc = xcalloc(1, sizeof(*sc));
    const int n = graph_n_operations(q->graph);
    struct builder b = {
        .sc = sc, .graph = q->graph, .err = err, .n = n, .query = q, .n_left = n_left};
    int rc;

    sc->kind = run_kind_copy(&q->kind, &sc->arena);
    b.effects = plan_effects(q->graph, &b.scratch);
    b.finder = (struct loop_finder){.graph = q->graph,
                                    .given = q->kind.given,
                                    .n_given = q->kind.n_given,
                                    .arena = &sc->arena,
                                    .scratch = &b.scratch,
                                    .effects = b.effects,
                                    .n_left = 256 * ((int64_t)n + 1),
                                    .err = err};
    b.seen = ARENA_ARRAY(&b.scratch, unsigned char, n);
    b.wanted = ARENA_ARRAY(&b.scratch, unsigned char, n);
    b.slot_of = ARENA_ARRAY(&b.scratch, int, n);
    b.unit_of = ARENA_ARRAY(&b.scratch, int, n);
    b.todo = ARENA_ARRAY(&b.scratch, int, n + 1);
    b.mark = ARENA_ARRAY(&b.scratch, int, n);
    for (size_t i = 0; i < q->kind.n_given; i++)
        (void)slot(&b, q->kind.given[i]);
    for (size_t i = 0; i < q->kind.n_wanted; i++)
        b.wanted[operation_id(q->kind.wanted[i].op)] = 1;
    b.known = ARENA_ARRAY(&b.scratch, unsigned char, b.n);
    for (int id = 0; id < b.n; id++)
        b.known[id] =
            b.slot_of[id] == 0 && plan_knows(b.known, graph_operation_at(b.graph, id));
    rc = stages_build(&b);
    for (int i = 0; i < sc->n_units; i++)
        if (sc->units[i].loop != NULL)
            sc->units[i].loop->inside = NULL; /* in b.scratch */
    arena_done(&b.scratch);
    free(b.next_slot);
    free(b.fetch_stage);
    *ret = sc;
    if (rc == 0)
        return 0;
    schedule_free(sc);
    *ret = NULL;
    return rc;
}

int schedule_build(struct schedule **ret, const struct schedule_query *q, struct err *err)
{
    int64_t n_left = MAX_LOOKS;

    return cut(ret, q, &n_left, err);
}

void schedule_free(struct schedule *s)
{
    if (s == NULL)
        return;
    for (int i = 0; i < s->n_units; i++) {
        schedule_free(s->units[i].condition);
        schedule_free(s->units[i].body);
    }
    free(s->slots);
    free(s->units);
    arena_done(&s->arena);
    free(s);
}
