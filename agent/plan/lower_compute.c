/* Operations that compute, as nodes: loops, products, or calls of their kernels. */
#include "agent/plan/lower.h"

#include "agent/graph/op_def.h"
#include "common/mem/xmalloc.h"

#include <string.h>

/* ---- loops ---- */

/* Adds nodes that broadcast operands to full size, where loop_classify() has no pattern
 * for their broadcasting. */
static int widen_operands(struct lowering *l, struct node *n)
{
    struct shape shape = value_at(l, n->out[0])->tensor.shape;
    int rc = 0;

    for (int i = 0; rc == 0 && i < n->n_in; i++) {
        struct loop_arg arg;

        if (loop_classify(&value_at(l, n->in[i])->tensor.shape, &shape, &arg))
            continue;
        struct node wide = lower_call(l, n->op, kern_broadcast_to, n->in[i], shape);
        if (is_const(l, n->in[i]))
            rc = lower_fold(l, &wide);
        else
            lower_add_node(l, &wide);
        n->in[i] = wide.out[0];
    }
    return rc;
}

/* Reshapes a condition with one element per row of the branches so that it broadcasts. */
static void widen_condition(struct lowering *l, struct node *n)
{
    const struct shape *c = &value_at(l, n->in[0])->tensor.shape;
    const struct shape *x = &value_at(l, n->in[1])->tensor.shape;

    if (c->rank == 1 && x->rank > 1) {
        struct shape rows = *x;

        for (int d = 1; d < rows.rank; d++)
            rows.dim[d] = 1;
        n->in[0] = lower_alias(l, n->in[0], rows, 0);
    }
}

/* Reshapes a bias so that it broadcasts, if the channels are not the last dimension. */
static void widen_bias(struct lowering *l, struct node *n)
{
    const struct shape *x = &value_at(l, n->in[0])->tensor.shape;
    int axis = channel_axis(n->op, x->rank);
    struct shape bias = {x->rank - axis, {x->dim[axis]}};

    for (int d = 1; d < bias.rank; d++)
        bias.dim[d] = 1;
    if (bias.rank > 1)
        n->in[1] = lower_alias(l, n->in[1], bias, 0);
}

/* LeakyReluGrad only uses the sign of its feature, and LeakyRelu's result has the same
 * sign. With the result as the operand, the pre-activation need not be stored. */
static void take_result_for_feature(struct lowering *l, struct node *n)
{
    for (int k = l->plan->n_nodes - 1; k >= 0 && !lower_changes(l, n->in[1]); k--) {
        const struct node *m = &l->plan->nodes[k];

        if (m->loop != NULL && strcmp(m->loop->type, "LeakyRelu") == 0 &&
            m->in[0] == n->in[1] && memcmp(&m->alpha, &n->alpha, sizeof(float)) == 0 &&
            m->alpha >= 0 && lower_runs_whenever(l, m->guard)) {
            n->in[1] = m->out[0];
            return;
        }
    }
}

static int make_loop(struct lowering *l, struct node *n)
{
    const char *type = operation_type(n->op);
    enum dtype dtype = value_at(l, n->in[0])->tensor.dtype;

    if (strcmp(type, "Cast") == 0) {
        /* a new row for each cast, because it depends on a pair of dtypes */
        struct loop_row *row = ARENA_NEW(&l->plan->arena, struct loop_row);
        *row =
            (struct loop_row){"Cast", dtype, value_at(l, n->out[0])->tensor.dtype, NULL};
        row->fn = kern_loops()->cast(row->dtype, row->ret);
        n->loop = row->fn != NULL ? row : NULL;
    } else if (strncmp(type, "Select", strlen("Select")) == 0) {
        n->loop = kern_loop_find("Select", value_at(l, n->in[1])->tensor.dtype);
        widen_condition(l, n);
    } else {
        n->loop = kern_loop_find(type, dtype);
    }
    if (n->loop == NULL)
        return err_set(l->err, ERR_UNSUPPORTED, "%s: no %s of %s", operation_name(n->op),
                       type, dtype_name(dtype));
    n->kind = NODE_LOOP;
    n->call = NULL;
    n->alpha = float_attr(n->op, "alpha", float_attr(n->op, "tolerance", 0.0f));
    if (strcmp(type, "LeakyReluGrad") == 0)
        take_result_for_feature(l, n);
    if (strcmp(type, "BiasAdd") == 0)
        widen_bias(l, n);
    return 0;
}

