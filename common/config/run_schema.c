#include "common/config/run_schema.h"

#include "common/config/algorithms.h"
#include "common/text/scan.h"

#include <math.h>
#include <string.h>

#define TABLE             SCHEMA_TABLE
#define FROM              SCHEMA_FROM
#define WITHIN            SCHEMA_WITHIN
#define RUN(member)       SCHEMA_AT(struct run_config, member)
#define AGENT(member)     SCHEMA_AT(struct agent_config, member)
#define NETWORK(member)   SCHEMA_AT(struct network_config, member)
#define OPTIMIZER(member) SCHEMA_AT(struct optimizer_config, member)
#define RESTART(member)   SCHEMA_AT(struct restart_config, member)
#define ABOVE             SCHEMA_ABOVE
#define NAMES             SCHEMA_NAMES
#define LIVE              .change = CHANGE_LIVE
#define SETTABLE          .change = CHANGE_SETTING
#define RESPAWN           .change = CHANGE_RESPAWN
#define ALMOST_1          0.999999999 /* with 1, a moving average would never change */
/* of steps, rows and episodes: exactly representable as a double */
#define COUNT_MAX         1e15

const char *const optimizer_names[] = {"adam",    "sgd",           "momentum",
                                       "rmsprop", "accept_reject", NULL};

static const char *const activation_names[] = {"relu",    "leaky_relu", "tanh", "elu",
                                               "sigmoid", "linear",     NULL};

static int optimizer_applies(const void *root, const void *section,
                             const struct field *field)
{
    const struct optimizer_config *o = section;

    return optimizer_has(o->type, field->key);
}

static const struct field optimizer_fields[] = {
    {"type", FIELD_ENUM, OPTIMIZER(type), .flags = FIELD_VARIABLES,
     .names = optimizer_names, .default_text = "adam",
     .doc = "how gradients become steps"},
    {"learning_rate", FIELD_SCHEDULE, OPTIMIZER(learning_rate),
     .flags = FIELD_ABOVE_MIN | FIELD_ENDS_AT_MIN, FROM(0), .default_text = "0.003",
     SETTABLE, .doc = "length of a step; accept_reject: deviation of its noise"},
    {"beta1", FIELD_F64, OPTIMIZER(beta1), WITHIN(0, ALMOST_1), RESPAWN,
     .doc = "adam: decay of the mean gradient (0.9)"},
    {"beta2", FIELD_F64, OPTIMIZER(beta2), WITHIN(0, ALMOST_1), RESPAWN,
     .doc = "adam: decay of the mean squared gradient (0.999)"},
    {"epsilon", FIELD_F64, OPTIMIZER(epsilon), FROM(0), RESPAWN,
     .doc = "adam (1.0e-08), rmsprop (1.0e-10): keeps the divisor from 0"},
    {"momentum", FIELD_F64, OPTIMIZER(momentum), WITHIN(0, 1), RESPAWN,
     .doc = "momentum (0.9), rmsprop (0): share of the last step that is kept"},
    {"decay", FIELD_F64, OPTIMIZER(decay), WITHIN(0, ALMOST_1), RESPAWN,
     .doc = "rmsprop: decay of the mean squared gradient (0.9)"},
    {"tries", FIELD_I64, OPTIMIZER(tries), .flags = FIELD_SKIP_ZERO, WITHIN(1, 1e6),
     RESPAWN, .doc = "accept_reject: changes tried in an update (1)"},
};
static const struct schema optimizer_schema = {TABLE(optimizer_fields),
                                               .applies = optimizer_applies};

#define ENTITIES(member) SCHEMA_AT(struct entity_layers, member)
static const struct field entity_fields[] = {
    {"units", FIELD_SIZES, ENTITIES(units), .flags = FIELD_VARIABLES,
     .default_text = "[64]", .doc = "sizes of the layers that each entity goes through"},
    {"pool", FIELD_ENUM, ENTITIES(pool), .flags = FIELD_VARIABLES,
     NAMES("mean", "max", "attention"), .default_text = "mean",
     .doc = "how what they give becomes one vector"},
    {"heads", FIELD_I64, ENTITIES(heads), .flags = FIELD_VARIABLES,
     WITHIN(1, CONFIG_MAX_UNITS), .default_text = "1",
     .doc = "pool attention: its heads, which share the last of the units"},
};
static const struct schema entity_schema = {TABLE(entity_fields)};

enum { CRITIC_ONLY = 2 /* fields of networks, the last ones */ };

