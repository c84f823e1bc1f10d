#include "agent/algo/q_network.h"

#include "agent/algo/choices.h"
#include "agent/graph/arithmetic.h"
#include "common/mem/xmalloc.h"
#include "common/rng/rng.h"

#include <stdlib.h>
#include <string.h>

/* ---- what it is fed ---- */

static void make_matrices(struct q_network *q)
{
    struct kit *k = &q->kit;
    struct matrices *all = &k->matrices;

    q->action = matrix_new(all, 0);
    matrix_add_action(q->action, k->index);
    q->choices = matrix_of_choices(all, q->action, q->n_choices);
    if (q->of_episodes) {
        q->through = matrix_new(all, 0);
        matrix_add_obs_through(q->through, k->index);
        if (k->settings->last_action)
            matrix_add_action_before(q->through, k->index);
        matrix_add_id(q->through, &q->id);
    } else {
        q->now = matrix_new(all, 0);
        q->after = matrix_new(all, 0);
        matrix_share_memory(q->after, q->now);
        matrix_add_obs(q->now, NOW, k->index);
        matrix_add_obs(q->after, NEXT, k->index);
    }
    if (k->self->masked)
        q->open = matrix_of_masks(all, NEXT, q->n_choices);
    q->online = matrix_new(all, q->n_choices);
    q->target = matrix_new(all, q->n_choices);
    q->sent = matrix_new(all, 2);
    q->next = matrix_new(all, 1);
    q->slopes = matrix_new(all, 1);
    q->zeros = matrix_new(all, q->carry_width);
    q->act_inputs = matrix_new(all, q->inputs);
    q->act_values = matrix_new(all, q->n_choices);
    q->act_draws = matrix_new(all, 1);
    q->act_carries = matrix_new(all, q->carry_width);
    q->act_next_carries = matrix_new(all, q->carry_width);
}

static int q_network_check(const struct algo_args *args, struct err *err)
{
    const struct space *self = &args->agents[args->self];

    if (self->box || choices_count(self, CHOICES_MAX) == 0)
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "algorithm"),
                          "%s needs a discrete action space, of at most %d choices",
                          args->config->algorithm, CHOICES_MAX);
    if (args->settings->recurrent > 0 && args->max_steps == 0)
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "settings.recurrent"),
                          "recurrent networks are unrolled over whole episodes: set "
                          "env.max_steps");
    return check_agent_id(args->settings, err);
}

int q_network_check_optimizer(const struct agent_config *c, struct err *err)
{
    if (network_optimizer(c, &c->critic)->type != OPT_ACCEPT_REJECT)
        return 0;
    return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "optimizer.type"),
                      "%s learns by gradients", c->algorithm);
}

int q_network_init(struct q_network *q, const struct algo_args *args, struct err *err)
{
    const struct algorithm_settings *set = args->settings;
    struct kit *k = &q->kit;
    int rc = q_network_check(args, err);

    if (rc == 0)
        rc = q_network_check_optimizer(args->config, err);
    if (rc < 0)
        return rc;
    q->of_episodes = k->plan->rows == ROWS_EPISODES;
    q->id = agent_id_of(args, 1);
    q->cell = set->cell == RECURRENT_LSTM ? CELL_LSTM : CELL_GRU;
    q->units = set->recurrent;
    q->carry_width = cell_carry_width(q->cell, q->units);
    q->max_steps = args->max_steps;
    q->n_choices = choices_count(k->self, CHOICES_MAX);
    q->allowed = xcalloc((size_t)q->n_choices, 1);
    q->inputs = k->self->obs + (set->last_action ? k->self->width : 0) + q->id.width;
    make_matrices(q);
    return obs_form_of(&k->config->critic, "critic.conv", k->self, NULL, 1, &q->form,
                       err);
}

void q_network_done(struct q_network *q)
{
    kit_done(&q->kit);
    free(q->allowed);
}

/* ---- the graph ---- */

/* The values of the choices for x. steps 0: x are single steps with *carry, which is
 * replaced by the next carry; otherwise x are sequences of `steps` steps. */
static struct output network(struct q_network *q, const char *scope, struct output x,
                             struct output *carry, int steps)
{
    const struct network_config *net = &q->kit.config->critic;
    struct graph *g = q->kit.graph;