/* Lowers AddN to nodes of two operands, ((a + b) + c) + ... */
static int make_add_n(struct lowering *l, struct node *n)
{
    const struct loop_row *add =
        kern_loop_find("Add", value_at(l, n->in[0])->tensor.dtype);
    struct tensor t = value_at(l, n->out[0])->tensor;
    int sum = n->in[0];

    if (add == NULL)
        return err_set(l->err, ERR_UNSUPPORTED, "%s: no AddN of %s",
                       operation_name(n->op), dtype_name(t.dtype));
    for (int i = 1; i < n->n_in; i++) {
        struct node two = {
            .kind = NODE_LOOP, .op = n->op, .loop = add, .n_in = 2, .n_out = 1};

        two.in = lower_ints(l, 2);
        two.out = lower_ints(l, 1);
        two.in[0] = sum;
        two.in[1] = n->in[i];
        sum = i + 1 < n->n_in ? plan_add_value(l->plan, VALUE_BUFFER, t.dtype, t.shape)
                              : n->out[0];
        two.out[0] = sum;
        lower_add_node(l, &two);
    }
    return 0;
}

/* Sets *ret to the square of x, computed by an earlier node or a new one. */
static int square(struct lowering *l, const struct operation *op, int x, int *ret)
{
    const struct tensor t = value_at(l, x)->tensor;
    const struct loop_row *row = kern_loop_find("Square", t.dtype);

    if (row == NULL)
        return err_set(l->err, ERR_UNSUPPORTED, "%s: no %s of %s", operation_name(op),
                       operation_type(op), dtype_name(t.dtype));
    for (int k = l->plan->n_nodes - 1; k >= 0 && !lower_changes(l, x); k--) {
        const struct node *m = &l->plan->nodes[k];

        if (m->loop == row && m->in[0] == x && lower_runs_whenever(l, m->guard)) {
            *ret = m->out[0];
            return 0;
        }
    }
    struct node n = lower_call(l, op, NULL, x, t.shape);
    n.kind = NODE_LOOP;
    n.loop = row;
    *ret = n.out[0];
    if (is_const(l, x) && lower_may_be_owned(l, &n))
        return lower_fold(l, &n);
    lower_add_node(l, &n);
    return 0;
}

/* Whether the node is Square or multiplies a value by itself: TensorFlow's norms use
 * both. */
static int squares(const struct node *n)
{
    const char *type = operation_type(n->op);

    return strcmp(type, "Square") == 0 ||
           (strcmp(type, "Mul") == 0 && n->in[0] == n->in[1]);
}

/* ---- slices of slices, concatenations of concatenations, products ---- */

/* Returns the node that computes a value; NULL if there is none or the value is an
 * alias. */
static const struct node *producer(const struct lowering *l, int v)
{
    for (int k = l->plan->n_nodes - 1; k >= 0; k--)
        for (int i = 0; i < l->plan->nodes[k].n_out; i++)
            if (l->plan->nodes[k].out[i] == v)
                return &l->plan->nodes[k];
    return NULL;
}

/* Replaces a slice of a slice by one slice. */
static void join_slices(struct lowering *l, struct node *n)
{
    const struct node *outer = producer(l, n->in[0]);

    if (outer == NULL || outer->call != kern_slice || lower_changes(l, outer->in[0]) ||
        !is_const(l, outer->in[1]) || !is_const(l, n->in[1]))
        return;
    const struct tensor a = value_at(l, outer->in[1])->tensor;
    const struct tensor b = value_at(l, n->in[1])->tensor;
    int64_t rank = tensor_elements(&a);
    struct shape s = SHAPE(rank);
    struct tensor sum =
        tensor_view(DT_INT64, s, ARENA_ARRAY(&l->plan->arena, int64_t, rank));
    for (int64_t d = 0; d < rank; d++)
        tensor_set_int(&sum, d, tensor_int(&a, d) + tensor_int(&b, d));
    n->in[0] = outer->in[0];
    n->in[1] = lower_const(l, sum);
}

