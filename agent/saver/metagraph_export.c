#include "agent/saver/metagraph_export.h"

#include "agent/graph/import.h"
#include "agent/graph/op_def.h"
#include "agent/graph/signature.h"
#include "agent/saver/attr_proto.h"
#include "agent/saver/op_list.h"
#include "agent/saver/saver.h"

#include <stdlib.h>
#include <string.h>

struct export
{
    struct arena arena;
    struct graph *g;
    struct metagraph_export_options options;
};

static char *text(struct export *e, const char *s)
{
    return arena_strdup(&e->arena, s);
}

static int compare_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* ---- nodes ---- */

/* Attributes are equal if their messages are. */
static int is_default(struct export *e, const struct signature *sig,
                      const struct attr *attr)
{
    const struct signature_attr *s = signature_attr(sig, span_of(attr->name));
    struct attr value;

    return s != NULL && s->has_default && signature_default(s, &value) == 0 &&
           message_same(attr_to_proto(&e->arena, attr), attr_to_proto(&e->arena, &value));
}

static int compare_attrs(const void *a, const void *b)
{
    const Tf__NodeDef__AttrEntry *x = *(Tf__NodeDef__AttrEntry *const *)a;
    const Tf__NodeDef__AttrEntry *y = *(Tf__NodeDef__AttrEntry *const *)b;

    return strcmp(x->key, y->key);
}

static void put_attrs(struct export *e, const struct operation *op, Tf__NodeDef *node)
{
    const int n = operation_n_attrs(op);

    node->attr = ARENA_ARRAY(&e->arena, Tf__NodeDef__AttrEntry *, n);
    for (int i = 0; i < n; i++) {
        const struct attr *attr = operation_attr_at(op, i);
        Tf__NodeDef__AttrEntry *entry;

        if (e->options.strip_default_attrs &&
            is_default(e, operation_signature(op), attr))
            continue;
        entry = MESSAGE_NEW(&e->arena, NodeDef__AttrEntry, node_def__attr_entry);
        entry->key = text(e, attr->name);
        entry->value = attr_to_proto(&e->arena, attr);
        node->attr[node->n_attr++] = entry;
    }
    qsort(node->attr, node->n_attr, sizeof(*node->attr), compare_attrs);
}

static char *input_name(struct export *e, struct output x)
{
    if (x.index == 0)
        return text(e, operation_name(x.op));
    return arena_printf(&e->arena, "%s:%d", operation_name(x.op), x.index);
}

/* Data inputs first, then control inputs by name. */
static void put_inputs(struct export *e, const struct operation *op, Tf__NodeDef *node)
{
    int n = operation_n_inputs(op), n_control = operation_n_control_inputs(op);

    node->input = ARENA_ARRAY(&e->arena, char *, n + n_control);
    for (int i = 0; i < n; i++)
        node->input[i] = input_name(e, operation_input(op, i));
    for (int i = 0; i < n_control; i++)
        node->input[n + i] = arena_printf(&e->arena, "^%s",
                                          operation_name(operation_control_input(op, i)));
    qsort(node->input + n, (size_t)n_control, sizeof(*node->input), compare_text);
    node->n_input = (size_t)(n + n_control);
}

static Tf__GraphDef *graph_to_proto(struct export *e)
{
    Tf__GraphDef *p = MESSAGE_NEW(&e->arena, GraphDef, graph_def);
    int n = graph_n_operations(e->g);

    p->versions = MESSAGE_NEW(&e->arena, VersionDef, version_def);
    p->versions->producer = GRAPH_PRODUCER;
    p->node = ARENA_ARRAY(&e->arena, Tf__NodeDef *, n);
    for (int i = 0; i < n; i++) {
        const struct operation *op = graph_operation_at(e->g, i);
        Tf__NodeDef *node = MESSAGE_NEW(&e->arena, NodeDef, node_def);

        node->name = text(e, operation_name(op));
        node->op = text(e, operation_type(op));
        if (!e->options.clear_devices)
            node->device = text(e, operation_device(op));
        put_inputs(e, op, node);
        put_attrs(e, op, node);
        p->node[p->n_node++] = node;
    }
    return p;
}

