#include "agent/graph/graph_internal.h"
#include "agent/graph/import.h"
#include "agent/graph/op_bind.h"

#include "common/err/check.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

/* ---- attributes: copied into the graph ---- */

static struct attr *op_build_add(struct op_builder *b, const char *name,
                                 enum attr_kind kind)
{
    return builder_add_attr(b, name, strlen(name), kind);
}

void op_attr_int(struct op_builder *b, const char *name, int64_t v)
{
    op_build_add(b, name, ATTR_INT)->i = v;
}

void op_attr_float(struct op_builder *b, const char *name, float v)
{
    op_build_add(b, name, ATTR_FLOAT)->f = v;
}

void op_attr_bool(struct op_builder *b, const char *name, int v)
{
    op_build_add(b, name, ATTR_BOOL)->i = v != 0;
}

void op_attr_type(struct op_builder *b, const char *name, enum dtype v)
{
    op_build_add(b, name, ATTR_TYPE)->i = v;
}

void op_attr_shape(struct op_builder *b, const char *name, const struct shape *v)
{
    op_build_add(b, name, ATTR_SHAPE)->shape = *v;
}

void op_attr_string(struct op_builder *b, const char *name, const char *v)
{
    struct attr *a = op_build_add(b, name, ATTR_STRING);

    a->s = arena_strdup(&b->graph->arena, v);
    a->s_len = strlen(v);
}

/* A zero follows the bytes, so that names can be read as C strings. */
static char *copy_bytes(struct arena *arena, const void *bytes, size_t n)
{
    char *copy = arena_alloc(arena, n + 1);

    if (n > 0)
        memcpy(copy, bytes, n);
    return copy;
}

static struct tensor_string *copy_strings(struct arena *arena,
                                          const struct tensor_string *from, size_t n)
{
    struct tensor_string *to = ARENA_ARRAY(arena, struct tensor_string, n);

    for (size_t i = 0; i < n; i++)
        to[i] = (struct tensor_string){
            copy_bytes(arena, from[i].bytes, from[i].len_bytes), from[i].len_bytes};
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
    op_build_add(b, name, ATTR_TENSOR)->tensor = copy_tensor(&b->graph->arena, v);
}

void op_attr_ints(struct op_builder *b, const char *name, const int64_t *v, size_t n)
{
    struct attr *a = op_build_add(b, name, ATTR_LIST_INT);

    a->list_i = arena_memdup(&b->graph->arena, v, n * sizeof(*v));
    a->n = n;
}

void op_attr(struct op_builder *b, const struct attr *a)
{
    struct arena *arena = &b->graph->arena;
    struct attr *to = op_build_add(b, a->name, a->kind);
    const char *name = to->name;

    *to = *a;
    to->name = name;
    if (a->kind == ATTR_TENSOR)
        to->tensor = copy_tensor(arena, &a->tensor);
    if (a->s != NULL)
        to->s = copy_bytes(arena, a->s, a->s_len);
    if (a->list_i != NULL)
        to->list_i = arena_memdup(arena, a->list_i, a->n * sizeof(*a->list_i));
    if (a->list_f != NULL)
        to->list_f = arena_memdup(arena, a->list_f, a->n * sizeof(*a->list_f));
    if (a->list_shape != NULL)
        to->list_shape = arena_memdup(arena, a->list_shape, a->n * sizeof(struct shape));
    if (a->list_s != NULL)
        to->list_s = copy_strings(arena, a->list_s, a->n);
}

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

/* Inputs may be built between op_begin and op_finish, so each unfinished op has a
 * builder. */
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

/* NULL if there is no such op. */
static const struct known_op *know(struct graph *g, const char *type)
{
    const struct name_entry *e = name_table_find(&g->known_ops, type);
    const struct op_def *def;
    struct known_op *k;

    if (e != NULL)
        return e->value;
    def = op_def_find(g->types, type);
    if (def == NULL)
        return NULL;
    k = ARENA_NEW(&g->arena, struct known_op);
    *k = (struct known_op){def, graph_read_signature(g, def->signature)};
    CHECK(k->sig != NULL, "%s", type);
    name_table_add(&g->known_ops, def->type)->value = k;
    return k;
}

const struct signature *op_def_signature(struct graph *g, const struct op_def *def)
{
    return def->read != NULL ? def->read : know(g, def->type)->sig;
}

static struct op_builder *op_build_begin(struct graph *g, const char *type,
                                         const struct op_def *def,
                                         const struct signature *sig)
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
        op_build_begin(g, type, k != NULL ? k->def : NULL, k != NULL ? k->sig : NULL);

    b->name = name_for(g, type, name);
    return b;
}

