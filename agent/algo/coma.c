/* coma.c - actor-critic that compares each action with what else the agent might have done.
 *
 * Source   Foerster et al. 2018, "Counterfactual multi-agent policy gradients".
 *
 * propose  the answer is 0 in rows where nothing ends
 * learn    or `prepare` and what follows (on_policy.h). The critic has one value for each of the
 *          C combinations of the agent's choices. A differs, with the networks before C; V in C
 *          is the value of the action taken.
 */
#include "agent/algo/choices.h"
#include "agent/algo/on_policy.h"
#include "common/rng/rng.h"

#include <string.h>

static const char *const method[] = {
    "pi the policy, Q(c) the critic's value of choice c, given all observations and what",
    "the others do, u the choice taken, Q' its target; a window of E T rows, used once",
    "propose  u' drawn from pi at the next observation of every row where an episode,",
    "         the window or an agent's presence ends",
    "learn    A = Q(u) - sum over c of pi(c) Q(c)",
    "         y(t) = reward + discount (1 - terminated) (v + lambda (y(t+1) - v)),",
    "             v = Q'(u(t+1)), at ends Q'(u'); with lambda 0, of n_step rewards",
    "         pi: one step down -mean of A log pi(u) - entropy mean of H(pi)",
    "         Q:  one step down mean of (y - Q(u))^2 / 2",
    "         Q': t = v after each target_every-th update, or by polyak",
    NULL,
};

struct algo {
    struct on_policy on;
    struct matrix *alive;                  /* (n, n_agents) */
    struct matrix *proposal, *draw, *all;  /* (ends, U), (ends, U), (n, U) */
    struct matrix *values, *probabilities; /* (n, C), (n, U) */
    struct matrix *carry;                  /* (ends, H) */
};

/* ---- propose ---- */

/* Lists the rows for which a critic, whichever agent's it is, may look up proposals: those
 * where the episode, the window or an agent's presence ends. */
static int64_t list_ends(struct algo *a, struct batch *b)
{
    struct on_policy *p = &a->on;
    const int64_t agents = (int64_t)p->kit.n_agents;
    const float *alive = batch_take(b, a->alive);
    const struct window w = {.copies = b->args->batch,
                             .steps = b->args->length,
                             .n = b->n,
                             .first = batch_take(b, p->first),
                             .cut = batch_take(b, p->truncated)};

    matrix_spoil(p->truncated); /* `cut` has more */
    for (int64_t j = 0; b->rc == 0 && j < agents; j++)
        on_policy_find_cuts(&w, alive + j, agents, NULL);
    return b->rc == 0 ? on_policy_list_cuts(p, b, w.cut) : 0;
}

static void propose(struct algo *a, struct batch *b)
{
    struct on_policy *p = &a->on;
    const int64_t n = b->n, width = p->kit.self->width, ends = list_ends(a, b);
    float *draw, *actions, *all;

    if (b->rc < 0)
        return;
    batch_select(b, p->ends, p->rows, ends, 0, b->args->update);
    if (p->policy.units > 0) { /* what is carried there */
        sampled_policy_feed(&p->policy, b, NOW);
        batch_feed(b, p->policy.carry, p->policy.carries);
        batch_fetch(b, p->policy.next_carry, a->carry);
        batch_run(b);
        batch_feed(b, p->policy.carry, a->carry);
    }
    sampled_policy_feed(&p->policy, b, NEXT);
    batch_fetch(b, p->policy.act_scores, a->proposal);
    batch_run(b);
    draw = batch_room(b, a->draw);
    actions = batch_take(b, a->proposal);
    for (int64_t k = 0; k < b->n; k++)
        rng_uniform_f32(b->args->key, b->args->counter, (uint64_t)(p->ends[k] * width),
                        draw + k * width, (size_t)width);
    if (b->rc == 0) {
        sampled_policy_add_noise(actions, draw, (size_t)(ends * width));
        sampled_policy_choose(&p->policy, draw, batch_masks(b, p->policy.open_next),
                              actions, (size_t)ends, NULL);
    }
    batch_leave_out_absent(b, a->proposal);
    on_policy_select_all(b);
    all = batch_room(b, a->all);
    if (b->rc < 0)
        return;
    memset(all, 0, (size_t)(n * width) * sizeof(*all));
    for (int64_t k = 0; k < ends; k++)
        memcpy(all + p->ends[k] * width, actions + k * width,
               (size_t)width * sizeof(*all));
    stage_output(b->ret, "action", tensor_view(DT_FLOAT, SHAPE(1, n, width), all));
}

/* ---- A ---- */

