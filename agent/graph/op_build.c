#include "agent/graph/graph_internal.h"
#include "agent/graph/import.h"
#include "agent/graph/signature.h"

#include "common/err/check.h"
#include "common/mem/xmalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- collecting ---- */

static const char *name_for(struct graph *g, const char *type, const char *name)
{
    size_t len;

    if (name == NULL)
        name = type;
    len = strlen(name);
    if (len != 0 && name[len - 1] == '/')
        return arena_strndup(&g->arena, name, len - 1);
    if (!name_valid(name, graph_name_scope(g)[0] != '\0')) {
        (void)graph_fail(g, ERR_ARG, "'%s' is not a valid node name", name);
        return NULL;
    }
    return graph_unique_name(g, name);
}

/* Inputs may be built between op_begin and op_finish: one builder for each open op. */
static struct op_builder *free_builder(struct graph *g)
{
    struct op_builder *b;

    for (size_t i = 0; i < g->builders.n; i++) {
        b = g->builders.items[i];
        if (!b->open)
            return b;
    }
    b = ARENA_NEW(&g->arena, struct op_builder);
    b->graph = g;
    ptr_list_push(&g->builders, b);
    return b;
}

static const struct signature *read_signature(struct graph *g, const struct op_def *def)
{
    struct signature sig;

    CHECK(signature_parse(&sig, def->signature) == 0, "%s", def->type);
    return arena_memdup(&g->arena, &sig, sizeof(sig));
}

/* NULL: there is no such op. */
static const struct known_op *know(struct graph *g, const char *type)
{
    const struct name_entry *e = name_table_find(&g->known_ops, type);
    const struct op_def *def;
    struct known_op *k;

    if (e != NULL)
        return e->value;
    def = op_def_find(type);
    if (def == NULL)
        return NULL;
    k = ARENA_NEW(&g->arena, struct known_op);
    *k = (struct known_op){def, read_signature(g, def)};
    name_table_add(&g->known_ops, def->type)->value = k;
    return k;
}

static struct op_builder *begin(struct graph *g, const char *type,
                                const struct op_def *def, const struct signature *sig)
{
    struct op_builder *b = free_builder(g);

    b->open = 1;
    b->imported = 0;
    b->type = type;
    b->def = def;
    b->sig = sig;
    b->device = NULL;
    b->n_inputs = b->n_attrs = 0;
    b->control.n = b->colocate.n = 0;
    return b;
}

struct op_builder *op_begin(struct graph *g, const char *type, const char *name)
{
    const struct known_op *k = know(g, type);
    struct op_builder *b =
        begin(g, type, k != NULL ? k->def : NULL, k != NULL ? k->sig : NULL);

    b->name = name_for(g, type, name);
    return b;
}

struct op_builder *op_begin_imported(struct graph *g, const struct op_def *def,
                                     const char *name)
{
    const struct signature *sig =
        (def->flags & OP_FOREIGN) != 0 ? read_signature(g, def) : know(g, def->type)->sig;
    struct op_builder *b = begin(g, def->type, def, sig);

    b->imported = 1;
    b->name = name_valid(name, 0) ? arena_strdup(&g->arena, name) : NULL;
    if (b->name == NULL)
        (void)graph_fail(g, ERR_ARG, "'%s' is not a valid node name", name);
    else
        graph_claim_name(g, name);
    return b;
}

void op_input(struct op_builder *b, struct output x)
{
    if (b->n_inputs == b->cap_inputs) {
        b->cap_inputs = b->cap_inputs != 0 ? b->cap_inputs * 2 : 8;
        b->inputs = xreallocarray(b->inputs, (size_t)b->cap_inputs, sizeof(*b->inputs));
    }
    b->inputs[b->n_inputs++] = x;
}

void op_control_input(struct op_builder *b, struct operation *op)
{
    ptr_list_push(&b->control, op);
}

void op_device(struct op_builder *b, const char *device)
{
    b->device = arena_strdup(&b->graph->arena, device);
}

static void add_colocation(struct op_builder *b, const char *group)
{
    for (size_t i = 0; i < b->colocate.n; i++)
        if (strcmp(b->colocate.items[i], group) == 0)
            return;
    ptr_list_push(&b->colocate, group);
}

void op_colocate(struct op_builder *b, const char *op_name)
{
    add_colocation(b, arena_printf(&b->graph->arena, "loc:@%s", op_name));
}