/* ---- the ops used ---- */

/* Orders by name, foreign ops first, then by length. Of several definitions of an op the first is
 * exported: that of a file has attributes that the row of the table lacks. */
static int compare_defs(const void *a, const void *b)
{
    const struct op_def *x = *(const struct op_def *const *)a;
    const struct op_def *y = *(const struct op_def *const *)b;
    int by_name = strcmp(x->type, y->type);
    int by_flag = (int)(y->flags & OP_FOREIGN) - (int)(x->flags & OP_FOREIGN);
    size_t n = strlen(x->signature), m = strlen(y->signature);

    return by_name != 0 ? by_name : by_flag != 0 ? by_flag : (n < m) - (n > m);
}

static Tf__OpList *ops_to_proto(struct export *e)
{
    Tf__OpList *p = MESSAGE_NEW(&e->arena, OpList, op_list);
    int n = graph_n_operations(e->g);
    const struct op_def **defs = ARENA_ARRAY(&e->arena, const struct op_def *, n);

    for (int i = 0; i < n; i++)
        defs[i] = operation_def(graph_operation_at(e->g, i));
    qsort(defs, (size_t)n, sizeof(struct op_def *), compare_defs);
    p->op = ARENA_ARRAY(&e->arena, Tf__OpDef *, n);
    for (int i = 0; i < n; i++)
        if ((i == 0 || strcmp(defs[i]->type, defs[i - 1]->type) != 0) &&
            !op_def_is_guess(defs[i]))
            p->op[p->n_op++] = op_def_to_proto(&e->arena, defs[i]);
    return p;
}

/* ---- collections ---- */

int is_variable_collection(const char *key)
{
    static const char *const keys[] = {
        GLOBAL_VARIABLES, LOCAL_VARIABLES, TRAINABLE_VARIABLES,
        MODEL_VARIABLES,  GLOBAL_STEP,     "moving_average_variables",
    };

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (strcmp(keys[i], key) == 0)
            return 1;
    return 0;
}

static char *tensor_name(struct export *e, struct output x)
{
    return output_valid(x)
               ? arena_printf(&e->arena, "%s:%d", operation_name(x.op), x.index)
               : text(e, "");
}

static ProtobufCBinaryData variable_bytes(struct export *e, const struct variable *v)
{
    Tf__VariableDef *p = MESSAGE_NEW(&e->arena, VariableDef, variable_def);

    p->variable_name = tensor_name(e, v->ref);
    p->initializer_name = text(e, operation_name(v->initializer));
    p->snapshot_name = tensor_name(e, v->read);
    p->initial_value_name = tensor_name(e, v->initial_value);
    p->is_resource = output_dtype(v->ref) == DT_RESOURCE;
    p->trainable = v->trainable;
    return message_packed(&e->arena, p);
}

/* The case of CollectionDef that represents an item in the collection of that key. */
static Tf__CollectionDef__KindCase kind_of(const char *key,
                                           const struct collection_item *item)
{
    switch (item->kind) {
    case ITEM_VARIABLE:
        return is_variable_collection(key) ? TF__COLLECTION_DEF__KIND_BYTES_LIST
                                           : TF__COLLECTION_DEF__KIND_NODE_LIST;
    case ITEM_OUTPUT:
    case ITEM_OPERATION:
        return TF__COLLECTION_DEF__KIND_NODE_LIST;
    case ITEM_INT:
        return TF__COLLECTION_DEF__KIND_INT64_LIST;
    case ITEM_FLOAT:
        return TF__COLLECTION_DEF__KIND_FLOAT_LIST;
    default:
        return TF__COLLECTION_DEF__KIND_BYTES_LIST;
    }
}

