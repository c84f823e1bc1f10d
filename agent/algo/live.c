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

/* Records, for the export of the graph, that the constant holds the value of this
 * variable, or with `to` and `over` that of the schedule. */
static void note_constant(struct graph *g, struct output constant,
                          const struct variable *v, const struct variable *to,
                          const struct variable *over, float instead_of_zero)
{
    char *text = xasprintf("%s %s %a%s%s%s%s", operation_name(constant.op), v->name,
                           (double)instead_of_zero, to != NULL ? " " : "",
                           to != NULL ? to->name : "", to != NULL ? " " : "",
                           to != NULL ? over->name : "");

    collection_add(g, SETTING_CONSTANTS,
                   (struct collection_item){.kind = ITEM_STRING, .s = text});
    free(text);
}

/* part: "", "/to", "/over" */
static struct variable *make_variable(struct graph *g, const char *key, const char *part,
                                      double value)
{
    const struct initializer init = constant_initializer(value);
    char *name = key_to_name(key), *full = xasprintf("%s%s", name, part);
    struct variable *v;

    variable_scope_enter(g, LIVE_SCOPE, NULL, REUSE_INHERIT);
    v = get_variable(g, full, DT_FLOAT, &SHAPE_SCALAR, &init,
                     VARIABLE_LOCAL | VARIABLE_NOT_TRAINABLE);
    variable_scope_leave(g);
    free(full);
    free(name);
    if (v == NULL)
        return NULL;
    collection_add(g, HYPERPARAMETERS,
                   (struct collection_item){.kind = ITEM_VARIABLE, .variable = v});
    note_constant(g, v->initial_value, v, NULL, NULL, 0);
    return v;
}

struct live live_new(struct graph *g, const char *key, double value)
{
    return (struct live){.variable = make_variable(g, key, "", value)};
}

struct live live_schedule(struct graph *g, const char *key, const struct schedule *value)
{
    return (struct live){.variable = make_variable(g, key, "", value->from),
                         .to = make_variable(g, key, "/to", value->to),
                         .over = make_variable(g, key, "/over", value->over)};
}

struct live live_critic_rate(struct graph *g, const struct agent_config *c)
{
    if (c->critic.has_optimizer)
        return live_schedule(g, "critic.optimizer.learning_rate",
                             &c->critic.optimizer.learning_rate);
    return live_schedule(g, "optimizer.learning_rate", &c->optimizer.learning_rate);
}

void live_rates(struct graph *g, const struct agent_config *c, struct live *ret_actor,
                struct live *ret_critic)
{
    *ret_actor = *ret_critic =
        live_schedule(g, "optimizer.learning_rate", &c->optimizer.learning_rate);
    if (c->actor.has_optimizer)
        *ret_actor = live_schedule(g, "actor.optimizer.learning_rate",
                                   &c->actor.optimizer.learning_rate);
    if (c->critic.has_optimizer)
        *ret_critic = live_critic_rate(g, c);
}

void live_constant(struct graph *g, struct live *l, double value, float instead_of_zero,
                   const char *name)
{
    const float x = (float)value;

    l->instead_of_zero = instead_of_zero;
    live_bind(g, l, constant_f32(g, x > 0 ? x : instead_of_zero, name));
}

struct live live_fed(struct graph *g, const char *key, double value,
                     float instead_of_zero, const char *name)
{
    struct live l = live_new(g, key, value);

    live_constant(g, &l, value, instead_of_zero, name);
    return l;
}

void live_bind(struct graph *g, struct live *l, struct output constant)
{
    l->constant = constant;
    if (l->variable != NULL && output_valid(constant))
        note_constant(g, constant, l->variable, l->to, l->over, l->instead_of_zero);
}

struct variable *live_find(struct graph *g, const char *agent, const char *key)
{
    char *name = key_to_name(key);
    char *full = xasprintf("%s/" LIVE_SCOPE "/%s", agent, name);
    const struct collection_item *items;
    size_t n = collection_get(g, HYPERPARAMETERS, NULL, &items);
    struct variable *ret = NULL;

    for (size_t i = 0; i < n && ret == NULL; i++)
        if (items[i].kind == ITEM_VARIABLE && strcmp(items[i].variable->name, full) == 0)
            ret = items[i].variable;
    free(full);
    free(name);
    return ret;
}

static int read_scalar(struct session *s, const struct variable *v, double *ret,
                       struct err *err)
{
    struct tensor t;
    int r = session_variable(s, v, &t, err);

    if (r == 0)
        *ret = (double)*tensor_f32(&t);
    return r;
}

int live_schedule_read(const struct live *l, struct session *s, struct schedule *ret,
                       struct err *err)
{
    int r = read_scalar(s, l->variable, &ret->from, err);

    ret->to = ret->from;
    ret->over = 0;
    if (r == 0 && l->to != NULL)
        r = read_scalar(s, l->to, &ret->to, err);
    if (r == 0 && l->over != NULL)
        r = read_scalar(s, l->over, &ret->over, err);
    return r;
}

int live_value(const struct live *l, struct session *s, uint64_t step, float *ret,
               struct err *err)
{
    struct schedule schedule;
    int r = live_schedule_read(l, s, &schedule, err);

    if (r < 0)
        return r;
    *ret = (float)schedule_at(&schedule, step);
    if (*ret == 0)
        *ret = l->instead_of_zero;
    return 0;
}

int lives_read(struct live *l, size_t n, struct session *s, uint64_t step,
               struct err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < n; i++)
        if (l[i].variable != NULL)
            r = live_value(&l[i], s, step, &l[i].value, err);
    return r;
}
