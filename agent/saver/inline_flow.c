/* What conditions and loops of TensorFlow 1 have around the nodes of their functions. */
#include "agent/saver/inline.h"

#include <stdio.h>
#include <string.h>

#define INPUTS(...)                                                                      \
    (const char *const[]){__VA_ARGS__},                                                  \
        sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)

/* Makes the node "n/part_number" with the inputs; returns its name. */
static const char *make(struct inliner *in, const struct site *s, const char *op,
                        const char *part, int number, int type, const char *const *inputs,
                        size_t n_inputs)
{
    const struct made m = {.op = op,
                           .part = part,
                           .number = number,
                           .type = type,
                           .inputs = inputs,
                           .n_inputs = (int)n_inputs};

    return inline_make(in, s, &m)->name;
}

static int list_length(const Tf__NodeDef *node, const char *attr)
{
    const Tf__AttrValue *v = node_attr(node, attr);

    return v != NULL && v->value_case == TF__ATTR_VALUE__VALUE_LIST ? (int)v->list->n_type
                                                                    : 0;
}

/* The types in a list attribute; NULL if it has not n of them. */
static const int *type_list(const Tf__NodeDef *node, const char *attr, int n)
{
    static const int none[1];

    if (n != list_length(node, attr))
        return NULL;
    return n == 0 ? none : node_attr(node, attr)->list->type;
}

/* ---- conditions ---- */

/* The function of branch i of an If or a Case. */
static const Tf__AttrValue *branch_attr(struct inliner *in, const Tf__NodeDef *node,
                                        int i)
{
    const Tf__AttrValue *all = node_attr(node, "branches");
    Tf__AttrValue *v;

    if (all == NULL || all->value_case != TF__ATTR_VALUE__VALUE_LIST)
        return node_attr(node, i == 0 ? "then_branch" : "else_branch");
    v = MESSAGE_NEW(&in->im->arena, AttrValue, attr_value);
    v->value_case = TF__ATTR_VALUE__VALUE_FUNC;
    v->func = all->list->func[i];
    return v;
}

static int find_branches(struct inliner *in, const struct site *s, struct branches *b,
                         const char **ret_reason)
{
    const Tf__AttrValue *all = node_attr(s->node, "branches");
    const Tf__AttrValue *cond = node_attr(s->node, "Tcond");
    const int is_case = strstr(s->node->op, "Case") != NULL;

    b->n = 2;
    if (is_case)
        b->n = all != NULL && all->value_case == TF__ATTR_VALUE__VALUE_LIST
                   ? (int)all->list->n_func
                   : 0;
    b->n_in = s->n_inputs - 1;
    b->n_out = list_length(s->node, "Tout");
    b->in_types = type_list(s->node, "Tin", b->n_in);
    b->out_types = type_list(s->node, "Tout", b->n_out);
    if (b->n < 1 || b->n_in < 0 || b->in_types == NULL || b->n_out > IMPORT_MAX_INPUTS)
        *ret_reason = "its attributes do not fit its inputs";
    else if (!is_case && (cond == NULL || cond->type != DT_BOOL))
        *ret_reason = "its condition is no bool";
    if (*ret_reason != NULL)
        return -1;
    b->x = ARENA_ARRAY(&in->im->arena, struct instance, b->n);
    for (int k = 0; k < b->n; k++) {
        if (inline_find(in, s, branch_attr(in, s->node, k), b->n_in, b->n_out, &b->x[k],
                        ret_reason) == NULL)
            return -1;
        b->x[k].part = is_case  ? arena_printf(&in->im->arena, "branch%d", k)
                       : k == 0 ? "then"
                                : "else";
    }
    return 0;
}

