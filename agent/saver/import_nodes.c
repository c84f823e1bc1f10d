#include "agent/saver/import_state.h"

#include "agent/graph/signature.h"
#include "agent/saver/attr_proto.h"
#include "agent/saver/op_list.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_GUESSED_OUTPUTS = 256,
    /* up to this producer, shape {} of a placeholder means unknown */
    LAST_PRODUCER_OF_SCALAR_PLACEHOLDERS = 21,
};

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
    if (end == colon + 1 || *end != '\0' || index < 0 || index >= IMPORT_MAX_INPUTS)
        return import_fail(im, ERR_FORMAT, "'%s' is no name of a tensor", text);
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
        return import_fail(im, ERR_NOT_FOUND, "node '%s': its input '%s' does not exist",
                           of->def->name, input);
    *ret = (size_t)e->count;
    *ret_index = ref.index;
    return 0;
}

const char *import_scoped(struct import *im, const char *name)
{
    const size_t n = strcspn(name, ":");
    const struct name_entry *e =
        im->is_renamed ? name_table_find(&im->by_name, arena_strndup(&im->arena, name, n))
                       : NULL;

    if (e != NULL)
        return arena_printf(&im->arena, "%s%s", im->nodes[e->count].name, name + n);
    return im->scope[0] != '\0' ? arena_printf(&im->arena, "%s%s", im->scope, name)
                                : name;
}

/* Notes how many outputs each node has of which this one is a user, and the uses; in reverse, so
 * that they are in the file's order. */
static int note_uses(struct import *im, const struct import_node *node)
{
    const Tf__NodeDef *def = node->def;
    int rc = 0, index, place = 0;
    size_t from;

    for (size_t k = 0; k < def->n_input; k++)
        place += !is_control(def->input[k]);
    for (size_t k = def->n_input; rc == 0 && k-- > 0;) {
        place -= !is_control(def->input[k]);
        rc = find_node(im, node, def->input[k], &from, &index);
        if (rc != 0)
            break;
        if (index >= im->nodes[from].n_outputs)
            im->nodes[from].n_outputs = index + 1;
        if (!is_control(def->input[k])) {
            struct import_use *use = ARENA_NEW(&im->arena, struct import_use);

            *use = (struct import_use){def, place, index, im->nodes[from].uses};
            im->nodes[from].uses = use;
        }
    }
    return rc;
}

/* Indexes the nodes by name, and notes which outputs of each node other nodes use. */
static int index_nodes(struct import *im)
{
    int rc = 0;

    im->nodes = ARENA_ARRAY(&im->arena, struct import_node, im->n_nodes);
    for (size_t i = 0; i < im->n_nodes; i++) {
        const Tf__NodeDef *def = im->defs[i];

        if (name_table_find(&im->by_name, def->name) != NULL)
            return import_fail(im, ERR_EXISTS, "node '%s' is there twice", def->name);
        if (def->n_input > IMPORT_MAX_INPUTS)
            return import_fail(im, ERR_LIMIT, "node '%s' has %zu inputs", def->name,
                               def->n_input);
        name_table_add(&im->by_name, def->name)->count = (int)i;
        im->nodes[i].def = def;
    }
    for (size_t i = 0; i < im->n_nodes; i++) {
        /* If the graph already has the name, from another import or from building, appends
         * "_1", or the first such number that is free in graph and file. */
        struct import_node *node = &im->nodes[i];
        const char *name = im->scope[0] != '\0' ? arena_printf(&im->arena, "%s%s",
                                                               im->scope, node->def->name)
                                                : node->def->name;

        node->name = name;
        for (int k = 1;
             graph_operation(im->g, node->name) != NULL ||
             (k > 1 && name_table_find(&im->by_name, node->name + strlen(im->scope)));
             k++) {
            node->name = arena_printf(&im->arena, "%s_%d", name, k);
            im->is_renamed = 1;
        }
    }
    for (size_t i = im->n_nodes; rc == 0 && i-- > 0;)
        rc = note_uses(im, &im->nodes[i]);
    return rc;
}

/* ---- attributes ---- */

struct import_attrs {
    struct attr *items;
    size_t n;
};

static const struct attr *find_attr(const struct import_attrs *attrs, const char *name)
{
    for (size_t i = 0; i < attrs->n; i++)
        if (strcmp(attrs->items[i].name, name) == 0)
            return &attrs->items[i];
    return NULL;
}

/* The kind of the attribute if its list is empty. */
static enum attr_kind kind_in(const struct op_def *def, const char *name)
{
    struct signature_room room;
    struct signature sig;
    const struct signature_attr *s = NULL;

