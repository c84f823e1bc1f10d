/* Probes: values that must be computed before planning. Planning needs every shape, but
 * some shapes follow from sizes and axes that other operations compute. A separate run
 * computes such a value, which is then fed to the operation that needs it (plans.c). This
 * separate run must have no side effects. Operations whose own results have sizes that only
 * their values decide run between plans instead (flow/stages.h). */
#include "agent/graph/op_def.h"
#include "agent/plan/plan.h"

/* Whether the operation has no side effects. Branches not taken are handled by guards. */
static int has_no_effects(const struct operation *op)
{
    const unsigned flags = operation_def(op)->flags;

    if ((flags & (OP_WRITES | OP_FOREIGN)) != 0)
        return 0;
    return (flags & OP_AWAITED) == 0 || (flags & OP_STATEFUL) == 0;
}

/* Whether a control edge to the operation makes nothing run: the operation itself, or
 * each of its outputs, is fed. */
static int is_given(const struct plan *p, const struct operation *op)
{
    int n = 0;

    for (size_t i = 0; i < p->n_feeds; i++) {
        if (p->feeds[i].output.op == op && p->feeds[i].output.index < 0)
            return 1;
        n += p->feeds[i].output.op == op;
    }
    return n > 0 && n == operation_n_outputs(op);
}

/* Whether x can be computed before the run without side effects. */
static int can_run_first(const struct plan *p, struct output x)
{
    struct op_walk walk;
    int ok = 1;

    op_walk_begin(&walk, p->graph);
    op_walk_add(&walk, x.op);
    for (struct operation *op; ok && (op = op_walk_next(&walk)) != NULL;) {
        ok = has_no_effects(op);
        for (int i = 0; i < operation_n_inputs(op); i++)
            if (plan_feed_of(p, operation_input(op, i)) < 0)
                op_walk_add(&walk, operation_input(op, i).op);
        for (int i = 0; i < operation_n_control_inputs(op); i++)
            if (!is_given(p, operation_control_input(op, i)))
                op_walk_add(&walk, operation_control_input(op, i));
    }
    op_walk_end(&walk);
    return ok;
}

static void lack(struct plan *p, struct output x, struct op_walk *walk)
{
    const int feed = plan_feed_of(p, x);

    if (feed >= 0)
        p->lacked[feed] = 1;
    else if ((operation_def(x.op)->flags & OP_SHAPES_ONLY) == 0)
        op_walk_add(walk, x.op);
}

void plan_lacks(struct plan *p, const struct operation *op, int i)
{
    struct op_walk walk;

    p->needs_values = 1;
    if (p->lacked == NULL)
        p->lacked = ARENA_ARRAY(&p->arena, unsigned char, p->n_feeds + 1);
    op_walk_begin(&walk, p->graph);
    lack(p, operation_input(op, i), &walk);
    while ((op = op_walk_next(&walk)) != NULL)
        for (int k = 0; k < operation_n_inputs(op); k++)
            lack(p, operation_input(op, k), &walk);
    op_walk_end(&walk);
}

/* Whether x may be a size, an axis, or a list of them. */
static int may_decide_a_shape(struct output x)
{
    const enum dtype dtype = output_dtype(x);

    return (dtype == DT_INT32 || dtype == DT_INT64) && output_shape(x).rank <= 1;
}

void plan_find_probe(struct plan *p, const struct operation *op,
                     const struct tensor *const *known)
{
    struct output x;

    p->needs_values = 1;
    for (int i = 0; i < operation_n_inputs(op); i++)
        if (known[i] == NULL)
            plan_lacks(p, op, i);
    for (int i = 0; i < operation_n_inputs(op); i++) {
        x = operation_input(op, i);
        if (known[i] == NULL && may_decide_a_shape(x) && plan_feed_of(p, x) < 0 &&
            can_run_first(p, x)) {
            p->probe = x;
            return;
        }
    }
}

/* ---- values that planning knows ---- */

int plan_knows(const unsigned char *known, const struct operation *op)
{
    const struct op_def *d = operation_def(op);
    const int n = operation_n_inputs(op);

    if (operation_is(op, "Const") || (d->flags & OP_SHAPES_ONLY) != 0)
        return 1;
    if (operation_is(op, "Switch"))
        return known[operation_id(operation_input(op, 0).op)];
    if (n == 0 || d->kernel.kind == KERNEL_PLANNED || d->kernel.kind == KERNEL_NONE ||
        operation_is(op, "PlaceholderWithDefault") ||
        (d->flags & (OP_STATEFUL | OP_WRITES | OP_AWAITED | OP_STAGED)) != 0)
        return 0;
    for (int i = 0; i < n; i++)
        if (!known[operation_id(operation_input(op, i).op)])
            return 0;
    return 1;
}

/* ---- fed values that planning asks for ---- */

/* If planning fails because the value of a shape, an axis or a choice of rows is unknown,
 * and such a value is fed, it becomes part of the plan's key. File names (strings) always
 * do. */
#define WANTED_MAX 4096

static int may_be_wanted(enum dtype dtype, const struct shape *shape)
{
    return (dtype == DT_INT32 || dtype == DT_INT64) && shape->rank <= 2 &&
           shape_elements(shape) <= WANTED_MAX;
}

int plan_may_learn(const struct plan *p)
{
    if (p->probe.op != NULL)
        return 1;
    for (size_t i = 0; i < p->n_feeds && p->lacked != NULL; i++)
        if (p->lacked[i] && p->feeds[i].wanted.dtype == DT_INVALID &&
            may_be_wanted(p->feeds[i].dtype, &p->feeds[i].shape))
            return 1;
    return 0;
}

int plan_take_wanted(const struct plan *p, const struct run_args *args,
                     unsigned char *by_value)
{
    int any = 0;

    for (size_t i = 0; i < args->n_feeds && p->lacked != NULL; i++) {
        if (!p->lacked[i] || by_value[i] ||
            !may_be_wanted(args->feeds[i].value.dtype, &args->feeds[i].value.shape))
            continue;
        by_value[i] = 1;
        any = 1;
    }
    return any;
}