/* What decides between branch k and the next: the condition, or "the index is k". */
static void make_deciders(struct inliner *in, const struct site *s, struct branches *b)
{
    const int is_case = strstr(s->node->op, "Case") != NULL;

    b->decides = ARENA_ARRAY(&in->im->arena, const char *, b->n);
    for (int k = 0; k < b->n - 1; k++) {
        const char *wait = inline_control(in, s->inputs[0]);
        const struct made number = {.op = "Const",
                                    .part = "index",
                                    .number = k,
                                    .controls = &wait,
                                    .n_controls = 1};
        Tf__NodeDef *node;
        Tf__TensorProto *t;

        if (!is_case) {
            b->decides[k] = s->inputs[0];
            continue;
        }
        node = inline_make(in, s, &number);
        inline_attr(in, node, "dtype", TF__ATTR_VALUE__VALUE_TYPE)->type = DT_INT32;
        t = MESSAGE_NEW(&in->im->arena, TensorProto, tensor_proto);
        t->dtype = DT_INT32;
        t->tensor_shape =
            MESSAGE_NEW(&in->im->arena, TensorShapeProto, tensor_shape_proto);
        t->int_val = arena_memdup(&in->im->arena, &k, sizeof(k));
        t->n_int_val = 1;
        inline_attr(in, node, "value", TF__ATTR_VALUE__VALUE_TENSOR)->tensor = t;
        b->decides[k] =
            make(in, s, "Equal", "is", k, DT_INT32, INPUTS(s->inputs[0], node->name));
    }
}

/* Passes `x` to all branches: what branch k gets is written to the results of `put`. */
static void switch_input(struct inliner *in, const struct site *s,
                         const struct branches *b, const char *part, int number, int type,
                         const char *x, const char **ret)
{
    for (int k = 0; k < b->n - 1; k++) {
        const char *both[] = {x, b->decides[k]};
        const struct made m = {.op = "Switch",
                               .part = part,
                               .number = b->n > 2 ? number * (b->n - 1) + k : number,
                               .type = type,
                               .inputs = both,
                               .n_inputs = 2,
                               .controls = s->controls,
                               .n_controls = s->n_controls};
        const char *name = inline_make(in, s, &m)->name;

        ret[k] = inline_tensor(in, name, 1);
        x = name;
    }
    ret[b->n - 1] = x;
}

static void switch_inputs(struct inliner *in, const struct site *s, struct branches *b)
{
    const char **got = ARENA_ARRAY(&in->im->arena, const char *, b->n);

    for (int k = 0; k < b->n; k++)
        b->x[k].args = ARENA_ARRAY(&in->im->arena, const char *, b->n_in + 1);
    for (int i = 0; in->rc == 0 && i < b->n_in; i++) {
        switch_input(in, s, b, "Switch", i, b->in_types[i], s->inputs[i + 1], got);
        for (int k = 0; k < b->n; k++)
            b->x[k].args[i] = got[k];
    }
    if (b->n == 1)
        b->x[0].pivot = s->n_controls > 0 ? s->controls[0] : s->pivot;
    else
        switch_input(in, s, b, "Switch_pivot", 0, DT_BOOL, b->decides[0], got);
    for (int k = 0; b->n > 1 && k < b->n; k++)
        b->x[k].pivot = inline_control(
            in, make(in, s, "Identity", "pivot", k, DT_BOOL, INPUTS(got[k])));
}

/* Returns the control input that waits for what the branches must run; NULL: nothing. */
static const char *executed(struct inliner *in, const struct site *s,
                            const struct branches *b)
{
    const char **done = ARENA_ARRAY(&in->im->arena, const char *, b->n);
    int has_effects = b->n_out == 0;
    Tf__NodeDef *merge;
    struct made m = {.op = "Merge", .part = "executed", .number = -1, .type = DT_BOOL};

    for (int k = 0; k < b->n; k++)
        has_effects |= b->x[k].f->n_controls > 0;
    if (!has_effects || b->n == 1)
        return NULL;
    for (int k = 0; k < b->n; k++) {
        const char *pivot = b->x[k].pivot + 1;
        const struct made end = {.op = "Identity",
                                 .part = "end",
                                 .number = k,
                                 .type = DT_BOOL,
                                 .inputs = &pivot,
                                 .n_inputs = 1,
                                 .controls = b->x[k].controls,
                                 .n_controls = b->x[k].f->n_controls};

        done[k] = inline_make(in, s, &end)->name;
    }
    m.inputs = done;
    m.n_inputs = b->n;
    merge = inline_make(in, s, &m);
    inline_attr(in, merge, "N", TF__ATTR_VALUE__VALUE_I)->i = b->n;
    return inline_control(in, merge->name);
}