static struct attr *add_attr(struct op_builder *b, const char *name, enum attr_kind kind)
{
    if (b->n_attrs == b->cap_attrs) {
        b->cap_attrs = b->cap_attrs != 0 ? b->cap_attrs * 2 : 8;
        b->attrs = xreallocarray(b->attrs, (size_t)b->cap_attrs, sizeof(*b->attrs));
    }
    b->attrs[b->n_attrs] =
        (struct attr){.name = arena_strdup(&b->graph->arena, name), .kind = kind};
    return &b->attrs[b->n_attrs++];
}

void op_attr_int(struct op_builder *b, const char *name, int64_t v)
{
    add_attr(b, name, ATTR_INT)->i = v;
}

void op_attr_float(struct op_builder *b, const char *name, float v)
{
    add_attr(b, name, ATTR_FLOAT)->f = v;
}

void op_attr_bool(struct op_builder *b, const char *name, int v)
{
    add_attr(b, name, ATTR_BOOL)->i = v != 0;
}

void op_attr_type(struct op_builder *b, const char *name, enum dtype v)
{
    add_attr(b, name, ATTR_TYPE)->i = v;
}

void op_attr_shape(struct op_builder *b, const char *name, const struct shape *v)
{
    add_attr(b, name, ATTR_SHAPE)->shape = *v;
}

void op_attr_string(struct op_builder *b, const char *name, const char *v)
{
    struct attr *a = add_attr(b, name, ATTR_STRING);

    a->s = arena_strdup(&b->graph->arena, v);
    a->s_len = strlen(v);
}

static struct tensor_string *copy_strings(struct arena *arena,
                                          const struct tensor_string *from, size_t n)
{
    struct tensor_string *to = ARENA_ARRAY(arena, struct tensor_string, n);

    for (size_t i = 0; i < n; i++)
        to[i] = (struct tensor_string){
            arena_memdup(arena, from[i].bytes, from[i].len_bytes), from[i].len_bytes};
    return to;
}

static struct tensor copy_tensor(struct arena *arena, const struct tensor *t)
{
    void *data = t->dtype == DT_STRING
                     ? copy_strings(arena, t->data, (size_t)tensor_elements(t))
                     : arena_memdup(arena, t->data, tensor_bytes(t));

    return tensor_view(t->dtype, t->shape, data);
}

void op_attr_tensor(struct op_builder *b, const char *name, const struct tensor *v)
{
    add_attr(b, name, ATTR_TENSOR)->tensor = copy_tensor(&b->graph->arena, v);
}

void op_attr_ints(struct op_builder *b, const char *name, const int64_t *v, size_t n)
{
    struct attr *a = add_attr(b, name, ATTR_LIST_INT);

    a->list_i = arena_memdup(&b->graph->arena, v, n * sizeof(*v));
    a->n = n;
}

void op_attr(struct op_builder *b, const struct attr *a)
{
    struct arena *arena = &b->graph->arena;
    struct attr *to = add_attr(b, a->name, a->kind);
    const char *name = to->name;

    *to = *a;
    to->name = name;
    if (a->kind == ATTR_TENSOR)
        to->tensor = copy_tensor(arena, &a->tensor);
    if (a->s != NULL)
        to->s = memcpy(arena_alloc(arena, a->s_len + 1), a->s, a->s_len);
    if (a->list_i != NULL)
        to->list_i = arena_memdup(arena, a->list_i, a->n * sizeof(*a->list_i));
    if (a->list_f != NULL)
        to->list_f = arena_memdup(arena, a->list_f, a->n * sizeof(*a->list_f));
    if (a->list_shape != NULL)
        to->list_shape = arena_memdup(arena, a->list_shape, a->n * sizeof(struct shape));
    if (a->list_s != NULL)
        to->list_s = copy_strings(arena, a->list_s, a->n);
}

/* ---- binding inputs and attributes to the signature ---- */

#define SPAN_FMT    "%.*s"
#define SPAN_ARG(s) (int)(s).len, (s).p

struct binding {
    struct op_builder *b;
    struct graph *g;
    const struct signature *sig;
    int next_input;
};

#define bind_fail(bind, code, fmt, ...)                                                  \
    graph_fail((bind)->g, (code), "%s '%s': " fmt, (bind)->b->type,                      \
               (bind)->b->name __VA_OPT__(, ) __VA_ARGS__)

