/* run_config.h - the configuration of a run, read from YAML and fully checked.
 *
 * Source   README.md describes the file format and `brood check --help` lists the keys;
 *          names are stable.
 * Errors   one line: file:line: key: what was found, what was expected, and the most
 *          similar known key. Everything is checked before the run starts.
 * Owns     a run_config owns everything it points to (one arena).
 * Users    the supervisor reads files; an agent receives its own section as values
 *          (config_msg.h). Both use the same tables (run_schema.h).
 */
#ifndef COMMON_CONFIG_RUN_CONFIG_H
#define COMMON_CONFIG_RUN_CONFIG_H

#include "common/config/limits.h"
#include "common/config/schedule.h"
#include "common/err/err.h"
#include "common/mem/arena.h"
#include "common/numerics/numerics.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CONFIG_MAX_LAYERS 16
#define CONFIG_MAX_CONVS  8
#define CONFIG_MAX_UNITS  65536 /* of a layer */
#define CONFIG_MAX_CONV   1024  /* filters, kernel and stride */

enum keep_log { KEEP_LOG_NEVER, KEEP_LOG_ALWAYS, KEEP_LOG_AUTO };
enum env_rules { ENV_RULES_MPE2, ENV_RULES_OPENAI };
enum env_actions { ENV_ACTIONS_DISCRETE, ENV_ACTIONS_CONTINUOUS };
enum env_teams { ENV_TEAMS_BY_NAME, ENV_TEAMS_ALL };
enum env_observe { ENV_OBSERVE_VECTOR, ENV_OBSERVE_ENTITIES };
enum env_reward { ENV_REWARD_OWN, ENV_REWARD_TEAM_SUM, ENV_REWARD_TEAM_MEAN };
enum activation {
    ACTIVATION_RELU,
    ACTIVATION_LEAKY_RELU,
    ACTIVATION_TANH,
    ACTIVATION_ELU,
    ACTIVATION_SIGMOID,
    ACTIVATION_LINEAR
};
enum entity_pool { POOL_MEAN, POOL_MAX, POOL_ATTENTION };
enum weights_init { INIT_XAVIER, INIT_HE, INIT_ORTHOGONAL };

enum critic_input { CRITIC_OWN, CRITIC_ALL };
enum optimizer_type { OPT_ADAM, OPT_SGD, OPT_MOMENTUM, OPT_RMSPROP, OPT_ACCEPT_REJECT };
enum restart_policy { RESTART_PERMANENT, RESTART_TRANSIENT, RESTART_TEMPORARY };
enum give_up { GIVE_UP_STOP, GIVE_UP_FROZEN, GIVE_UP_NOOP };
enum render_kind { RENDER_NONE, RENDER_GIF, RENDER_SVG, RENDER_JSONL };

struct layer_sizes {
    int n;
    int64_t size[CONFIG_MAX_LAYERS];
};

/* Convolutions of an image, one after the other, without padding. */
struct conv_layers {
    int64_t n;
    struct conv_layer {
        int64_t filters, kernel, stride;
    } layer[CONFIG_MAX_CONVS];
};

/* The height or width of a convolution's result; size: that of its input, at least the
 * kernel's. */
static inline int64_t conv_layer_output(const struct conv_layer *c, int64_t size)
{
    return (size - c->kernel) / c->stride + 1;
}

/* How a network sees the entities at the end of an observation (agent/nn/nn.h). */
struct entity_layers {
    struct layer_sizes units; /* of the layers that each entity goes through */
    enum entity_pool pool;
    int64_t heads; /* of POOL_ATTENTION: they share the last of the units; else 1 */
};

struct optimizer_config {
    enum optimizer_type type;
    struct schedule learning_rate; /* accept_reject: deviation of the noise */
    double beta1, beta2, epsilon;  /* epsilon: adam 1e-8, rmsprop 1e-10 */
    double momentum, decay;
    int64_t tries; /* accept_reject: changes tried per update */
};

