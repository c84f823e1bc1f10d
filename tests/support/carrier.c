#include "tests/support/carrier.h"

#include "agent/algo/choices.h"
#include "agent/graph/ops.h"
#include "agent/nn/nn.h"
#include "agent/nn/recurrent.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

struct algo {
    const struct space *self;
    struct output obs, first, carry, scores, next;
    struct operation *init;
    float *firsts; /* (E) */
};

static int build(struct algo *a, const struct algo_args *args, struct err *err)
{
    struct graph *g = args->graph;
    struct cell cell;
    struct output h;

    a->self = &args->agents[args->self];
    variable_scope_enter(g, a->self->name, NULL, REUSE_INHERIT);
    a->obs = placeholder(g, DT_FLOAT, &SHAPE(-1, a->self->obs), "observation");
    a->first = placeholder(g, DT_FLOAT, &SHAPE(-1, 1), "first");
    a->carry = placeholder(g, DT_FLOAT, &SHAPE(-1, CARRIER_UNITS), "carry");
    cell = cell_new(g, CELL_GRU, a->self->obs, CARRIER_UNITS, NULL, NULL, NULL);
    h = cell_unroll(g, &cell, a->obs, a->carry, a->first, 1, &a->next);
    a->scores = fully_connected(g, h, a->self->width, ACTIVATION_LINEAR, NULL, NULL);
    variable_scope_leave(g);
    a->init = global_variables_initializer(g, NULL);
    return 0;
}

static void done(struct algo *a)
{
    free(a->firsts);
}

static const struct stage *stages(const struct algo *a, size_t *ret_n)
{
    *ret_n = 0;
    return NULL;
}

static int64_t carry_width(const struct algo *a)
{
    return CARRIER_UNITS;
}

static int init(struct algo *a, struct session *s, struct rng_key key, struct err *err)
{
    return algo_run_each(s, &a->init, 1, key, err);
}

static int act(struct algo *a, struct session *s, const struct act_args *args,
               struct act_result *ret, struct err *err)
{
    const int64_t n = (int64_t)args->n_copies;
    const struct output fetches[] = {a->scores, a->next};
    struct tensor results[] = {
        tensor_view(DT_FLOAT, SHAPE(n, a->self->width), ret->actions),
        tensor_view(DT_FLOAT, SHAPE(n, CARRIER_UNITS), ret->carry),
    };
    struct feed feeds[] = {
        {a->obs, tensor_const_view(DT_FLOAT, SHAPE(n, a->self->obs), args->obs)},
        {a->carry, tensor_const_view(DT_FLOAT, SHAPE(n, CARRIER_UNITS), args->carry)},
        {.output = a->first},
    };
    const struct run_args run = {
        .feeds = feeds, .n_feeds = 3, .fetches = fetches, .n_fetches = 2};
    int r;

    a->firsts = xreallocarray(a->firsts, args->n_copies, sizeof(*a->firsts));
    for (size_t e = 0; e < args->n_copies; e++)
        a->firsts[e] = args->first != NULL && args->first[e] ? 1.0f : 0.0f;
    feeds[2].value = tensor_view(DT_FLOAT, SHAPE(n, 1), a->firsts);
    r = session_run(s, &run, results, err);
    if (r == 0)
        choices_harden(a->self, ret->actions, args->allowed, args->n_copies);
    return r;
}

static int stage(struct algo *a, struct session *s, const struct stage_args *args,
                 struct stage_result *ret, struct err *err)
{
    return err_set(err, ERR_UNSUPPORTED, "there are no stages");
}

const struct algo_ops carrier_ops = {
    .name = "carrier",
    .size = sizeof(struct algo),
    .build = build,
    .done = done,
    .stages = stages,
    .carry_width = carry_width,
    .init = init,
    .act = act,
    .stage = stage,
};
