/* Finds the operations that a run needs and puts them in order.
 *
 * A control edge orders two operations. If neither the operation waited for nor anything
 * that it depends on has an effect (a variable or file written, a value checked, a branch
 * taken), the edge is dropped, together with the operations that only it needed. So the
 * gates between gradients (graph_gradients_gated) cost nothing.
 *
 * There are three kinds of edges: data, control, and read-before-write. An operation that
 * uses a variable's value runs before each operation that writes the variable, unless a
 * path leads from the write to the read. A read is an Identity (or any operation) on the
 * variable's reference. Operations that pass the bytes on unchanged belong to the same
 * read. If a read-before-write edge would close a cycle (an operation after the write
 * still uses the value before it), the read copies the value. */
#include "agent/graph/op_def.h"
#include "agent/graph/signature.h"
#include "agent/session/loops.h"
#include "agent/session/plan.h"
#include "common/err/check.h"

#include <stdio.h>
#include <string.h>

struct edge {
    int to;
    struct edge *next;
};

/* A read of a variable's value: by an operation itself, or by one that passes the bytes
 * on to others (an Identity, the output of a write). */
struct read {
    int at;       /* id of the operation that reads */
    int variable; /* id of the VariableV2 */
    int copy;     /* the read copies the bytes: a write precedes their last use */
    int n_users, cap_users;
    int *users;           /* ids of operations that use the value; -1: a fetch */
    struct read *next;    /* all reads */
    struct read *next_of; /* reads of the same variable */
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
    /* the read whose bytes output 0 of the operation passes on; NULL: none */
    struct read **shows;
    struct read *reads;
    struct read **reads_of; /* [operations] the reads of a variable, by its id */
    /* [operations] n_reached of the last reach() that marked it */
    int *mark;
    int n_reached;
    int *stack;
};

/* The number of inputs of an argument. */
static int inputs_of(const struct operation *op, const struct signature *sig,
                     const struct signature_arg *arg)
{
    const int which = arg->number.len > 0 ? arg->number_attr : arg->type_attr;
    const struct attr *a;
    char name[64];

    if (!arg->is_list || which < 0)
        return 1;
    (void)snprintf(name, sizeof(name), "%.*s", (int)sig->attrs[which].name.len,
                   sig->attrs[which].name.p);
    a = operation_attr(op, name);
    return a == NULL ? 1 : a->kind == ATTR_LIST_TYPE ? (int)a->n : (int)a->i;
}

int takes_reference(const struct operation *op, int i)
{
    const char *text = operation_def(op)->signature;
    struct signature_room room;
    struct signature sig;

    if (strchr(text, '&') == NULL && strstr(text, "resource") == NULL)
        return 0; /* almost all of them */
    if (signature_parse(&sig, &room, text) < 0)
        return 0;
    for (int k = 0; k < sig.n_in; k++) {
        const int n = inputs_of(op, &sig, &sig.in[k]);

        if (i < n)
            return sig.in[k].is_ref || span_is(sig.in[k].type, "resource");
        i -= n;
    }
    return 0;
}

