#include "agent/algo/on_policy.h"

#include "agent/algo/choices.h"
#include "agent/algo/rows.h"
#include "agent/graph/arithmetic.h"
#include "agent/nn/policy.h"
#include "common/mem/xmalloc.h"
#include "common/numerics/elementary.h"
#include "common/rng/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- building ---- */

static int check_recurrent(const struct algo_args *args, struct err *err)
{
    const struct algorithm_settings *set = args->settings;
    const int64_t chunks = args->window_rows / set->chunk;

    if (set->recurrent == 0 && set->recurrent_critic == 0)
        return 0;
    if (args->window_rows > 0 && chunks < set->minibatches)
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "settings.minibatches"),
                          "found %lld, expected at most %lld, the chunks of %lld steps "
                          "in a window of %lld rows",
                          (long long)set->minibatches, (long long)chunks,
                          (long long)set->chunk, (long long)args->window_rows);
    return 0;
}

static int on_policy_check(const struct algo_args *args, struct err *err)
{
    const struct space *self = &args->agents[args->self];
    int rc = check_optimizers(args->config, err);

    if (rc == 0)
        rc = check_agent_id(args->settings, err);
    if (rc == 0)
        rc = check_recurrent(args, err);
    if (rc == 0 && args->settings->normalize_observations &&
        (network_has_obs_layers(&args->config->actor) ||
         network_has_obs_layers(&args->config->critic)))
        rc = err_set_at(err, ERR_CONFIG, ERR_AT(.key = "settings.normalize_observations"),
                        "networks see images and entities as they are; expected none");
    if (rc < 0 || choices_only(self))
        return rc;
    if (!(isfinite(self->low) && isfinite(self->high) && self->low < self->high))
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "algorithm"),
                          "%s needs discrete actions, or numbers with bounds",
                          args->config->algorithm);
    return 0;
}

/* Lists the agents whose observations the critic sees: the own one, its team's, the
 * others'. A ps, which sees none, builds the same shapes as its first member. */
static void see(struct on_policy *p, int joint)
{
    const struct kit *k = &p->kit;
    const size_t self =
        k->index < k->n_agents ? k->index : share_group(k->share)->members[0];

    p->seen = xcalloc(k->n_agents, sizeof(*p->seen));
    p->seen[p->n_seen++] = self;
    for (int mates = 1; joint && mates >= 0; mates--)
        for (size_t i = 0; i < k->n_agents; i++)
            if (i != self && (strcmp(k->agents[i].team, k->self->team) == 0) == mates)
                p->seen[p->n_seen++] = i;
}

/* What the critic sees, at a row or after it. */
static struct matrix *state_of(struct on_policy *p, enum when when)
{
    struct matrix *m = matrix_new(&p->kit.matrices, 0);

    for (size_t j = 0; j < p->n_seen; j++)
        matrix_add_obs(m, when, p->seen[j]);
    p->seen_obs = matrix_width(m);
    for (size_t j = 1; p->choices > 0 && j < p->n_seen; j++) {
        const size_t agent = p->seen[j];

        if (when == NOW)
            matrix_add_action(m, agent);
        else
            matrix_add_output(m, agent, "action", p->kit.agents[agent].width,
                              OUTPUT_NUMBERS);
    }
    matrix_add_id(m, &p->policy.id);
    return m;
}

static void make_matrices(struct on_policy *p)
{
    struct matrices *all = &p->kit.matrices;
    struct matrix **const computed[] = {
        &p->scaled_value,    &p->next_value,    &p->target_values, &p->end_value,
        &p->batch_advantage, &p->batch_returns, &p->batch_value,   &p->now_log_prob,
    };
    struct matrix *proposed;

    p->now = state_of(p, NOW);
    p->next = state_of(p, NEXT);
    if (p->choices > 0) {
        proposed = matrix_new(all, 0);
        matrix_add_output(proposed, p->seen[0], "action", p->kit.self->width,
                          OUTPUT_NUMBERS);
        p->chosen = matrix_of_choices(all, p->policy.taken, (int32_t)p->choices);
        p->next_chosen = matrix_of_choices(all, proposed, (int32_t)p->choices);
    }
    p->first = matrix_new(all, 0);
    p->truncated = matrix_new(all, 0);
    p->log_prob = matrix_new(all, 0);
    matrix_add_column(p->first, MATRIX_ALL, "first");
    matrix_add_column(p->truncated, MATRIX_ALL, "truncated");
    matrix_add_column(p->log_prob, p->kit.index, "log_prob");
    for (size_t i = 0; i < sizeof(computed) / sizeof(computed[0]); i++)
        *computed[i] = matrix_new(all, 1);
    p->kept_room = matrix_new(all, 3);
    p->of_chunks = matrix_new(all, p->kit.self->width);
    if (p->memory.units > 0) {
        p->after = matrix_new(all, p->memory.width);
        p->end_carry = matrix_new(all, p->memory.width);
    }
}

