#include "agent/saver/import_state.h"

#include "agent/saver/metagraph_export.h"
#include "common/log/log.h"

#include <string.h>

/* ---- names inside messages that an import does not interpret, with the import's scope,
 * as TensorFlow's from_proto(import_scope) does (ops.prepend_name_scope) ---- */

/* of contexts; deeper ones stay unchanged */
enum { MAX_NESTING = 32 };

static void prepend(struct import *im, char **name)
{
    if ((*name)[0] != '\0')
        *name = arena_strdup(&im->arena, import_scoped(im, *name));
}

static void prepend_all(struct import *im, char **names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        prepend(im, &names[i]);
}

static void scope_values(struct import *im, Tf__ValuesDef *p)
{
    if (p == NULL)
        return;
    prepend_all(im, p->values, p->n_values);
    for (size_t i = 0; i < p->n_external_values; i++) {
        prepend(im, &p->external_values[i]->key);
        prepend(im, &p->external_values[i]->value);
    }
}

static ProtobufCBinaryData scope_cond(struct import *im, ProtobufCBinaryData bytes,
                                      int depth);
static ProtobufCBinaryData scope_while(struct import *im, ProtobufCBinaryData bytes,
                                       int depth);

static void scope_nested(struct import *im, ProtobufCBinaryData *nested, size_t n,
                         int depth)
{
    for (size_t i = 0; depth < MAX_NESTING && i < n; i++) {
        Tf__ControlFlowContextDef *p = MESSAGE_UNPACK(
            &im->arena, control_flow_context_def, nested[i].data, nested[i].len);

        if (p == NULL)
            continue;
        if (p->ctxt_case == TF__CONTROL_FLOW_CONTEXT_DEF__CTXT_COND_CTXT)
            p->cond_ctxt = scope_cond(im, p->cond_ctxt, depth + 1);
        else if (p->ctxt_case == TF__CONTROL_FLOW_CONTEXT_DEF__CTXT_WHILE_CTXT)
            p->while_ctxt = scope_while(im, p->while_ctxt, depth + 1);
        nested[i] = message_packed(&im->arena, p);
    }
}

static ProtobufCBinaryData scope_cond(struct import *im, ProtobufCBinaryData bytes,
                                      int depth)
{
    Tf__CondContextDef *p =
        MESSAGE_UNPACK(&im->arena, cond_context_def, bytes.data, bytes.len);

    if (p == NULL)
        return bytes;
    prepend(im, &p->context_name);
    prepend(im, &p->pred_name);
    prepend(im, &p->pivot_name);
    scope_values(im, p->values_def);
    scope_nested(im, p->nested_contexts, p->n_nested_contexts, depth);
    return message_packed(&im->arena, p);
}

static ProtobufCBinaryData scope_while(struct import *im, ProtobufCBinaryData bytes,
                                       int depth)
{
    Tf__WhileContextDef *p =
        MESSAGE_UNPACK(&im->arena, while_context_def, bytes.data, bytes.len);

    if (p == NULL)
        return bytes;
    prepend(im, &p->context_name);
    prepend(im, &p->pivot_name);
    prepend(im, &p->pivot_for_pred_name);
    prepend(im, &p->pivot_for_body_name);
    prepend(im, &p->maximum_iterations_name);
    prepend_all(im, p->loop_exit_names, p->n_loop_exit_names);
    prepend_all(im, p->loop_enter_names, p->n_loop_enter_names);
    scope_values(im, p->values_def);
    scope_nested(im, p->nested_contexts, p->n_nested_contexts, depth);
    return message_packed(&im->arena, p);
}

static ProtobufCBinaryData scope_saver(struct import *im, ProtobufCBinaryData bytes)
{
    Tf__SaverDef *p = MESSAGE_UNPACK(&im->arena, saver_def, bytes.data, bytes.len);

    if (p == NULL)
        return bytes;
    prepend(im, &p->filename_tensor_name);
    prepend(im, &p->save_tensor_name);
    prepend(im, &p->restore_op_name);
    return message_packed(&im->arena, p);
}

/* The message of a collection (cond_context, while_context, savers) with its names as they
 * are in the graph; others are returned unchanged. Allocated in the import's arena. */
static ProtobufCBinaryData scoped_bytes(struct import *im, const char *key,
                                        ProtobufCBinaryData bytes)
{
    if (im->scope[0] == '\0' && !im->is_renamed)
        return bytes;
    if (strcmp(key, "cond_context") == 0)
        return scope_cond(im, bytes, 0);
    if (strcmp(key, "while_context") == 0)
        return scope_while(im, bytes, 0);
    if (strcmp(key, "savers") == 0)
        return scope_saver(im, bytes);
    return bytes;
}

