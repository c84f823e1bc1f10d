/* episodes.h - what Q-networks learn from a team's episodes, or from single rows, each of which is
 *              then an episode of one step: rewards, ends, targets, errors.
 *
 * Shapes   B episodes of L steps, n = B L rows, or with batch_in_time n = (L + 1) B, of which
 *          some are not there; N members of the team, of whose rewards and ends this is. Alone,
 *          N is 1.
 * Row      reward: the members' (it is one; the last one's of those that are alive), scaled as
 *          the setting reward_scale says; terminated: for all members that are alive; truncated:
 *          the members leave, and their task is not over; weight: the importance of the episode,
 *          0 where no member is alive
 * Mean     sum of share x weight x .., share = 1 / max(1, sum of the weights); of single rows
 *          1 / n
 * Source   Kapturowski et al. 2019, "Recurrent experience replay in distributed reinforcement
 *          learning" (priorities of episodes).
 */
#ifndef AGENT_ALGO_EPISODES_H
#define AGENT_ALGO_EPISODES_H

#include "agent/algo/kit.h"

struct episodes {
    struct matrix *rewards, *ends, *alives; /* (n, N) of the log */
    struct matrix *room;                    /* (n, 7): the arrays below */
    struct matrix *priorities;              /* (B) */
    /* (n) each, of the newest batch. */
    float *reward, *terminated, *truncated, *mask, *weight;
    float *target;  /* y, of episodes_find_targets */
    float *divided; /* share x weight */
    float share;
};

/* members: [n] indices of agents. Call it before the columns are declared. */
void episodes_init(struct episodes *e, struct kit *k, const size_t *members, size_t n);
/* Sets the arrays from the batch's rows, but for `target`. */
void episodes_take(struct episodes *e, struct batch *b, struct reward_scale *scale);
/* targets.h with the setting n_step, or with lambda if that is not 0. next (n): values of the
 * rows' next observations. */
void episodes_find_targets(struct episodes *e, struct batch *b, const float *next,
                           float lambda);

/* Feeds a loss its targets and weights, (n, 1) each. Of single rows the loss is a mean over all of
 * them, with the weights as they are; of episodes a sum, with the divided ones. */
void episodes_feed(struct episodes *e, struct batch *b, struct output target,
                   struct output weight);

/* What is reported of an update: the scalars critic_loss, q_mean, target_q_mean, target_q_std and
 * td_error. */
enum { EPISODES_MEASURED = 5 };
/* q (n): values of what was done; hysteresis: the weight of errors y - q below 0. */
void episodes_measure(const struct episodes *e, const struct batch *b, const float *q,
                      float hysteresis, double ret[EPISODES_MEASURED]);
void episodes_report(struct batch *b, const double measured[EPISODES_MEASURED]);
/* The priority of each episode, ret (B): 0.9 times the largest |y - q| of its rows that have a
 * weight, plus 0.1 times their mean; of a single row |y - q|. */
void episodes_find_priorities(const struct episodes *e, const struct batch *b,
                              const float *q, float *ret);
/* Answers them, if the request has weights. */
void episodes_answer_priorities(struct episodes *e, struct batch *b, const float *q);

#endif
