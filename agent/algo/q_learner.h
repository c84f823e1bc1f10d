/* q_learner.h - Q-networks that learn from whole episodes: iql, vdn, qmix.
 *
 * Source   Sunehag et al. 2018, "Value-decomposition networks for cooperative multi-agent
 *          learning"; Rashid et al. 2018, "QMIX: monotonic value function factorisation";
 *          Hausknecht, Stone 2015 (recurrent); van Hasselt et al. 2016 (double Q).
 *
 * Shapes   B episodes of at most L steps; O observation, U action, C choices (choices.h);
 *          I = O + U (last_action) + N (agent_id), N agents of the team.
 * Network  I > hidden layers of `critic` > [GRU or LSTM of `recurrent` units] > C
 *          Its rows are in the order of time, (L + 1) B of them: row t B + b is step t of
 *          episode b, the last one of an episode its final next observation.
 * act      the best possible choice; exploring, any possible one with probability
 *          epsilon, each copy with the epsilon of its own step. Carry: the cell's, then
 *          the last action.
 * values   q(b, t) = Q(o(t), u(t)); next(b, t) = Q'(o(t+1), u'), u' = argmax Q (double_q) or
 *          argmax Q'; both 0 where the agent is not there. Pure.
 * mix      what the team's values are worth together:
 *            iql   each agent's own
 *            vdn   the sum
 *            qmix  a network of the joint state of the team, in the central process (qmix.c)
 *          y = targets of r (reward_scale.h), the mixed next values (targets.h: n_step or
 *          lambda)
 *          loss: mean of w (y - q_mixed)^2 over the rows that are there (iql: hysteresis
 *          times that, where y < q_mixed)
 * Priority of an episode (Kapturowski et al. 2019): 0.9 times its largest |y - q_mixed|,
 *          plus 0.1 times their mean; answered where the request has weights.
 * Symmetry each episode is shown under one drawn element of the environment's group
 *          (symmetry.h), to the mixer as well as to the agents. Not with agent_id.
 * learn    follows dq = d(loss)/d(q of this agent): descends sum of q(b, t) dq(b, t)
 * Targets  t = (1 - polyak) t + polyak v after each update, or t = v after each
 *          target_every-th.
 * Shared   gradients > apply > assign (share.h) in place of learn. Of vdn and qmix a team of
 *          N adds N times its part, since the ps takes the mean and the loss is one. The
 *          mixer has its own optimiser, in the central process, with the settings of the
 *          team's first agent; a live change of those reaches it, too.
 *
 * Shared by q_learner*.c and qmix.c only.
 */
#ifndef AGENT_ALGO_Q_LEARNER_H
#define AGENT_ALGO_Q_LEARNER_H

#include "agent/algo/algo.h"
#include "agent/algo/feeds.h"
#include "agent/algo/reward_scale.h"
#include "agent/algo/share.h"
#include "agent/algo/targets.h"
#include "agent/nn/nn.h"
#include "agent/nn/recurrent.h"

enum q_mixing { Q_ALONE, Q_SUM, Q_NETWORK };

enum q_live {
    Q_RATE,
    Q_CLIP_NORM,
    Q_POLYAK,
    Q_DISCOUNT,
    Q_LAMBDA,
    Q_HYSTERESIS, /* iql only */
    Q_EPSILON,
    Q_LIVES
};

/* The agents whose values are mixed, and where their columns are in the log. */
struct q_team {
    size_t n;       /* N */
    size_t *member; /* [N] their indices, in the environment's order */
    struct q_columns {
        int obs, next_obs, reward, terminated, alive;
    } * columns; /* [N] places in the log; -1: it is not read */
};

/* The team's rows, (B, L) row-major. 64-byte aligned, kept. */
struct q_rows {
    int64_t n; /* B L there is room for */
    void *memory;
    float *reward;     /* of the team: its first member's; alone: the agent's own */
    float *terminated; /* 1: for all members that were there */
    float *truncated;  /* 1: the members leave, and their task is not over */
    float *mask;       /* 1: the row is there */
    float *weight;     /* of the episode; 0 where no member was there */
    float *alive, *ended, *own_reward; /* one member's: scratch */
};

struct q_batch {           /* 64-byte aligned, kept from update to update */
    int64_t batch, length; /* B, L */
    void *memory;
    uint64_t *order;       /* (L, B) the rows in the order of time */
    int64_t *steps;        /* (B) of each episode */
    float *input;          /* ((L + 1) B, I) */
    float *action;         /* (L B, U) */
    float *choice;         /* ((L + 1) B, C) one-hot; 0 where there is no row */
    float *online;         /* ((L + 1) B, C) */
    float *target;         /* ((L + 1) B, C) */
    float *slope;          /* ((L + 1) B) */
    float *carry;          /* (B, memory units) zeros */
    uint8_t *next_allowed; /* (L B, U), masked only */
    /* (B, L) */
    float *q, *next, *alive, *terminated;
    float *team_q, *team_next, *y, *dq;
    float *priority; /* (B) */
};

/* An agent's place among those whose values the central process mixes. */
struct q_mixed {
    size_t agents, teams; /* how many there are */
    size_t agent, team;   /* the agent's place among them, and its team's */
};