    variable_scope_enter(g, scope, NULL, REUSE_AUTO);
    x = see_observations(g, x, net, &q->form);
    x = mlp_hidden(g, x, net);
    if (q->units > 0)
        x = mlp_recurrent(g, x, net, q->cell, q->units, carry, OUTPUT_NONE, steps);
    x = mlp_output(g, x, net, q->n_choices);
    variable_scope_leave(g);
    return x;
}

/* Of a recurrent network. */
static int steps_unrolled(const struct q_network *q)
{
    return q->units > 0 ? (int)q->max_steps + 1 : 0;
}

/* Without a cell a row depends on no other row: one graph acts and learns. */
void q_network_build(struct q_network *q)
{
    struct graph *g = q->kit.graph;

    q->input = kit_placeholder(&q->kit, q->inputs, "observation");
    q->carry = OUTPUT_NONE;
    if (q->units > 0)
        q->carry = kit_placeholder(&q->kit, q->carry_width, "carry");
    q->act_input = q->input;
    q->act_carry = q->act_next_carry = q->carry;
    q->act_q = named(g, network(q, "q_func", q->input, &q->act_next_carry, 0), "q");
    name_policy(g, q->act_input, q->act_q, POLICY_SCORES_COMBINATIONS);
    name_policy_inputs(g, q->kit.settings->last_action ? q->kit.self->width : 0, &q->id);
    if (q->units > 0)
        name_policy_carry(g, q->act_carry, q->act_next_carry);
    q->q = q->units > 0 ? network(q, "q_func", q->input, &q->carry, steps_unrolled(q))
                        : q->act_q;
}

struct output q_network_taken(struct q_network *q)
{
    static const int32_t columns = 1;
    struct graph *g = q->kit.graph;

    q->choice = kit_placeholder(&q->kit, q->n_choices, "choice");
    return reduce(g, "Sum", mul(g, q->q, q->choice), &columns, 1, 1, "q_chosen");
}

void q_network_build_step(struct q_network *q, struct output loss)
{
    struct step step = kit_critic_step(&q->kit, "q_func", q->rate, loss);

    step.rate_name = "learning_rate";
    (void)kit_add_step(&q->kit, step);
    kit_share_steps(&q->kit);
}

void q_network_build_target(struct q_network *q)
{
    static const struct following target = {"target_q_func", "q_func"};
    const struct output keep = kit_keep(&q->kit);
    struct output carry = q->carry;

    q->target_q = network(q, "target_q_func", q->input, &carry, steps_unrolled(q));
    q->target_q = named(q->kit.graph, q->target_q, "target_q");
    kit_follow(&q->kit, &target, 1, keep, "update_target", "init_target");
}

/* ---- acting ---- */

static struct q_network *q_network_of(struct algo *a)
{
    return (struct q_network *)(void *)a;
}

/* Of the cell and the last action. */
static int64_t width_of_carry(const struct q_network *q)
{
    return q->carry_width + (q->kit.settings->last_action ? q->kit.self->width : 0);
}

void q_network_rows(const struct algo *a, struct algo_rows *ret)
{
    const struct q_network *q = (const struct q_network *)(const void *)a;

    *ret = (struct algo_rows){ROWS_TRANSITIONS, 1};
    if (q->kit.plan->rows == ROWS_EPISODES)
        *ret = (struct algo_rows){ROWS_EPISODES, q->max_steps};
}

int64_t q_network_carry(const struct algo *a)
{
    const struct q_network *q = (const struct q_network *)(const void *)a;

    return q->kit.self != NULL ? width_of_carry(q) : 0;
}

/* Sets the inputs (E, I) and the cell's carry (E, H) of all copies. At a copy's first step its
 * last action and carry are 0. */
static void make_inputs(const struct q_network *q, const struct act_args *args,
                        float *input, float *carry)
{
    const struct space *self = q->kit.self;
    const size_t obs = (size_t)self->obs, width = (size_t)self->width;
    const size_t units = (size_t)q->carry_width, all = (size_t)width_of_carry(q);
    const int last_action = q->kit.settings->last_action;

    for (size_t e = 0; e < args->n_copies; e++) {
        const int is_first = args->first != NULL && args->first[e];
        const float *before =
            args->carry != NULL && !is_first ? args->carry + e * all : NULL;
        float *x = input + e * (size_t)q->inputs;

        memset(x, 0, (size_t)q->inputs * sizeof(*x));
        memcpy(x, args->obs + e * obs, obs * sizeof(*x));
        if (last_action && before != NULL)
            memcpy(x + obs, before + units, width * sizeof(*x));
        memset(carry + e * units, 0, units * sizeof(*carry));
        if (before != NULL)
            memcpy(carry + e * units, before, units * sizeof(*carry));
    }
    agent_id_put(&q->id, input + q->inputs - q->id.width, (int64_t)args->n_copies,
                 q->inputs);
}