static const struct field network_fields[] = {
    {"conv", FIELD_CONVS, NETWORK(conv), .flags = FIELD_VARIABLES | FIELD_SKIP_ZERO,
     .default_text = "[]",
     .doc =
         "convolutions of an image, before `hidden`: [[filters, kernel, stride], ...]"},
    {"entities", FIELD_OPTIONAL_MAP, NETWORK(entities),
     .flags = FIELD_VARIABLES | FIELD_LISTED,
     .has_offset = offsetof(struct network_config, has_entities),
     .schema = &entity_schema,
     .doc = "env.observe: entities: how it sees them, before `hidden`"},
    {"hidden", FIELD_SIZES, NETWORK(hidden), .flags = FIELD_VARIABLES,
     .default_text = "[64, 64]", .doc = "sizes of the hidden layers"},
    {"activation", FIELD_ENUM, NETWORK(activation), .names = activation_names,
     .default_text = "relu", .doc = "of the hidden layers"},
    {"layer_norm", FIELD_BOOL, NETWORK(layer_norm), .flags = FIELD_VARIABLES,
     .default_text = "false",
     .doc = "normalises the input, and what each hidden or recurrent layer gives"},
    {"init", FIELD_ENUM, NETWORK(init), NAMES("xavier", "he", "orthogonal"),
     .default_text = "xavier", .doc = "how the weights of the layers begin"},
    {"output_init", FIELD_F64, NETWORK(output_init), FROM(0), .default_text = "0",
     .doc = "last weights: uniform in +-this (orthogonal: gain); 0: as all others"},
    {"optimizer", FIELD_OPTIONAL_MAP, NETWORK(optimizer),
     .flags = FIELD_VARIABLES | FIELD_INHERITS,
     .has_offset = offsetof(struct network_config, has_optimizer),
     .schema = &optimizer_schema,
     .doc = "its own; what is not given is as in the agent's"},
    {"input", FIELD_ENUM, NETWORK(input), .flags = FIELD_VARIABLES, NAMES("own", "all"),
     .doc = "whose observations and actions it sees (what suits the algorithm)"},
    {"after_action", FIELD_SIZES, NETWORK(after_action), .flags = FIELD_VARIABLES,
     .default_text = "[]",
     .doc = "if not empty, actions join behind `hidden`, then come these layers"},
};
static const struct schema actor_schema = {
    .fields = network_fields,
    .n = sizeof(network_fields) / sizeof(network_fields[0]) - CRITIC_ONLY};

/* critic.input does not apply to an algorithm whose critics see only their own agent. */
static int critic_applies(const void *root, const void *section,
                          const struct field *field)
{
    const struct agent_config *a = root;
    const struct algorithm_info *info = algorithm_of(a);

    return strcmp(field->key, "input") != 0 || info == NULL || !info->own_critic;
}
static const struct schema critic_schema = {TABLE(network_fields),
                                            .applies = critic_applies};

/* The settings are those of the agent's algorithm. */
static const struct schema *settings_of(const void *root)
{
    static const struct schema none = {0};
    const struct agent_config *a = root;

    if (a == NULL)
        return &algorithm_any()->settings;
    return a->settings.of != NULL ? &a->settings.of->settings : &none;
}

static const struct field restart_fields[] = {
    {"policy", FIELD_ENUM, RESTART(policy), NAMES("permanent", "transient", "temporary"),
     .default_text = "permanent", LIVE,
     .doc = "start again always, only after a failure, never"},
    {"max_restarts", FIELD_I64, RESTART(max_restarts), WITHIN(0, 1e6),
     .default_text = "5", LIVE, .doc = "more than this many within `within`: give up"},
    {"within", FIELD_SECONDS, RESTART(within_s), ABOVE(0), .default_text = "60s", LIVE,
     .doc = "the time that restarts are counted in"},
    {"delay", FIELD_SECONDS, RESTART(delay_s), FROM(0), .default_text = "100ms", LIVE,
     .doc = "before the second restart; doubles from then on"},
    {"max_delay", FIELD_SECONDS, RESTART(max_delay_s), FROM(0), .default_text = "10s",
     LIVE, .doc = "the longest delay"},
    {"on_give_up", FIELD_ENUM, RESTART(on_give_up), NAMES("stop", "frozen", "noop"),
     .default_text = "stop", LIVE,
     .doc = "then: stop the run, act on without learning, do nothing"},
};
static const struct schema restart_schema = {TABLE(restart_fields)};

#define EXPERIENCE(member) SCHEMA_AT(struct experience_config, member)
static const struct field agent_experience_fields[] = {
    {"batch_size", FIELD_I64, EXPERIENCE(batch_size), .flags = FIELD_SKIP_ZERO,
     WITHIN(1, 1 << 24), .doc = "of its algorithm's updates (experience.batch_size)"},
    {"warmup", FIELD_I64, EXPERIENCE(warmup), .flags = FIELD_SKIP_ZERO,
     WITHIN(1, COUNT_MAX), .doc = "of its algorithm (experience.warmup)"},
    {"update_every", FIELD_I64, EXPERIENCE(update_every), .flags = FIELD_SKIP_ZERO,
     WITHIN(1, COUNT_MAX),
     .doc = "of its algorithm (experience.update_every; windows: copies x max_steps)"},
};
static const struct schema agent_experience_schema = {TABLE(agent_experience_fields)};

