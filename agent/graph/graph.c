#include "agent/graph/graph_internal.h"
#include "agent/graph/import.h"

#include "common/config/yaml_tree.h"
#include "common/err/check.h"
#include "common/mem/xmalloc.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ptr_list_push(struct ptr_list *l, const void *item)
{
    ARRAY_GROW(l->items, l->n, l->cap);
    memcpy(&l->items[l->n++], &item, sizeof(item));
}

void *ptr_list_pop(struct ptr_list *l)
{
    CHECK(l->n != 0, "a scope is left that was not entered");
    return l->items[--l->n];
}

void *ptr_list_last(const struct ptr_list *l)
{
    return l->n != 0 ? l->items[l->n - 1] : NULL;
}

static void ptr_list_done(struct ptr_list *l)
{
    free(l->items);
    *l = (struct ptr_list){0};
}

struct graph *graph_create(const struct op_table *types)
{
    struct graph *g = xcalloc(1, sizeof(*g));

    g->types = types;
    return g;
}

const struct op_table *graph_op_table(const struct graph *g)
{
    return g->types;
}

struct arena *graph_arena(struct graph *g)
{
    return &g->arena;
}

void graph_free(struct graph *g)
{
    if (g == NULL)
        return;
    for (size_t i = 0; i < g->ops.n; i++)
        free(graph_operation_at(g, (int)i)->control);
    for (size_t i = 0; i < g->collections.n; i++)
        free(((struct collection *)g->collections.items[i])->items);
    for (size_t i = 0; i < g->builders.n; i++) {
        struct op_builder *b = g->builders.items[i];

        free(b->inputs);
        free(b->attrs);
        ptr_list_done(&b->control);
        ptr_list_done(&b->colocate);
    }
    ptr_list_done(&g->builders);
    ptr_list_done(&g->parts);
    ptr_list_done(&g->ops);
    ptr_list_done(&g->name_scopes);
    ptr_list_done(&g->variable_scopes);
    ptr_list_done(&g->control_scopes);
    ptr_list_done(&g->devices);
    ptr_list_done(&g->colocations);
    ptr_list_done(&g->collections);
    ptr_list_done(&g->variables);
    name_table_done(&g->op_by_name);
    name_table_done(&g->collection_by_key);
    name_table_done(&g->known_ops);
    name_table_done(&g->names_in_use);
    name_table_done(&g->scope_counts);
    name_table_done(&g->shared_variables);
    arena_done(&g->arena);
    free(g);
}

const struct err *graph_error(const struct graph *g)
{
    return g->error.code != 0 ? &g->error : NULL;
}

void graph_clear_error(struct graph *g)
{
    g->error = (struct err){0};
}

int graph_fail(struct graph *g, int code, const char *fmt, ...)
{
    va_list ap;

    if (g->error.code != 0)
        return g->error.code;
    va_start(ap, fmt);
    (void)err_vset(&g->error, code, fmt, ap);
    va_end(ap);
    return code;
}

/* ---- operations ---- */

const char *operation_name(const struct operation *op)
{
    return op->name;
}

void graph_alias_draws(struct graph *g, const char *prefix, const char *as)
{
    g->draws_prefix = arena_strdup(&g->arena, prefix);
    g->draws_as = arena_strdup(&g->arena, as);
}

const char *operation_draw_name(const struct operation *op, char *buf, size_t size)
{
    const struct graph *g = operation_graph(op);
    const char *name = operation_name(op);
    const size_t len = g->draws_prefix != NULL ? strlen(g->draws_prefix) : 0;

    if (len == 0 || strncmp(name, g->draws_prefix, len) != 0)
        return name;
    (void)snprintf(buf, size, "%s%s", g->draws_as, name + len);
    return buf;
}

int operation_is(const struct operation *op, const char *type)
{
    return (op->def->flags & OP_FOREIGN) == 0 && strcmp(op->def->type, type) == 0;
}

const char *operation_type(const struct operation *op)
{
    return op->def->type;
}

const char *operation_device(const struct operation *op)
{
    return op->device;
}

struct graph *operation_graph(const struct operation *op)
{
    return op->graph;
}

int operation_id(const struct operation *op)
{
    return op->id;
}

int operation_n_inputs(const struct operation *op)
{
    return op->n_inputs;
}

struct output operation_input(const struct operation *op, int i)
{
    CHECK(i >= 0 && i < op->n_inputs, "%s has no input %d", op->name, i);
    return op->inputs[i];
}

void operation_replace_input(struct operation *op, int i, struct output x)
{
    CHECK(i >= 0 && i < op->n_inputs && output_valid(x), "%s: input %d", op->name, i);
    op->inputs[i] = x;
}