/* Whether the run writes to a variable among the parts. Such a write may come before the
 * outer concatenation reads it. */
static int parts_change(const struct lowering *l, const struct node *join)
{
    for (int i = 0; i < join->n_in - 1; i++)
        if (lower_changes(l, join->in[i]))
            return 1;
    return 0;
}

/* Replaces operands that are concatenations along the same axis by their parts. */
static void join_concats(struct lowering *l, struct node *n)
{
    int axis = n->in[n->n_in - 1];

    if (operation_is(n->op, "Concat")) /* its axis is the first input */
        return;
    for (int i = 0; i < n->n_in - 1; i++) {
        const struct node *part = producer(l, n->in[i]);

        if (part == NULL || part->call != kern_concat ||
            operation_is(part->op, "Concat") || parts_change(l, part) ||
            tensor_int(&value_at(l, part->in[part->n_in - 1])->tensor, 0) !=
                tensor_int(&value_at(l, axis)->tensor, 0))
            continue;
        int more = part->n_in - 2, *in = lower_ints(l, n->n_in + more);
        memcpy(in, n->in, sizeof(int) * (size_t)i);
        memcpy(in + i, part->in, sizeof(int) * (size_t)(part->n_in - 1));
        memcpy(in + i + more + 1, n->in + i + 1, sizeof(int) * (size_t)(n->n_in - i - 1));
        n->in = in;
        n->n_in += more;
        i += more;
    }
}

/* Gives a kernel its scratch memory, as one more output. */
static void add_scratch(struct lowering *l, struct node *n)
{
    struct shape *in = ARENA_ARRAY(l->scratch, struct shape, n->n_in + n->n_out);
    const struct shape_args args = {
        .op = n->op, .n_in = n->n_in, .in = in, .out = in + n->n_in, .is_planning = 1};
    int *out = lower_ints(l, n->n_out + 1);
    struct shape shape;

    for (int i = 0; i < n->n_in + n->n_out; i++)
        in[i] = value_at(l, i < n->n_in ? n->in[i] : n->out[i - n->n_in])->tensor.shape;
    shape = SHAPE(operation_def(n->op)->scratch(&args));
    if (shape.dim[0] == 0)
        return;
    memcpy(out, n->out, sizeof(int) * (size_t)n->n_out);
    out[n->n_out++] = plan_add_value(l->plan, VALUE_BUFFER, DT_FLOAT, shape);
    n->out = out;
}

/* ---- any operation ---- */

/* Kernels that compute support four dtypes; those that move elements support all. */
static int knows_types(struct lowering *l, const struct node *n)
{
    const char *signature = operation_def(n->op)->signature;

    if (strstr(signature, "float_type") == NULL &&
        strstr(signature, "number_type") == NULL)
        return 0;
    for (int i = 0; i < n->n_in + n->n_out; i++) {
        int v = i < n->n_in ? n->in[i] : n->out[i - n->n_in];
        enum dtype t = value_at(l, v)->tensor.dtype;

        if (t != DT_FLOAT && t != DT_DOUBLE && t != DT_INT32 && t != DT_INT64)
            return err_set(l->err, ERR_UNSUPPORTED, "%s: no %s of %s",
                           operation_name(n->op), operation_type(n->op), dtype_name(t));
    }
    return 0;
}

/* ---- strings of values that only the run knows: summaries ---- */

/* The plan owns the array of an output's strings, and each run puts other strings there. */
static int make_texts(struct lowering *l, struct node *n)
{
    int any = 0;

    for (int i = 0; i < n->n_out; i++) {
        struct value *out = value_at(l, n->out[i]);
        struct tensor text;

        if (out->tensor.dtype != DT_STRING)
            continue;
        if (tensor_alloc(&text, DT_STRING, out->tensor.shape, l->err) < 0)
            return 0;
        lower_own(l, text);
        out->tensor = text;
        out->tensor.owned = 0;
        out->kind = VALUE_TEXT;
        any = 1;
    }
    if (any)
        lower_add_node(l, n);
    return any;
}

