/* on_policy.h - what algorithms share that improve a policy on the rows it has just played:
 * ia2c, maa2c, ippo, mappo (ppo.c), happo (happo.c), coma (coma.c).
 *
 * Source   PPO: Schulman et al. 2017, "Proximal policy optimization algorithms", equation 7.
 *          Critics, value normalisation and losses: Yu et al. 2022, "The surprising
 *          effectiveness of PPO in cooperative multi-agent games", and the code of its
 *          authors. n-step returns with a target critic: Papoudakis et al. 2021,
 *          "Benchmarking multi-agent deep reinforcement learning algorithms in cooperative
 *          tasks", and EPyMARL.
 *
 * Shapes   E copies, T steps, n = E T rows of a window, each used once; I width of the policy's
 *          input, S of the critic's, U of an action.
 * Inputs   the policy sees the own observation, then, with agent_id, which of its team the
 *          agent is, one-hot. A joint critic sees the own observation, those of its team, all
 *          others', each in the environment's order, then (coma) the actions of those others,
 *          then the id.
 * A        estimate: V at every observation, and at next observations where an episode or the
 *          window ends; advantages and returns (targets.h), from rewards scaled as reward_scale.h
 *          says, and values scaled back to match them
 * B        normalise: the statistics of returns (value_norm.h); advantages over the window
 * C        epochs: for each a drawn order of the rows, for every minibatch of it one step of
 *          both optimisers, down the losses of policy and critic that ppo.c writes down.
 *          With target_kl, a pass whose mean approx_kl is above it is the last one; the scalar
 *          `epochs` then counts passes (Spinning Up, Stable-Baselines3). Of agents that share
 *          parameters it is the mean over the rows of all, and all end with the same pass.
 * D        target: with n_step, the target critic, t = (1 - polyak) t + polyak v; where
 *          target_every is given, t = v after each so many updates
 * E        observations: with normalize_observations, what was seen is counted (obs_norm.h)
 *          Means are over rows in which the agent is alive.
 * shared   agents that share parameters (share.h) do A in a stage `prepare`, B in `normalize`,
 *          with the sums of all members, and each step of C in `actor` and `critic` (their
 *          gradients), `apply` and `assign`. A minibatch then has as many rows of each member.
 *          What A and B find is kept in the local variable `window` (3, n). After the last pass
 *          that target_kl allows, the stages of C do nothing; the local variable `passes` says so,
 *          of members and ps. E is in `count` and, of the ps, `count_ps`, from what each member's
 *          `prepare` has summarised.
 * recurrent  the policy may be (sampled_policy.h), and so may the critic (recurrent_critic.h), but
 *          coma's. Minibatches of what is recurrent are of whole chunks, others of rows; if one of
 *          the two is and the other not, each step of C is two runs.
 * symmetry each row of a minibatch is shown under a drawn element of the environment's group
 *          (symmetry.h) in C; A and B see the rows as they are. Of a recurrent policy each chunk
 *          that begins an episode is shown under one, as what is carried into it is 0; all others
 *          as they are, so that chunks had better be whole episodes. Not with agent_id. r is then
 *          also the quotient of the image's probability and the row's own, which has no bound
 *          without clip_ratio (ia2c, maa2c: simple_spread is not learnt without it).
 */
#ifndef AGENT_ALGO_ON_POLICY_H
#define AGENT_ALGO_ON_POLICY_H

#include "agent/algo/kit.h"
#include "agent/algo/recurrent_critic.h"
#include "agent/algo/sampled_policy.h"
#include "agent/algo/scalars.h"
#include "agent/algo/targets.h"
#include "agent/algo/value_norm.h"

/* Steps; and both, for ps and members. */
enum { ON_POLICY_ACTOR, ON_POLICY_CRITIC, ON_POLICY_STEPS };

/* The results of A and B: (n) each, in order of the window. */
struct on_policy_kept {
    float *value; /* as the critic gave it */
    float *advantage, *returns;
    float *carries; /* (n, H) into each row, of a recurrent critic; else NULL */
};

/* Sums over the rows in which the agent is alive. `normalize` adds up those of all members of
 * its group. */
enum on_policy_sum {
    SUM_ROWS,
    SUM_ADVANTAGE,
    SUM_ADVANTAGE_SQUARES,
    SUM_RETURN,
    SUM_RETURN_SQUARES,
    ON_POLICY_SUMS
};

/* A window's numbers (n), in its order. */
struct window {
    int64_t copies, steps, n;
    const float *terminated, *alive, *first;
    float *reward; /* as the log has it, then scaled */
    float *
        cut; /* 1: the row after it is of another episode, or the agent is not there then */
    float *scaled_value, *next_value; /* in the rewards' scale */
    float *target_value;              /* of the target critic */
};

