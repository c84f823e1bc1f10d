/* Turns the ordered operations into nodes on values: infers shapes for the fed sizes,
 * substitutes feeds, merges duplicates, and makes aliases of operations that leave bytes
 * unchanged. The other lower_*.c lower the operations that compute. */
#include "agent/plan/lower.h"

#include "agent/graph/op_def.h"
#include "common/err/check.h"

#include <string.h>

/* elements of one value; so a sum of sizes cannot overflow 64 bits */
#define MAX_ELEMENTS ((int64_t)1 << 42)

/* ---- equal operations on equal values are merged ---- */

static int attr_same(const struct attr *a, const struct attr *b)
{
    if (strcmp(a->name, b->name) != 0 || a->kind != b->kind)
        return 0;
    switch (a->kind) {
    case ATTR_INT:
    case ATTR_BOOL:
    case ATTR_TYPE:
        return a->i == b->i;
    case ATTR_FLOAT:
        return memcmp(&a->f, &b->f, sizeof(a->f)) == 0;
    case ATTR_SHAPE:
        return shape_equal(&a->shape, &b->shape);
    case ATTR_STRING:
        return a->s_len == b->s_len && memcmp(a->s, b->s, a->s_len) == 0;
    case ATTR_LIST_INT:
        return a->n == b->n && memcmp(a->list_i, b->list_i, a->n * sizeof(int64_t)) == 0;
    default:
        return 0;
    }
}

/* Attributes that begin with "_" (colocation) are ignored. */
static int attrs_same(const struct operation *a, const struct operation *b)
{
    if (operation_n_attrs(a) != operation_n_attrs(b))
        return 0;
    for (int i = 0; i < operation_n_attrs(a); i++) {
        const struct attr *x = operation_attr_at(a, i), *y = operation_attr_at(b, i);

        if (x->name[0] != '_' && !attr_same(x, y))
            return 0;
    }
    return 1;
}

/* Whether duplicates of the operation may be merged: not if it draws or writes, nor if it
 * reads bytes that this run changes. */
static int is_mergeable(const struct lowering *l, const struct operation *op,
                        const int *in)
{
    if (operation_def(op)->flags & (OP_STATEFUL | OP_WRITES))
        return 0;
    for (int i = 0; i < operation_n_inputs(op); i++)
        if (lower_changes(l, in[i]))
            return 0;
    return 1;
}

static struct lowered_op **bucket(struct lowering *l, const struct operation *op,
                                  const int *in)
{
    unsigned h = 0;

    for (const char *c = operation_type(op); *c; c++)
        h = h * 31u + (unsigned char)*c;
    for (int i = 0; i < operation_n_inputs(op); i++)
        h = h * 1000003u + (unsigned)in[i];
    return &l->buckets[(h ^ h >> 15) & (l->n_buckets - 1)];
}

/* The outputs of an earlier duplicate, or NULL. */
static const int *find_duplicate(struct lowering *l, const struct operation *op,
                                 const int *in)
{
    size_t bytes = sizeof(int) * (size_t)operation_n_inputs(op);

    for (const struct lowered_op *e = *bucket(l, op, in); e != NULL; e = e->next)
        if (strcmp(operation_type(e->op), operation_type(op)) == 0 &&
            operation_n_inputs(e->op) == operation_n_inputs(op) &&
            memcmp(e->in, in, bytes) == 0 && attrs_same(e->op, op) &&
            lower_runs_whenever(l, e->guard))
            return e->out;
    return NULL;
}

/* ---- one operation ---- */

/* Returns a Merge's first input that can be alive; in: -1 for those that cannot. */
static int first_alive(const int *in, int n)
{
    for (int i = 0; i < n; i++)
        if (in[i] >= 0)
            return in[i];
    return -1;
}