static void put_nodes(struct export *e, Tf__CollectionDef *c,
                      const struct collection_item *items, size_t n)
{
    Tf__CollectionDef__NodeList *l =
        MESSAGE_NEW(&e->arena, CollectionDef__NodeList, collection_def__node_list);

    l->value = ARENA_ARRAY(&e->arena, char *, n);
    for (size_t i = 0; i < n; i++) {
        if (items[i].kind == ITEM_VARIABLE)
            l->value[i] = tensor_name(e, items[i].variable->ref);
        else if (items[i].kind == ITEM_OUTPUT)
            l->value[i] = tensor_name(e, items[i].output);
        else
            l->value[i] = text(e, operation_name(items[i].op));
    }
    l->n_value = n;
    c->node_list = l;
}

static void put_bytes(struct export *e, Tf__CollectionDef *c,
                      const struct collection_item *items, size_t n)
{
    Tf__CollectionDef__BytesList *l =
        MESSAGE_NEW(&e->arena, CollectionDef__BytesList, collection_def__bytes_list);

    l->value = ARENA_ARRAY(&e->arena, ProtobufCBinaryData, n);
    for (size_t i = 0; i < n; i++) {
        if (items[i].kind == ITEM_VARIABLE)
            l->value[i] = variable_bytes(e, items[i].variable);
        else
            l->value[i] = message_bytes(&e->arena, items[i].s,
                                        items[i].kind == ITEM_BYTES ? items[i].n_bytes
                                                                    : strlen(items[i].s));
    }
    l->n_value = n;
    c->bytes_list = l;
}

static void put_numbers(struct export *e, Tf__CollectionDef *c,
                        const struct collection_item *items, size_t n)
{
    if (c->kind_case == TF__COLLECTION_DEF__KIND_INT64_LIST) {
        c->int64_list =
            MESSAGE_NEW(&e->arena, CollectionDef__Int64List, collection_def__int64_list);
        c->int64_list->value = ARENA_ARRAY(&e->arena, int64_t, n);
        c->int64_list->n_value = n;
        for (size_t i = 0; i < n; i++)
            c->int64_list->value[i] = items[i].i;
    } else {
        c->float_list =
            MESSAGE_NEW(&e->arena, CollectionDef__FloatList, collection_def__float_list);
        c->float_list->value = ARENA_ARRAY(&e->arena, float, n);
        c->float_list->n_value = n;
        for (size_t i = 0; i < n; i++)
            c->float_list->value[i] = (float)items[i].f;
    }
}

/* NULL if it is empty or has items of different kinds. */
static Tf__CollectionDef *collection_to_proto(struct export *e, const char *key)
{
    const struct collection_item *items;
    size_t n = collection_get(e->g, key, NULL, &items);
    Tf__CollectionDef *c = MESSAGE_NEW(&e->arena, CollectionDef, collection_def);

    if (n == 0)
        return NULL;
    c->kind_case = kind_of(key, &items[0]);
    for (size_t i = 1; i < n; i++)
        if (kind_of(key, &items[i]) != c->kind_case)
            return NULL;
    if (c->kind_case == TF__COLLECTION_DEF__KIND_NODE_LIST)
        put_nodes(e, c, items, n);
    else if (c->kind_case == TF__COLLECTION_DEF__KIND_BYTES_LIST)
        put_bytes(e, c, items, n);
    else
        put_numbers(e, c, items, n);
    return c;
}

static int compare_collections(const void *a, const void *b)
{
    const Tf__MetaGraphDef__CollectionDefEntry *x =
        *(Tf__MetaGraphDef__CollectionDefEntry *const *)a;
    const Tf__MetaGraphDef__CollectionDefEntry *y =
        *(Tf__MetaGraphDef__CollectionDefEntry *const *)b;

    return strcmp(x->key, y->key);
}

static void put_collections(struct export *e, Tf__MetaGraphDef *p)
{
    int n = graph_n_collections(e->g);

    p->collection_def = ARENA_ARRAY(&e->arena, Tf__MetaGraphDef__CollectionDefEntry *, n);
    for (int i = 0; i < n; i++) {
        const char *key = graph_collection_name(e->g, i);
        Tf__CollectionDef *c = collection_to_proto(e, key);
        Tf__MetaGraphDef__CollectionDefEntry *entry;

        if (c == NULL)
            continue;
        entry = MESSAGE_NEW(&e->arena, MetaGraphDef__CollectionDefEntry,
                            meta_graph_def__collection_def_entry);
        entry->key = text(e, key);
        entry->value = c;
        p->collection_def[p->n_collection_def++] = entry;
    }
    qsort(p->collection_def, p->n_collection_def, sizeof(*p->collection_def),
          compare_collections);
}