/* The plan owns a string of the length that is known, and each run writes its bytes: how many
 * a summary of numbers has depends only on its tags. Returns 0 if the length is not known, unless
 * the kernel allocates the strings. */
static int make_text(struct lowering *l, struct node *n)
{
    struct tensor text = TENSOR_NONE, **in;
    struct tensor_string *s;
    struct kernel_args args = {.op = n->op, .n_in = n->n_in};

    if (operation_def(n->op)->text_bytes == NULL)
        return (operation_def(n->op)->flags & OP_MAKES_STRINGS) != 0 && make_texts(l, n);
    args.in = in = ARENA_ARRAY(&l->plan->arena, struct tensor *, n->n_in);
    for (int i = 0; i < n->n_in; i++) {
        struct value *x = value_at(l, n->in[i]);

        if (x->tensor.dtype == DT_STRING && !is_const(l, n->in[i]) &&
            l->plan->values[x->root].kind != VALUE_TEXT)
            return 0;
        if (x->kind == VALUE_TEXT && tensor_elements(&x->tensor) == 1 &&
            ((const struct tensor_string *)x->tensor.data)->bytes == NULL)
            return make_texts(l, n); /* of a length that only the run knows */
        in[i] = &x->tensor;
    }
    if (tensor_alloc(&text, DT_STRING, SHAPE_SCALAR, l->err) < 0)
        return 0;
    s = text.data;
    s->len_bytes = operation_def(n->op)->text_bytes(&args);
    s->bytes = xcalloc(s->len_bytes + 1, 1);
    lower_own(l, text);
    value_at(l, n->out[0])->tensor = text;
    value_at(l, n->out[0])->tensor.owned = 0;
    value_at(l, n->out[0])->kind = VALUE_TEXT;
    lower_add_node(l, n);
    return 1;
}

/* Adds the nodes that compute the operation, or its results as constants. */
static int compute(struct lowering *l, struct node *n, const struct kernel *row)
{
    int rc = 0;

    if (lower_adds_many(n->op))
        return make_add_n(l, n);
    if (row->kind == KERNEL_LOOP)
        rc = make_loop(l, n);
    else if (knows_types(l, n) < 0)
        return ERR_UNSUPPORTED;
    else if (row->kind == KERNEL_GEMM &&
             value_at(l, n->in[0])->tensor.dtype == DT_FLOAT) {
        n->kind = NODE_GEMM;
        n->transpose_a = (int)attr_int(n->op, "transpose_a");
        n->transpose_b = (int)attr_int(n->op, "transpose_b");
    }
    /* L2Loss, EuclideanNorm: the squares may be computed along with the operand */
    else if (n->call == kern_half_sum || n->call == kern_root_sum)
        rc = square(l, n->op, n->in[0], &n->in[0]);
    else if (n->call == kern_slice)
        join_slices(l, n);
    else if (n->call == kern_concat)
        join_concats(l, n);
    else if ((operation_def(n->op)->flags & OP_TABLE) != 0)
        rc = lower_table(l, n);
    else if (operation_def(n->op)->scratch != NULL)
        add_scratch(l, n);
    if (rc == 0 && n->kind == NODE_LOOP)
        rc = widen_operands(l, n);
    if (rc < 0)
        return rc;
    if (lower_foldable(l, n))
        return lower_fold(l, n);
    if (make_text(l, n))
        return 0;
    /* The buffer cannot hold strings, which are constants, even if fed. */
    for (int i = 0; i < n->n_out; i++)
        if (value_at(l, n->out[i])->tensor.dtype == DT_STRING) {
            for (int k = 0; k < operation_n_inputs(n->op); k++)
                plan_lacks(l->plan, n->op, k);
            return err_set(l->err, ERR_UNSUPPORTED, "%s: strings that only the run knows",
                           operation_name(n->op));
        }
    n->keep = n->n_out == 0;
    lower_add_node(l, n);
    return 0;
}

int lower_kernel(struct lowering *l, struct node *n, const struct kernel *row, int *out)
{
    if (squares(n))
        return square(l, n->op, n->in[0], &out[0]);
    return lower_rename(l, n, out) ? 0 : compute(l, n, row);
}
