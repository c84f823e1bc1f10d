#include "agent/saver/metagraph_import.h"

#include "agent/graph/import.h"
#include "agent/graph/name_table.h"
#include "agent/graph/signature.h"
#include "agent/saver/attr_proto.h"
#include "agent/saver/metagraph_export.h"
#include "agent/saver/op_list.h"
#include "common/log/log.h"
#include "common/mem/xmalloc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_NODE_INPUTS = 65536,
    MAX_GUESSED_OUTPUTS = 256,
    LAST_PRODUCER_OF_SCALAR_PLACEHOLDERS = 21, /* whose {} means: unknown */
};

enum visit { TO_BUILD, OPEN, BUILT };

struct import_node {
    const Tf__NodeDef *def;
    enum visit visit;
    size_t next_input; /* to look at while it is open */
    int n_outputs;     /* as far as others ask for them */
    struct operation *op;
};

/* A loop: input i of a Merge is a NextIteration that can only be built after it. */
struct back_edge {
    size_t node;
    const char *input;
    int place; /* among the inputs that are data */
};

struct import {
    struct arena arena;
    struct graph *g;
    struct err *err;
    const char *scope; /* "" or "s/" */
    int clear_devices, producer;
    size_t constant_bytes; /* left */
    const Tf__MetaGraphDef *meta;
    const Tf__OpList *ops; /* definitions in the file, or NULL */
    struct import_node *nodes;
    size_t n_nodes;
    struct name_table by_name;     /* count: index */
    struct name_table definitions; /* foreign ops by type */
    struct back_edge *back_edges;
    size_t n_back_edges;
    struct variable **variables; /* by id of the operation that is it */
    int n_operations;            /* of the graph, once all nodes are there */
};

#define fail(im, code, ...) err_set((im)->err, (code), __VA_ARGS__)

/* ---- names ---- */

static int is_control(const char *input)
{
    return input[0] == '^';
}

/* "name", "name:2", "^name" */
struct input_ref {
    const char *name;
    int index;
};

static int split_input(struct import *im, const char *text, struct input_ref *ret)
{
    const char *name = is_control(text) ? text + 1 : text;
    const char *colon = strrchr(name, ':');
    char *end;
    long index;

    *ret = (struct input_ref){name, 0};
    if (colon == NULL)
        return 0;
    index = strtol(colon + 1, &end, 10);
    if (end == colon + 1 || *end != '\0' || index < 0 || index >= MAX_NODE_INPUTS)
        return fail(im, ERR_FORMAT, "'%s' is no name of a tensor", text);
    ret->name = arena_strndup(&im->arena, name, (size_t)(colon - name));
    ret->index = (int)index;
    return 0;
}

static int find_node(struct import *im, const struct import_node *of, const char *input,
                     size_t *ret, int *ret_index)
{
    struct input_ref ref;
    const struct name_entry *e;
    int rc = split_input(im, input, &ref);

    if (rc != 0)
        return rc;
    e = name_table_find(&im->by_name, ref.name);
    if (e == NULL)
        return fail(im, ERR_NOT_FOUND, "node '%s': its input '%s' does not exist",
                    of->def->name, input);
    *ret = (size_t)e->count;
    *ret_index = ref.index;
    return 0;
}

static const char *scoped(struct import *im, const char *name)
{
    return im->scope[0] != '\0' ? arena_printf(&im->arena, "%s%s", im->scope, name)
                                : name;
}

