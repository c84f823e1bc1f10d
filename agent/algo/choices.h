/* choices.h - discrete actions: heads of one-hot vectors, and the combinations of them.
 *
 * Hybrid   an action (U) of heads, whose vectors are its first entries, and of numbers behind
 *          them. What is here for rows of actions passes over the numbers.
 * Masks (U) u8 mark the entries that may be chosen; NULL: all. A head without a marked
 * entry may choose any.
 * A combination of heads is numbered with the first head fastest: a particle world's
 * move and utterance are move + 5 say.
 */
#ifndef AGENT_ALGO_CHOICES_H
#define AGENT_ALGO_CHOICES_H

#include "agent/algo/algo.h"

/* The index of the largest of n numbers; of equal ones the first. */
static inline int32_t choice_best(const float *x, int32_t n)
{
    float top = x[0];
    int32_t best = 0;

    for (int32_t i = 1; i < n; i++) {
        best = x[i] > top ? i : best; /* no branch, because it could not be predicted */
        top = x[i] > top ? x[i] : top;
    }
    return best;
}

/* The best one of those that are allowed. */
int32_t choice_best_of(const float *x, const uint8_t *allowed, int32_t n);

/* The choice that one draw in [0, 1) selects of n with probabilities p: never one with
 * probability 0. */
int32_t choice_draw(const float *p, float draw, int32_t n);

/* Each head's largest element becomes 1, the others 0. x (rows, U), allowed (rows, U) */
void choices_harden(const struct space *space, float *x, const uint8_t *allowed,
                    size_t rows);

/* Converts masks to numbers, 1 or 0; a head whose mask has no 1 gets all 1, as what is no head
 * does. allowed and ret: (rows, U). */
void choices_open(const struct space *space, const uint8_t *allowed, size_t rows,
                  float *ret);

/* How many entries of an action its heads have. */
int64_t choices_width(const struct space *space);
/* Whether the heads make up the whole action, so that it is one choice for each head. */
int choices_only(const struct space *space);
/* Whether an action is hybrid. */
int choices_beside_numbers(const struct space *space);
/* The first entry of an action that is a number: behind the heads of a hybrid action; 0 in a box,
 * also in a particle world's, which has heads; U in a discrete space. */
int64_t first_number(const struct space *space);
/* The most combinations that an algorithm values at once. */
enum { CHOICES_MAX = 4096 };
/* The number of combinations; 0 if the space has no heads, or if there are more than
 * `max`. */
int32_t choices_count(const struct space *space, int32_t max);
/* An action (U) of a combination, and the combination of an action. */
void choice_to_action(const struct space *space, int32_t choice, float *action);
int32_t choice_of_action(const struct space *space, const float *action);
/* The probability of a combination, from those of each head's choices, p (U). */
double choice_probability(const struct space *space, const float *p, int32_t choice);
/* The combinations of n actions (n, U) as one-hot rows of ret (n, n_choices). */
void choices_one_hot(const struct space *space, const float *actions, int64_t n,
                     int64_t n_choices, float *ret);
/* The best of n combinations with values q (n) that the mask (U) allows; or, exploring with
 * probability epsilon, any of those: one draw in [0, 1) decides whether to, and if so, the
 * draw divided by epsilon selects one. draw NULL: the best. room (n): overwritten. */
int32_t choice_epsilon_greedy(const struct space *space, const float *q,
                              const uint8_t *allowed, int32_t n, const float *draw,
                              float epsilon, uint8_t *room);
/* Sets ret[i], i < n, to 1 if combination i is allowed; returns the number of allowed
 * ones. */
int32_t choices_allowed(const struct space *space, const uint8_t *allowed, int32_t n,
                        uint8_t *ret);

#endif