struct network_config {
    struct conv_layers conv; /* before the hidden layers; n 0: none */
    int has_entities;        /* 0: entities are columns as all others */
    struct entity_layers entities;
    struct layer_sizes hidden;
    enum activation activation;
    int layer_norm;          /* normalises the input, and what each hidden layer gives */
    enum weights_init init;  /* of hidden layers and the last one */
    enum critic_input input; /* critics only */
    struct layer_sizes after_action; /* critics only: layers after the action joins */
    /* The last layer's weights: uniform in +-this; with INIT_ORTHOGONAL, this is their gain.
     * 0: as in all other layers, with a gain of 1. */
    double output_init;
    int has_optimizer; /* 0: the agent's optimizer is used */
    struct optimizer_config optimizer;
};

struct algorithm_info; /* algorithms.h */

/* The values of an algorithm's settings, where the rows of its table say. */
enum { SETTINGS_MAX_BYTES = 1536, SETTINGS_ALIGN = 8 };
struct agent_settings {
    const struct algorithm_info *of; /* the algorithm; NULL: none was taken yet */
    _Alignas(SETTINGS_ALIGN) unsigned char value[SETTINGS_MAX_BYTES];
};

struct restart_config {
    enum restart_policy policy;
    int64_t max_restarts;
    double within_s, delay_s, max_delay_s;
    enum give_up on_give_up;
};

/* Values of the section `experience` that agents may have of their own. */
struct experience_config {
    int64_t batch_size, warmup, update_every;
};

/* What a program may do besides when it has been imported (common/confine/confine.h). Paths are
 * relative to its directory. */
struct confine_config {
    int threads;                             /* start threads and processes */
    const struct yaml_node *files, *devices; /* to change; NULL: none */
};

/* The checkpoint that a program acts as, without learning. `from` is the absolute prefix of the
 * agent's files; NULL: the program learns. */
struct policy_config {
    const char *from;
    int samples; /* it draws its choices; 0: the best ones */
};

struct agent_config {
    const char *name;
    const char *algorithm;
    struct agent_settings settings;
    double discount;
    double polyak;
    struct network_config actor, critic;
    struct optimizer_config optimizer;
    double clip_norm;           /* 0: no clipping ("none") */
    int64_t memory_limit_bytes; /* 0: none */
    double respond_within_s;
    int stop_on_nonfinite;
    struct restart_config restart;
    int64_t observation, action; /* sizes, env.id none only; otherwise 0 */
    const char *share;  /* "team", "none", or "agent_0 agent_1 ...": with whom it shares
                        * parameters (supervisor/rollout/sharing.h); NULL: none */
    const char *device; /* of its process, in a cluster; NULL: any */
    struct experience_config experience; /* 0: run_config_experience */
    /* Of a program (agent/program.h): its words, the environment's variables that it gets, the
     * folder (absolute) that it starts in, which files of that a run keeps beside those that it
     * names itself, and the hash of its description. NULL: none. */
    const struct yaml_node *command, *environment, *sources;
    const char *directory, *program;
    int64_t threads; /* that its libraries compute with; 0: one */
    int is_inexact; /* its code cannot repeat its bits: what loses exactness is reported */
    struct confine_config confine;
    struct policy_config policy;
    /* Not a key: where the file names the checkpoint that brings the graph; NULL: nowhere. */
    const struct yaml_node *from_at;
};

/* What follows when the environment itself fails again and again in one episode. */
enum env_on_failure { ENV_FAILURE_STOPS, ENV_FAILURE_SKIPS_EPISODE };

