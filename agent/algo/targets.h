/* targets.h - targets of several steps, and advantages: plain functions of arrays.
 *
 * Shapes   (B, L), row-major: B sequences of L consecutive steps of a copy each; or (L, B), in
 *          the order of time.
 * Rows     m(t) = 1: row t is there. A sequence ends before its first missing row; what
 *          the arrays hold from there on is not read, and the targets there are 0.
 * Ends     terminated(t) = 1: the task was over with step t, nothing comes after it.
 *          truncated(t) = 1: a limit cut the episode there. What would follow counts:
 *          v(t), the value of row t's own next observation. The recursion does not go
 *          on into the next row, which is of another episode.
 * Values   v(t) is that of the state after step t, never of row t + 1's observation.
 *
 * Source   Sutton 1988 (n-step); Peng, Williams 1996 (lambda); Harutyunyan et al. 2016,
 *          "Q(lambda) with off-policy corrections", with pi greedy and one trace.
 */
#ifndef AGENT_ALGO_TARGETS_H
#define AGENT_ALGO_TARGETS_H

#include <stdint.h>

struct target_rows {
    int64_t batch, length;            /* B, L */
    int in_time;                      /* 1: the arrays are (L, B) */
    const float *reward, *terminated; /* (B, L) */
    const float *truncated;           /* (B, L) or NULL: nowhere */
    const float *mask;                /* (B, L) or NULL: all rows are there */
    const float *value;               /* v (B, L) */
    float discount;                   /* g */
};

/* m = number of steps from t until n, the first end, or the last row:
 * y(t) = sum over k < m of g^k r(t+k), + g^m (1 - terminated(t+m-1)) v(t+m-1). n >= 1. */
void targets_n_step(const struct target_rows *rows, int64_t n, float *y);

/* y(t) = r(t) + g (1 - terminated(t)) [(1 - lambda) v(t) + lambda y(t+1)]; at a truncation
 * and at the last row y(t+1) := v(t). lambda 0: one step; 1: all of them. */
void targets_lambda(const struct target_rows *rows, float lambda, float *y);

/* Generalised advantage estimation (Schulman et al. 2016, equation 16). state_value: V (B, L), that
 * of the observation at t.
 *   d(t) = r(t) + g (1 - terminated(t)) v(t) - V(t)
 *   A(t) = d(t) + g lambda A(t+1), the second term 0 at the end of an episode or a sequence
 *   G(t) = A(t) + V(t) */
void targets_advantages(const struct target_rows *rows, const float *state_value,
                        float lambda, float *ret_advantage, float *ret_return);

/* targets_lambda with a lambda above 0, else targets_n_step of n steps, or one. */
void targets_find(const struct target_rows *rows, float lambda, int64_t n, float *y);

#endif
