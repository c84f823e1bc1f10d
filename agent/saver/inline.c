#include "agent/saver/inline.h"

#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

static void emit(struct inliner *in, Tf__NodeDef *node, const char *pivot);

/* ---- the nodes of a function ---- */

/* The attributes of a function's node in this call: without those that place it, and with the
 * call's values of those that the function leaves open ("$T"). */
static void copy_attrs(struct inliner *in, const struct instance *x,
                       const Tf__NodeDef *from, Tf__NodeDef *to)
{
    to->attr = ARENA_ARRAY(&in->im->arena, Tf__NodeDef__AttrEntry *, from->n_attr);
    for (size_t i = 0; i < from->n_attr; i++) {
        Tf__NodeDef__AttrEntry *e = from->attr[i];
        const Tf__AttrValue *v = e->value;

        if (strcmp(e->key, "_class") == 0)
            continue;
        if (v != NULL && v->value_case == TF__ATTR_VALUE__VALUE_PLACEHOLDER) {
            v = call_attr(&x->attrs, v->placeholder);
            e = MESSAGE_NEW(&in->im->arena, NodeDef__AttrEntry, node_def__attr_entry);
            *e = *from->attr[i];
            if (v != NULL)
                e->value = (Tf__AttrValue *)(uintptr_t)v;
        }
        to->attr[to->n_attr++] = e;
    }
}

/* The text of what a function's node names, outside of the function. */
static const char *outside(struct inliner *in, const struct instance *x,
                           const char *const *names, struct function_ref ref)
{
    const char *tensor =
        ref.at < x->f->n_inputs ? x->args[ref.at] : names[ref.at - x->f->n_inputs];

    if (ref.index < 0)
        return inline_control(in, tensor);
    return ref.at < x->f->n_inputs ? tensor : inline_tensor(in, tensor, ref.index);
}

static void add_node(struct inliner *in, const struct site *s, const struct instance *x,
                     int k, const char *const *names)
{
    const Tf__NodeDef *from = x->f->def->node_def[k];
    Tf__NodeDef *node = MESSAGE_NEW(&in->im->arena, NodeDef, node_def);
    size_t bytes = sizeof(*node) + strlen(names[k]) + from->n_attr * sizeof(void *);

    node->name = arena_strdup(&in->im->arena, names[k]);
    node->op = from->op;
    node->device = from->device[0] != '\0' ? from->device : s->node->device;
    node->input = ARENA_ARRAY(&in->im->arena, char *, from->n_input + 1);
    for (size_t i = 0; i < from->n_input; i++) {
        const char *text = outside(in, x, names, x->f->refs[k][i]);

        bytes += strlen(text) + sizeof(char *);
        node->input[node->n_input++] = arena_strdup(&in->im->arena, text);
    }
    if (node->n_input == 0 && x->pivot != NULL)
        node->input[node->n_input++] = arena_strdup(&in->im->arena, x->pivot);
    copy_attrs(in, x, from, node);
    if (inline_charge(in, bytes) == 0)
        emit(in, node, x->pivot);
}

static void inline_instance(struct inliner *in, const struct site *s, struct instance *x)
{
    const struct function *f = x->f;
    const int n = (int)f->def->n_node_def;
    const char **names = xcalloc((size_t)n + 1, sizeof(*names));

    x->results = ARENA_ARRAY(&in->im->arena, const char *, f->n_results + 1);
    x->controls = ARENA_ARRAY(&in->im->arena, const char *, f->n_controls + 1);
    for (int i = 0; i < n; i++)
        names[i] = in->rc == 0 ? inline_claim(in, s->node->name, x->part, -1,
                                              f->def->node_def[i]->name)
                               : "";
    for (int i = 0; in->rc == 0 && i < n; i++)
        add_node(in, s, x, i, names);
    for (int i = 0; i < f->n_results; i++)
        x->results[i] = in->rc == 0 ? outside(in, x, names, f->results[i]) : "";
    for (int i = 0; i < f->n_controls; i++)
        x->controls[i] = in->rc == 0 ? inline_control(in, names[f->controls[i]]) : "";
    free(names);
}

/* ---- calls ---- */

/* A call that waits for something passes its inputs on when it is over. */
static void call_inputs(struct inliner *in, const struct site *s, struct instance *x)
{
    const struct made begin = {.op = "NoOp",
                               .part = "begin",
                               .number = -1,
                               .controls = s->controls,
                               .n_controls = s->n_controls};

    x->pivot = s->pivot;
    x->args = s->inputs;
    if (s->n_controls == 0)
        return;
    x->pivot = inline_control(in, inline_make(in, s, &begin)->name);
    x->args = ARENA_ARRAY(&in->im->arena, const char *, s->n_inputs + 1);
    for (int i = 0; i < s->n_inputs; i++) {
        const struct made pass = {.op = "Identity",
                                  .part = "input",
                                  .number = i,
                                  .inputs = &s->inputs[i],
                                  .n_inputs = 1,
                                  .controls = &x->pivot,
                                  .n_controls = 1,
                                  .type = function_type(x->f, i, &x->attrs)};

        x->args[i] = inline_make(in, s, &pass)->name;
    }
}