struct env_config {
    const char *id; /* "none": no environment; "command", "plugin": an external one */
    enum env_rules rules;
    enum env_actions actions;
    enum env_teams teams;
    enum env_observe observe;
    enum env_reward reward;
    int64_t copies;
    int64_t max_steps; /* of an episode; 0: only the environment's own limit */
    int64_t stack;     /* observations that agents see side by side */
    /* Bounds of the numbers of observations, and of rewards as learners see them; 0: none */
    double clip_observations, clip_rewards;
    const struct yaml_node *params; /* a map that the environment reads; NULL: none */
    const char *metrics; /* names of numbers to record, with blanks; NULL: none */
    /* An external environment, which runs in processes of its own, has either `command`,
     * the program and its arguments, or `plugin`, the path of a shared object. */
    const struct yaml_node *command;
    const char *plugin;
    const char *directory; /* absolute: base of relative paths, and the processes' cwd */
    int64_t processes;
    const char *device; /* of the processes, in a cluster; NULL: where brood run is */
    double respond_within_s;
    int64_t memory_limit_bytes; /* 0: none */
    struct restart_config restart;
    enum env_on_failure on_failure;
    int draws;  /* not a key: its processes send pictures (brood eval --render) */
    int verify; /* a new run first checks that it is reproducible (env_trial.h) */
    /* Only for id none: the run's agents, which give the sizes that otherwise come from
     * the environment. */
    const struct agent_config *agents;
    size_t n_agents;
};

struct priority_config {
    double alpha, beta, beta_to; /* supervisor/store/priorities.h */
    /* beta becomes beta_to over so many environment steps or, if these are 0, episodes; both
     * 0: it stays. */
    double over, over_episodes;
};

/* The programs that events of the run start (supervisor/run/hooks.h), each a list of words.
 * NULL: none. */
struct hooks_config {
    const struct yaml_node *start, *resume, *pause, *continue_, *stop, *row;
    const struct yaml_node *exit, *respawn, *give_up, *take_back;
    const struct yaml_node *changed, *refused, *checkpoint, *checkpoint_failed;
    const struct yaml_node *node_up, *node_lost, *node_give_up;
    const struct yaml_node *evaluation, *inexact, *full, *space, *failed, *end;
    const char *directory; /* absolute: their cwd */
    double deadline_s;
};

/* The machines that the agents run on (supervisor/node/cluster.h). */
enum launcher {
    LAUNCHER_NONE,
    LAUNCHER_LOCAL,
    LAUNCHER_COMMAND,
    LAUNCHER_SSH,
    LAUNCHER_SLURM
};
struct cluster_config {
    enum launcher launcher;
    int64_t nodes; /* 0: all of a Slurm allocation (supervisor/node/slurm.h) */
    const struct yaml_node *hosts, *options, *command; /* lists of words; NULL: none */
    const char *listen;                                /* "auto", or ADDRESS[:PORT] */
    double silence_s;
    double start_within_s;         /* from the launch of a node to its connection */
    struct restart_config restart; /* of nodes; policy always permanent, give-up stop */
    int encrypt;
};

/* Evaluations that end the run (supervisor/rollout/verdict.h). One of above, below and
 * without_improvement is given. */
struct stop_when_config {
    const char *metric;  /* a column of evaluations, "eval/..." */
    double above, below; /* "unset": not given */
    int64_t evaluations; /* `for`: so many in a row */
    /* without_improvement: so many in a row are no new best; 0: not given */
    int64_t without_best;
    int is_min; /* the lowest value is the best */
};

/* Of which evaluation the checkpoint is kept (supervisor/rollout/verdict.h). */
struct keep_best_config {
    const char *metric; /* a column of evaluations, "eval/..." */
    int is_min;         /* the lowest value is the best */
};

enum { RUN_CONFIG_MAX_STEPS = 16384 };

struct change_plan; /* change_plan.h */