static int infer(struct lowering *l, const struct operation *op, const int *in, int *out)
{
    int n_in = operation_n_inputs(op), n_out = operation_n_outputs(op);
    struct shape *shapes = ARENA_ARRAY(l->scratch, struct shape, n_in + n_out + 1);
    const struct tensor **known =
        ARENA_ARRAY(l->scratch, const struct tensor *, n_in + 1);

    for (int i = 0; i < n_in; i++) {
        const int v = in[i] >= 0 ? in[i] : first_alive(in, n_in);

        shapes[i] = value_at(l, v)->tensor.shape;
        known[i] = is_const(l, v) ? &value_at(l, v)->tensor : NULL;
    }
    for (int i = 0; i < n_out; i++)
        shapes[n_in + i] = SHAPE_UNKNOWN;
    struct shape_args args = {op, n_in, shapes, known, shapes + n_in, l->err, 1};
    int rc = operation_infer_shapes(&args);
    if (rc < 0)
        return err_wrap(l->err, "%s", operation_name(op));
    for (int i = 0; i < n_out; i++) {
        struct output x = {graph_operation_at(l->plan->graph, operation_id(op)), i};

        /* the op's attribute is less precise than its input */
        if (operation_is(op, "PlaceholderWithDefault"))
            shapes[n_in + i] = shapes[0];
        if (!shape_known(&shapes[n_in + i]) || shape_elements(&shapes[n_in + i]) < 0) {
            plan_find_probe(l->plan, op, known);
            return err_set(
                l->err, ERR_SHAPE,
                "%s:%d: its shape %s depends on values that only the run knows",
                operation_name(op), i, shape_text(&shapes[n_in + i]));
        }
        if (shape_elements(&shapes[n_in + i]) > MAX_ELEMENTS)
            return err_set(l->err, ERR_LIMIT, "%s:%d: %s is too large",
                           operation_name(op), i, shape_text(&shapes[n_in + i]));
        out[i] = plan_add_value(l->plan, VALUE_BUFFER, output_dtype(x), shapes[n_in + i]);
    }
    return 0;
}

/* The outputs of a write are the variable's memory; one that is no reference (CountUpTo) is the
 * value before the write. */
static void lower_write(struct lowering *l, struct node *n, int *out)
{
    const int passes = op_passes_on(n->op, 0), n_out = n->n_out;

    for (int i = 0; i < n_out && !passes; i++)
        out[i] = lower_copy(l, n->op, n->in[i]);
    n->writes = 1;
    n->n_out = 0;
    lower_write_in_float32(l, n);
    lower_add_node(l, n);
    for (int i = 0; i < n_out && passes; i++)
        out[i] = lower_alias(l, n->in[i], value_at(l, n->in[i])->tensor.shape, 0);
}

/* Adds a node that copies to output k of a Merge if input i is alive. */
static void copy_alive(struct lowering *l, const struct node *n, int i, int from, int k)
{
    struct node copy = {
        .kind = NODE_CALL, .op = n->op, .call = kern_copy, .n_in = 1, .n_out = 1};

    copy.in = lower_ints(l, 1);
    copy.out = lower_ints(l, 1);
    copy.in[0] = from;
    copy.out[0] = n->out[k];
    l->guard = guard_of_input(l->plan, l->order, operation_input(n->op, i));
    lower_add_node(l, &copy);
}

/* Whether a Merge passes on memory that may change before the last use of its result. */
static int is_choice(const struct lowering *l, const struct node *merge)
{
    for (int i = 0; i < merge->n_in; i++)
        if (merge->in[i] >= 0 &&
            (lower_is_choice(l, merge->in[i]) ||
             (lower_has_memory(l, operation_input(merge->op, i)) &&
              (l->plan->hands_on || lower_changes(l, merge->in[i])))))
            return 1;
    return 0;
}