#define CONFINE(member) SCHEMA_AT(struct confine_config, member)
static const struct field confine_fields[] = {
    {"threads", FIELD_BOOL, CONFINE(threads), .flags = FIELD_SKIP_ZERO,
     .doc = "it may start threads and processes (false)"},
    {"files", FIELD_WORDS, CONFINE(files),
     .doc = "files and folders that it may change, from its directory on"},
    {"devices", FIELD_WORDS, CONFINE(devices),
     .doc = "devices that it may use, [/dev/dri/renderD128]"},
};
static const struct schema confine_schema = {TABLE(confine_fields)};

#define POLICY(member) SCHEMA_AT(struct policy_config, member)
static const struct field policy_fields[] = {
    {"from", FIELD_TEXT, POLICY(from), .flags = FIELD_VARIABLES,
     .doc = "a frozen agent that is a program: its checkpoint (brood writes it)"},
    {"choose", FIELD_ENUM, POLICY(samples), .flags = FIELD_SKIP_ZERO,
     NAMES("greedy", "sample"), .default_text = "greedy",
     .doc = "the best choice, or a draw"},
};
static const struct schema policy_schema = {TABLE(policy_fields)};

static const struct field agent_fields[] = {
    {"algorithm", FIELD_NAME, AGENT(algorithm), .flags = FIELD_VARIABLES,
     .doc = "see `brood algorithms`, which marks the default"},
    {"command", FIELD_WORDS, AGENT(command), .flags = FIELD_PROGRAM | FIELD_VARIABLES,
     .doc = "algorithm program: the words that start it, [python3, my_agent.py]"},
    {"directory", FIELD_TEXT, AGENT(directory), .flags = FIELD_PROGRAM,
     .doc = "where the program starts (the folder of the file that names it)"},
    {"environment", FIELD_TREE, AGENT(environment), .flags = FIELD_PROGRAM,
     .doc = "variables of its environment, {NAME: value}"},
    {"sources", FIELD_WORDS, AGENT(sources), .flags = FIELD_PROGRAM | FIELD_VARIABLES,
     .doc = "files and folders that a run keeps beside what the program imports, "
            "[data/*.npy]"},
    {"threads", FIELD_I64, AGENT(threads), .flags = FIELD_PROGRAM | FIELD_SKIP_ZERO,
     WITHIN(1, 1024),
     .doc = "that the program's libraries compute with; its bytes depend on them (1)"},
    {"exact", FIELD_ENUM, AGENT(is_inexact), .flags = FIELD_PROGRAM | FIELD_SKIP_ZERO,
     NAMES("required", "reported"), .default_text = "required",
     .doc = "reported: its code cannot repeat its bits, as some on GPUs"},
    {"confine", FIELD_MAP, AGENT(confine), .flags = FIELD_PROGRAM,
     .schema = &confine_schema},
    {"program", FIELD_NAME, AGENT(program),
     .flags = FIELD_PROGRAM | FIELD_SKIP_ZERO | FIELD_VARIABLES,
     .doc = "what the program said of itself (brood writes it into a run's file)"},
    {"policy", FIELD_MAP, AGENT(policy), .flags = FIELD_PROGRAM,
     .schema = &policy_schema},
    {"settings", FIELD_MAP, AGENT(settings.value), .schema_of = settings_of},
    {"discount", FIELD_F64, AGENT(discount), WITHIN(0, 1), .default_text = "0.95",
     SETTABLE, .doc = "worth of the next step's reward"},
    {"polyak", FIELD_F64, AGENT(polyak), WITHIN(0, 1), .default_text = "0.01", SETTABLE,
     .doc = "share of the trained weights in a target's update"},
    {"actor", FIELD_MAP, AGENT(actor), .schema = &actor_schema},
    {"critic", FIELD_MAP, AGENT(critic), .schema = &critic_schema},
    {"optimizer", FIELD_MAP, AGENT(optimizer), .schema = &optimizer_schema},
    {"clip_norm", FIELD_F64_OR_NONE, AGENT(clip_norm), ABOVE(0), .default_text = "0.5",
     SETTABLE, .doc = "longest gradient (none: any)"},
    {"memory_limit", FIELD_BYTES, AGENT(memory_limit_bytes), .default_text = "none", LIVE,
     .doc = "of the agent's process: 512M, 2G, none"},
    {"respond_within", FIELD_SECONDS, AGENT(respond_within_s), ABOVE(0),
     .default_text = "30s", LIVE, .doc = "an agent silent for longer is replaced"},
    {"on_nonfinite", FIELD_ENUM, AGENT(stop_on_nonfinite), NAMES("continue", "stop"),
     .default_text = "stop", RESPAWN, .doc = "when a loss is no finite number"},
    {"restart", FIELD_MAP, AGENT(restart), .schema = &restart_schema},
    {"share", FIELD_NAMES, AGENT(share), .flags = FIELD_VARIABLES,
     .doc = "parameters: team, a list of agents, or none; needs equal agents (none)"},
    {"device", FIELD_TEXT, AGENT(device),
     .doc = "where it runs in a cluster, /job:worker/task:2 (in blocks); a program also "
            "cuda:0"},
    {"experience", FIELD_MAP, AGENT(experience), .schema = &agent_experience_schema},
    {"observation", FIELD_I64, AGENT(observation),
     .flags = FIELD_SKIP_ZERO | FIELD_VARIABLES, WITHIN(1, 1 << 24),
     .doc = "env.id none: width of the agent's observation"},
    {"action", FIELD_I64, AGENT(action), .flags = FIELD_SKIP_ZERO | FIELD_VARIABLES,
     WITHIN(1, 1 << 24), .doc = "env.id none: width of the agent's action"},
};
const struct schema agent_schema = {TABLE(agent_fields)};

