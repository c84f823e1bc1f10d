#include "agent/algo/fixed.h"

#include "agent/algo/rows.h"
#include "common/mem/xmalloc.h"

#include <math.h>
#include <stdlib.h>

struct algo {
    const struct fixed_policy *policy;
    void *own; /* the policy's */
    const struct space *self;
    size_t n_agents;

    /* Memory for the rows of `propose`, kept between requests. */
    size_t rows; /* there is room for */
    float *obs;
    float *actions;
    uint8_t *allowed; /* masked only */
    uint64_t *counter, *first;
    const struct store_view *column_of; /* the log that these are places in */
    int next_obs_column, next_allowed_column;
};

static const struct stage fixed_stages[] = {
    {.name = "propose", .runner = STAGE_LEARNERS, .repeat_from = 0},
};

static void forget_rows(struct algo *a)
{
    free(a->obs);
    free(a->actions);
    free(a->allowed);
    free(a->counter);
    free(a->first);
    a->rows = 0;
}

static void fixed_free(struct algo *a)
{
    if (a == NULL)
        return;
    if (a->policy->close != NULL)
        a->policy->close(a->own);
    forget_rows(a);
    free(a);
}

static int build(struct algo **ret, const struct algo_args *args,
                 const struct fixed_policy *policy, struct err *err)
{
    struct algo *a = xcalloc(1, sizeof(*a));
    struct policy_args open = {args, &args->agents[args->self]};
    int r;

    a->policy = policy;
    a->self = open.self;
    a->n_agents = args->n_agents;
    r = policy->open(&a->own, &open, err);
    if (r < 0) {
        free(a);
        return r;
    }
    *ret = a;
    return 0;
}

static const struct stage *stages(const struct algo *a, size_t *ret_n)
{
    *ret_n = 1;
    return fixed_stages;
}

static int init(struct algo *a, struct session *s, struct rng_key key, struct err *err)
{
    return a->policy->init != NULL ? a->policy->init(a->own, s, err) : 0;
}

static int act(struct algo *a, struct session *s, const struct act_args *args,
               struct act_result *ret, struct err *err)
{
    const struct decision d = {.rows = args->n_copies,
                               .obs = args->obs,
                               .allowed = args->allowed,
                               .key = args->key,
                               .counter = args->counter,
                               .first = args->draw_first};

    return a->policy->decide(a->own, a->self, s, &d, ret->actions, err);
}

/* ---- propose ---- */

static void reserve(struct algo *a, size_t rows)
{
    const size_t width = (size_t)a->self->width;

    if (rows <= a->rows)
        return;
    forget_rows(a);
    a->obs = xcalloc(rows * (size_t)a->self->obs, sizeof(*a->obs));
    a->actions = xcalloc(rows * width, sizeof(*a->actions));
    a->allowed = a->self->masked ? xcalloc(rows * width, 1) : NULL;
    a->counter = xcalloc(rows, sizeof(*a->counter));
    a->first = xcalloc(rows, sizeof(*a->first));
    for (size_t i = 0; i < rows; i++)
        a->first[i] = i * width;
    a->rows = rows;
}

static int find_columns(struct algo *a, const struct store_view *store, struct err *err)
{
    const struct store_layout *l = store_view_layout(store);
    int r;

    if (a->column_of == store)
        return 0;
    r = rows_column(l, a->self->name, "next_obs", a->self->obs, &a->next_obs_column, err);
    if (r == 0 && a->self->masked)
        r = rows_mask_column(l, a->self, "next_allowed", &a->next_allowed_column, err);
    if (r == 0)
        a->column_of = store;
    return r;
}

static int propose(struct algo *a, struct session *s, const struct stage_args *args,
                   struct stage_result *ret, struct err *err)
{
    const size_t rows = (size_t)(args->groups * args->batch * args->length);
    struct decision d = {.rows = rows, .key = args->key};
    struct stage_args single = *args; /* sequences and windows are as many single rows */
    int r;

    single.batch *= single.length;
    single.length = 1;
    if ((r = rows_check(&single, a->n_agents, err)) < 0 ||
        (r = find_columns(a, args->store, err)) < 0)
        return r;
    reserve(a, rows);
    for (size_t i = 0; i < rows; i++)
        a->counter[i] = args->counter;
    store_view_gather(args->store, a->next_obs_column, args->rows, rows, a->obs,
                      (size_t)a->self->obs);
    if (a->self->masked)
        store_view_gather_bytes(args->store, a->next_allowed_column, args->rows, rows,
                                a->allowed);
    d.obs = a->obs;
    d.allowed = a->allowed;
    d.counter = a->counter;
    d.first = a->first;
    r = a->policy->decide(a->own, a->self, s, &d, a->actions, err);
    if (r < 0)
        return r;
    ret->n_outputs = 1;
    ret->output[0].name = "action";
    ret->output[0].value = tensor_view(
        DT_FLOAT, SHAPE(args->groups, single.batch, a->self->width), a->actions);
    return 0;
}

void clip_to_box(float *x, size_t rows, const struct space *space)
{
    const float low = (float)space->low, high = (float)space->high;

    for (size_t i = 0; i < rows * (size_t)space->width; i++)
        x[i] = fminf(fmaxf(x[i], low), high);
}

/* ---- the algorithms ---- */

static int build_frozen(struct algo **ret, const struct algo_args *args, struct err *err)
{
    return build(ret, args, &frozen_policy, err);
}

static int build_heuristic(struct algo **ret, const struct algo_args *args,
                           struct err *err)
{
    return build(ret, args, &heuristic_policy, err);
}

static int build_noop(struct algo **ret, const struct algo_args *args, struct err *err)
{
    return build(ret, args, &noop_policy, err);
}

static int build_random(struct algo **ret, const struct algo_args *args, struct err *err)
{
    return build(ret, args, &random_policy, err);
}

#define FIXED_OPS(algorithm)                                                             \
    const struct algo_ops algorithm##_ops = {                                            \
        .name = #algorithm,                                                              \
        .build = build_##algorithm,                                                      \
        .free = fixed_free,                                                              \
        .stages = stages,                                                                \
        .init = init,                                                                    \
        .act = act,                                                                      \
        .stage = propose,                                                                \
    }

FIXED_OPS(frozen);
FIXED_OPS(heuristic);
FIXED_OPS(noop);
FIXED_OPS(random);