int on_policy_init(struct on_policy *p, const struct algo_args *args,
                   const struct kit_plan *plan, int joint, int64_t choices, int keeps,
                   struct err *err)
{
    int rc = on_policy_check(args, err);

    if (rc < 0)
        return rc;
    if (args->share != NULL && args->settings->value_norm == VALUE_NORM_POPART)
        return err_set_at(
            err, ERR_CONFIG, ERR_AT(.key = "settings.value_norm"),
            "popart changes weights that a ps has; expected running or none "
            "where parameters are shared");
    p->keeps = keeps || args->share != NULL;
    if (p->keeps && args->window_rows < 1)
        return err_set(err, ERR_ARG, "the size of a window of rows is not known");
    kit_init(&p->kit, args, plan, args->settings->epochs * args->settings->minibatches);
    p->window_rows = args->window_rows;
    p->choices = choices;
    sampled_policy_init(&p->policy, &p->kit, args);
    rc = recurrent_critic_init(&p->memory, &p->kit, args, err);
    if (rc < 0)
        return rc;
    see(p, joint && args->config->critic.input == CRITIC_ALL);
    make_matrices(p);
    return 0;
}

void on_policy_done(struct on_policy *p)
{
    free(p->seen);
    free(p->seen_now);
    free(p->order);
    free(p->ends);
    free(p->place);
    free(p->rows);
    kit_done(&p->kit);
}

/* ---- the graph ---- */

static void make_placeholders(struct on_policy *p)
{
    struct kit *k = &p->kit;
    const int64_t width = k->self->width;

    p->policy.observation = kit_placeholder(k, p->policy.input, "observation");
    p->state = kit_placeholder(k, matrix_width(p->now), "state");
    recurrent_critic_make(&p->memory);
    p->policy.action = kit_placeholder(k, width, "action");
    if (p->policy.masked)
        p->policy.allowed = kit_placeholder(k, width, "allowed");
    if (p->choices > 0)
        p->choice = kit_placeholder(k, p->choices, "choice");
    if (!kit_learns(k))
        return;
    p->old_log_prob = kit_placeholder(k, 1, "old_log_prob");
    p->advantage = kit_placeholder(k, 1, "advantage");
    p->returns = kit_placeholder(k, 1, "return");
    p->old_value = kit_placeholder(k, 1, "old_value");
    p->weight = kit_placeholder(k, 1, "row_weight");
}

static void make_lives(struct on_policy *p)
{
    struct kit *k = &p->kit;
    const struct algorithm_settings *set = k->settings;
    struct graph *g = k->graph;

    kit_add_usual_lives(k, &p->actor_rate, &p->critic_rate);
    if (!kit_learns(k))
        return;
    p->lambda =
        kit_add_live(k, p->choices > 0 ? live_new(g, "settings.lambda", set->lambda)
                                       : live_new(g, "settings.gae", set->gae));
    p->clip_ratio = kit_add_live(k, live_fed(g, "settings.clip_ratio", set->clip_ratio,
                                             LIVE_NO_CLIP_NORM, "clip_ratio"));
    p->entropy_weight =
        kit_add_live(k, live_schedule(g, "settings.entropy", &set->entropy));
    live_constant(g, p->entropy_weight, set->entropy.from, 0, "entropy_weight");
}

static struct output clip(struct graph *g, struct output x, struct output low,
                          struct output high)
{
    return minimum(g, maximum(g, x, low), high);
}

static struct output weighted(struct on_policy *p, struct output x, const char *name)
{
    return sum_of(p->kit.graph, mul(p->kit.graph, p->weight, x), name);
}

static void make_actor_loss(struct on_policy *p)
{
    struct graph *g = p->kit.graph;
    struct output one = constant_f32(g, 1.0f, NULL);
    struct output c = p->clip_ratio->constant;
    struct output ratio =
        unary(g, "Exp", sub(g, p->policy.log_prob, p->old_log_prob), "ratio");
    struct output low = sub(g, one, c), high = add(g, one, c);
    struct output clipped = clip(g, ratio, low, high), gain, entropy;

    clipped = mul(g, clipped, p->advantage);
    gain = mul(g, ratio, p->advantage);
    gain = binary(g, "Minimum", gain, clipped, "surrogate");
    p->entropy = weighted(p, p->policy.entropy, "entropy_mean");
    entropy = mul(g, p->entropy, p->entropy_weight->constant);
    p->actor_loss =
        unary(g, "Neg", add(g, weighted(p, gain, NULL), entropy), "actor_loss");
}

