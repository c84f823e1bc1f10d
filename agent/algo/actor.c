#include "agent/algo/actor.h"

#include "agent/algo/choices.h"
#include "agent/algo/rows.h"
#include "agent/graph/arithmetic.h"
#include "agent/nn/policy.h"
#include "common/rng/rng.h"

#include <float.h>
#include <math.h>

/* ---- building ---- */

static int check_policy(const struct space *space, const struct algorithm_settings *set,
                        int deterministic, struct err *err)
{
    if (deterministic && !(space->box && isfinite(space->low) && isfinite(space->high) &&
                           space->low < space->high))
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "settings.policy"),
                          "deterministic needs a bounded continuous action "
                          "space");
    if (!deterministic && !choices_only(space))
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "settings.policy"),
                          "gumbel needs a discrete action space, or a "
                          "particle world's");
    if (!deterministic && !space->box && set->execute == EXECUTE_SOFT)
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "settings.execute"),
                          "soft needs continuous actions");
    return 0;
}

int actor_init(struct actor *p, const struct algo_args *args, struct err *err)
{
    const struct space *self = &args->agents[args->self];
    const enum policy_kind kind = args->settings->policy;

    p->deterministic = kind == POLICY_DETERMINISTIC ||
                       (kind == POLICY_AUTO && self->box && !self->particle);
    p->masked = self->masked && !p->deterministic;
    return check_policy(self, args->settings, p->deterministic, err);
}

int actor_check(const struct algo_args *args, int reads_proposals, struct err *err)
{
    const struct agent_config *c = args->config;
    int rc = check_agent_id(args->settings, err);

    if (rc == 0 && args->share != NULL &&
        (network_optimizer(c, &c->critic)->type == OPT_ACCEPT_REJECT ||
         network_optimizer(c, &c->actor)->type == OPT_ACCEPT_REJECT))
        rc =
            err_set_at(err, ERR_CONFIG, ERR_AT(.key = "optimizer.type"),
                       "accept_reject has no gradients to share, expected another one or "
                       "share: none");
    if (rc == 0 && reads_proposals)
        rc = rows_check_symmetry(args->agents, args->n_agents, args->self, 0, err);
    return rc;
}

void actor_make_matrices(struct actor *p, struct joint *j)
{
    struct matrices *all = &j->kit->matrices;
    const int64_t width = j->kit->self->width;

    p->joint = j;
    p->own_next = matrix_new(all, 0);
    matrix_add_obs(p->own_next, NEXT, j->kit->index);
    matrix_add_id(p->own_next, &j->seen.id);
    p->proposal = matrix_new(all, width);
    if (p->masked) {
        p->open_now = matrix_of_masks(all, NOW, 0);
        p->open_next = matrix_of_masks(all, NEXT, 0);
        p->act_open = matrix_of_masks(all, NOW, 0);
    }
    p->act_noise = matrix_new(all, width);
    p->act_input = matrix_new(all, j->seen.input);
}

void actor_make_lives(struct actor *p)
{
    struct kit *k = p->joint->kit;
    const struct algorithm_settings *set = k->settings;
    const struct agent_config *c = k->config;
    struct graph *g = k->graph;

    if (kit_makes_steps(k)) {
        kit_add_rates(k, &p->rate, &p->critic_rate);
        k->clip_norm = kit_add_live(k, live_new(g, "clip_norm", c->clip_norm));
    }
    if (!kit_learns(k))
        return;
    k->polyak = kit_add_live(k, live_new(g, "polyak", c->polyak));
    k->discount = kit_add_live(k, live_new(g, "discount", c->discount));
    p->penalty =
        kit_add_live(k, live_new(g, "settings.logit_penalty", set->logit_penalty));
    p->temperature =
        kit_add_live(k, live_schedule(g, "settings.temperature", &set->temperature));
    p->exploration_noise = kit_add_live(
        k, live_schedule(g, "settings.exploration_noise", &set->exploration_noise));
}

struct output actor_make_constants(struct actor *p)
{
    struct kit *k = p->joint->kit;
    const struct algorithm_settings *set = k->settings;
    struct graph *g = k->graph;

