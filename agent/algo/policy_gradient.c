#include "agent/algo/policy_gradient.h"

#include "agent/algo/choices.h"
#include "agent/algo/parts.h"
#include "agent/algo/scalars.h"
#include "agent/algo/share.h"
#include "common/mem/xmalloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct stage propose_stage = {.name = "propose", .runner = STAGE_LEARNERS};
static const struct stage learn_stage = {
    .name = "learn", .runner = STAGE_LEARNERS, .writes = 1};
/* Actor and critic are two stages, so that an odd number of members shares two cores
 * well. */
static const struct stage own_stages[] = {
    {.name = "prepare", .runner = STAGE_LEARNERS, .writes = 1},
    {.name = "normalize",
     .runner = STAGE_LEARNERS,
     .reads = {"prepare/sums"},
     .writes = 1},
    {.name = "actor", .runner = STAGE_LEARNERS},
    {.name = "critic", .runner = STAGE_LEARNERS},
};
enum { N_REPEATED = 2 + SHARE_N_STAGES - 1 }; /* actor, critic, apply, assign */
static const struct stage turn_stages[] = {
    {.name = "prepare", .runner = STAGE_LEARNERS, .writes = 1},
    {.name = "turn", .runner = STAGE_TURNS, .reads = {"prev:turn/factor"}, .writes = 1},
    {.name = "critic", .runner = STAGE_LEARNERS, .writes = 1},
};

static void add_stages(struct algo *a, const struct stage *stages, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        a->stages[a->n_stages] = stages[i];
        a->stages[a->n_stages].repeat_from = (int)a->n_stages;
        a->n_stages++;
    }
}
#define ADD_STAGES(a, stages) add_stages(a, stages, sizeof(stages) / sizeof((stages)[0]))

static void make_stages(struct algo *a)
{
    const struct algorithm_settings *set = a->settings;

    if (a->choices > 0)
        add_stages(a, &propose_stage, 1);
    if (a->in_turns) {
        ADD_STAGES(a, turn_stages);
    } else if (a->share == NULL) {
        add_stages(a, &learn_stage, 1);
    } else {
        ADD_STAGES(a, own_stages);
        add_stages(a, share_stages + 1, SHARE_N_STAGES - 1); /* without `gradients` */
        a->stages[a->n_stages - 1].repeat_from = (int)a->n_stages - N_REPEATED;
        a->stages[a->n_stages - 1].repeat = (int)(set->epochs * set->minibatches);
    }
    if (a->choices > 0)
        a->stages[1].reads[0] = "propose/action";
}

static int check_share(const struct algo_args *args, int in_turns, struct err *err)
{
    if (args->share == NULL && !in_turns)
        return 0;
    if (args->share != NULL && args->settings->value_norm == VALUE_NORM_POPART)
        return err_set_at(
            err, ERR_CONFIG, ERR_AT(.key = "settings.value_norm"),
            "popart changes weights that a ps has; expected running or none "
            "where parameters are shared");
    if (args->window_rows < 1)
        return err_set(err, ERR_ARG, "the size of a window of rows is not known");
    return 0;
}

static int check(const struct space *self, const struct algo_args *args, struct err *err)
{
    int rc = check_optimizers(args->config, err);

    if (rc == 0)
        rc = check_agent_id(args->settings, err);
    if (rc < 0 || choices_only(self))
        return rc;
    if (!(isfinite(self->low) && isfinite(self->high) && self->low < self->high))
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "algorithm"),
                          "%s needs discrete actions, or continuous ones with bounds",
                          args->config->algorithm);
    return 0;
}

static int is_team_mate(const struct algo *a, size_t i)
{
    return strcmp(a->agents[i].team, pg_self(a)->team) == 0;
}

/* Lists the agents whose observations the critic sees: the own one, its team's, the
 * others'. A ps, which sees none, builds the same shapes as its first member. */
static void see(struct algo *a)
{
    const size_t self =
        a->self < a->n_agents ? a->self : share_group(a->share)->members[0];

    a->seen = xcalloc(a->n_agents, sizeof(*a->seen));
    a->seen[a->seen_n++] = self;
    for (int mates = 1; a->joint && mates >= 0; mates--)
        for (size_t i = 0; i < a->n_agents; i++)
            if (i != self && is_team_mate(a, i) == mates)
                a->seen[a->seen_n++] = i;
}

/* Numbers the teams in the order of their first agents. */
static void count_teams(struct algo *a)
{
    for (size_t i = 0; i < a->n_agents; i++) {
        size_t first = 0;

        while (strcmp(a->agents[first].team, a->agents[i].team) != 0)
            first++;
        if (first == i && is_team_mate(a, i))
            a->team = a->teams;
        a->teams += first == i;
    }
}

