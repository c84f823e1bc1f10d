/* policy_gradient.h - algorithms that improve a stochastic policy on the rows it has just
 * played: ia2c, ippo (critics of the own observation), maa2c, mappo, happo (of all
 * observations), coma (of all observations, and of the others' actions).
 *
 * Source   A2C: Mnih et al. 2016, "Asynchronous methods for deep reinforcement learning".
 *          PPO: Schulman et al. 2017, "Proximal policy optimization algorithms",
 *          equation 7; GAE: gae.h. Critics, value normalisation and losses: Yu et al.
 *          2022, "The surprising effectiveness of PPO in cooperative multi-agent games",
 *          and the code of its authors. n-step returns with a target critic: Papoudakis et
 *          al. 2021, "Benchmarking multi-agent deep reinforcement learning algorithms in
 *          cooperative tasks", and EPyMARL. happo: Kuba et al. 2022, "Trust region policy
 *          optimisation in multi-agent reinforcement learning", algorithm 4. coma: Foerster
 *          et al. 2018, "Counterfactual multi-agent policy gradients".
 *
 * Shapes   E copies, T steps, n = E T rows of a window, I width of the policy's input, S
 *          of the critic's, U of an action.
 * act      a draw from the policy, or its most likely action (greedy). Adds to each row
 *          `log_prob` (1), the logarithm of the action's probability when it was drawn;
 *          for box spaces also `sample` (U), the draw before it was cut to the bounds.
 * learn    on a window of the n newest rows, each used once:
 *          A  V at every observation, and at next observations where an episode or the
 *             window ends; advantages and returns (gae.h), from rewards scaled as
 *             reward_scale.h says, and values scaled back to match them; advantages
 *             normalised over the window
 *          B  the statistics of returns (value_norm.h)
 *          C  for every epoch a drawn order of the rows, for every minibatch of it one step
 *             of both optimisers:
 *             actor   -mean of min(r A, clip(r, 1 - c, 1 + c) A) - entropy * mean of H,
 *                     r = exp(log_prob now - log_prob of the row)
 *             critic  mean of max(h(G - V), h(G - Vold - clip(V - Vold, -c, c))), G
 *                     normalised, h: huber, or half the square
 *          D  with n_step: the target critic, t = (1 - polyak) t + polyak v
 *          Means are over rows in which the agent is alive.
 * shared   agents that share parameters (share.h) do A in a stage `prepare`, B and the
 *          normalisation of advantages in `normalize`, with the sums of all members, and
 *          each step of C in `actor` and `critic` (their gradients), `apply` and `assign`. A
 *          minibatch then has as many rows of each member. What A and B find is kept in the
 *          local variable `window` (3, n).
 * happo    the agents of a team improve their policies one after another, each knowing how
 *          those before it have changed theirs:
 *          prepare   A and B
 *          turn      the actor's steps of C, with M A in place of A. M (n) is `factor`, the
 *                    product of pi_after(u) / pi_before(u) of the team's agents before it,
 *                    pi_after and pi_before being the policies right after and before the
 *                    turn of each, and 1 where that agent was not alive. The answer is
 *                    `factor` (teams, E, T) with its own quotient multiplied in.
 *          critic    the critic's steps of C, and D; meanwhile others have their turns
 * coma     before `learn`, or `prepare`:
 *          propose   a drawn action of each agent at the next observation of every row where
 *                    an episode, the window or an agent's presence ends; 0 in other rows
 *          The critic has one value for each of the C combinations of the agent's choices,
 *          Q(s, u of others, .); V in C is that of the action u taken. A differs:
 *          advantage   Q(u) - sum over a of pi(a) Q(a), of the networks before C
 *          returns     targets.h, of lambda, or if that is 0, of n_step; v(t) = Q'(u(t+1)), Q'
 *                      the target critic; where an episode or the window ends, at the row's
 *                      next observation and the actions proposed there
 *          D           t = v after each target_every-th update, or as with n_step
 * masks    lower the logits of impossible choices by 1e8, when acting and learning.
 * symmetry each row of a minibatch is shown under a drawn element of the environment's group
 *          (symmetry.h) in C; A and B see the rows as they are. Not with agent_id. r is then
 *          also the quotient of the image's probability and the row's own, which has no bound
 *          without clip_ratio (ia2c, maa2c: simple_spread is not learnt without it).
 * inputs   the policy sees the own observation, then, with agent_id, which of its team
 *          the agent is, one-hot. A joint critic sees the own observation, those of its
 *          team, all others', each in the environment's order, then (coma) the actions of
 *          those others, then the id.
 *
 * Shared by policy_gradient*.c only.
 */