/* Indexes the nodes and counts how many outputs each is asked for. */
static int index_nodes(struct import *im)
{
    const Tf__GraphDef *graph = im->meta->graph_def;
    int rc = 0, index;
    size_t from;

    im->n_nodes = graph->n_node;
    im->nodes = ARENA_ARRAY(&im->arena, struct import_node, im->n_nodes);
    for (size_t i = 0; i < im->n_nodes; i++) {
        const Tf__NodeDef *def = graph->node[i];

        if (name_table_find(&im->by_name, def->name) != NULL)
            return fail(im, ERR_EXISTS, "node '%s' is there twice", def->name);
        if (def->n_input > MAX_NODE_INPUTS)
            return fail(im, ERR_LIMIT, "node '%s' has %zu inputs", def->name,
                        def->n_input);
        name_table_add(&im->by_name, def->name)->count = (int)i;
        im->nodes[i].def = def;
    }
    for (size_t i = 0; i < im->n_nodes; i++)
        for (size_t k = 0; rc == 0 && k < graph->node[i]->n_input; k++) {
            rc = find_node(im, &im->nodes[i], graph->node[i]->input[k], &from, &index);
            if (rc == 0 && index >= im->nodes[from].n_outputs)
                im->nodes[from].n_outputs = index + 1;
        }
    return rc;
}

/* ---- attributes ---- */

struct attrs {
    struct attr *items;
    size_t n;
};

static const struct attr *find_attr(const struct attrs *attrs, const char *name)
{
    for (size_t i = 0; i < attrs->n; i++)
        if (strcmp(attrs->items[i].name, name) == 0)
            return &attrs->items[i];
    return NULL;
}

/* What an empty list is a list of. */
static enum attr_kind kind_in(const struct op_def *def, const char *name)
{
    struct signature sig;
    const struct signature_attr *s = NULL;

    if (def != NULL && signature_parse(&sig, def->signature) == 0)
        s = signature_attr(&sig, span_of(name));
    return s != NULL ? s->kind : ATTR_OPAQUE;
}

/* "loc:@x" -> "loc:@s/x" */
static void scope_class(struct import *im, struct attr *a)
{
    struct tensor_string *s = ARENA_ARRAY(&im->arena, struct tensor_string, a->n);

    for (size_t i = 0; i < a->n; i++) {
        const char *old =
            arena_strndup(&im->arena, a->list_s[i].bytes, a->list_s[i].len_bytes);

        if (strncmp(old, "loc:@", 5) == 0)
            old = arena_printf(&im->arena, "loc:@%s%s", im->scope, old + 5);
        s[i] = (struct tensor_string){arena_strdup(&im->arena, old), strlen(old)};
    }
    a->list_s = s;
}

static int read_attrs(struct import *im, const Tf__NodeDef *node,
                      const struct op_def *def, struct attrs *ret)
{
    ret->items = ARENA_ARRAY(&im->arena, struct attr, node->n_attr + 2);
    ret->n = 0;
    for (size_t i = 0; i < node->n_attr; i++) {
        const Tf__NodeDef__AttrEntry *e = node->attr[i];
        struct attr *a = &ret->items[ret->n];
        int rc;

        if (e->value == NULL || find_attr(ret, e->key) != NULL)
            return fail(im, ERR_FORMAT, "node '%s': attribute '%s' is %s", node->name,
                        e->key, e->value == NULL ? "empty" : "there twice");
        rc = attr_from_proto(&im->arena, e->value, kind_in(def, e->key),
                             &im->constant_bytes, a, im->err);
        if (rc != 0)
            return err_wrap(im->err, "node '%s'", node->name);
        a->name = e->key;
        if (strcmp(a->name, "_class") == 0 && a->kind == ATTR_LIST_STRING)
            scope_class(im, a);
        ret->n++;
    }
    return 0;
}

/* Does the attribute say what the file's own definition says anyway? */
static int is_file_default(struct import *im, const Tf__NodeDef *node, const char *name,
                           const Tf__AttrValue *value)
{
    const Tf__OpDef__AttrDef *d = op_def_attr(op_list_find(im->ops, node->op), name);
    struct wbuf a = {0}, b = {0};
    int same;

    if (d == NULL || d->default_value == NULL)
        return 0;
    message_pack(&a, value);
    message_pack(&b, d->default_value);
    same = a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
    wbuf_done(&a);
    wbuf_done(&b);
    return same;
}

/* Takes out what a newer TensorFlow added and left at its default; 1 if then every
 * attribute is one that our op has, in a form that we have. */