/* Runs it on the copies' observations: values (E, C), and the cell's next carry (E, H). */
static void run_to_act(struct q_network *q, struct batch *b, const struct act_args *args)
{
    float *inputs, *carries;

    if (q->inputs == q->kit.self->obs && q->units == 0) {
        batch_feed_data(b, q->act_input, args->obs, q->inputs);
    } else {
        inputs = batch_room(b, q->act_inputs);
        carries = batch_room(b, q->act_carries);
        if (b->rc == 0)
            make_inputs(q, args, inputs, carries);
        batch_feed(b, q->act_input, q->act_inputs);
    }
    batch_fetch(b, q->act_q, q->act_values);
    if (q->units > 0) {
        batch_feed(b, q->act_carry, q->act_carries);
        batch_fetch(b, q->act_next_carry, q->act_next_carries);
    }
    batch_run(b);
}

int q_network_act(struct algo *a, struct session *s, const struct act_args *args,
                  struct act_result *ret, struct err *err)
{
    struct q_network *q = q_network_of(a);
    const struct space *self = q->kit.self;
    const size_t width = (size_t)self->width, choices = (size_t)q->n_choices;
    const int greedy = args->mode == ACT_GREEDY;
    struct batch b = batch_to_act(&q->kit, s, args, err);
    float *draw = batch_room(&b, q->act_draws);
    const float *values;
    struct schedule epsilon;
    const int rc = live_schedule_read(q->epsilon, s, &epsilon, err);

    if (rc < 0)
        return rc;
    run_to_act(q, &b, args);
    values = batch_take(&b, q->act_values);
    if (!greedy && b.rc == 0)
        rng_uniform_rows_f32(args->key, args->counter, args->draw_first, draw,
                             args->n_copies, 1);
    for (size_t e = 0; e < (size_t)b.n; e++) {
        const int32_t choice = choice_epsilon_greedy(
            self, values + e * choices,
            args->allowed != NULL ? args->allowed + e * width : NULL, q->n_choices,
            greedy ? NULL : &draw[e], (float)schedule_at(&epsilon, act_step(args, e)),
            q->allowed);

        choice_to_action(self, choice, ret->actions + e * width);
    }
    const size_t units = (size_t)q->carry_width, all = (size_t)width_of_carry(q);
    const float *next = units > 0 ? batch_take(&b, q->act_next_carries) : NULL;
    for (size_t e = 0; e < (size_t)b.n; e++) {
        if (units > 0)
            memcpy(ret->carry + e * all, next + e * units, units * sizeof(*next));
        if (q->kit.settings->last_action)
            memcpy(ret->carry + e * all + units, ret->actions + e * width,
                   width * sizeof(*next));
    }
    return b.rc;
}

/* ---- learning ---- */

/* Episodes are fed in the order of time, and begin without a carry. */
static void feed_through(struct q_network *q, struct batch *b)
{
    float *zeros;

    batch_in_time(b);
    if (b->rc == 0 && q->units > 0 && b->args->length != q->max_steps)
        batch_fail(b, err_set(b->err, ERR_ARG,
                              "stage %s: episodes of %lld steps, %lld expected",
                              b->args->stage->name, (long long)b->args->length,
                              (long long)q->max_steps));
    batch_feed(b, q->input, q->through);
    if (q->units == 0)
        return;
    zeros = batch_room(b, q->zeros);
    if (b->rc == 0)
        memset(zeros, 0, (size_t)(b->sequences * q->carry_width) * sizeof(*zeros));
    batch_feed_first(b, q->carry, q->zeros, b->sequences);
}

void q_network_feed(struct q_network *q, struct batch *b)
{
    if (q->of_episodes)
        feed_through(q, b);
    else
        batch_feed(b, q->input, q->now);
    batch_feed(b, q->choice, q->choices);
}

/* The first of the best choices that are open; NULL: all are. */
static int32_t best_open(const float *values, const float *open, int32_t n)
{
    int32_t best = -1;

    if (open == NULL)
        return choice_best(values, n);
    for (int32_t i = 0; i < n; i++)
        if (open[i] != 0 && (best < 0 || values[i] > values[best]))
            best = i;
    return best < 0 ? 0 : best;
}

