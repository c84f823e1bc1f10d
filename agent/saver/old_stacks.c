/* Stack, StackPush, StackPop and StackClose, with which TensorFlow before 1.1 kept values of loops
 * for their gradients, become StackV2 and the others. The handle of the old ones is a reference to a
 * string, that of the new ones a resource; what passes a handle on is changed with them. */
#include "agent/saver/import_state.h"
#include "agent/saver/metagraph_import.h"

#include <string.h>

/* A handle is passed on at most that often against the file's order. */
enum { MAX_PASSES = 64 };

struct change {
    const char *from, *to;
};

static const struct change stack_ops[] = {
    {"Stack", "StackV2"},
    {"StackPush", "StackPushV2"},
    {"StackPop", "StackPopV2"},
    {"StackClose", "StackCloseV2"},
};
static const struct change passing_ops[] = {
    {"RefEnter", "Enter"},
    {"RefIdentity", "Identity"},
    {"RefSwitch", "Switch"},
};
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const char *changed(const struct change *changes, size_t n, const char *op)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(changes[i].from, op) == 0)
            return changes[i].to;
    return NULL;
}

/* Whether the node gets a handle. */
static int takes_handle(const struct name_table *handles, const Tf__NodeDef *node)
{
    struct arena scratch = ARENA_ZERO;
    int found = 0;

    if (node->n_input > 0)
        found =
            name_table_find(handles, arena_strndup(&scratch, node->input[0],
                                                   strcspn(node->input[0], ":"))) != NULL;
    arena_done(&scratch);
    return found;
}

/* Whether an output of the node is a handle. */
static int has_handle(const struct name_table *handles, const Tf__NodeDef *node)
{
    return strcmp(node->op, "Stack") == 0 ||
           (changed(passing_ops, COUNT(passing_ops), node->op) != NULL &&
            takes_handle(handles, node));
}

/* Adds the names of all nodes that have a handle; returns the number of stacks. */
static size_t find_handles(const struct import *im, struct name_table *handles)
{
    size_t n_stacks = 0;
    int any = 0;

    for (size_t i = 0; i < im->n_nodes; i++)
        n_stacks += strcmp(im->defs[i]->op, "Stack") == 0;
    if (n_stacks == 0)
        return 0;
    for (int pass = 0; pass == 0 || (any && pass < MAX_PASSES); pass++) {
        any = 0;
        for (size_t i = 0; i < im->n_nodes; i++) {
            if (name_table_find(handles, im->defs[i]->name) != NULL ||
                !has_handle(handles, im->defs[i]))
                continue;
            (void)name_table_add(handles, im->defs[i]->name);
            any = 1;
        }
    }
    return n_stacks;
}

static Tf__NodeDef__AttrEntry *attr_new(struct import *im, const char *name, int kind)
{
    Tf__NodeDef__AttrEntry *e =
        MESSAGE_NEW(&im->arena, NodeDef__AttrEntry, node_def__attr_entry);

    e->key = arena_strdup(&im->arena, name);
    e->value = MESSAGE_NEW(&im->arena, AttrValue, attr_value);
    e->value->value_case = (Tf__AttrValue__ValueCase)kind;
    return e;
}

/* -1, the size of a stack without limit */
static Tf__NodeDef *no_limit(struct import *im, const char *name)
{
    Tf__NodeDef *node = MESSAGE_NEW(&im->arena, NodeDef, node_def);
    Tf__TensorProto *t = MESSAGE_NEW(&im->arena, TensorProto, tensor_proto);
    const int32_t minus_one = -1;

    node->name = arena_strdup(&im->arena, name);
    node->op = arena_strdup(&im->arena, "Const");
    node->attr = ARENA_ARRAY(&im->arena, Tf__NodeDef__AttrEntry *, 2);
    node->attr[node->n_attr++] = attr_new(im, "dtype", TF__ATTR_VALUE__VALUE_TYPE);
    node->attr[0]->value->type = DT_INT32;
    node->attr[node->n_attr++] = attr_new(im, "value", TF__ATTR_VALUE__VALUE_TENSOR);
    node->attr[1]->value->tensor = t;
    t->dtype = DT_INT32;
    t->tensor_shape = MESSAGE_NEW(&im->arena, TensorShapeProto, tensor_shape_proto);
    t->int_val = arena_memdup(&im->arena, &minus_one, sizeof(minus_one));
    t->n_int_val = 1;
    return node;
}

static Tf__NodeDef *copy_as(struct import *im, const Tf__NodeDef *node, const char *op)
{
    Tf__NodeDef *ret = arena_memdup(&im->arena, node, sizeof(*node));

    ret->op = arena_strdup(&im->arena, op);
    return ret;
}

/* The node with its attribute T as a resource. */
static Tf__NodeDef *passing(struct import *im, const Tf__NodeDef *node)
{
    Tf__NodeDef *ret =
        copy_as(im, node, changed(passing_ops, COUNT(passing_ops), node->op));

    ret->attr = ARENA_ARRAY(&im->arena, Tf__NodeDef__AttrEntry *, node->n_attr + 1);
    for (size_t i = 0; i < node->n_attr; i++) {
        ret->attr[i] = node->attr[i];
        if (strcmp(node->attr[i]->key, "T") != 0)
            continue;
        ret->attr[i] = attr_new(im, "T", TF__ATTR_VALUE__VALUE_TYPE);
        ret->attr[i]->value->type = DT_RESOURCE;
    }
    return ret;
}

/* A stack, whose first input is its size now. */
static Tf__NodeDef *stack(struct import *im, const Tf__NodeDef *node, const char *size)
{
    Tf__NodeDef *ret = copy_as(im, node, "StackV2");

    ret->input = ARENA_ARRAY(&im->arena, char *, node->n_input + 1);
    ret->input[0] = arena_strdup(&im->arena, size);
    for (size_t i = 0; i < node->n_input; i++)
        ret->input[i + 1] = node->input[i];
    ret->n_input = node->n_input + 1;
    return ret;
}

int import_old_stacks(struct import *im)
{
    struct name_table handles = {0}, names = {0};
    Tf__NodeDef **nodes;
    const char *size;

    if (find_handles(im, &handles) == 0) {
        name_table_done(&handles);
        return 0;
    }
    if (im->n_nodes >= METAGRAPH_MAX_NODES) {
        name_table_done(&handles);
        return import_fail(im, ERR_LIMIT, "a graph of %zu nodes and stacks", im->n_nodes);
    }
    for (size_t i = 0; i < im->n_nodes; i++)
        (void)name_table_add(&names, im->defs[i]->name);
    size = "Stack/max_size";
    for (int i = 1; name_table_find(&names, size) != NULL; i++)
        size = arena_printf(&im->arena, "Stack/max_size_%d", i);
    nodes = ARENA_ARRAY(&im->arena, Tf__NodeDef *, im->n_nodes + 1);
    nodes[im->n_nodes] = no_limit(im, size);
    for (size_t i = 0; i < im->n_nodes; i++) {
        Tf__NodeDef *node = im->defs[i];
        const char *op = changed(stack_ops, COUNT(stack_ops), node->op);

        if (strcmp(node->op, "Stack") == 0)
            nodes[i] = stack(im, node, size);
        else if (op != NULL && takes_handle(&handles, node))
            nodes[i] = copy_as(im, node, op);
        else if (name_table_find(&handles, node->name) != NULL)
            nodes[i] = passing(im, node);
        else
            nodes[i] = node;
    }
    im->defs = nodes;
    im->n_nodes++;
    name_table_done(&handles);
    name_table_done(&names);
    return 0;
}
