/* happo.c - proximal policy optimisation of one agent after another, each knowing how those
 *           before it have changed.
 *
 * Source   Kuba et al. 2022, "Trust region policy optimisation in multi-agent reinforcement
 *          learning", Algorithm 4.
 *
 * prepare  A and B of on_policy.h
 * turn     the actor's steps of C, with M A in place of A. M (n) is `factor`, which is not below
 *          0. The answer is `factor` (teams, E, T) with its own quotient multiplied in.
 * critic   the critic's steps of C, D and E; meanwhile others have their turns
 */
#include "agent/algo/on_policy.h"
#include "agent/algo/team.h"
#include "common/numerics/elementary.h"

#include <string.h>

static const char *const method[] = {
    "o an own observation, s those of all agents; pi the policy, V the critic; a window",
    "of rows, each used once; epochs x minibatches steps of each network, as of mappo",
    "prepare  d(t) = reward + discount (1 - terminated) V(s(t+1)) - V(s(t))",
    "         A(t) = d(t) + discount gae A(t+1), up to the end of episode or window",
    "         G = A + V; then A by its mean and deviation, G and V by running ones of G",
    "turn     agents one after another, in an order that is drawn for each update:",
    "         M  = product of pi_after(u) / pi_before(u) of the team's agents before it,",
    "              right after and before the turn of each; 1 where it was not alive",
    "         pi: down -mean of M min(r A, clip(r, 1 - c, 1 + c) A) - entropy mean of H,",
    "             r = pi(u | o) / pi_old(u | o), c = clip_ratio, H the entropy of pi",
    "critic   V:  down mean of max(h(G - V), h(G - Vold - clip(V - Vold, -c, c))), h",
    "             Huber's loss, or half the square",
    NULL,
};

struct algo {
    struct on_policy on;
    int64_t teams;                            /* their number ... */
    size_t team;                              /* ... and which is this agent's */
    struct matrix *factor;                    /* (teams, n) */
    struct matrix *weighted, *before, *after; /* (n) */
};

/* ---- the stages ---- */

static void prepare(struct algo *a, struct batch *b)
{
    struct on_policy *p = &a->on;
    const struct on_policy_kept kept = on_policy_open_kept(p, b);

    on_policy_estimate(p, b, &kept);
    on_policy_normalize_by(p, b, &kept, p->sums);
}

/* Reads the product of the quotients of the agents that had their turns before. The first
 * agent reads ones, (1, E, T). */
static float *read_factor(struct algo *a, struct batch *b)
{
    const struct stage_args *args = b->args;
    const struct tensor *t = args->input(args->input_ctx, INPUT_PREVIOUS, "factor");
    const int64_t n = b->n;
    const int64_t elements = t != NULL && t->dtype == DT_FLOAT ? tensor_elements(t) : 0;
    float *ret = batch_room(b, a->factor);

    if (b->rc == 0 && elements != n && elements != a->teams * n)
        batch_fail(b, err_set(b->err, ERR_PROTOCOL,
                              "input " INPUT_PREVIOUS
                              "/factor: f32 (%lld,%lld,%lld) expected",
                              (long long)a->teams, (long long)args->batch,
                              (long long)args->length));
    for (int64_t k = 0; b->rc == 0 && k < a->teams; k++)
        memcpy(ret + k * n,
               (const char *)t->data +
                   (elements > n ? k * n : 0) * (int64_t)sizeof(float),
               (size_t)n * sizeof(float));
    return ret;
}

/* The log-probabilities of the actions taken in all rows. */
static const float *run_log_prob(struct on_policy *p, struct batch *b, struct matrix *to)
{
    on_policy_run_policy(p, b, p->policy.log_prob, to);
    return batch_take(b, to);
}

static void turn(struct algo *a, struct batch *b)
{
    struct on_policy *p = &a->on;
    const struct on_policy_kept kept = on_policy_open_kept(p, b);
    float *all = read_factor(a, b),
          *factor = b->rc == 0 ? all + (int64_t)a->team * b->n : NULL;
    const float *before = run_log_prob(p, b, a->before), *after, *alive;
    float *advantage = batch_room(b, a->weighted);
    const struct on_policy_kept weighted = {.advantage = advantage};

    for (int64_t i = 0; i < b->n; i++)
        advantage[i] = factor[i] * kept.advantage[i];
    on_policy_run_epochs(p, b, &weighted, 1, 0);
    after = run_log_prob(p, b, a->after);
    alive = batch_take(b, p->kit.alive);
    for (int64_t i = 0; i < b->n; i++)
        if (alive[i] != 0)
            factor[i] *= (float)exp_f64((double)(after[i] - before[i]));
    if (b->rc == 0)
        stage_output(
            b->ret, "factor",
            tensor_view(DT_FLOAT, SHAPE(a->teams, b->args->batch, b->args->length), all));
}

static void critic(struct algo *a, struct batch *b)
{
    struct on_policy *p = &a->on;
    const struct on_policy_kept kept = on_policy_open_kept(p, b);

    on_policy_run_epochs(p, b, &kept, 0, 1);
    on_policy_move_target(p, b);
    on_policy_count_observations(p, b);
}

static const struct stage_of stages[] = {
    {"prepare", prepare, .writes = 1},
    {"turn", turn, .writes = 1, .runner = STAGE_TURNS, .reads = {"prev:turn/factor"}},
    {"critic", critic, .writes = 1},
};
static const struct kit_plan plan = {stages, 3, .rows = ROWS_WINDOW};

/* ---- building ---- */

static void happo_done(struct algo *a)
{
    on_policy_done(&a->on);
}

static int happo_build(struct algo *a, const struct algo_args *args, struct err *err)
{
    const int rc = on_policy_init(&a->on, args, &plan, 1, 0, 1, err);

    if (rc < 0)
        return rc;
    a->teams = (int64_t)teams_count(args->agents, args->n_agents,
                                    args->agents[args->self].team, &a->team);
    a->factor = matrix_new(&a->on.kit.matrices, a->teams);
    a->weighted = matrix_new(&a->on.kit.matrices, 1);
    a->before = matrix_new(&a->on.kit.matrices, 1);
    a->after = matrix_new(&a->on.kit.matrices, 1);
    return on_policy_build_graph(&a->on, err);
}

/* ---- description ---- */

static const char *const settings[] = {ON_POLICY_SETTINGS, "gae", "recurrent_critic",
                                       NULL};

/* Kuba et al. 2022, and the settings of HARL. */
static const struct algorithm_default happo_defaults[] = {
    {"discount", "0.99"},
    {"clip_norm", "10"},
    {"optimizer.learning_rate", "0.0005"},
    {"optimizer.epsilon", "0.00001"},
    {"settings.epochs", "5"},
    {NULL},
};

static const struct algo_about about = {
    .info = {.summary =
                 "proximal policy optimisation of one agent after another, each knowing "
                 "how those before it have changed",
             .use = "cooperation of agents that differ, so that they cannot share "
                    "parameters",
             .stages = "prepare(all, writes) > turn(turns, writes) > critic(all, writes)",
             .source = "Kuba et al. 2022, Trust region policy optimisation in "
                       "multi-agent reinforcement learning",
             .method = method,
             .defaults = happo_defaults,
             .scalars = on_policy_scalars,
             .rows = ROWS_WINDOW,
             .team_reward = 1,
             .keeps_window = 1,
             .hybrid = 1},
    .settings = settings};

const struct algo_ops happo_ops = {
    ON_POLICY_OPS("happo", about, 0, happo_build, happo_done)};
