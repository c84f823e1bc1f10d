/* soft_policy.h - the stochastic policies of isac and masac.
 *
 * Discrete  pi, categorical over the C combinations of the action's heads (choices.h). Masks
 *           lower the logits of impossible choices by 1e8.
 * Box       tanh-squashed normal (agent/nn/policy.h) whose mean and log-deviation, within
 *           [-20, 2], are outputs of one network. Probabilities count as if the action had been
 *           scaled to (-1, 1), so that entropies do not depend on the bounds.
 * Draws     one uniform number per row selects a choice; U normal numbers make an action of a
 *           box. In stages, numbers of row i from index i (or i U) of the stage's key, derived
 *           by a label.
 * Shapes    P log-probabilities of a row: C, or 1 of a box.
 */
#ifndef AGENT_ALGO_SOFT_POLICY_H
#define AGENT_ALGO_SOFT_POLICY_H

#include "agent/algo/kit.h"

struct soft_policy {
    struct kit *kit;
    struct agent_id id;
    int64_t input;     /* width of the observation with the id */
    int32_t n_choices; /* C; 0: a box */
    int masked;
    int64_t n_log_probs; /* P */
    struct obs_form form;

    struct output observation, allowed; /* placeholders (B, input), (B, C) */
    struct output scores; /* (B, C) logits, masked; box: (B, U) the most likely action */
    struct output p;      /* (B, C); box: none */
    struct output log_prob; /* (B, P) */
    struct output noise;    /* (B, U) standard normal, and ... */
    struct output action;   /* (B, U) ... the action drawn with it; box only */

    struct matrix *own_next;                           /* (G B, input) */
    struct matrix *proposal, *probability, *log_probs; /* (G B, U), (G B, C), (G B, P) */
    struct matrix *draw;                               /* (G B, 1), box: (G B, U) */
    struct matrix *open_now, *open_next;               /* (B, C) masks */
    struct matrix *act_draw, *act_p, *act_open, *act_input; /* of copies */
};

/* ERR_CONFIG: the action is neither. */
int soft_policy_init(struct soft_policy *p, const struct algo_args *args,
                     struct err *err);
void soft_policy_make_matrices(struct soft_policy *p, struct kit *k,
                               const struct seen *seen);
/* The network and its distribution, from `observation` and, if masked, `allowed`. */
void soft_policy_make(struct soft_policy *p);
static inline int soft_policy_is_box(const struct soft_policy *p)
{
    return p->n_choices == 0;
}

/* Sets proposal and log_probs at the next observations of the batch's rows. */
void soft_policy_propose(struct soft_policy *p, struct batch *b);
/* Feeds what it needs besides the observation, at the rows. */
void soft_policy_feed(struct soft_policy *p, struct batch *b);
int soft_policy_act(struct soft_policy *p, struct session *s, const struct act_args *args,
                    struct act_result *ret, struct err *err);

#endif
