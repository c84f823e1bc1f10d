#include "agent/algo/actor.h"

#include "agent/algo/choices.h"
#include "agent/graph/arithmetic.h"
#include "agent/nn/policy.h"
#include "common/rng/rng.h"

#include <float.h>
#include <math.h>

/* ---- building ---- */

static int is_bounded(const struct space *s)
{
    return s->box && isfinite(s->low) && isfinite(s->high) && s->low < s->high;
}

int actor_init(struct actor *p, const struct algo_args *args, int is_soft,
               struct err *err)
{
    const struct space *self = &args->agents[args->self];
    const enum policy_kind kind = args->settings->policy;

    if (is_soft)
        p->kind = self->box ? ACTOR_SQUASHED : ACTOR_CATEGORICAL;
    else
        p->kind = kind == POLICY_DETERMINISTIC ||
                          (kind == POLICY_AUTO && self->box && !self->particle)
                      ? ACTOR_DETERMINISTIC
                      : ACTOR_GUMBEL;
    p->masked = self->masked && !actor_is_box(p);
    if (p->kind == ACTOR_CATEGORICAL)
        p->n_choices = choices_count(self, CHOICES_MAX);
    if (is_soft)
        p->n_log_probs = self->box ? 1 : p->n_choices;
    switch (p->kind) {
    case ACTOR_DETERMINISTIC:
        if (!is_bounded(self))
            return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "settings.policy"),
                              "deterministic needs a bounded continuous action "
                              "space");
        return 0;
    case ACTOR_GUMBEL:
        if (!choices_only(self))
            return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "settings.policy"),
                              "gumbel needs a discrete action space, or a "
                              "particle world's");
        if (!self->box && args->settings->execute == EXECUTE_SOFT)
            return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "settings.execute"),
                              "soft needs continuous actions");
        return 0;
    default:
        if (p->n_choices == 0 && !is_bounded(self))
            return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "algorithm"),
                              "%s needs discrete actions, of at most %d choices, or "
                              "continuous ones with bounds",
                              args->config->algorithm, CHOICES_MAX);
        return 0;
    }
}

void actor_make_matrices(struct actor *p, struct joint *j)
{
    struct matrices *all = &j->kit->matrices;
    const int64_t width = j->kit->self->width, draws = p->n_choices > 0 ? 1 : width;

    p->joint = j;
    p->own_next = matrix_new(all, 0);
    matrix_add_obs(p->own_next, NEXT, j->kit->index);
    matrix_add_id(p->own_next, &j->seen.id);
    p->proposal = matrix_new(all, width);
    p->probability = matrix_new(all, p->n_choices);
    p->log_probs = matrix_new(all, p->n_log_probs);
    p->draw = matrix_new(all, draws);
    if (p->masked) {
        p->open_now = matrix_of_masks(all, NOW, p->n_choices);
        p->open_next = matrix_of_masks(all, NEXT, p->n_choices);
        p->act_open = matrix_of_masks(all, NOW, p->n_choices);
    }
    p->act_draw = matrix_new(all, draws);
    p->act_p = matrix_new(all, p->n_choices);
    p->act_input = matrix_new(all, j->seen.input);
}

/* ---- the graph ---- */

void actor_make_lives(struct actor *p)
{
    struct kit *k = p->joint->kit;
    const struct algorithm_settings *set = k->settings;
    struct graph *g = k->graph;

    if (p->masked)
        p->allowed = kit_placeholder(k, p->n_choices > 0 ? p->n_choices : k->self->width,
                                     "allowed");
    if (!kit_learns(k) || p->n_log_probs > 0)
        return;
    p->penalty = kit_add_live(
        k, live_fed(g, "settings.logit_penalty", set->logit_penalty, 0, "logit_penalty"));
    p->temperature =
        kit_add_live(k, live_schedule(g, "settings.temperature", &set->temperature));
    live_constant(g, p->temperature, set->temperature.from, 0, "temperature");
    p->exploration_noise = kit_add_live(
        k, live_schedule(g, "settings.exploration_noise", &set->exploration_noise));
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
    ret->action = of_each_head(g, "Softmax", x, p->joint->kit->self);
}

/* raw (B, 2 U): means, then logarithms of deviations. */
static void make_squashed(struct actor *p, struct policy *ret)
{
    const struct space *space = p->joint->kit->self;
    const double scale = (double)space->width * log((space->high - space->low) / 2);
    struct graph *g = p->joint->kit->graph;
    struct output mean = slice_columns(g, ret->raw, 0, space->width, NULL);
    struct output log_std = slice_columns(g, ret->raw, space->width, space->width, NULL);
    struct squashed_normal drawn;

    log_std = clip_by_value(g, log_std, LOG_STD_MIN, LOG_STD_MAX, NULL);
    drawn = squashed_normal(g, mean, log_std, space->low, space->high);
    ret->scores = squash(g, mean, space->low, space->high);
    ret->noise = drawn.noise;
    ret->action = drawn.action;
    ret->log_prob =
        binary(g, "Add", drawn.log_prob, constant_f32(g, (float)scale, NULL), "log_prob");
}

