#include "agent/graph/graph_internal.h"
#include "agent/graph/import.h"
#include "agent/graph/ops.h"

#include <math.h>
#include <string.h>

/* ---- the initial value ---- */

/* limit = sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010); fans as TensorFlow's
 * init_ops: the last two dimensions, times the receptive field before them. */
static struct output glorot_uniform(struct graph *g, const struct initializer *self,
                                    enum dtype dtype, const struct shape *shape)
{
    double field = 1.0, fan_in = 1.0, fan_out = 1.0, limit;

    (void)self;
    if (shape->rank == 1)
        fan_in = fan_out = (double)shape->dim[0];
    for (int i = 0; i + 2 < shape->rank; i++)
        field *= (double)shape->dim[i];
    if (shape->rank >= 2) {
        fan_in = field * (double)shape->dim[shape->rank - 2];
        fan_out = field * (double)shape->dim[shape->rank - 1];
    }
    limit = sqrt(3.0 / fmax(1.0, (fan_in + fan_out) / 2.0));
    return random_uniform_of(g, dtype, shape, -limit, limit, NULL);
}

static struct output zeros_build(struct graph *g, const struct initializer *self,
                                 enum dtype dtype, const struct shape *shape)
{
    (void)self;
    return zeros(g, dtype, shape, NULL);
}

static struct initializer default_initializer(enum dtype dtype)
{
    return (struct initializer){.build = dtype_is_floating(dtype) ? glorot_uniform
                                                                  : zeros_build};
}

/* ---- the nodes of a variable ---- */

static void add_to_collections(struct graph *g, struct variable *v, unsigned flags)
{
    struct collection_item item = {.kind = ITEM_VARIABLE, .variable = v};

    collection_add(g, (flags & VARIABLE_LOCAL) != 0 ? LOCAL_VARIABLES : GLOBAL_VARIABLES,
                   item);
    if (v->trainable)
        collection_add(g, TRAINABLE_VARIABLES, item);
}

static struct output variable_node(struct graph *g, enum dtype dtype,
                                   const struct shape *shape, int colocated)
{
    struct op_builder *b = op_begin(g, "VariableV2", graph_name_scope(g));

    op_attr_type(b, "dtype", dtype);
    op_attr_shape(b, "shape", shape);
    if (colocated)
        op_colocate(b, arena_strndup(&g->arena, graph_name_scope(g),
                                     strlen(graph_name_scope(g)) - 1));
    return (struct output){op_finish(b), 0};
}

static struct output assign(struct graph *g, const char *type, struct output ref,
                            struct output value, int use_locking, const char *name)
{
    struct op_builder *b = op_begin(g, type, name);

    op_input(b, ref);
    op_input(b, value);
    op_attr_bool(b, "use_locking", use_locking);
    return (struct output){op_finish(b), 0};
}

static struct output read_node(struct graph *g, struct output ref)
{
    struct op_builder *b = op_begin(g, "Identity", "read");

    op_input(b, ref);
    if (output_valid(ref))
        op_colocate(b, ref.op->name);
    return (struct output){op_finish(b), 0};
}

/* Inside the variable's own name scope. colocated: `_class` on the variable itself, as
 * get_variable writes it. */
static struct variable *make_variable(struct graph *g, struct output initial_value,
                                      unsigned flags, int colocated)
{
    struct variable *v = ARENA_NEW(&g->arena, struct variable);
    struct output assigned;

    if (!output_valid(initial_value))
        return NULL;
    v->dtype = output_dtype(initial_value);
    v->shape = output_shape(initial_value);
    v->initial_value = initial_value;
    v->trainable = (flags & (VARIABLE_NOT_TRAINABLE | VARIABLE_LOCAL)) == 0;
    if (!shape_known(&v->shape)) {
        (void)graph_fail(
            g, ERR_SHAPE, "initial_value must have a shape specified: %s:%d %s",
            initial_value.op->name, initial_value.index, shape_text(&v->shape));
        return NULL;
    }
    v->ref = variable_node(g, v->dtype, &v->shape, colocated);
    assigned = assign(g, "Assign", v->ref, initial_value, 1, NULL);
    v->read = read_node(g, v->ref);
    if (!output_valid(assigned) || !output_valid(v->read))
        return NULL;
    v->name = v->ref.op->name;
    v->initializer = assigned.op;
    ptr_list_push(&g->variables, v);
    add_to_collections(g, v, flags);
    return v;
}