static int fit_attrs(struct import *im, const Tf__NodeDef *node, const struct op_def *def,
                     struct attrs *attrs)
{
    struct attrs kept = {ARENA_ARRAY(&im->arena, struct attr, attrs->n), 0};
    struct signature sig;

    if (signature_parse(&sig, def->signature) != 0)
        return 0;
    for (size_t i = 0; i < attrs->n; i++) {
        const struct attr *a = &attrs->items[i];
        const struct signature_attr *s = signature_attr(&sig, span_of(a->name));

        if (s != NULL && a->kind == ATTR_OPAQUE && s->kind != ATTR_OPAQUE)
            return 0;
        if (s != NULL || a->name[0] == '_')
            kept.items[kept.n++] = *a;
        else if (!is_file_default(im, node, a->name, node->attr[i]->value))
            return 0;
    }
    *attrs = kept;
    return 1;
}

/* The shape of output 0 as the file notes it, or NULL. */
static const struct shape *noted_shape(const struct attrs *attrs)
{
    const struct attr *a = find_attr(attrs, "_output_shapes");

    return a != NULL && a->kind == ATTR_LIST_SHAPE && a->n > 0 ? &a->list_shape[0] : NULL;
}

/* Up to producer 21 shape {} of a Placeholder or a Variable is no scalar, but nothing. */
static void mend_old_shape(struct import *im, const Tf__NodeDef *node,
                           const struct attrs *attrs)
{
    int placeholder = strcmp(node->op, "Placeholder") == 0;
    const struct shape *noted = noted_shape(attrs);

    if (im->producer > LAST_PRODUCER_OF_SCALAR_PLACEHOLDERS ||
        !(placeholder || strcmp(node->op, "Variable") == 0))
        return;
    for (size_t i = 0; i < attrs->n; i++) {
        struct attr *a = &attrs->items[i];

        if (strcmp(a->name, "shape") != 0 || a->kind != ATTR_SHAPE || a->shape.rank != 0)
            continue;
        if (noted != NULL)
            a->shape = *noted;
        else if (placeholder)
            a->shape = SHAPE_UNKNOWN;
    }
}

/* ---- definitions of ops that the table lacks ---- */

static const struct op_def *file_definition(struct import *im, const char *type)
{
    const Tf__OpDef *p = op_list_find(im->ops, type);
    struct name_entry *e = name_table_find(&im->definitions, type);

    if (e == NULL && p != NULL) {
        const struct op_def *def = op_def_from_proto(im->g, p);

        e = name_table_add(&im->definitions, type);
        memcpy(&e->value, &def, sizeof(def));
    }
    return e != NULL ? e->value : NULL;
}

/* Defaults that the signature has no form for are given by hand. */
static int add_defaults(struct import *im, const Tf__NodeDef *node,
                        const struct op_def *def, struct attrs *attrs)
{
    const Tf__OpDef *p = op_list_find(im->ops, node->op);
    struct attr *more = ARENA_ARRAY(&im->arena, struct attr, attrs->n + p->n_attr);
    int rc = 0;

    memcpy(more, attrs->items, attrs->n * sizeof(*more));
    attrs->items = more;
    for (size_t i = 0; rc == 0 && i < p->n_attr; i++) {
        const Tf__OpDef__AttrDef *d = p->attr[i];
        struct attr *a = &attrs->items[attrs->n];

        if (d->default_value == NULL || find_attr(attrs, d->name) != NULL)
            continue;
        rc = attr_from_proto(&im->arena, d->default_value, kind_in(def, d->name),
                             &im->constant_bytes, a, im->err);
        a->name = d->name;
        attrs->n++;
    }
    return rc;
}

static enum dtype guessed_type(const struct attrs *attrs)
{
    static const char *const names[] = {"dtype", "T", "DstT", "out_type", "Tparams"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const struct attr *a = find_attr(attrs, names[i]);

        if (a != NULL && a->kind == ATTR_TYPE)
            return (enum dtype)a->i;
    }
    return DT_FLOAT;
}