/* Copies the input that is alive, and its number, to the result. */
static int lower_merge(struct lowering *l, const struct node *n, int *out)
{
    const int guard = l->guard, chooses = is_choice(l, n);

    if (value_at(l, n->out[0])->tensor.dtype == DT_STRING)
        return err_set(l->err, ERR_UNSUPPORTED, "%s: strings that only the run knows",
                       operation_name(n->op));
    for (int i = 0; i < n->n_in; i++) {
        struct tensor index;
        int rc;

        if (n->in[i] < 0)
            continue;
        rc = tensor_alloc(&index, DT_INT32, SHAPE_SCALAR, l->err);
        if (rc < 0)
            return rc;
        *(int32_t *)index.data = i;
        lower_own(l, index);
        if (!chooses)
            copy_alive(l, n, i, n->in[i], 0);
        copy_alive(l, n, i, lower_const(l, index), 1);
    }
    l->guard = guard;
    if (chooses)
        out[0] = lower_choose(l, n);
    else /* a copy, or what may be memory is not alive */
        l->memory[operation_id(n->op)] = 0;
    return 0;
}

/* The value of a variable, one for the whole plan. */
static int variable_value(struct lowering *l, const struct operation *op)
{
    const int index = var_store_find(l->vars, op);

    CHECK(index >= 0, "%s", operation_name(op));
    if (l->variables[index] == 0) {
        const int v = plan_add_value(l->plan, VALUE_VARIABLE,
                                     (enum dtype)operation_attr(op, "dtype")->i,
                                     operation_attr(op, "shape")->shape);

        value_at(l, v)->index = index;
        l->variables[index] = v + 1;
        l->variable_ops[index] = op;
    }
    return l->variables[index] - 1;
}

/* Adds nodes that fail if a variable that the operation reads has no value. */
static void add_checks(struct lowering *l, const struct operation *op)
{
    for (struct check *c = l->order->checks[operation_id(op)]; c != NULL; c = c->next) {
        struct node n = {.kind = NODE_CALL, .op = c->variable, .keep = 1, .n_in = 1};
        const int *known = l->values[operation_id(c->variable)];
        const int v = known != NULL ? known[0] : variable_value(l, c->variable);

        if (value_at(l, v)->kind != VALUE_VARIABLE) /* it is fed */
            continue;
        n.call = kern_need_value;
        n.in = lower_ints(l, 1);
        n.in[0] = v;
        lower_add_node(l, &n);
    }
}

/* A handle has no bytes of its own: only what passes one on has a handle as its result. */
static int makes_handles(const struct lowering *l, const struct node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (value_at(l, n->out[i])->tensor.dtype == DT_RESOURCE)
            return 1;
    return 0;
}

/* The graph may not know which variable's handle a loop carries. */
static int check_handles(const struct lowering *l, const struct node *n)
{
    const struct attr *type = operation_attr(n->op, "dtype");

    type = type != NULL ? type : operation_attr(n->op, "T");
    for (int i = 0; i < n->n_in && type != NULL && type->i != DT_RESOURCE; i++) {
        const enum dtype dtype =
            n->in[i] < 0 ? DT_RESOURCE : value_at(l, n->in[i])->tensor.dtype;

        if (output_dtype(operation_input(n->op, i)) == DT_RESOURCE &&
            dtype != DT_RESOURCE && type->i != (int64_t)dtype)
            return err_set(l->err, ERR_DTYPE,
                           "%s: input %d is a variable of dtype %s, not %s",
                           operation_name(n->op), i, dtype_name(dtype),
                           dtype_name((enum dtype)type->i));
    }
    return 0;
}

/* Strings that lie in a block, where only a write can use them. */
static int is_slab(const struct lowering *l, int v)
{
    return v >= 0 && value_at(l, v)->tensor.dtype == DT_STRING &&
           root_of(l, v)->kind == VALUE_VARIABLE;
}

static int fail_slab(const struct lowering *l, const struct operation *op)
{
    return err_set(l->err, ERR_UNSUPPORTED,
                   "%s reads strings of a variable in the run that writes them",
                   operation_name(op));
}

/* A variable that is fed can be read, but it has no place to write to; nor has one that a
 * RefMerge chooses. */
