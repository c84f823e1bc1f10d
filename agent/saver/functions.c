#include "agent/saver/functions.h"

#include "agent/graph/signature.h"
#include "agent/saver/op_list.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

/* ---- the library ---- */

void library_init(struct library *l, struct import *im)
{
    const ProtobufCBinaryData bytes = im->meta->graph_def->library;
    const Tf__FunctionDefLibrary *all =
        MESSAGE_UNPACK(&im->arena, function_def_library, bytes.data, bytes.len);

    *l = (struct library){.im = im};
    for (size_t i = 0; all != NULL && i < all->n_function; i++) {
        const Tf__FunctionDef *def = MESSAGE_UNPACK(
            &im->arena, function_def, all->function[i].data, all->function[i].len);
        struct function *f;

        /* the first definition counts */
        if (def == NULL || def->signature == NULL ||
            name_table_find(&l->functions, def->signature->name) != NULL)
            continue;
        f = ARENA_NEW(&im->arena, struct function);
        *f = (struct function){.name = def->signature->name, .def = def};
        name_table_add(&l->functions, f->name)->value = f;
    }
}

void library_done(struct library *l)
{
    name_table_done(&l->functions);
}

/* ---- outputs of nodes ---- */

const Tf__AttrValue *node_attr(const Tf__NodeDef *node, const char *name)
{
    for (size_t i = 0; i < node->n_attr; i++)
        if (strcmp(node->attr[i]->key, name) == 0)
            return node->attr[i]->value;
    return NULL;
}

/* The number of tensors of an output; -1: it is not known. */
static int64_t tensors_of(const Tf__NodeDef *node, const Tf__OpDef__ArgDef *arg)
{
    const char *attr =
        arg->number_attr[0] != '\0' ? arg->number_attr : arg->type_list_attr;
    const Tf__AttrValue *v;

    if (attr[0] == '\0')
        return 1;
    v = node_attr(node, attr);
    if (v != NULL && v->value_case == TF__ATTR_VALUE__VALUE_I)
        return v->i;
    return v != NULL && v->value_case == TF__ATTR_VALUE__VALUE_LIST
               ? (int64_t)v->list->n_type
               : -1;
}

/* The definition of the node's op: the file's, or that of the table. NULL: neither has it. */
static const Tf__OpDef *definition(struct library *l, const Tf__NodeDef *node)
{
    const struct op_def *def = op_def_find(graph_op_table(l->im->g), node->op);
    const Tf__OpDef *p = import_listed(l->im, node->op);
    const struct name_entry *e = name_table_find(&l->functions, node->op);

    if (p == NULL && def != NULL)
        p = op_def_to_proto(&l->im->arena, def);
    if (p == NULL && e != NULL)
        p = ((const struct function *)e->value)->def->signature;
    return p;
}

/* Whether the node calls functions: its outputs are then one list, "output". */
static int is_call(const Tf__NodeDef *node)
{
    static const char *const ops[] = {"If",
                                      "StatelessIf",
                                      "Case",
                                      "While",
                                      "StatelessCase",
                                      "StatelessWhile",
                                      "PartitionedCall",
                                      "StatefulPartitionedCall"};

    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
        if (strcmp(node->op, ops[i]) == 0)
            return 1;
    return 0;
}

/* The number of tensor `index` of the output `name` among all outputs of the node; -1: it has
 * no such tensor, or its op is not known. */
static int output_number(struct library *l, const Tf__NodeDef *node, struct span name,
                         int64_t index)
{
    const Tf__OpDef *p = definition(l, node);
    int64_t first = 0;

    if (is_call(node))
        return span_is(name, "output") && index <= IMPORT_MAX_INPUTS ? (int)index : -1;
    for (size_t i = 0; p != NULL && i < p->n_output_arg; i++) {
        const int64_t n = tensors_of(node, p->output_arg[i]);

        if (n < 0 || n > IMPORT_MAX_INPUTS)
            return -1;
        if (span_is(name, p->output_arg[i]->name))
            return index < n ? (int)(first + index) : -1;
        first += n;
    }
    return -1;
}

/* ---- names inside a function ---- */

struct reading {
    struct library *l;
    struct function *f;
    struct name_table names; /* of inputs and nodes: function_ref.at in `count` */
};

/* Returns the reason why the function cannot be used. */
#define because(r, ...)                                                                  \
    ((r)->f->reason = arena_printf(&(r)->l->im->arena, __VA_ARGS__), -1)