static struct attr *find_attr(struct op_builder *b, struct span name)
{
    for (int i = 0; i < b->n_attrs; i++)
        if (span_is(name, b->attrs[i].name))
            return &b->attrs[i];
    return NULL;
}

static struct attr *new_attr(struct op_builder *b, struct span name, enum attr_kind kind)
{
    return add_attr(b, arena_strndup(&b->graph->arena, name.p, name.len), kind);
}

static enum dtype dtype_of_span(struct span s)
{
    char word[32] = "";

    memcpy(word, s.p, s.len < sizeof(word) - 1 ? s.len : sizeof(word) - 1);
    return word[0] == '#' ? (enum dtype)atoi(word + 1) : dtype_from_name(word);
}

static int check_inputs(struct binding *bind)
{
    struct op_builder *b = bind->b;

    for (int i = 0; i < b->n_inputs; i++) {
        struct output x = b->inputs[i];

        if (!output_valid(x))
            return bind_fail(bind, ERR_ARG, "input %d is missing", i);
        if (x.op->graph != bind->g)
            return graph_fail(bind->g, ERR_ARG,
                              "Tensor \"%s:%d\" is not an element of this graph.",
                              x.op->name, x.index);
    }
    return 0;
}

static int check_attrs(struct binding *bind)
{
    for (int i = 0; i < bind->b->n_attrs; i++) {
        const struct attr *a = &bind->b->attrs[i];
        const struct signature_attr *s = signature_attr(bind->sig, span_of(a->name));

        if (s == NULL && a->name[0] != '_')
            return bind_fail(bind, ERR_ARG, "there is no attribute '%s'", a->name);
        if (s != NULL && s->kind != a->kind && a->kind != ATTR_OPAQUE)
            return bind_fail(bind, ERR_ARG, "attribute '%s' is a " SPAN_FMT, a->name,
                             SPAN_ARG(s->kind_name));
    }
    return 0;
}

static int is_list(const struct binding *bind, const struct signature_arg *arg)
{
    const struct signature_attr *type = signature_attr(bind->sig, arg->type);

    return arg->number.len != 0 || (type != NULL && type->kind == ATTR_LIST_TYPE);
}

/* How many tensors each list among the inputs has (all have as many); -1: does not fit.
 */
static int list_length(const struct binding *bind)
{
    int n_lists = 0, n_counted = 0, rest;

    for (int i = 0; i < bind->sig->n_in; i++) {
        n_lists += is_list(bind, &bind->sig->in[i]);
        n_counted += bind->sig->in[i].number.len != 0;
    }
    rest = bind->b->n_inputs - (bind->sig->n_in - n_lists);
    if (n_lists == 0)
        return rest == 0 ? 0 : -1;
    return rest >= (n_counted > 0) && rest % n_lists == 0 ? rest / n_lists : -1;
}

/* How many tensors the attribute that counts a list says it has; -1: it says nothing. */
static int64_t given_length(const struct binding *bind, const struct signature_arg *arg)
{
    const struct attr *a =
        find_attr(bind->b, arg->number.len != 0 ? arg->number : arg->type);

    if (!is_list(bind, arg))
        return 1;
    if (a == NULL)
        return -1;
    return a->kind == ATTR_LIST_TYPE ? (int64_t)a->n : a->i;
}

/* Do the attributes give every list a length, and all inputs one place? */
static int lengths_given(const struct binding *bind)
{
    int64_t total = 0;

    for (int i = 0; i < bind->sig->n_in; i++) {
        int64_t n = given_length(bind, &bind->sig->in[i]);

        if (n < 0 || n > bind->b->n_inputs)
            return 0;
        total += n;
    }
    return total == bind->b->n_inputs;
}

static int bind_number(struct binding *bind, struct span name, int n)
{
    struct attr *a = find_attr(bind->b, name);

    if (a == NULL)
        new_attr(bind->b, name, ATTR_INT)->i = n;
    else if (a->i != n)
        return bind_fail(bind, ERR_ARG, SPAN_FMT " is %lld, but %d inputs are given",
                         SPAN_ARG(name), (long long)a->i, n);
    return 0;
}

/* One input tensor against a dtype's name or a type attribute, which it may settle. */
static int bind_type(struct binding *bind, const struct signature_arg *arg,
                     struct output x)
{
    const struct signature_attr *s = signature_attr(bind->sig, arg->type);
    struct attr *a = s != NULL ? find_attr(bind->b, arg->type) : NULL;
    enum dtype is = output_dtype(x), want;