/* Nobody defines the op: as many outputs as are asked for, of the most likely type. */
static const struct op_def *guess(struct import *im, const struct import_node *node,
                                  struct attrs *attrs)
{
    const struct op_def *def = op_def_guess(im->g, node->def->op, attrs->items, attrs->n);
    int64_t *types;

    if (node->n_outputs > MAX_GUESSED_OUTPUTS)
        return NULL;
    if (def == NULL || find_attr(attrs, GUESSED_OUTPUT_TYPES) != NULL)
        return def;
    types = ARENA_ARRAY(&im->arena, int64_t, node->n_outputs);
    for (int i = 0; i < node->n_outputs; i++)
        types[i] = guessed_type(attrs);
    attrs->items[attrs->n++] = (struct attr){.name = GUESSED_OUTPUT_TYPES,
                                             .kind = ATTR_LIST_TYPE,
                                             .list_i = types,
                                             .n = (size_t)node->n_outputs};
    return def;
}

/* The definition by which the node is built, and its attributes to match. */
static int define(struct import *im, const struct import_node *node,
                  const struct op_def **ret, struct attrs *attrs)
{
    const struct op_def *def = op_def_find(node->def->op);
    int rc = read_attrs(im, node->def, def, attrs);

    if (rc != 0)
        return rc;
    mend_old_shape(im, node->def, attrs);
    if (def == NULL || !fit_attrs(im, node->def, def, attrs)) {
        def = file_definition(im, node->def->op);
        if (def != NULL)
            rc = add_defaults(im, node->def, def, attrs);
        else
            def = guess(im, node, attrs);
    }
    if (rc == 0 && def == NULL)
        rc = fail(im, ERR_LIMIT, "node '%s': the definition of op %s cannot be used",
                  node->def->name, node->def->op);
    *ret = def;
    return rc;
}

/* ---- nodes ---- */

static void note_back_edge(struct import *im, size_t node, const char *input, int place)
{
    im->back_edges =
        xreallocarray(im->back_edges, im->n_back_edges + 1, sizeof(*im->back_edges));
    im->back_edges[im->n_back_edges++] = (struct back_edge){node, input, place};
}

/* Some other input of a node in a loop, to stand in for the one that comes later. */
static struct output stand_in(struct import *im, const struct import_node *node)
{
    size_t from;
    int index;

    for (size_t i = 0; i < node->def->n_input; i++)
        if (!is_control(node->def->input[i]) &&
            find_node(im, node, node->def->input[i], &from, &index) == 0 &&
            im->nodes[from].op != NULL)
            return (struct output){im->nodes[from].op, index};
    return OUTPUT_NONE;
}

static int graph_failed(struct import *im)
{
    const struct err *e = graph_error(im->g);

    return e != NULL ? fail(im, e->code, "%s", e->msg)
                     : fail(im, ERR_FORMAT, "a node cannot be built");
}

/* An attribute of a few bytes can ask for many outputs. */
static int charge_outputs(struct import *im, const struct operation *op)
{
    size_t bytes = (size_t)operation_n_outputs(op) * sizeof(struct shape);

    if (bytes > im->constant_bytes)
        return fail(im, ERR_LIMIT, "node '%s' has %d outputs", operation_name(op),
                    operation_n_outputs(op));
    im->constant_bytes -= bytes;
    return 0;
}

