#include "agent/algo/fixed.h"

#include "agent/algo/choices.h"
#include "agent/algo/propose.h"
#include "common/mem/xmalloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- policies without a file of their own ---- */

/* Lets each head take its largest entry, and clips the numbers. */
static void settle(const struct space *self, const struct act_args *args, float *actions)
{
    if (first_number(self) > 0)
        choices_harden(self, actions, args->allowed, args->n_copies);
    clip_to_box(actions, args->n_copies, self);
}

/* Does nothing: takes each head's first choice, which in the particle worlds is to stay;
 * in a box the point nearest to zero. */
static int noop_decide(void *policy, const struct space *self, struct session *s,
                       const struct act_args *args, struct act_result *ret,
                       struct err *err)
{
    float *actions = ret->actions;

    memset(actions, 0, args->n_copies * (size_t)self->width * sizeof(*actions));
    settle(self, args, actions);
    return 0;
}

static const struct fixed_policy noop_policy = {.decide = noop_decide};

/* Acts uniformly at random over the possible choices of each head, or the points of a
 * box; in a box without bounds, with standard normal draws. Each head takes the choice with
 * the largest of its draws, which beside unbounded numbers are normal ones. */
static int random_decide(void *policy, const struct space *self, struct session *s,
                         const struct act_args *args, struct act_result *ret,
                         struct err *err)
{
    float *actions = ret->actions;
    const size_t width = (size_t)self->width, first = (size_t)first_number(self);
    const float low = (float)self->low, span = (float)(self->high - self->low);
    const int is_bounded = isfinite(span);

    if (first < width && !is_bounded)
        rng_normal_rows_f32(args->key, args->counter, args->draw_first, actions,
                            args->n_copies, width);
    else
        rng_uniform_rows_f32(args->key, args->counter, args->draw_first, actions,
                             args->n_copies, width);
    for (size_t e = 0; e < args->n_copies && is_bounded; e++)
        for (size_t i = e * width + first; i < (e + 1) * width; i++)
            actions[i] = low + span * actions[i];
    settle(self, args, actions); /* clips against rounding */
    return 0;
}

static const struct fixed_policy random_policy = {.decide = random_decide};

/* ---- the algorithms ---- */

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

static void fixed_done(struct algo *a)
{
    if (a->policy->close != NULL && a->own != NULL)
        a->policy->close(a->own);
    proposals_done(&a->proposals);
}

enum variant { FROZEN, HEURISTIC, NOOP, RANDOM };

static const struct fixed_policy *const policies[] = {[FROZEN] = &frozen_policy,
                                                      [HEURISTIC] = &heuristic_policy,
                                                      [NOOP] = &noop_policy,
                                                      [RANDOM] = &random_policy};

static int fixed_build(struct algo *a, const struct algo_args *args, struct err *err)
{
    a->policy = policies[args->ops->variant];
    a->self = &args->agents[args->self];
    a->n_agents = args->n_agents;
    return a->policy->open != NULL ? a->policy->open(&a->own, args, err) : 0;
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

static int64_t carry_width(const struct algo *a)
{
    return a->policy->carry_width != NULL ? a->policy->carry_width(a->own) : 0;
}

static int act(struct algo *a, struct session *s, const struct act_args *args,
               struct act_result *ret, struct err *err)
{
    return a->policy->decide(a->own, a->self, s, args, ret, err);
}

static int propose(struct algo *a, struct session *s, const struct stage_args *args,
                   struct stage_result *ret, struct err *err)
{
    const struct proposer who = {.algo = a,
                                 .act = act,
                                 .self = a->self,
                                 .n_agents = a->n_agents,
                                 .carry = carry_width(a)};

    return proposals_make(&a->proposals, &who, s, args, ret, err);
}

static void reads(struct algo *a, struct reads *r)
{
    proposals_reads(&a->proposals, a->self, r);
}

/* ---- descriptions ---- */

static const char *const no_settings[] = {NULL};

static const char *const frozen_settings[] = {"from",   "agent",  "observation",
                                              "action", "choose", NULL};

/* Those that heuristic.c has rules for. */
static const char *const heuristic_envs[] = {
    "simple",        "simple_reference", "simple_speaker_listener",
    "simple_spread", "simple_tag",       NULL};

static const struct algo_about frozen_about = {
    .info = {.summary = "acts as a checkpoint's policy does; does not learn",
             .use = "opponents and partners that are not to change, and policies from "
                    "elsewhere",
             .stages = "propose(all)",
             .source = "a checkpoint of brood, or of TensorFlow 1 with its MetaGraph",
             .fixed = 1,
             .hybrid = 1},
    .settings = frozen_settings};
static const struct algo_about heuristic_about = {
    .info = {.summary = "acts by rules written for its environment; does not learn",
             .use = "a mark to beat, and a partner that is good from the beginning",
             .stages = "propose(all)",
             .source = "brood's own",
             .fixed = 1,
             .envs = heuristic_envs},
    .settings = no_settings};
static const struct algo_about noop_about = {
    .info = {.summary = "does nothing: first choices, and zeros",
             .use = "agents that are not to act",
             .stages = "propose(all)",
             .source = "brood's own",
             .fixed = 1,
             .hybrid = 1},
    .settings = no_settings};
static const struct algo_about random_about = {
    .info = {.summary = "acts at random, evenly over what is possible",
             .use = "the bottom of a comparison, and tests of environments",
             .stages = "propose(all)",
             .source = "brood's own",
             .fixed = 1,
             .hybrid = 1},
    .settings = no_settings};

#define FIXED_OPS(NAME, ABOUT, VARIANT)                                                  \
    {                                                                                    \
        .name = NAME, .about = &(ABOUT), .variant = (VARIANT),                           \
        .size = sizeof(struct algo), .build = fixed_build, .done = fixed_done,           \
        .stages = stages, .carry_width = carry_width, .reads = reads, .init = init,      \
        .act = act, .stage = propose,                                                    \
    }

const struct algo_ops frozen_ops = FIXED_OPS("frozen", frozen_about, FROZEN);
const struct algo_ops heuristic_ops = FIXED_OPS("heuristic", heuristic_about, HEURISTIC);
const struct algo_ops noop_ops = FIXED_OPS("noop", noop_about, NOOP);
const struct algo_ops random_ops = FIXED_OPS("random", random_about, RANDOM);