/* ---- the whole ---- */

static Tf__SaverDef *saver_to_proto(struct export *e, const struct saver_def *saver)
{
    Tf__SaverDef *p = MESSAGE_NEW(&e->arena, SaverDef, saver_def);

    p->filename_tensor_name = text(e, saver->filename_tensor);
    p->save_tensor_name = text(e, saver->save_tensor);
    p->restore_op_name = text(e, saver->restore_op);
    p->max_to_keep = saver->max_to_keep;
    p->sharded = saver->sharded;
    p->keep_checkpoint_every_n_hours = saver->keep_every_n_hours;
    p->version = saver->version == SAVER_V1 ? SAVER_V1 : SAVER_V2;
    return p;
}

/* Function libraries are joined: a message's repeated fields go on in the next one. */
static void put_parts(struct export *e, Tf__MetaGraphDef *p)
{
    const struct graph_part_bytes *part;
    struct wbuf library = {0};
    size_t n = 0;

    while (graph_part_at(e->g, n) != NULL)
        n++;
    p->signature_def = ARENA_ARRAY(&e->arena, ProtobufCBinaryData, n + 1);
    p->asset_file_def = ARENA_ARRAY(&e->arena, ProtobufCBinaryData, n + 1);
    for (size_t i = 0; (part = graph_part_at(e->g, i)) != NULL; i++) {
        if (part->part == GRAPH_LIBRARY)
            wbuf_bytes(&library, part->data, part->len);
        else if (part->part == GRAPH_SIGNATURE)
            p->signature_def[p->n_signature_def++] =
                message_bytes(&e->arena, part->data, part->len);
        else
            p->asset_file_def[p->n_asset_file_def++] =
                message_bytes(&e->arena, part->data, part->len);
    }
    if (library.len > 0)
        p->graph_def->library = message_bytes(&e->arena, library.data, library.len);
    wbuf_done(&library);
}

void metagraph_export(struct wbuf *b, struct graph *g, const struct saver_def *saver,
                      const struct metagraph_export_options *o)
{
    struct export e = {.g = g};
    Tf__MetaGraphDef *p = MESSAGE_NEW(&e.arena, MetaGraphDef, meta_graph_def);

    if (o != NULL)
        e.options = *o;
    p->meta_info_def =
        MESSAGE_NEW(&e.arena, MetaGraphDef__MetaInfoDef, meta_graph_def__meta_info_def);
    p->meta_info_def->stripped_op_list = ops_to_proto(&e);
    p->meta_info_def->stripped_default_attrs = e.options.strip_default_attrs;
    p->graph_def = graph_to_proto(&e);
    if (saver != NULL)
        p->saver_def = saver_to_proto(&e, saver);
    put_collections(&e, p);
    put_parts(&e, p);
    message_pack(b, p);
    arena_done(&e.arena);
}

void graph_debug_info_export(struct wbuf *b, struct graph *g)
{
    const int n = graph_n_operations(g);
    struct arena a = {0};
    Tf__GraphDebugInfo *p = MESSAGE_NEW(&a, GraphDebugInfo, graph_debug_info);

    p->traces = ARENA_ARRAY(&a, Tf__GraphDebugInfo__TracesEntry *, n);
    for (int i = 0; i < n; i++) {
        Tf__GraphDebugInfo__TracesEntry *e =
            MESSAGE_NEW(&a, GraphDebugInfo__TracesEntry, graph_debug_info__traces_entry);

        e->key = arena_printf(&a, "%s@", operation_name(graph_operation_at(g, i)));
        e->value =
            MESSAGE_NEW(&a, GraphDebugInfo__StackTrace, graph_debug_info__stack_trace);
        p->traces[p->n_traces++] = e;
    }
    message_pack(b, p);
    arena_done(&a);
}
