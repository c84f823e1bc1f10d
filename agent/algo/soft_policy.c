#include "agent/algo/soft_policy.h"

#include "agent/algo/choices.h"
#include "agent/graph/arithmetic.h"
#include "agent/nn/policy.h"
#include "common/rng/rng.h"

#include <math.h>

int soft_policy_init(struct soft_policy *p, const struct algo_args *args, struct err *err)
{
    const struct space *self = &args->agents[args->self];

    if (self->box
            ? !(isfinite(self->low) && isfinite(self->high) && self->low < self->high)
            : choices_count(self, CHOICES_MAX) == 0)
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "algorithm"),
                          "%s needs discrete actions, of at most %d choices, or "
                          "continuous ones with bounds",
                          args->config->algorithm, CHOICES_MAX);
    p->n_choices = self->box ? 0 : choices_count(self, CHOICES_MAX);
    p->masked = self->masked && !self->box;
    p->n_log_probs = self->box ? 1 : p->n_choices;
    return 0;
}

void soft_policy_make_matrices(struct soft_policy *p, struct kit *k,
                               const struct seen *seen)
{
    struct matrices *all = &k->matrices;
    const int64_t width = k->self->width, draws = p->n_choices > 0 ? 1 : width;

    p->kit = k;
    p->id = seen->id;
    p->input = seen->input;
    p->own_next = matrix_new(all, 0);
    matrix_add_obs(p->own_next, NEXT, k->index);
    matrix_add_id(p->own_next, &seen->id);
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
    p->act_input = matrix_new(all, p->input);
}

/* ---- the graph ---- */

static void make_categorical(struct soft_policy *p, struct output logits)
{
    struct graph *g = p->kit->graph;

    name_policy(g, p->observation, logits, POLICY_SCORES_COMBINATIONS);
    if (p->masked)
        logits = forbid_choices(g, logits, p->allowed);
    p->scores = logits;
    p->p = softmax(g, logits, NULL);
    p->log_prob = unary(g, "LogSoftmax", logits, NULL);
}

/* outputs (B, 2 U): means, then logarithms of deviations. */
static void make_squashed(struct soft_policy *p, struct output outputs)
{
    const struct space *space = p->kit->self;
    const double scale = (double)space->width * log((space->high - space->low) / 2);
    struct graph *g = p->kit->graph;
    struct output mean = slice_columns(g, outputs, 0, space->width, NULL);
    struct output log_std = slice_columns(g, outputs, space->width, space->width, NULL);
    struct squashed_normal drawn;

    log_std = clip_by_value(g, log_std, LOG_STD_MIN, LOG_STD_MAX, NULL);
    drawn = squashed_normal(g, mean, log_std, space->low, space->high);
    p->scores = squash(g, mean, space->low, space->high);
    p->noise = drawn.noise;
    p->action = drawn.action;
    p->log_prob =
        binary(g, "Add", drawn.log_prob, constant_f32(g, (float)scale, NULL), "log_prob");
    name_policy(g, p->observation, p->scores, POLICY_GIVES_ACTION);
}

void soft_policy_make(struct soft_policy *p)
{
    const struct network_config *net = &p->kit->config->actor;
    const int64_t n = soft_policy_is_box(p) ? 2 * p->kit->self->width : p->n_choices;
    struct graph *g = p->kit->graph;
    struct output x;

    variable_scope_enter(g, "p_func", NULL, REUSE_INHERIT);
    x = see_observations(g, p->observation, net, &p->form);
    x = mlp(g, x, net, n);
    variable_scope_leave(g);
    if (soft_policy_is_box(p))
        make_squashed(p, x);
    else
        make_categorical(p, x);
}

/* ---- draws ---- */

/* Draws a choice of each of n rows with one uniform number: p (n, C), ret (n, U). */
static void draw_choices(const struct soft_policy *policy, const float *p,
                         const float *draw, int64_t n, float *ret)
{
    const struct space *self = policy->kit->self;
    const int32_t choices = policy->n_choices;

    for (int64_t i = 0; i < n; i++)
        choice_to_action(self, choice_draw(p + i * choices, draw[i], choices),
                         ret + i * self->width);
}

void soft_policy_propose(struct soft_policy *p, struct batch *b)
{
    const int box = soft_policy_is_box(p);
    const float *probability, *draw;
    float *proposal;

    batch_feed(b, p->observation, p->own_next);
    if (box) {
        batch_draw_normal(b, p->draw, "next");
        batch_feed(b, p->noise, p->draw);
    }
    if (p->masked)
        batch_feed(b, p->allowed, p->open_next);
    batch_fetch(b, p->log_prob, p->log_probs);
    batch_fetch(b, box ? p->action : p->p, box ? p->proposal : p->probability);
    batch_run(b);
    if (!box) {
        batch_draw_uniform(b, p->draw, "next");
        probability = batch_take(b, p->probability);
        draw = batch_take(b, p->draw);
        proposal = batch_room(b, p->proposal);
        draw_choices(p, probability, draw, b->n, proposal);
    }
    batch_leave_out_absent(b, p->proposal);
}

void soft_policy_feed(struct soft_policy *p, struct batch *b)
{
    if (soft_policy_is_box(p)) {
        batch_draw_normal(b, p->draw, "now");
        batch_feed(b, p->noise, p->draw);
    }
    if (p->masked)
        batch_feed(b, p->allowed, p->open_now);
}

/* ---- acting ---- */

static void act_box(struct soft_policy *p, struct batch *b, const struct act_args *args,
                    float *actions)
{
    const int64_t width = p->kit->self->width;
    const int greedy = args->mode == ACT_GREEDY;
    float *draw = batch_room(b, p->act_draw);

    if (!greedy && b->rc == 0) {
        rng_normal_rows_f32(args->key, args->counter, args->draw_first, draw,
                            args->n_copies, (size_t)width);
        batch_feed(b, p->noise, p->act_draw);
    }
    batch_fetch_data(b, greedy ? p->scores : p->action, actions, width);
    batch_run(b);
    if (b->rc == 0)
        clip_to_box(actions, args->n_copies, p->kit->self); /* against rounding */
}

static void act_choices(struct soft_policy *p, struct batch *b,
                        const struct act_args *args, float *actions)
{
    const int64_t width = p->kit->self->width;
    const int32_t choices = p->n_choices;
    const int greedy = args->mode == ACT_GREEDY;
    float *draw = batch_room(b, p->act_draw);
    const float *x;

    if (p->masked) {
        batch_put_masks(b, p->act_open, args->allowed);
        batch_feed_data(b, p->allowed, batch_take(b, p->act_open), choices);
    }
    batch_fetch(b, greedy ? p->scores : p->p, p->act_p);
    batch_run(b);
    x = batch_take(b, p->act_p);
    if (!greedy && b->rc == 0) {
        rng_uniform_rows_f32(args->key, args->counter, args->draw_first, draw,
                             args->n_copies, 1);
        draw_choices(p, x, draw, b->n, actions);
    }
    for (int64_t e = 0; greedy && e < b->n; e++)
        choice_to_action(p->kit->self, choice_best(x + e * choices, choices),
                         actions + e * width);
}

int soft_policy_act(struct soft_policy *p, struct session *s, const struct act_args *args,
                    struct act_result *ret, struct err *err)
{
    struct batch b = batch_to_act(p->kit, s, args, err);

    batch_feed_acting(&b, p->observation, &p->id, args, p->act_input);
    if (soft_policy_is_box(p))
        act_box(p, &b, args, ret->actions);
    else
        act_choices(p, &b, args, ret->actions);
    return b.rc;
}
