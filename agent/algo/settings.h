/* settings.h - the settings of brood-agent's algorithms: their rows, and their values as the
 * algorithms use them.
 *
 * The table has one row for each key that any of the algorithms here accepts; each algorithm
 * lists those that it has (struct algo_about). What a row says reaches the supervisor in the
 * algorithm's description (common/config/algorithms.h).
 */
#ifndef AGENT_ALGO_SETTINGS_H
#define AGENT_ALGO_SETTINGS_H

#include "common/config/run_config.h"
#include "common/config/schema.h"

enum policy_kind { POLICY_AUTO, POLICY_GUMBEL, POLICY_DETERMINISTIC };
enum execute_kind { EXECUTE_HARD, EXECUTE_SOFT };
enum recurrent_cell { RECURRENT_GRU, RECURRENT_LSTM };
enum clip_by { CLIP_BY_VARIABLE, CLIP_BY_GLOBAL };
enum value_norm_kind { VALUE_NORM_NONE, VALUE_NORM_RUNNING, VALUE_NORM_POPART };
enum reward_scale_kind { REWARD_SCALE_NONE, REWARD_SCALE_RUNNING, REWARD_SCALE_STANDARD };
enum choose_by { CHOOSE_GREEDY, CHOOSE_SAMPLE };
enum symmetry_kind { SYMMETRY_NONE, SYMMETRY_ENV };

/* Those that the agent's algorithm does not have have their row's default. */
struct algorithm_settings {
    double logit_penalty;
    struct schedule temperature;
    enum policy_kind policy;
    enum execute_kind execute;
    int own_batches;
    enum clip_by clip_by;
    struct schedule exploration_noise;
    struct schedule target_policy_noise;
    double target_noise_clip;
    int64_t policy_delay; /* updates of the critics per update of the policy */
    struct schedule epsilon;
    double hysteresis;
    int agent_id, last_action; /* inputs of the networks, as one-hot vectors */
    int64_t recurrent;         /* units of a recurrent layer; 0: none */
    int64_t recurrent_critic;  /* of another one, of a window's critic */
    enum recurrent_cell cell;  /* their kind */
    int64_t chunk;             /* steps that are unrolled of a window */
    double gae;                /* lambda of the advantages */
    double lambda;             /* of the targets of Q-networks */
    int double_q;
    int64_t target_every;    /* updates between copies; 0: polyak after each */
    int64_t n_step;          /* rewards that a target counts; 0: one (policies: gae) */
    double clip_ratio;       /* 0: no clipping ("none") */
    struct schedule entropy; /* weight of the policy's entropy */
    double initial_alpha;    /* sac, which learns that weight: its first value */
    double target_entropy_share, target_entropy_each; /* sac adapts alpha to reach it */
    int64_t epochs;                                   /* passes over a window of rows */
    int64_t minibatches;                              /* of a pass */
    int normalize_observations;
    double target_kl; /* a pass above it is an update's last one; 0: none is ("none") */
    enum value_norm_kind value_norm;
    enum reward_scale_kind reward_scale;
    int advantage_norm;
    double huber; /* where the value loss becomes linear; 0: nowhere ("none") */
    enum symmetry_kind symmetry; /* applied to rows of batches (agent/algo/symmetry.h) */
    const char *from;  /* frozen: RUN, RUN@STEP, a checkpoint's prefix or folder */
    const char *agent; /* frozen: agent of that run; NULL: the one of the same name */
    const char *observation; /* frozen: tensors of its MetaGraph, "x:0"; NULL: from */
    const char *action;      /* its collections policy/... (agent/algo/frozen.c) */
    enum choose_by choose;   /* frozen: how to choose from a discrete action's scores */
};

/* Keys of iql, vdn and qmix, which can all learn from whole episodes. */
#define EPISODE_SETTINGS                                                                 \
    "epsilon", "agent_id", "last_action", "recurrent", "cell", "n_step", "lambda",       \
        "double_q", "target_every", "clip_by", "symmetry", "reward_scale"

/* Of offsets in struct algorithm_settings. */
extern const struct schema algorithm_settings_schema;

/* The values of an agent's section. Texts stay the section's. */
void algorithm_settings_read(struct algorithm_settings *ret,
                             const struct agent_config *config);

#endif