const struct schema_alias agent_aliases[] = {
    {"agent_id", "settings.agent_id"},
    {"last_action", "settings.last_action"},
    {"n_step", "settings.n_step"},
    {"lambda", "settings.lambda", .none_is_zero = 1},
    {"reward_scale", "settings.reward_scale"},
    {"value_norm", "settings.value_norm"},
    {"epsilon", "settings.epsilon"},
    {"batch_size", "experience.batch_size"},
    {"warmup", "experience.warmup"},
    {"update_every", "experience.update_every"},
    {"recurrent.cell", "settings.cell"},
    {"recurrent.width", "settings.recurrent"},
    {"recurrent", "settings.recurrent", .none_is_zero = 1},
    {"target.polyak", "polyak"},
    {"target.every", "settings.target_every"},
    {NULL},
};

/* `for` counts values beyond a limit, and `mode` says which value is a new best. */
static int stop_when_applies(const void *root, const void *section,
                             const struct field *field)
{
    const struct stop_when_config *s = section;

    if (strcmp(field->key, "above") == 0)
        return !field_is_unset(s->above);
    if (strcmp(field->key, "below") == 0)
        return !field_is_unset(s->below);
    if (strcmp(field->key, "for") == 0)
        return s->without_best == 0;
    return strcmp(field->key, "mode") != 0 || s->without_best > 0;
}

#define STOP_WHEN(m) SCHEMA_AT(struct stop_when_config, m)
static const struct field stop_when_fields[] = {
    {"metric", FIELD_TEXT, STOP_WHEN(metric), .flags = FIELD_OUTPUT,
     .doc = "a column of evaluations, eval/team_return/agent"},
    {"above", FIELD_F64, STOP_WHEN(above), .flags = FIELD_OUTPUT, FROM(-HUGE_VAL),
     .doc = "it is greater than this"},
    {"below", FIELD_F64, STOP_WHEN(below), .flags = FIELD_OUTPUT, FROM(-HUGE_VAL),
     .doc = "or less than this"},
    {"for", FIELD_I64, STOP_WHEN(evaluations), .flags = FIELD_OUTPUT, WITHIN(1, 1e9),
     .default_text = "1", .doc = "in so many evaluations in a row"},
    {"without_improvement", FIELD_I64, STOP_WHEN(without_best),
     .flags = FIELD_SKIP_ZERO | FIELD_OUTPUT, WITHIN(1, 1e9),
     .doc = "or so many evaluations in a row have no new best value"},
    {"mode", FIELD_ENUM, STOP_WHEN(is_min), .flags = FIELD_OUTPUT, NAMES("max", "min"),
     .default_text = "max",
     .doc = "without_improvement: the best value is the highest, or lowest"},
};
static const struct schema stop_when_schema = {TABLE(stop_when_fields),
                                               .applies = stop_when_applies};

/* The sections are parts of struct run_config; their offsets are relative to its
 * start. */
static const struct field run_fields[] = {
    {"name", FIELD_NAME, RUN(run.name), .doc = "names its directory (env.id)"},
    {"seed", FIELD_U64, RUN(run.seed), FROM(0), .default_text = "1",
     .doc = "of every random draw"},
    {"env_steps", FIELD_I64, RUN(run.env_steps), .flags = FIELD_SKIP_ZERO,
     WITHIN(1, COUNT_MAX), LIVE, .doc = "length: joint steps of all copies (625000)"},
    {"episodes", FIELD_I64, RUN(run.episodes), .flags = FIELD_SKIP_ZERO,
     WITHIN(1, COUNT_MAX), LIVE, .doc = "or length: episodes of all copies"},
    {"on_supervisor_death", FIELD_ENUM, RUN(run.resume_on_supervisor_death),
     NAMES("stop", "resume"), .default_text = "stop",
     .doc = "what the keeper does when the supervisor dies"},
    {"watchdog", FIELD_SECONDS, RUN(run.watchdog_s), .flags = FIELD_NONE_IS_ZERO, FROM(1),
     .default_text = "none", LIVE,
     .doc =
         "a supervisor that does not go on for so long is ended: none, 5m (1s or more)"},
    {"numerics", FIELD_ENUM, RUN(run.numerics), .names = numerics_names,
     .default_text = "portable",
     .doc = "portable: equal bytes on every CPU; native: a matrix library"},
    {"mode", FIELD_MODE, RUN(run.mode), .default_text = "0700",
     .doc = "of the run directory, octal, as 0750; its files follow (0640)"},
    {"stop_when", FIELD_OPTIONAL_MAP, RUN(run.stop_when),
     .flags = FIELD_LISTED | FIELD_OUTPUT,
     .has_offset = offsetof(struct run_config, run.has_stop_when),
     .schema = &stop_when_schema,
     .doc = "evaluations that end the run before its length"},
};
static const struct schema run_section = {TABLE(run_fields)};