void operation_explain(struct operation *op, const char *reason)
{
    op->reason = arena_strdup(&op->graph->arena, reason);
}

const char *operation_reason(const struct operation *op)
{
    return op->reason;
}

void operation_forget_shape(struct operation *op)
{
    if (op->n_outputs > 0)
        op->outputs[0].shape = SHAPE_UNKNOWN;
}

int operation_n_control_inputs(const struct operation *op)
{
    return op->n_control;
}

struct operation *operation_control_input(const struct operation *op, int i)
{
    CHECK(i >= 0 && i < op->n_control, "%s has no control input %d", op->name, i);
    return op->control[i];
}

int operation_n_outputs(const struct operation *op)
{
    return op->n_outputs;
}

const struct attr *operation_attr(const struct operation *op, const char *name)
{
    for (int i = 0; i < op->n_attrs; i++)
        if (strcmp(op->attrs[i].name, name) == 0)
            return &op->attrs[i];
    return NULL;
}

const struct attr *operation_class(const struct operation *op)
{
    const struct attr *class = operation_attr(op, "_class");

    return class != NULL && class->kind == ATTR_LIST_STRING ? class : NULL;
}

int operation_n_attrs(const struct operation *op)
{
    return op->n_attrs;
}

const struct attr *operation_attr_at(const struct operation *op, int i)
{
    CHECK(i >= 0 && i < op->n_attrs, "%s has no attribute %d", op->name, i);
    return &op->attrs[i];
}

int operation_add_control_input(struct operation *op, struct operation *on)
{
    if (on->graph != op->graph)
        return graph_fail(op->graph, ERR_ARG,
                          "Operation \"%s\" is not an element of this graph.", on->name);
    for (int i = 0; i < op->n_control; i++)
        if (op->control[i] == on)
            return 0;
    operation_append_control_input(op, on);
    return 0;
}

void operation_append_control_input(struct operation *op, struct operation *on)
{
    ARRAY_GROW(op->control, op->n_control, op->cap_control);
    op->control[op->n_control++] = on;
}

/* ---- outputs ---- */

int output_valid(struct output x)
{
    return x.op != NULL && x.index >= 0 && x.index < x.op->n_outputs;
}

static const struct output_info *output_info(struct output x)
{
    CHECK(output_valid(x), "no such output");
    return &x.op->outputs[x.index];
}

enum dtype output_dtype(struct output x)
{
    return output_info(x)->dtype;
}

struct shape output_shape(struct output x)
{
    return output_info(x)->shape;
}

int output_is_ref(struct output x)
{
    return output_info(x)->is_ref;
}

const char *output_name(struct output x, char *buf, size_t size)
{
    CHECK(output_valid(x), "no such output");
    (void)snprintf(buf, size, "%s:%d", x.op->name, x.index);
    return buf;
}

int output_set_shape(struct output x, const struct shape *shape)
{
    struct shape *known = &x.op->outputs[x.index].shape;

    return shape_merge(known, shape, known);
}

const struct tensor *output_constant(struct output x)
{
    if (!operation_is(x.op, "Const"))
        return NULL;
    return &operation_attr(x.op, "value")->tensor;
}

/* ---- lookup ---- */

int graph_n_operations(const struct graph *g)
{
    return (int)g->ops.n;
}

struct operation *graph_operation_at(const struct graph *g, int id)
{
    CHECK(id >= 0 && (size_t)id < g->ops.n, "no operation %d", id);
    return g->ops.items[id];
}

struct operation *graph_operation(const struct graph *g, const char *name)
{
    const struct name_entry *e = name_table_find(&g->op_by_name, name);

    return e != NULL ? e->value : NULL;
}

/* Splits "name:index"; returns -1 if the name has another form. */
static int split_tensor_name(const char *name, size_t *ret_len)
{
    const char *colon = strrchr(name, ':');
    char *end;
    long index;

    if (colon == NULL || colon == name || !isdigit((unsigned char)colon[1]))
        return -1;
    index = strtol(colon + 1, &end, 10);
    *ret_len = (size_t)(colon - name);
    return *end == '\0' && index < 100000 ? (int)index : -1;
}

int graph_tensor(const struct graph *g, const char *name, struct output *ret,
                 struct err *err)
{
    size_t len = 0;
    int index = split_tensor_name(name, &len);
    struct operation *op;
    char *op_name;

