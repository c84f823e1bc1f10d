#include "agent/algo/sampled_policy.h"

#include "agent/algo/choices.h"
#include "agent/graph/arithmetic.h"
#include "agent/nn/policy.h"
#include "common/numerics/elementary.h"
#include "common/rng/rng.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define HALF_LOG_2PI 0.91893853320467274178

void sampled_policy_init(struct sampled_policy *p, struct kit *k,
                         const struct algo_args *args)
{
    struct matrices *all = &k->matrices;

    p->kit = k;
    p->choices = choices_width(k->self);
    p->numbers = k->self->width - p->choices;
    p->masked = k->self->masked && p->choices > 0;
    p->id = agent_id_of(args, 0);
    p->input = k->self->obs + p->id.width;
    p->units = k->settings->recurrent;
    p->cell = k->settings->cell == RECURRENT_LSTM ? CELL_LSTM : CELL_GRU;
    p->carry_width = cell_carry_width(p->cell, p->units);
    p->chunk = p->units > 0 ? (int)k->settings->chunk : 1;
    p->own = matrix_new(all, 0);
    p->own_next = matrix_new(all, 0);
    p->taken = matrix_new(all, 0);
    matrix_add_obs(p->own, NOW, k->index);
    matrix_add_id(p->own, &p->id);
    matrix_add_obs(p->own_next, NEXT, k->index);
    matrix_add_id(p->own_next, &p->id);
    matrix_add_actions_in(p->taken, k->index, p->numbers > 0 ? "sample" : "action");
    if (p->masked) {
        p->open = matrix_of_masks(all, NOW, 0);
        p->act_open = matrix_of_masks(all, NOW, 0);
    }
    if (p->units > 0) {
        p->carries = matrix_new(all, 0);
        p->firsts = matrix_new(all, 0);
        matrix_add_columns(p->carries, k->index, "carry", p->carry_width);
        matrix_add_columns(p->firsts, MATRIX_ALL, "first", 1);
        p->act_carry = matrix_new(all, p->carry_width);
    }
    p->act_input = matrix_new(all, p->input);
    p->act_draw = matrix_new(all, k->self->width);
}

/* ---- the graph ---- */

/* Of the columns of an action: those of the heads, or the numbers behind them. */
static struct output part_of(const struct sampled_policy *p, struct output x,
                             int of_numbers)
{
    if (p->choices == 0 || p->numbers == 0)
        return x;
    return slice_columns(p->kit->graph, x, of_numbers ? p->choices : 0,
                         of_numbers ? p->numbers : p->choices, NULL);
}

/* One behind the other, where there are both. */
static struct output joined(const struct sampled_policy *p, struct output choices,
                            struct output numbers)
{
    const struct output both[] = {choices, numbers};

    if (p->choices == 0 || p->numbers == 0)
        return p->choices > 0 ? choices : numbers;
    return concat(p->kit->graph, both, 2, 1, NULL);
}

/* Log-probabilities of choices, and means. */
static struct output scores_of(struct sampled_policy *p, struct output x)
{
    struct graph *g = p->kit->graph;
    struct output choices = {0};

    if (p->masked) /* numbers are lowered by 0 */
        x = forbid_choices(g, x, p->allowed);
    if (p->choices > 0)
        choices = of_each_head(g, "LogSoftmax", part_of(p, x, 0), p->kit->self);
    return joined(p, choices, part_of(p, x, 1));
}

/* For frozen.c. x: logits, and means. */
static void name(struct sampled_policy *p, struct output x)
{
    const struct space *space = p->kit->self;
    struct graph *g = p->kit->graph;
    const enum policy_gives gives = p->numbers == 0   ? POLICY_SCORES_CHOICES
                                    : p->choices == 0 ? POLICY_GIVES_ACTION
                                                      : POLICY_GIVES_HYBRID;

    if (p->numbers > 0) {
        const struct output logits = part_of(p, x, 0);

        x = clip_by_value(g, part_of(p, x, 1), space->low, space->high, NULL);
        x = joined(p, logits, x);
    }
    name_policy(g, p->observation, x, gives);
    name_policy_inputs(g, 0, &p->id);
    if (p->units > 0)
        name_policy_carry(g, p->carry, p->next_carry);
}

/* The distribution of the heads, or nothing if there are none. */
static void make_categorical(struct sampled_policy *p)
{
    struct graph *g = p->kit->graph;
    const struct output scores = part_of(p, p->scores, 0);

    p->log_prob = sum_of_row(g, mul(g, part_of(p, p->action, 0), scores));
    p->probabilities = unary(g, "Exp", scores, NULL);
    p->entropy =
        unary(g, "Neg", sum_of_row(g, mul(g, p->probabilities, scores)), "entropy");
}