/* ---- variables and nodes ---- */

static int find_tensor(struct import *im, const char *key, const char *name,
                       struct output *ret)
{
    if (graph_tensor(im->g, import_scoped(im, name), ret, im->err) != 0)
        return err_wrap(im->err, "collection '%s'", key);
    return 0;
}

static int find_operation(struct import *im, const char *key, const char *name,
                          struct operation **ret)
{
    *ret = graph_operation(im->g, import_scoped(im, name));
    if (*ret == NULL)
        return import_fail(
            im, ERR_NOT_FOUND,
            "collection '%s': The name '%s' refers to an Operation not in the "
            "graph.",
            key, name);
    return 0;
}

static int add_variable(struct import *im, const char *key,
                        const ProtobufCBinaryData *bytes)
{
    const Tf__VariableDef *p =
        MESSAGE_UNPACK(&im->arena, variable_def, bytes->data, bytes->len);
    struct variable v = {0}, **known;
    int rc;

    if (p == NULL)
        return import_fail(im, ERR_FORMAT,
                           "collection '%s' has something that is no variable", key);
    rc = find_tensor(im, key, p->variable_name, &v.ref);
    if (rc != 0)
        return rc;
    if (!operation_is_variable(v.ref.op))
        return import_fail(im, ERR_UNSUPPORTED,
                           "collection '%s': %s is no variable but a %s", key,
                           p->variable_name, operation_type(v.ref.op));
    known = &im->variables[operation_id(v.ref.op)];
    if (*known == NULL) {
        rc = find_operation(im, key, p->initializer_name, &v.initializer);
        if (rc == 0)
            rc = find_tensor(im, key, p->snapshot_name, &v.read);
        if (rc == 0 && p->initial_value_name[0] != '\0')
            rc = find_tensor(im, key, p->initial_value_name, &v.initial_value);
        else if (rc == 0 && operation_n_inputs(v.initializer) == 2)
            v.initial_value = operation_input(v.initializer, 1);
        const struct attr *dtype = operation_attr(v.ref.op, "dtype");
        const struct attr *shape = operation_attr(v.ref.op, "shape");
        v.dtype = dtype != NULL && dtype->kind == ATTR_TYPE ? (enum dtype)dtype->i
                                                            : output_dtype(v.ref);
        v.shape = shape != NULL && shape->kind == ATTR_SHAPE ? shape->shape
                                                             : output_shape(v.ref);
        if (rc != 0)
            return rc;
        *known = variable_import(im->g, &v);
    }
    (*known)->trainable |= p->trainable || strcmp(key, TRAINABLE_VARIABLES) == 0;
    collection_add(im->g, key,
                   (struct collection_item){.kind = ITEM_VARIABLE, .variable = *known});
    return 0;
}

/* "x:0" is a tensor, "x" an operation. In old files, collections of variables list them
 * as tensors. */
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

static int add_message(struct import *im, const char *key, ProtobufCBinaryData bytes)
{
    if (is_variable_collection(key))
        return add_variable(im, key, &bytes);
    bytes = scoped_bytes(im, key, bytes);
    collection_add(im->g, key,
                   (struct collection_item){.kind = ITEM_BYTES,
                                            .s = (const char *)bytes.data,
                                            .n_bytes = bytes.len});
    return 0;
}

/* Leaves out an element that names something that the graph lacks (because the graph was
 * cut down): turns ERR_NOT_FOUND into a warning. */
static int unless_missing(struct import *im, int rc)
{
    if (rc != ERR_NOT_FOUND)
        return rc;
    log_warn("%s", im->err->msg);
    *im->err = (struct err){0};
    return 0;
}

static int add_collection(struct import *im, const char *key, const Tf__CollectionDef *c)
{
    int rc = 0;

    switch (c->kind_case) {
    case TF__COLLECTION_DEF__KIND_NODE_LIST:
        for (size_t i = 0; rc == 0 && i < c->node_list->n_value; i++)
            rc = unless_missing(im, add_node(im, key, c->node_list->value[i]));
        break;
    case TF__COLLECTION_DEF__KIND_BYTES_LIST:
        for (size_t i = 0; rc == 0 && i < c->bytes_list->n_value; i++)
            rc = unless_missing(im, add_message(im, key, c->bytes_list->value[i]));
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

/* Collections that define variables come first, because others refer to them. */
int import_collections(struct import *im)
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