    if (s != NULL && a == NULL) {
        new_attr(bind->b, arg->type, ATTR_TYPE)->i = is;
        return 0;
    }
    want = s != NULL ? (enum dtype)a->i : dtype_of_span(arg->type);
    if (is != want)
        return bind_fail(
            bind, ERR_DTYPE, "input '" SPAN_FMT "' is %s:%d of type %s, not %s",
            SPAN_ARG(arg->name), x.op->name, x.index, dtype_name(is), dtype_name(want));
    return 0;
}

/* The types of a list of inputs against the attribute that lists them. */
static int bind_types(struct binding *bind, const struct signature_arg *arg, int n)
{
    const struct output *x = &bind->b->inputs[bind->next_input];
    struct attr *a = find_attr(bind->b, arg->type);
    int64_t *types;

    for (int i = 0; a != NULL && (size_t)i < a->n && i < n; i++)
        if (a->list_i[i] != output_dtype(x[i]))
            return bind_fail(
                bind, ERR_DTYPE, "input '" SPAN_FMT "' is %s:%d of type %s, not %s",
                SPAN_ARG(arg->name), x[i].op->name, x[i].index,
                dtype_name(output_dtype(x[i])), dtype_name((enum dtype)a->list_i[i]));
    if (a == NULL)
        a = new_attr(bind->b, arg->type, ATTR_LIST_TYPE);
    types = ARENA_ARRAY(&bind->g->arena, int64_t, n);
    for (int i = 0; i < n; i++)
        types[i] = output_dtype(x[i]);
    a->list_i = types;
    a->n = (size_t)n;
    return 0;
}

static int bind_arg(struct binding *bind, const struct signature_arg *arg, int n)
{
    int lists_types = is_list(bind, arg) && arg->number.len == 0;

    if (arg->number.len != 0 && bind_number(bind, arg->number, n) != 0)
        return -1;
    if (lists_types && bind_types(bind, arg, n) != 0)
        return -1;
    for (int i = 0; i < n; i++) {
        struct output x = bind->b->inputs[bind->next_input++];

        if (arg->is_ref && !output_is_ref(x))
            return bind_fail(bind, ERR_ARG,
                             "input '" SPAN_FMT "' is not a variable: %s:%d",
                             SPAN_ARG(arg->name), x.op->name, x.index);
        if (!lists_types && bind_type(bind, arg, x) != 0)
            return -1;
    }
    return 0;
}

static int bind_inputs(struct binding *bind)
{
    int given = lengths_given(bind);
    int list_n = given ? 0 : list_length(bind);

    if (list_n < 0)
        return bind_fail(bind, ERR_ARG, "takes %d arguments, but %d are given",
                         bind->sig->n_in, bind->b->n_inputs);
    for (int i = 0; i < bind->sig->n_in; i++) {
        const struct signature_arg *arg = &bind->sig->in[i];
        int n = given ? (int)given_length(bind, arg) : list_n;

        if (bind_arg(bind, arg, is_list(bind, arg) ? n : 1) != 0)
            return -1;
    }
    return 0;
}

static struct attr *default_attr(struct binding *bind, const struct signature_attr *s)
{
    struct attr *a = new_attr(bind->b, s->name, s->kind), value;

    CHECK(signature_default(s, &value) == 0, "%s: default of %s", bind->b->type, a->name);
    value.name = a->name;
    if (s->kind == ATTR_STRING)
        value.s = arena_strndup(&bind->g->arena, value.s, value.s_len);
    *a = value;
    return a;
}

static int is_private(const struct binding *bind, const struct attr *a)
{
    return a->name[0] == '_' && signature_attr(bind->sig, span_of(a->name)) == NULL;
}

/* Of the signature, private ones, and _class. */
static int count_attrs(const struct binding *bind)
{
    int n = bind->sig->n_attrs + (bind->b->colocate.n > 0);

    for (int i = 0; i < bind->b->n_attrs; i++)
        n += is_private(bind, &bind->b->attrs[i]);
    return n;
}

