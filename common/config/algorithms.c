#include "common/config/algorithms.h"

#include "common/text/scan.h"

#include <string.h>

const char *const rows_kind_names[ROWS_KIND_COUNT + 1] = {"transitions", "episodes",
                                                          "window"};

/* settings of maddpg, ddpg and matd3 */
#define OFF_POLICY_SETTINGS                                                              \
    "logit_penalty", "temperature", "policy", "execute", "own_batches", "clip_by",       \
        "exploration_noise", "symmetry", "reward_scale", "agent_id"

static const char *const off_policy_settings[] = {OFF_POLICY_SETTINGS, NULL};

static const char *const matd3_settings[] = {
    OFF_POLICY_SETTINGS, "policy_delay", "target_policy_noise", "target_noise_clip", NULL,
};

/* settings of vdn, qmix, and iql with sequences */
#define SEQUENCE_SETTINGS                                                                \
    "epsilon", "agent_id", "last_action", "recurrent", "cell", "n_step", "lambda",       \
        "double_q", "target_every", "clip_by", "symmetry", "reward_scale"

static const char *const q_settings[] = {SEQUENCE_SETTINGS, "hysteresis", "own_batches",
                                         NULL};

static const char *const team_q_settings[] = {SEQUENCE_SETTINGS, NULL};

/* The settings of EPyMARL (Papoudakis et al. 2021). */
static const struct algorithm_default team_q_defaults[] = {
    {"clip_norm", "10"},
    {"optimizer.learning_rate", "0.0005"},
    {"settings.clip_by", "global"},
    {"settings.epsilon", "1 to 0.05 over 50000"},
    {NULL},
};

static const char *const policy_gradient_settings[] = {
    "agent_id", "gae",          "n_step",     "clip_ratio",     "entropy",
    "epochs",   "minibatches",  "value_norm", "advantage_norm", "huber",
    "symmetry", "reward_scale", NULL,
};

/* Yu et al. 2022, and the settings of its authors' code for the particle worlds. */
static const struct algorithm_default ppo_defaults[] = {
    {"discount", "0.99"},
    {"clip_norm", "10"},
    {"optimizer.learning_rate", "0.0007"},
    {"optimizer.epsilon", "0.00001"},
    {NULL},
};

/* Kuba et al. 2022, and the settings of HARL. */
static const struct algorithm_default happo_defaults[] = {
    {"discount", "0.99"},
    {"clip_norm", "10"},
    {"optimizer.learning_rate", "0.0005"},
    {"optimizer.epsilon", "0.00001"},
    {"settings.epochs", "5"},
    {NULL},
};

/* One gradient step on a window's rows, without PPO's clipping, epochs, normalisations
 * and Huber loss. */
#define PLAIN_STEP                                                                       \
    {"settings.clip_ratio", "none"}, {"settings.epochs", "1"},                           \
        {"settings.value_norm", "none"}, {"settings.advantage_norm", "false"},           \
    {                                                                                    \
        "settings.huber", "none"                                                         \
    }

/* Papoudakis et al. 2021, and the settings of EPyMARL. */
static const struct algorithm_default a2c_defaults[] = {
    {"discount", "0.99"},     {"clip_norm", "10"}, {"optimizer.learning_rate", "0.0005"},
    {"settings.n_step", "5"}, PLAIN_STEP,          {NULL},
};

static const char *const coma_settings[] = {
    "agent_id", "lambda",   "n_step",       "target_every", "clip_ratio",
    "entropy",  "epochs",   "minibatches",  "value_norm",   "advantage_norm",
    "huber",    "symmetry", "reward_scale", NULL,
};

/* Foerster et al. 2018; EPyMARL's values where the paper gives none. */
static const struct algorithm_default coma_defaults[] = {
    {"discount", "0.99"},
    {"clip_norm", "10"},
    {"optimizer.learning_rate", "0.0005"},
    {"settings.lambda", "0.8"},
    {"settings.target_every", "200"},
    PLAIN_STEP,
    {NULL},
};

static const char *const sac_settings[] = {
    "agent_id",
    "initial_alpha",
    "target_entropy_share",
    "target_entropy_each",
    "own_batches",
    "clip_by",
    "symmetry",
    "reward_scale",
    NULL,
};

