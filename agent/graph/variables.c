#include "agent/graph/graph_internal.h"
#include "agent/graph/import.h"
#include "agent/graph/ops.h"

#include <stdio.h>
#include <string.h>

/* ---- the nodes of a variable ---- */

static struct output assign(struct graph *g, const char *type, struct output ref,
                            struct output value, int use_locking, const char *name)
{
    struct op_builder *b = op_begin(g, type, name);

    op_input(b, ref);
    op_input(b, value);
    op_attr_bool(b, "use_locking", use_locking);
    return (struct output){op_finish(b), 0};
}

static struct output read_resource(struct graph *g, struct output handle,
                                   enum dtype dtype, const char *name)
{
    struct op_builder *b = op_begin(g, "ReadVariableOp", name);

    op_input(b, handle);
    op_attr_type(b, "dtype", dtype);
    return (struct output){op_finish(b), 0};
}

/* Builds VarHandleOp and its other nodes as TensorFlow does; returns the Assign. */
static struct operation *resource_nodes(struct graph *g, struct variable *v)
{
    const char *scope = graph_name_scope(g);
    struct op_builder *b = op_begin(g, "VarHandleOp", scope);
    struct output assigned;

    op_attr_string(b, "shared_name", arena_strndup(&g->arena, scope, strlen(scope) - 1));
    op_attr_type(b, "dtype", v->dtype);
    op_attr_shape(b, "shape", &v->shape);
    v->ref = (struct output){op_finish(b), 0};
    (void)unary(g, "VarIsInitializedOp", v->ref, "IsInitialized/VarIsInitializedOp");
    assigned = binary(g, "AssignVariableOp", v->ref, v->initial_value, "Assign");
    v->read = read_resource(g, v->ref, v->dtype, "Read/ReadVariableOp");
    return assigned.op;
}

/* Builds Assign and the other nodes of a VariableV2. */
static struct operation *reference_nodes(struct graph *g, struct variable *v,
                                         int colocated)
{
    const char *scope = graph_name_scope(g);
    struct op_builder *b = op_begin(g, "VariableV2", scope);
    struct output assigned;

    op_attr_type(b, "dtype", v->dtype);
    op_attr_shape(b, "shape", &v->shape);
    if (colocated)
        op_colocate(b, arena_strndup(&g->arena, scope, strlen(scope) - 1));
    v->ref = (struct output){op_finish(b), 0};
    assigned = assign(g, "Assign", v->ref, v->initial_value, 1, NULL);
    colocate_with_enter(g, v->ref.op);
    v->read = unary(g, "Identity", v->ref, "read");
    colocate_with_leave(g);
    return assigned.op;
}

/* Builds in the variable's own name scope. colocated: adds `_class` to the variable
 * itself, as get_variable does. */
static struct variable *make_variable(struct graph *g, struct output initial_value,
                                      unsigned flags, int colocated)
{
    struct variable *v = ARENA_NEW(&g->arena, struct variable);

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
    v->initializer = (flags & VARIABLE_RESOURCE) != 0 ? resource_nodes(g, v)
                                                      : reference_nodes(g, v, colocated);
    if (v->initializer == NULL || !output_valid(v->read))
        return NULL;
    v->name = v->ref.op->name;
    ptr_list_push(&g->variables, v);
    struct collection_item item = {.kind = ITEM_VARIABLE, .variable = v};
    collection_add(g, (flags & VARIABLE_LOCAL) != 0 ? LOCAL_VARIABLES : GLOBAL_VARIABLES,
                   item);
    if (v->trainable)
        collection_add(g, TRAINABLE_VARIABLES, item);
    return v;
}

/* ---- tf.get_variable ---- */

/* Builds the initialiser's nodes: without a device, and with `_class` of the future
 * variable unless that is colocated with another operation. */
static struct output build_initial_value(struct graph *g, const struct initializer *init,
                                         enum dtype dtype, const struct shape *shape)
{
    const char *scope = graph_name_scope(g);
    const int alone = graph_colocation(g).n == 0;
    struct output value;

    if (alone)
        colocate_with_name_enter(g, arena_strndup(&g->arena, scope, strlen(scope) - 1));
    device_enter(g, NULL);
    name_scope_enter(g, "Initializer");
    value = init->build(g, init, dtype, shape);
    name_scope_leave(g);
    device_leave(g);
    if (alone)
        colocate_with_leave(g);
    return value;
}

