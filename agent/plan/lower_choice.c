/* Values of which only the run knows which one they are: what a Merge passes on if that may
 * be a variable's memory, and predicates that are such memory. */
#include "agent/plan/lower.h"

int lower_has_memory(const struct lowering *l, struct output x)
{
    const int feed = plan_feed_of(l->plan, x);

    return feed >= 0 ? l->plan->feeds[feed].memory_of != NULL
                     : op_carries(x) && l->memory[operation_id(x.op)];
}

int lower_is_choice(const struct lowering *l, int v)
{
    return v >= 0 && value_at(l, v)->kind == VALUE_CHOICE;
}

const struct choice *lower_choice_at(const struct lowering *l, int v)
{
    return l->choices[value_at(l, v)->index];
}

int lower_changes(const struct lowering *l, int v)
{
    const struct value *root = root_of(l, v);

    if (lower_is_choice(l, v)) {
        const struct choice *c = lower_choice_at(l, v);

        for (int i = 0; i < c->n; i++)
            if (lower_changes(l, c->alternatives[i].value))
                return 1;
        return 0;
    }
    return root->kind == VALUE_VARIABLE && l->written[root->index];
}

static struct choice *new_choice(struct lowering *l, int cap)
{
    struct choice *ret = ARENA_NEW(l->scratch, struct choice);

    ret->alternatives = ARENA_ARRAY(l->scratch, struct alternative, cap + 1);
    return ret;
}

static int add_choice(struct lowering *l, struct choice *c, enum dtype dtype,
                      struct shape shape)
{
    const int v = plan_add_value(l->plan, VALUE_CHOICE, dtype, shape);

    value_at(l, v)->index = l->n_choices;
    l->choices[l->n_choices++] = c;
    return v;
}

/* A choice's alternatives take the place of the choice, so that no choice is among them. */
static void add_alternatives(struct lowering *l, struct choice *to, struct output x,
                             int v)
{
    const int guard = guard_of_input(l->plan, l->order, x);

    if (!lower_is_choice(l, v)) {
        to->alternatives[to->n++] =
            (struct alternative){v, guard, lower_has_memory(l, x)};
        return;
    }
    const struct choice *from = lower_choice_at(l, v);
    for (int i = 0; i < from->n; i++) {
        struct alternative a = from->alternatives[i];

        a.guard = guard_both(l->plan, a.guard, guard);
        to->alternatives[to->n++] = a;
    }
}

int lower_choose(struct lowering *l, const struct node *merge)
{
    const struct tensor t = value_at(l, merge->out[0])->tensor;
    struct choice *c;
    int n = 0;

    for (int i = 0; i < merge->n_in; i++)
        n += lower_is_choice(l, merge->in[i]) ? lower_choice_at(l, merge->in[i])->n : 1;
    c = new_choice(l, n);
    for (int i = 0; i < merge->n_in; i++)
        if (merge->in[i] >= 0)
            add_alternatives(l, c, operation_input(merge->op, i), merge->in[i]);
    return add_choice(l, c, t.dtype, t.shape);
}

int lower_choice_alias(struct lowering *l, int v, struct shape shape)
{
    const struct choice *from = lower_choice_at(l, v);
    struct choice *c = new_choice(l, from->n);

    for (; c->n < from->n; c->n++) {
        c->alternatives[c->n] = from->alternatives[c->n];
        c->alternatives[c->n].value =
            lower_alias(l, from->alternatives[c->n].value, shape, 0);
    }
    return add_choice(l, c, value_at(l, v)->tensor.dtype, shape);
}

int lower_take(struct lowering *l, const struct operation *op, int v)
{
    const int guard = l->guard;
    int ret;

    if (!lower_is_choice(l, v))
        return v;
    const struct tensor t = value_at(l, v)->tensor;
    const struct choice *c = lower_choice_at(l, v);
    ret = plan_add_value(l->plan, VALUE_BUFFER, t.dtype, t.shape);
    for (int i = 0; i < c->n; i++) {
        struct node copy =
            lower_call(l, op, kern_copy, c->alternatives[i].value, t.shape);

        copy.out[0] = ret;
        l->guard = c->alternatives[i].guard;
        lower_add_node(l, &copy);
    }
    l->guard = guard;
    return ret;
}

/* ---- predicates ---- */

struct pin {
    struct output predicate;
    int version;
    int value;
    struct pin *next;
};

int lower_predicate(const struct lowering *l, const struct condition *c)
{
    if (c->version == 0)
        return l->values[operation_id(c->predicate.op)][c->predicate.index];
    for (const struct pin *p = l->pins; p != NULL; p = p->next)
        if (p->version == c->version && output_same(p->predicate, c->predicate))
            return p->value;
    return -1;
}

void lower_pin(struct lowering *l, const struct operation *op)
{
    const struct condition c = {operation_input(op, 1),
                                l->order->version[operation_id(op)], 0, -1};
    const int v = l->values[operation_id(c.predicate.op)][c.predicate.index];
    const int guard = l->guard;
    struct pin *p;

    if (c.version == 0 || v < 0 || lower_predicate(l, &c) >= 0)
        return;
    p = ARENA_NEW(l->scratch, struct pin);
    *p = (struct pin){c.predicate, c.version, -1, l->pins};
    if (lower_is_choice(l, v)) {
        p->value = lower_take(l, op, v);
    } else {
        l->guard = 0; /* Switches of other guards use it, too */
        p->value = lower_copy(l, op, v);
        l->guard = guard;
    }
    l->pins = p;
}