static void find_values(struct on_policy *p, struct batch *b, const struct window *w,
                        const struct on_policy_kept *kept)
{
    struct algo *a = (struct algo *)(void *)p;
    const struct space *self = p->kit.self;
    const int64_t n = b->n, width = self->width;
    const float *values, *probabilities, *actions;

    on_policy_run_policy(p, b, p->policy.probabilities, a->probabilities);
    batch_feed(b, p->state, p->now);
    batch_feed(b, p->choice, p->chosen);
    batch_fetch(b, p->values, a->values);
    batch_fetch_data(b, p->target_value, w->target_value, 1);
    batch_run(b);
    values = batch_take(b, a->values);
    probabilities = batch_take(b, a->probabilities);
    actions = batch_take(b, p->policy.taken);
    for (int64_t i = 0; b->rc == 0 && i < n; i++) {
        const float *value = values + i * p->choices;
        double baseline = 0;

        for (int64_t k = 0; k < p->choices; k++)
            baseline += choice_probability(self, probabilities + i * width, (int32_t)k) *
                        (double)value[k];
        kept->value[i] = value[choice_of_action(self, actions + i * width)];
        kept->advantage[i] = (float)((double)kept->value[i] - baseline);
    }
}

static void find_returns(struct on_policy *p, struct batch *b, const struct window *w,
                         const struct on_policy_kept *kept,
                         const struct value_scale *scale)
{
    const struct target_rows rows = on_policy_target_rows(p, w);

    targets_find(&rows, p->lambda->value, p->kit.settings->n_step, kept->returns);
    for (int64_t i = 0; i < w->n; i++)
        kept->advantage[i] = (float)((double)kept->advantage[i] * scale->deviation);
}

static const struct stage_of alone[] = {
    {"propose", propose},
    {"learn", on_policy_learn, .writes = 1, .reads = {"propose/action"}}};
static const struct stage_of shared[] = {
    {"propose", propose},
    {"prepare", on_policy_prepare, .writes = 1, .reads = {"propose/action"}},
    ON_POLICY_SHARED_STAGES};
static const struct kit_plan alone_plan = {alone, 2, .rows = ROWS_WINDOW},
                             shared_plan = {shared, 2 + ON_POLICY_N_SHARED_STAGES,
                                            .rows = ROWS_WINDOW};

/* ---- building ---- */

static void coma_done(struct algo *a)
{
    on_policy_done(&a->on);
}

static void make_matrices(struct algo *a)
{
    struct kit *k = &a->on.kit;
    const int64_t width = k->self->width;

    a->alive = matrix_new(&k->matrices, 0);
    for (size_t j = 0; j < k->n_agents; j++)
        matrix_add_column(a->alive, j, "alive");
    if (a->on.policy.masked)
        a->on.policy.open_next = matrix_of_masks(&k->matrices, NEXT, 0);
    a->proposal = matrix_new(&k->matrices, width);
    a->draw = matrix_new(&k->matrices, width);
    a->all = matrix_new(&k->matrices, width);
    a->carry = matrix_new(&k->matrices, a->on.policy.carry_width);
    a->values = matrix_new(&k->matrices, a->on.choices);
    a->probabilities = matrix_new(&k->matrices, width);
}

static int coma_build(struct algo *a, const struct algo_args *args, struct err *err)
{
    const struct space *self = &args->agents[args->self];
    const struct kit_plan *plan = args->share == NULL ? &alone_plan : &shared_plan;
    int rc =
        on_policy_init(&a->on, args, plan, 1,
                       choices_only(self) ? choices_count(self, CHOICES_MAX) : 0, 0, err);

    if (rc == 0 && a->on.choices == 0)
        rc = err_set_at(err, ERR_CONFIG, ERR_AT(.key = "algorithm"),
                        "%s needs discrete actions, of at most %d combinations",
                        args->config->algorithm, CHOICES_MAX);
    if (rc < 0)
        return rc;
    a->on.find_values = find_values;
    a->on.find_returns = find_returns;
    make_matrices(a);
    return on_policy_build_graph(&a->on, err);
}

/* ---- description ---- */

/* Its targets and target network take the place of generalised advantages. */
static const char *const settings[] = {ON_POLICY_SETTINGS, "lambda", "target_every",
                                       NULL};

/* Foerster et al. 2018; EPyMARL's values where the paper gives none. */
static const struct algorithm_default coma_defaults[] = {
    {"discount", "0.99"},
    {"clip_norm", "10"},
    {"optimizer.learning_rate", "0.0005"},
    {"settings.lambda", "0.8"},
    {"settings.target_every", "200"},
    ON_POLICY_PLAIN_STEP,
    {NULL},
};

static const struct algo_about about = {
    .info = {.summary =
                 "actor-critic that compares each action with what else the agent might "
                 "have done",
             .use = "cooperation with one reward and discrete actions, where it matters "
                    "whose action it was",
             .stages = "propose(all) > learn(all, writes)",
             .source =
                 "Foerster et al. 2018, Counterfactual multi-agent policy gradients",
             .method = method,
             .defaults = coma_defaults,
             .scalars = on_policy_scalars,
             .rows = ROWS_WINDOW,
             .team_reward = 1,
             .shares = 1},
    .settings = settings};

const struct algo_ops coma_ops = {ON_POLICY_OPS("coma", about, 0, coma_build, coma_done)};