    if (def != NULL && signature_parse(&sig, &room, def->signature) == 0)
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
            old = arena_printf(&im->arena, "loc:@%s", import_scoped(im, old + 5));
        s[i] = (struct tensor_string){arena_strdup(&im->arena, old), strlen(old)};
    }
    a->list_s = s;
}

static int read_attrs(struct import *im, const Tf__NodeDef *node,
                      const struct op_def *def, struct import_attrs *ret)
{
    ret->items = ARENA_ARRAY(&im->arena, struct attr, node->n_attr + 2);
    ret->n = 0;
    for (size_t i = 0; i < node->n_attr; i++) {
        const Tf__NodeDef__AttrEntry *e = node->attr[i];
        struct attr *a = &ret->items[ret->n];
        int rc;

        if (e->value == NULL || find_attr(ret, e->key) != NULL)
            return import_fail(im, ERR_FORMAT, "node '%s': attribute '%s' is %s",
                               node->name, e->key,
                               e->value == NULL ? "empty" : "there twice");
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

const Tf__OpDef *import_listed(const struct import *im, const char *type)
{
    const struct name_entry *e = name_table_find(&im->listed, type);

    return e != NULL ? e->value : NULL;
}

/* Whether the value is the default of an attribute that the table's op lacks because a later
 * TensorFlow added it. A file does not define the ops that only its functions use. */
static int is_later_default(const char *name, const Tf__AttrValue *v)
{
    static const struct {
        const char *name;
        Tf__AttrValue__ValueCase kind;
        int64_t value; /* of an int, a bool or a type; a string and a list are empty */
    } rows[] = {
        {"Tshape", TF__ATTR_VALUE__VALUE_TYPE, DT_INT32},
        {"allow_missing_files", TF__ATTR_VALUE__VALUE_B, 0},
        {"bad_indices_policy", TF__ATTR_VALUE__VALUE_S, 0},
        {"batch_dims", TF__ATTR_VALUE__VALUE_I, 0},
        {"explicit_paddings", TF__ATTR_VALUE__VALUE_LIST, 0},
        {"shape_type", TF__ATTR_VALUE__VALUE_TYPE, DT_INT32},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strcmp(rows[i].name, name) == 0 && rows[i].kind == v->value_case)
            switch (v->value_case) {
            case TF__ATTR_VALUE__VALUE_TYPE:
                return v->type == rows[i].value;
            case TF__ATTR_VALUE__VALUE_S:
                return v->s.len == 0;
            case TF__ATTR_VALUE__VALUE_LIST:
                return v->list->n_i == 0;
            case TF__ATTR_VALUE__VALUE_B:
                return v->b == rows[i].value;
            default:
                return v->i == rows[i].value;
            }
    return 0;
}

/* Whether the attribute has the default value of the file's own definition, or, if it has none,
 * that of TensorFlow's. */
static int is_file_default(struct import *im, const Tf__NodeDef *node, const char *name,
                           const Tf__AttrValue *value)
{
    const Tf__OpDef *p = import_listed(im, node->op);
    const Tf__OpDef__AttrDef *d = p != NULL ? op_def_attr(p, name) : NULL;

    if (p == NULL)
        return is_later_default(name, value);
    return d != NULL && d->default_value != NULL && message_same(value, d->default_value);
}

/* Whether the table's op can have this value of its attribute. */
static int is_supported(const struct signature_attr *s, const struct attr *a)
{
    if (a->kind == ATTR_OPAQUE)
        return s->kind == ATTR_OPAQUE;
    if (s->kind == ATTR_TYPE && a->kind == ATTR_TYPE)
        return dtype_valid((int)a->i) && signature_type_allowed(s, (enum dtype)a->i);
    return 1;
}

/* Whether an attribute that the table's op lacks changes no result, whatever its value: where a
 * variable is, what it is called, for which operand a product is a gradient, or that operands of
 * shapes that do not fit are no error. */
static int only_describes(const char *name)
{
    static const char *const names[] = {
        "allowed_devices",          "debug_name", "grad_a", "grad_b", "grad_x", "grad_y",
        "incompatible_shape_error",
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0)
            return 1;
    return 0;
}

/* Fits the row to the node's attributes: the row may lack attributes that a newer TensorFlow
 * added, if they only describe or have their default. They are kept, for an export. Returns NULL
 * and the name of the attribute if the row cannot have the value of one. */
static const struct op_def *fit_row(struct import *im, const Tf__NodeDef *node,
                                    const struct op_def *row,
                                    const struct import_attrs *attrs,
                                    const char **ret_lack)
{
    const struct signature *sig = op_def_signature(im->g, row);
    const struct op_def *def = row;

    for (size_t i = 0; i < attrs->n; i++) {
        const struct attr *a = &attrs->items[i];
        const struct signature_attr *s = signature_attr(sig, span_of(a->name));

        *ret_lack = a->name;
        if (s != NULL && !is_supported(s, a))
            return NULL;
        if (s != NULL || a->name[0] == '_')
            continue;
        if (!only_describes(a->name) &&
            !is_file_default(im, node, a->name, node->attr[i]->value))
            return NULL;
        if (def == row)
            def = op_def_widen(im->g, &im->definitions, row, import_listed(im, node->op),
                               attrs->items, attrs->n);
        if (def == NULL)
            return NULL;
    }
    *ret_lack = NULL;
    return def;
}

/* The shape of output 0 that the file records, or NULL. */
static const struct shape *noted_shape(const struct import_attrs *attrs)
{
    const struct attr *a = find_attr(attrs, "_output_shapes");

    return a != NULL && a->kind == ATTR_LIST_SHAPE && a->n > 0 ? &a->list_shape[0] : NULL;
}

/* Up to producer 21, shape {} of a Placeholder or a Variable means unknown, not
 * scalar. */
static void mend_old_shape(struct import *im, const Tf__NodeDef *node,
                           const struct import_attrs *attrs)
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
    const Tf__OpDef *p = import_listed(im, type);
    struct name_entry *e = name_table_find(&im->definitions, type);

    if (e == NULL && p != NULL) {
        const struct op_def *def = op_def_from_proto(im->g, p);

        e = name_table_add(&im->definitions, type);
        memcpy(&e->value, &def, sizeof(def));
    }
    return e != NULL ? e->value : NULL;
}

/* Adds the defaults that a signature cannot express. */
static int add_defaults(struct import *im, const Tf__NodeDef *node,
                        const struct op_def *def, struct import_attrs *attrs)
{
    const Tf__OpDef *p = import_listed(im, node->op);
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

static enum dtype guessed_type(const struct import_attrs *attrs)
{
    static const char *const names[] = {"dtype", "T", "DstT", "out_type", "Tparams"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const struct attr *a = find_attr(attrs, names[i]);

        if (a != NULL && a->kind == ATTR_TYPE)
            return (enum dtype)a->i;
    }
    return DT_FLOAT;
}

/* The type that the first user of an output wants it to have; DT_INVALID: nobody says. */
static enum dtype wanted_type(const struct import *im, const struct import_node *node,
                              int index)
{
    for (const struct import_use *u = node->uses; u != NULL; u = u->next) {
        const struct op_def *row = op_def_find(graph_op_table(im->g), u->by->op);
        enum dtype dtype = DT_INVALID;

        if (row != NULL && u->index == index)
            dtype = op_def_input_type(op_def_signature(im->g, row), u->by, u->place);
        if (dtype_valid((int)dtype))
            return dtype;
    }
    return DT_INVALID;
}

/* Guesses the definition of an op that nothing defines: as many outputs as other nodes
 * use, of the type that these want, or else of the most likely one. */
static const struct op_def *guess(struct import *im, const struct import_node *node,
                                  struct import_attrs *attrs)
{
    const struct op_def *def = op_def_guess(im->g, node->def->op, attrs->items, attrs->n);
    int64_t *types;

    if (node->n_outputs > MAX_GUESSED_OUTPUTS)
        return NULL;
    if (def == NULL || find_attr(attrs, GUESSED_OUTPUT_TYPES) != NULL)
        return def;
    types = ARENA_ARRAY(&im->arena, int64_t, node->n_outputs);
    for (int i = 0; i < node->n_outputs; i++) {
        const enum dtype wanted = wanted_type(im, node, i);

        types[i] = wanted != DT_INVALID ? wanted : guessed_type(attrs);
    }
    attrs->items[attrs->n++] = (struct attr){.name = GUESSED_OUTPUT_TYPES,
                                             .kind = ATTR_LIST_TYPE,
                                             .list_i = types,
                                             .n = (size_t)node->n_outputs};
    return def;
}

/* Whether the node has the inputs and attributes of the signature, perhaps with more attributes. */
static int has_form(const struct signature *sig, const Tf__NodeDef *node,
                    const struct import_attrs *attrs)
{
    int n = 0, n_there = 0, has_list = 0;

    for (int i = 0; i < sig->n_in; i++)
        has_list |= sig->in[i].is_list;
    for (size_t i = 0; i < node->n_input; i++)
        n += !is_control(node->input[i]);
    for (size_t i = 0; i < attrs->n; i++) {
        const struct signature_attr *s =
            signature_attr(sig, span_of(attrs->items[i].name));

        if (s != NULL && !is_supported(s, &attrs->items[i]))
            return 0;
        n_there += s != NULL && !s->has_default;
    }
    for (int i = 0; i < sig->n_attrs; i++)
        n_there -= !sig->attrs[i].has_default;
    return n_there == 0 && (has_list || n == sig->n_in);
}

/* The row as a foreign op with all attributes of the node, whose types of inputs and outputs it
 * has: as an export defines it, and an import of that reads it. Adds the row's defaults. NULL if
 * the node is not of the row's form. */
static const struct op_def *foreign_row(struct import *im, const struct op_def *row,
                                        const Tf__NodeDef *node,
                                        struct import_attrs *attrs)
{
    const struct signature *sig = op_def_signature(im->g, row);
    struct attr *more =
        ARENA_ARRAY(&im->arena, struct attr, attrs->n + (size_t)sig->n_attrs);
    const struct op_def *def = NULL;

    if (has_form(sig, node, attrs))
        def = op_def_widen(im->g, &im->definitions, row, NULL, attrs->items, attrs->n);
    if (def == NULL)
        return NULL;
    memcpy(more, attrs->items, attrs->n * sizeof(*more));
    attrs->items = more;
    for (int i = 0; i < sig->n_attrs; i++) {
        const struct span name = sig->attrs[i].name;
        struct attr *a = &attrs->items[attrs->n];
        const char *text = arena_strndup(&im->arena, name.p, name.len);

        if (!sig->attrs[i].has_default || find_attr(attrs, text) != NULL ||
            signature_default(&sig->attrs[i], a) != 0)
            continue;
        a->name = text;
        attrs->n++;
    }
    return op_def_from_proto(im->g, op_def_to_proto(&im->arena, def));
}

/* Finds the definition for the node and adapts its attributes to it. *ret_lack: the attribute
 * because of which the table's op does not do, or NULL. */
static int define(struct import *im, const struct import_node *node,
                  const struct op_def **ret, struct import_attrs *attrs,
                  const char **ret_lack)
{
    const struct op_def *row = op_def_find(graph_op_table(im->g), node->def->op),
                        *def = NULL;
    int rc = read_attrs(im, node->def, row, attrs);

    if (rc != 0)
        return rc;
    mend_old_shape(im, node->def, attrs);
    if (row != NULL)
        def = fit_row(im, node->def, row, attrs, ret_lack);
    if (def == NULL) {
        def = file_definition(im, node->def->op);
        if (def != NULL)
            rc = add_defaults(im, node->def, def, attrs);
        else if (row != NULL)
            def = foreign_row(im, row, node->def, attrs);
        if (def == NULL)
            def = guess(im, node, attrs);
    }
    if (rc == 0 && def == NULL)
        rc = import_fail(im, ERR_LIMIT,
                         "node '%s': the definition of op %s cannot be used",
                         node->def->name, node->def->op);
    *ret = def;
    return rc;
}

/* What to use instead of an operation that nothing here computes, for its error; NULL: nothing. */
static const char *instead_of(const char *type)
{
    static const char no_svd[] =
        "singular values are not computed: SelfAdjointEigV2 of x' x "
        "gives their squares and the right singular vectors";
    static const char no_mutable[] =
        "tables that a run changes are not kept: use tf.lookup.StaticHashTable, which is "
        "filled once, or a variable";
    static const struct {
        const char *begins, *reason;
    } rows[] = {
        {"CudnnRNN", "cuDNN's networks run on NVIDIA's GPUs only: build the graph with "
                     "CudnnCompatibleLSTMCell or CudnnCompatibleGRUCell "
                     "(tf.contrib.cudnn_rnn), which "
                     "restore the same checkpoints, and export that"},
        {"InitializeTableFromTextFileV2",
         "tables are filled from constants of the graph, "
         "not from text files: use "
         "tf.lookup.KeyValueTensorInitializer"},
        {"MutableHashTable", no_mutable},
        {"MutableDenseHashTable", no_mutable},
        {"Svd", no_svd},
        {"BatchSvd", no_svd},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strncmp(type, rows[i].begins, strlen(rows[i].begins)) == 0)
            return rows[i].reason;
    return NULL;
}

/* ---- nodes ---- */

/* Another input of a node in a loop, which stands in for the input that is not built yet
 * (close_loop replaces it). */
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

int import_graph_failed(struct import *im)
{
    const struct err *e = graph_error(im->g);

    return e != NULL ? import_fail(im, e->code, "%s", e->msg)
                     : import_fail(im, ERR_FORMAT, "a node cannot be built");
}

/* Checks the limit on outputs, since an attribute of a few bytes can ask for very
 * many. */
static int charge_outputs(struct import *im, const struct operation *op)
{
    size_t bytes = (size_t)operation_n_outputs(op) * sizeof(struct shape);

    if (bytes > im->constant_bytes)
        return import_fail(im, ERR_LIMIT, "node '%s' has %d outputs", operation_name(op),
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
    const char *lack = NULL;
    struct import_attrs attrs;
    struct output other = OUTPUT_NONE;
    int rc = define(im, node, &def, &attrs, &lack), place = 0;

    if (rc != 0)
        return rc;
    b = op_begin_imported(im->g, def, node->name);
    for (size_t i = 0; rc == 0 && i < p->n_input; i++) {
        size_t from = 0;
        int index = 0;

        if (is_control(p->input[i]))
            continue;
        rc = find_node(im, node, p->input[i], &from, &index);
        if (rc == 0 && im->nodes[from].op != NULL) {
            op_input(b, (struct output){im->nodes[from].op, index});
        } else if (rc == 0) {
            im->back_edges = xreallocarray(im->back_edges, im->n_back_edges + 1,
                                           sizeof(*im->back_edges));
            im->back_edges[im->n_back_edges++] =
                (struct back_edge){at, p->input[i], place};
            if (other.op == NULL)
                other = stand_in(im, node);
            op_input(b, other);
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
        rc = import_graph_failed(im);
    if (rc == 0 && lack != NULL)
        operation_explain(
            node->op,
            arena_printf(&im->arena,
                         "operations of type %s cannot be run with its value of "
                         "the attribute '%s'",
                         p->op, lack));
    else if (rc == 0 && (def->flags & OP_FOREIGN) != 0 && instead_of(p->op) != NULL)
        operation_explain(node->op, instead_of(p->op));
    if (rc == 0 && other.op != NULL)
        operation_forget_shape(node->op);
    if (rc == 0 && name_table_find(&im->reasons, p->name) != NULL)
        operation_explain(node->op, name_table_find(&im->reasons, p->name)->value);
    return rc == 0 ? charge_outputs(im, node->op) : rc;
}

/* Looks at the next input of an open node. Returns 1 and a node to build first, 0 if
 * there are no more inputs, or an error. */
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
            return import_fail(im, ERR_FORMAT, "node '%s' is an input of itself",
                               node->def->name);
    }
    return 0;
}

/* Builds a node after its inputs, otherwise in the file's order. A loop is entered at its
 * Merge, whose NextIteration is built later. */
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
        return import_fail(im, ERR_NOT_FOUND, "node '%s': its input '%s' does not exist",
                           node->def->name, e->input);
    if (output_dtype(x) != output_dtype(stands) ||
        output_is_ref(x) != output_is_ref(stands))
        return import_fail(im, ERR_DTYPE, "node '%s': its inputs are of several types",
                           node->def->name);
    operation_replace_input(node->op, e->place, x);
    return 0;
}

/* Adds each control input once, however often it is listed. */
static int add_control_inputs(struct import *im, const struct import_node *node)
{
    const size_t number = (size_t)(node - im->nodes) + 1;

    for (size_t i = 0; i < node->def->n_input; i++) {
        size_t from;
        int index, rc;

        if (!is_control(node->def->input[i]))
            continue;
        rc = find_node(im, node, node->def->input[i], &from, &index);
        if (rc != 0)
            return rc;
        if (im->nodes[from].control_of != number)
            operation_append_control_input(node->op, im->nodes[from].op);
        im->nodes[from].control_of = number;
    }
    return 0;
}

int import_nodes(struct import *im)
{
    size_t *stack;
    int rc = index_nodes(im);

    if (rc != 0)
        return rc;
    stack = xcalloc(im->n_nodes + 1, sizeof(*stack));
    for (size_t i = 0; rc == 0 && i < im->n_nodes; i++)
        rc = build_from(im, i, stack);
    free(stack);
    for (size_t i = 0; rc == 0 && i < im->n_back_edges; i++)
        rc = close_loop(im, &im->back_edges[i]);
    for (size_t i = 0; rc == 0 && i < im->n_nodes; i++)
        rc = add_control_inputs(im, &im->nodes[i]);
    im->n_operations = graph_n_operations(im->g);
    im->variables = xcalloc((size_t)im->n_operations + 1, sizeof(struct variable *));
    return rc;
}
