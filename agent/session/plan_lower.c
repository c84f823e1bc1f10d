/* From operations in order to nodes on values: shapes are inferred for the fed sizes,
 * whatever depends on shapes and constants alone is computed now, operations that only
 * rename bytes become aliases, and equal operations on equal values become one. */
#include "agent/graph/op_table.h"
#include "agent/session/plan.h"
#include "common/err/check.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

#define FOLD_MAX_BYTES (16u << 20)

/* An operation that was lowered already, for finding its doubles. */
struct seen {
    const struct operation *op;
    const int *in, *out; /* values */
    int guard;
    struct seen *next;
};

#define N_BUCKETS 1024

struct lowering {
    struct plan *plan;
    struct arena *scratch;
    const struct order *order;
    const struct var_store *vars;
    int **values;           /* by operation id: of its outputs */
    int *fetched;           /* by operation id: copy of a variable for a fetch, or -1 */
    int *dense;             /* by feed: copy of one whose rows lie apart, or -1 */
    unsigned char *written; /* by variable number: this run changes it */
    int guard;              /* of the nodes being made */
    struct seen *buckets[N_BUCKETS];
    struct err *err;
};

int plan_add_value(struct plan *p, enum value_kind kind, enum dtype dtype,
                   const struct shape *shape)
{
    const struct shape of = *shape; /* it may lie in the array that moves */

    if (p->n_values == p->cap_values) {
        p->cap_values = p->cap_values ? 2 * p->cap_values : 256;
        p->values = xreallocarray(p->values, (size_t)p->cap_values, sizeof(*p->values));
    }
    p->values[p->n_values] = (struct value){
        .tensor = tensor_view(dtype, of, NULL),
        .kind = kind,
        .root = p->n_values,
        .index = -1,
        .maker = -1,
        .shares = p->n_values,
    };
    return p->n_values++;
}

static struct value *value_at(const struct lowering *l, int v)
{
    return &l->plan->values[v];
}

static struct value *root_of(const struct lowering *l, int v)
{
    return value_at(l, value_at(l, v)->root);
}

/* Another name, dtype and shape for bytes of x. */
static int add_alias(struct lowering *l, int x, const struct shape *shape, size_t offset)
{
    const struct value of = *value_at(l, x);
    int v = plan_add_value(l->plan, of.kind, of.tensor.dtype, shape);
    struct value *a = value_at(l, v);
    a->root = of.root;
    a->offset = of.offset + offset;
    a->index = of.index;
    if (of.kind == VALUE_CONST && of.tensor.data)
        a->tensor.data = (char *)of.tensor.data + offset;
    return v;
}

static int add_const(struct lowering *l, struct tensor t)
{
    int v = plan_add_value(l->plan, VALUE_CONST, t.dtype, &t.shape);
    value_at(l, v)->tensor = t;
    value_at(l, v)->tensor.owned = 0;
    return v;
}

static int is_const(const struct lowering *l, int v)
{
    return value_at(l, v)->kind == VALUE_CONST;
}

/* ---- nodes ---- */

static void add_node(struct lowering *l, const struct node *n)
{
    struct plan *p = l->plan;
    if (p->n_nodes == p->cap_nodes) {
        p->cap_nodes = p->cap_nodes ? 2 * p->cap_nodes : 256;
        p->nodes = xreallocarray(p->nodes, (size_t)p->cap_nodes, sizeof(*p->nodes));
    }
    p->nodes[p->n_nodes] = *n;
    p->nodes[p->n_nodes++].guard = l->guard;
}

static int *int_array(struct lowering *l, int n)
{
    return ARENA_ARRAY(l->scratch, int, n > 0 ? n : 1);
}

/* A call of one operand and one result. */
static struct node call_node(struct lowering *l, const struct operation *op,
                             kernel_fn call, int x, const struct shape *shape)
{
    struct node n = {.kind = NODE_CALL, .op = op, .call = call, .n_in = 1, .n_out = 1};
    n.in = int_array(l, 1);
    n.out = int_array(l, 1);
    n.in[0] = x;
    n.out[0] = plan_add_value(l->plan, VALUE_BUFFER, value_at(l, x)->tensor.dtype, shape);
    return n;
}

/* The bytes of x in a place of their own. */
static int add_copy(struct lowering *l, const struct operation *op, int x)
{
    struct shape shape = value_at(l, x)->tensor.shape;
    struct node n = call_node(l, op, kern_copy, x, &shape);
    add_node(l, &n);
    return n.out[0];
}

/* A value whose rows follow each other: a fed one where they do not is copied, once. */
static int dense(struct lowering *l, int v)
{
    const struct value x = *value_at(l, v);
    if (x.row_stride == 0)
        return v;
    if (l->dense[x.index] < 0) {
        int guard = l->guard;
        l->guard = 0; /* others may read it too */
        l->dense[x.index] = add_copy(l, l->plan->feeds[x.index].output.op, v);
        l->guard = guard;
    }
    return l->dense[x.index];
}

