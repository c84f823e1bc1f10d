#include "agent/flow/loops.h"

#include "agent/graph/op_def.h"
#include "agent/plan/plan.h"

#include <string.h>

struct walk {
    struct loop_finder *f;
    struct while_loop *loop;
    struct while_loop *inner; /* loops inside of `loop` */
    int n, cap;
    struct operation **todo;
};

/* Returns `items`, an array of n elements in the arena, or a larger copy of it: with
 * room for at least one more element. *cap: its capacity. */
static void *with_room(struct arena *a, void *items, int n, int *cap, size_t size)
{
    void *more;

    if (n < *cap)
        return items;
    *cap = *cap > 0 ? 2 * *cap : 8;
    more = arena_alloc(a, size * (size_t)*cap);
    if (n > 0)
        memcpy(more, items, size * (size_t)n);
    return more;
}

int loop_is_merge(const struct operation *op)
{
    if (!operation_is_merge(op))
        return 0;
    for (int i = 0; i < operation_n_inputs(op); i++)
        if (operation_is_enter(operation_input(op, i).op) ||
            operation_is(operation_input(op, i).op, "NextIteration"))
            return 1;
    return 0;
}

static int is_given(struct output x, const struct output *given, size_t n_given)
{
    for (size_t i = 0; i < n_given; i++)
        if (output_same(given[i], x))
            return 1;
    return 0;
}

int loop_is_transparent(const struct operation *enter, const struct output *given,
                        size_t n_given)
{
    struct output x = operation_input(enter, 0);
    int fed = is_given(x, given, n_given);

    while (operation_is_enter(x.op)) {
        x = operation_input(x.op, 0);
        fed |= is_given(x, given, n_given);
    }
    if (operation_is_variable(x.op))
        return output_is_ref(operation_input(enter, 0)) ? operation_is(enter, "RefEnter")
                                                        : output_dtype(x) == DT_RESOURCE;
    return !fed && operation_is(x.op, "Const") && operation_n_control_inputs(x.op) == 0;
}

/* ---- the parts ---- */

static const char *frame_of(const struct operation *enter)
{
    const struct attr *a = operation_attr(enter, "frame_name");

    return a != NULL && a->kind == ATTR_STRING ? a->s : "";
}

static int check_frame(struct loop_finder *f, struct while_loop *l,
                       const struct operation *enter)
{
    if (l->frame == NULL)
        l->frame = frame_of(enter);
    if (strcmp(l->frame, frame_of(enter)) != 0)
        return err_set(f->err, ERR_FORMAT, "%s enters the loop '%s', but is used in '%s'",
                       operation_name(enter), frame_of(enter), l->frame);
    return 0;
}

static void need(struct loop_finder *f, struct while_loop *l, struct output x)
{
    l->needs = with_room(f->arena, l->needs, l->n_needs, &l->cap_needs, sizeof(x));
    l->needs[l->n_needs++] = x;
}

/* Adds what the Enter waits for, which lies outside the loop, to the loop's needs: the whole
 * loop waits for it. */
static void need_awaited(struct loop_finder *f, struct while_loop *l,
                         const struct operation *enter)
{
    for (int i = 0; i < operation_n_control_inputs(enter); i++) {
        struct operation *op = operation_control_input(enter, i);

        if (f->effects[operation_id(op)])
            need(f, l, (struct output){op, -1});
    }
}

static void need_entered(struct loop_finder *f, struct while_loop *l,
                         const struct operation *enter)
{
    need(f, l, operation_input(enter, 0));
    need_awaited(f, l, enter);
}

static void visit(struct walk *w, struct operation *op)
{
    if (w->loop->inside[operation_id(op)])
        return;
    w->loop->inside[operation_id(op)] = 1;
    w->todo =
        with_room(w->f->scratch, w->todo, w->n, &w->cap, sizeof(struct operation *));
    w->todo[w->n++] = op;
}

static struct loop_variable *variable_of(struct while_loop *l,
                                         const struct operation *merge)
{
    for (int i = 0; i < l->n_variables; i++)
        if (l->variables[i].merge == merge)
            return &l->variables[i];
    return NULL;
}