/* That of the numbers; the heads' was made before, if there are any. */
static void make_gaussian(struct sampled_policy *p)
{
    const struct initializer zeros = zeros_initializer();
    const struct output mean = part_of(p, p->scores, 1);
    struct graph *g = p->kit->graph;
    struct output log_prob, entropy;

    variable_scope_enter(g, "p_func", NULL, REUSE_INHERIT);
    p->log_std = get_variable(g, "log_std", DT_FLOAT, &SHAPE(p->numbers), &zeros, 0);
    variable_scope_leave(g);
    if (p->log_std == NULL)
        return;
    log_prob = normal_log_prob(g, mean, p->log_std->read, part_of(p, p->action, 1));
    entropy = normal_entropy(g, mean, p->log_std->read);
    p->log_prob = p->choices > 0 ? add(g, p->log_prob, log_prob) : log_prob;
    p->entropy = p->choices > 0 ? add(g, p->entropy, entropy) : entropy;
}

/* steps 0: one step, which sets next_carry; otherwise chunks of so many. */
static struct output network(struct sampled_policy *p, int steps, enum reuse reuse)
{
    const struct network_config *net = &p->kit->config->actor;
    struct graph *g = p->kit->graph;
    struct output x, carry = p->carry;

    x = obs_norm_apply(p->norm, g, p->observation, p->kit->self->obs);
    variable_scope_enter(g, "p_func", NULL, reuse);
    x = see_observations(g, x, net, &p->form);
    if (p->units == 0) {
        x = mlp(g, x, net, p->kit->self->width);
        variable_scope_leave(g);
        return x;
    }
    x = mlp_hidden(g, x, net);
    x = mlp_recurrent(g, x, net, p->cell, p->units, &carry, p->first, steps);
    if (steps == 0)
        p->next_carry = carry;
    x = mlp_output(g, x, net, p->kit->self->width);
    variable_scope_leave(g);
    return x;
}

void sampled_policy_make(struct sampled_policy *p)
{
    struct kit *k = p->kit;
    struct output x, learnt;

    if (p->units > 0) {
        p->carry = kit_placeholder(k, p->carry_width, "carry");
        p->first = kit_placeholder(k, 1, "first");
    }
    x = learnt = network(p, 0, REUSE_INHERIT);
    name(p, x);
    if (p->units > 0) {
        p->act_scores = scores_of(p, x);
        learnt = network(p, p->chunk, REUSE_TRUE);
    }
    p->scores = scores_of(p, learnt);
    if (p->choices > 0)
        make_categorical(p);
    if (p->numbers > 0)
        make_gaussian(p);
    if (p->units == 0)
        p->act_scores = p->scores;
}

void sampled_policy_feed_carry(struct sampled_policy *p, struct batch *b)
{
    if (p->units == 0)
        return;
    batch_feed_first(b, p->carry, p->carries, b->n / p->chunk);
    batch_feed(b, p->first, p->firsts);
}

void sampled_policy_feed(struct sampled_policy *p, struct batch *b, enum when when)
{
    batch_feed(b, p->observation, when == NOW ? p->own : p->own_next);
    if (p->masked)
        batch_feed(b, p->allowed, when == NOW ? p->open : p->open_next);
}

/* ---- choices ---- */

/* Replaces the scores of a copy by its action. Returns the action's log-probability. */
static float choose(const struct space *space, const float *noisy, const uint8_t *allowed,
                    float *scores)
{
    float log_prob = 0;
    int64_t at = 0;

    for (int h = 0; h < space->n_heads; h++) {
        const int32_t n = space->heads[h];
        const int32_t best =
            choice_best_of(noisy + at, allowed != NULL ? allowed + at : NULL, n);

        log_prob += scores[at + best];
        memset(scores + at, 0, (size_t)n * sizeof(float));
        scores[at + best] = 1;
        at += n;
    }
    return log_prob;
}

void sampled_policy_choose(const struct sampled_policy *p, const float *draw,
                           const uint8_t *allowed, float *scores, size_t n,
                           float *ret_log_prob)
{
    const size_t width = (size_t)p->kit->self->width;

    for (size_t e = 0; e < n; e++) {
        const float log_prob =
            choose(p->kit->self, draw + e * width,
                   allowed != NULL ? allowed + e * width : NULL, scores + e * width);

        if (ret_log_prob != NULL)
            ret_log_prob[e] = log_prob;
    }
}

/* The largest of log-probability + Gumbel noise is a draw from the distribution (Maddison
 * et al. 2014); without noise it is the most likely choice. */
void sampled_policy_add_noise(const float *restrict scores, float *restrict draw,
                              size_t n)
{
    for (size_t i = 0; i < n; i++) /* vectorised, which fmaxf would prevent */
        draw[i] = scores[i] - log_f32(-log_f32(draw[i] > FLT_MIN ? draw[i] : FLT_MIN));
}

/* ---- acting ---- */