/* ---- doubles ---- */

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

/* Attributes that begin with "_" (colocation) do not matter. */
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

/* Does a run change the bytes this value shows? */
static int changes(const struct lowering *l, int v)
{
    const struct value *root = root_of(l, v);
    return root->kind == VALUE_VARIABLE && l->written[root->index];
}

/* A draw or a write is never merged, nor what looks at bytes that change. */
static int mergeable(const struct lowering *l, const struct operation *op, const int *in)
{
    if (operation_def(op)->flags & (OP_STATEFUL | OP_WRITES))
        return 0;
    for (int i = 0; i < operation_n_inputs(op); i++)
        if (value_at(l, in[i])->kind == VALUE_VARIABLE && changes(l, in[i]))
            return 0;
    return 1;
}

/* Does a node of this guard run whenever the one being made does? */
static int runs_whenever(const struct lowering *l, int guard)
{
    return guard == 0 || guard == l->guard;
}

static struct seen **bucket(struct lowering *l, const struct operation *op, const int *in)
{
    unsigned h = 0;
    for (const char *c = operation_type(op); *c; c++)
        h = h * 31u + (unsigned char)*c;
    for (int i = 0; i < operation_n_inputs(op); i++)
        h = h * 1000003u + (unsigned)in[i];
    return &l->buckets[(h ^ h >> 15) % N_BUCKETS];
}

static const int *find_double(struct lowering *l, const struct operation *op,
                              const int *in)
{
    size_t bytes = sizeof(int) * (size_t)operation_n_inputs(op);
    for (const struct seen *e = *bucket(l, op, in); e; e = e->next)
        if (strcmp(operation_type(e->op), operation_type(op)) == 0 &&
            operation_n_inputs(e->op) == operation_n_inputs(op) &&
            memcmp(e->in, in, bytes) == 0 && attrs_same(e->op, op) &&
            runs_whenever(l, e->guard))
            return e->out;
    return NULL;
}

static void remember(struct lowering *l, const struct operation *op, const int *in,
                     const int *out)
{
    struct seen **at = bucket(l, op, in);
    struct seen *e = ARENA_NEW(l->scratch, struct seen);
    *e = (struct seen){op, in, out, l->guard, *at};
    *at = e;
}

/* ---- constants ---- */

static int may_be_owned(const struct lowering *l, const struct node *n)
{
    size_t bytes = 0;
    for (int i = 0; i < n->n_out; i++) {
        const struct tensor *t = &value_at(l, n->out[i])->tensor;
        if (dtype_size(t->dtype) == 0 && t->dtype != DT_STRING)
            return 0;
        bytes += tensor_bytes(t);
    }
    return bytes <= FOLD_MAX_BYTES;
}

static int foldable(const struct lowering *l, const struct node *n)
{
    const char *type = operation_type(n->op);
    if ((operation_def(n->op)->flags & (OP_STATEFUL | OP_WRITES)) || !may_be_owned(l, n))
        return 0;
    /* These look at shapes only. */
    if (strcmp(type, "Shape") == 0 || strcmp(type, "ShapeN") == 0 ||
        strcmp(type, "Size") == 0 || strcmp(type, "Rank") == 0 ||
        strcmp(type, "ZerosLike") == 0 || strcmp(type, "OnesLike") == 0)
        return 1;
    for (int i = 0; i < n->n_in; i++)
        if (!is_const(l, n->in[i]))
            return 0;
    return 1;
}

static void own(struct lowering *l, struct tensor t)
{
    struct plan *p = l->plan;
    p->owned = xreallocarray(p->owned, (size_t)p->n_owned + 1, sizeof(*p->owned));
    p->owned[p->n_owned++] = t;
}

/* A kernel that moves strings moves `struct tensor_string`; here each gets bytes of its
 * own. After an error there are none. */
static void own_strings(const struct tensor *t, int failed)
{
    struct tensor_string *s = t->data;
    for (int64_t i = 0; i < tensor_elements(t); i++)
        s[i] = failed || !s[i].bytes
                   ? (struct tensor_string){0}
                   : (struct tensor_string){xstrndup(s[i].bytes, s[i].len_bytes),
                                            s[i].len_bytes};
}

static int moves_strings(const struct node *n)
{
    return n->call != kern_string_join && n->call != kern_sharded_filename &&
           n->call != kern_restore;
}

