#include "tests/support/metagraph_check.h"

#include "agent/graph/graph.h"
#include "agent/graph/name_table.h"
#include "agent/ops/op_table.h"
#include "agent/saver/message.h"
#include "agent/saver/metagraph_export.h"
#include "agent/saver/op_list.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SLOTS = 1 << 22 }; /* inputs and outputs of all nodes */

/* An input or output that a definition requires. */
struct slot {
    int32_t type; /* 0: any */
    int is_ref;
};

struct slots {
    struct slot *items;
    size_t n;
};

struct checker {
    struct arena arena;
    struct err *err;
    const Tf__MetaGraphDef *m;
    const Tf__OpList *registry;
    struct name_table nodes;       /* count: index */
    struct name_table definitions; /* Tf__OpDef by op */
    struct slots *outputs;         /* by node */
    size_t n_slots;
};

#define fault(c, ...) err_set((c)->err, ERR_FORMAT, __VA_ARGS__)

/* ---- definitions ---- */

/* list: may be NULL. */
static const Tf__OpDef *find_in(const Tf__OpList *list, const char *type)
{
    for (size_t i = 0; list != NULL && i < list->n_op; i++)
        if (strcmp(list->op[i]->name, type) == 0)
            return list->op[i];
    return NULL;
}

static const Tf__OpDef *definition(struct checker *c, const char *op)
{
    struct name_entry *e = name_table_find(&c->definitions, op);
    const Tf__OpDef *p;

    if (e != NULL)
        return e->value;
    p = find_in(c->registry, op);
    if (p == NULL && op_def_find(&op_table, op) != NULL)
        p = op_def_to_proto(&c->arena, op_def_find(&op_table, op));
    if (p == NULL && c->m->meta_info_def != NULL)
        p = find_in(c->m->meta_info_def->stripped_op_list, op);
    e = name_table_add(&c->definitions, op);
    memcpy(&e->value, &p, sizeof(p));
    return p;
}

static const Tf__AttrValue *attr_of(const Tf__NodeDef *node, const Tf__OpDef *def,
                                    const char *name)
{
    const Tf__OpDef__AttrDef *d = op_def_attr(def, name);

    for (size_t i = 0; i < node->n_attr; i++)
        if (strcmp(node->attr[i]->key, name) == 0)
            return node->attr[i]->value;
    return d != NULL ? d->default_value : NULL;
}

/* ---- attributes ---- */

static int kind_fits(const char *type, const Tf__AttrValue *v)
{
    static const struct {
        const char *type;
        Tf__AttrValue__ValueCase is;
    } kinds[] = {
        {"string", TF__ATTR_VALUE__VALUE_S},      {"int", TF__ATTR_VALUE__VALUE_I},
        {"float", TF__ATTR_VALUE__VALUE_F},       {"bool", TF__ATTR_VALUE__VALUE_B},
        {"type", TF__ATTR_VALUE__VALUE_TYPE},     {"shape", TF__ATTR_VALUE__VALUE_SHAPE},
        {"tensor", TF__ATTR_VALUE__VALUE_TENSOR}, {"func", TF__ATTR_VALUE__VALUE_FUNC},
    };

    if (strncmp(type, "list(", 5) == 0)
        return v->value_case == TF__ATTR_VALUE__VALUE_LIST;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i].type, type) == 0)
            return v->value_case == kinds[i].is;
    return 0;
}

static int check_class(struct checker *c, const Tf__NodeDef *node, const Tf__AttrValue *v)
{
    if (v->value_case != TF__ATTR_VALUE__VALUE_LIST)
        return fault(c, "node '%s': _class is no list", node->name);
    for (size_t i = 0; i < v->list->n_s; i++) {
        const char *s =
            arena_strndup(&c->arena, (const char *)v->list->s[i].data, v->list->s[i].len);

        if (strncmp(s, "loc:@", 5) == 0 && name_table_find(&c->nodes, s + 5) == NULL)
            return fault(c, "node '%s': _class names '%s', which does not exist",
                         node->name, s + 5);
    }
    return 0;
}