struct policy actor_policy(struct actor *p, const char *scope)
{
    struct kit *k = p->joint->kit;
    const struct network_config *net = &k->config->actor;
    const int64_t outputs = p->kind == ACTOR_SQUASHED ? 2 * k->self->width
                            : p->n_choices > 0        ? p->n_choices
                                                      : k->self->width;
    struct policy ret = {0};

    variable_scope_enter(k->graph, scope, NULL, REUSE_INHERIT);
    ret.raw = see_observations(k->graph, p->joint->observation[p->joint->seen.own], net,
                               &p->form);
    ret.raw = mlp(k->graph, ret.raw, net, outputs);
    variable_scope_leave(k->graph);
    if (p->kind == ACTOR_DETERMINISTIC) {
        ret.action = squash(k->graph, ret.raw, k->self->low, k->self->high);
    } else if (p->kind == ACTOR_CATEGORICAL) {
        ret.scores = p->masked ? forbid_choices(k->graph, ret.raw, p->allowed) : ret.raw;
        ret.p = softmax(k->graph, ret.scores, NULL);
        ret.log_prob = unary(k->graph, "LogSoftmax", ret.scores, NULL);
    } else if (p->kind == ACTOR_SQUASHED) {
        make_squashed(p, &ret);
    } else if (kit_learns(k)) {
        sample_gumbel(p, &ret);
    }
    return ret;
}

void actor_make_policy(struct actor *p)
{
    static const enum policy_gives gives[] = {[ACTOR_DETERMINISTIC] = POLICY_GIVES_ACTION,
                                              [ACTOR_GUMBEL] = POLICY_SCORES_CHOICES,
                                              [ACTOR_CATEGORICAL] =
                                                  POLICY_SCORES_COMBINATIONS,
                                              [ACTOR_SQUASHED] = POLICY_GIVES_ACTION};

    p->policy = actor_policy(p, "p_func");
    name_policy(p->joint->kit->graph, p->joint->observation[p->joint->seen.own],
                p->kind == ACTOR_DETERMINISTIC ? p->policy.action
                : p->kind == ACTOR_SQUASHED    ? p->policy.scores
                                               : p->policy.raw,
                gives[p->kind]);
    name_policy_inputs(p->joint->kit->graph, 0, &p->joint->seen.id);
}

struct output actor_penalty(struct actor *p)
{
    struct graph *g = p->joint->kit->graph;

    return square(g, p->masked ? mul(g, p->policy.raw, p->allowed) : p->policy.raw);
}

/* ---- stages ---- */

/* Draws a choice of each of n rows with one uniform number: p (n, C), ret (n, U). */
static void draw_choices(const struct actor *actor, const float *p, const float *draw,
                         int64_t n, float *ret)
{
    const struct space *self = actor->joint->kit->self;
    const int32_t choices = actor->n_choices;

    for (int64_t i = 0; i < n; i++)
        choice_to_action(self, choice_draw(p + i * choices, draw[i], choices),
                         ret + i * self->width);
}

static void feed_beside(struct actor *p, struct batch *b, enum when when)
{
    if (p->kind == ACTOR_GUMBEL)
        batch_feed_live(b, p->temperature);
    if (p->kind == ACTOR_SQUASHED) {
        batch_draw_normal(b, p->draw, when == NOW ? "now" : "next");
        batch_feed(b, p->policy.noise, p->draw);
    }
    if (p->masked)
        batch_feed(b, p->allowed, when == NOW ? p->open_now : p->open_next);
}

void actor_feed(struct actor *p, struct batch *b)
{
    feed_beside(p, b, NOW);
}

void actor_propose(struct actor *p, struct batch *b,
                   void (*smoothing)(struct algo *a, struct batch *b, float *x))
{
    const struct policy *policy = p->n_log_probs > 0 ? &p->policy : &p->target;
    const int is_drawn = p->kind == ACTOR_CATEGORICAL;
    const float *probability, *draw;

    batch_feed(b, p->joint->observation[p->joint->seen.own], p->own_next);
    feed_beside(p, b, NEXT);
    if (p->n_log_probs > 0)
        batch_fetch(b, policy->log_prob, p->log_probs);
    batch_fetch(b, is_drawn ? policy->p : policy->action,
                is_drawn ? p->probability : p->proposal);
    batch_run(b);
    if (is_drawn) {
        batch_draw_uniform(b, p->draw, "next");
        probability = batch_take(b, p->probability);
        draw = batch_take(b, p->draw);
        draw_choices(p, probability, draw, b->n, batch_room(b, p->proposal));
    }
    if (smoothing != NULL && b->rc == 0)
        smoothing((struct algo *)(void *)b->kit, b, batch_take(b, p->proposal));
    batch_leave_out_absent(b, p->proposal);
}