#ifndef AGENT_ALGO_POLICY_GRADIENT_H
#define AGENT_ALGO_POLICY_GRADIENT_H

#include "agent/algo/algo.h"
#include "agent/algo/feeds.h"
#include "agent/algo/reward_scale.h"
#include "agent/algo/seen.h"
#include "agent/algo/value_norm.h"
#include "agent/nn/nn.h"

enum pg_live {
    PG_ACTOR_RATE,
    PG_CRITIC_RATE,
    PG_CLIP_NORM,
    PG_POLYAK,
    PG_DISCOUNT,
    PG_LAMBDA, /* of advantages (gae); coma: of targets */
    PG_CLIP_RATIO,
    PG_ENTROPY,
    PG_LIVES
};

struct pg_window { /* 64-byte aligned, kept from update to update */
    int64_t rows;  /* there is room for */
    void *memory;
    float *input, *state, *action; /* (n, I), (n, S), (n, U) */
    float *allowed;                /* (n, U), masked only */
    /* (n) in order of the window */
    float *reward, *terminated, *cut, *alive, *first, *log_prob;
    float *scaled_value, *target_value, *next_value;
    float *kept;   /* (3, n), if not in a variable */
    float *factor; /* (teams, n), happo only */
    /* coma only: one-hot combinations (n, C); values of all (n, C); room for draws (n, U) */
    float *choice, *values, *draw;
    /* (n) in order of the minibatch */
    float *batch_advantage, *batch_returns, *batch_value, *batch_log_prob, *weight;
    float *now_log_prob; /* of the actions, under the policy before the step */
    uint8_t *mask;       /* (n, U), masked only: as the log has it */
    uint32_t *order;     /* (n) drawn for epoch order_of, counted over all updates */
    uint64_t order_of;
    int64_t order_n;     /* rows in the order; 0: none is drawn */
    uint64_t *batch_row; /* (n) rows of the log */
};

/* The results of A and B: (n) each, in order of the window. */
struct pg_kept {
    float *value; /* as the critic gave it */
    float *advantage, *returns;
};

/* Sums over the rows in which the agent is alive. `normalize` adds up those of all
 * members of its group. */
enum pg_sum {
    PG_ROWS,
    PG_ADVANTAGE,
    PG_ADVANTAGE_SQUARES,
    PG_RETURN,
    PG_RETURN_SQUARES,
    PG_SUMS
};

struct pg_columns { /* places in a log */
    /* [seen_n] of what the critic sees, the own first; coma: behind obs, the actions of the
     * others, [seen_n - 1] */
    int *obs, *next_obs;
    int *alive_of; /* [n_agents], coma only */
    int action, reward, terminated, alive, log_prob, truncated, first;
    int allowed, next_allowed; /* masked only */
};

struct algo {
    struct graph *graph;
    const struct agent_config *config;
    const struct algorithm_settings *settings;
    const struct space *agents;
    size_t n_agents, self;
    struct share *share; /* NULL: has parameters of its own */
    struct stage stages[7];
    size_t n_stages;
    int64_t window_rows; /* n, as configured */
    int in_turns;        /* happo */
    int64_t teams, team; /* their number, and which is this agent's */
    int64_t choices;     /* C, coma only; 0: the critic has one value */
    int joint;           /* the critic sees all observations */
    int gaussian;        /* a box without heads */
    int masked;
    size_t *seen; /* [seen_n] the agents that the critic sees, in its order */
    size_t seen_n;
    struct agent_id id;
    int64_t input_width;                      /* I */
    int64_t state_width;                      /* S */
    struct pictures pictures, state_pictures; /* what policy and critic see */

    struct output input, state, action, allowed;
    struct output choice, values; /* coma only: (B, C) */
    struct output old_log_prob, advantage, returns, old_value, weight;
    struct output scores; /* (B, U): each head's log-probabilities; gaussian: means */
    struct output probabilities;       /* (B, U) of each head's choices; not gaussian */
    struct output log_prob;            /* (B, 1) of `action` */
    struct output value, target_value; /* (B, 1) */
    struct output actor_loss, entropy, critic_loss;
    struct output norm_of[2];        /* the gradients' norms: actor, critic */
    struct variable *kept;           /* (3, n), where A and C are different stages */
    struct variable *log_std;        /* (U), gaussian only */
    struct operation *train[2];      /* actor, critic; not when sharing */
    struct operation *update_target; /* NULL: there is no target critic */
    struct operation *init_variables, *init_target;
    struct live live[PG_LIVES];
    struct value_norm norm;
    struct reward_scale scale;