/* Sets the widths of what the networks see. */
static void measure(struct algo *a)
{
    for (size_t j = 0; j < a->seen_n; j++) {
        const struct space *seen = &a->agents[a->seen[j]];

        a->state_width += seen->obs + (a->choices > 0 && j > 0 ? seen->width : 0);
    }
    a->state_width += a->id.width;
    a->input_width = pg_self(a)->obs + a->id.width;
}

void pg_put_ids(const struct algo *a, float *input, int64_t n, int64_t width)
{
    agent_id_put(&a->id, input + width - a->id.width, n, width);
}

static void pg_free(struct algo *a)
{
    if (a == NULL)
        return;
    reward_scale_done(&a->scale);
    free(a->window.memory);
    free(a->act_memory);
    free(a->feeds.list);
    free(a->seen);
    free(a->columns.obs);
    free(a->columns.next_obs);
    free(a->columns.alive_of);
    free(a);
}

enum variant { OWN, JOINT, TURNS, COUNTERFACTUAL };

/* What sets the variants apart. */
static const struct kind {
    int joint;          /* the critic sees all observations */
    int in_turns;       /* the agents improve their policies one after another */
    int counterfactual; /* the critic has a value for each of the agent's choices */
} kinds[] = {[OWN] = {0},
             [JOINT] = {.joint = 1},
             [TURNS] = {.joint = 1, .in_turns = 1},
             [COUNTERFACTUAL] = {.joint = 1, .counterfactual = 1}};

static int build(struct algo **ret, const struct algo_args *args, struct err *err)
{
    const struct kind kind = kinds[args->ops->variant];
    const struct space *self = &args->agents[args->self];
    struct algo *a;
    int rc = check(self, args, err);

    if (rc == 0)
        rc = check_share(args, kind.in_turns, err);
    if (rc == 0 && kind.counterfactual &&
        (!choices_only(self) || choices_count(self, CHOICES_MAX) == 0))
        rc = err_set_at(err, ERR_CONFIG, ERR_AT(.key = "algorithm"),
                        "%s needs discrete actions, of at most %d combinations",
                        args->config->algorithm, CHOICES_MAX);
    if (rc < 0)
        return rc;
    a = xcalloc(1, sizeof(*a));
    a->graph = args->graph;
    a->config = args->config;
    a->settings = args->settings;
    a->agents = args->agents;
    a->n_agents = args->n_agents;
    a->self = args->self;
    a->joint = kind.joint && args->config->critic.input == CRITIC_ALL;
    a->gaussian = !choices_only(self);
    a->masked = self->masked && !a->gaussian;
    a->share = args->share;
    a->window_rows = args->window_rows;
    a->in_turns = kind.in_turns;
    if (kind.counterfactual)
        a->choices = choices_count(self, CHOICES_MAX);
    make_stages(a);
    count_teams(a);
    a->id = agent_id_of(args);
    see(a);
    measure(a);
    a->columns.obs = xcalloc(2 * a->seen_n, sizeof(*a->columns.obs));
    a->columns.next_obs = xcalloc(a->seen_n, sizeof(*a->columns.next_obs));
    a->columns.alive_of = xcalloc(a->n_agents, sizeof(*a->columns.alive_of));
    rc = pg_build_graph(a, err);
    if (rc < 0) {
        pg_free(a);
        return rc;
    }
    *ret = a;
    return 0;
}

static const struct stage *stages(const struct algo *a, size_t *ret_n)
{
    *ret_n = a->n_stages;
    return a->stages;
}

static void rows(const struct algo *a, struct algo_rows *ret)
{
    *ret = (struct algo_rows){.kind = ROWS_WINDOW, .length = 1};
}

static size_t columns(const struct algo *a, struct algo_column *ret)
{
    ret[0] = (struct algo_column){"log_prob", 1};
    if (!a->gaussian)
        return 1;
    ret[1] = (struct algo_column){"sample", pg_self(a)->width};
    return 2;
}

static const struct live *lives(const struct algo *a, size_t *ret_n)
{
    *ret_n = PG_LIVES;
    return a->live;
}

static int init(struct algo *a, struct session *s, struct rng_key key, struct err *err)
{
    struct operation *const ops[] = {a->init_variables, a->init_target};

    return algo_run_each(s, ops, 2, key, err);
}

/* ---- descriptions ---- */

static const char *const settings[] = {
    "agent_id", "gae",          "n_step",     "clip_ratio",     "entropy",
    "epochs",   "minibatches",  "value_norm", "advantage_norm", "huber",
    "symmetry", "reward_scale", NULL,
};

/* COMA's targets and target network take the place of generalised advantages. */
static const char *const coma_settings[] = {
    "agent_id", "lambda",   "n_step",       "target_every", "clip_ratio",
    "entropy",  "epochs",   "minibatches",  "value_norm",   "advantage_norm",
    "huber",    "symmetry", "reward_scale", NULL,
};