/* Half the squared error; beyond delta (0: nowhere) linear. */
static struct output error_loss(struct graph *g, struct output error, double delta)
{
    struct output half;

    if (delta > 0)
        return huber(g, error, delta);
    half = constant_f32(g, 0.5f, NULL);
    return mul(g, square(g, error), half);
}

static void make_critic_loss(struct on_policy *p)
{
    const double delta = p->kit.settings->huber;
    struct graph *g = p->kit.graph;
    struct output c = p->clip_ratio->constant;
    struct output moved = sub(g, p->value, p->old_value);
    struct output error, clipped;

    moved = clip(g, moved, negative(g, c), c);
    clipped = sub(g, p->returns, add(g, p->old_value, moved));
    clipped = error_loss(g, clipped, delta);
    error = error_loss(g, sub(g, p->returns, p->value), delta);
    p->critic_loss = weighted(p, maximum(g, error, clipped), "critic_loss");
}

/* The critic's output: one value (B, 1), or one of each choice (B, C). With a memory, steps 0: of
 * one step, *ret_carry is that after it; otherwise of chunks of so many. */
static struct output critic_network_of(struct on_policy *p, const char *scope, int steps,
                                       enum reuse reuse, struct output *ret_carry)
{
    const struct network_config *net = &p->kit.config->critic;
    const struct recurrent_critic *c = &p->memory;
    struct graph *g = p->kit.graph;
    struct output value;

    *ret_carry = c->carry;
    value = obs_norm_apply(&p->obs_norm, g, p->state, p->seen_obs);
    variable_scope_enter(g, scope, NULL, reuse);
    value = see_observations(g, value, net, &p->form);
    value = mlp_hidden(g, value, net);
    if (c->units > 0)
        value =
            mlp_recurrent(g, value, net, c->cell, c->units, ret_carry, c->first, steps);
    value = mlp_output(g, value, net, p->choices > 0 ? p->choices : 1);
    variable_scope_leave(g);
    return value;
}

/* (B, 1): the value of the choice that was made. */
static struct output value_of(struct on_policy *p, struct output values, const char *name)
{
    struct graph *g = p->kit.graph;

    return named(g, p->choices > 0 ? sum_of_row(g, mul(g, values, p->choice)) : values,
                 name);
}

/* The variables of the last layer of a critic that has just been made: the two newest. */
static struct value_layer last_layer(const struct on_policy *p)
{
    const struct collection_item *items;
    const size_t n = collection_get(p->kit.graph, GLOBAL_VARIABLES, NULL, &items);

    return n < 2 ? (struct value_layer){NULL, NULL}
                 : (struct value_layer){items[n - 2].variable, items[n - 1].variable};
}

static void make_critic(struct on_policy *p)
{
    struct output none;

    p->values = critic_network_of(p, "v_func", 0, REUSE_INHERIT, &p->step.next_carry);
    p->norm.value = last_layer(p);
    if (p->memory.units > 0) {
        p->step.value = value_of(p, p->values, "step_value");
        p->values = critic_network_of(p, "v_func", p->memory.chunk, REUSE_TRUE, &none);
    }
    p->value = value_of(p, p->values, "value");
    if (p->memory.units == 0 || !kit_learns(&p->kit))
        return;
    recurrent_critic_make_state(&p->memory, p->keeps ? p->window_rows : 0);
    p->step.carry = recurrent_critic_add(&p->memory, "v_func");
}

static void make_target(struct on_policy *p)
{
    static const struct following target = {"target_v_func", "v_func"};
    struct kit *k = &p->kit;

    p->target_value = value_of(p,
                               critic_network_of(p, "target_v_func", 0, REUSE_INHERIT,
                                                 &p->target_step.next_carry),
                               "target_value");
    p->norm.target = last_layer(p);
    if (p->memory.units > 0) {
        p->target_step.value = p->target_value;
        p->target_step.carry = recurrent_critic_add(&p->memory, "target_v_func");
    }
    kit_follow(k, &target, 1, kit_keep(k), "update_target", "init_target");
}