/* Sets `online`, of episodes, and `target` at what followed row i in row i + the shift returned. */
static int64_t run_networks(struct q_network *q, struct batch *b)
{
    if (q->of_episodes) {
        feed_through(q, b);
        batch_fetch(b, q->q, q->online);
    } else {
        batch_feed(b, q->input, q->after);
    }
    batch_fetch(b, q->target_q, q->target);
    batch_run(b);
    return q->of_episodes ? b->sequences : 0;
}

const float *q_network_find_next(struct q_network *q, struct batch *b)
{
    const int double_q = q->of_episodes && q->kit.settings->double_q;
    const int64_t shift = run_networks(q, b), choices = q->n_choices;
    const float *alive = batch_take(b, q->kit.alive);
    const float *terminated = batch_take(b, q->kit.terminated);
    const float *target = batch_take(b, q->target);
    const float *by = double_q ? batch_take(b, q->online) : target;
    const float *open = q->open != NULL ? batch_take(b, q->open) : NULL;
    float *next = batch_room(b, q->next);

    for (int64_t i = 0; i < b->n; i++) {
        const int64_t at = (i + shift) * choices;

        next[i] = 0;
        if (alive[i] != 0)
            next[i] =
                (1 - terminated[i]) *
                target[at + best_open(by + at, open != NULL ? open + i * choices : NULL,
                                      q->n_choices)];
    }
    return b->rc == 0 ? next : NULL;
}

/* ---- for teams whose values are mixed ---- */

void q_network_add_lives(struct q_network *q, int acts)
{
    struct kit *k = &q->kit;
    const struct algorithm_settings *set = k->settings;
    struct graph *g = k->graph;

    kit_add_clip_norm(k);
    kit_add_polyak(k);
    k->discount = kit_add_live(k, live_new(g, "discount", k->config->discount));
    q->lambda = kit_add_live(k, live_new(g, "settings.lambda", set->lambda));
    if (acts)
        q->epsilon = kit_add_live(k, live_schedule(g, "settings.epsilon", &set->epsilon));
    q->rate = kit_add_live(k, live_critic_rate(g, k->config));
}

void q_network_build_descent(struct q_network *q)
{
    const int learns = kit_learns(&q->kit);
    struct graph *g = q->kit.graph;
    struct output taken, loss = OUTPUT_NONE;

    if (learns) {
        taken = q_network_taken(q);
        q->slope = kit_placeholder(&q->kit, 1, "slope");
        loss = sum_of(g, mul(g, taken, q->slope), "descent");
    }
    q_network_build_step(q, loss);
    if (learns)
        q_network_build_target(q);
}

void q_network_values(struct algo *a, struct batch *b)
{
    struct q_network *q = q_network_of(a);
    const struct shape shape = SHAPE(1, b->args->batch, b->args->length);
    const int64_t n = b->n, choices = q->n_choices;
    const float *next = q_network_find_next(q, b);
    const float *online = batch_take(b, q->online), *taken = batch_take(b, q->choices);
    const float *alive = batch_take(b, q->kit.alive);
    float *sent = batch_room(b, q->sent);

    if (b->rc < 0)
        return;
    memset(sent, 0, (size_t)(2 * n) * sizeof(*sent));
    for (int64_t i = 0; i < b->n; i++) {
        const uint32_t k = b->place[i];

        if (k == ROW_NOT_REQUESTED || alive[i] == 0)
            continue;
        sent[k] = online[i * choices + choice_best(taken + i * choices, q->n_choices)];
        sent[n + k] = next[i];
    }
    stage_output(b->ret, "q", tensor_view(DT_FLOAT, shape, sent));
    stage_output(b->ret, "next", tensor_view(DT_FLOAT, shape, sent + n));
}

void q_network_descend(struct q_network *q, struct batch *b, const float *slope)
{
    const struct share *share = q->kit.share;
    const float times = share != NULL ? (float)share_group(share)->n : 1;
    const float *alive = batch_take(b, q->kit.alive);
    float *slopes = batch_room(b, q->slopes);

    for (int64_t i = 0; i < b->n; i++)
        slopes[i] = alive[i] != 0 ? times * alive[i] * slope[i] : 0;
    q_network_feed(q, b);
    batch_feed(b, q->slope, q->slopes);
    batch_show(b, "epsilon", (double)q->epsilon->value);
    batch_step(b, 0, 1);
}