    if (kit_makes_steps(k))
        live_constant(g, k->clip_norm, k->config->clip_norm, LIVE_NO_CLIP_NORM,
                      "clip_norm");
    if (!kit_learns(k))
        return OUTPUT_NONE;
    live_constant(g, k->polyak, k->config->polyak, 0, "polyak");
    live_constant(g, p->penalty, set->logit_penalty, 0, "logit_penalty");
    live_constant(g, p->temperature, set->temperature.from, 0, "temperature");
    return kit_keep(k);
}

void actor_make_masks(struct actor *p)
{
    if (p->masked)
        p->allowed =
            kit_placeholder(p->joint->kit, p->joint->kit->self->width, "allowed");
}

/* One softmax for each head. */
static struct output softmax_heads(struct graph *g, struct output x,
                                   const struct space *space)
{
    struct output head[sizeof(space->heads) / sizeof(space->heads[0])];
    int64_t begin = 0;

    if (space->n_heads == 1)
        return softmax(g, x, NULL);
    for (int i = 0; i < space->n_heads; i++) {
        head[i] = softmax(g, slice_columns(g, x, begin, space->heads[i], NULL), NULL);
        begin += space->heads[i];
    }
    return concat(g, head, (size_t)space->n_heads, 1, NULL);
}

/* softmax((logits + Gumbel) / temperature), Gumbel = -log(-log(u)). u starts at the smallest
 * normal number rather than 0, so that the noise is finite. */
static void sample_gumbel(struct actor *p, struct policy *ret)
{
    struct graph *g = p->joint->kit->graph;
    struct output u =
        random_uniform(g, shape_of(g, ret->raw, NULL), FLT_MIN, 1.0f, "random_uniform");
    struct output logits, x;

    if (!output_valid(u))
        return;
    ret->noise = operation_input(operation_input(u.op, 0).op, 0); /* u range + low */
    logits = p->masked ? forbid_choices(g, ret->raw, p->allowed) : ret->raw;
    x = logarithm(g, negative(g, logarithm(g, u)));
    ret->scores = x = sub(g, logits, x);
    x = binary(g, "RealDiv", x, p->temperature->constant, "truediv");
    ret->action = softmax_heads(g, x, p->joint->kit->self);
}

struct policy actor_policy(struct actor *p, const char *scope)
{
    struct kit *k = p->joint->kit;
    const struct network_config *net = &k->config->actor;
    struct policy ret = {0};

    variable_scope_enter(k->graph, scope, NULL, REUSE_INHERIT);
    ret.raw = see_observations(k->graph, p->joint->observation[p->joint->seen.own], net,
                               &p->form);
    ret.raw = mlp(k->graph, ret.raw, net, k->self->width);
    variable_scope_leave(k->graph);
    if (p->deterministic)
        ret.action = squash(k->graph, ret.raw, k->self->low, k->self->high);
    else if (kit_learns(k))
        sample_gumbel(p, &ret);
    return ret;
}

void actor_make_policy(struct actor *p)
{
    p->policy = actor_policy(p, "p_func");
    name_policy(p->joint->kit->graph, p->joint->observation[p->joint->seen.own],
                p->deterministic ? p->policy.action : p->policy.raw,
                p->deterministic ? POLICY_GIVES_ACTION : POLICY_SCORES_CHOICES);
}

struct output actor_penalty(struct actor *p)
{
    struct graph *g = p->joint->kit->graph;

    return square(g, p->masked ? mul(g, p->policy.raw, p->allowed) : p->policy.raw);
}

/* ---- stages ---- */

void actor_propose(struct actor *p, struct batch *b,
                   void (*smoothing)(struct algo *a, struct batch *b, float *x))
{
    const struct joint *j = p->joint;

    batch_feed(b, j->observation[j->seen.own], p->own_next);
    if (!p->deterministic)
        batch_feed_live(b, p->temperature);
    if (p->masked)
        batch_feed(b, p->allowed, p->open_next);
    batch_fetch(b, p->target.action, p->proposal);
    batch_run(b);
    if (smoothing != NULL && b->rc == 0)
        smoothing((struct algo *)(void *)b->kit, b, batch_take(b, p->proposal));
    batch_leave_out_absent(b, p->proposal);
}

