/* first_algorithm.c - an algorithm of one's own in C, as agent/algo/README.md explains it:
 * Q-learning with one network and no target network.
 *
 * As a file of agent/algo it has no `main`, and a row in registry.c: `&first_ops`. Here it is
 * an agent that plays nothing else, whatever algorithm the configuration names.
 *
 * Its update is written down once, in `method`.
 */
#include "agent/agent.h"
#include "agent/algo/choices.h"
#include "agent/algo/kit.h"
#include "agent/graph/arithmetic.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>

static const char *const method[] = {
    "o, o' the own observation now and next, u the choice among C, Q the network",
    "act    the best choice; exploring, any choice with probability epsilon",
    "learn  y = reward + discount (1 - terminated) max Q(o', .)",
    "       Q: one step down the mean of (y - Q(o, u))^2",
    NULL,
};

/* What `build` makes, and memory that each request overwrites: no answer depends on what an
 * earlier one has left here. Weights are variables of the graph. */
struct algo {
    struct kit kit; /* first */
    int32_t n_choices;
    struct output observation, choice, target; /* fed: (B, O), (B, C) one-hot, (B, 1) */
    struct output q, loss;                     /* (B, C), scalar */
    struct live *epsilon, *rate;               /* settings that `brood set` can change */
    struct matrix *obs, *next_obs, *choices;   /* what is fed, of the rows */
    struct matrix *next_q, *best;              /* (B, C), (B, 1) */
    struct matrix *values, *draw;              /* of copies: (E, C), (E, 1) */
    uint8_t *allowed;                          /* (C) */
};

/* ---- acting and learning ---- */

static int act(struct algo *a, struct session *s, const struct act_args *args,
               struct act_result *ret, struct err *err)
{
    const size_t c = (size_t)a->n_choices, u = (size_t)a->kit.self->width;
    const int greedy = args->mode == ACT_GREEDY;
    struct batch b = batch_to_act(&a->kit, s, args, err);
    float *draw = batch_room(&b, a->draw);
    const float *q;
    struct schedule epsilon;
    const int rc = live_schedule_read(a->epsilon, s, &epsilon, err);

    if (rc < 0)
        return rc;
    batch_feed_data(&b, a->observation, args->obs, a->kit.self->obs);
    batch_fetch(&b, a->q, a->values);
    batch_run(&b);
    q = batch_take(&b, a->values);
    /* A function of the seed, the agent's name and the step: no generator has a state. */
    if (b.rc == 0)
        rng_uniform_rows_f32(args->key, args->counter, args->draw_first, draw,
                             args->n_copies, 1);
    for (size_t e = 0; e < (size_t)b.n; e++)
        choice_to_action(a->kit.self,
                         choice_epsilon_greedy(
                             a->kit.self, q + e * c,
                             args->allowed != NULL ? args->allowed + e * u : NULL,
                             a->n_choices, greedy ? NULL : &draw[e],
                             (float)schedule_at(&epsilon, act_step(args, e)), a->allowed),
                         ret->actions + e * u);
    return b.rc;
}

static void learn(struct algo *a, struct batch *b)
{
    const float *q;
    float *best;

    batch_feed(b, a->observation, a->next_obs);
    batch_fetch(b, a->q, a->next_q);
    batch_run(b);
    q = batch_take(b, a->next_q);
    best = batch_room(b, a->best);
    for (int64_t i = 0; i < b->n; i++, q += a->n_choices)
        best[i] = q[choice_best(q, a->n_choices)];
    batch_targets(b, a->best);

    batch_feed(b, a->observation, a->obs);
    batch_feed(b, a->choice, a->choices);
    batch_feed(b, a->target, a->kit.target);
    batch_scalar(b, "critic_loss", a->loss);
    batch_step(b, 0, 1);
}

static const struct update updates[] = {{"learn", {NULL}, learn, 0, 1}};
static const struct kit_plan plan = {.updates = updates, .n_updates = 1};

/* ---- building: once, on `configure` ---- */

static int make_graph(struct algo *a, struct err *err)
{
    struct kit *k = &a->kit;
    struct graph *g = k->graph;
    struct output error;

    variable_scope_enter(g, k->self->name, NULL, REUSE_INHERIT);
    a->observation = kit_placeholder(k, k->self->obs, "observation");
    a->choice = kit_placeholder(k, a->n_choices, "choice");
    a->target = kit_placeholder(k, 1, "target");
    variable_scope_enter(g, "q_func", NULL, REUSE_AUTO);
    a->q = mlp(g, a->observation, &k->config->critic, a->n_choices);
    variable_scope_leave(g);
    k->discount = kit_add_live(k, live_new(g, "discount", k->config->discount));
    a->epsilon =
        kit_add_live(k, live_schedule(g, "settings.epsilon", &k->settings->epsilon));
    a->rate = kit_add_live(k, live_critic_rate(g, k->config));
    kit_add_clip_norm(k);
    error = sub(g, a->target, sum_of_row(g, mul(g, a->q, a->choice)));
    a->loss = mean_of(g, square(g, error), "loss");
    (void)kit_add_step(k, kit_critic_step(k, "q_func", a->rate, a->loss));
    variable_scope_leave(g);
    return kit_finish(k, err);
}

/* From what is declared here follow the columns of the log that the agent reads. */
static void make_matrices(struct algo *a)
{
    struct matrices *all = &a->kit.matrices;
    struct matrix *action = matrix_new(all, 0);

    a->obs = matrix_new(all, 0);
    a->next_obs = matrix_new(all, 0);
    matrix_add_obs(a->obs, NOW, a->kit.index);
    matrix_add_obs(a->next_obs, NEXT, a->kit.index);
    matrix_add_action(action, a->kit.index);
    a->choices = matrix_of_choices(all, action, a->n_choices);
    a->next_q = matrix_new(all, a->n_choices);
    a->best = matrix_new(all, 1);
    a->values = matrix_new(all, a->n_choices);
    a->draw = matrix_new(all, 1);
}

static void first_done(struct algo *a)
{
    kit_done(&a->kit);
    free(a->allowed);
}

static int build(struct algo *a, const struct algo_args *args, struct err *err)
{
    const struct space *self = &args->agents[args->self];
    const int32_t n_choices = choices_count(self, CHOICES_MAX);

    if (self->box || n_choices == 0)
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "algorithm"),
                          "it needs discrete actions");
    kit_init(&a->kit, args, &plan, 0);
    a->n_choices = n_choices;
    a->allowed = xcalloc((size_t)n_choices, 1);
    make_matrices(a);
    return make_graph(a, err);
}

/* ---- what it says of itself: brood knows no algorithm ---- */

static const char *const settings[] = {"epsilon", "clip_by", NULL};

static const struct algo_about about = {
    .info = {.summary = "each agent alone: one Q-network, without a target network",
             .use = "an example to start from",
             .stages = "learn(all, writes)",
             .source = "Mnih et al. 2013, Playing Atari with deep reinforcement learning",
             .method = method,
             .own_critic = 1},
    .settings = settings};

static const struct algo_ops first_ops = {
    KIT_OPS("first", about, 0, build, first_done, act)};

int main(int argc, char **argv)
{
    return agent_main(argc, argv, &first_ops);
}
