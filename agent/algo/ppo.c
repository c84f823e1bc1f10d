/* ppo.c - proximal policy optimisation, and the plain advantage actor-critic, which is one step
 *         of it without its clipping: ippo, ia2c (critics of the own observation), mappo, maa2c
 *         (critics of all observations).
 *
 * Source   A2C: Mnih et al. 2016, "Asynchronous methods for deep reinforcement learning".
 *          PPO: Schulman et al. 2017, Algorithm 1; mappo: Yu et al. 2022, Algorithm 1.
 *
 * learn    A to E of on_policy.h
 * shared   prepare (A) > normalize (B) > [actor, critic > apply > assign] for each step of C;
 *          the last assign does D; count, count_ps (E)
 */
#include "agent/algo/on_policy.h"

static const char *const ppo_method[] = {
    "o the own observation, s the same (ippo), or all agents' (mappo); pi the policy, V",
    "the critic; a window of E T rows, each used once",
    "d(t) = reward + discount (1 - terminated) V(s(t+1)) - V(s(t))",
    "A(t) = d(t) + discount gae A(t+1), up to the end of the episode or the window",
    "G = A + V; then A by its mean and deviation, G and V by running ones of G",
    "epochs times, for each of `minibatches` parts of the rows, in a drawn order:",
    "    r  = pi(u | o) / pi_old(u | o), c = clip_ratio",
    "    pi: one step down -mean of min(r A, clip(r, 1 - c, 1 + c) A)",
    "        - entropy mean of H(pi)",
    "    V:  one step down mean of max(h(G - V), h(G - Vold - clip(V - Vold, -c, c))),",
    "        h Huber's loss, or half the square",
    NULL,
};
static const char *const a2c_method[] = {
    "o the own observation, s the same (ia2c), or all agents' (maa2c); pi the policy, V",
    "the critic, V' its target; a window of E T rows, each used once",
    "G(t) = sum over k < n_step of discount^k reward(t+k)",
    "       + discount^n_step V'(s(t+n_step)), or up to the end of episode or window",
    "A    = G - V(s)",
    "pi: one step down -mean of A r - entropy mean of H(pi), r = pi(u | o) /",
    "    pi_old(u | o), which is 1, so that the gradient is that of A log pi(u | o)",
    "V:  one step down mean of (G - V)^2 / 2",
    "V': t = (1 - polyak) t + polyak v",
    NULL,
};

enum variant { OWN, JOINT };

struct algo {
    struct on_policy on;
};

static const struct stage_of alone[] = {{"learn", on_policy_learn, .writes = 1}};
static const struct stage_of shared[] = {{"prepare", on_policy_prepare, .writes = 1},
                                         ON_POLICY_SHARED_STAGES};
static const struct kit_plan alone_plan = {alone, 1, .rows = ROWS_WINDOW},
                             shared_plan = {shared, 1 + ON_POLICY_N_SHARED_STAGES,
                                            .rows = ROWS_WINDOW};

static void ppo_done(struct algo *a)
{
    on_policy_done(&a->on);
}

static int ppo_build(struct algo *a, const struct algo_args *args, struct err *err)
{
    const struct kit_plan *plan = args->share == NULL ? &alone_plan : &shared_plan;
    const int rc =
        on_policy_init(&a->on, args, plan, args->ops->variant == JOINT, 0, 0, err);

    return rc == 0 ? on_policy_build_graph(&a->on, err) : rc;
}

/* ---- descriptions ---- */

static const char *const settings[] = {ON_POLICY_SETTINGS, "gae", "recurrent_critic",
                                       NULL};

/* Yu et al. 2022, and the settings of its authors' code for the particle worlds. */
static const struct algorithm_default ppo_defaults[] = {
    {"discount", "0.99"},
    {"clip_norm", "10"},
    {"optimizer.learning_rate", "0.0007"},
    {"optimizer.epsilon", "0.00001"},
    {NULL},
};

/* Papoudakis et al. 2021, and the settings of EPyMARL. */
static const struct algorithm_default a2c_defaults[] = {
    {"discount", "0.99"},     {"clip_norm", "10"},  {"optimizer.learning_rate", "0.0005"},
    {"settings.n_step", "5"}, ON_POLICY_PLAIN_STEP, {NULL},
};

static const struct algo_about ia2c_about = {
    .info = {.summary = "each agent alone: advantage actor-critic on its own observation",
             .use = "many copies of a cheap environment; the simplest of the policy "
                    "gradients",
             .stages = "learn(all, writes)",
             .source = "Mnih et al. 2016, Asynchronous methods for deep reinforcement "
                       "learning; Papoudakis et al. 2021, Benchmarking multi-agent deep "
                       "reinforcement learning algorithms in cooperative tasks",
             .method = a2c_method,
             .own_critic = 1,
             .defaults = a2c_defaults,
             .scalars = on_policy_scalars,
             .rows = ROWS_WINDOW,
             .shares = 1,
             .hybrid = 1},
    .settings = settings};
static const struct algo_about ippo_about = {
    .info = {.summary = "each agent alone: proximal policy optimisation on its own "
                        "observation",
             .use = "any task, with many copies; for one agent it is ppo",
             .stages = "learn(all, writes)",
             .source = "Schulman et al. 2017, Proximal policy optimization algorithms; "
                       "de Witt et al. 2020, Is independent learning all you need in the "
                       "StarCraft multi-agent challenge?",
             .method = ppo_method,
             .own_critic = 1,
             .defaults = ppo_defaults,
             .scalars = on_policy_scalars,
             .rows = ROWS_WINDOW,
             .shares = 1,
             .hybrid = 1},
    .settings = settings};
static const struct algo_about maa2c_about = {
    .info = {.summary = "advantage actor-critic with critics that see all observations",
             .use = "cooperation with many copies of a cheap environment",
             .stages = "learn(all, writes)",
             .source =
                 "Papoudakis et al. 2021, Benchmarking multi-agent deep reinforcement "
                 "learning algorithms in cooperative tasks",
             .method = a2c_method,
             .defaults = a2c_defaults,
             .scalars = on_policy_scalars,
             .rows = ROWS_WINDOW,
             .shares = 1,
             .hybrid = 1},
    .settings = settings};
static const struct algo_about mappo_about = {
    .info = {.summary =
                 "proximal policy optimisation with critics that see all observations",
             .use = "cooperation with many copies: the best known on simple_spread, with "
                    "shared parameters and symmetry",
             .stages = "learn(all, writes)",
             .source = "Yu et al. 2022, The surprising effectiveness of PPO in "
                       "cooperative multi-agent games",
             .method = ppo_method,
             .defaults = ppo_defaults,
             .scalars = on_policy_scalars,
             .rows = ROWS_WINDOW,
             .shares = 1,
             .hybrid = 1},
    .settings = settings};

#define PPO_OPS(NAME, ABOUT, VARIANT)                                                    \
    {                                                                                    \
        ON_POLICY_OPS(NAME, ABOUT, VARIANT, ppo_build, ppo_done)                         \
    }

const struct algo_ops ia2c_ops = PPO_OPS("ia2c", ia2c_about, OWN);
const struct algo_ops ippo_ops = PPO_OPS("ippo", ippo_about, OWN);
const struct algo_ops maa2c_ops = PPO_OPS("maa2c", maa2c_about, JOINT);
const struct algo_ops mappo_ops = PPO_OPS("mappo", mappo_about, JOINT);