static int fold(struct lowering *l, const struct node *n)
{
    struct plan *p = l->plan;
    for (int i = 0; i < n->n_out; i++) {
        struct tensor t;
        int r = tensor_alloc(&t, value_at(l, n->out[i])->tensor.dtype,
                             value_at(l, n->out[i])->tensor.shape, l->err);
        if (r < 0)
            return r;
        own(l, t);
        t.owned = 0;
        value_at(l, n->out[i])->tensor = t;
        value_at(l, n->out[i])->kind = VALUE_CONST;
    }
    /* ZerosLike and its kin use no element of an operand that only the run knows, but
     * their loops load it: from the result's own place. */
    if (n->kind == NODE_LOOP && !is_const(l, n->in[0]))
        n->in[0] = add_const(l, value_at(l, n->out[0])->tensor);
    int r = node_evaluate(p, n, l->err);
    for (int i = 0; i < n->n_out && moves_strings(n); i++)
        if (value_at(l, n->out[i])->tensor.dtype == DT_STRING)
            own_strings(&value_at(l, n->out[i])->tensor, r < 0);
    return r;
}

/* ---- operations that change nothing ---- */

static int64_t elements(const struct lowering *l, int v)
{
    return tensor_elements(&value_at(l, v)->tensor);
}

static int all_ones(const struct lowering *l, int v)
{
    const struct tensor *t = &value_at(l, v)->tensor;
    if (!is_const(l, v) || t->dtype != DT_FLOAT)
        return 0;
    for (int64_t i = 0; i < tensor_elements(t); i++)
        if (tensor_f32(t)[i] != 1.0f)
            return 0;
    return 1;
}

static int type_in(const char *type, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(type, *list) == 0)
            return 1;
    return 0;
}

/* Do the dimensions that have more than one element keep their order? */
static int keeps_order(const struct tensor *x, const struct tensor *perm)
{
    int64_t before = -1;
    for (int64_t i = 0; i < tensor_elements(perm); i++) {
        int64_t d = tensor_int(perm, i);
        if (x->shape.dim[d] == 1)
            continue;
        if (d < before)
            return 0;
        before = d;
    }
    return 1;
}

/* Which input's bytes output 0 has as they are; -1: none. */
static int same_as_input(const struct lowering *l, const struct node *n)
{
    static const char *const of_first[] = {"Sum", "Mean", "Max",   "Min",  "Prod",
                                           "All", "Any",  "Slice", "Tile", NULL};
    const char *type = operation_type(n->op);
    int64_t size = elements(l, n->out[0]);
    if (n->n_out != 1)
        return -1;
    if (type_in(type, of_first) && elements(l, n->in[0]) == size)
        return 0;
    if (strcmp(type, "Transpose") == 0 && is_const(l, n->in[1]) &&
        keeps_order(&value_at(l, n->in[0])->tensor, &value_at(l, n->in[1])->tensor))
        return 0;
    if (strcmp(type, "Cast") == 0 &&
        value_at(l, n->in[0])->tensor.dtype == value_at(l, n->out[0])->tensor.dtype)
        return 0;
    if (strcmp(type, "AddN") == 0 && n->n_in == 1)
        return 0;
    if (strcmp(type, "Mul") == 0)
        for (int i = 0; i < 2; i++)
            if (all_ones(l, n->in[!i]) && elements(l, n->in[i]) == size)
                return i;
    if (strcmp(type, "RealDiv") == 0 && all_ones(l, n->in[1]) &&
        elements(l, n->in[0]) == size)
        return 0;
    if (strcmp(type, "ConcatV2") == 0 || strcmp(type, "Pack") == 0)
        for (int i = 0; i < n->n_in - (type[0] == 'C'); i++)
            if (elements(l, n->in[i]) == size)
                return i;
    return -1;
}

/* Leading rows of a matrix and the like: a slice whose bytes lie together. Gives the
 * offset in bytes, or -1. */
static int64_t slice_offset(const struct lowering *l, const struct node *n)
{
    if (strcmp(operation_type(n->op), "Slice") != 0 || !is_const(l, n->in[1]))
        return -1;
    const struct tensor *x = &value_at(l, n->in[0])->tensor;
    const struct shape *y = &value_at(l, n->out[0])->tensor.shape;
    if (x->dtype == DT_STRING)
        return -1;
    int64_t strides[SHAPE_MAX_RANK], offset = 0;
    int whole = 1; /* so far, from the innermost dimension */
    dense_strides(&x->shape, dtype_size(x->dtype), strides);
    for (int d = y->rank - 1; d >= 0; d--) {
        if (!whole && y->dim[d] != 1)
            return -1;
        whole = whole && y->dim[d] == x->shape.dim[d];
        offset += tensor_int(&value_at(l, n->in[1])->tensor, d) * strides[d];
    }
    return offset;
}

/* ---- one operation ---- */