    if (index < 0)
        return err_set(
            err, ERR_ARG, "The name '%s' %s", name,
            graph_operation(g, name) != NULL
                ? "refers to an Operation, not a Tensor. Tensor names must be "
                  "of the form \"<op_name>:<output_index>\"."
                : "looks like an (invalid) Operation name, not a Tensor. Tensor "
                  "names must be of the form \"<op_name>:<output_index>\".");
    op_name = xstrndup(name, len);
    op = graph_operation(g, op_name);
    free(op_name);
    if (op == NULL)
        return err_set(err, ERR_NOT_FOUND,
                       "The name '%s' refers to a Tensor which does not exist. The "
                       "operation, '%.*s', does not exist in the graph.",
                       name, (int)len, name);
    if (index >= op->n_outputs)
        return err_set(err, ERR_NOT_FOUND,
                       "The name '%s' refers to a Tensor which does not exist. The "
                       "operation, '%s', exists but only has %d outputs.",
                       name, op->name, op->n_outputs);
    *ret = (struct output){op, index};
    return 0;
}

/* ---- walks ---- */

void op_walk_begin(struct op_walk *w, const struct graph *g)
{
    *w = (struct op_walk){.added = xcalloc(g->ops.n + 1, 1),
                          .todo = xcalloc(g->ops.n + 1, sizeof(struct operation *))};
}

void op_walk_end(struct op_walk *w)
{
    free(w->added);
    free(w->todo);
}

void op_walk_add(struct op_walk *w, struct operation *op)
{
    if (w->added[op->id])
        return;
    w->added[op->id] = 1;
    w->todo[w->n_todo++] = op;
}

void op_walk_add_inputs(struct op_walk *w, const struct operation *op)
{
    for (int i = 0; i < op->n_inputs; i++)
        op_walk_add(w, op->inputs[i].op);
    for (int i = 0; i < op->n_control; i++)
        op_walk_add(w, op->control[i]);
}

struct operation *op_walk_next(struct op_walk *w)
{
    return w->n_todo > 0 ? w->todo[--w->n_todo] : NULL;
}

/* ---- by names that users type ---- */

static const char *nearest_operation(const struct graph *g, const char *name)
{
    const size_t n = (size_t)graph_n_operations(g);
    const char **names = xcalloc(n + 1, sizeof(*names));
    const char *ret;

    for (size_t i = 0; i < n; i++)
        names[i] = operation_name(graph_operation_at(g, (int)i));
    ret = yaml_nearest(name, names, n);
    free(names);
    return ret;
}

/* Appends the tensor that was meant by output `index` of the operation: one that there is. */
static void suggest_tensor(const struct graph *g, const char *operation,
                           const char *index, struct err *why)
{
    struct operation *op = graph_operation(g, operation);
    const char *nearest = op == NULL ? nearest_operation(g, operation) : operation;
    const unsigned long i = strtoul(index, NULL, 10);
    int n;

    if (nearest == NULL)
        return;
    n = operation_n_outputs(op != NULL ? op : graph_operation(g, nearest));
    if (n == 0 && op != NULL)
        (void)err_add(why, "it is an operation, which can be a target");
    else if (n > 0)
        (void)err_add(why, "did you mean '%s:%lu'?", nearest,
                      i < (unsigned long)n ? i : (unsigned long)n - 1);
}

int lookup_tensor(const struct graph *g, const char *name, struct output *ret,
                  struct err *err)
{
    const char *index = strrchr(name, ':');
    struct err why = {0};
    char *operation;
    int rc = graph_tensor(g, name, ret, &why);

    if (rc == 0)
        return 0;
    operation = index != NULL ? xstrndup(name, (size_t)(index - name)) : xstrdup(name);
    suggest_tensor(g, operation, index != NULL ? index + 1 : "0", &why);
    free(operation);
    return err_pass(err, &why);
}

int lookup_operation(const struct graph *g, const char *name, struct operation **ret,
                     struct err *err)
{
    struct err why = {0};
    const char *nearest;

    *ret = graph_operation(g, name);
    if (*ret != NULL)
        return 0;
    (void)err_set(&why, ERR_NOT_FOUND, "no operation '%s' in the graph", name);
    nearest = nearest_operation(g, name);
    if (nearest != NULL)
        (void)err_add(&why, "did you mean '%s'?", nearest);
    return err_pass(err, &why);
}

/* ---- parts that are only kept ---- */

void graph_add_part(struct graph *g, enum graph_part part, const void *data, size_t len)
{
    struct graph_part_bytes *p = ARENA_NEW(&g->arena, struct graph_part_bytes);

    *p = (struct graph_part_bytes){part, arena_memdup(&g->arena, data, len), len};
    ptr_list_push(&g->parts, p);
}

const struct graph_part_bytes *graph_part_at(const struct graph *g, size_t i)
{
    return i < g->parts.n ? g->parts.items[i] : NULL;
}