static const struct field env_fields[] = {
    {"id", FIELD_NAME, RUN(env.id), .flags = FIELD_MEANING,
     .doc = "see `brood envs`; none: no environment"},
    {"rules", FIELD_ENUM, RUN(env.rules), .flags = FIELD_NATIVE | FIELD_MEANING,
     NAMES("mpe2", "openai"), .default_text = "mpe2",
     .doc = "the particle worlds' rules and numbers"},
    {"actions", FIELD_ENUM, RUN(env.actions), .flags = FIELD_NATIVE | FIELD_MEANING,
     NAMES("discrete", "continuous"), .default_text = "discrete",
     .doc = "kind of the action spaces"},
    {"teams", FIELD_ENUM, RUN(env.teams), NAMES("by_name", "all"),
     .default_text = "by_name",
     .doc = "by_name: wolf_0 and wolf_1 are one team; all: all agents are"},
    {"observe", FIELD_ENUM, RUN(env.observe),
     .flags = FIELD_MEANING | FIELD_VARIABLES | FIELD_SKIP_ZERO,
     NAMES("vector", "entities"), .default_text = "vector",
     .doc = "how agents see the world; entities: as things of one form"},
    {"reward", FIELD_ENUM, RUN(env.reward), NAMES("own", "team_sum", "team_mean"),
     .default_text = "own", .doc = "each agent's own, or its team's"},
    {"copies", FIELD_I64, RUN(env.copies), WITHIN(1, 1 << 20), .default_text = "32",
     .doc = "worlds stepped side by side"},
    {"max_steps", FIELD_I64, RUN(env.max_steps), WITHIN(0, COUNT_MAX),
     .default_text = "25",
     .doc = "an episode is cut after these; 0: never (foraging: 50; external: its own)"},
    {"stack", FIELD_I64, RUN(env.stack), .flags = FIELD_MEANING | FIELD_VARIABLES,
     WITHIN(1, ENV_MAX_STACK), .default_text = "1",
     .doc = "agents see the last so many observations, oldest first"},
    {"clip_observations", FIELD_F64_OR_NONE, RUN(env.clip_observations),
     .flags = FIELD_MEANING | FIELD_ABOVE_MIN, .min = 0, .max = HUGE_VAL,
     .default_text = "none",
     .doc = "x: every number of an observation is kept in [-x, x]"},
    {"clip_rewards", FIELD_F64_OR_NONE, RUN(env.clip_rewards), .flags = FIELD_ABOVE_MIN,
     .min = 0, .max = HUGE_VAL, .default_text = "none",
     .doc = "x: learners see rewards in [-x, x]; reported returns are as they were"},
    {"params", FIELD_TREE, RUN(env.params), .flags = FIELD_VARIABLES,
     .doc = "the environment's own; `brood envs` lists them"},
    {"metrics", FIELD_NAMES, RUN(env.metrics),
     .doc = "numbers to record: `brood envs` lists them; command: those of its infos"},
    {"command", FIELD_WORDS, RUN(env.command), .flags = FIELD_EXTERNAL | FIELD_VARIABLES,
     .doc = "instead of id: a program that is an environment, with its arguments"},
    {"plugin", FIELD_TEXT, RUN(env.plugin), .flags = FIELD_EXTERNAL | FIELD_VARIABLES,
     .doc = "or a shared object that is one"},
    {"directory", FIELD_TEXT, RUN(env.directory), .flags = FIELD_EXTERNAL,
     .doc = "command, plugin: where it starts (where `brood run` was given)"},
    {"processes", FIELD_I64, RUN(env.processes), .flags = FIELD_EXTERNAL,
     WITHIN(1, ENV_MAX_PROCESSES), .default_text = "1",
     .doc = "command, plugin: that share the copies"},
    {"device", FIELD_TEXT, RUN(env.device), .flags = FIELD_EXTERNAL,
     .doc = "where these run in a cluster, as of an agent (beside `brood run`)"},
    {"respond_within", FIELD_SECONDS, RUN(env.respond_within_s),
     .flags = FIELD_EXTERNAL | FIELD_ABOVE_MIN, FROM(0), .default_text = "30s", LIVE,
     .doc = "a process silent for longer is replaced"},
    {"memory_limit", FIELD_BYTES, RUN(env.memory_limit_bytes), .flags = FIELD_EXTERNAL,
     .default_text = "none", LIVE, .doc = "of each process: 512M, 2G, none"},
    {"restart", FIELD_MAP, RUN(env.restart), .flags = FIELD_EXTERNAL,
     .schema = &restart_schema},
    {"on_failure", FIELD_ENUM, RUN(env.on_failure),
     .flags = FIELD_EXTERNAL | FIELD_OUTPUT, NAMES("stop", "skip_episode"),
     .default_text = "stop", LIVE,
     .doc = "command, plugin: when an episode fails in three processes"},
    {"verify", FIELD_BOOL, RUN(env.verify), .flags = FIELD_EXTERNAL,
     .default_text = "true",
     .doc = "command, plugin: play the first episodes twice, and report differences"},
};
static const struct schema env_section = {TABLE(env_fields),
                                          .applies = env_config_applies};