/* ---- tf.get_variable ---- */

/* The initialiser's nodes: no device, and `_class` of the variable to come. */
static struct output build_initial_value(struct graph *g, const struct initializer *init,
                                         enum dtype dtype, const struct shape *shape)
{
    const char *scope = graph_name_scope(g);
    const char *outer = ptr_list_last(&g->colocations);
    struct output value;

    if (outer == NULL)
        outer = arena_printf(&g->arena, "loc:@%.*s", (int)strlen(scope) - 1, scope);
    ptr_list_push(&g->colocations, outer);
    device_enter(g, NULL);
    name_scope_enter(g, "Initializer");
    value = init->build(g, init, dtype, shape);
    name_scope_leave(g);
    device_leave(g);
    (void)ptr_list_pop(&g->colocations);
    return value;
}

static struct variable *create(struct graph *g, const char *full, enum dtype dtype,
                               const struct shape *shape, const struct initializer *init,
                               unsigned flags)
{
    struct initializer standard = default_initializer(dtype);
    struct output value;
    struct variable *v;

    if (init == NULL)
        init = &standard;
    if (init->build != NULL && (shape == NULL || !shape_known(shape))) {
        (void)graph_fail(
            g, ERR_SHAPE,
            "Shape of a new variable (%s) must be fully defined, but instead "
            "was %s.",
            full, shape != NULL ? shape_text(shape) : "<unknown>");
        return NULL;
    }
    name_scope_enter(g, "");
    control_dependencies_enter(g, NULL, 0);
    name_scope_enter(g, full);
    value =
        init->build != NULL ? build_initial_value(g, init, dtype, shape) : init->value;
    v = make_variable(g, value, flags,
                      init->build != NULL && ptr_list_last(&g->colocations) == NULL);
    name_scope_leave(g);
    control_dependencies_leave(g);
    name_scope_leave(g);
    return v;
}

static struct variable *share(struct graph *g, struct variable *v, const char *full,
                              enum dtype dtype, const struct shape *shape)
{
    if (shape != NULL && !shape_compatible(shape, &v->shape)) {
        (void)graph_fail(g, ERR_SHAPE,
                         "Trying to share variable %s, but specified shape %s and found "
                         "shape %s.",
                         full, shape_text(shape), shape_text(&v->shape));
        return NULL;
    }
    if (dtype != v->dtype) {
        (void)graph_fail(g, ERR_DTYPE,
                         "Trying to share variable %s, but specified dtype %s and found "
                         "dtype %s.",
                         full, dtype_name(dtype), dtype_name(v->dtype));
        return NULL;
    }
    return v;
}

struct variable *get_variable(struct graph *g, const char *name, enum dtype dtype,
                              const struct shape *shape, const struct initializer *init,
                              unsigned flags)
{
    const struct variable_scope *scope = current_variable_scope(g);
    enum reuse reuse = scope != NULL ? scope->reuse : REUSE_INHERIT;
    const char *outer = graph_variable_scope(g);
    const char *full =
        arena_printf(&g->arena, "%s%s%s", outer, outer[0] != '\0' ? "/" : "", name);
    const struct name_entry *e = name_table_find(&g->shared_variables, full);
    struct variable *v;

    if (e != NULL && reuse != REUSE_INHERIT)
        return share(g, e->value, full, dtype, shape);
    if (e != NULL) {
        (void)graph_fail(g, ERR_EXISTS,
                         "Variable %s already exists, disallowed. Did you mean to set "
                         "reuse=True or reuse=tf.AUTO_REUSE in VarScope?",
                         full);
        return NULL;
    }
    if (reuse == REUSE_TRUE) {
        (void)graph_fail(g, ERR_NOT_FOUND,
                         "Variable %s does not exist, or was not created with "
                         "tf.get_variable(). Did you mean to set reuse=tf.AUTO_REUSE in "
                         "VarScope?",
                         full);
        return NULL;
    }
    v = create(g, full, dtype, shape, init, flags);
    if (v != NULL)
        name_table_add(&g->shared_variables, full)->value = v;
    return v;
}

