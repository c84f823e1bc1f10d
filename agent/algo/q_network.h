/* q_network.h - a network that has a value for each choice of an agent, with its target network:
 *               how it acts, and what it is fed. Of iql, vdn and qmix.
 *
 * Source   Mnih et al. 2015, "Human-level control through deep reinforcement learning"; Hausknecht,
 *          Stone 2015, "Deep recurrent Q-learning for partially observable MDPs"; van Hasselt et
 *          al. 2016, "Deep reinforcement learning with double Q-learning".
 *
 * Shapes   n rows of the batch, of whole episodes in the order of time (batch_in_time) or single
 *          ones; O observation, U action, C choices (choices.h), H carry;
 *          I = O + U (last_action) + N (agent_id), N agents of the team.
 * Network  I > hidden layers of `critic` > [GRU or LSTM of `recurrent` units] > C
 *          A recurrent one is unrolled over whole episodes.
 * act      the best possible choice; exploring, any possible one with probability epsilon, each
 *          copy with the epsilon of its own step. Carry: the cell's, then the last action.
 * next     (1 - terminated) Q'(o', u'), u' the possible choice with the largest Q(o', .) (double_q,
 *          of episodes only) or Q'(o', .); 0 where the agent is not alive
 */
#ifndef AGENT_ALGO_Q_NETWORK_H
#define AGENT_ALGO_Q_NETWORK_H

#include "agent/algo/kit.h"
#include "agent/nn/recurrent.h"

/* The first member of the struct algo of each. */
struct q_network {
    struct kit kit;
    int of_episodes;
    struct agent_id id;
    int32_t n_choices;    /* C */
    int64_t inputs;       /* I */
    struct obs_form form; /* of what it sees */
    enum cell_type cell;
    int64_t units;                        /* of the recurrent layer; 0: none */
    int64_t carry_width;                  /* H, of the cell */
    int64_t max_steps;                    /* L of a recurrent network */
    struct live *epsilon, *lambda, *rate; /* NULL where the process does not need it */

    struct output input, choice, carry; /* carry: recurrent only */
    struct output q, target_q;          /* (n, C) */
    struct output slope;                /* (n, 1) q_network_descent */
    struct output act_input, act_carry, act_q, act_next_carry; /* one step, (E, .) */

    struct matrix *now, *after; /* (n, I) at single rows, and after them */
    struct matrix *through;     /* (n, I) of episodes in the order of time */
    struct matrix *action, *choices;
    struct matrix *open; /* (n, C) choices that are possible next; masked only */
    struct matrix *online, *target; /* (n, C) Q, Q' */
    struct matrix *next, *slopes;   /* (n) */
    struct matrix *sent;            /* (n, 2) q and next, in the request's order */
    struct matrix *zeros;           /* (B, H) */
    /* Of E copies: inputs, values, draws, the cell's carry before and after. */
    struct matrix *act_inputs, *act_values, *act_draws, *act_carries, *act_next_carries;
    uint8_t *allowed; /* (C) of one row */
};

/* After kit_init: checks what it cannot play or learn, and declares its matrices. ERR_CONFIG. */
int q_network_init(struct q_network *q, const struct algo_args *args, struct err *err);
void q_network_done(struct q_network *q);
/* Refuses optimisers that do not use gradients. */
int q_network_check_optimizer(const struct agent_config *c, struct err *err);

/* In the agent's scope: the network that acts and learns, "q_func", and what it is fed. */
void q_network_build(struct q_network *q);
/* Its step, down `loss`; in a ps without one. */
void q_network_build_step(struct q_network *q, struct output loss);
/* "target_q_func", which follows it. */
void q_network_build_target(struct q_network *q);
/* Q of the choices that were made, (n, 1). */
struct output q_network_taken(struct q_network *q);

/* Members of algo_ops. */
void q_network_rows(const struct algo *a, struct algo_rows *ret);
int64_t q_network_carry(const struct algo *a); /* H; 0 in the central process */
int q_network_act(struct algo *a, struct session *s, const struct act_args *args,
                  struct act_result *ret, struct err *err);
#define Q_NETWORK_OPS(NAME, ABOUT, BUILD, FREE)                                          \
    KIT_OPS(NAME, ABOUT, 0, BUILD, FREE, q_network_act), .rows = q_network_rows,         \
                                                         .carry_width = q_network_carry

/* What it sees at the batch's rows, and the choices made there. */
void q_network_feed(struct q_network *q, struct batch *b);
/* Sets `next`, (n); NULL: the batch has failed. */
const float *q_network_find_next(struct q_network *q, struct batch *b);

/* ---- for teams whose values are mixed ---- */

/* The live settings; acts 0: of the central process, which has no epsilon. */
void q_network_add_lives(struct q_network *q, int acts);
/* All of its graph that q_network_build does not make. The loss is the sum of q slope: whatever
 * mixed the values, its gradient is that of their loss if slope is d(loss)/d(q). */
void q_network_build_descent(struct q_network *q);
/* Stage `values`: outputs q and next, (1, B, L) in the request's order; 0 where the agent is not
 * alive. */
void q_network_values(struct algo *a, struct batch *b);
/* One step down it. slope (n): of the batch's rows. A team of N that shares parameters has one
 * loss, whose gradient is the sum of the members' parts, but the ps takes their mean: so each
 * part is multiplied by N. */
void q_network_descend(struct q_network *q, struct batch *b, const float *slope);

#endif