int flow_begin_branches(struct inliner *in, const struct site *s, struct branches *b,
                        const char **ret_reason)
{
    if (find_branches(in, s, b, ret_reason) != 0)
        return -1;
    make_deciders(in, s, b);
    switch_inputs(in, s, b);
    return 0;
}

int flow_end_branches(struct inliner *in, const struct site *s, struct branches *b)
{
    const char **results = ARENA_ARRAY(&in->im->arena, const char *, b->n_out + 1);
    const char **all = ARENA_ARRAY(&in->im->arena, const char *, b->n), *wait;

    for (int i = 0; i < b->n_out; i++) {
        struct made m = {
            .op = "Merge", .part = "Merge", .number = i, .type = b->out_types[i]};
        Tf__NodeDef *merge;

        for (int k = 0; k < b->n; k++)
            all[k] = b->x[k].results[i];
        results[i] = all[0];
        if (b->n == 1)
            continue;
        m.inputs = all;
        m.n_inputs = b->n;
        merge = inline_make(in, s, &m);
        inline_attr(in, merge, "N", TF__ATTR_VALUE__VALUE_I)->i = b->n;
        results[i] = merge->name;
    }
    if (b->n == 1)
        return inline_finish(in, s, results, b->out_types, b->n_out, b->x[0].controls,
                             b->x[0].f->n_controls);
    wait = executed(in, s, b);
    return inline_finish(in, s, results, b->out_types, b->n_out, &wait, wait != NULL);
}

/* ---- loops ---- */

static const char *enter(struct inliner *in, const struct site *s, const struct loop *l,
                         int i, int is_constant)
{
    const struct made m = {.op = "Enter",
                           .part = "Enter",
                           .number = i,
                           .type = l->types[i],
                           .inputs = &s->inputs[i],
                           .n_inputs = 1,
                           .controls = s->controls,
                           .n_controls = s->n_controls};
    const Tf__AttrValue *n = node_attr(s->node, "parallel_iterations");
    Tf__NodeDef *node = inline_make(in, s, &m);
    Tf__AttrValue *frame = inline_attr(in, node, "frame_name", TF__ATTR_VALUE__VALUE_S);

    frame->s = message_bytes(&in->im->arena, s->node->name, strlen(s->node->name));
    inline_attr(in, node, "is_constant", TF__ATTR_VALUE__VALUE_B)->b = is_constant;
    inline_attr(in, node, "parallel_iterations", TF__ATTR_VALUE__VALUE_I)->i =
        n != NULL && n->value_case == TF__ATTR_VALUE__VALUE_I && n->i > 0 ? n->i : 10;
    return node->name;
}

static int find_loop(struct inliner *in, const struct site *s, struct loop *l,
                     const char **ret_reason)
{
    struct arena *a = &in->im->arena;

    l->n = s->n_inputs;
    l->types = type_list(s->node, "T", l->n);
    if (l->types == NULL || l->n == 0)
        *ret_reason = "its attributes do not fit its inputs";
    else if (inline_find(in, s, node_attr(s->node, "cond"), l->n, 1, &l->cond,
                         ret_reason) != NULL)
        (void)inline_find(in, s, node_attr(s->node, "body"), l->n, l->n, &l->body,
                          ret_reason);
    if (*ret_reason != NULL)
        return -1;
    if (function_type(l->cond.f, l->n, &l->cond.attrs) != DT_BOOL)
        *ret_reason =
            arena_printf(a, "its condition '%s' returns no bool", l->cond.f->name);
    l->cond.part = "cond";
    l->body.part = "body";
    l->constant = ARENA_ARRAY(a, const char *, l->n);
    l->merge = ARENA_ARRAY(a, Tf__NodeDef *, l->n);
    l->left = ARENA_ARRAY(a, const char *, l->n);
    l->cond.args = ARENA_ARRAY(a, const char *, l->n);
    l->body.args = ARENA_ARRAY(a, const char *, l->n);
    l->first = -1;
    for (int i = l->n - 1; i >= 0; i--)
        if (!function_passes_on(l->body.f, i))
            l->first = i;
    for (int i = 0; l->first < 0 && i < l->n; i++)
        if (l->types[i] != DT_RESOURCE)
            l->first = i; /* of constants alone, there would be nothing to leave with */
    if (l->first < 0)
        *ret_reason = "it has no variable";
    return *ret_reason == NULL ? 0 : -1;
}