static int check_variables(const struct lowering *l, const struct node *n)
{
    for (int i = 0; i < n->n_in; i++) {
        const char *name = operation_name(operation_input(n->op, i).op);
        enum value_kind kind;

        if (!takes_reference(n->op, i) || n->in[i] < 0)
            continue;
        kind = value_at(l, value_at(l, n->in[i])->root)->kind;
        if (kind == VALUE_FEED)
            return err_set(l->err, ERR_ARG,
                           "%s changes or checks the variable %s, so that it cannot be "
                           "fed; what reads it can",
                           operation_name(n->op), name);
        if (kind != VALUE_VARIABLE && op_writes(n->op, i))
            return err_set(
                l->err, ERR_UNSUPPORTED,
                "%s writes the variable that %s chooses: only a variable that is "
                "known before the run can be written",
                operation_name(n->op), name);
    }
    return 0;
}

static int lower_node(struct lowering *l, struct node *n, int *out)
{
    const struct kernel *row = &operation_def(n->op)->kernel;
    const int is_many = operation_is(n->op, "IdentityN");

    if (row->kind != KERNEL_ALIAS && !is_many && makes_handles(l, n))
        return plan_not_runnable(n->op, l->err);
    if (check_handles(l, n) != 0)
        return ERR_DTYPE;
    for (int i = 0; is_many && i < n->n_out; i++)
        if (value_at(l, n->out[i])->tensor.dtype == DT_RESOURCE)
            out[i] = n->in[i]; /* the kernel copies only the others */
    n->call = row->call;
    int rc =
        (operation_def(n->op)->flags & OP_WRITES) != 0 || n->call == kern_is_initialized
            ? check_variables(l, n)
            : 0;
    if (rc != 0)
        return rc;
    if (operation_is_merge(n->op))
        return lower_merge(l, n, out);
    if (operation_is_switch(n->op)) {
        lower_pin(l, n->op);
        /* the guards decide which of the two outputs is alive */
        out[0] = out[1] =
            lower_same_bytes(l, n->op, n->in[0], value_at(l, n->in[0])->tensor.shape, 0);
        return 0;
    }
    if (row->kind == KERNEL_PLANNED)
        return 0;
    if (operation_def(n->op)->flags & OP_WRITES) {
        lower_write(l, n, out);
        return 0;
    }
    int merge = is_mergeable(l, n->op, n->in);
    const int *twin = merge ? find_duplicate(l, n->op, n->in) : NULL;
    if (twin != NULL) {
        memcpy(out, twin, sizeof(int) * (size_t)n->n_out);
        return 0;
    }
    /* a copy: inputs may be replaced while lowering */
    int *in = lower_ints(l, n->n_in);
    memcpy(in, n->in, sizeof(int) * (size_t)n->n_in);
    if (row->kind == KERNEL_ALIAS)
        out[0] =
            lower_same_bytes(l, n->op, n->in[0], value_at(l, out[0])->tensor.shape, 0);
    else if (!lower_needs_float32(l, n, row))
        rc = lower_kernel(l, n, row, out);
    else if (!lower_rename(l, n, out))
        rc = lower_in_float32(l, n, row, out);
    if (merge) {
        /* both arrays live as long as the scratch arena */
        struct lowered_op **at = bucket(l, n->op, in);
        struct lowered_op *e = ARENA_NEW(l->scratch, struct lowered_op);

        *e = (struct lowered_op){n->op, in, out, l->guard, *at};
        *at = e;
    }
    return rc;
}

/* ---- inputs and feeds ---- */

/* Replaces outputs that are fed by the feeds. */
static void take_feeds(struct lowering *l, const struct operation *op, int *out)
{
    const struct plan *p = l->plan;

    for (size_t i = 0; i < p->n_feeds; i++)
        if (p->feeds[i].output.op == op && p->feeds[i].output.index >= 0)
            out[p->feeds[i].output.index] = p->feeds[i].value;
}

static int all_fed(const struct lowering *l, const struct operation *op)
{
    int n = 0;

    for (size_t i = 0; i < l->plan->n_feeds; i++)
        n += l->plan->feeds[i].output.op == op && l->plan->feeds[i].output.index >= 0;
    return n > 0 && n == operation_n_outputs(op);
}