static int inline_call(struct inliner *in, const struct site *s, const char **ret_reason)
{
    const struct function *f = library_find(&in->library, s->node->op);
    const Tf__AttrValue *value = node_attr(s->node, "f"),
                        *out = node_attr(s->node, "Tout");
    const int n_results = f != NULL ? f->n_results
                          : out != NULL && out->value_case == TF__ATTR_VALUE__VALUE_LIST
                              ? (int)out->list->n_type
                              : 0;
    Tf__NameAttrList *name;
    Tf__AttrValue *own;
    struct instance x;
    int *types;

    if (f != NULL) { /* the node's op is the function */
        name = MESSAGE_NEW(&in->im->arena, NameAttrList, name_attr_list);
        name->name = s->node->op;
        own = MESSAGE_NEW(&in->im->arena, AttrValue, attr_value);
        own->value_case = TF__ATTR_VALUE__VALUE_FUNC;
        own->func = message_packed(&in->im->arena, name);
        value = own;
    }
    f = inline_find(in, s, value, s->n_inputs, n_results, &x, ret_reason);
    if (f == NULL)
        return 0;
    x.part = "call";
    types = ARENA_ARRAY(&in->im->arena, int, n_results + 1);
    for (int i = 0; i < n_results; i++)
        types[i] = function_type(f, f->n_inputs + i, &x.attrs);
    call_inputs(in, s, &x);
    inline_instance(in, s, &x);
    return inline_finish(in, s, x.results, types, n_results, x.controls, f->n_controls);
}

/* ---- conditions and loops ---- */

static int inline_branches(struct inliner *in, const struct site *s,
                           const char **ret_reason)
{
    struct branches b = {0};

    if (flow_begin_branches(in, s, &b, ret_reason) != 0)
        return 0;
    for (int k = 0; in->rc == 0 && k < b.n; k++)
        inline_instance(in, s, &b.x[k]);
    return in->rc == 0 ? flow_end_branches(in, s, &b) : in->rc;
}

static int inline_while(struct inliner *in, const struct site *s, const char **ret_reason)
{
    struct loop l = {0};

    if (flow_begin_loop(in, s, &l, ret_reason) != 0)
        return 0;
    if (in->rc == 0)
        inline_instance(in, s, &l.cond);
    if (in->rc == 0)
        flow_begin_body(in, s, &l);
    if (in->rc == 0)
        inline_instance(in, s, &l.body);
    return in->rc == 0 ? flow_end_loop(in, s, &l) : in->rc;
}

/* ---- all nodes ---- */

static int inline_gradient(struct inliner *in, const struct site *s,
                           const char **ret_reason)
{
    *ret_reason = "the gradient of a function is only computed by TensorFlow";
    return 0;
}

typedef int (*inline_fn)(struct inliner *in, const struct site *s,
                         const char **ret_reason);

static inline_fn caller(struct inliner *in, const char *op)
{
    static const struct {
        const char *op;
        inline_fn fn;
    } rows[] = {
        {"If", inline_branches},
        {"StatelessIf", inline_branches},
        {"Case", inline_branches},
        {"StatelessCase", inline_branches},
        {"While", inline_while},
        {"StatelessWhile", inline_while},
        {"PartitionedCall", inline_call},
        {"StatefulPartitionedCall", inline_call},
        {"SymbolicGradient", inline_gradient},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strcmp(rows[i].op, op) == 0)
            return rows[i].fn;
    return name_table_find(&in->library.functions, op) != NULL ? inline_call : NULL;
}

/* Adds the node, or what replaces it. */
static void emit(struct inliner *in, Tf__NodeDef *node, const char *pivot)
{
    const inline_fn fn = caller(in, node->op);
    struct site s = {.node = node, .pivot = pivot};
    const char *reason = NULL;

    if (fn == NULL) {
        inline_put(in, node);
        return;
    }
    if (node->n_input > IMPORT_MAX_INPUTS)
        in->rc = import_fail(in->im, ERR_LIMIT, "node '%s' has %zu inputs", node->name,
                             node->n_input);
    if (inline_charge(in, 2 * node->n_input * sizeof(char *)) != 0)
        return;
    s.inputs = ARENA_ARRAY(&in->im->arena, const char *, node->n_input + 1);
    s.controls = ARENA_ARRAY(&in->im->arena, const char *, node->n_input + 1);
    for (size_t i = 0; i < node->n_input; i++)
        if (node->input[i][0] == '^')
            s.controls[s.n_controls++] = node->input[i];
        else
            s.inputs[s.n_inputs++] = node->input[i];
    if (fn(in, &s, &reason) != 0 || reason == NULL)
        return;
    name_table_add(&in->im->reasons, node->name)->value =
        arena_printf(&in->im->arena, "this %s cannot be run: %s", node->op, reason);
    inline_put(in, node);
}

static int is_needed(struct inliner *in, const Tf__GraphDef *graph)
{
    for (size_t i = 0; i < graph->n_node; i++)
        if (caller(in, graph->node[i]->op) != NULL)
            return 1;
    return 0;
}

int inline_functions(struct import *im)
{
    const Tf__GraphDef *graph = im->meta->graph_def;
    struct inliner in = {.im = im};

    library_init(&in.library, im);
    im->defs = graph->node;
    im->n_nodes = graph->n_node;
    if (is_needed(&in, graph)) {
        for (size_t i = 0; i < graph->n_node; i++)
            (void)name_table_add(&in.names, graph->node[i]->name);
        for (size_t i = 0; in.rc == 0 && i < graph->n_node; i++)
            emit(&in, graph->node[i], NULL);
        if (in.rc == 0)
            in.rc = inline_forward(&in);
        im->defs = arena_memdup(&im->arena, in.nodes, in.n * sizeof(*in.nodes));
        im->n_nodes = in.n;
    }
    free(in.nodes);
    name_table_done(&in.names);
    name_table_done(&in.forwards);
    library_done(&in.library);
    return in.rc;
}
