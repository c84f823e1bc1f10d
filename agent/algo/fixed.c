#include "agent/algo/fixed.h"

#include "agent/algo/propose.h"
#include "common/mem/xmalloc.h"

#include <math.h>
#include <stdlib.h>

struct algo {
    const struct fixed_policy *policy;
    void *own; /* the policy's */
    const struct space *self;
    size_t n_agents;
    struct proposals proposals;
};

static const struct stage fixed_stages[] = {
    {.name = "propose", .runner = STAGE_LEARNERS, .repeat_from = 0},
};

static void fixed_free(struct algo *a)
{
    if (a == NULL)
        return;
    if (a->policy->close != NULL)
        a->policy->close(a->own);
    proposals_done(&a->proposals);
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

static int propose(struct algo *a, struct session *s, const struct stage_args *args,
                   struct stage_result *ret, struct err *err)
{
    const struct proposer who = {
        .algo = a, .act = act, .self = a->self, .n_agents = a->n_agents};

    return proposals_make(&a->proposals, &who, s, args, ret, err);
}

static void reads(struct algo *a, struct reads *r)
{
    proposals_reads(&a->proposals, a->self, r);
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
        .reads = reads,                                                                  \
        .init = init,                                                                    \
        .act = act,                                                                      \
        .stage = propose,                                                                \
    }

FIXED_OPS(frozen);
FIXED_OPS(heuristic);
FIXED_OPS(noop);
FIXED_OPS(random);