/* Products and concatenations can read a matrix whose rows are apart. */
static int takes_rows_apart(const struct operation *op)
{
    const struct op_def *row = operation_def(op);

    return (row->flags & OP_ROWS_APART) != 0 &&
           (row->kernel.kind != KERNEL_GEMM ||
            output_dtype(operation_input(op, 0)) == DT_FLOAT);
}

static int *operands(struct lowering *l, const struct operation *op)
{
    int n = operation_n_inputs(op), apart = takes_rows_apart(op);
    int *in = lower_ints(l, n);

    for (int i = 0; i < n; i++) {
        struct output x = operation_input(op, i);

        in[i] = l->values[operation_id(x.op)][x.index];
        if (!apart && in[i] >= 0)
            in[i] = lower_dense(l, in[i]);
        /* a Switch's predicate: see lower_pin */
        if (!op_passes_on(op, i) && !operation_is_switch(op))
            in[i] = lower_take(l, op, in[i]);
    }
    return in;
}

/* Whether planning knows that the branches of this guard are not all taken. */
static int is_not_taken(const struct lowering *l, int guard)
{
    const struct guard *g = &l->plan->guards[guard];

    for (int i = 0; i < g->n; i++) {
        const struct condition *c = &g->conditions[i];
        const int v = c->predicate.op != NULL ? lower_predicate(l, c) : -1;

        if (v < 0 || (is_const(l, v) &&
                      (*(const uint8_t *)value_at(l, v)->tensor.data != 0) != c->branch))
            return 1;
    }
    return 0;
}

/* Whether none of a Merge's inputs, or not all of another operation's, have a value. */
static int lacks_inputs(const struct operation *op, const int *in, int n)
{
    int n_there = 0;

    for (int i = 0; i < n; i++)
        n_there += in[i] >= 0;
    return operation_is_merge(op) ? n > 0 && n_there == 0 : n_there < n;
}

/* Whether output 0 is, or may be, a reference variable's memory, or a handle. */
static int passes_memory(const struct lowering *l, const struct operation *op)
{
    if (operation_is_variable(op))
        return 1;
    for (int i = 0; i < operation_n_inputs(op); i++)
        if (op_passes_on(op, i) && lower_has_memory(l, operation_input(op, i)))
            return 1;
    return 0;
}

/* ---- operations that are refused ----
 *
 * What cannot be run is an error only if it is run: on a branch, planning does not know that. A
 * node that fails takes the operation's place, and the places of those that need its values; a
 * Merge has the values of other branches. */

/* The error of an operation that op needs; NULL: none of them was refused. */
static const struct err *refusal_before(const struct lowering *l,
                                        const struct operation *op)
{
    const struct err *ret = NULL;

    for (int i = 0; ret == NULL && i < operation_n_inputs(op); i++)
        ret = l->refusals[operation_id(operation_input(op, i).op)];
    for (int i = 0; ret == NULL && i < operation_n_control_inputs(op); i++)
        ret = l->refusals[operation_id(operation_control_input(op, i))];
    return ret;
}

static void have_no_values(int *out, int n)
{
    for (int i = 0; i < n; i++)
        out[i] = -1;
}

static void refuse(struct lowering *l, const struct operation *op, int *out,
                   const struct err *why)
{
    struct node n = {
        .kind = NODE_CALL, .op = op, .call = kern_refuse, .keep = 1, .refusal = why};

    n.in = lower_ints(l, 0);
    n.out = lower_ints(l, 0);
    l->guard = l->order->guard[operation_id(op)];
    lower_add_node(l, &n);
    l->refusals[operation_id(op)] = why;
    have_no_values(out, operation_n_outputs(op));
}

/* Takes the error l->err of the operation, unless its branch is always taken or a value may
 * still become known that it lacks. */
static int refuse_on_branch(struct lowering *l, const struct operation *op, int *out)
{
    if (l->order->guard[operation_id(op)] == 0 || plan_may_learn(l->plan))
        return l->err->code;
    refuse(l, op, out, arena_memdup(&l->plan->arena, l->err, sizeof(*l->err)));
    return 0;
}