static int is_fed(const struct sorter *s, struct output x)
{
    if (!s->fed[operation_id(x.op)])
        return 0;
    for (size_t i = 0; i < s->args->n_feeds; i++)
        if (output_same(s->args->feeds[i].output, x))
            return 1;
    return 0;
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

static void add_user_of(struct arena *arena, struct edge **users,
                        const struct operation *of, int id)
{
    struct edge *e = ARENA_NEW(arena, struct edge);

    *e = (struct edge){id, users[operation_id(of)]};
    users[operation_id(of)] = e;
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
            add_user_of(arena, users, operation_input(op, i).op, id);
        for (int i = 0; i < operation_n_control_inputs(op); i++)
            add_user_of(arena, users, operation_control_input(op, i), id);
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

/* A NoOp exists only to run its control inputs. */
int plan_awaits(const unsigned char *effects, const struct operation *op,
                int control_input)
{
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
    struct edge *e = ARENA_NEW(s->arena, struct edge);

    e->to = to;
    e->next = s->after[from];
    s->after[from] = e;
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

static int is_reached(const struct sorter *s, int id)
{
    return s->mark[id] == s->n_reached;
}

/* Marks all operations that can only run after `from`. */
static void reach(struct sorter *s, int from)
{
    int depth = 0;

    s->n_reached++;
    s->mark[from] = s->n_reached;
    s->stack[depth++] = from;
    while (depth > 0) {
        for (struct edge *e = s->after[s->stack[--depth]]; e != NULL; e = e->next) {
            if (!is_reached(s, e->to)) {
                s->mark[e->to] = s->n_reached;
                s->stack[depth++] = e->to;
            }
        }
    }
}

/* ---- reads and writes of variables ---- */

static struct read *new_read(struct sorter *s, int at, int variable)
{
    struct read *r = ARENA_NEW(s->arena, struct read);

    r->at = at;
    r->variable = variable;
    r->next = s->reads;
    s->reads = r;
    r->next_of = s->reads_of[variable];
    s->reads_of[variable] = r;
    return r;
}

static void add_user(struct sorter *s, struct read *r, int user)
{
    if (r->n_users == r->cap_users) {
        int cap = r->cap_users ? 2 * r->cap_users : 4;
        int *users = ARENA_ARRAY(s->arena, int, cap);

        if (r->n_users > 0)
            memcpy(users, r->users, sizeof(int) * (size_t)r->n_users);
        r->users = users;
        r->cap_users = cap;
    }
    r->users[r->n_users++] = user;
}

/* Whether this output is one that carries the bytes of `shows`. */
static int shows_bytes(struct output x)
{
    return x.index == 0 || is_switch(x.op);
}

static void find_reads_of(struct sorter *s, struct operation *op)
{
    int id = operation_id(op);
    const struct kernel *row = &operation_def(op)->kernel;

    for (int i = 0; i < operation_n_inputs(op); i++) {
        struct output x = operation_input(op, i);
        struct read *seen = s->shows[operation_id(x.op)];

        if (seen == NULL || !shows_bytes(x) || is_fed(s, x))
            continue;
        int reference = takes_reference(op, i);
        int direct = seen->at == seen->variable;
        if (writes(op) && reference) {
            /* the value after the write is another version, so it gets a new read */
            if (i == 0)
                s->shows[id] = new_read(s, id, seen->variable);
        } else if (loop_is_enter(op)) {
            /* an Enter takes the variable itself into a loop, where operations read it */
            s->shows[id] = reference || output_dtype(x) == DT_RESOURCE
                               ? seen
                               : new_read(s, id, seen->variable);
        } else if (row->kind == KERNEL_ALIAS && i == 0) {
            s->shows[id] = direct ? new_read(s, id, seen->variable) : seen;
        } else if (!direct) {
            add_user(s, seen, id);
        } else {
            add_user(s, new_read(s, id, seen->variable), id);
        }
    }
}

/* Visits the operations in the order of their creation: inputs come first, since only
 * control edges point forward. */
static void find_reads(struct sorter *s)
{
    for (int id = 0; id < s->n; id++) {
        if (!s->needed[id])
            continue;
        struct operation *op = graph_operation_at(s->graph, id);
        if (operation_is_variable(op))
            s->shows[id] = new_read(s, id, id);
        else
            find_reads_of(s, op);
    }
    for (size_t i = 0; i < s->args->n_fetches; i++) {
        struct output x = s->args->fetches[i];

        if (s->shows[operation_id(x.op)] != NULL && shows_bytes(x) && !is_fed(s, x))
            add_user(s, s->shows[operation_id(x.op)], -1);
    }
}

/* Returns the variable that a write changes by argument i; -1: none. */
static int written_by(const struct sorter *s, const struct operation *op, int i)
{
    struct output x = operation_input(op, i);
    struct read *seen = s->shows[operation_id(x.op)];

    return seen != NULL && takes_reference(op, i) && !is_fed(s, x) ? seen->variable : -1;
}

/* Whether the read decides which branch of a Switch runs: it is looked at before each step. */
static int is_predicate(const struct sorter *s, const struct read *r, int user)
{
    const struct operation *op = graph_operation_at(s->graph, user);

    return is_switch(op) && s->shows[operation_id(operation_input(op, 1).op)] == r;
}

/* Orders the read and its users before the write; the read copies the value for users
 * that come after it. */
static void order_before(struct sorter *s, struct read *r, int write)
{
    for (int i = 0; i < r->n_users; i++) {
        int user = r->users[i];

        if (user >= 0 && is_predicate(s, r, user))
            r->copy = 1;
        if (user == write)
            continue;
        if (user < 0 || is_reached(s, user))
            r->copy = 1;
        else
            add_edge(s, user, write);
    }
    if (r->at != r->variable)
        add_edge(s, r->at, write);
}

/* Whether the read must come before a write by another operation. */
static int matters(const struct read *r, int write)
{
    return r->at != write && (r->n_users > 0 || r->at != r->variable);
}

static void order_write(struct sorter *s, const struct operation *op, struct order *ret)
{
    int id = operation_id(op), is_known = 0; /* reach(id) was called */

    for (int i = 0; i < operation_n_inputs(op); i++) {
        int v = written_by(s, op, i);

        if (v < 0)
            continue;
        ret->written[v] = 1;
        for (struct read *r = s->reads_of[v]; r != NULL; r = r->next_of) {
            if (!matters(r, id))
                continue;
            if (!is_known)
                reach(s, id);
            is_known = 1;
            if (!is_reached(s, r->at))
                order_before(s, r, id);
        }
    }
}

static void order_writes(struct sorter *s, struct order *ret)
{
    for (int id = 0; id < s->n; id++)
        if (s->needed[id] && writes(graph_operation_at(s->graph, id)))
            order_write(s, graph_operation_at(s->graph, id), ret);
    for (struct read *r = s->reads; r != NULL; r = r->next)
        ret->copy[r->at] |= (unsigned char)r->copy;
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
    const int is_variant =
        (operation_def(op)->flags & OP_FOREIGN) != 0 &&
        op_def_find(graph_op_table(operation_graph(op)), operation_type(op)) != NULL;

    return err_set(err, ERR_UNSUPPORTED, "%s: operations of type %s cannot be run%s",
                   operation_name(op), operation_type(op),
                   is_variant ? " with its types and attributes" : "");
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

static int is_assign(const struct operation *op)
{
    return operation_def(op)->kernel.call == kern_assign;
}

/* Whether the operation needs the value of the variable behind argument i. */
static int needs_value(const struct operation *op, int i)
{
    struct output x = operation_input(op, i);

    if (is_switch(op) || operation_is(op, "Merge"))
        return 0; /* passes its inputs on without reading them */
    if (output_dtype(x) == DT_RESOURCE && !writes(op))
        return operation_is(op, "ReadVariableOp");
    return !takes_reference(op, i) || (writes(op) && !(i == 0 && is_assign(op)));
}

/* If some branches may be dead, a variable is checked when the operation that reads it
 * runs. */
static void check_when_run(struct sorter *s, struct order *order,
                           const struct operation *op, int variable)
{
    struct check *c = ARENA_NEW(s->arena, struct check);

    *c = (struct check){graph_operation_at(s->graph, variable),
                        order->checks[operation_id(op)]};
    order->checks[operation_id(op)] = c;
}

static void find_checked(struct sorter *s, struct plan *p, struct order *order,
                         const struct var_store *vars)
{
    unsigned char *known = ARENA_ARRAY(s->arena, unsigned char, s->n);

    p->checked = ARENA_ARRAY(&p->arena, int, s->n);
    for (int k = 0; k < order->n; k++) {
        const struct operation *op = order->ops[k];

        for (int i = 0; i < operation_n_inputs(op); i++) {
            struct output x = operation_input(op, i);
            struct read *seen = s->shows[operation_id(x.op)];

            if (seen == NULL || !shows_bytes(x) || is_fed(s, x))
                continue;
            int v = seen->variable;
            if (p->n_guards > 1 && needs_value(op, i))
                check_when_run(s, order, op, v);
            else if (needs_value(op, i) && !known[v])
                p->checked[p->n_checked++] =
                    var_store_find(vars, graph_operation_at(s->graph, v));
            if (needs_value(op, i) || writes(op))
                known[v] = 1;
        }
    }
    for (size_t i = 0; i < s->args->n_fetches; i++) {
        struct output x = s->args->fetches[i];
        int id = operation_id(x.op);

        if (operation_is_variable(x.op) && !is_fed(s, x) &&
            !(known[id] && !order->copy[id]))
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
        .shows = ARENA_ARRAY(scratch, struct read *, n),
        .reads_of = ARENA_ARRAY(scratch, struct read *, n),
        .mark = ARENA_ARRAY(scratch, int, n),
        .stack = ARENA_ARRAY(scratch, int, n),
    };

    *ret = (struct order){
        .ops = ARENA_ARRAY(scratch, struct operation *, n),
        .copy = ARENA_ARRAY(scratch, unsigned char, n),
        .written = ARENA_ARRAY(scratch, unsigned char, n),
        .checks = ARENA_ARRAY(scratch, struct check *, n),
    };
    find_given(&s);
    prune(&s);
    graph_edges(&s);
    find_reads(&s);
    order_writes(&s, ret);
    int rc = sort(&s, ret, err);
    if (rc == 0)
        rc = plan_guards(p, scratch, ret, err);
    if (rc == 0)
        find_checked(&s, p, ret, vars);
    return rc;
}