struct run_config {
    struct {
        const char *name;
        uint64_t seed;
        int64_t env_steps; /* length of the run; 0: given by `episodes` */
        int64_t episodes;  /* length of the run; 0: given by `env_steps` */
        int resume_on_supervisor_death;
        double watchdog_s; /* of the supervisor's silence; 0: none */
        enum numerics numerics;
        int64_t mode; /* of the run directory */
        int has_stop_when;
        struct stop_when_config stop_when;
    } run;
    struct env_config env;
    struct {
        int64_t capacity, batch_size, warmup, update_every;
        enum keep_log keep; /* whether to keep the log when the run is done */
        int has_priority;   /* 0: rows are drawn evenly */
        struct priority_config priority;
    } experience;
    struct {
        int64_t every_env_steps; /* 0: by time or only at start and end */
        double every_seconds;    /* 0: by steps */
        int64_t max_to_keep;     /* 0: keep all */
        double keep_checkpoint_every_n_hours;
        int has_keep_best;
        struct keep_best_config keep_best;
    } checkpoint;
    struct {
        int64_t every_env_steps; /* 0: never */
        int64_t episodes;
        int64_t max_steps; /* of an episode */
        int greedy;
        uint64_t seed;
        enum render_kind render;
        int64_t max_to_keep; /* pictures; 0: 10 */
    } evaluation;
    struct {
        int64_t every_env_steps;
        int images, histograms;
    } log;
    int has_hooks;
    struct hooks_config hooks;
    int has_cluster;
    struct cluster_config cluster; /* cluster_config_is_active */
    struct agent_config defaults;
    struct agent_config *agents; /* in the environment's order */
    size_t n_agents;
    /* The file's values for later steps, {at: {0: 0.9, 100000: 0.99}}, and schedules of
     * numbers that their readers take for constants (schedule.h). Owned; NULL: there are none, as
     * in copies. */
    struct change_plan *plan;

    struct arena arena; /* private: owns all strings and arrays */
};

/* Whether it is an external environment. */
int env_config_is_external(const struct env_config *c);
/* If `from` is the same external environment but for its folder, which has moved (directory, and
 * with it the paths in its command, or its plugin's, that begin with it), gives *e the new names,
 * from the arena, and returns 1. */
int env_config_take_place(struct env_config *e, const struct env_config *from,
                          struct arena *arena);

/* Returns the names of an environment's agents, so that the keys under `agents` can be
 * checked. The supervisor passes a function that uses its registry; NULL skips the check
 * of env.id and of agents' names. *ret_names: array of n strings, valid until the next
 * call. Returns n, or a negative code with err set: with err->file if the message already
 * begins with its place (yaml_fail), otherwise with err->key if one is known, such as
 * "env.id". */
typedef int (*config_env_names_fn)(void *ctx, const struct env_config *env,
                                   const char *const **ret_names, struct err *err);

/* Checks that the agents of a well-formed configuration can be built. If one cannot:
 * ERR_CONFIG, with its index in *ret_agent, the wrong key of its section in err->key if
 * one is known ("settings.policy"), and the reason in err_cause. With c->n_agents in
 * *ret_agent, the key is one of the whole configuration ("experience.capacity"). */
typedef int (*config_try_fn)(void *ctx, const struct run_config *c, size_t *ret_agent,
                             struct err *err);

/* Starts a program, the agent's command, to ask what it is. err->key: within the section. */
typedef int (*config_describe_fn)(void *ctx, struct agent_config *a, struct arena *arena,
                                  const struct algorithm_info **ret, struct err *err);

/* If the checkpoint that a frozen agent names is one of a program, makes the agent that program,
 * with a->policy. err->key: within the section. */
typedef int (*config_policy_fn)(void *ctx, struct agent_config *a, struct arena *arena,
                                struct err *err);

/* Receives one line, "f.yaml:3: defaults.settings: ..."; no newline. */
typedef void (*config_line_fn)(void *ctx, const char *line);