static int check_attr(struct checker *c, const Tf__NodeDef *node, const Tf__OpDef *def,
                      const Tf__NodeDef__AttrEntry *e)
{
    const Tf__OpDef__AttrDef *d = op_def_attr(def, e->key);

    if (e->value == NULL)
        return fault(c, "node '%s': attribute '%s' is empty", node->name, e->key);
    if (strcmp(e->key, "_class") == 0)
        return check_class(c, node, e->value);
    if (e->key[0] == '_')
        return 0;
    if (d == NULL)
        return fault(c, "node '%s': op %s has no attribute '%s'", node->name, node->op,
                     e->key);
    if (!kind_fits(d->type, e->value))
        return fault(c, "node '%s': attribute '%s' is no %s", node->name, e->key,
                     d->type);
    if (e->value->value_case == TF__ATTR_VALUE__VALUE_TYPE &&
        (e->value->type <= 0 || e->value->type > 100))
        return fault(c, "node '%s': attribute '%s' is type %d", node->name, e->key,
                     e->value->type);
    return 0;
}

static int check_attrs(struct checker *c, const Tf__NodeDef *node, const Tf__OpDef *def)
{
    const Tf__AttrValue *value = attr_of(node, def, "value");
    const Tf__AttrValue *dtype = attr_of(node, def, "dtype");
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < node->n_attr; i++)
        rc = check_attr(c, node, def, node->attr[i]);
    for (size_t i = 0; rc == 0 && i < def->n_attr; i++)
        if (attr_of(node, def, def->attr[i]->name) == NULL)
            rc = fault(c, "node '%s': attribute '%s' is missing", node->name,
                       def->attr[i]->name);
    if (rc == 0 && value != NULL && value->value_case == TF__ATTR_VALUE__VALUE_TENSOR &&
        dtype != NULL && value->tensor->dtype != dtype->type)
        rc = fault(c, "node '%s': a value of type %d in a Const of type %d", node->name,
                   value->tensor->dtype, dtype->type);
    return rc;
}

/* ---- inputs and outputs ---- */

static int add_slot(struct checker *c, const Tf__NodeDef *node, struct slots *s,
                    int32_t type, int is_ref)
{
    if (c->n_slots++ == MAX_SLOTS)
        return fault(c, "node '%s' has too many inputs or outputs", node->name);
    if ((s->n & (s->n - 1)) == 0) { /* full: at each power of two */
        struct slot *more = ARENA_ARRAY(&c->arena, struct slot, s->n == 0 ? 1 : 2 * s->n);

        if (s->n > 0)
            memcpy(more, s->items, s->n * sizeof(*more));
        s->items = more;
    }
    s->items[s->n++] = (struct slot){type, is_ref};
    return 0;
}

/* The tensors of one argument of the definition. */
static int expand(struct checker *c, const Tf__NodeDef *node, const Tf__OpDef *def,
                  const Tf__OpDef__ArgDef *arg, struct slots *s)
{
    const Tf__AttrValue *number = attr_of(node, def, arg->number_attr);
    const Tf__AttrValue *type = attr_of(node, def, arg->type_attr);
    const Tf__AttrValue *list = attr_of(node, def, arg->type_list_attr);
    int64_t n = number != NULL ? number->i : 1;
    int rc = 0;

    if (arg->type_list_attr[0] != '\0') {
        if (list == NULL || list->value_case != TF__ATTR_VALUE__VALUE_LIST)
            return fault(c, "op %s: its list '%s' has no attribute", node->op, arg->name);
        for (size_t i = 0; rc == 0 && i < list->list->n_type; i++)
            rc = add_slot(c, node, s, list->list->type[i], arg->is_ref);
        return rc;
    }
    for (int64_t i = 0; rc == 0 && i < n; i++)
        rc = add_slot(c, node, s, type != NULL ? type->type : arg->type, arg->is_ref);
    return rc;
}

static int expand_all(struct checker *c, const Tf__NodeDef *node, const Tf__OpDef *def,
                      Tf__OpDef__ArgDef *const *args, size_t n, struct slots *s)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = expand(c, node, def, args[i], s);
    return rc;
}

/* The output with this name, or NULL. */
static const struct slot *find_output(struct checker *c, const char *name)
{
    const char *colon = strrchr(name, ':');
    size_t len = colon != NULL ? (size_t)(colon - name) : strlen(name);
    long index = colon != NULL && isdigit((unsigned char)colon[1])
                     ? strtol(colon + 1, NULL, 10)
                     : -(colon != NULL);
    const struct name_entry *e =
        name_table_find(&c->nodes, arena_strndup(&c->arena, name, len));
    const struct slots *s = e != NULL ? &c->outputs[e->count] : NULL;

    return s != NULL && index >= 0 && (size_t)index < s->n ? &s->items[index] : NULL;
}