void actor_feed(struct actor *p, struct batch *b)
{
    if (!p->deterministic)
        batch_feed_live(b, p->temperature);
    if (p->masked)
        batch_feed(b, p->allowed, p->open_now);
}

/* ---- acting ---- */

/* action += exploration_noise * half the range * normal, kept inside the bounds. */
static void add_exploration(struct actor *p, const struct act_args *args,
                            const struct ramp *noise, float *draw, float *actions)
{
    const struct space *space = p->joint->kit->self;
    const size_t width = (size_t)space->width;
    const float low = (float)space->low, high = (float)space->high;

    rng_normal_rows_f32(args->key, args->counter, args->draw_first, draw, args->n_copies,
                        width);
    for (size_t i = 0; i < args->n_copies * width; i++) {
        const float deviation = (float)ramp_value(noise, args->step + i / width);
        const float scale = deviation * (high - low) / 2;

        actions[i] = fminf(fmaxf(actions[i] + scale * draw[i], low), high);
    }
}

static void act_deterministic(struct actor *p, struct batch *b,
                              const struct act_args *args, float *actions)
{
    const struct space *space = p->joint->kit->self;
    float *draw = batch_room(b, p->act_noise);
    struct ramp noise;
    int rc;

    batch_fetch_data(b, p->policy.action, actions, space->width);
    batch_run(b);
    if (b->rc < 0)
        return;
    if (args->mode != ACT_EXPLORE) {
        clip_to_box(actions, args->n_copies, space); /* against rounding */
        return;
    }
    rc = live_ramp(p->exploration_noise, b->session, &noise, b->err);
    if (rc < 0)
        batch_fail(b, rc);
    else
        add_exploration(p, args, &noise, draw, actions);
}

/* Each row's noise is drawn with the key and counter of its copy, and fed, so that it
 * does not depend on the number of copies. If one choice is taken, the softmax is left
 * out: neither it nor a temperature above 0 changes which score is the largest. */
static void act_gumbel(struct actor *p, struct batch *b, const struct act_args *args,
                       float *actions)
{
    const struct space *space = p->joint->kit->self;
    const int greedy = args->mode == ACT_GREEDY;
    const int chooses = greedy || p->joint->kit->settings->execute == EXECUTE_HARD;
    float *x = batch_room(b, p->act_noise);

    if (!greedy && b->rc == 0) {
        rng_uniform_rows_f32(args->key, args->counter, args->draw_first, x,
                             args->n_copies, (size_t)space->width);
        batch_feed(b, p->policy.noise, p->act_noise);
    }
    if (!greedy && p->masked) {
        batch_put_masks(b, p->act_open, args->allowed);
        batch_feed_data(b, p->allowed, batch_take(b, p->act_open), space->width);
    }
    if (!chooses)
        batch_feed_live(b, p->temperature);
    batch_fetch_data(b,
                     greedy    ? p->policy.raw
                     : chooses ? p->policy.scores
                               : p->policy.action,
                     actions, space->width);
    batch_run(b);
    if (b->rc == 0 && chooses)
        choices_harden(space, actions, args->allowed, args->n_copies);
}

int actor_act(struct actor *p, struct session *s, const struct act_args *args,
              struct act_result *ret, struct err *err)
{
    struct kit *k = p->joint->kit;
    struct batch b = batch_to_act(k, s, args, err);
    int rc = 0;

    /* one temperature for all copies, that of the first copy's step */
    if (!p->deterministic && k->settings->execute == EXECUTE_SOFT)
        rc = live_value(p->temperature, s, args->step, &p->temperature->value, err);
    if (rc < 0)
        return rc;
    batch_feed_acting(&b, p->joint->observation[p->joint->seen.own], &p->joint->seen.id,
                      args, p->act_input);
    if (p->deterministic)
        act_deterministic(p, &b, args, ret->actions);
    else
        act_gumbel(p, &b, args, ret->actions);
    return b.rc;
}