static struct variable *create(struct graph *g, const char *full, enum dtype dtype,
                               const struct shape *shape, const struct initializer *init,
                               unsigned flags)
{
    const struct initializer standard =
        dtype_is_floating(dtype) ? glorot_uniform_initializer() : zeros_initializer();
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
    v = make_variable(g, value, flags, init->build != NULL && graph_colocation(g).n == 0);
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
    v = make_variable(g,
                      constant(g, value,
                               (flags & VARIABLE_RESOURCE) != 0
                                   ? "Initializer/initial_value"
                                   : "initial_value"),
                      flags, 0);
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

static int is_resource(const struct variable *v)
{
    return output_dtype(v->ref) == DT_RESOURCE;
}

/* For a resource, only `op` of the result can be used: the operation has no outputs. */
static struct output write(struct variable *v, const char *type, struct output value,
                           const char *name)
{
    struct graph *g = operation_graph(v->ref.op);
    char resource_type[32];

    if (!is_resource(v))
        return assign(g, type, v->ref, value, 0, name);
    (void)snprintf(resource_type, sizeof(resource_type), "%sVariableOp", type);
    return binary(g, resource_type, v->ref, value, name);
}

struct output variable_assign(struct variable *v, struct output value, const char *name)
{
    return write(v, "Assign", value, name);
}

struct output variable_assign_add(struct variable *v, struct output value,
                                  const char *name)
{
    return write(v, "AssignAdd", value, name);
}

struct output variable_assign_sub(struct variable *v, struct output value,
                                  const char *name)
{
    return write(v, "AssignSub", value, name);
}

struct output variable_is_initialized(struct variable *v, const char *name)
{
    return unary(operation_graph(v->ref.op),
                 is_resource(v) ? "VarIsInitializedOp" : "IsVariableInitialized", v->ref,
                 name);
}

/* tf.cond(is_variable_initialized(v), v.read_value, lambda: v.initial_value) */
struct output variable_initialized_value(struct variable *v)
{
    struct graph *g = operation_graph(v->ref.op);
    struct output is_there, pivot, pred, now, initial, value;
    int resource = is_resource(v);

    control_dependencies_enter(g, NULL, 0);
    is_there = variable_is_initialized(v, NULL);
    name_scope_enter(g, "cond");
    pivot = binary(g, "Switch", is_there, is_there, NULL);
    (void)unary(g, "Identity", (struct output){pivot.op, 1}, "switch_t");
    (void)unary(g, "Identity", pivot, "switch_f");
    pred = unary(g, "Identity", is_there, "pred_id");
    now = binary(g, resource ? "Switch" : "RefSwitch", v->ref, pred, "read/Switch");
    now.index = 1;
    now = resource ? read_resource(g, now, v->dtype, "read")
                   : unary(g, "Identity", now, "read");
    initial = binary(g, "Switch", v->initial_value, pred, "Switch_1");
    value = binary(g, "Merge", initial, now, NULL);
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

static struct operation *initializer_of(struct graph *g, const char *collection,
                                        const char *name)
{
    const struct collection_item *items;
    size_t n = collection_get(g, collection, NULL, &items);
    struct op_builder *b = op_begin(g, "NoOp", name != NULL ? name : "init");

    for (size_t i = 0; i < n; i++)
        if (items[i].kind == ITEM_VARIABLE) /* an imported graph may have other items */
            op_control_input(b, items[i].variable->initializer);
    return op_finish(b);
}

struct operation *global_variables_initializer(struct graph *g, const char *name)
{
    return initializer_of(g, GLOBAL_VARIABLES, name);
}

struct operation *initialize_all_variables(struct graph *g)
{
    return global_variables_initializer(g, NULL);
}

struct operation *local_variables_initializer(struct graph *g, const char *name)
{
    return initializer_of(g, LOCAL_VARIABLES, name);
}

/* ---- the global step ---- */

struct variable *global_step(struct graph *g)
{
    const struct collection_item *items;
    size_t n = collection_get(g, GLOBAL_STEP, NULL, &items);

    if (n > 0 && items[0].kind == ITEM_VARIABLE)
        return items[0].variable;
    return variable_find(g, "global_step");
}

struct variable *get_or_create_global_step(struct graph *g)
{
    const struct initializer init = zeros_initializer();
    struct variable *v = global_step(g);

    if (v != NULL)
        return v;
    v = create(g, "global_step", DT_INT64, &SHAPE_SCALAR, &init, VARIABLE_NOT_TRAINABLE);
    if (v == NULL)
        return NULL;
    name_table_add(&g->shared_variables, "global_step")->value = v;
    collection_add(g, GLOBAL_STEP,
                   (struct collection_item){.kind = ITEM_VARIABLE, .variable = v});
    return v;
}
