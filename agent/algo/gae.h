/* gae.h - advantages and returns of a window of rows.
 *
 * Shapes   (E, T): E copies, T consecutive steps of each, row-major. A window may hold
 *          several episodes of a copy.
 * Ends     values are bootstrapped with 1 - terminated. Where the next row does not
 *          continue the episode (it was terminated, truncated, or the window ends), the
 *          sums over later steps stop; next_value is then the value of the row's own
 *          next observation, so a truncated episode is still bootstrapped.
 */
#ifndef AGENT_ALGO_GAE_H
#define AGENT_ALGO_GAE_H

#include <stdint.h>

struct gae_args {
    int64_t copies, steps; /* E, T */
    const float *reward, *terminated;
    const float *cut;        /* 1: the next row, if any, is of another episode */
    const float *value;      /* of the observation */
    const float *next_value; /* of the next observation */
    float discount;
};

/* Generalised advantage estimation (Schulman et al. 2016, equation 16):
 *   d_t = reward + discount (1 - terminated) next_value - value
 *   A_t = d_t + discount lambda A_(t+1), the second term 0 at the end of an episode
 *   G_t = A_t + value */
void gae_advantages(const struct gae_args *a, float lambda, float *ret_advantage,
                    float *ret_return);

/* Returns of n steps (Sutton and Barto 2018, section 7.1), fewer where the episode or the
 * window ends first:
 *   G_t = sum of discount^k reward_(t+k), k < m, + discount^m (1 - terminated) next_value
 * of the last of those m steps; advantage: G_t - value. n is 1 or more. */
void gae_n_step(const struct gae_args *a, int64_t n, float *ret_advantage,
                float *ret_return);

#endif