struct algo {
    struct graph *graph;
    const struct agent_config *config;
    const struct algorithm_settings *settings;
    struct share *share; /* NULL: nothing is shared */
    struct stage stages[2 + SHARE_N_STAGES];
    size_t n_stages;
    const struct space *agents, *self;
    size_t index, n_agents;
    size_t place; /* in its team */
    enum q_mixing mixing;
    struct q_mixed mixed;     /* qmix only; in the central process: agents, teams */
    int32_t n_choices;        /* C */
    int64_t inputs;           /* I */
    struct pictures pictures; /* that its network sees */
    int64_t units;            /* of the recurrent layer; 0: none */
    enum cell_type cell;
    int64_t memory_units; /* of its carry: an LSTM has twice as many */
    int64_t max_steps;    /* L of a recurrent network */
    struct q_team team;
    struct q_rows rows;
    struct reward_scale scale; /* in processes that compute targets */

    struct output input, choice, slope, carry;                 /* carry: recurrent only */
    struct output q, target_q;                                 /* ((L + 1) B, C) */
    struct output act_input, act_carry, act_q, act_next_carry; /* one step, (E, .) */
    struct output norm;
    struct operation *train, *update_target, *copy_target, *init_variables;
    struct live live[Q_LIVES];

    struct feeds feeds;
    struct q_batch batch;
    void *act_memory; /* scratch of act, for act_rows copies */
    int64_t act_rows;
    uint8_t *allowed;                 /* (C) of one row */
    int own_action, own_next_allowed; /* columns */

    struct mixers *mixers; /* of the central process; it has none of the above networks */
};

/* ---- q_learner_graph.c ---- */

/* Makes the live settings, also for the central process, which does not act. */
void q_make_lives(struct algo *a);
/* Makes the scale of the team's rewards (not for qmix); alone: of the agent's own. */
void q_make_scale(struct algo *a);
int q_build_graph(struct algo *a, struct err *err);

/* ---- q_rows.c ---- */

struct q_mixed q_mixed_of(const struct space *agents, size_t n_agents, size_t self);
/* All agents of that team that learn together. */
void q_team_init(struct q_team *t, const struct space *agents, size_t n_agents,
                 const char *name);
void q_team_done(struct q_team *t);
/* Declares (reads.h) the columns of the k-th member: rewards and ends, and with_obs its
 * observations. */
void q_member_reads(struct q_team *t, size_t k, const struct space *agents, int with_obs,
                    struct reads *r);
/* only: the place of the one member that counts; N: all of them do. rows (B, L), weights
 * (B) or NULL. scale: of the rewards (reward_scale.h). */
int q_rows_gather(struct q_rows *r, const struct q_team *t, size_t only,
                  const struct stage_args *args, const uint64_t *rows,
                  const float *weights, const struct reward_scaling *scale,
                  struct err *err);
void q_rows_done(struct q_rows *r);
/* 1 / max(1, sum of the weights): what a mean multiplies each row by. */
float q_rows_share(const struct q_rows *r, int64_t n);
/* Targets y (B, L): n_step, or lambda if that is not 0. */
void q_targets(const struct q_rows *r, const struct algorithm_settings *set,
               const float *value, float discount, float lambda, int64_t batch,
               int64_t length, float *y);
/* The output of that name from the team's k-th member, (B, L) floats; *ret NULL: it sent
 * none, because it learns otherwise, or was given up. ERR_PROTOCOL. */
int q_team_output(const struct q_team *t, size_t k, const struct space *agents,
                  const struct stage_args *args, const char *name, const float **ret,
                  struct err *err);
/* The priority of each episode, ret (B), from the errors y - q of rows with a weight. */
void q_priorities(const struct q_rows *r, const float *q, const float *y, int64_t batch,
                  int64_t length, float *ret);
/* The loss, and means of q and y; hysteresis: 1 but for iql. */
enum { Q_REPORTED = 4 };
void q_measure(const struct q_rows *r, const float *q, const float *y, float hysteresis,
               int64_t n, double x[Q_REPORTED]);
/* Adds them to the result as scalars. */
void q_report(const double x[Q_REPORTED], struct stage_result *ret);

/* ---- q_learner_stages.c ---- */

/* Moves the target's variables by polyak, or copies them after each target_every-th
 * update. */
int q_move_target(struct algo *a, struct session *s, struct operation *update_target,
                  struct operation *copy_target, uint64_t update, struct err *err);
int q_read_live(struct algo *a, struct session *s, uint64_t step, struct err *err);
void q_reads(struct algo *a, struct reads *r);
int q_stage(struct algo *a, struct session *s, const struct stage_args *args,
            struct stage_result *ret, struct err *err);

/* ---- qmix.c: of the central process ---- */

int mixers_new(struct algo *a, struct err *err);
void mixers_free(struct algo *a);
struct operation *mixers_copy_targets(const struct mixers *all);
void mixers_reads(struct algo *a, struct reads *r);
int mixers_stage(struct algo *a, struct session *s, const struct stage_args *args,
                 struct stage_result *ret, struct err *err);

#endif