#define PRIORITY(m) .offset = offsetof(struct priority_config, m)
static const struct field priority_fields[] = {
    {"alpha", FIELD_F64, PRIORITY(alpha), WITHIN(0, 10), .default_text = "0.6",
     .doc = "power of the priorities; 0 draws evenly"},
    {"beta", FIELD_F64, PRIORITY(beta), WITHIN(0, 10), .default_text = "0.4", LIVE,
     .doc = "power of the importance weights at the beginning ..."},
    {"beta_to", FIELD_F64, PRIORITY(beta_to), WITHIN(0, 10), .default_text = "1", LIVE,
     .doc = "... and after `over`; linear in between"},
    {"over", FIELD_F64, PRIORITY(over), WITHIN(0, COUNT_MAX), LIVE,
     .doc = "environment steps (run.env_steps, as the run begins; it stays that number)"},
    {"over_episodes", FIELD_F64, PRIORITY(over_episodes), WITHIN(0, COUNT_MAX), LIVE,
     .doc = "... or episodes (run.episodes, as the run begins, without run.env_steps)"},
};
static const struct schema priority_schema = {TABLE(priority_fields)};

static const struct field experience_fields[] = {
    {"capacity", FIELD_I64, RUN(experience.capacity), WITHIN(1, 1e12),
     .default_text = "1000000", .doc = "newest rows (joint steps) that are learned from"},
    {"batch_size", FIELD_I64, RUN(experience.batch_size), WITHIN(1, 1 << 24),
     .default_text = "1024", .doc = "rows of one update"},
    {"warmup", FIELD_I64, RUN(experience.warmup), WITHIN(1, COUNT_MAX),
     .default_text = "25600",
     .doc = "rows stored before the first update; by default a tenth of a shorter run"},
    {"update_every", FIELD_I64, RUN(experience.update_every), WITHIN(1, COUNT_MAX),
     .default_text = "100", LIVE,
     .doc = "environment steps between updates (windows: copies x max_steps)"},
    {"keep", FIELD_ENUM, RUN(experience.keep), .flags = FIELD_OUTPUT,
     NAMES("false", "true", "auto"), .default_text = "auto", LIVE,
     .doc = "keep the rows when the run is done; auto: below 1 GB"},
    {"priority", FIELD_OPTIONAL_MAP, RUN(experience.priority),
     .has_offset = offsetof(struct run_config, experience.has_priority),
     .schema = &priority_schema,
     .doc = "{alpha: 0.6, beta: 0.4, beta_to: 1}: draw rows by their errors"},
};

/* batch_size and warmup do not apply if updates take all rows since the last one. */
static int experience_applies(const void *root, const void *section,
                              const struct field *field)
{
    const int is_drawn =
        strcmp(field->key, "batch_size") == 0 || strcmp(field->key, "warmup") == 0;

    return !is_drawn || run_config_rows(root) != ROWS_WINDOW;
}
static const struct schema experience_section = {TABLE(experience_fields),
                                                 .applies = experience_applies};

#define KEEP_BEST(m) SCHEMA_AT(struct keep_best_config, m)
static const struct field keep_best_fields[] = {
    {"metric", FIELD_TEXT, KEEP_BEST(metric), .flags = FIELD_OUTPUT,
     .doc = "a column of evaluations, eval/team_return/agent"},
    {"mode", FIELD_ENUM, KEEP_BEST(is_min), .flags = FIELD_OUTPUT, NAMES("max", "min"),
     .default_text = "max", .doc = "the best value is the highest, or lowest"},
};
static const struct schema keep_best_schema = {TABLE(keep_best_fields)};