static int read_ref(struct reading *r, const char *text, struct function_ref *ret)
{
    const int is_control = text[0] == '^';
    const char *name = text + is_control, *colon = strchr(name, ':'), *second;
    const struct name_entry *e;
    const Tf__NodeDef *node;
    char *end;
    long index = 0;

    e = name_table_find(&r->names, colon == NULL ? name
                                                 : arena_strndup(&r->l->im->arena, name,
                                                                 (size_t)(colon - name)));
    if (e == NULL)
        return because(r, "its function '%s' has no '%s'", r->f->name, text);
    *ret = (struct function_ref){e->count, is_control ? -1 : 0};
    if (is_control || (e->count < r->f->n_inputs && colon == NULL))
        return 0;
    second = colon != NULL ? strchr(colon + 1, ':') : NULL;
    if (colon != NULL && e->count < r->f->n_inputs && strcmp(colon, ":0") == 0)
        return 0;
    if (second == NULL || e->count < r->f->n_inputs)
        return because(r, "its function '%s': '%s' names no tensor", r->f->name, text);
    index = strtol(second + 1, &end, 10);
    node = r->f->def->node_def[e->count - r->f->n_inputs];
    if (end == second + 1 || *end != '\0' || index < 0)
        return because(r, "its function '%s': '%s' names no tensor", r->f->name, text);
    ret->index = output_number(
        r->l, node, (struct span){colon + 1, (size_t)(second - colon - 1)}, index);
    if (ret->index < 0)
        return because(r, "its function '%s' uses '%s', which op %s is not known to have",
                       r->f->name, text, node->op);
    return 0;
}

static int add_name(struct reading *r, const char *name, int at)
{
    if (name_table_find(&r->names, name) != NULL)
        return because(r, "its function '%s' has '%s' twice", r->f->name, name);
    name_table_add(&r->names, name)->count = at;
    return 0;
}

static int read_inputs(struct reading *r)
{
    const Tf__FunctionDef *def = r->f->def;
    const Tf__OpDef *sig = def->signature;

    for (size_t i = 0; i < sig->n_input_arg; i++) {
        if (sig->input_arg[i]->number_attr[0] != '\0' ||
            sig->input_arg[i]->type_list_attr[0] != '\0')
            return because(r, "its function '%s' takes lists of tensors", r->f->name);
        if (add_name(r, sig->input_arg[i]->name, (int)i) != 0)
            return -1;
    }
    for (size_t i = 0; i < def->n_node_def; i++)
        if (add_name(r, def->node_def[i]->name, r->f->n_inputs + (int)i) != 0)
            return -1;
    r->f->refs = ARENA_ARRAY(&r->l->im->arena, struct function_ref *, def->n_node_def);
    for (size_t i = 0; i < def->n_node_def; i++) {
        const Tf__NodeDef *node = def->node_def[i];

        r->f->refs[i] = ARENA_ARRAY(&r->l->im->arena, struct function_ref, node->n_input);
        for (size_t k = 0; k < node->n_input; k++)
            if (read_ref(r, node->input[k], &r->f->refs[i][k]) != 0)
                return -1;
    }
    return 0;
}

static int read_results(struct reading *r)
{
    const Tf__FunctionDef *def = r->f->def;
    struct name_table rets = {0};
    int rc = 0;

    for (size_t i = 0; i < def->n_ret; i++)
        name_table_add(&rets, def->ret[i]->key)->value = def->ret[i]->value;
    r->f->results = ARENA_ARRAY(&r->l->im->arena, struct function_ref, r->f->n_results);
    for (int i = 0; rc == 0 && i < r->f->n_results; i++) {
        const Tf__OpDef__ArgDef *arg = def->signature->output_arg[i];
        const struct name_entry *e = name_table_find(&rets, arg->name);

        if (arg->number_attr[0] != '\0' || arg->type_list_attr[0] != '\0')
            rc = because(r, "its function '%s' returns lists of tensors", r->f->name);
        else if (e == NULL || e->value == NULL)
            rc =
                because(r, "its function '%s' has no result '%s'", r->f->name, arg->name);
        else
            rc = read_ref(r, e->value, &r->f->results[i]);
        if (rc == 0 && r->f->results[i].index < 0)
            rc =
                because(r, "its function '%s' has no result '%s'", r->f->name, arg->name);
    }
    name_table_done(&rets);
    return rc;
}

static int read_controls(struct reading *r)
{
    const Tf__FunctionDef *def = r->f->def;

    r->f->controls = ARENA_ARRAY(&r->l->im->arena, int, def->n_control_ret);
    for (size_t i = 0; i < def->n_control_ret; i++) {
        const struct name_entry *e =
            name_table_find(&r->names, def->control_ret[i]->value);

        if (e == NULL || e->count < r->f->n_inputs)
            return because(r, "its function '%s' has no node '%s'", r->f->name,
                           def->control_ret[i]->value);
        r->f->controls[r->f->n_controls++] = e->count - r->f->n_inputs;
    }
    return 0;
}

/* ---- what a function calls ---- */

static void add_callee(struct library *l, struct function *f, const char *name,
                       size_t *cap)
{
    const struct name_entry *e = name_table_find(&l->functions, name);

    if (e == NULL)
        return;
    if ((size_t)f->n_callees == *cap) {
        struct function **more =
            ARENA_ARRAY(&l->im->arena, struct function *, *cap > 0 ? 2 * *cap : 4);

        if (*cap > 0)
            memcpy(more, f->callees, *cap * sizeof(struct function *));
        f->callees = more;
        *cap = *cap > 0 ? 2 * *cap : 4;
    }
    f->callees[f->n_callees++] = e->value;
}

static void add_named(struct library *l, struct function *f, ProtobufCBinaryData bytes,
                      size_t *cap)
{
    const Tf__NameAttrList *list =
        MESSAGE_UNPACK(&l->im->arena, name_attr_list, bytes.data, bytes.len);

    if (list != NULL)
        add_callee(l, f, list->name, cap);
}