/* Haarnoja et al. 2018 for rates and targets, BenchMARL for clipping. */
static const struct algorithm_default sac_defaults[] = {
    {"polyak", "0.005"},
    {"clip_norm", "5"},
    {"optimizer.learning_rate", "0.0003"},
    {"settings.clip_by", "global"},
    {NULL},
};

static const char *const critic_settings[] = {"clip_by", NULL};

static const char *const frozen_settings[] = {"from",   "agent",  "observation",
                                              "action", "choose", NULL};

static const char *const graph_settings[] = {"from", "agent", NULL};

static const char *const no_settings[] = {NULL};

/* environments for which agent/algo/heuristic.c has rules */
static const char *const heuristic_envs[] = {
    "simple",        "simple_reference", "simple_speaker_listener",
    "simple_spread", "simple_tag",       NULL};

static const struct network_config first_users_critic = {
    .hidden = {.n = 2, .size = {128, 32}},
    .activation = ACTIVATION_LEAKY_RELU,
    .after_action = {.n = 1, .size = {64}},
    .output_init = 3e-3,
};

static const struct algorithm_info algorithms[] = {
    {
        .name = "coma",
        .summary =
            "actor-critic that compares each action with what else the agent might "
            "have done",
        .use = "cooperation with one reward and discrete actions, where it matters whose "
               "action it was",
        .stages = "propose(all) > learn(all, writes)",
        .source = "Foerster et al. 2018, Counterfactual multi-agent policy gradients",
        .settings = coma_settings,
        .defaults = coma_defaults,
        .rows = ROWS_WINDOW,
        .team_reward = 1,
        .shares = 1,
    },
    {
        .name = "critic",
        .summary = "a critic alone, trained by a client with targets of its own",
        .use = "for a program that computes the targets itself, through `brood run` and "
               "its socket",
        .stages = "",
        .source = "agent/algo/critic.c",
        .settings = critic_settings,
        .own_critic = 1,
        .critic = &first_users_critic,
        .without_env = 1,
    },
    {
        .name = "ddpg",
        .summary = "each agent alone: an actor, and a critic of its own observation",
        .use =
            "agents whose success depends little on the others; the yardstick for maddpg",
        .stages = "learn(all, writes)",
        .source = "Lillicrap et al. 2016, Continuous control with deep reinforcement "
                  "learning",
        .settings = off_policy_settings,
        .own_critic = 1,
        .shares = 1,
    },
    {
        .name = "frozen",
        .summary = "acts as a checkpoint's policy does; does not learn",
        .use =
            "opponents and partners that are not to change, and policies from elsewhere",
        .stages = "propose(all)",
        .source = "a checkpoint of brood, or of TensorFlow 1 with its MetaGraph",
        .settings = frozen_settings,
        .fixed = 1,
    },
    {
        .name = "graph",
        .summary = "a graph built elsewhere, trained by a client with the graph's own "
                   "train ops",
        .use = "models that exist as a MetaGraph of TensorFlow 1: a program feeds, "
               "fetches and trains them through `brood run` and its socket",
        .stages = "",
        .source = "a MetaGraph of TensorFlow 1 or of brood, with or without a checkpoint",
        .settings = graph_settings,
        .own_critic = 1,
        .without_env = 1,
    },
    {
        .name = "happo",
        .summary =
            "proximal policy optimisation of one agent after another, each knowing "
            "how those before it have changed",
        .use = "cooperation of agents that differ, so that they cannot share parameters",
        .stages = "prepare(all, writes) > turn(turns, writes) > critic(all, writes)",
        .source = "Kuba et al. 2022, Trust region policy optimisation in multi-agent "
                  "reinforcement learning",
        .settings = policy_gradient_settings,
        .defaults = happo_defaults,
        .rows = ROWS_WINDOW,
        .team_reward = 1,
    },
    {
        .name = "heuristic",
        .summary = "acts by rules written for its environment; does not learn",
        .use = "a mark to beat, and a partner that is good from the beginning",
        .stages = "propose(all)",
        .source = "agent/algo/heuristic.c",
        .settings = no_settings,
        .fixed = 1,
        .envs = heuristic_envs,
    },
    {
        .name = "ia2c",
        .summary = "each agent alone: advantage actor-critic on its own observation",
        .use = "many copies of a cheap environment; the simplest of the policy gradients",
        .stages = "learn(all, writes)",
        .source = "Mnih et al. 2016, Asynchronous methods for deep reinforcement "
                  "learning; Papoudakis et al. 2021, Benchmarking multi-agent deep "
                  "reinforcement learning algorithms in cooperative tasks",
        .settings = policy_gradient_settings,
        .own_critic = 1,
        .defaults = a2c_defaults,
        .rows = ROWS_WINDOW,
        .shares = 1,
    },
    {
        .name = "ippo",
        .summary =
            "each agent alone: proximal policy optimisation on its own observation",
        .use = "any task, with many copies; for one agent it is ppo",
        .stages = "learn(all, writes)",
        .source = "Schulman et al. 2017, Proximal policy optimization algorithms; de "
                  "Witt et al. 2020, Is independent learning all you need in the "
                  "StarCraft multi-agent challenge?",
        .settings = policy_gradient_settings,
        .own_critic = 1,
        .defaults = ppo_defaults,
        .rows = ROWS_WINDOW,
        .shares = 1,
    },
    {
        .name = "iql",
        .summary = "each agent alone: a deep Q-network of its own observation",
        .use = "discrete actions, and tasks where agents can learn as if they were "
               "alone; with `hysteresis`, games that punish miscoordination",
        .stages = "learn(all, writes)",
        .source = "Tampuu et al. 2017, Multiagent cooperation and competition with deep "
                  "reinforcement learning; Matignon et al. 2007, Hysteretic Q-learning",
        .settings = q_settings,
        .own_critic = 1,
        .shares = 1,
    },
    {
        .name = "isac",
        .summary = "each agent alone: soft actor-critic on its own observation",
        .use = "rows that are expensive, discrete or continuous actions, exploration by "
               "the policy's own entropy; for one agent it is sac",
        .stages = "learn(all, writes)",
        .source = "Haarnoja et al. 2018, Soft actor-critic algorithms and applications; "
                  "Christodoulou 2019, Soft actor-critic for discrete action settings",
        .settings = sac_settings,
        .own_critic = 1,
        .defaults = sac_defaults,
        .shares = 1,
    },
    {
        .name = "maa2c",
        .summary = "advantage actor-critic with critics that see all observations",
        .use = "cooperation with many copies of a cheap environment",
        .stages = "learn(all, writes)",
        .source = "Papoudakis et al. 2021, Benchmarking multi-agent deep reinforcement "
                  "learning algorithms in cooperative tasks",
        .settings = policy_gradient_settings,
        .defaults = a2c_defaults,
        .rows = ROWS_WINDOW,
        .shares = 1,
    },
    {
        .name = "maddpg",
        .summary = "critics that see all observations and actions, actors that see their "
                   "own",
        .use = "competition and mixed motives, discrete or continuous actions, rows that "
               "are dear",
        .stages = "propose(all) > critic(all, writes) > learn(all, writes)",
        .source = "Lowe et al. 2017, Multi-agent actor-critic for mixed "
                  "cooperative-competitive environments",
        .settings = off_policy_settings,
        .shares = 1,
    },
    {
        .name = "mappo",
        .summary = "proximal policy optimisation with critics that see all observations",
        .use = "cooperation with many copies: the best known on simple_spread, with "
               "shared parameters and symmetry",
        .stages = "learn(all, writes)",
        .source = "Yu et al. 2022, The surprising effectiveness of PPO in cooperative "
                  "multi-agent games",
        .settings = policy_gradient_settings,
        .defaults = ppo_defaults,
        .rows = ROWS_WINDOW,
        .shares = 1,
    },
    {
        .name = "masac",
        .summary = "soft actor-critic with critics that see all observations and the "
                   "others' actions",
        .use = "as isac, where agents cooperate or compete; the policies stay random as "
               "far as target_entropy_share or target_entropy_each says",
        .stages = "propose(all) > critic(all, writes) > learn(all, writes)",
        .source = "Haarnoja et al. 2018, Soft actor-critic algorithms and applications; "
                  "Iqbal, Sha 2019, Actor-attention-critic for multi-agent reinforcement "
                  "learning",
        .settings = sac_settings,
        .defaults = sac_defaults,
        .shares = 1,
    },
    {
        .name = "matd3",
        .summary =
            "maddpg with the smaller of two critics' values, noise on the targets' "
            "actions, and a slower policy; one agent alone: td3",
        .use = "as maddpg, mostly for continuous actions; for one agent it is td3",
        .stages = "propose(all) > critic(all, writes) > learn(all, writes)",
        .source = "Ackermann et al. 2019, Reducing overestimation bias in multi-agent "
                  "domains using double centralized critics; Fujimoto et al. 2018, "
                  "Addressing function approximation error in actor-critic methods",
        .settings = matd3_settings,
        .shares = 1,
    },
    {
        .name = "noop",
        .summary = "does nothing: first choices, and zeros",
        .use = "agents that are not to act",
        .stages = "propose(all)",
        .source = "agent/algo/fixed.c",
        .settings = no_settings,
        .fixed = 1,
    },
    {
        .name = "qmix",
        .summary = "Q-networks whose values a network of the joint state mixes",
        .use = "cooperation with one reward, discrete actions, and a joint value that is "
               "more than a sum",
        .stages = "values(all) > mix(central, writes) > learn(all, writes)",
        .source = "Rashid et al. 2018, QMIX: monotonic value function factorisation for "
                  "deep multi-agent reinforcement learning",
        .settings = team_q_settings,
        .defaults = team_q_defaults,
        .own_critic = 1,
        .central = 1,
        .team_reward = 1,
        .rows = ROWS_EPISODES,
        .shares = 1,
    },
    {
        .name = "random",
        .summary = "acts at random, evenly over what is possible",
        .use = "the bottom of a comparison, and tests of environments",
        .stages = "propose(all)",
        .source = "agent/algo/fixed.c",
        .settings = no_settings,
        .fixed = 1,
    },
    {
        .name = "vdn",
        .summary = "Q-networks whose sum is the value of what the team does",
        .use = "cooperation with one reward and discrete actions",
        .stages = "values(all) > learn(all, writes)",
        .source = "Sunehag et al. 2018, Value-decomposition networks for cooperative "
                  "multi-agent learning",
        .settings = team_q_settings,
        .defaults = team_q_defaults,
        .own_critic = 1,
        .team_reward = 1,
        .rows = ROWS_EPISODES,
        .shares = 1,
    },
};