static const struct field checkpoint_fields[] = {
    {"every_env_steps", FIELD_I64, RUN(checkpoint.every_env_steps), WITHIN(0, COUNT_MAX),
     .default_text = "100000", LIVE, .doc = "0: only at start and end"},
    {"every_seconds", FIELD_F64, RUN(checkpoint.every_seconds), .flags = FIELD_SKIP_ZERO,
     FROM(0), .default_text = "0", LIVE, .doc = "instead of every_env_steps"},
    {"max_to_keep", FIELD_I64, RUN(checkpoint.max_to_keep), WITHIN(0, 1e9),
     .flags = FIELD_NONE_IS_ZERO, .default_text = "5",
     .doc = "newest ones kept; 0 or none: all"},
    {"keep_checkpoint_every_n_hours", FIELD_F64,
     RUN(checkpoint.keep_checkpoint_every_n_hours), ABOVE(0), .default_text = "10000",
     .doc = "beside those, one per this many hours is kept for good"},
    {"keep_best", FIELD_OPTIONAL_MAP, RUN(checkpoint.keep_best),
     .flags = FIELD_LISTED | FIELD_OUTPUT,
     .has_offset = offsetof(struct run_config, checkpoint.has_keep_best),
     .schema = &keep_best_schema,
     .doc = "beside those, that of the best evaluation: a metric, or {metric, mode}"},
};
static const struct schema checkpoint_section = {TABLE(checkpoint_fields)};

static const struct field evaluation_fields[] = {
    {"every_env_steps", FIELD_I64, RUN(evaluation.every_env_steps), WITHIN(0, COUNT_MAX),
     .default_text = "50000", LIVE, .doc = "and at the end; 0: never"},
    {"episodes", FIELD_I64, RUN(evaluation.episodes),
     WITHIN(1, 1e6), /* EVALUATION_MAX_EPISODES */
     .default_text = "100", .doc = "played each time"},
    {"max_steps", FIELD_I64, RUN(evaluation.max_steps), WITHIN(1, COUNT_MAX),
     .default_text = "10000", .doc = "an episode that goes on is over then"},
    {"mode", FIELD_ENUM, RUN(evaluation.greedy), NAMES("sample", "greedy"),
     .default_text = "greedy", .doc = "how the policies act"},
    {"seed", FIELD_U64, RUN(evaluation.seed), FROM(0), .default_text = "0",
     .doc = "of the episodes' starts"},
    {"render", FIELD_ENUM, RUN(evaluation.render),
     .flags = FIELD_SKIP_ZERO | FIELD_OUTPUT, NAMES("none", "gif", "svg", "jsonl"),
     .default_text = "none", LIVE,
     .doc = "draw an episode of each into the run's renders/"},
    {"max_to_keep", FIELD_I64, RUN(evaluation.max_to_keep),
     .flags = FIELD_SKIP_ZERO | FIELD_OUTPUT, WITHIN(1, 1e6), LIVE,
     .doc = "newest of these pictures kept, beside the best's (10)"},
};
static const struct schema evaluation_section = {TABLE(evaluation_fields)};

static const struct field log_fields[] = {
    {"every_env_steps", FIELD_I64, RUN(log.every_env_steps), WITHIN(1, COUNT_MAX),
     .default_text = "10000", LIVE, .doc = "between rows of metrics"},
    {"images", FIELD_BOOL, RUN(log.images), .flags = FIELD_SKIP_ZERO | FIELD_OUTPUT,
     .default_text = "false", LIVE,
     .doc = "draw an episode of each evaluation into event files"},
    {"histograms", FIELD_BOOL, RUN(log.histograms),
     .flags = FIELD_SKIP_ZERO | FIELD_OUTPUT, .default_text = "false", LIVE,
     .doc = "write those of the weights into event files, with each checkpoint"},
};
static const struct schema log_section = {TABLE(log_fields)};

#define HOOK(m) .offset = offsetof(struct hooks_config, m)
#define WHEN(m, text)                                                                    \
    {                                                                                    \
#m, FIELD_WORDS, HOOK(m), .doc = text                                            \
    }
/* The keys but the last two are the names of events in the lines of `run --json`. */
static const struct field hooks_fields[] = {
    WHEN(give_up,
         "an agent may not be restarted any more: a program, with its arguments"),
    WHEN(exit, "the same when a process of the run has exited"),
    WHEN(respawn, "another process takes its place"),
    WHEN(take_back, "an agent that was given up learns again"),
    WHEN(node_lost, "a node of the cluster has died, or is silent"),
    WHEN(node_up, "a node has connected, and takes its agents"),
    WHEN(node_give_up, "a node is not started again; others take its agents"),
    WHEN(checkpoint, "a checkpoint is on the disk"),
    WHEN(checkpoint_failed, "it could not be written"),
    WHEN(row, "metrics/progress.csv has a new row"),
    WHEN(evaluation, "the policies were evaluated"),
    WHEN(pause, "the run has paused"),
    {"continue", FIELD_WORDS, HOOK(continue_), .doc = "it goes on"},
    WHEN(stop, "somebody has asked it to stop"),
    WHEN(changed, "a changed value is in force"),
    WHEN(refused, "an edited config.yaml was refused"),
    WHEN(inexact, "the bytes will differ from those of an undisturbed run"),
    WHEN(full, "the disk is full, and the run waits"),
    WHEN(space, "there is space again"),
    WHEN(failed, "an error ends the run"),
    WHEN(start, "a new run begins"),
    WHEN(resume, "a run continues, or a fork of one begins"),
    WHEN(end, "the run is over, however it ended"),
    {"directory", FIELD_TEXT, HOOK(directory),
     .doc = "where they start (where `brood run` was given)"},
    {"deadline", FIELD_SECONDS, HOOK(deadline_s), .flags = FIELD_ABOVE_MIN, .min = 0,
     .max = 3600, .default_text = "10s",
     .doc = "a program that takes longer is killed; so long may the run's end wait"},
};
const struct schema hooks_schema = {TABLE(hooks_fields)};

