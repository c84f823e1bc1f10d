#include "agent/algo/live.h"

#include "agent/graph/ops.h"
#include "agent/nn/nn.h"
#include "common/mem/xmalloc.h"
#include "common/msg/protocol.h"

#include <stdlib.h>
#include <string.h>

#define LIVE_SCOPE "hyperparameters"

static char *key_to_name(const char *key)
{
    char *name = xstrdup(key);

    for (char *dot = strchr(name, '.'); dot != NULL; dot = strchr(dot, '.'))
        *dot = '/';
    return name;
}

/* For the export of the graph: the constant holds this variable's value. */
static void note_constant(struct graph *g, struct output constant,
                          const struct variable *v, float instead_of_zero)
{
    char *text = xasprintf("%s %s %a", operation_name(constant.op), v->name,
                           (double)instead_of_zero);

    collection_add(g, SETTING_CONSTANTS,
                   (struct collection_item){.kind = ITEM_STRING, .s = text});
    free(text);
}

struct live live_new(struct graph *g, const char *key, double value)
{
    const struct initializer init = constant_initializer(value);
    char *name = key_to_name(key);
    struct live ret = {0};

    variable_scope_enter(g, LIVE_SCOPE, NULL, REUSE_INHERIT);
    ret.variable = get_variable(g, name, DT_FLOAT, &SHAPE_SCALAR, &init,
                                VARIABLE_LOCAL | VARIABLE_NOT_TRAINABLE);
    variable_scope_leave(g);
    free(name);
    if (ret.variable == NULL)
        return ret;
    collection_add(
        g, HYPERPARAMETERS,
        (struct collection_item){.kind = ITEM_VARIABLE, .variable = ret.variable});
    note_constant(g, ret.variable->initial_value, ret.variable, 0);
    return ret;
}

void live_constant(struct graph *g, struct live *l, double value, float instead_of_zero,
                   const char *name)
{
    const float x = (float)value;

    l->instead_of_zero = instead_of_zero;
    live_bind(g, l, constant_f32(g, x > 0 ? x : instead_of_zero, name));
}

void live_bind(struct graph *g, struct live *l, struct output constant)
{
    l->constant = constant;
    if (l->variable != NULL && output_valid(constant))
        note_constant(g, constant, l->variable, l->instead_of_zero);
}

struct variable *live_find(struct graph *g, const char *agent, const char *key)
{
    char *name = key_to_name(key);
    char *full = xasprintf("%s/" LIVE_SCOPE "/%s", agent, name);
    const struct collection_item *items;
    size_t n = collection_get(g, HYPERPARAMETERS, NULL, &items);
    struct variable *ret = NULL;

    for (size_t i = 0; i < n && ret == NULL; i++)
        if (strcmp(items[i].variable->name, full) == 0)
            ret = items[i].variable;
    free(full);
    free(name);
    return ret;
}

int live_value(const struct live *l, struct session *s, float *ret, struct err *err)
{
    struct tensor t;
    int r = session_variable(s, l->variable, &t, err);

    if (r < 0)
        return r;
    *ret = *tensor_f32(&t);
    if (*ret <= 0)
        *ret = l->instead_of_zero;
    return 0;
}
