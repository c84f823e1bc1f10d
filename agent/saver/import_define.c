#include "agent/saver/import_state.h"

#include "agent/graph/signature.h"
#include "agent/saver/attr_proto.h"
#include "agent/saver/op_list.h"

#include <string.h>

enum {
    MAX_GUESSED_OUTPUTS = 256,
    /* up to this producer, shape {} of a placeholder means unknown */
    LAST_PRODUCER_OF_SCALAR_PLACEHOLDERS = 21,
};

/* ---- attributes ---- */

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

/* The file's own definition of an op; NULL if it has none. */
static const Tf__OpDef *listed(const struct import *im, const char *type)
{
    const struct name_entry *e = name_table_find(&im->listed, type);

    return e != NULL ? e->value : NULL;
}

/* Whether the attribute has the default value of the file's own definition. */
static int is_file_default(struct import *im, const Tf__NodeDef *node, const char *name,
                           const Tf__AttrValue *value)
{
    const Tf__OpDef__AttrDef *d = op_def_attr(listed(im, node->op), name);
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

/* Whether the table's op can have this value of its attribute. No kernel has dilations. */
static int is_supported(const struct signature_attr *s, const struct attr *a)
{
    if (a->kind == ATTR_OPAQUE)
        return s->kind == ATTR_OPAQUE;
    if (s->kind == ATTR_TYPE && a->kind == ATTR_TYPE)
        return dtype_valid((int)a->i) && signature_type_allowed(s, (enum dtype)a->i);
    for (size_t i = 0;
         span_is(s->name, "dilations") && a->kind == ATTR_LIST_INT && i < a->n; i++)
        if (a->list_i[i] != 1)
            return 0;
    return 1;
}

/* Removes attributes that a newer TensorFlow added and that have their default. Returns 1
 * if every remaining attribute is one that the table's op has, with a supported value. */
static int fit_attrs(struct import *im, const Tf__NodeDef *node, const struct op_def *def,
                     struct import_attrs *attrs)
{
    struct import_attrs kept = {ARENA_ARRAY(&im->arena, struct attr, attrs->n), 0};
    struct signature_room room;
    struct signature sig;

    if (signature_parse(&sig, &room, def->signature) != 0)
        return 0;
    for (size_t i = 0; i < attrs->n; i++) {
        const struct attr *a = &attrs->items[i];
        const struct signature_attr *s = signature_attr(&sig, span_of(a->name));

        if (s != NULL && !is_supported(s, a))
            return 0;
        if (s != NULL || a->name[0] == '_')
            kept.items[kept.n++] = *a;
        else if (!is_file_default(im, node, a->name, node->attr[i]->value))
            return 0;
    }
    *attrs = kept;
    return 1;
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
    const Tf__OpDef *p = listed(im, type);
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
    const Tf__OpDef *p = listed(im, node->op);
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

/* Guesses the definition of an op that nothing defines: as many outputs as other nodes
 * use, of the most likely type. */
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
    for (int i = 0; i < node->n_outputs; i++)
        types[i] = guessed_type(attrs);
    attrs->items[attrs->n++] = (struct attr){.name = GUESSED_OUTPUT_TYPES,
                                             .kind = ATTR_LIST_TYPE,
                                             .list_i = types,
                                             .n = (size_t)node->n_outputs};
    return def;
}

/* Finds the definition for the node and adapts its attributes to it. */
int import_define(struct import *im, const struct import_node *node,
                  const struct op_def **ret, struct import_attrs *attrs)
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
        rc = import_fail(im, ERR_LIMIT,
                         "node '%s': the definition of op %s cannot be used",
                         node->def->name, node->def->op);
    *ret = def;
    return rc;
}