/* ---- acting ---- */

/* action += exploration_noise * half the range * normal, kept inside the bounds. */
static void add_exploration(struct actor *p, const struct act_args *args,
                            const struct schedule *noise, float *draw, float *actions)
{
    const struct space *space = p->joint->kit->self;
    const size_t width = (size_t)space->width;
    const float low = (float)space->low, high = (float)space->high;

    rng_normal_rows_f32(args->key, args->counter, args->draw_first, draw, args->n_copies,
                        width);
    for (size_t i = 0; i < args->n_copies * width; i++) {
        const float deviation = (float)schedule_at(noise, args->step + i / width);
        const float scale = deviation * (high - low) / 2;

        actions[i] = fminf(fmaxf(actions[i] + scale * draw[i], low), high);
    }
}

static void act_deterministic(struct actor *p, struct batch *b,
                              const struct act_args *args, float *actions)
{
    const struct space *space = p->joint->kit->self;
    float *draw = batch_room(b, p->act_draw);
    struct schedule noise;
    int rc;

    batch_fetch_data(b, p->policy.action, actions, space->width);
    batch_run(b);
    if (b->rc < 0)
        return;
    if (args->mode != ACT_EXPLORE) {
        clip_to_box(actions, args->n_copies, space); /* against rounding */
        return;
    }
    rc = live_schedule_read(p->exploration_noise, b->session, &noise, b->err);
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
    float *x = batch_room(b, p->act_draw);

    if (!greedy && b->rc == 0) {
        rng_uniform_rows_f32(args->key, args->counter, args->draw_first, x,
                             args->n_copies, (size_t)space->width);
        batch_feed(b, p->policy.noise, p->act_draw);
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

static void act_squashed(struct actor *p, struct batch *b, const struct act_args *args,
                         float *actions)
{
    const struct space *space = p->joint->kit->self;
    const int greedy = args->mode == ACT_GREEDY;
    float *draw = batch_room(b, p->act_draw);

    if (!greedy && b->rc == 0) {
        rng_normal_rows_f32(args->key, args->counter, args->draw_first, draw,
                            args->n_copies, (size_t)space->width);
        batch_feed(b, p->policy.noise, p->act_draw);
    }
    batch_fetch_data(b, greedy ? p->policy.scores : p->policy.action, actions,
                     space->width);
    batch_run(b);
    if (b->rc == 0)
        clip_to_box(actions, args->n_copies, space); /* against rounding */
}

static void act_categorical(struct actor *p, struct batch *b, const struct act_args *args,
                            float *actions)
{
    const struct space *space = p->joint->kit->self;
    const int32_t choices = p->n_choices;
    const int greedy = args->mode == ACT_GREEDY;
    float *draw = batch_room(b, p->act_draw);
    const float *x;

    if (p->masked) {
        batch_put_masks(b, p->act_open, args->allowed);
        batch_feed_data(b, p->allowed, batch_take(b, p->act_open), choices);
    }
    batch_fetch(b, greedy ? p->policy.scores : p->policy.p, p->act_p);
    batch_run(b);
    x = batch_take(b, p->act_p);
    if (!greedy && b->rc == 0) {
        rng_uniform_rows_f32(args->key, args->counter, args->draw_first, draw,
                             args->n_copies, 1);
        draw_choices(p, x, draw, b->n, actions);
    }
    for (int64_t e = 0; greedy && e < b->n; e++)
        choice_to_action(space, choice_best(x + e * choices, choices),
                         actions + e * space->width);
}

int actor_act(struct actor *p, struct session *s, const struct act_args *args,
              struct act_result *ret, struct err *err)
{
    static void (*const acts[])(struct actor *, struct batch *, const struct act_args *,
                                float *) = {[ACTOR_DETERMINISTIC] = act_deterministic,
                                            [ACTOR_GUMBEL] = act_gumbel,
                                            [ACTOR_CATEGORICAL] = act_categorical,
                                            [ACTOR_SQUASHED] = act_squashed};
    struct kit *k = p->joint->kit;
    struct batch b = batch_to_act(k, s, args, err);
    int rc = 0;

    /* one temperature for all copies, that of the first copy's step */
    if (p->kind == ACTOR_GUMBEL && k->settings->execute == EXECUTE_SOFT)
        rc = live_value(p->temperature, s, args->step, &p->temperature->value, err);
    if (rc < 0)
        return rc;
    batch_feed_acting(&b, p->joint->observation[p->joint->seen.own], &p->joint->seen.id,
                      args, p->act_input);
    acts[p->kind](p, &b, args, ret->actions);
    return b.rc;
}
