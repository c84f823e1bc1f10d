/* run_config.h - the configuration of a run: what the YAML file says, checked whole.
 *
 * Source   the file format is documented in README.md and printed
 *          by `brood check --help`; names are stable.
 * Errors   one line: file:line: key: what was found, what was expected, and the nearest
 *          known key. Checked before there is a run.
 * Owns     a run_config owns all that it points to (one arena).
 * Both     the supervisor reads files; an agent gets its own section as values
 *          (config_msg.h), through the same tables.
 */
#ifndef COMMON_CONFIG_RUN_CONFIG_H
#define COMMON_CONFIG_RUN_CONFIG_H

#include "common/config/limits.h"
#include "common/err/err.h"
#include "common/mem/arena.h"
#include "common/numerics/numerics.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CONFIG_MAX_LAYERS 16

enum keep_log { KEEP_LOG_NEVER, KEEP_LOG_ALWAYS, KEEP_LOG_AUTO };
enum env_rules { ENV_RULES_MPE2, ENV_RULES_OPENAI };
enum env_actions { ENV_ACTIONS_DISCRETE, ENV_ACTIONS_CONTINUOUS };
enum env_reward { ENV_REWARD_OWN, ENV_REWARD_TEAM_SUM, ENV_REWARD_TEAM_MEAN };
enum activation {
    ACTIVATION_RELU,
    ACTIVATION_LEAKY_RELU,
    ACTIVATION_TANH,
    ACTIVATION_ELU,
    ACTIVATION_SIGMOID,
    ACTIVATION_LINEAR
};
enum critic_input { CRITIC_OWN, CRITIC_ALL };
enum optimizer_type { OPT_ADAM, OPT_SGD, OPT_MOMENTUM, OPT_RMSPROP, OPT_ACCEPT_REJECT };
enum restart_policy { RESTART_PERMANENT, RESTART_TRANSIENT, RESTART_TEMPORARY };
enum give_up { GIVE_UP_STOP, GIVE_UP_FROZEN, GIVE_UP_NOOP };
enum policy_kind { POLICY_AUTO, POLICY_GUMBEL, POLICY_DETERMINISTIC };
enum execute_kind { EXECUTE_HARD, EXECUTE_SOFT };
enum clip_by { CLIP_BY_VARIABLE, CLIP_BY_GLOBAL };
enum choose_by { CHOOSE_GREEDY, CHOOSE_SAMPLE };

struct layer_sizes {
    int n;
    int64_t size[CONFIG_MAX_LAYERS];
};

struct optimizer_config {
    enum optimizer_type type;
    double learning_rate;         /* accept_reject: deviation of the noise */
    double beta1, beta2, epsilon; /* epsilon: adam 1e-8, rmsprop 1e-10 */
    double momentum, decay;
    int64_t tries; /* accept_reject: changes tried per update */
};

struct network_config {
    struct layer_sizes hidden;
    enum activation activation;
    enum critic_input input;         /* critics only */
    struct layer_sizes after_action; /* critics only: layers after the action joins */
    double output_init;              /* last weights uniform in +-this; 0: the default */
    int has_optimizer;               /* its own; otherwise the agent's */
    struct optimizer_config optimizer;
};

/* The algorithm's own settings: the union of what the algorithms of this build know; each
 * algorithm's table (algorithms.h) says which of them it accepts. */
struct algorithm_settings {
    double logit_penalty;
    double temperature;
    enum policy_kind policy;
    enum execute_kind execute;
    int own_batches;
    enum clip_by clip_by;
    double exploration_noise;
    double epsilon;
    double hysteresis;
    const char *from; /* frozen: RUN, RUN@STEP, a checkpoint's prefix or folder */
    const struct yaml_node *from_at; /* the place where that is said; NULL: nowhere */
    const char *agent; /* frozen: whose policy of that run; NULL: of the same name */
    const char *observation; /* frozen: tensors of its MetaGraph, "x:0"; NULL: those of */
    const char *action;      /* its collections policy/... (agent/algo/frozen.c) */
    enum choose_by choose;   /* frozen: what is made of a discrete action's scores */
};

struct restart_config {
    enum restart_policy policy;
    int64_t max_restarts;
    double within_s, delay_s, max_delay_s;
    enum give_up on_give_up;
};

struct agent_config {
    const char *name;
    const char *algorithm;
    struct algorithm_settings settings;
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
};