/* ---- any operation ---- */

static int lower_alive(struct lowering *l, const struct operation *op, int *out)
{
    struct node n = {.kind = NODE_CALL,
                     .op = op,
                     .n_in = operation_n_inputs(op),
                     .n_out = operation_n_outputs(op)};

    if ((operation_def(op)->flags & OP_FOREIGN) != 0 || operation_is_staged(op))
        return plan_not_runnable(op, l->err);
    if (operation_is(op, "Placeholder")) {
        const struct output x = {graph_operation_at(l->plan->graph, operation_id(op)), 0};
        const struct shape shape = output_shape(x);

        return err_set(
            l->err, ERR_ARG,
            "You must feed a value for placeholder tensor '%s' with dtype %s and "
            "shape %s",
            operation_name(op), dtype_name(output_dtype(x)), shape_text(&shape));
    }
    if (operation_is(op, "Const")) {
        out[0] = lower_const(l, operation_attr(op, "value")->tensor);
        return 0;
    }
    if (operation_is_variable(op)) {
        out[0] = variable_value(l, op);
        return 0;
    }
    if (operation_is(op, "HashTableV2")) {
        out[0] = lower_const(l, tensor_view(DT_RESOURCE, SHAPE_SCALAR, NULL));
        return 0;
    }
    n.in = operands(l, op);
    if (lacks_inputs(op, n.in, n.n_in)) {
        if (refusal_before(l, op) == NULL)
            return err_set(l->err, ERR_ARG, "%s depends on branches that are not taken",
                           operation_name(op));
        refuse(l, op, out, refusal_before(l, op));
        return 0;
    }
    for (int i = 0; i < n.n_in; i++)
        if (is_slab(l, n.in[i]) && !takes_reference(op, i))
            return fail_slab(l, op);
    add_checks(l, op);
    n.out = lower_ints(l, n.n_out);
    int rc = infer(l, op, n.in, n.out);
    memcpy(out, n.out, sizeof(int) * (size_t)n.n_out);
    return rc == 0 ? lower_node(l, &n, out) : rc;
}

static int lower_op(struct lowering *l, const struct operation *op)
{
    int id = operation_id(op), n_out = operation_n_outputs(op), rc = 0;
    const int fed = l->values[id] != NULL; /* set by prepare_feeds */
    int *out = l->values[id] = lower_ints(l, n_out);

    l->guard = l->order->guard[id];
    l->memory[id] = (unsigned char)passes_memory(l, op);
    if (fed && all_fed(l, op) && (operation_def(op)->flags & OP_WRITES) == 0) {
        take_feeds(l, op, out);
        return 0;
    }
    if (is_not_taken(l, l->guard)) { /* its inputs have no values either */
        have_no_values(out, n_out);
        l->refusals[id] = refusal_before(l, op);
    } else {
        rc = lower_alive(l, op, out);
    }
    if (rc != 0)
        rc = refuse_on_branch(l, op, out);
    if (fed)
        take_feeds(l, op, out);
    return rc;
}

/* ---- all operations ---- */

static void prepare_feeds(struct lowering *l)
{
    struct plan *p = l->plan;

    for (size_t i = 0; i < p->n_feeds; i++) {
        struct plan_feed *f = &p->feeds[i];
        int id = operation_id(f->output.op), n_out = operation_n_outputs(f->output.op);

        if (f->output.index < 0)
            continue;
        if (f->is_dead) {
            f->value = -1;
        } else if (f->memory_of != NULL) {
            f->value = variable_value(l, f->memory_of);
            if (f->dtype != DT_RESOURCE)
                f->value = lower_alias(l, f->value, f->shape, 0);
        } else if (f->wanted.dtype != DT_INVALID) {
            f->value = lower_const(l, f->wanted);
        } else {
            f->value = plan_add_value(p, VALUE_FEED, f->dtype, f->shape);
            value_at(l, f->value)->index = (int)i;
            if (f->row_stride != 0 && f->row_stride != f->shape.dim[1])
                value_at(l, f->value)->row_stride = f->row_stride;
        }
        if (l->values[id] == NULL)
            l->values[id] = lower_ints(l, n_out);
        l->values[id][f->output.index] = f->value;
    }
}