static int infer(struct lowering *l, const struct operation *op, const int *in, int *out)
{
    int n_in = operation_n_inputs(op), n_out = operation_n_outputs(op);
    struct shape *shapes = ARENA_ARRAY(l->scratch, struct shape, n_in + n_out + 1);
    const struct tensor **known =
        ARENA_ARRAY(l->scratch, const struct tensor *, n_in + 1);
    for (int i = 0; i < n_in; i++) {
        shapes[i] = value_at(l, in[i])->tensor.shape;
        known[i] = is_const(l, in[i]) ? &value_at(l, in[i])->tensor : NULL;
    }
    for (int i = 0; i < n_out; i++)
        shapes[n_in + i] = SHAPE_UNKNOWN;
    struct shape_args args = {op, n_in, shapes, known, shapes + n_in, l->err};
    int r = operation_def(op)->shape ? operation_def(op)->shape(&args) : 0;
    if (r < 0)
        return err_wrap(l->err, "%s", operation_name(op));
    r = kernel_sizes(op, known, shapes + n_in, l->err);
    if (r < 0)
        return r;
    for (int i = 0; i < n_out; i++) {
        struct output x = {graph_operation_at(l->plan->graph, operation_id(op)), i};
        /* Its attribute says less than its input. */
        if (strcmp(operation_type(op), "PlaceholderWithDefault") == 0)
            shapes[n_in + i] = shapes[0];
        if (!shape_known(&shapes[n_in + i]) || shape_elements(&shapes[n_in + i]) < 0) {
            plan_find_late(l->plan, op, known);
            return err_set(
                l->err, ERR_SHAPE,
                "%s:%d: its shape %s depends on values that only the run knows",
                operation_name(op), i, shape_text(&shapes[n_in + i]));
        }
        out[i] =
            plan_add_value(l->plan, VALUE_BUFFER, output_dtype(x), &shapes[n_in + i]);
    }
    return 0;
}

/* Operands that broadcast in no simple pattern are written out first. */
static int widen_operands(struct lowering *l, struct node *n)
{
    struct shape shape = value_at(l, n->out[0])->tensor.shape;
    int r = 0;
    for (int i = 0; r == 0 && i < n->n_in; i++) {
        struct loop_arg arg;
        if (loop_classify(&value_at(l, n->in[i])->tensor.shape, &shape, &arg))
            continue;
        struct node wide = call_node(l, n->op, kern_broadcast_to, n->in[i], &shape);
        if (is_const(l, n->in[i]))
            r = fold(l, &wide);
        else
            add_node(l, &wide);
        n->in[i] = wide.out[0];
    }
    return r;
}

/* A condition of one element per row of the branches. */
static void widen_condition(struct lowering *l, struct node *n)
{
    const struct shape *c = &value_at(l, n->in[0])->tensor.shape;
    const struct shape *x = &value_at(l, n->in[1])->tensor.shape;
    if (c->rank == 1 && x->rank > 1) {
        struct shape rows = *x;
        for (int d = 1; d < rows.rank; d++)
            rows.dim[d] = 1;
        n->in[0] = add_alias(l, n->in[0], &rows, 0);
    }
}

/* A bias of channels that are not the last dimension. */
static void widen_bias(struct lowering *l, struct node *n)
{
    const struct shape *x = &value_at(l, n->in[0])->tensor.shape;
    int axis = channel_axis(n->op, x->rank);
    struct shape bias = {x->rank - axis, {x->dim[axis]}};
    for (int d = 1; d < bias.rank; d++)
        bias.dim[d] = 1;
    if (bias.rank > 1)
        n->in[1] = add_alias(l, n->in[1], &bias, 0);
}

/* LeakyReluGrad looks at the sign of its feature only, and LeakyRelu's result has the
 * same sign: with the result in its place the pre-activation need not be kept. */