/* ---- tf.Variable ---- */

struct variable *variable_new(struct graph *g, struct output initial_value,
                              const char *name, unsigned flags)
{
    struct variable *v;

    control_dependencies_enter(g, NULL, 0);
    name_scope_enter(g, name != NULL ? name : "Variable");
    v = make_variable(g, initial_value, flags, 0);
    name_scope_leave(g);
    control_dependencies_leave(g);
    return v;
}

struct variable *variable_new_constant(struct graph *g, const struct tensor *value,
                                       const char *name, unsigned flags)
{
    struct variable *v;

    control_dependencies_enter(g, NULL, 0);
    name_scope_enter(g, name != NULL ? name : "Variable");
    v = make_variable(g, constant(g, value, "initial_value"), flags, 0);
    name_scope_leave(g);
    control_dependencies_leave(g);
    return v;
}

struct variable *variable_import(struct graph *g, const struct variable *v)
{
    struct variable *copy = arena_memdup(&g->arena, v, sizeof(*v));

    copy->name = operation_name(v->ref.op);
    ptr_list_push(&g->variables, copy);
    return copy;
}

/* ---- all of them ---- */

struct variable *variable_find(const struct graph *g, const char *name)
{
    for (size_t i = 0; i < g->variables.n; i++) {
        struct variable *v = g->variables.items[i];

        if (strcmp(v->name, name) == 0)
            return v;
    }
    return NULL;
}

int graph_n_variables(const struct graph *g)
{
    return (int)g->variables.n;
}

struct variable *graph_variable_at(const struct graph *g, int i)
{
    return g->variables.items[i];
}

/* ---- writing and initialising ---- */

struct output variable_assign(struct variable *v, struct output value, const char *name)
{
    return assign(operation_graph(v->ref.op), "Assign", v->ref, value, 0, name);
}

struct output variable_assign_add(struct variable *v, struct output value,
                                  const char *name)
{
    return assign(operation_graph(v->ref.op), "AssignAdd", v->ref, value, 0, name);
}

struct output variable_assign_sub(struct variable *v, struct output value,
                                  const char *name)
{
    return assign(operation_graph(v->ref.op), "AssignSub", v->ref, value, 0, name);
}

/* A read that does not ask whether there is a value: the Select around it does. */
static struct output guarded_read(struct graph *g, struct output ref)
{
    struct op_builder *b = op_begin(g, "Identity", "read");

    op_input(b, ref);
    op_attr_bool(b, MAY_BE_UNINITIALIZED, 1);
    return (struct output){op_finish(b), 0};
}

struct output variable_initialized_value(struct variable *v)
{
    struct graph *g = operation_graph(v->ref.op);
    struct output is_there, now, value;

    control_dependencies_enter(g, NULL, 0);
    name_scope_enter(g, "initialized_value");
    is_there = unary(g, "IsVariableInitialized", v->ref, NULL);
    now = guarded_read(g, v->ref);
    value = where(g, is_there, now, v->initial_value, graph_name_scope(g));
    name_scope_leave(g);
    control_dependencies_leave(g);
    return value;
}

struct operation *variables_initializer(struct graph *g, struct variable *const *vars,
                                        size_t n, const char *name)
{
    struct op_builder *b = op_begin(g, "NoOp", name != NULL ? name : "init");

    for (size_t i = 0; i < n; i++)
        op_control_input(b, vars[i]->initializer);
    return op_finish(b);
}

struct operation *global_variables_initializer(struct graph *g, const char *name)
{
    const struct collection_item *items;
    size_t n = collection_get(g, GLOBAL_VARIABLES, NULL, &items);
    struct op_builder *b = op_begin(g, "NoOp", name != NULL ? name : "init");

    for (size_t i = 0; i < n; i++)
        op_control_input(b, items[i].variable->initializer);
    return op_finish(b);
}