static int check_input(struct checker *c, const Tf__NodeDef *node, const char *input,
                       const struct slot *want)
{
    const struct slot *is = find_output(c, input);

    if (is == NULL)
        return fault(c, "node '%s': its input '%s' does not exist", node->name, input);
    if (want->type != is->type)
        return fault(c, "node '%s': its input '%s' is of type %d, not %d", node->name,
                     input, is->type, want->type);
    if (want->is_ref && !is->is_ref)
        return fault(c, "node '%s': its input '%s' is no reference to a variable",
                     node->name, input);
    return 0;
}

static int check_inputs(struct checker *c, const Tf__NodeDef *node, const Tf__OpDef *def)
{
    struct slots want = {0};
    size_t n_data = 0;
    int rc = expand_all(c, node, def, def->input_arg, def->n_input_arg, &want);

    for (size_t i = 0; rc == 0 && i < node->n_input; i++) {
        const char *input = node->input[i];

        if (input[0] == '^') {
            if (name_table_find(&c->nodes, input + 1) == NULL)
                rc = fault(c, "node '%s': its input '%s' does not exist", node->name,
                           input);
            continue;
        }
        if (n_data != i)
            return fault(c, "node '%s': input '%s' comes after control inputs",
                         node->name, input);
        if (n_data == want.n)
            return fault(c, "node '%s' has more inputs than the %zu of %s", node->name,
                         want.n, node->op);
        rc = check_input(c, node, input, &want.items[n_data++]);
    }
    if (rc == 0 && n_data < want.n)
        rc = fault(c, "node '%s' has %zu inputs, %s takes %zu", node->name, n_data,
                   node->op, want.n);
    return rc;
}

/* ---- nodes ---- */

static int valid_name(const char *name)
{
    if (!isalnum((unsigned char)name[0]) && name[0] != '.')
        return 0;
    for (; *name != '\0'; name++)
        if (!isalnum((unsigned char)*name) && strchr("_.-/>", *name) == NULL)
            return 0;
    return 1;
}

static int check_nodes(struct checker *c)
{
    const Tf__GraphDef *g = c->m->graph_def;
    int rc = 0;

    for (size_t i = 0; i < g->n_node; i++) {
        const char *name = g->node[i]->name;

        if (!valid_name(name))
            return fault(c, "'%s' is not a valid node name", name);
        if (name_table_find(&c->nodes, name) != NULL)
            return fault(c, "node '%s' is there twice", name);
        name_table_add(&c->nodes, name)->count = (int)i;
    }
    c->outputs = ARENA_ARRAY(&c->arena, struct slots, g->n_node);
    for (size_t i = 0; rc == 0 && i < g->n_node; i++) {
        const Tf__NodeDef *node = g->node[i];
        const Tf__OpDef *def = definition(c, node->op);

        if (def == NULL)
            return fault(c, "node '%s': op %s is not defined", node->name, node->op);
        rc = check_attrs(c, node, def);
        if (rc == 0)
            rc = expand_all(c, node, def, def->output_arg, def->n_output_arg,
                            &c->outputs[i]);
    }
    for (size_t i = 0; rc == 0 && i < g->n_node; i++)
        rc = check_inputs(c, g->node[i], definition(c, g->node[i]->op));
    return rc;
}

/* ---- names elsewhere ---- */

static int check_tensor(struct checker *c, const char *where, const char *name)
{
    if (strchr(name, ':') == NULL || find_output(c, name) == NULL)
        return fault(c, "%s: tensor '%s' does not exist", where, name);
    return 0;
}

static int check_operation(struct checker *c, const char *where, const char *name)
{
    if (name_table_find(&c->nodes, name) == NULL)
        return fault(c, "%s: operation '%s' does not exist", where, name);
    return 0;
}

static int check_variable(struct checker *c, const char *where,
                          const ProtobufCBinaryData *bytes)
{
    const Tf__VariableDef *v =
        MESSAGE_UNPACK(&c->arena, variable_def, bytes->data, bytes->len);
    int rc;

    if (v == NULL)
        return fault(c, "%s has something that is no variable", where);
    rc = check_tensor(c, where, v->variable_name);
    if (rc == 0)
        rc = check_operation(c, where, v->initializer_name);
    if (rc == 0)
        rc = check_tensor(c, where, v->snapshot_name);
    if (rc == 0 && v->initial_value_name[0] != '\0')
        rc = check_tensor(c, where, v->initial_value_name);
    return rc;
}

static const Tf__CollectionDef *find_collection(struct checker *c, const char *key)
{
    for (size_t i = 0; i < c->m->n_collection_def; i++)
        if (strcmp(c->m->collection_def[i]->key, key) == 0)
            return c->m->collection_def[i]->value;
    return NULL;
}