static int build_node(struct import *im, size_t at)
{
    struct import_node *node = &im->nodes[at];
    const Tf__NodeDef *p = node->def;
    const struct op_def *def;
    struct op_builder *b;
    struct attrs attrs;
    int rc = define(im, node, &def, &attrs), place = 0;

    if (rc != 0)
        return rc;
    b = op_begin_imported(im->g, def, scoped(im, p->name));
    for (size_t i = 0; rc == 0 && i < p->n_input; i++) {
        size_t from = 0;
        int index = 0;

        if (is_control(p->input[i]))
            continue;
        rc = find_node(im, node, p->input[i], &from, &index);
        if (rc == 0 && im->nodes[from].op != NULL) {
            op_input(b, (struct output){im->nodes[from].op, index});
        } else if (rc == 0) {
            note_back_edge(im, at, p->input[i], place);
            op_input(b, stand_in(im, node));
        }
        place++;
    }
    for (size_t i = 0; i < attrs.n; i++)
        op_attr(b, &attrs.items[i]);
    if (!im->clear_devices)
        op_device(b, p->device);
    node->op = op_finish(b);
    node->visit = BUILT;
    if (rc == 0 && node->op == NULL)
        rc = graph_failed(im);
    return rc == 0 ? charge_outputs(im, node->op) : rc;
}

/* Looks at the next input of an open node: 1 and a node to build before it, 0 if there is
 * none, or an error. */
static int next_before(struct import *im, struct import_node *node, size_t *ret)
{
    while (node->next_input < node->def->n_input) {
        const char *input = node->def->input[node->next_input++];
        int index, rc = is_control(input) ? 0 : find_node(im, node, input, ret, &index);

        if (rc != 0)
            return rc;
        if (is_control(input) || im->nodes[*ret].visit == BUILT)
            continue;
        if (im->nodes[*ret].visit == TO_BUILD)
            return 1;
        if (strcmp(im->nodes[*ret].def->op, "NextIteration") != 0)
            return fail(im, ERR_FORMAT, "node '%s' is an input of itself",
                        node->def->name);
    }
    return 0;
}

/* A node after its inputs, otherwise in the file's order. A loop is entered at its Merge,
 * whose NextIteration is left for later. */
static int build_from(struct import *im, size_t first, size_t *stack)
{
    size_t depth = 0;

    if (im->nodes[first].visit != TO_BUILD)
        return 0;
    stack[depth++] = first;
    im->nodes[first].visit = OPEN;
    while (depth > 0) {
        size_t at = stack[depth - 1], before = 0;
        int rc = next_before(im, &im->nodes[at], &before);

        if (rc > 0 && strcmp(im->nodes[before].def->op, "NextIteration") == 0 &&
            strcmp(im->nodes[at].def->op, "Merge") == 0)
            continue;
        if (rc > 0) {
            im->nodes[before].visit = OPEN;
            stack[depth++] = before;
            continue;
        }
        if (rc == 0)
            rc = build_node(im, at);
        if (rc < 0)
            return rc;
        depth--;
    }
    return 0;
}

static int close_loop(struct import *im, const struct back_edge *e)
{
    const struct import_node *node = &im->nodes[e->node];
    struct output stands = operation_input(node->op, e->place), x;
    size_t from;
    int index, rc = find_node(im, node, e->input, &from, &index);

    if (rc != 0)
        return rc;
    x = (struct output){im->nodes[from].op, index};
    if (!output_valid(x))
        return fail(im, ERR_NOT_FOUND, "node '%s': its input '%s' does not exist",
                    node->def->name, e->input);
    if (output_dtype(x) != output_dtype(stands) ||
        output_is_ref(x) != output_is_ref(stands))
        return fail(im, ERR_DTYPE, "node '%s': its inputs are of several types",
                    node->def->name);
    operation_replace_input(node->op, e->place, x);
    return 0;
}

static int close_loops(struct import *im)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < im->n_back_edges; i++)
        rc = close_loop(im, &im->back_edges[i]);
    return rc;
}