static void make_steps(struct on_policy *p)
{
    struct kit *k = &p->kit;
    struct step actor, critic;

    if (kit_learns(k)) {
        make_actor_loss(p);
        make_critic_loss(p);
    }
    actor = kit_actor_step(k, "p_func", p->actor_rate, p->actor_loss);
    critic = kit_critic_step(k, "v_func", p->critic_rate, p->critic_loss);
    actor.clip_by = critic.clip_by = CLIP_BY_GLOBAL;
    (void)kit_add_step(k, actor);
    (void)kit_add_step(k, critic);
    kit_share_steps(k);
}

int on_policy_build_graph(struct on_policy *p, struct err *err)
{
    struct kit *k = &p->kit;
    struct graph *g = k->graph;
    const int rc = obs_forms_of(k->config, k->self, k->agents, p->seen, p->n_seen,
                                &p->policy.form, &p->form, err);

    if (rc < 0)
        return rc;
    variable_scope_enter(g, k->self->name, NULL, REUSE_INHERIT);
    make_placeholders(p);
    make_lives(p);
    if (k->settings->normalize_observations) {
        /* the variables, and room for what each window adds to them */
        p->obs_norm = obs_norm_new(g, p->seen_obs);
        p->seen_now = xcalloc((size_t)(1 + 2 * p->seen_obs), sizeof(*p->seen_now));
    }
    p->policy.norm = &p->obs_norm;
    sampled_policy_make(&p->policy);
    if (kit_learns(k))
        p->norm = value_norm_new(g, k->settings->value_norm);
    kit_scale_rewards(k);
    if (kit_learns(k) && p->keeps)
        p->kept = kit_add_local(k, "window", DT_FLOAT, SHAPE(3, p->window_rows));
    if (k->share != NULL && k->settings->target_kl > 0)
        p->passes = kit_add_local(k, "passes", DT_DOUBLE, SHAPE(ON_POLICY_PASS));
    make_critic(p);
    make_steps(p);
    if (kit_learns(k) && (p->choices > 0 || k->settings->n_step > 0))
        make_target(p);
    variable_scope_leave(g);
    return kit_finish(k, err);
}

/* ---- the interface ---- */

void on_policy_rows(const struct algo *a, struct algo_rows *ret)
{
    *ret = (struct algo_rows){.kind = ROWS_WINDOW, .length = 1};
}

size_t on_policy_columns(const struct algo *a, struct algo_column *ret)
{
    return sampled_policy_columns(&((const struct on_policy *)(const void *)a)->policy,
                                  ret);
}

int64_t on_policy_carry_width(const struct algo *a)
{
    return ((const struct on_policy *)(const void *)a)->policy.carry_width;
}

int on_policy_act(struct algo *a, struct session *s, const struct act_args *args,
                  struct act_result *ret, struct err *err)
{
    return sampled_policy_act(&on_policy_of(a)->policy, s, args, ret, err);
}

/* ---- C: steps of the optimisers ---- */

struct minibatch {
    const uint32_t *place; /* [n] in the window, or ROW_NOT_REQUESTED */
    int64_t n;
    uint64_t step; /* of the update */
    int for_actor, for_critic;
};

/* What steps report: sums of what was fetched, and how far the policy has moved. */
struct reported {
    const char *name[FETCHES_MAX]; /* NULL: no scalar */
    double sum[FETCHES_MAX];
    size_t n;
    double kl, clipped; /* means over the rows; of the actor only */
};

/* What the group knows of its passes; NULL: all are made, or the batch has failed. */
static double *passes_of(struct on_policy *p, struct batch *b)
{
    return p->passes != NULL ? batch_variable(b, p->passes) : NULL;
}

/* Whether this step comes after the last pass of its update. */
static int have_ended(struct on_policy *p, struct batch *b)
{
    const double *passes = passes_of(p, b);

    return b->rc < 0 ||
           (passes != NULL && b->args->repeat > 0 && passes[PASS_ENDED] != 0);
}

/* A step of the group has been made: adds what all of them have measured. */
static void count_step(struct on_policy *p, struct batch *b)
{
    const struct algorithm_settings *set = p->kit.settings;
    const uint64_t m = (uint64_t)set->minibatches;
    double *passes = passes_of(p, b), kl = 0;
    int rc;

    if (passes == NULL)
        return;
    rc = share_measured(p->kit.share, b->args, &kl, b->err);
    if (rc < 0) {
        batch_fail(b, rc);
        return;
    }
    if (b->args->repeat == 0)
        memset(passes, 0, ON_POLICY_PASS * sizeof(*passes));
    passes[PASS_KL] += kl;
    if ((b->args->repeat + 1) % m != 0)
        return;
    passes[PASS_COUNT]++;
    passes[PASS_ENDED] = !(passes[PASS_KL] / (double)m <= set->target_kl);
    passes[PASS_KL] = 0;
}

