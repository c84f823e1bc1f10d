/* sampled_policy.h - the stochastic policies that on-policy algorithms improve.
 *
 * Discrete  independent choices of the action's heads, categorical each; masks lower the logits
 *           of impossible choices by 1e8.
 * Box       a normal distribution for each column, with deviations that do not depend on the
 *           observation (variable p_func/log_std); actions are cut to the bounds.
 * Hybrid    both, independent of each other: C columns of heads, then V numbers. The action's
 *           log-probability and the entropy are sums over heads and numbers. (Fan, Su, Zhang, Yu
 *           2019, "Hybrid actor-critic reinforcement learning in parameterized action space", has
 *           numbers of their own for each choice; here all choices have the same.)
 * Recurrent with the setting `recurrent`, a GRU or LSTM behind the hidden layers. Acting carries
 *           its state through an episode, and adds to each row `carry` (H), the state that the
 *           action was chosen with. To learn, rows are chunks of L = `chunk` consecutive steps of
 *           a copy, R of them in the order of time: row t R + r is step t of chunk r; each begins
 *           with the carry of its first row, and is reset where an episode begins.
 * act       a draw, or the most likely action (greedy). Adds to each row of the log `log_prob`
 *           (1), the logarithm of the action's probability when it was drawn; with numbers also
 *           `sample` (U), the draw before it was cut to the bounds. Numbers of hybrid actions
 *           are drawn with a key of their own, "numbers".
 * Shapes    B rows, I the observation with the id, U = C + V the action, H the carry.
 */
#ifndef AGENT_ALGO_SAMPLED_POLICY_H
#define AGENT_ALGO_SAMPLED_POLICY_H

#include "agent/algo/kit.h"
#include "agent/algo/obs_norm.h"
#include "agent/nn/recurrent.h"

struct sampled_policy {
    struct kit *kit;
    int64_t choices; /* C: entries of the heads; 0: a box */
    int64_t numbers; /* V; 0: a discrete action, or a particle world's */
    int masked;
    struct agent_id id;
    int64_t input; /* I */
    struct obs_form form;
    const struct obs_norm *norm; /* of what its network sees */
    int64_t units;               /* of the recurrent layer; 0: there is none */
    enum cell_type cell;
    int64_t carry_width; /* H */
    int chunk;           /* L; 1 without a recurrent layer */

    struct output observation, action, allowed; /* placeholders (B, I), (B, U), (B, U) */
    struct output carry, first;                 /* (R, H), (B, 1), recurrent only */
    struct output act_scores, next_carry;       /* (E, U), (E, H) of one step */
    struct output scores;        /* (B, U): each head's log-probabilities, then means */
    struct output probabilities; /* (B, C) of each head's choices */
    struct output log_prob;      /* (B, 1) of `action` */
    struct output entropy;       /* (B, 1) */
    struct variable *log_std;    /* (V) */

    struct matrix *own, *own_next;   /* (B, I) */
    struct matrix *taken;            /* (B, U) actions, or samples, of the rows */
    struct matrix *open, *open_next; /* masks */
    struct matrix *carries, *firsts; /* (B, H), (B, 1) */
    struct matrix *act_input, *act_draw, *act_open, *act_carry; /* of copies */
};

void sampled_policy_init(struct sampled_policy *p, struct kit *k,
                         const struct algo_args *args);
/* The network and its distribution, from the placeholders. */
void sampled_policy_make(struct sampled_policy *p);

/* Feeds the carries of the chunks that the batch's rows are; nothing without a recurrent
 * layer. */
void sampled_policy_feed_carry(struct sampled_policy *p, struct batch *b);
/* Feeds what the policy sees of the batch's rows, or after them. */
void sampled_policy_feed(struct sampled_policy *p, struct batch *b, enum when when);
/* The two parts of a draw. draw holds n uniform numbers, which become noise added to n scores;
 * then the best choices of each of n rows of it (n, U) are taken, and replace scores by actions.
 * allowed (n, U) or NULL; ret_log_prob (n) or NULL. */
void sampled_policy_add_noise(const float *restrict scores, float *restrict draw,
                              size_t n);
void sampled_policy_choose(const struct sampled_policy *p, const float *draw,
                           const uint8_t *allowed, float *scores, size_t n,
                           float *ret_log_prob);

size_t sampled_policy_columns(const struct sampled_policy *p, struct algo_column *ret);
int sampled_policy_act(struct sampled_policy *p, struct session *s,
                       const struct act_args *args, struct act_result *ret,
                       struct err *err);

#endif
