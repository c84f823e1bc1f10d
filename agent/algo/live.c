#include "agent/algo/live.h"

#include "agent/nn/nn.h"
#include "common/mem/xmalloc.h"

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
    if (ret.variable != NULL)
        collection_add(
            g, HYPERPARAMETERS,
            (struct collection_item){.kind = ITEM_VARIABLE, .variable = ret.variable});
    return ret;
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