static void hand_on(struct lowering *l, size_t i, int v, int guard)
{
    struct handed *h = ARENA_NEW(&l->plan->arena, struct handed);

    *h =
        (struct handed){guard, l->variable_ops[root_of(l, v)->index], l->plan->handed[i]};
    l->plan->handed[i] = h;
}

/* Finds the value of a fetch, and the memory that it is, if that is handed on. */
static void lower_fetch(struct lowering *l, size_t i)
{
    struct plan *p = l->plan;
    const struct output x = p->fetches[i];
    const int v = l->values[operation_id(x.op)][x.index];

    p->fetch_values[i] = v < 0 ? v : lower_dense(l, lower_take(l, x.op, v));
    p->fetch_guards[i] = guard_of_input(p, l->order, x);
    if (!p->hands_on || v < 0 || !lower_has_memory(l, x))
        return;
    if (!lower_is_choice(l, v)) {
        hand_on(l, i, v, 0);
        return;
    }
    const struct choice *c = lower_choice_at(l, v);
    for (int k = 0; k < c->n; k++)
        if (c->alternatives[k].is_memory)
            hand_on(l, i, c->alternatives[k].value, c->alternatives[k].guard);
}

int plan_lower(struct plan *p, struct arena *scratch, const struct order *order,
               const struct var_store *vars, struct err *err)
{
    int n_ops = graph_n_operations(p->graph), rc = 0;
    struct lowering *l = ARENA_NEW(scratch, struct lowering);
    struct err why = {0};

    *l = (struct lowering){
        .plan = p, .scratch = scratch, .order = order, .vars = vars, .err = &why};
    l->values = ARENA_ARRAY(scratch, int *, n_ops);
    l->variables = lower_ints(l, var_store_count(vars));
    l->variable_ops =
        ARENA_ARRAY(scratch, const struct operation *, var_store_count(vars) + 1);
    l->memory = ARENA_ARRAY(scratch, unsigned char, n_ops + 1);
    l->refusals = ARENA_ARRAY(scratch, const struct err *, n_ops + 1);
    l->choices = ARENA_ARRAY(scratch, struct choice *, order->n + 1);
    l->dense = lower_ints(l, (int)p->n_feeds);
    memset(l->dense, -1, sizeof(int) * p->n_feeds);
    for (l->n_buckets = 64; l->n_buckets < (unsigned)order->n;)
        l->n_buckets *= 2;
    l->buckets = ARENA_ARRAY(scratch, struct lowered_op *, l->n_buckets);
    l->written = ARENA_ARRAY(scratch, unsigned char, var_store_count(vars) + 1);
    for (int id = 0; id < n_ops; id++)
        if (order->written[id])
            l->written[var_store_find(vars, graph_operation_at(p->graph, id))] = 1;
    prepare_feeds(l);
    for (int k = 0; rc == 0 && k < order->n; k++)
        rc = lower_op(l, order->ops[k]);
    if (rc < 0)
        return err_pass(err, &why);
    l->err = err;
    for (size_t i = 0; i < p->n_fetches; i++) {
        const struct output x = p->fetches[i];

        if (is_slab(l, l->values[operation_id(x.op)][x.index]))
            return fail_slab(l, x.op);
        lower_fetch(l, i);
    }
    for (size_t i = 0; i < p->n_targets; i++)
        p->target_guards[i] = order->guard[operation_id(p->targets[i])];
    for (int k = 0; k < p->n_guards; k++) {
        const struct guard *g = &p->guards[k];

        for (int i = 0; i < g->n; i++)
            if (g->conditions[i].predicate.op != NULL)
                g->conditions[i].value = lower_predicate(l, &g->conditions[i]);
    }
    plan_count_uses(p);
    return 0;
}
