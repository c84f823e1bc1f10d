#include "agent/saver/inline.h"

#include "agent/saver/metagraph_import.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

static void emit(struct inliner *in, Tf__NodeDef *node, const char *pivot);

/* ---- names and new nodes ---- */

static int charge(struct inliner *in, size_t bytes)
{
    if (in->rc == 0 && bytes > INLINE_MAX_BYTES - in->bytes)
        in->rc =
            import_fail(in->im, ERR_LIMIT,
                        "its functions, where they are called, take more than %d MiB",
                        INLINE_MAX_BYTES >> 20);
    if (in->rc == 0)
        in->bytes += bytes;
    return in->rc;
}

/* "outer/part_number/name"; number -1 and an empty name: without. Made unique. */
static const char *claim(struct inliner *in, const char *outer, const char *part,
                         int number, const char *name)
{
    struct arena *a = &in->im->arena;
    const char *text = number >= 0 ? arena_printf(a, "%s/%s_%d", outer, part, number)
                                   : arena_printf(a, "%s/%s", outer, part);
    const char *first = name[0] != '\0' ? arena_printf(a, "%s/%s", text, name) : text;
    struct name_entry *e = name_table_find(&in->names, first);

    for (text = first; e != NULL;) {
        text = arena_printf(a, "%s_%d", first, ++e->count);
        if (name_table_find(&in->names, text) == NULL)
            break;
    }
    (void)name_table_add(&in->names, text);
    (void)charge(in, 4 * strlen(text)); /* with its part, and where it is used */
    return text;
}

const char *inline_tensor(struct inliner *in, const char *name, int index)
{
    return index == 0 ? name : arena_printf(&in->im->arena, "%s:%d", name, index);
}

const char *inline_control(struct inliner *in, const char *tensor)
{
    return arena_printf(&in->im->arena, "^%.*s", (int)strcspn(tensor, ":"), tensor);
}

Tf__AttrValue *inline_attr(struct inliner *in, Tf__NodeDef *node, const char *name,
                           int kind)
{
    struct arena *a = &in->im->arena;
    Tf__NodeDef__AttrEntry **more =
        ARENA_ARRAY(a, Tf__NodeDef__AttrEntry *, node->n_attr + 1);
    Tf__NodeDef__AttrEntry *e = MESSAGE_NEW(a, NodeDef__AttrEntry, node_def__attr_entry);

    if (node->n_attr > 0)
        memcpy(more, node->attr, node->n_attr * sizeof(*more));
    e->key = arena_strdup(a, name);
    e->value = MESSAGE_NEW(a, AttrValue, attr_value);
    e->value->value_case = (Tf__AttrValue__ValueCase)kind;
    more[node->n_attr++] = e;
    node->attr = more;
    return e->value;
}

static void put(struct inliner *in, Tf__NodeDef *node)
{
    if (in->rc == 0 && in->n >= METAGRAPH_MAX_NODES)
        in->rc =
            import_fail(in->im, ERR_LIMIT,
                        "its functions, where they are called, have more than %d nodes",
                        METAGRAPH_MAX_NODES);
    if (in->rc != 0)
        return;
    ARRAY_GROW(in->nodes, in->n, in->cap);
    in->nodes[in->n++] = node;
}

static Tf__NodeDef *new_node(struct inliner *in, const struct site *s, const char *op,
                             const char *name, const char *const *inputs, int n_inputs,
                             const char *const *controls, int n_controls)
{
    Tf__NodeDef *node = MESSAGE_NEW(&in->im->arena, NodeDef, node_def);
    const size_t n = (size_t)n_inputs + (size_t)n_controls;

    node->name = arena_strdup(&in->im->arena, name);
    node->op = arena_strdup(&in->im->arena, op);
    node->device = s->node->device;
    if (charge(in, sizeof(*node) + strlen(name) + n * sizeof(char *)) != 0)
        return node;
    node->input = ARENA_ARRAY(&in->im->arena, char *, n + 1);
    for (int i = 0; i < n_inputs; i++)
        node->input[node->n_input++] = arena_strdup(&in->im->arena, inputs[i]);
    for (int i = 0; i < n_controls; i++)
        node->input[node->n_input++] = arena_strdup(&in->im->arena, controls[i]);
    put(in, node);
    return node;
}

Tf__NodeDef *inline_make(struct inliner *in, const struct site *s, const struct made *m)
{
    Tf__NodeDef *node =
        new_node(in, s, m->op, claim(in, s->node->name, m->part, m->number, ""),
                 m->inputs, m->n_inputs, m->controls, m->n_controls);

    if (m->type != 0)
        inline_attr(in, node, "T", TF__ATTR_VALUE__VALUE_TYPE)->type = m->type;
    return node;
}

/* ---- the nodes of a function ---- */

const struct function *inline_find(struct inliner *in, const struct site *s,
                                   const Tf__AttrValue *value, int n_inputs,
                                   int n_results, struct instance *ret,
                                   const char **ret_reason)
{
    struct arena *a = &in->im->arena;
    const struct function *f;

    *ret = (struct instance){.attrs.node = s->node};
    if (value != NULL && value->value_case == TF__ATTR_VALUE__VALUE_FUNC)
        ret->attrs.list =
            MESSAGE_UNPACK(a, name_attr_list, value->func.data, value->func.len);
    f = ret->attrs.list != NULL ? library_find(&in->library, ret->attrs.list->name)
                                : NULL;
    *ret_reason = NULL;
    if (f == NULL)
        *ret_reason = ret->attrs.list == NULL
                          ? "it names no function"
                          : arena_printf(a, "its function '%s' is not in the file",
                                         ret->attrs.list->name);
    else if (f->reason != NULL)
        *ret_reason = f->reason;
    else if (f->n_inputs != n_inputs || f->n_results != n_results)
        *ret_reason = arena_printf(
            a, "its function '%s' has %d inputs and %d results, not %d and %d", f->name,
            f->n_inputs, f->n_results, n_inputs, n_results);
    ret->f = f;
    return *ret_reason == NULL ? f : NULL;
}

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
    if (charge(in, bytes) == 0)
        emit(in, node, x->pivot);
}