static void find_callees(struct library *l, struct function *f)
{
    size_t cap = 0;

    for (size_t i = 0; i < f->def->n_node_def; i++) {
        const Tf__NodeDef *node = f->def->node_def[i];

        add_callee(l, f, node->op, &cap);
        for (size_t k = 0; is_call(node) && k < node->n_attr; k++) {
            const Tf__AttrValue *v = node->attr[k]->value;

            if (v != NULL && v->value_case == TF__ATTR_VALUE__VALUE_FUNC)
                add_named(l, f, v->func, &cap);
            for (size_t j = 0; v != NULL && v->value_case == TF__ATTR_VALUE__VALUE_LIST &&
                               j < v->list->n_func;
                 j++)
                add_named(l, f, v->list->func[j], &cap);
        }
    }
}

static void read_function(struct library *l, struct function *f)
{
    struct reading r = {.l = l, .f = f};
    const Tf__OpDef *sig = f->def->signature;

    if (f->is_read)
        return;
    f->is_read = 1;
    if (sig->n_input_arg > IMPORT_MAX_INPUTS || sig->n_output_arg > IMPORT_MAX_INPUTS) {
        (void)because(&r, "its function '%s' has more than %d inputs or results", f->name,
                      IMPORT_MAX_INPUTS);
        return;
    }
    f->n_inputs = (int)sig->n_input_arg;
    f->n_results = (int)sig->n_output_arg;
    if (read_inputs(&r) == 0 && read_results(&r) == 0 && read_controls(&r) == 0)
        find_callees(l, f);
    name_table_done(&r.names);
}

/* Reads the function and all that it calls, directly or not, and finds their heights. */
static void measure(struct library *l, struct function *first)
{
    struct {
        struct function *f;
        int next;
    } *stack = NULL;
    size_t n = 0, cap = 0;

    ARRAY_GROW(stack, n, cap);
    stack[n].f = first;
    stack[n++].next = 0;
    while (n > 0) {
        struct function *f = stack[n - 1].f, *callee;

        read_function(l, f);
        f->is_open = 1;
        if (stack[n - 1].next == f->n_callees) {
            /* callees have their heights; those with a reason are not inlined */
            f->height = 1;
            for (int i = 0; i < f->n_callees; i++)
                if (f->callees[i]->reason == NULL && f->callees[i]->height >= f->height)
                    f->height = f->callees[i]->height + 1;
            if (f->height > FUNCTIONS_MAX_DEPTH && f->reason == NULL)
                f->reason = arena_printf(
                    &l->im->arena,
                    "its function '%s' calls functions that call others, more than "
                    "%d deep",
                    f->name, FUNCTIONS_MAX_DEPTH);
            f->is_open = 0;
            n--;
            continue;
        }
        callee = f->callees[stack[n - 1].next++];
        if (callee->is_open && callee->reason == NULL)
            callee->reason = arena_printf(&l->im->arena, "its function '%s' calls itself",
                                          callee->name);
        if (callee->is_open || callee->height > 0)
            continue;
        ARRAY_GROW(stack, n, cap);
        stack[n].f = callee;
        stack[n++].next = 0;
    }
    free(stack);
}

const struct function *library_find(struct library *l, const char *name)
{
    const struct name_entry *e = name_table_find(&l->functions, name);
    struct function *f = e != NULL ? e->value : NULL;

    if (f != NULL && f->height == 0)
        measure(l, f);
    return f;
}

/* ---- questions about a function ---- */

const Tf__AttrValue *call_attr(const struct call_attrs *c, const char *name)
{
    const Tf__AttrValue *v = NULL;

    for (size_t i = 0; c->list != NULL && i < c->list->n_attr; i++)
        if (strcmp(c->list->attr[i]->key, name) == 0)
            v = c->list->attr[i]->value;
    return v != NULL ? v : node_attr(c->node, name);
}

int function_type(const struct function *f, int i, const struct call_attrs *c)
{
    const Tf__OpDef *sig = f->def->signature;
    const Tf__OpDef__ArgDef *arg =
        i < f->n_inputs ? sig->input_arg[i] : sig->output_arg[i - f->n_inputs];
    const Tf__AttrValue *v =
        arg->type_attr[0] != '\0' ? call_attr(c, arg->type_attr) : NULL;

    if (arg->type_attr[0] == '\0')
        return arg->type;
    return v != NULL && v->value_case == TF__ATTR_VALUE__VALUE_TYPE ? v->type : 0;
}

int function_passes_on(const struct function *f, int i)
{
    struct function_ref x = f->results[i];

    for (size_t steps = 0; x.at >= f->n_inputs && steps <= f->def->n_node_def; steps++) {
        const Tf__NodeDef *node = f->def->node_def[x.at - f->n_inputs];

        if (strcmp(node->op, "Identity") != 0 || node->n_input == 0)
            return 0;
        x = f->refs[x.at - f->n_inputs][0];
        if (x.index < 0)
            return 0;
    }
    return x.at == i;
}