struct config_options {
    const char *const *set; /* "key.path=value" */
    size_t n_set;
    int set_is_bare; /* messages name the values without "--set ": not from an option */
    config_env_names_fn env_names;
    void *env_ctx;
    /* The file is a run's, but its environment, which `set` changes, may have other numbers of
     * agents: sections of agents that it lacks are ignored, and an agent without a section has
     * that of the first of its team. */
    int resized;
    /* Asks a program what it is; NULL: only a description that a run keeps is found. Sets
     * a->program, and *ret, which lives as long as the process. */
    config_describe_fn describe;
    void *describe_ctx;
    /* No program that the configuration names is started: what they say of themselves is taken as
     * right. An external environment's agents are those that the file names. */
    int no_start;
    config_policy_fn take_policy; /* NULL: frozen agents stay what they are */
    void *policy_ctx;
    config_try_fn try_agents; /* NULL: the agents are not checked this way */
    void *try_ctx;
    /* Gets a line for each map of the file with keys that only another algorithm or
     * optimizer has; these keys are ignored, so that a complete configuration can be
     * given another one. NULL: such keys are refused; in `set` they always are. */
    config_line_fn dropped;
    void *dropped_ctx;
    /* 1, for the file of a new run: the files that it extends are read, and values for
     * later steps accepted. 0, as for a run directory, which another user may have
     * written: `extends`, {at: ...} and schedules of numbers that their readers take for
     * constants are refused, and a size without its unit, which older builds wrote, is one
     * of bytes. */
    int extends;
};

/* Reads and checks a file (or text, called `name` in messages). On failure *ret is
 * all-zero and nothing has to be released. ERR_CONFIG, ERR_LIMIT, -errno. */
int run_config_read(struct run_config *ret, const char *path,
                    const struct config_options *options, struct err *err);
/* *ret: the file's values merged over those of the files that it extends, and n_set values
 * "KEY=VALUE" over both, as one YAML document that needs no other file and has the values for
 * later steps, too; in the arena. The values are not checked. */
int run_config_merged(const char *path, const char *const *set, size_t n_set,
                      const char **ret, struct arena *arena, struct err *err);
int run_config_parse(struct run_config *ret, const char *text, size_t len,
                     const char *name, const struct config_options *options,
                     struct err *err);
void run_config_done(struct run_config *c);
/* Makes a deep copy. */
void run_config_copy(struct run_config *ret, const struct run_config *from);
/* Copies the complete configuration `from` and assigns n_set values, "KEY=VALUE" each,
 * checked as in a file. An empty value resets the key to its default (for an agent: to
 * the value under `defaults`). Values derived from keys that cannot change in a live run
 * are not derived again, so such keys may be set only for comparing. ERR_CONFIG; *ret is
 * then all-zero. */
int run_config_set(struct run_config *ret, const struct run_config *from,
                   const char *const *set, size_t n_set, struct err *err);
/* Checks that the keys which can change in a live run are consistent with each other,
 * such as the lengths, and update_every with env.copies. ERR_CONFIG. */
int run_config_check_live(const struct run_config *c, struct err *err);

/* The values that apply to an agent that learns: its own, or else the run's. */
struct experience_config run_config_experience(const struct run_config *c, size_t agent);

/* The most environment steps that the run can make; 0: unknown or unlimited. */
int64_t run_config_most_steps(const struct run_config *c);
/* The reason why a run that ends after `steps` steps trains no agent, "experience.warmup:
 * ..."; free(). NULL: it trains one, or no agent learns. */
char *run_config_untrained(const struct run_config *c, int64_t steps);

/* The complete configuration as YAML: every key, every agent; reading it gives an equal
 * run_config. NUL-terminated; free() it. */
char *run_config_to_yaml(const struct run_config *c);
/* Prints one line per key: its path, its default, its meaning. */
void run_config_print_keys(FILE *f);
/* Takes the settings of the agent's algorithm, with their defaults, for an agent that was not
 * read from a file. ERR_CONFIG: no such algorithm. */
int agent_config_take(struct agent_config *a, struct arena *arena, struct err *err);
/* Fills in the values that are still unset after defaults and given values were stored,
 * because they depend on others, such as the algorithm, which exists. */
void agent_config_resolve(struct agent_config *a);

#endif