static const struct algorithm_scalar scalars[] = {
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

static const struct algo_about coma_about = {
    .info = {.summary =
                 "actor-critic that compares each action with what else the agent might "
                 "have done",
             .use = "cooperation with one reward and discrete actions, where it matters "
                    "whose action it was",
             .stages = "propose(all) > learn(all, writes)",
             .source =
                 "Foerster et al. 2018, Counterfactual multi-agent policy gradients",
             .defaults = coma_defaults,
             .scalars = scalars,
             .rows = ROWS_WINDOW,
             .team_reward = 1,
             .shares = 1},
    .settings = coma_settings};
static const struct algo_about happo_about = {
    .info = {.summary =
                 "proximal policy optimisation of one agent after another, each knowing "
                 "how those before it have changed",
             .use = "cooperation of agents that differ, so that they cannot share "
                    "parameters",
             .stages = "prepare(all, writes) > turn(turns, writes) > critic(all, writes)",
             .source = "Kuba et al. 2022, Trust region policy optimisation in "
                       "multi-agent reinforcement learning",
             .defaults = happo_defaults,
             .scalars = scalars,
             .rows = ROWS_WINDOW,
             .team_reward = 1,
             .keeps_window = 1},
    .settings = settings};
static const struct algo_about ia2c_about = {
    .info = {.summary = "each agent alone: advantage actor-critic on its own observation",
             .use = "many copies of a cheap environment; the simplest of the policy "
                    "gradients",
             .stages = "learn(all, writes)",
             .source = "Mnih et al. 2016, Asynchronous methods for deep reinforcement "
                       "learning; Papoudakis et al. 2021, Benchmarking multi-agent deep "
                       "reinforcement learning algorithms in cooperative tasks",
             .own_critic = 1,
             .defaults = a2c_defaults,
             .scalars = scalars,
             .rows = ROWS_WINDOW,
             .shares = 1},
    .settings = settings};
static const struct algo_about ippo_about = {
    .info = {.summary = "each agent alone: proximal policy optimisation on its own "
                        "observation",
             .use = "any task, with many copies; for one agent it is ppo",
             .stages = "learn(all, writes)",
             .source = "Schulman et al. 2017, Proximal policy optimization algorithms; "
                       "de Witt et al. 2020, Is independent learning all you need in the "
                       "StarCraft multi-agent challenge?",
             .own_critic = 1,
             .defaults = ppo_defaults,
             .scalars = scalars,
             .rows = ROWS_WINDOW,
             .shares = 1},
    .settings = settings};
static const struct algo_about maa2c_about = {
    .info = {.summary = "advantage actor-critic with critics that see all observations",
             .use = "cooperation with many copies of a cheap environment",
             .stages = "learn(all, writes)",
             .source =
                 "Papoudakis et al. 2021, Benchmarking multi-agent deep reinforcement "
                 "learning algorithms in cooperative tasks",
             .defaults = a2c_defaults,
             .scalars = scalars,
             .rows = ROWS_WINDOW,
             .shares = 1},
    .settings = settings};
static const struct algo_about mappo_about = {
    .info = {.summary =
                 "proximal policy optimisation with critics that see all observations",
             .use = "cooperation with many copies: the best known on simple_spread, with "
                    "shared parameters and symmetry",
             .stages = "learn(all, writes)",
             .source = "Yu et al. 2022, The surprising effectiveness of PPO in "
                       "cooperative multi-agent games",
             .defaults = ppo_defaults,
             .scalars = scalars,
             .rows = ROWS_WINDOW,
             .shares = 1},
    .settings = settings};

#define POLICY_GRADIENT(NAME, ABOUT, VARIANT)                                            \
    {                                                                                    \
        .name = NAME, .about = &(ABOUT), .variant = (VARIANT), .build = build,           \
        .free = pg_free, .stages = stages, .rows = rows, .columns = columns,             \
        .reads = pg_reads, .lives = lives, .init = init, .act = pg_act,                  \
        .stage = pg_stage,                                                               \
    }

const struct algo_ops coma_ops = POLICY_GRADIENT("coma", coma_about, COUNTERFACTUAL);
const struct algo_ops happo_ops = POLICY_GRADIENT("happo", happo_about, TURNS);
const struct algo_ops ia2c_ops = POLICY_GRADIENT("ia2c", ia2c_about, OWN);
const struct algo_ops ippo_ops = POLICY_GRADIENT("ippo", ippo_about, OWN);
const struct algo_ops maa2c_ops = POLICY_GRADIENT("maa2c", maa2c_about, JOINT);
const struct algo_ops mappo_ops = POLICY_GRADIENT("mappo", mappo_about, JOINT);