/* The local variable `passes` of those who share parameters and have a target_kl: what it needs to
 * know of an update from step to step. */
enum on_policy_pass {
    PASS_KL,    /* sum of approx_kl of the steps of the newest pass */
    PASS_COUNT, /* passes that are complete */
    PASS_ENDED, /* 1: no other one begins */
    ON_POLICY_PASS
};

struct on_policy {
    struct kit kit; /* the first member */
    struct sampled_policy policy;
    int64_t window_rows; /* n, as configured */
    int keeps;           /* A and C are in different stages */
    int64_t choices;     /* C, coma only: the critic has a value of each; 0: one value */
    size_t *seen;        /* [n_seen] the agents that the critic sees, the own first */
    size_t n_seen;
    struct obs_form form; /* of what it sees */
    /* What sets coma apart, NULL: generalised advantages. values: sets kept's value and
     * advantage, and w->target_value; returns: kept's returns, and scales the advantage. */
    void (*find_values)(struct on_policy *p, struct batch *b, const struct window *w,
                        const struct on_policy_kept *kept);
    void (*find_returns)(struct on_policy *p, struct batch *b, const struct window *w,
                         const struct on_policy_kept *kept,
                         const struct value_scale *scale);

    struct output state, choice; /* placeholders (B, S), (B, C) */
    struct output old_log_prob, advantage, returns, old_value, weight; /* (B, 1) */
    struct output values;              /* (B, C), or `value` */
    struct output value, target_value; /* (B, 1) */
    struct recurrent_critic memory;
    struct critic_step step, target_step; /* of a recurrent critic and its target */
    struct output actor_loss, entropy, critic_loss;
    struct variable *kept;   /* (3, n) */
    struct variable *passes; /* (ON_POLICY_PASS); NULL: all passes are made */
    struct live *lambda, *clip_ratio, *entropy_weight, *actor_rate, *critic_rate;
    struct value_norm norm;
    struct obs_norm obs_norm;
    int64_t seen_obs; /* columns of observations that the critic sees */
    double *seen_now; /* of E: the window's observations, summarised */

    struct matrix *now, *next;                   /* (B, S) */
    struct matrix *chosen, *next_chosen;         /* (B, C), coma only */
    struct matrix *first, *truncated, *log_prob; /* (B, 1) of the log */
    /* (B, 1), computed */
    struct matrix *scaled_value, *next_value, *target_values, *end_value, *kept_room,
        *of_chunks;
    struct matrix *after, *end_carry; /* (B, H), of a recurrent critic */
    struct matrix *batch_advantage, *batch_returns, *batch_value, *now_log_prob;
    uint32_t *
        order; /* of the window's chunks, drawn; without a recurrent layer, of its rows */
    uint32_t *ends;    /* (n) places in the window, of its cuts */
    uint32_t *place;   /* of a minibatch's rows */
    uint64_t *rows;    /* (n) of the log */
    int64_t room;      /* rows, with those that fill chunks up */
    int64_t order_n;   /* chunks in the order; 0: none is drawn */
    uint64_t order_of; /* the epoch that it is drawn for, counted over all updates */
    double sums[ON_POLICY_SUMS]; /* newest answer of `prepare` */
    double explained_variance;   /* of the newest A; NaN: the returns are all equal */
};

static inline struct on_policy *on_policy_of(struct algo *a)
{
    return (struct on_policy *)(void *)a;
}

/* ---- building ---- */

/* joint: the critic sees all observations; choices: see above. keeps: A and C are in different
 * stages also alone. On failure p is empty. */
int on_policy_init(struct on_policy *p, const struct algo_args *args,
                   const struct kit_plan *plan, int joint, int64_t choices, int keeps,
                   struct err *err);
void on_policy_done(struct on_policy *p);
int on_policy_build_graph(struct on_policy *p, struct err *err);

/* ---- members of algo_ops ---- */

void on_policy_rows(const struct algo *a, struct algo_rows *ret);
size_t on_policy_columns(const struct algo *a, struct algo_column *ret);
int64_t on_policy_carry_width(const struct algo *a);
int on_policy_act(struct algo *a, struct session *s, const struct act_args *args,
                  struct act_result *ret, struct err *err);
#define ON_POLICY_OPS(NAME, ABOUT, VARIANT, BUILD, FREE)                                 \
    KIT_OPS(NAME, ABOUT, VARIANT, BUILD, FREE, on_policy_act),                           \
        .carry_width = on_policy_carry_width, .rows = on_policy_rows,                    \
        .columns = on_policy_columns

/* ---- stages ---- */