/* Sets the places of the rows of n chunks of so many steps, in the order of time; chunk NULL: all
 * chunks, in order. */
static int64_t place_chunks(struct on_policy *p, const struct batch *b,
                            const uint32_t *chunk, int64_t n, int64_t steps)
{
    const int64_t length = b->args->length;
    const int64_t each = on_policy_chunks(b, steps);

    for (int64_t r = 0; r < n; r++) {
        const int64_t k = chunk != NULL ? chunk[r] : r;
        const int64_t copy = k / each, begin = k % each * steps;

        for (int64_t t = 0; t < steps; t++)
            p->place[t * n + r] = begin + t < length
                                      ? (uint32_t)(copy * length + begin + t)
                                      : ROW_NOT_REQUESTED;
    }
    return n * steps;
}

/* The minibatch of step number `step` of an update. The minibatches of an epoch differ by
 * at most one chunk in length. Networks without a memory need no chunks. */
static struct minibatch choose_rows(struct on_policy *p, const struct batch *b,
                                    int64_t step, int for_actor, int for_critic)
{
    const int64_t chunk = for_actor ? p->policy.chunk : p->memory.chunk;
    const int64_t n = b->args->batch * on_policy_chunks(b, chunk);
    const int64_t m = p->kit.settings->minibatches, epoch = step / m, k = step % m;
    const int64_t begin = k * n / m, end = (k + 1) * n / m;

    /* the chunks' order in an epoch, which all of its steps use */
    const uint64_t counter =
        b->args->update * (uint64_t)p->kit.settings->epochs + (uint64_t)epoch;

    on_policy_reserve(p, b);
    if (p->order_n != n || p->order_of != counter) {
        rng_permutation(b->args->permutation, counter, p->order, (size_t)n);
        p->order_of = counter;
        p->order_n = n;
    }
    return (struct minibatch){
        .place = p->place,
        .n = place_chunks(p, b, p->order + begin, end - begin, chunk),
        .step = (uint64_t)step,
        .for_actor = for_actor,
        .for_critic = for_critic};
}

/* The rows are run in chunks, as the policy sees them where it learns. */
void on_policy_run_policy(struct on_policy *p, struct batch *b, struct output x,
                          struct matrix *to)
{
    const int64_t width = matrix_width(to);
    const size_t bytes = (size_t)width * sizeof(float);
    float *of_chunks, *ret;
    int64_t n;

    if (b->rc < 0)
        return;
    on_policy_reserve(p, b);
    n = place_chunks(p, b, NULL, b->args->batch * on_policy_chunks(b, p->policy.chunk),
                     p->policy.chunk);
    batch_select(b, p->place, p->rows, n, 0, b->args->update);
    of_chunks = batch_room(b, p->of_chunks);
    sampled_policy_feed_carry(&p->policy, b);
    sampled_policy_feed(&p->policy, b, NOW);
    batch_feed(b, p->policy.action, p->policy.taken);
    batch_fetch_data(b, x, of_chunks, width);
    batch_run(b);
    on_policy_select_all(b);
    ret = batch_room(b, to);
    for (int64_t i = 0; b->rc == 0 && i < n; i++)
        if (p->place[i] != ROW_NOT_REQUESTED)
            memcpy(ret + p->place[i] * width, of_chunks + i * width, bytes);
}

/* Feeds values of the window at the minibatch's places. */
static void feed_kept(struct batch *b, struct output x, struct matrix *m,
                      const float *kept, const struct minibatch *mini)
{
    float *to = batch_room(b, m);

    for (int64_t i = 0; i < b->n; i++)
        to[i] = mini->place[i] != ROW_NOT_REQUESTED ? kept[mini->place[i]] : 0;
    batch_feed(b, x, m);
}

/* The policy's input is read from the state, unless it has an id, which the state has
 * elsewhere, or there is no state. */