struct env_config {
    const char *id; /* "none": no environment; "command", "plugin": one of others' */
    enum env_rules rules;
    enum env_actions actions;
    enum env_reward reward;
    int64_t copies;
    int64_t max_steps;              /* 0: none but the environment's own */
    const struct yaml_node *params; /* a map that the environment reads; NULL: none */
    /* An environment of others', in processes of its own: either a list of words, the
     * program and its arguments, or the path of a shared object. NULL: neither. */
    const struct yaml_node *command;
    const char *plugin;
    const char *directory; /* absolute: where paths begin and the processes start */
    int64_t processes;
    double respond_within_s;
    int64_t memory_limit_bytes; /* 0: none */
    struct restart_config restart;
    /* id none: the run's own, whose sizes stand in for an environment's. */
    const struct agent_config *agents;
    size_t n_agents;
};

struct run_config {
    struct {
        const char *name;
        uint64_t seed;
        int64_t env_steps; /* 0 if `episodes` says how long */
        int64_t episodes;  /* 0 if `env_steps` does */
        int resume_on_supervisor_death;
        enum numerics numerics;
        int64_t mode; /* of the run directory */
    } run;
    struct env_config env;
    struct {
        int64_t capacity, batch_size, warmup, update_every;
        enum keep_log keep; /* when the run is done */
    } experience;
    struct {
        int64_t every_env_steps; /* 0: by time or only at start and end */
        double every_seconds;    /* 0: by steps */
        int64_t max_to_keep;     /* 0: keep all */
        double keep_checkpoint_every_n_hours;
    } checkpoint;
    struct {
        int64_t every_env_steps; /* 0: never */
        int64_t episodes;
        int64_t max_steps; /* of an episode */
        int greedy;
        uint64_t seed;
    } evaluation;
    struct {
        int64_t every_env_steps;
    } log;
    struct agent_config defaults;
    struct agent_config *agents; /* in the environment's order */
    size_t n_agents;

    struct arena arena; /* private: owns all strings and arrays */
};

/* Is it an environment of others'? */
int env_config_is_foreign(const struct env_config *c);

/* What the configuration needs to know of the environments of this build, so that
 * `agents:` can be checked by name. The supervisor passes its registry; NULL skips the
 * check of env.id and of agents' names. names: array of n strings, valid until the next
 * call; returns n, or a negative code with err set: err->file where the message names its
 * place (yaml_fail), otherwise err->key where one is known, as "env.id". */
typedef int (*config_env_names_fn)(void *ctx, const struct env_config *env,
                                   const char *const **ret_names, struct err *err);

/* Whether the agents of a configuration that is well-formed can be made as it says. If
 * not, ERR_CONFIG: *ret_agent cannot; err->key is the key in its section that is wrong,
 * "settings.policy", if there is one, and err_cause says why. */
typedef int (*config_try_fn)(const struct run_config *c, size_t *ret_agent,
                             struct err *err);

struct config_options {
    const char *const *set; /* "key.path=value" */
    size_t n_set;
    int set_is_bare; /* messages name it without "--set": it was no option */
    config_env_names_fn env_names;
    void *env_ctx;
    config_try_fn try_agents; /* NULL: they are not tried */
};

/* Reads and checks a file (or text, with `name` for messages). On failure *ret is
 * all-zero: nothing to release. ERR_CONFIG, ERR_LIMIT, -errno. */
int run_config_read(struct run_config *ret, const char *path,
                    const struct config_options *options, struct err *err);
int run_config_parse(struct run_config *ret, const char *text, size_t len,
                     const char *name, const struct config_options *options,
                     struct err *err);
void run_config_done(struct run_config *c);
/* *ret: a copy that owes nothing to `from`. */
void run_config_copy(struct run_config *ret, const struct run_config *from);
/* A copy of `from`, which is whole, with some values given anew as "KEY=VALUE" and checked
 * as in a file; an empty value means the default, of an agent the one under `defaults`.
 * Keys that cannot change in a live run are for comparing only: what depends on them is
 * not resolved anew. ERR_CONFIG; *ret is then all-zero. */
int run_config_assign(struct run_config *ret, const struct run_config *from,
                      const char *const *set, size_t n_set, struct err *err);
/* Of those that can: whether they go together. ERR_CONFIG. */
int run_config_check_lengths(const struct run_config *c, struct err *err);

/* The resolved configuration as YAML: every key, every agent; reading it gives an equal
 * run_config. NUL-terminated; free(). */
char *run_config_to_yaml(const struct run_config *c);
/* Prints one line per key: its path, its default, what it is for. */
void run_config_print_keys(FILE *f);
/* One agent's section from YAML: a map of the keys under `defaults`. The name is no part
 * of it and stays NULL. */
int agent_config_parse(struct agent_config *ret, struct arena *arena, const char *text,
                       size_t len, struct err *err);
/* Of a section that was filled with defaults and given some values: what is unset gets
 * the value that the others imply. ERR_CONFIG: no such algorithm. */
int agent_config_resolve(struct agent_config *a, struct err *err);

#endif
