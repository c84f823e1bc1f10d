/* Names inside messages that an import does not interpret, with the import's scope, as
 * TensorFlow's from_proto(import_scope) does (ops.prepend_name_scope). */
#include "agent/saver/import_state.h"

#include <string.h>

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

static ProtobufCBinaryData packed(struct import *im, const void *message)
{
    struct wbuf b = {0};
    ProtobufCBinaryData bytes;

    message_pack(&b, message);
    bytes = message_bytes(&im->arena, b.data, b.len);
    wbuf_done(&b);
    return bytes;
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
        nested[i] = packed(im, p);
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
    return packed(im, p);
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
    return packed(im, p);
}

static ProtobufCBinaryData scope_saver(struct import *im, ProtobufCBinaryData bytes)
{
    Tf__SaverDef *p = MESSAGE_UNPACK(&im->arena, saver_def, bytes.data, bytes.len);

    if (p == NULL)
        return bytes;
    prepend(im, &p->filename_tensor_name);
    prepend(im, &p->save_tensor_name);
    prepend(im, &p->restore_op_name);
    return packed(im, p);
}

ProtobufCBinaryData import_scoped_bytes(struct import *im, const char *key,
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