    struct feeds feeds;
    struct pg_window window;
    double sums[PG_SUMS];      /* newest answer of `prepare` */
    double explained_variance; /* of the newest A; NaN: the returns are all equal */
    struct pg_columns columns;
    void *act_memory; /* (act_rows, I + 2 U) */
    int64_t act_rows;
};

static inline const struct space *pg_self(const struct algo *a)
{
    return &a->agents[a->self];
}

/* policy_gradient_graph.c: everything from `input` to `norm`. */
int pg_build_graph(struct algo *a, struct err *err);

/* policy_gradient_act.c */
int pg_act(struct algo *a, struct session *s, const struct act_args *args,
           struct act_result *ret, struct err *err);

/* The two parts of a draw. pg_add_noise: draw holds n uniform numbers, which become noise
 * added to n scores. pg_choose takes the best choices of each of n rows (n, U), and
 * replaces scores by actions. allowed (n, U) or NULL; ret_log_prob (n) or NULL. */
void pg_add_noise(const float *restrict scores, float *restrict draw, size_t n);
void pg_choose(const struct algo *a, const float *noisy, const uint8_t *allowed,
               float *scores, size_t n, float *ret_log_prob);

/* policy_gradient_coma.c; the window has room for args->rows. */
/* Stage propose. */
int pg_propose(struct algo *a, struct session *s, const struct stage_args *args,
               struct stage_result *ret, struct err *err);
/* Sets window.choice from window.action, of n rows. */
void pg_put_choices(struct algo *a, int64_t n);
/* Reads the proposals for n rows, given by their places in the window: the others'
 * actions into window.state, the own one into window.choice. ERR_PROTOCOL. */
int pg_put_proposals(struct algo *a, const struct stage_args *args, const uint32_t *place,
                     int64_t n, struct err *err);
/* Sets kept's value and advantage, in the critic's scale, and window.target_value.
 * window.state is of all rows. */
int pg_counterfactual(struct algo *a, struct session *s, const struct stage_args *args,
                      const struct pg_kept *kept, struct err *err);
/* Sets kept's returns, from the window's reward, terminated, cut and next_value. */
void pg_lambda_returns(const struct algo *a, const struct stage_args *args,
                       const struct pg_kept *kept);

/* policy_gradient_window.c */
/* Makes room for a window of n rows. */
int pg_reserve(struct algo *a, int64_t n, struct err *err);
/* Where A and B keep their results: the variable `kept`, or the window's own memory. */
int pg_open_kept(struct algo *a, struct session *s, int64_t n, struct pg_kept *ret,
                 struct err *err);
void pg_reads(struct algo *a, struct reads *r);
/* Sets window.state, what the critic sees, at n rows: columns is obs, or next_obs for a
 * state without actions. */
void pg_gather_state(struct algo *a, const struct store_view *store, const int *columns,
                     const uint64_t *rows, int64_t n);
/* Sets cut[i] where the row after row i is of another episode, or there is none, or the agent
 * whose alive and terminated the window has is not there any more, though its task was not
 * over. Other elements stay. */
void pg_find_cuts(struct pg_window *w, int64_t copies, int64_t steps);
/* Lists the rows whose cut is set: order receives their places in the window, batch_row their
 * rows of the log. Returns their number. rows: the window's, n. */
int64_t pg_list_cuts(struct pg_window *w, const uint64_t *rows, int64_t n);
/* A: sets kept, sums and explained_variance; advantages and returns are not normalised
 * yet. */
int pg_estimate(struct algo *a, struct session *s, const struct stage_args *args,
                const struct pg_kept *kept, struct err *err);
/* B, with the sums of all members that share the parameters. If these have no rows, the
 * statistics and the advantages stay as they are. */
int pg_normalize(struct algo *a, struct session *s, const struct pg_kept *kept, int64_t n,
                 const double sums[PG_SUMS], struct err *err);

/* policy_gradient_learn.c: every other stage. */
int pg_stage(struct algo *a, struct session *s, const struct stage_args *args,
             struct stage_result *ret, struct err *err);

/* Gathers what the policy sees in n rows of the log, or at their next observations, and adds
 * it to the feeds. window.action then holds the actions of the rows. */
void pg_feed_policy(struct algo *a, const struct stage_args *args, int is_next,
                    const uint64_t *rows, int64_t n);

/* policy_gradient.c: writes the id into n rows of an input that is `width` wide. */
void pg_put_ids(const struct algo *a, float *input, int64_t n, int64_t width);

#endif