static void feed_actor(struct on_policy *p, struct batch *b,
                       const struct on_policy_kept *kept, const struct minibatch *mini)
{
    struct sampled_policy *policy = &p->policy;

    sampled_policy_feed_carry(policy, b);
    if (policy->id.width > 0 || !mini->for_critic)
        batch_feed(b, policy->observation, policy->own);
    else
        batch_feed_part(b, policy->observation, p->now, 0, policy->input);
    batch_feed(b, policy->action, policy->taken);
    if (policy->masked)
        batch_feed(b, policy->allowed, policy->open);
    batch_feed(b, p->old_log_prob, p->log_prob);
    feed_kept(b, p->advantage, p->batch_advantage, kept->advantage, mini);
    batch_feed_live(b, p->entropy_weight);
    batch_scalar(b, "actor_loss", p->actor_loss);
    batch_scalar(b, "entropy", p->entropy);
    batch_fetch(b, policy->log_prob, p->now_log_prob);
}

static void feed_critic(struct on_policy *p, struct batch *b,
                        const struct on_policy_kept *kept, const struct minibatch *mini)
{
    recurrent_critic_feed(&p->memory, b, kept->carries, mini->place);
    batch_feed(b, p->state, p->now);
    if (p->choices > 0)
        batch_feed(b, p->choice, p->chosen);
    feed_kept(b, p->returns, p->batch_returns, kept->returns, mini);
    feed_kept(b, p->old_value, p->batch_value, kept->value, mini);
    batch_scalar(b, "critic_loss", p->critic_loss);
}

/* How far the policy before the step is from the one that played: an estimate of the
 * Kullback-Leibler divergence that is never below 0, (r - 1) - log r, r their quotient
 * (Schulman 2020, "Approximating KL divergence"), and the share of rows that the loss clips on
 * either side. */
static void measure_policy(struct on_policy *p, struct batch *b, struct reported *ret)
{
    const double clip_ratio = (double)p->clip_ratio->value;
    const float *weights = batch_take(b, p->kit.weight);
    const float *now = batch_take(b, p->now_log_prob);
    const float *old = batch_take(b, p->log_prob);
    double kl = 0, clipped = 0;

    for (int64_t i = 0; i < b->n; i++) {
        const double weight = (double)weights[i];
        const double d = (double)now[i] - (double)old[i];
        const double r = weight != 0 ? exp_f64(d) : 1;

        if (weight == 0)
            continue;
        kl += weight * (r - 1 - d);
        clipped += weight * (fabs(r - 1) > clip_ratio);
    }
    ret->kl += kl;
    ret->clipped += clipped;
}

/* What a network carries has no image under a symmetry, but that 0 is its own: chunks that do not
 * begin an episode are shown as they are stored. */
static void select_chunks(struct on_policy *p, struct batch *b,
                          const struct minibatch *mini, int64_t chunk, uint64_t draw)
{
    const int64_t chunks = mini->n / chunk;
    const float *first;

    batch_select_sequences(b, mini->place, p->rows, mini->n, chunks, draw);
    if (b->symmetry == NULL)
        return;
    first = batch_take(b, p->first);
    for (int64_t r = 0; b->rc == 0 && r < chunks; r++)
        if (first[r] == 0)
            batch_leave_sequence(b, r);
}

/* A step of actor, critic or both. In a group that shares parameters, a member writes its
 * gradients. */
static void learn_minibatch(struct on_policy *p, struct batch *b,
                            const struct on_policy_kept *kept, struct minibatch mini,
                            struct reported *ret)
{
    const size_t first = mini.for_actor ? ON_POLICY_ACTOR : ON_POLICY_CRITIC;
    const uint64_t draw = b->args->update * (uint64_t)p->kit.repeats + mini.step;
    const int64_t chunk = mini.for_actor ? p->policy.chunk : p->memory.chunk;
    const int is_recurrent = (mini.for_actor ? p->policy.units : p->memory.units) > 0;

    if (is_recurrent)
        select_chunks(p, b, &mini, chunk, draw);
    else
        batch_select(b, mini.place, p->rows, mini.n, 1, draw);
    /* weights whose sums are means over the rows in which the agent is alive */
    const float *alive = batch_take(b, p->kit.alive);
    float *weight = batch_room(b, p->kit.weight);
    float sum = 0;
    for (int64_t i = 0; i < b->n; i++)
        sum += alive[i];
    for (int64_t i = 0; i < b->n; i++)
        weight[i] = alive[i] / (sum > 1 ? sum : 1);
    p->kit.divisor = sum;
    batch_feed(b, p->weight, p->kit.weight);
    batch_feed_live(b, p->clip_ratio);
    if (mini.for_actor)
        feed_actor(p, b, kept, &mini);
    if (mini.for_critic)
        feed_critic(p, b, kept, &mini);
    batch_step_quietly(b, first, (size_t)(mini.for_actor + mini.for_critic));
    ret->n = b->fetched.n;
    for (size_t k = 0; b->rc == 0 && k < ret->n; k++) {
        ret->name[k] = b->fetched.name[k];
        ret->sum[k] += (double)b->fetched.scalar[k];
    }
    batch_forget(b);
    if (mini.for_actor)
        measure_policy(p, b, ret);
}

