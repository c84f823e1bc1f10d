/* Names, new nodes, and what stands in place of a node that was replaced. */
#include "agent/saver/inline.h"

#include "agent/saver/metagraph_import.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

/* ---- names and new nodes ---- */

int inline_charge(struct inliner *in, size_t bytes)
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
const char *inline_claim(struct inliner *in, const char *outer, const char *part,
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
    (void)inline_charge(in, 4 * strlen(text)); /* with its part, and where it is used */
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

void inline_put(struct inliner *in, Tf__NodeDef *node)
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
    if (inline_charge(in, sizeof(*node) + strlen(name) + n * sizeof(char *)) != 0)
        return node;
    node->input = ARENA_ARRAY(&in->im->arena, char *, n + 1);
    for (int i = 0; i < n_inputs; i++)
        node->input[node->n_input++] = arena_strdup(&in->im->arena, inputs[i]);
    for (int i = 0; i < n_controls; i++)
        node->input[node->n_input++] = arena_strdup(&in->im->arena, controls[i]);
    inline_put(in, node);
    return node;
}

Tf__NodeDef *inline_make(struct inliner *in, const struct site *s, const struct made *m)
{
    Tf__NodeDef *node =
        new_node(in, s, m->op, inline_claim(in, s->node->name, m->part, m->number, ""),
                 m->inputs, m->n_inputs, m->controls, m->n_controls);

    if (m->type != 0)
        inline_attr(in, node, "T", TF__ATTR_VALUE__VALUE_TYPE)->type = m->type;
    return node;
}

/* ---- functions ---- */

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
int inline_forward(struct inliner *in)
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