static void make_enters(struct inliner *in, const struct site *s, struct loop *l)
{
    for (int i = 0; in->rc == 0 && i < l->n; i++) {
        const int is_constant = i != l->first && function_passes_on(l->body.f, i);
        const char *in_name = enter(in, s, l, i, is_constant);
        struct made m = {
            .op = "Merge", .part = "Merge", .number = i, .type = l->types[i]};

        if (is_constant) {
            l->cond.args[i] = l->body.args[i] = l->constant[i] = in_name;
            continue;
        }
        m.inputs = (const char *const[]){in_name, in_name}; /* the second: close_loop */
        m.n_inputs = 2;
        l->merge[i] = inline_make(in, s, &m);
        inline_attr(in, l->merge[i], "N", TF__ATTR_VALUE__VALUE_I)->i = 2;
        l->cond.args[i] = l->merge[i]->name;
    }
    if (in->rc == 0)
        l->cond.pivot = inline_control(in, l->merge[l->first]->name);
}

void flow_begin_body(struct inliner *in, const struct site *s, struct loop *l)
{
    const struct made m = {.op = "LoopCond",
                           .part = "LoopCond",
                           .number = -1,
                           .inputs = l->cond.results,
                           .n_inputs = 1,
                           .controls = l->cond.controls,
                           .n_controls = l->cond.f->n_controls};
    const char *cond = inline_make(in, s, &m)->name, *first;

    for (int i = 0; in->rc == 0 && i < l->n; i++) {
        if (l->constant[i] != NULL)
            continue;
        l->left[i] = make(in, s, "Switch", "Switch", i, l->types[i],
                          INPUTS(l->merge[i]->name, cond));
        l->body.args[i] = inline_tensor(in, l->left[i], 1);
    }
    if (in->rc != 0)
        return;
    first = l->body.args[l->first];
    l->body.pivot = inline_control(
        in, make(in, s, "Identity", "pivot", -1, l->types[l->first], INPUTS(first)));
}

/* Ends the body; the results are what the loop leaves with. */
static void close_loop(struct inliner *in, const struct site *s, struct loop *l,
                       const char **results)
{
    for (int i = 0; in->rc == 0 && i < l->n; i++) {
        const struct made m = {.op = "NextIteration",
                               .part = "NextIteration",
                               .number = i,
                               .type = l->types[i],
                               .inputs = &l->body.results[i],
                               .n_inputs = 1,
                               .controls = l->body.controls,
                               .n_controls = l->body.f->n_controls};

        results[i] = s->inputs[i];
        if (l->constant[i] != NULL)
            continue;
        l->merge[i]->input[1] = inline_make(in, s, &m)->name;
        results[i] = make(in, s, "Exit", "Exit", i, l->types[i], INPUTS(l->left[i]));
    }
}

int flow_begin_loop(struct inliner *in, const struct site *s, struct loop *l,
                    const char **ret_reason)
{
    if (find_loop(in, s, l, ret_reason) != 0)
        return -1;
    make_enters(in, s, l);
    return 0;
}

int flow_end_loop(struct inliner *in, const struct site *s, struct loop *l)
{
    const char **results = ARENA_ARRAY(&in->im->arena, const char *, l->n);

    close_loop(in, s, l, results);
    return inline_finish(in, s, results, l->types, l->n, NULL, 0);
}