static int add_variable(struct walk *w, struct operation *merge)
{
    struct loop_variable v = {.merge = merge};
    struct while_loop *l = w->loop;

    if (variable_of(l, merge) != NULL)
        return 0;
    for (int i = 0; i < operation_n_inputs(merge) && i < 2; i++) {
        struct operation *op = operation_input(merge, i).op;

        if (operation_is(op, "Enter"))
            v.enter = op;
        else if (operation_is(op, "NextIteration"))
            v.next = op;
    }
    if (v.enter == NULL || v.next == NULL || operation_n_inputs(merge) != 2)
        return err_set(w->f->err, ERR_FORMAT,
                       "%s begins no iteration: the Merge of a loop has an Enter and a "
                       "NextIteration",
                       operation_name(merge));
    if (check_frame(w->f, l, v.enter) != 0)
        return ERR_FORMAT;
    need_entered(w->f, l, v.enter);
    l->variables = with_room(w->f->arena, l->variables, l->n_variables, &l->cap_variables,
                             sizeof(v));
    l->variables[l->n_variables++] = v;
    visit(w, v.next);
    return 0;
}

static int add_constant(struct walk *w, struct operation *enter)
{
    struct while_loop *l = w->loop;

    if (check_frame(w->f, l, enter) != 0)
        return ERR_FORMAT;
    if (!operation_attr(enter, "is_constant")->i)
        return err_set(w->f->err, ERR_FORMAT,
                       "%s is neither a constant of the loop '%s' nor has it a Merge",
                       operation_name(enter), l->frame);
    if (loop_is_transparent(enter, w->f->given, w->f->n_given)) {
        need_awaited(w->f, l, enter);
        return 0;
    }
    l->constants = with_room(w->f->arena, l->constants, l->n_constants, &l->cap_constants,
                             sizeof(struct operation *));
    l->constants[l->n_constants++] = enter;
    need_entered(w->f, l, enter);
    return 0;
}

static int add_switch(struct walk *w, struct operation *op)
{
    const struct output x = operation_input(op, 0);
    struct loop_variable *v;

    if (operation_input(op, 1).op != w->loop->cond || !loop_is_merge(x.op))
        return 0;
    if (add_variable(w, x.op) != 0)
        return ERR_FORMAT;
    v = variable_of(w->loop, x.op);
    if (x.index != 0 || (v->taken != NULL && v->taken != op))
        return err_set(w->f->err, ERR_FORMAT, "%s is not the only Switch of %s",
                       operation_name(op), operation_name(x.op));
    v->taken = op;
    return 0;
}

/* ---- the walk ---- */

static int walk_inner(struct walk *w, struct operation *exit)
{
    struct while_loop *inner;
    int rc = loop_find(w->f, &w->inner, exit, &inner);

    if (rc != 0)
        return rc;
    w->loop->draws |= inner->draws;
    for (int i = 0; i < inner->n_needs; i++)
        visit(w, inner->needs[i].op);
    return 0;
}

static int is_next(const struct while_loop *l, const struct operation *op)
{
    for (int i = 0; i < l->n_variables; i++)
        if (l->variables[i].next == op)
            return 1;
    return 0;
}

static int step(struct walk *w, struct operation *op)
{
    if (operation_is(op, "Exit"))
        return walk_inner(w, op);
    if (operation_is_enter(op))
        return add_constant(w, op);
    if (loop_is_merge(op))
        return add_variable(w, op);
    if (w->f->n_left-- <= 0)
        return err_set(w->f->err, ERR_LIMIT, "%s: too many loops use each other",
                       operation_name(op));
    if (operation_is(op, "NextIteration") && !is_next(w->loop, op))
        return err_set(w->f->err, ERR_FORMAT, "%s is not of the loop '%s' that uses it",
                       operation_name(op), w->loop->frame);
    if (operation_is(op, "LoopCond") && op != w->loop->cond)
        return err_set(w->f->err, ERR_FORMAT, "%s is used inside of the loop of %s",
                       operation_name(op), operation_name(w->loop->cond));
    if (operation_is_switch(op) && add_switch(w, op) != 0)
        return ERR_FORMAT;
    w->loop->draws |= (operation_def(op)->flags & OP_DRAWS) != 0;
    for (int i = 0; i < operation_n_inputs(op); i++)
        visit(w, operation_input(op, i).op);
    for (int i = 0; i < operation_n_control_inputs(op); i++)
        if (plan_awaits(w->f->effects, op, i))
            visit(w, operation_control_input(op, i));
    return 0;
}

static struct while_loop *loop_of(struct loop_finder *f, struct while_loop **list,
                                  const struct operation *cond)
{
    struct while_loop *l = *list;

    while (l != NULL && l->cond != cond)
        l = l->next;
    if (l != NULL)
        return l;
    l = ARENA_NEW(f->arena, struct while_loop);
    *l = (struct while_loop){.cond = cond, .next = *list};
    l->inside = ARENA_ARRAY(f->scratch, unsigned char, graph_n_operations(f->graph));
    f->n_left -= graph_n_operations(f->graph) / 16;
    return *list = l;
}