void inline_instance(struct inliner *in, const struct site *s, struct instance *x)
{
    const struct function *f = x->f;
    const int n = (int)f->def->n_node_def;
    const char **names = xcalloc((size_t)n + 1, sizeof(*names));

    x->results = ARENA_ARRAY(&in->im->arena, const char *, f->n_results + 1);
    x->controls = ARENA_ARRAY(&in->im->arena, const char *, f->n_controls + 1);
    for (int i = 0; i < n; i++)
        names[i] = in->rc == 0
                       ? claim(in, s->node->name, x->part, -1, f->def->node_def[i]->name)
                       : "";
    for (int i = 0; in->rc == 0 && i < n; i++)
        add_node(in, s, x, i, names);
    for (int i = 0; i < f->n_results; i++)
        x->results[i] = in->rc == 0 ? outside(in, x, names, f->results[i]) : "";
    for (int i = 0; i < f->n_controls; i++)
        x->controls[i] = in->rc == 0 ? inline_control(in, names[f->controls[i]]) : "";
    free(names);
}

/* ---- the results of a node that was replaced ---- */

struct forward {
    int n;
    const char **results;
};

int inline_finish(struct inliner *in, const struct site *s, const char **results,
                  const int *types, int n, const char *const *controls, int n_controls)
{
    struct forward *f = ARENA_NEW(&in->im->arena, struct forward);
    Tf__NodeDef *node;
    const Tf__AttrValue *shapes = node_attr(s->node, "_output_shapes");

    for (int i = 0; i < n && n_controls > 0; i++) {
        const struct made identity = {"Identity", "result", i,          &results[i],
                                      1,          controls, n_controls, types[i]};

        results[i] = inline_make(in, s, &identity)->name;
    }
    *f = (struct forward){n, results};
    name_table_add(&in->forwards, s->node->name)->value = f;
    node = new_node(in, s,
                    n == 0   ? "NoOp"
                    : n == 1 ? "Identity"
                             : "IdentityN",
                    s->node->name, results, n, controls, n == 0 ? n_controls : 0);
    if (n == 1) {
        inline_attr(in, node, "T", TF__ATTR_VALUE__VALUE_TYPE)->type = types[0];
    } else if (n > 1) {
        Tf__AttrValue *v = inline_attr(in, node, "T", TF__ATTR_VALUE__VALUE_LIST);

        v->list =
            MESSAGE_NEW(&in->im->arena, AttrValue__ListValue, attr_value__list_value);
        v->list->type = arena_memdup(&in->im->arena, types, sizeof(*types) * (size_t)n);
        v->list->n_type = (size_t)n;
    }
    if (shapes != NULL)
        *inline_attr(in, node, "_output_shapes", 0) = *shapes;
    return in->rc;
}

/* The tensor that the text names, if that node was replaced; NULL: it was not. */
static const char **forwarded(const struct inliner *in, struct arena *scratch,
                              const char *text)
{
    const size_t len = strcspn(text, ":");
    const struct name_entry *e = name_table_find(
        &in->forwards, text[len] != '\0' ? arena_strndup(scratch, text, len) : text);
    const struct forward *f = e != NULL ? e->value : NULL;
    char *end = NULL;
    long i = text[len] != '\0' ? strtol(text + len + 1, &end, 10) : 0;

    return f != NULL && (end == NULL || *end == '\0') && i >= 0 && i < f->n
               ? &f->results[i]
               : NULL;
}

/* Names the results of replaced nodes in the inputs of all others. */
static int forward_inputs(struct inliner *in)
{
    struct arena scratch = {0};
    int rc = 0;

    for (size_t k = 0; rc == 0 && k < in->n; k++)
        for (size_t i = 0; rc == 0 && i < in->nodes[k]->n_input; i++) {
            const char *text = in->nodes[k]->input[i], **at = NULL, **next;
            size_t steps = 0;

            arena_reset(&scratch);
            for (; text[0] != '^' && (next = forwarded(in, &scratch, text)) != NULL;
                 at = next) {
                if (at != NULL && (at = forwarded(in, &scratch, *next)) != NULL)
                    *next = *at; /* a shorter way for those that come later */
                text = *next;
                if (++steps > in->forwards.n)
                    break;
            }
            if (steps > in->forwards.n)
                rc = import_fail(in->im, ERR_FORMAT, "node '%s' is an input of itself",
                                 in->nodes[k]->name);
            in->nodes[k]->input[i] = arena_strdup(&in->im->arena, text);
        }
    arena_done(&scratch);
    return rc;
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
        put(in, node);
        return;
    }
    if (node->n_input > IMPORT_MAX_INPUTS)
        in->rc = import_fail(in->im, ERR_LIMIT, "node '%s' has %zu inputs", node->name,
                             node->n_input);
    if (charge(in, 2 * node->n_input * sizeof(char *)) != 0)
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
    put(in, node);
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
            in.rc = forward_inputs(&in);
        im->defs = arena_memdup(&im->arena, in.nodes, in.n * sizeof(*in.nodes));
        im->n_nodes = in.n;
    }
    free(in.nodes);
    name_table_done(&in.names);
    name_table_done(&in.forwards);
    library_done(&in.library);
    return in.rc;
}