static int holds(const Tf__CollectionDef *c, const ProtobufCBinaryData *bytes)
{
    for (size_t i = 0; i < c->bytes_list->n_value; i++) {
        const ProtobufCBinaryData *b = &c->bytes_list->value[i];

        if (b->len == bytes->len && memcmp(b->data, bytes->data, b->len) == 0)
            return 1;
    }
    return 0;
}

/* TensorFlow decides by comparing bytes whether two elements are the same variable. */
static int check_trainable(struct checker *c)
{
    const Tf__CollectionDef *all = find_collection(c, GLOBAL_VARIABLES);
    const Tf__CollectionDef *some = find_collection(c, TRAINABLE_VARIABLES);

    if (all == NULL || some == NULL ||
        all->kind_case != TF__COLLECTION_DEF__KIND_BYTES_LIST ||
        some->kind_case != TF__COLLECTION_DEF__KIND_BYTES_LIST)
        return 0;
    for (size_t i = 0; i < some->bytes_list->n_value; i++)
        if (!holds(all, &some->bytes_list->value[i]))
            return fault(c, "element %zu of collection '%s' is not in '%s'", i,
                         TRAINABLE_VARIABLES, GLOBAL_VARIABLES);
    return 0;
}

static int check_saver(struct checker *c, const char *where, const Tf__SaverDef *s)
{
    int rc = check_tensor(c, where, s->filename_tensor_name);

    if (rc == 0)
        rc = check_tensor(c, where, s->save_tensor_name);
    return rc == 0 ? check_operation(c, where, s->restore_op_name) : rc;
}

static int check_bytes(struct checker *c, const char *key, const char *where,
                       const ProtobufCBinaryData *bytes)
{
    const Tf__SaverDef *saver;

    if (is_variable_collection(key))
        return check_variable(c, where, bytes);
    if (strcmp(key, "savers") != 0)
        return 0;
    saver = MESSAGE_UNPACK(&c->arena, saver_def, bytes->data, bytes->len);
    return saver != NULL ? check_saver(c, where, saver)
                         : fault(c, "%s has something that is no Saver", where);
}

static int check_collection(struct checker *c, const char *key,
                            const Tf__CollectionDef *def)
{
    const char *where = arena_printf(&c->arena, "collection '%s'", key);
    int rc = 0;

    if (def == NULL || def->kind_case == TF__COLLECTION_DEF__KIND__NOT_SET)
        return fault(c, "%s has no kind", where);
    if (def->kind_case == TF__COLLECTION_DEF__KIND_NODE_LIST)
        for (size_t i = 0; rc == 0 && i < def->node_list->n_value; i++) {
            const char *name = def->node_list->value[i];

            rc = strchr(name, ':') != NULL ? check_tensor(c, where, name)
                                           : check_operation(c, where, name);
        }
    if (def->kind_case == TF__COLLECTION_DEF__KIND_BYTES_LIST)
        for (size_t i = 0; rc == 0 && i < def->bytes_list->n_value; i++)
            rc = check_bytes(c, key, where, &def->bytes_list->value[i]);
    return rc;
}

static int check(struct checker *c)
{
    const Tf__GraphDef *g = c->m != NULL ? c->m->graph_def : NULL;
    int rc;

    if (g == NULL)
        return fault(c, "not a MetaGraphDef with a graph");
    if (g->versions == NULL || g->versions->producer <= 0)
        return fault(c, "the graph does not say which version made it");
    rc = check_nodes(c);
    for (size_t i = 0; rc == 0 && i < c->m->n_collection_def; i++)
        rc = check_collection(c, c->m->collection_def[i]->key,
                              c->m->collection_def[i]->value);
    if (rc == 0)
        rc = check_trainable(c);
    if (rc == 0 && c->m->saver_def != NULL)
        rc = check_saver(c, "saver_def", c->m->saver_def);
    return rc;
}

int metagraph_check(const void *data, size_t len_bytes, const void *registry,
                    size_t registry_bytes, struct err *err)
{
    struct checker c = {.err = err};
    const Tf__MetaGraphDef *known = NULL;
    int rc;

    c.m = MESSAGE_UNPACK(&c.arena, meta_graph_def, data, len_bytes);
    if (registry != NULL)
        known = MESSAGE_UNPACK(&c.arena, meta_graph_def, registry, registry_bytes);
    if (known != NULL && known->meta_info_def != NULL)
        c.registry = known->meta_info_def->stripped_op_list;
    rc = check(&c);
    name_table_done(&c.nodes);
    name_table_done(&c.definitions);
    arena_done(&c.arena);
    return rc;
}