/* Defaults for what is not given, in the order of the signature, then "_..." ones. */
static int bind_attrs(struct binding *bind, struct operation *op)
{
    struct op_builder *b = bind->b;

    op->attrs = ARENA_ARRAY(&bind->g->arena, struct attr, count_attrs(bind));
    for (int i = 0; i < bind->sig->n_attrs; i++) {
        const struct signature_attr *s = &bind->sig->attrs[i];
        struct attr *a = find_attr(b, s->name);

        if (a == NULL && !s->has_default)
            return bind_fail(bind, ERR_ARG, "attribute '" SPAN_FMT "' is missing",
                             SPAN_ARG(s->name));
        if (a == NULL)
            a = default_attr(bind, s);
        if (s->kind == ATTR_TYPE && (b->def->flags & OP_FOREIGN) == 0 &&
            !(dtype_valid((int)a->i) && signature_type_allowed(s, (enum dtype)a->i)))
            return bind_fail(bind, ERR_DTYPE, "'" SPAN_FMT "' may not be %s",
                             SPAN_ARG(s->name), dtype_name((enum dtype)a->i));
        op->attrs[op->n_attrs++] = *a;
    }
    for (int i = 0; i < b->n_attrs; i++)
        if (is_private(bind, &b->attrs[i]))
            op->attrs[op->n_attrs++] = b->attrs[i];
    return 0;
}

static int64_t attr_count(const struct operation *op, struct span name)
{
    for (int i = 0; i < op->n_attrs; i++)
        if (span_is(name, op->attrs[i].name))
            return op->attrs[i].kind == ATTR_LIST_TYPE ? (int64_t)op->attrs[i].n
                                                       : op->attrs[i].i;
    return 1;
}

static enum dtype output_type(const struct operation *op, struct span type, int64_t i)
{
    for (int k = 0; k < op->n_attrs; k++)
        if (span_is(type, op->attrs[k].name))
            return (enum dtype)(op->attrs[k].kind == ATTR_LIST_TYPE
                                    ? op->attrs[k].list_i[i]
                                    : op->attrs[k].i);
    return dtype_of_span(type);
}

enum { MAX_OUTPUTS = 65536 };

static int make_outputs(struct binding *bind, struct operation *op)
{
    int64_t total = 0;

    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < bind->sig->n_out; i++) {
            const struct signature_arg *arg = &bind->sig->out[i];
            struct span counter = arg->number.len != 0 ? arg->number : arg->type;
            int64_t n = is_list(bind, arg) ? attr_count(op, counter) : 1;

            if (n < 0 || n > MAX_OUTPUTS)
                return bind_fail(bind, ERR_LIMIT, "%lld outputs", (long long)n);
            if (pass == 0)
                total += n;
            for (int64_t k = 0; pass == 1 && k < n; k++)
                op->outputs[op->n_outputs++] = (struct output_info){
                    output_type(op, arg->type, k), arg->is_ref, SHAPE_UNKNOWN};
        }
        if (pass == 0)
            op->outputs = ARENA_ARRAY(&bind->g->arena, struct output_info, total);
    }
    return 0;
}

/* ---- finishing ---- */

static int infer_shapes(struct graph *g, struct operation *op)
{
    const size_t n_in = (size_t)op->n_inputs, n_out = (size_t)op->n_outputs;
    struct shape *in = xreallocarray(NULL, n_in + n_out, sizeof(*in)), *out = in + n_in;
    const struct tensor **value = xreallocarray(NULL, n_in, sizeof(*value));
    struct err err = {0};
    struct shape_args args = {op, op->n_inputs, in, value, out, &err};
    int rc;

    for (int i = 0; i < op->n_inputs; i++) {
        in[i] = output_shape(op->inputs[i]);
        value[i] = output_constant(op->inputs[i]);
    }
    for (int i = 0; i < op->n_outputs; i++)
        out[i] = SHAPE_UNKNOWN;
    rc = op->def->shape(&args);
    for (int i = 0; rc == 0 && i < op->n_outputs; i++)
        op->outputs[i].shape = out[i];
    if (rc != 0)
        (void)graph_fail(g, rc, "%s '%s': %s", op->def->type, op->name, err.msg);
    free(in);
    free(value);
    return rc;
}

/* An op that takes a variable's reference lives where the variable lives. */
static void colocate_with_references(struct binding *bind)
{
    struct op_builder *b = bind->b;

    for (int i = 0, k = 0; i < bind->sig->n_in && k < b->n_inputs; i++, k++) {
        const struct attr *class =
            bind->sig->in[i].is_ref ? operation_attr(b->inputs[k].op, "_class") : NULL;

        if (class != NULL)
            for (size_t j = 0; j < class->n; j++)
                add_colocation(b, class->list_s[j].bytes);
        else if (bind->sig->in[i].is_ref)
            op_colocate(b, b->inputs[k].op->name);
    }
}