size_t sampled_policy_columns(const struct sampled_policy *p, struct algo_column *ret)
{
    size_t n = 0;

    ret[n++] = (struct algo_column){"log_prob", 1};
    if (p->numbers > 0)
        ret[n++] = (struct algo_column){"sample", p->kit->self->width};
    if (p->units > 0)
        ret[n++] = (struct algo_column){"carry", p->carry_width};
    return n;
}

/* Turns the scores of heads into actions. Columns that are NULL are not written. In a hybrid
 * action numbers have draws here, too, which are not used. */
static void choose_all(const struct sampled_policy *p, const struct act_args *args,
                       float *draw, struct act_result *ret)
{
    const size_t n = args->n_copies, width = (size_t)p->kit->self->width;

    if (args->mode == ACT_GREEDY) {
        memcpy(draw, ret->actions, n * width * sizeof(float));
    } else {
        rng_uniform_rows_f32(args->key, args->counter, args->draw_first, draw, n, width);
        sampled_policy_add_noise(ret->actions, draw, n * width);
    }
    sampled_policy_choose(p, draw, args->allowed, ret->actions, n, ret->columns[0]);
}

/* Turns the means into actions; heads have their choices already. */
static int draw_all(const struct sampled_policy *p, struct session *s,
                    const struct act_args *args, float *draw, struct act_result *ret,
                    struct err *err)
{
    const struct space *space = p->kit->self;
    const size_t width = (size_t)space->width, n = args->n_copies;
    const size_t choices = (size_t)p->choices;
    const struct rng_key key =
        choices > 0 ? rng_key_derive(args->key, "numbers") : args->key;
    const float low = (float)space->low, high = (float)space->high;
    const float *log_std;
    struct tensor t;
    int rc = session_variable(s, p->log_std, &t, err);

    if (rc < 0)
        return rc;
    log_std = tensor_f32(&t);
    memset(draw, 0, n * width * sizeof(float));
    if (args->mode != ACT_GREEDY)
        rng_normal_rows_f32(key, args->counter, args->draw_first, draw, n, width);
    for (size_t e = 0; e < n; e++) {
        float log_prob = choices > 0 && ret->columns[0] != NULL ? ret->columns[0][e] : 0;

        if (ret->columns[1] != NULL)
            memcpy(ret->columns[1] + e * width, ret->actions + e * width,
                   choices * sizeof(float));
        for (size_t k = choices; k < width; k++) {
            const size_t i = e * width + k;
            const float log_deviation = log_std[k - choices];
            const float x =
                ret->actions[i] + (float)exp_f64((double)log_deviation) * draw[i];

            log_prob -= 0.5f * draw[i] * draw[i] + log_deviation + (float)HALF_LOG_2PI;
            if (ret->columns[1] != NULL)
                ret->columns[1][i] = x;
            ret->actions[i] = fminf(fmaxf(x, low), high);
        }
        if (ret->columns[0] != NULL)
            ret->columns[0][e] = log_prob;
    }
    return 0;
}

/* Feeds each copy's carry, 0 at its first step, and writes it into the rows. */
static void feed_acting_carry(struct sampled_policy *p, struct batch *b,
                              const struct act_args *args, struct act_result *ret)
{
    const size_t width = (size_t)p->carry_width;
    float *x = batch_room(b, p->act_carry),
          *column = ret->columns[p->numbers > 0 ? 2 : 1];

    for (size_t e = 0; e < (size_t)b->n; e++) {
        const int is_first =
            args->carry == NULL || (args->first != NULL && args->first[e]);

        if (is_first)
            memset(x + e * width, 0, width * sizeof(float));
        else
            memcpy(x + e * width, args->carry + e * width, width * sizeof(float));
    }
    if (column != NULL && b->rc == 0)
        memcpy(column, x, (size_t)b->n * width * sizeof(float));
    batch_feed(b, p->carry, p->act_carry);
    batch_fetch_data(b, p->next_carry, ret->carry, p->carry_width);
}

int sampled_policy_act(struct sampled_policy *p, struct session *s,
                       const struct act_args *args, struct act_result *ret,
                       struct err *err)
{
    const int64_t width = p->kit->self->width;
    struct batch b = batch_to_act(p->kit, s, args, err);
    float *draw = batch_room(&b, p->act_draw);

    batch_feed_acting(&b, p->observation, &p->id, args, p->act_input);
    if (p->masked) {
        batch_put_masks(&b, p->act_open, args->allowed);
        batch_feed_data(&b, p->allowed, batch_take(&b, p->act_open), width);
    }
    if (p->units > 0)
        feed_acting_carry(p, &b, args, ret);
    batch_fetch_data(&b, p->act_scores, ret->actions, width);
    batch_run(&b);
    if (b.rc == 0 && p->choices > 0)
        choose_all(p, args, draw, ret);
    if (b.rc == 0 && p->numbers > 0)
        return draw_all(p, s, args, draw, ret, err);
    return b.rc;
}