void on_policy_learn(struct algo *a, struct batch *b);
void on_policy_prepare(struct algo *a, struct batch *b);
void on_policy_normalize(struct algo *a, struct batch *b);
void on_policy_actor(struct algo *a, struct batch *b);
void on_policy_critic(struct algo *a, struct batch *b);
void on_policy_apply(struct algo *a, struct batch *b);
void on_policy_assign(struct algo *a, struct batch *b);
void on_policy_count(struct algo *a, struct batch *b);
/* Whether the settings need it. */
int on_policy_counts(const struct algorithm_settings *settings);
/* The rows of the shared stages after `prepare`, in a plan's list. */
#define ON_POLICY_N_SHARED_STAGES 7
#define ON_POLICY_SHARED_STAGES                                                          \
    {"normalize", on_policy_normalize, .writes = 1, .reads = {"prepare/sums"}},          \
        {"actor", on_policy_actor}, {"critic", on_policy_critic},                        \
        {"apply", on_policy_apply, .runner = STAGE_PS, .writes = 1, .without_rows = 1},  \
        {"assign", on_policy_assign, .writes = 1, .without_rows = 1, .repeats_from = 3}, \
        {"count",                                                                        \
         on_policy_count,                                                                \
         .writes = 1,                                                                    \
         .without_rows = 1,                                                              \
         .reads = {"prepare/observations"},                                              \
         .is_needed = on_policy_counts},                                                 \
    {                                                                                    \
        "count_ps", on_policy_count, .runner = STAGE_PS, .writes = 1, .without_rows = 1, \
                                     .reads = {"prepare/observations"},                  \
                                     .is_needed = on_policy_counts                       \
    }

/* ---- their parts ---- */

/* E: what is seen of the window's rows is counted (obs_norm.h), after all that learns from it. */
void on_policy_count_observations(struct on_policy *p, struct batch *b);
/* Where A and B keep their results. */
struct on_policy_kept on_policy_open_kept(struct on_policy *p, struct batch *b);
/* A: sets kept, sums and explained_variance, which it reports. */
void on_policy_estimate(struct on_policy *p, struct batch *b,
                        const struct on_policy_kept *kept);
/* B, with the sums of all members that share the parameters. If these have no rows, the
 * statistics and the advantages stay as they are. */
void on_policy_normalize_by(struct on_policy *p, struct batch *b,
                            const struct on_policy_kept *kept,
                            const double sums[ON_POLICY_SUMS]);
/* C of one network or of both. */
void on_policy_run_epochs(struct on_policy *p, struct batch *b,
                          const struct on_policy_kept *kept, int for_actor,
                          int for_critic);
/* D */
void on_policy_move_target(struct on_policy *p, struct batch *b);

/* Goes on with all rows of the window, as they are stored. */
void on_policy_select_all(struct batch *b);
/* Sets a matrix of all rows to an output of the policy there, for the actions taken. */
void on_policy_run_policy(struct on_policy *p, struct batch *b, struct output x,
                          struct matrix *to);
/* Sets w->cut, from the truncated rows that it has. alive: of an agent, (n) numbers that are
 * `stride` apart; terminated (n), NULL: nowhere. */
void on_policy_find_cuts(const struct window *w, const float *alive, int64_t stride,
                         const float *terminated);
/* The window's rows as targets.h takes them. */
struct target_rows on_policy_target_rows(const struct on_policy *p,
                                         const struct window *w);
/* Lists the places of the request's rows whose cut is set in p->ends; returns their number. */
int64_t on_policy_list_cuts(struct on_policy *p, const struct batch *b, const float *cut);
/* How many chunks of so many steps each copy's are cut into; the last may be shorter. */
int64_t on_policy_chunks(const struct batch *b, int64_t chunk);
/* Makes room for places and rows of the request's window. */
void on_policy_reserve(struct on_policy *p, const struct batch *b);

/* ---- descriptions ---- */

#define ON_POLICY_SETTINGS                                                               \
    "agent_id", "recurrent", "cell", "chunk", "n_step", "clip_ratio", "entropy",         \
        "epochs", "minibatches", "target_kl", "value_norm", "advantage_norm", "huber",   \
        "symmetry", "reward_scale", "normalize_observations"
extern const struct algorithm_scalar on_policy_scalars[];
/* One gradient step on a window's rows, without PPO's clipping, epochs, normalisations
 * and Huber loss. */
#define ON_POLICY_PLAIN_STEP                                                             \
    {"settings.clip_ratio", "none"}, {"settings.epochs", "1"},                           \
        {"settings.value_norm", "none"}, {"settings.advantage_norm", "false"},           \
    {                                                                                    \
        "settings.huber", "none"                                                         \
    }

#endif