const struct algorithm_info *algorithm_at(size_t i)
{
    return i < sizeof(algorithms) / sizeof(algorithms[0]) ? &algorithms[i] : NULL;
}

const struct algorithm_info *algorithm_find(const char *name)
{
    const struct algorithm_info *a;

    for (size_t i = 0; (a = algorithm_at(i)) != NULL; i++) {
        if (strcmp(a->name, name) == 0)
            return a;
    }
    return NULL;
}

int algorithm_plays_in(const struct algorithm_info *a, const char *env)
{
    return a->envs == NULL || text_find(a->envs, env) >= 0;
}

int algorithm_accepts(const struct algorithm_info *a, const char *setting)
{
    return text_find(a->settings, setting) >= 0;
}

int algorithm_learns(const struct algorithm_info *a)
{
    return !a->fixed && !a->without_env;
}

int algorithm_brings_graph(const struct agent_config *a)
{
    return algorithm_accepts(algorithm_find(a->algorithm), "from");
}

int run_config_trains_graphs(const struct run_config *c)
{
    for (size_t i = 0; i < c->n_agents; i++)
        if (algorithm_brings_graph(&c->agents[i]) &&
            !algorithm_find(c->agents[i].algorithm)->fixed)
            return 1;
    return 0;
}

/* iql learns from single rows, unless a setting needs sequences. */
enum rows_kind algorithm_rows(const struct agent_config *a)
{
    const struct algorithm_settings *s = &a->settings;

    if (strcmp(a->algorithm, "iql") == 0 &&
        (s->recurrent > 0 || s->lambda > 0 || s->n_step > 1 || s->target_every > 0 ||
         s->last_action || s->agent_id))
        return ROWS_EPISODES;
    return algorithm_find(a->algorithm)->rows;
}

enum rows_kind run_config_rows(const struct run_config *c)
{
    enum rows_kind kind = ROWS_KIND_COUNT;

    for (size_t i = 0; i < c->n_agents; i++) {
        const struct algorithm_info *info = algorithm_find(c->agents[i].algorithm);

        if (info == NULL || !algorithm_learns(info))
            continue;
        if (kind != ROWS_KIND_COUNT && kind != algorithm_rows(&c->agents[i]))
            return ROWS_KIND_COUNT;
        kind = algorithm_rows(&c->agents[i]);
    }
    return kind;
}