/* The keys of an agent's `restart` that make sense for a node. */
static const struct field node_restart_fields[] = {
    {"max_restarts", FIELD_I64, RESTART(max_restarts), WITHIN(0, 1e6),
     .default_text = "5",
     .doc = "more than this many within `within`: others take its agents"},
    {"within", FIELD_SECONDS, RESTART(within_s), ABOVE(0), .default_text = "60s",
     .doc = "one that was up for so long begins to count anew"},
    {"delay", FIELD_SECONDS, RESTART(delay_s), FROM(0), .default_text = "100ms",
     .doc = "before the second restart; doubles from then on"},
    {"max_delay", FIELD_SECONDS, RESTART(max_delay_s), FROM(0), .default_text = "10s",
     .doc = "the longest delay"},
};
static const struct schema node_restart_schema = {TABLE(node_restart_fields)};

#define CLUSTER(m) .offset = offsetof(struct cluster_config, m)
static const struct field cluster_fields[] = {
    {"launcher", FIELD_ENUM, CLUSTER(launcher),
     NAMES("none", "local", "command", "ssh", "slurm"), .default_text = "none",
     .doc = "what starts the nodes; none: all runs here"},
    {"nodes", FIELD_I64, CLUSTER(nodes), .flags = FIELD_SKIP_ZERO, WITHIN(1, 1024),
     .doc = "how many (as many as hosts, or as the Slurm job has, or 1)"},
    {"hosts", FIELD_WORDS, CLUSTER(hosts), .doc = "ssh: [a, b]; command: {host} of each"},
    {"options", FIELD_WORDS, CLUSTER(options),
     .doc = "ssh: words before the host; slurm: of srun"},
    {"command", FIELD_WORDS, CLUSTER(command),
     .doc = "words before `brood node ...`, with {node} and {host}"},
    {"listen", FIELD_TEXT, CLUSTER(listen),
     .doc = "ADDRESS[:PORT] to which nodes connect (auto: by which they are reached, or "
            "all)"},
    {"silence", FIELD_SECONDS, CLUSTER(silence_s), .flags = FIELD_ABOVE_MIN, .min = 0,
     .max = 86400, .default_text = "10s",
     .doc = "a node from which nothing comes for so long is lost"},
    {"start_within", FIELD_SECONDS, CLUSTER(start_within_s), .flags = FIELD_ABOVE_MIN,
     .min = 0, .max = 2592000, .default_text = "60s",
     .doc = "a node that has not connected so long after its start has failed"},
    {"restart", FIELD_MAP, CLUSTER(restart), .schema = &node_restart_schema,
     .doc = "of nodes that are lost, as of agents"},
    {"encrypt", FIELD_BOOL, CLUSTER(encrypt), .default_text = "true",
     .doc = "false: records are authenticated only"},
};
static const struct schema cluster_schema = {TABLE(cluster_fields)};

static const struct field root_fields[] = {
    {"run", FIELD_MAP, .schema = &run_section},
    {"env", FIELD_MAP, .schema = &env_section},
    {"experience", FIELD_MAP, .schema = &experience_section},
    {"checkpoint", FIELD_MAP, .schema = &checkpoint_section},
    {"evaluation", FIELD_MAP, .schema = &evaluation_section},
    {"log", FIELD_MAP, .schema = &log_section},
    {"on", FIELD_OPTIONAL_MAP, RUN(hooks), .flags = FIELD_LISTED,
     .has_offset = offsetof(struct run_config, has_hooks), .schema = &hooks_schema,
     .doc = "programs that get an event of the run as a line of JSON"},
    {"cluster", FIELD_OPTIONAL_MAP, RUN(cluster), .flags = FIELD_LISTED,
     .has_offset = offsetof(struct run_config, has_cluster), .schema = &cluster_schema,
     .doc = "machines that the agents' processes run on"},
    {"defaults", FIELD_RAW, .schema = &agent_schema},
    {"agents", FIELD_RAW,
     .doc = "keys of `defaults`, by agent or team (the environment's, all alike)"},
    {"extends", FIELD_RAW,
     .doc = "a file, relative to this one, whose values hold where this has none"},
};
const struct schema run_schema = {TABLE(root_fields)};