static void take_result_for_feature(struct lowering *l, struct node *n)
{
    for (int k = l->plan->n_nodes - 1; k >= 0; k--) {
        const struct node *m = &l->plan->nodes[k];
        if (m->loop && strcmp(m->loop->type, "LeakyRelu") == 0 && m->in[0] == n->in[1] &&
            memcmp(&m->alpha, &n->alpha, sizeof(float)) == 0 && m->alpha >= 0 &&
            runs_whenever(l, m->guard)) {
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
        /* A row of its own for each pair of dtypes. */
        struct loop_row *row = ARENA_NEW(&l->plan->arena, struct loop_row);
        *row =
            (struct loop_row){"Cast", dtype, value_at(l, n->out[0])->tensor.dtype, NULL};
        row->fn = kern_loops()->cast(row->dtype, row->ret);
        n->loop = row->fn ? row : NULL;
    } else if (strncmp(type, "Select", strlen("Select")) == 0) {
        n->loop = kern_loop_find("Select", value_at(l, n->in[1])->tensor.dtype);
        widen_condition(l, n);
    } else {
        n->loop = kern_loop_find(type, dtype);
    }
    if (!n->loop)
        return err_set(l->err, ERR_UNSUPPORTED, "%s: no %s of %s", operation_name(n->op),
                       type, dtype_name(dtype));
    n->kind = NODE_LOOP;
    n->call = NULL;
    n->alpha = float_attr(n->op, "alpha", 0.0f);
    if (strcmp(type, "LeakyReluGrad") == 0)
        take_result_for_feature(l, n);
    if (strcmp(type, "BiasAdd") == 0)
        widen_bias(l, n);
    return 0;
}

/* a + b + c + ... from the left, as nodes of two operands. */
static int make_add_n(struct lowering *l, struct node *n)
{
    const struct loop_row *add =
        kern_loop_find("Add", value_at(l, n->in[0])->tensor.dtype);
    struct tensor t = value_at(l, n->out[0])->tensor;
    int sum = n->in[0];
    if (!add)
        return err_set(l->err, ERR_UNSUPPORTED, "%s: no AddN of %s",
                       operation_name(n->op), dtype_name(t.dtype));
    for (int i = 1; i < n->n_in; i++) {
        struct node two = {
            .kind = NODE_LOOP, .op = n->op, .loop = add, .n_in = 2, .n_out = 1};
        two.in = int_array(l, 2);
        two.out = int_array(l, 1);
        two.in[0] = sum;
        two.in[1] = n->in[i];
        sum = i + 1 < n->n_in ? plan_add_value(l->plan, VALUE_BUFFER, t.dtype, &t.shape)
                              : n->out[0];
        two.out[0] = sum;
        add_node(l, &two);
    }
    return 0;
}

/* The square of x, made earlier or now. */
static int square(struct lowering *l, const struct operation *op, int x, int *ret)
{
    const struct tensor t = value_at(l, x)->tensor;
    const struct loop_row *row = kern_loop_find("Square", t.dtype);
    if (!row)
        return err_set(l->err, ERR_UNSUPPORTED, "%s: no %s of %s", operation_name(op),
                       operation_type(op), dtype_name(t.dtype));
    for (int k = l->plan->n_nodes - 1; k >= 0 && !changes(l, x); k--) {
        const struct node *m = &l->plan->nodes[k];
        if (m->loop == row && m->in[0] == x && runs_whenever(l, m->guard)) {
            *ret = m->out[0];
            return 0;
        }
    }
    struct node n = call_node(l, op, NULL, x, &t.shape);
    n.kind = NODE_LOOP;
    n.loop = row;
    *ret = n.out[0];
    if (is_const(l, x) && may_be_owned(l, &n))
        return fold(l, &n);
    add_node(l, &n);
    return 0;
}

/* Square, or a product of a value by itself: TensorFlow's norms have both. */
static int squares(const struct node *n)
{
    const char *type = operation_type(n->op);
    return strcmp(type, "Square") == 0 ||
           (strcmp(type, "Mul") == 0 && n->in[0] == n->in[1]);
}

/* The node that made a value; NULL: none, or its bytes go by another name. */
static const struct node *maker(const struct lowering *l, int v)
{
    for (int k = l->plan->n_nodes - 1; k >= 0; k--)
        for (int i = 0; i < l->plan->nodes[k].n_out; i++)
            if (l->plan->nodes[k].out[i] == v)
                return &l->plan->nodes[k];
    return NULL;
}

/* A slice of a slice is one slice. */
static void join_slices(struct lowering *l, struct node *n)
{
    const struct node *outer = maker(l, n->in[0]);
    if (!outer || outer->call != kern_slice || changes(l, outer->in[0]) ||
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
    n->in[1] = add_const(l, sum);
}

/* Does the run change a part? Then it may do so before they are joined again. */
static int parts_change(const struct lowering *l, const struct node *join)
{
    for (int i = 0; i < join->n_in - 1; i++)
        if (changes(l, join->in[i]))
            return 1;
    return 0;
}

/* What was joined along the same axis before is joined here from its parts. */
static void join_concats(struct lowering *l, struct node *n)
{
    int axis = n->in[n->n_in - 1];
    for (int i = 0; i < n->n_in - 1; i++) {
        const struct node *part = maker(l, n->in[i]);
        if (!part || part->call != kern_concat || parts_change(l, part) ||
            tensor_int(&value_at(l, part->in[part->n_in - 1])->tensor, 0) !=
                tensor_int(&value_at(l, axis)->tensor, 0))
            continue;
        int more = part->n_in - 2, *in = int_array(l, n->n_in + more);
        memcpy(in, n->in, sizeof(int) * (size_t)i);
        memcpy(in + i, part->in, sizeof(int) * (size_t)(part->n_in - 1));
        memcpy(in + i + more + 1, n->in + i + 1, sizeof(int) * (size_t)(n->n_in - i - 1));
        n->in = in;
        n->n_in += more;
        i += more;
    }
}

static void make_gemm(struct node *n)
{
    n->kind = NODE_GEMM;
    n->transpose_a = (int)int_attr(n->op, "transpose_a", 0);
    n->transpose_b = (int)int_attr(n->op, "transpose_b", 0);
}

static int alias(struct lowering *l, const struct operation *op, int x,
                 const struct shape *shape, size_t offset)
{
    if (changes(l, x) && kernel_find(operation_type(op))->kind != KERNEL_ALIAS)
        x = add_copy(l, op, x);
    else if (l->order->copy[operation_id(op)])
        x = add_copy(l, op, x);
    else if (!changes(l, x) && offset == 0 &&
             shape_equal(shape, &value_at(l, x)->tensor.shape))
        return x;
    return add_alias(l, x, shape, offset);
}

/* The outputs of a write show the variable as it is then. */
static void lower_write(struct lowering *l, struct node *n, int *out)
{
    int n_out = n->n_out;
    n->writes = 1;
    n->n_out = 0;
    add_node(l, n);
    for (int i = 0; i < n_out; i++) {
        out[i] = add_alias(l, n->in[i], &value_at(l, n->in[i])->tensor.shape, 0);
        if (l->order->copy[operation_id(n->op)])
            out[i] = add_copy(l, n->op, out[i]);
    }
}

/* Its result is the bytes of an input: `ret` gets that value. */
static int lower_rename(struct lowering *l, const struct node *n, int *ret)
{
    struct shape shape = value_at(l, n->out[0])->tensor.shape;
    int same = same_as_input(l, n);
    int64_t offset = same >= 0 ? 0 : slice_offset(l, n);
    if (same < 0 && offset < 0)
        return 0;
    *ret = alias(l, n->op, dense(l, n->in[same >= 0 ? same : 0]), &shape, (size_t)offset);
    return 1;
}

/* A kernel that computes knows four types; one that moves elements takes any. */
static int knows_types(struct lowering *l, const struct node *n)
{
    const char *signature = operation_def(n->op)->signature;
    if (!strstr(signature, "float_type") && !strstr(signature, "number_type"))
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

static int lower_compute(struct lowering *l, struct node *n, const struct kernel_row *row)
{
    int r = 0;
    if (strcmp(operation_type(n->op), "AddN") == 0)
        return make_add_n(l, n);
    if (row->kind == KERNEL_LOOP)
        r = make_loop(l, n);
    else if (knows_types(l, n) < 0)
        return ERR_UNSUPPORTED;
    else if (row->kind == KERNEL_GEMM && value_at(l, n->in[0])->tensor.dtype == DT_FLOAT)
        make_gemm(n);
    else if (n->call == kern_half_sum) /* the squares may be made where the operand is */
        r = square(l, n->op, n->in[0], &n->in[0]);
    else if (n->call == kern_slice)
        join_slices(l, n);
    else if (n->call == kern_concat)
        join_concats(l, n);
    if (r == 0 && n->kind == NODE_LOOP)
        r = widen_operands(l, n);
    if (r < 0)
        return r;
    if (foldable(l, n))
        return fold(l, n);
    /* A buffer has no place for strings: they are constants, fed ones too. */
    for (int i = 0; i < n->n_out; i++)
        if (value_at(l, n->out[i])->tensor.dtype == DT_STRING) {
            l->plan->wants_values = 1;
            return err_set(l->err, ERR_UNSUPPORTED, "%s: strings that only the run knows",
                           operation_name(n->op));
        }
    n->keep = n->n_out == 0;
    add_node(l, n);
    return 0;
}

static int not_runnable(struct lowering *l, const struct operation *op)
{
    return err_set(l->err, ERR_UNSUPPORTED, "%s: operations of type %s cannot be run",
                   operation_name(op), operation_type(op));
}

/* Both outputs are the input; which is alive is a matter of guards. */
static void lower_switch(struct lowering *l, const struct node *n, int *out)
{
    out[0] = out[1] = alias(l, n->op, n->in[0], &value_at(l, n->in[0])->tensor.shape, 0);
}

/* Each input, and its number, is copied to the result while that input is alive. */
static int lower_merge(struct lowering *l, const struct node *n)
{
    int guard = l->guard;
    for (int i = 0; i < n->n_in; i++) {
        struct tensor index;
        int parts[2] = {n->in[i], -1};
        int r = tensor_alloc(&index, DT_INT32, SHAPE_SCALAR, l->err);
        if (r < 0)
            return r;
        *(int32_t *)index.data = i;
        own(l, index);
        parts[1] = add_const(l, index);
        l->guard = guard_of_output(l->plan, l->order->guard, operation_input(n->op, i));
        for (int k = 0; k < 2; k++) {
            struct node copy = {
                .kind = NODE_CALL, .op = n->op, .call = kern_copy, .n_in = 1, .n_out = 1};
            copy.in = int_array(l, 1);
            copy.out = int_array(l, 1);
            copy.in[0] = parts[k];
            copy.out[0] = n->out[k];
            add_node(l, &copy);
        }
    }
    l->guard = guard;
    return 0;
}

/* A node that fails while the variable has no value. */
static void add_checks(struct lowering *l, const struct operation *op)
{
    for (struct check *c = l->order->checks[operation_id(op)]; c; c = c->next) {
        struct node n = {.kind = NODE_CALL, .op = c->variable, .keep = 1, .n_in = 1};
        n.call = kern_need_value;
        n.in = int_array(l, 1);
        n.in[0] = l->values[operation_id(c->variable)][0];
        add_node(l, &n);
    }
}

static int lower_node(struct lowering *l, struct node *n, int *out)
{
    const struct kernel_row *row = kernel_find(operation_type(n->op));
    if (!row)
        return not_runnable(l, n->op);
    n->call = row->call;
    if (strcmp(operation_type(n->op), "Merge") == 0)
        return lower_merge(l, n);
    if (is_switch(n->op)) {
        lower_switch(l, n, out);
        return 0;
    }
    if (row->kind == KERNEL_PLANNED)
        return 0;
    if (operation_def(n->op)->flags & OP_WRITES) {
        lower_write(l, n, out);
        return 0;
    }
    int merge = mergeable(l, n->op, n->in);
    const int *twin = merge ? find_double(l, n->op, n->in) : NULL;
    if (twin) {
        memcpy(out, twin, sizeof(int) * (size_t)n->n_out);
        return 0;
    }
    /* The inputs may be replaced while lowering. */
    int *in = int_array(l, n->n_in);
    memcpy(in, n->in, sizeof(int) * (size_t)n->n_in);
    int r = 0;
    if (row->kind == KERNEL_ALIAS)
        out[0] = alias(l, n->op, n->in[0], &value_at(l, out[0])->tensor.shape, 0);
    else if (squares(n))
        r = square(l, n->op, n->in[0], &out[0]);
    else if (!lower_rename(l, n, out))
        r = lower_compute(l, n, row);
    if (merge)
        remember(l, n->op, in, out);
    return r;
}

static int not_fed(struct lowering *l, const struct operation *op)
{
    struct shape shape = SHAPE_UNKNOWN;
    struct output x = {graph_operation_at(l->plan->graph, operation_id(op)), 0};
    shape = output_shape(x);
    return err_set(l->err, ERR_ARG,
                   "You must feed a value for placeholder tensor '%s' with dtype %s and "
                   "shape %s",
                   operation_name(op), dtype_name(output_dtype(x)), shape_text(&shape));
}

/* Feeds stand in for outputs, whatever made them. */
static void take_feeds(struct lowering *l, const struct operation *op, int *out)
{
    const struct plan *p = l->plan;
    for (size_t i = 0; i < p->n_feeds; i++)
        if (p->feeds[i].output.op == op)
            out[p->feeds[i].output.index] = p->feeds[i].value;
}

static int all_fed(const struct lowering *l, const struct operation *op)
{
    int n = 0;
    for (size_t i = 0; i < l->plan->n_feeds; i++)
        n += l->plan->feeds[i].output.op == op;
    return n > 0 && n == operation_n_outputs(op);
}

static void lower_variable(struct lowering *l, const struct operation *op, int *out)
{
    int index = var_store_find(l->vars, op);
    CHECK(index >= 0, "%s", operation_name(op));
    out[0] = plan_add_value(l->plan, VALUE_VARIABLE,
                            (enum dtype)operation_attr(op, "dtype")->i,
                            &operation_attr(op, "shape")->shape);
    value_at(l, out[0])->index = index;
    if (l->order->copy[operation_id(op)])
        l->fetched[operation_id(op)] = add_copy(l, op, out[0]);
}

/* Products and concatenations read rows wherever they lie. */
static int takes_rows_apart(const struct operation *op)
{
    const struct kernel_row *row = kernel_find(operation_type(op));
    if (!row || operation_n_outputs(op) != 1)
        return 0;
    return row->call == kern_concat ||
           (row->kind == KERNEL_GEMM && output_dtype(operation_input(op, 0)) == DT_FLOAT);
}

static int *operands(struct lowering *l, const struct operation *op)
{
    int n = operation_n_inputs(op), apart = takes_rows_apart(op);
    int *in = int_array(l, n);
    for (int i = 0; i < n; i++) {
        struct output x = operation_input(op, i);
        in[i] = l->values[operation_id(x.op)][x.index];
        if (!apart)
            in[i] = dense(l, in[i]);
    }
    return in;
}

static int lower_op(struct lowering *l, const struct operation *op)
{
    int id = operation_id(op), n_in = operation_n_inputs(op);
    int n_out = operation_n_outputs(op), r = 0;
    const char *type = operation_type(op);
    int *out = l->values[id] = int_array(l, n_out);
    l->guard = l->order->guard[id];
    if (all_fed(l, op)) {
        take_feeds(l, op, out);
        return 0;
    }
    if (strcmp(type, "Placeholder") == 0)
        return not_fed(l, op);
    if ((operation_def(op)->flags & OP_FOREIGN) != 0)
        return not_runnable(l, op);
    if (strcmp(type, "Const") == 0) {
        out[0] = add_const(l, operation_attr(op, "value")->tensor);
    } else if (operation_is_variable(op)) {
        lower_variable(l, op, out);
    } else {
        struct node n = {.kind = NODE_CALL, .op = op, .n_in = n_in, .n_out = n_out};
        n.in = operands(l, op);
        n.out = int_array(l, n_out);
        add_checks(l, op);
        r = infer(l, op, n.in, n.out);
        memcpy(out, n.out, sizeof(int) * (size_t)n_out);
        if (r == 0)
            r = lower_node(l, &n, out);
    }
    take_feeds(l, op, out);
    return r;
}

/* ---- what nobody uses ---- */

void plan_count_uses(struct plan *p)
{
    for (int v = 0; v < p->n_values; v++)
        p->values[v].uses = 0;
    for (size_t i = 0; i < p->n_fetches; i++)
        p->values[p->values[p->fetch_values[i]].root].uses++;
    for (int k = 0; k < p->n_guards; k++)
        for (int i = 0; i < p->guards[k].n; i++)
            p->values[p->values[p->guards[k].conditions[i].value].root].uses++;
    for (int k = p->n_nodes - 1; k >= 0; k--) {
        struct node *n = &p->nodes[k];
        int wanted = n->writes || n->keep;
        for (int i = 0; i < n->n_out; i++)
            wanted |= p->values[p->values[n->out[i]].root].uses > 0;
        n->dead = !wanted;
        for (int i = 0; wanted && i < n->n_in; i++)
            p->values[p->values[n->in[i]].root].uses++;
    }
}

static void prepare_feeds(struct lowering *l)
{
    struct plan *p = l->plan;
    for (size_t i = 0; i < p->n_feeds; i++) {
        struct plan_feed *f = &p->feeds[i];
        int id = operation_id(f->output.op), n_out = operation_n_outputs(f->output.op);
        if (f->wanted.dtype != DT_INVALID) {
            f->value = add_const(l, f->wanted);
        } else {
            f->value = plan_add_value(p, VALUE_FEED, f->dtype, &f->shape);
            value_at(l, f->value)->index = (int)i;
            if (f->row_stride != 0 && f->row_stride != f->shape.dim[1])
                value_at(l, f->value)->row_stride = f->row_stride;
        }
        if (!l->values[id])
            l->values[id] = int_array(l, n_out);
        l->values[id][f->output.index] = f->value;
    }
}

static void mark_written(struct lowering *l, int n_ops)
{
    int n = 0;
    for (int id = 0; id < n_ops; id++)
        n += var_store_find(l->vars, graph_operation_at(l->plan->graph, id)) >= 0;
    l->written = ARENA_ARRAY(l->scratch, unsigned char, n + 1);
    for (int id = 0; id < n_ops; id++)
        if (l->order->written[id])
            l->written[var_store_find(l->vars, graph_operation_at(l->plan->graph, id))] =
                1;
}

static int is_fed(const struct lowering *l, struct output x)
{
    for (size_t i = 0; i < l->plan->n_feeds; i++)
        if (l->plan->feeds[i].output.op == x.op &&
            l->plan->feeds[i].output.index == x.index)
            return 1;
    return 0;
}

static void settle_guards(struct lowering *l)
{
    for (int k = 0; k < l->plan->n_guards; k++) {
        const struct guard *g = &l->plan->guards[k];
        for (int i = 0; i < g->n; i++) {
            struct output x = g->conditions[i].predicate;
            g->conditions[i].value = l->values[operation_id(x.op)][x.index];
        }
    }
}

int plan_lower(struct plan *p, struct arena *scratch, const struct order *order,
               const struct var_store *vars, struct err *err)
{
    int n_ops = graph_n_operations(p->graph), r = 0;
    struct lowering *l = ARENA_NEW(scratch, struct lowering);
    *l = (struct lowering){
        .plan = p, .scratch = scratch, .order = order, .vars = vars, .err = err};
    l->values = ARENA_ARRAY(scratch, int *, n_ops);
    l->fetched = int_array(l, n_ops);
    memset(l->fetched, -1, sizeof(int) * (size_t)n_ops);
    l->dense = int_array(l, (int)p->n_feeds);
    memset(l->dense, -1, sizeof(int) * p->n_feeds);
    mark_written(l, n_ops);
    prepare_feeds(l);
    for (int k = 0; r == 0 && k < order->n; k++)
        r = lower_op(l, order->ops[k]);
    if (r < 0)
        return r;
    for (size_t i = 0; i < p->n_fetches; i++) {
        struct output x = p->fetches[i];
        int id = operation_id(x.op);
        p->fetch_values[i] =
            l->fetched[id] >= 0 ? l->fetched[id] : dense(l, l->values[id][x.index]);
        p->fetch_guards[i] = is_fed(l, x) ? 0 : guard_of_output(p, order->guard, x);
    }
    settle_guards(l);
    plan_count_uses(p);
    return 0;
}
