/* actor_critic.h - what algorithms share whose policies follow their critics' slopes, and learn from
 *                  single rows of the log: maddpg, ddpg (maddpg.c), matd3 (matd3.c), isac, masac
 *                  (sac.c).
 *
 * The algorithm's file makes networks and losses; here is what they are fed, and when:
 *
 * propose  every agent: the actions that it would choose at the rows' next observations, u' (actor.h)
 * critic   y = reward + discount (1 - terminated) next_value, of the others' u'; one step down
 *          critic_loss. Priorities: |error|.
 * learn    one step down actor_loss, and of the steps that were added behind it, in one run; then the
 *          targets move. With a delay d only in updates d - 1, 2 d - 1, ...
 * alone    an agent whose critic sees nobody else needs no proposals of others: one stage, `learn`,
 *          does all three.
 *
 * Critic and policy are two stages of about the same length, so that an odd number of agents shares
 * an even number of cores well. The steps are CRITIC, ACTOR and those behind, in this order.
 */
#ifndef AGENT_ALGO_ACTOR_CRITIC_H
#define AGENT_ALGO_ACTOR_CRITIC_H

#include "agent/algo/actor.h"
#include "agent/algo/scalars.h"

enum { ACTOR_CRITIC_CRITIC, ACTOR_CRITIC_ACTOR };

/* What tells the algorithms apart here. */
struct actor_critic_kind {
    int is_alone;
    int is_soft; /* stochastic policies, whose log-probabilities count (actor.h) */
    enum weighing weighing;
    const char *weight; /* name of its placeholder */
    /* Of an agent that learns: live settings of its own, between those that all have and what
     * follows. Their place in the block is that of runs that are resumed. NULL: none. */
    void (*make_lives)(struct algo *a);
    void (*make)(struct algo *a); /* networks, losses, and their steps */
};

/* The first member of the struct algo of each. */
struct actor_critic {
    struct kit kit;
    const struct actor_critic_kind *kind;
    struct joint joint; /* what the critics see */
    struct actor actor;
    int64_t delay; /* updates for each step of the policy; 0: one */
    /* Noise that is added to proposals, and clipped to the bounds; NULL: none. */
    void (*smooth)(struct algo *a, struct batch *b, float *x);

    struct output target, weight; /* placeholders (B, 1) */
    struct output next_log_prob;  /* (B, P) of soft ones: log pi(u') */
    struct live *actor_rate, *critic_rate;

    /* Made by the algorithm. */
    struct critic critic, target_critic;
    struct output next_value; /* (B, 1) what the target critics make of u' */
    struct output error;      /* (B, 1) */
    struct output critic_loss, q_mean, actor_loss;
    struct output entropy, alpha; /* reported, if there are any */
    struct live *in_actor_loss;   /* a setting that actor_loss needs; NULL: none */

    struct matrix *next_q, *errors; /* (B, 1) */
    struct matrix *next_log_probs;  /* (B, P) */
};

/* Settings that all have. */
#define ACTOR_CRITIC_SETTINGS                                                            \
    "own_batches", "clip_by", "symmetry", "reward_scale", "agent_id"

/* kind: static. ERR_CONFIG: what it cannot play or learn. */
int actor_critic_build(struct actor_critic *p, const struct algo_args *args,
                       const struct actor_critic_kind *kind, struct err *err);
/* Sets `error` to the larger error of two critics' values; returns the sum of both squared. */
struct output actor_critic_errors(struct actor_critic *p, struct output q,
                                  struct output twin);

/* Adds a deterministic policy, its step down the loss that make_loss makes, and the targets that
 * follow policy and critic; behind the critic's step. */
void actor_critic_add_policy(struct actor_critic *p,
                             void (*make_loss)(struct actor_critic *p));

/* ---- members of algo_ops ---- */

void actor_critic_done(struct algo *a);
int actor_critic_act(struct algo *a, struct session *s, const struct act_args *args,
                     struct act_result *ret, struct err *err);
#define ACTOR_CRITIC_OPS(NAME, ABOUT, VARIANT, BUILD)                                    \
    KIT_OPS(NAME, ABOUT, VARIANT, BUILD, actor_critic_done, actor_critic_act)

#endif