/* Reports sums over so many minibatches as means. */
static void report_steps(struct batch *b, const struct reported *r, int64_t steps,
                         int for_actor)
{
    if (b->rc < 0)
        return;
    for (size_t k = 0; k < r->n; k++)
        if (r->name[k] != NULL)
            stage_scalar(b->ret, r->name[k], r->sum[k] / (double)steps);
    if (!for_actor)
        return;
    stage_shown(b->ret, "approx_kl", r->kl / (double)steps);
    stage_shown(b->ret, "clip_fraction", r->clipped / (double)steps);
}

void on_policy_run_epochs(struct on_policy *p, struct batch *b,
                          const struct on_policy_kept *kept, int for_actor,
                          int for_critic)
{
    const struct algorithm_settings *set = p->kit.settings;
    const int64_t m = set->minibatches;
    const int stops_early = for_actor && set->target_kl > 0;
    /* Rows of a chunk are much alike: a network that needs no order learns more from drawn
     * ones. */
    const int apart =
        for_actor && for_critic && (p->policy.units > 0) != (p->memory.units > 0);
    struct reported all = {0}, of_critic = {0};
    int64_t steps = 0;
    double kl = 0; /* mean of the newest pass */

    while (steps < p->kit.repeats && b->rc == 0 &&
           (!stops_early || kl <= set->target_kl)) {
        const double before = all.kl;

        for (int64_t end = steps + m; steps < end; steps++) {
            learn_minibatch(p, b, kept,
                            choose_rows(p, b, steps, for_actor, for_critic && !apart),
                            &all);
            if (apart)
                learn_minibatch(p, b, kept, choose_rows(p, b, steps, 0, 1), &of_critic);
        }
        kl = (all.kl - before) / (double)m;
    }
    report_steps(b, &all, steps, for_actor);
    report_steps(b, &of_critic, steps, 0);
    batch_report_rates(b, for_actor ? ON_POLICY_ACTOR : ON_POLICY_CRITIC,
                       (size_t)(for_actor + for_critic));
    if (stops_early)
        batch_show(b, "epochs", (double)(steps / m));
}

/* Computes the gradients of the actor's loss, or of the critic's. */
static void gradients(struct algo *a, struct batch *b, int for_actor)
{
    struct on_policy *p = on_policy_of(a);
    const struct on_policy_kept kept = on_policy_open_kept(p, b);
    struct reported one = {0};
    int rc;

    if (have_ended(p, b))
        return;
    learn_minibatch(p, b, &kept,
                    choose_rows(p, b, (int64_t)b->args->repeat, for_actor, !for_actor),
                    &one);
    report_steps(b, &one, 1, for_actor);
    if (b->rc < 0 || !for_actor || p->kit.settings->target_kl == 0)
        return;
    rc = share_measure(p->kit.share, b->args, one.kl * (double)p->kit.divisor,
                       (double)p->kit.divisor, b->err);
    if (rc < 0)
        batch_fail(b, rc);
}

void on_policy_actor(struct algo *a, struct batch *b)
{
    gradients(a, b, 1);
}

void on_policy_critic(struct algo *a, struct batch *b)
{
    gradients(a, b, 0);
}

/* ps: one step of both optimisers down the group's mean losses. */
void on_policy_apply(struct algo *a, struct batch *b)
{
    struct on_policy *p = on_policy_of(a);

    if (have_ended(p, b))
        return;
    batch_step(b, ON_POLICY_ACTOR, ON_POLICY_STEPS);
    count_step(p, b);
}

void on_policy_assign(struct algo *a, struct batch *b)
{
    struct on_policy *p = on_policy_of(a);
    const double *passes;

    if (!have_ended(p, b)) {
        batch_assign(b, ON_POLICY_ACTOR, ON_POLICY_STEPS);
        count_step(p, b);
    }
    if (b->args->repeat + 1 < (uint64_t)p->kit.repeats)
        return;
    passes = passes_of(p, b);
    if (passes != NULL)
        batch_show(b, "epochs", passes[PASS_COUNT]);
    on_policy_move_target(p, b);
}

/* ---- D ---- */