static int set_exit(struct walk *w, const struct operation *merge, struct operation *exit)
{
    struct loop_variable *v = variable_of(w->loop, merge);

    if (v->exit != NULL && v->exit != exit)
        return err_set(w->f->err, ERR_FORMAT,
                       "%s and %s leave a loop with the same value",
                       operation_name(v->exit), operation_name(exit));
    v->exit = exit;
    return 0;
}

/* Whether nothing that changes a variable, a tensor array or a stack stands between the loop's
 * Switches and Merges and what `op` waits for: what the last pass through a loop does after its
 * condition was false is not run. */
static int check_awaited(struct walk *w, const struct operation *op)
{
    unsigned char *seen =
        ARENA_ARRAY(w->f->scratch, unsigned char, graph_n_operations(w->f->graph));
    const struct operation **todo = ARENA_ARRAY(w->f->scratch, const struct operation *,
                                                graph_n_operations(w->f->graph) + 1);
    int n = 0;

    w->f->n_left -= graph_n_operations(w->f->graph) / 16;
    todo[n++] = op;
    while (n > 0) {
        const struct operation *at = todo[--n];
        const int n_inputs = at == op ? 0 : operation_n_inputs(at);

        if ((operation_def(at)->flags & OP_WRITES) != 0 || operation_is_staged(at))
            return err_set(
                w->f->err, ERR_UNSUPPORTED,
                "%s waits for %s, which would run after the last iteration of its "
                "loop",
                operation_name(op), operation_name(at));
        if (operation_is_switch(at) || loop_is_merge(at) || operation_is_enter(at))
            continue;
        for (int i = 0; i < n_inputs + operation_n_control_inputs(at); i++) {
            const struct operation *from =
                i < n_inputs ? operation_input(at, i).op
                             : operation_control_input(at, i - n_inputs);

            if (!seen[operation_id(from)])
                todo[n++] = from;
            seen[operation_id(from)] = 1;
        }
    }
    return 0;
}

/* Finds the loop's Switch whose output 0 leaves through the Exit, perhaps passed on by
 * Identities, which gradients put there to wait for others (tuple/control_dependency). */
static int find_left(struct walk *w, struct operation *exit, struct output *ret)
{
    const struct output first = operation_input(exit, 0);
    struct output x = first;

    while (operation_is(x.op, "Identity")) {
        if (operation_n_control_inputs(x.op) > 0 && check_awaited(w, x.op) != 0)
            return ERR_UNSUPPORTED;
        x = operation_input(x.op, 0);
    }
    *ret = x;
    if (!operation_is_switch(x.op) || x.index != 0)
        return err_set(w->f->err, ERR_FORMAT,
                       "%s leaves no loop: its input %s:%d is not of a "
                       "loop's Switch",
                       operation_name(exit), operation_name(first.op), first.index);
    x = operation_input(x.op, 1);
    if (!operation_is(x.op, "LoopCond"))
        return err_set(w->f->err, ERR_FORMAT,
                       "%s leaves no loop: %s decides, no LoopCond", operation_name(exit),
                       operation_name(x.op));
    if (!loop_is_merge(operation_input(ret->op, 0).op))
        return err_set(w->f->err, ERR_FORMAT, "%s leaves no loop: %s switches no Merge",
                       operation_name(exit), operation_name(ret->op));
    return 0;
}

int loop_find(struct loop_finder *f, struct while_loop **list, struct operation *exit,
              struct while_loop **ret)
{
    struct walk w = {.f = f};
    struct output left;
    const struct operation *cond;
    int rc = find_left(&w, exit, &left);

    if (rc != 0)
        return rc;
    cond = operation_input(left.op, 1).op;
    if (f->depth >= LOOPS_MAX_DEPTH)
        return err_set(f->err, ERR_LIMIT, "%s: loops in loops, more than %d deep",
                       operation_name(exit), LOOPS_MAX_DEPTH);
    for (int i = 0; i < f->depth; i++)
        if (f->open[i] == cond)
            return err_set(f->err, ERR_FORMAT, "%s leaves a loop that needs it",
                           operation_name(exit));
    f->open[f->depth++] = cond;
    w.loop = *ret = loop_of(f, list, cond);
    visit(&w, operation_input(left.op, 1).op);
    rc = add_switch(&w, left.op);
    if (rc == 0)
        rc = set_exit(&w, operation_input(left.op, 0).op, exit);
    while (rc == 0 && w.n > 0)
        rc = step(&w, w.todo[--w.n]);
    f->depth--;
    return rc;
}