struct op_builder *op_begin_imported(struct graph *g, const struct op_def *def,
                                     const char *name)
{
    struct op_builder *b = op_build_begin(g, def->type, def, op_def_signature(g, def));

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
    ARRAY_GROW(b->inputs, b->n_inputs, b->cap_inputs);
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

/* ---- finishing ---- */

enum { FEW = 16 }; /* more inputs and outputs are rare */

static int infer_shapes(struct graph *g, struct operation *op)
{
    const size_t n_in = (size_t)op->n_inputs, n_out = (size_t)op->n_outputs;
    struct shape few_shapes[FEW], *shapes = few_shapes, *in, *out;
    const struct tensor *few_values[FEW], **value = few_values;
    struct err err = {.code = 0};
    int rc;

    if (n_in + n_out > FEW) {
        shapes = xreallocarray(NULL, n_in + n_out, sizeof(*shapes));
        value = xreallocarray(NULL, n_in, sizeof(*value));
    }
    in = shapes;
    out = shapes + n_in;
    for (int i = 0; i < op->n_inputs; i++) {
        in[i] = output_shape(op->inputs[i]);
        value[i] = output_constant(op->inputs[i]);
    }
    for (int i = 0; i < op->n_outputs; i++)
        out[i] = SHAPE_UNKNOWN;
    rc = operation_infer_shapes(
        &(struct shape_args){op, op->n_inputs, in, value, out, &err});
    for (int i = 0; rc == 0 && i < op->n_outputs; i++)
        op->outputs[i].shape = out[i];
    if (rc != 0)
        (void)graph_fail(g, rc, "%s '%s': %s", op->def->type, op->name, err.msg);
    if (shapes != few_shapes) {
        free(shapes);
        free(value);
    }
    return rc;
}

static int compare_strings(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Collects the colocation groups of the new operation. */
static void collect_colocation(struct binding *bind)
{
    const struct colocation scope = graph_colocation(bind->g);

    /* an op that takes a variable's reference is colocated with the variable */
    struct op_builder *b = bind->b;
    for (int i = 0, k = 0; i < bind->sig->n_in && k < b->n_inputs; i++, k++) {
        const struct attr *class =
            bind->sig->in[i].is_ref ? operation_class(b->inputs[k].op) : NULL;

        if (class != NULL)
            for (size_t j = 0; j < class->n; j++)
                add_colocation(b, class->list_s[j].bytes);
        else if (bind->sig->in[i].is_ref)
            op_colocate(b, b->inputs[k].op->name);
    }
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
    /* A colocated operation gets the device of the operation that it is colocated
     * with. */
    const struct attr *class = operation_class(op);
    for (size_t i = 0; i < class->n; i++) {
        const char *group = class->list_s[i].bytes;
        const struct operation *at =
            strncmp(group, "loc:@", 5) == 0 ? graph_operation(bind->g, group + 5) : NULL;

        if (at != NULL && at->device[0] != '\0')
            op->device = at->device;
    }
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

/* *ret_place: the entry of the operation's name, valid until the next entry is added. */
static int op_build_build(struct binding *bind, struct operation *op,
                          struct name_entry **ret_place)
{
    struct op_builder *b = bind->b;

    if (b->name == NULL)
        return ERR_ARG;
    if (b->def == NULL)
        return bind_fail(bind, ERR_UNSUPPORTED, "there is no such op");
    *ret_place = name_table_add(&bind->g->op_by_name, b->name);
    if ((*ret_place)->value != NULL)
        return bind_fail(bind, ERR_EXISTS, "the name is taken");
    op->def = b->def;
    op->sig = b->sig;
    op->name = b->name;
    if (bind_check_inputs(bind) != 0 || check_control_inputs(b) != 0 ||
        bind_check_attrs(bind) != 0 || bind_inputs(bind) != 0)
        return -1;
    if (!b->imported)
        collect_colocation(bind);
    if (bind_attrs(bind, op) != 0 || bind_outputs(bind, op) != 0)
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
    struct name_entry *place = NULL;
    int rc = op_build_build(&bind, op, &place);

    b->open = 0;
    if (rc != 0)
        return NULL;
    op->id = (int)g->ops.n;
    op->graph = g;
    ptr_list_push(&g->ops, op);
    place->value = op;
    for (size_t i = 0; i < b->control.n; i++)
        (void)operation_add_control_input(op, b->control.items[i]);
    if (!b->imported)
        control_dependencies_apply(g, op);
    return op;
}