static int add_control_inputs(struct import *im, const struct import_node *node)
{
    for (size_t i = 0; i < node->def->n_input; i++) {
        size_t from;
        int index, rc;

        if (!is_control(node->def->input[i]))
            continue;
        rc = find_node(im, node, node->def->input[i], &from, &index);
        if (rc == 0)
            rc = operation_add_control_input(node->op, im->nodes[from].op);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int build_graph(struct import *im)
{
    size_t *stack = xcalloc(im->n_nodes + 1, sizeof(*stack));
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < im->n_nodes; i++)
        rc = build_from(im, i, stack);
    free(stack);
    if (rc == 0)
        rc = close_loops(im);
    for (size_t i = 0; rc == 0 && i < im->n_nodes; i++)
        rc = add_control_inputs(im, &im->nodes[i]);
    im->n_operations = graph_n_operations(im->g);
    im->variables = xcalloc((size_t)im->n_operations + 1, sizeof(struct variable *));
    return rc;
}

/* ---- collections ---- */

static int find_tensor(struct import *im, const char *key, const char *name,
                       struct output *ret)
{
    if (graph_tensor(im->g, scoped(im, name), ret, im->err) != 0)
        return err_wrap(im->err, "collection '%s'", key);
    return 0;
}

static int find_operation(struct import *im, const char *key, const char *name,
                          struct operation **ret)
{
    *ret = graph_operation(im->g, scoped(im, name));
    if (*ret == NULL)
        return fail(im, ERR_NOT_FOUND,
                    "collection '%s': The name '%s' refers to an Operation not in the "
                    "graph.",
                    key, name);
    return 0;
}

/* Its element type and shape are attributes of the operation that is the variable. */
static void describe(struct variable *v)
{
    const struct attr *dtype = operation_attr(v->ref.op, "dtype");
    const struct attr *shape = operation_attr(v->ref.op, "shape");

    v->dtype = dtype != NULL && dtype->kind == ATTR_TYPE ? (enum dtype)dtype->i
                                                         : output_dtype(v->ref);
    v->shape =
        shape != NULL && shape->kind == ATTR_SHAPE ? shape->shape : output_shape(v->ref);
}

static int make_variable(struct import *im, const char *key, const Tf__VariableDef *p,
                         struct variable *v)
{
    int rc = find_operation(im, key, p->initializer_name, &v->initializer);

    if (rc == 0)
        rc = find_tensor(im, key, p->snapshot_name, &v->read);
    if (rc == 0 && p->initial_value_name[0] != '\0')
        rc = find_tensor(im, key, p->initial_value_name, &v->initial_value);
    else if (rc == 0 && operation_n_inputs(v->initializer) == 2)
        v->initial_value = operation_input(v->initializer, 1);
    describe(v);
    return rc;
}

static int add_variable(struct import *im, const char *key,
                        const ProtobufCBinaryData *bytes)
{
    const Tf__VariableDef *p =
        MESSAGE_UNPACK(&im->arena, variable_def, bytes->data, bytes->len);
    struct variable v = {0}, **known;
    int rc;

    if (p == NULL)
        return fail(im, ERR_FORMAT, "collection '%s' has something that is no variable",
                    key);
    rc = find_tensor(im, key, p->variable_name, &v.ref);
    if (rc != 0)
        return rc;
    known = &im->variables[operation_id(v.ref.op)];
    if (*known == NULL) {
        rc = make_variable(im, key, p, &v);
        if (rc != 0)
            return rc;
        *known = variable_import(im->g, &v);
    }
    (*known)->trainable |= p->trainable || strcmp(key, TRAINABLE_VARIABLES) == 0;
    collection_add(im->g, key,
                   (struct collection_item){.kind = ITEM_VARIABLE, .variable = *known});
    return 0;
}

/* "x:0" is a tensor, "x" an operation. Old files name variables so, too. */
static int add_node(struct import *im, const char *key, const char *name)
{
    struct collection_item item = {.kind = ITEM_OPERATION};
    int rc;

    if (strchr(name, ':') == NULL) {
        rc = find_operation(im, key, name, &item.op);
    } else {
        item.kind = ITEM_OUTPUT;
        rc = find_tensor(im, key, name, &item.output);
        if (rc == 0 && is_variable_collection(key)) {
            item.variable = im->variables[operation_id(item.output.op)];
            if (item.variable != NULL)
                item.kind = ITEM_VARIABLE;
        }
    }
    if (rc == 0)
        collection_add(im->g, key, item);
    return rc;
}

static int add_collection(struct import *im, const char *key, const Tf__CollectionDef *c)
{
    int rc = 0;

    switch (c->kind_case) {
    case TF__COLLECTION_DEF__KIND_NODE_LIST:
        for (size_t i = 0; rc == 0 && i < c->node_list->n_value; i++)
            rc = add_node(im, key, c->node_list->value[i]);
        break;
    case TF__COLLECTION_DEF__KIND_BYTES_LIST:
        for (size_t i = 0; rc == 0 && i < c->bytes_list->n_value; i++) {
            const ProtobufCBinaryData *b = &c->bytes_list->value[i];

            if (is_variable_collection(key))
                rc = add_variable(im, key, b);
            else
                collection_add(im->g, key,
                               (struct collection_item){.kind = ITEM_BYTES,
                                                        .s = (const char *)b->data,
                                                        .n_bytes = b->len});
        }
        break;
    case TF__COLLECTION_DEF__KIND_INT64_LIST:
        for (size_t i = 0; i < c->int64_list->n_value; i++)
            collection_add(
                im->g, key,
                (struct collection_item){.kind = ITEM_INT, .i = c->int64_list->value[i]});
        break;
    case TF__COLLECTION_DEF__KIND_FLOAT_LIST:
        for (size_t i = 0; i < c->float_list->n_value; i++)
            collection_add(im->g, key,
                           (struct collection_item){
                               .kind = ITEM_FLOAT, .f = (double)c->float_list->value[i]});
        break;
    default:
        log_warn("collection '%s' is of a kind that is not kept", key);
    }
    return rc;
}

/* Those that define variables come first: others name them. */
static int add_collections(struct import *im)
{
    const Tf__MetaGraphDef *m = im->meta;
    int rc = 0;

    for (int names = 0; names < 2; names++)
        for (size_t i = 0; rc == 0 && i < m->n_collection_def; i++) {
            const Tf__MetaGraphDef__CollectionDefEntry *e = m->collection_def[i];
            int by_name;

            if (e->value == NULL)
                continue;
            by_name = e->value->kind_case != TF__COLLECTION_DEF__KIND_BYTES_LIST;
            if (by_name == names)
                rc = add_collection(im, e->key, e->value);
        }
    return rc;
}

/* ---- the whole ---- */

static void tell(struct import *im, struct metagraph_info *ret)
{
    const Tf__MetaGraphDef__MetaInfoDef *info = im->meta->meta_info_def;
    const Tf__SaverDef *s = im->meta->saver_def;

    *ret = (struct metagraph_info){.producer = im->producer, .has_saver = s != NULL};
    ret->scope = arena_strdup(&ret->arena, im->scope);
    ret->tensorflow_version =
        arena_strdup(&ret->arena, info != NULL ? info->tensorflow_version : "");
    if (s != NULL)
        ret->saver = (struct saver_def){
            .filename_tensor = arena_strdup(&ret->arena, s->filename_tensor_name),
            .save_tensor = arena_strdup(&ret->arena, s->save_tensor_name),
            .restore_op = arena_strdup(&ret->arena, s->restore_op_name),
            .max_to_keep = s->max_to_keep > 0 ? s->max_to_keep : 0,
            .sharded = s->sharded,
            .keep_every_n_hours = s->keep_checkpoint_every_n_hours,
        };
}

static int import(struct import *im, const void *data, size_t len_bytes)
{
    int rc;

    im->meta = MESSAGE_UNPACK(&im->arena, meta_graph_def, data, len_bytes);
    if (im->meta == NULL)
        return fail(im, ERR_FORMAT, "not a MetaGraphDef");
    if (im->meta->graph_def == NULL)
        return fail(im, ERR_FORMAT, "a MetaGraphDef without a graph");
    if (im->meta->meta_info_def != NULL)
        im->ops = im->meta->meta_info_def->stripped_op_list;
    if (im->meta->graph_def->versions != NULL)
        im->producer = im->meta->graph_def->versions->producer;
    rc = index_nodes(im);
    if (rc == 0)
        rc = build_graph(im);
    return rc == 0 ? add_collections(im) : rc;
}

int metagraph_import(struct graph *g, const void *data, size_t len_bytes,
                     const struct metagraph_import_options *o, struct metagraph_info *ret,
                     struct err *err)
{
    static const struct metagraph_import_options defaults;
    struct err own;
    struct import im = {.g = g, .err = err != NULL ? err : &own, .scope = ""};
    int rc;

    o = o != NULL ? o : &defaults;
    im.clear_devices = o->clear_devices;
    im.constant_bytes = o->max_constant_bytes != 0 ? o->max_constant_bytes : 1u << 30;
    if (o->import_scope != NULL && o->import_scope[0] != '\0')
        im.scope = arena_printf(&im.arena, "%s/", graph_unique_name(g, o->import_scope));
    rc = graph_error(g) != NULL ? graph_failed(&im) : import(&im, data, len_bytes);
    if (rc == 0 && ret != NULL)
        tell(&im, ret);
    graph_clear_error(g);
    name_table_done(&im.by_name);
    name_table_done(&im.definitions);
    free(im.back_edges);
    free(im.variables);
    arena_done(&im.arena);
    return rc;
}

void metagraph_info_done(struct metagraph_info *info)
{
    arena_done(&info->arena);
}

static int read_file(const char *path, struct wbuf *b, struct err *err)
{
    FILE *f = fopen(path, "rbe");
    size_t n;
    int rc = 0;

    if (f == NULL)
        return err_errno(err, "%s", path);
    do {
        wbuf_reserve(b, 1u << 16);
        n = fread(b->data + b->len, 1, 1u << 16, f);
        b->len += n;
    } while (n > 0 && b->len <= MESSAGE_MAX_BYTES);
    if (ferror(f))
        rc = err_errno(err, "%s: read", path);
    else if (b->len > MESSAGE_MAX_BYTES)
        rc = err_set(err, ERR_LIMIT, "%s: more than %d MiB", path,
                     MESSAGE_MAX_BYTES >> 20);
    (void)fclose(f);
    return rc;
}

/* The Saver that the file describes, or one for all variables. */
static int make_saver(struct saver **ret, struct graph *g,
                      const struct metagraph_info *info, struct err *err)
{
    struct saver_options o = SAVER_DEFAULTS;
    size_t n = strlen(info->scope);
    char *scope = n > 0 ? xstrndup(info->scope, n - 1) : NULL;
    int rc = 0;

    *ret = NULL;
    o.name = scope;
    if (info->has_saver)
        o.saver_def = &info->saver;
    if (info->has_saver || collection_get(g, GLOBAL_VARIABLES, NULL, NULL) > 0)
        rc = saver_new(ret, g, &o, err);
    free(scope);
    return rc;
}

int import_meta_graph_bytes(struct saver **ret, struct graph *g, const void *data,
                            size_t len_bytes, const struct metagraph_import_options *o,
                            struct metagraph_info *ret_info, struct err *err)
{
    struct metagraph_info info;
    int rc = metagraph_import(g, data, len_bytes, o, &info, err);

    if (rc != 0)
        return rc;
    rc = make_saver(ret, g, &info, err);
    if (rc == 0 && ret_info != NULL)
        *ret_info = info;
    else
        metagraph_info_done(&info);
    return rc;
}

int import_meta_graph(struct saver **ret, struct graph *g, const char *path,
                      const struct metagraph_import_options *o, struct err *err)
{
    struct wbuf b = {0};
    int rc = read_file(path, &b, err);

    if (rc == 0) {
        rc = import_meta_graph_bytes(ret, g, b.data, b.len, o, NULL, err);
        if (rc != 0)
            (void)err_wrap(err, "%s", path);
    }
    wbuf_done(&b);
    return rc;
}