static int compare_strings(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* What must be where another operation is goes to that one's device. */
static void follow_colocated(struct graph *g, struct operation *op)
{
    const struct attr *class = operation_attr(op, "_class");

    for (size_t i = 0; i < class->n; i++) {
        const char *name = class->list_s[i].bytes + strlen("loc:@");
        const struct operation *at = graph_operation(g, name);

        if (at != NULL && at->device[0] != '\0')
            op->device = at->device;
    }
}

/* Where the new operation must be. */
static void collect_colocation(struct binding *bind)
{
    const struct colocation scope = graph_colocation(bind->g);

    colocate_with_references(bind);
    for (size_t i = 0; i < scope.n; i++)
        add_colocation(bind->b, scope.groups[i].bytes);
}

static void add_class_attr(struct binding *bind, struct operation *op)
{
    struct op_builder *b = bind->b;
    struct tensor_string *groups;

    if (b->colocate.n == 0 || operation_attr(op, "_class") != NULL)
        return;
    qsort(b->colocate.items, b->colocate.n, sizeof(void *), compare_strings);
    groups = ARENA_ARRAY(&bind->g->arena, struct tensor_string, b->colocate.n);
    for (size_t i = 0; i < b->colocate.n; i++)
        groups[i] =
            (struct tensor_string){b->colocate.items[i], strlen(b->colocate.items[i])};
    op->attrs[op->n_attrs++] = (struct attr){
        .name = "_class", .kind = ATTR_LIST_STRING, .list_s = groups, .n = b->colocate.n};
    follow_colocated(bind->g, op);
}

static void register_operation(struct graph *g, struct operation *op)
{
    op->id = (int)g->ops.n;
    op->graph = g;
    ptr_list_push(&g->ops, op);
    name_table_add(&g->op_by_name, op->name)->value = op;
}

static int check_control_inputs(struct op_builder *b)
{
    for (size_t i = 0; i < b->control.n; i++) {
        const struct operation *on = b->control.items[i];

        if (on == NULL)
            return graph_fail(b->graph, ERR_ARG, "%s '%s': control input %zu is missing",
                              b->type, b->name, i);
        if (on->graph != b->graph)
            return graph_fail(b->graph, ERR_ARG,
                              "Operation \"%s\" is not an element of this graph.",
                              on->name);
    }
    return 0;
}

static int build(struct binding *bind, struct operation *op)
{
    struct op_builder *b = bind->b;

    if (b->name == NULL)
        return ERR_ARG;
    if (b->def == NULL)
        return bind_fail(bind, ERR_UNSUPPORTED, "there is no such op");
    if (graph_operation(bind->g, b->name) != NULL)
        return bind_fail(bind, ERR_EXISTS, "the name is taken");
    op->def = b->def;
    op->name = b->name;
    if (check_inputs(bind) != 0 || check_control_inputs(b) != 0 ||
        check_attrs(bind) != 0 || bind_inputs(bind) != 0)
        return -1;
    if (!b->imported)
        collect_colocation(bind);
    if (bind_attrs(bind, op) != 0 || make_outputs(bind, op) != 0)
        return -1;
    if (b->device != NULL)
        op->device = b->device;
    else
        op->device = b->imported ? "" : graph_device_for(bind->g, b->type);
    op->n_inputs = b->n_inputs;
    op->inputs = arena_memdup(&bind->g->arena, b->inputs,
                              (size_t)b->n_inputs * sizeof(*b->inputs));
    if (!b->imported)
        add_class_attr(bind, op);
    return infer_shapes(bind->g, op);
}

struct operation *op_finish(struct op_builder *b)
{
    struct graph *g = b->graph;
    struct operation *op = ARENA_NEW(&g->arena, struct operation);
    struct binding bind = {.b = b, .g = g, .sig = b->sig};
    int rc = build(&bind, op);

    b->open = 0;
    if (rc != 0)
        return NULL;
    register_operation(g, op);
    for (size_t i = 0; i < b->control.n; i++)
        (void)operation_add_control_input(op, b->control.items[i]);
    if (!b->imported)
        control_dependencies_apply(g, op);
    return op;
}