void on_policy_move_target(struct on_policy *p, struct batch *b)
{
    if (p->kit.update_targets != NULL)
        batch_move_targets(b);
}

/* Summarises the observations of the window in p->seen_now. */
static void summarize_observations(struct on_policy *p, struct batch *b)
{
    const float *rows, *alive;

    on_policy_select_all(b);
    rows = batch_take(b, p->now);
    alive = batch_take(b, p->kit.alive);
    if (b->rc == 0)
        obs_norm_summarize(&p->obs_norm, rows, b->n, matrix_width(p->now), alive,
                           p->seen_now);
}

static void count_summary(struct on_policy *p, struct batch *b, const double *summary)
{
    const int rc =
        b->rc == 0 ? obs_norm_count(&p->obs_norm, b->session, summary, b->err) : b->rc;

    if (rc < 0)
        batch_fail(b, rc);
}

void on_policy_count_observations(struct on_policy *p, struct batch *b)
{
    if (p->obs_norm.statistics == NULL)
        return;
    summarize_observations(p, b);
    count_summary(p, b, p->seen_now);
}

/* ---- the other stages ---- */

/* n doubles that member i of the group has sent. */
static const double *input_of_member(const struct on_policy *p, struct batch *b, size_t i,
                                     const char *output, int64_t n)
{
    const size_t agent = share_group(p->kit.share)->members[i];

    return batch_input(b, p->kit.agents[agent].name, output, DT_DOUBLE, n);
}

int on_policy_counts(const struct algorithm_settings *settings)
{
    return settings->normalize_observations;
}

void on_policy_count(struct algo *a, struct batch *b)
{
    struct on_policy *p = on_policy_of(a);
    const size_t n = share_group(p->kit.share)->n;

    for (size_t i = 0; i < n; i++)
        count_summary(p, b,
                      input_of_member(p, b, i, "observations", 1 + 2 * p->seen_obs));
}

void on_policy_learn(struct algo *a, struct batch *b)
{
    struct on_policy *p = on_policy_of(a);
    const struct on_policy_kept kept = on_policy_open_kept(p, b);

    on_policy_estimate(p, b, &kept);
    on_policy_normalize_by(p, b, &kept, p->sums);
    on_policy_run_epochs(p, b, &kept, 1, 1);
    on_policy_move_target(p, b);
    on_policy_count_observations(p, b);
}

void on_policy_prepare(struct algo *a, struct batch *b)
{
    struct on_policy *p = on_policy_of(a);
    const struct on_policy_kept kept = on_policy_open_kept(p, b);

    on_policy_estimate(p, b, &kept);
    if (p->obs_norm.statistics != NULL)
        summarize_observations(p, b);
    if (b->rc < 0)
        return;
    stage_output(b->ret, "sums", tensor_view(DT_DOUBLE, SHAPE(ON_POLICY_SUMS), p->sums));
    if (p->obs_norm.statistics != NULL)
        stage_output(b->ret, "observations",
                     tensor_view(DT_DOUBLE, SHAPE(1 + 2 * p->seen_obs), p->seen_now));
}

void on_policy_normalize(struct algo *a, struct batch *b)
{
    struct on_policy *p = on_policy_of(a);
    const struct on_policy_kept kept = on_policy_open_kept(p, b);
    const size_t n = share_group(p->kit.share)->n;
    double sums[ON_POLICY_SUMS] = {0};

    for (size_t i = 0; i < n; i++) {
        const double *given = input_of_member(p, b, i, "sums", ON_POLICY_SUMS);

        for (int k = 0; given != NULL && k < ON_POLICY_SUMS; k++)
            sums[k] += given[k];
    }
    on_policy_normalize_by(p, b, &kept, sums);
}

/* ---- descriptions ---- */

const struct algorithm_scalar on_policy_scalars[] = {
    SCALARS_OF_ACTOR,
    SCALAR("entropy", "mean entropy of the policy", "nat"),
    SCALAR("approx_kl",
           "how far the policy has moved from the one that played: mean of r - 1 - log r",
           "nat"),
    SCALAR("clip_fraction", "share of the rows whose r is outside 1 +- clip_ratio", ""),
    SCALAR("critic_loss", "the critic's loss on the batch, before the step", ""),
    SCALAR("explained_variance",
           "share of the returns' variance that the critic's values explain, before the "
           "update",
           ""),
    SCALAR_OF_STEP("critic_grad_norm", "norm of the critic's gradients, before clipping",
                   ""),
    SCALAR_OF_STEP("critic_learning_rate", "the critic's learning rate in force", ""),
    {NULL},
};
