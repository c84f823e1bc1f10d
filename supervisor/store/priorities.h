/* priorities.h - prioritised replay: how likely each row of the window (or each episode, by
 * its first row) is drawn.
 *
 * Formula  P(j) = (p_j + 1e-6)^alpha / the sum over the window; the k-th of B draws is the
 *          row at (k + U_k) / B of that sum, in the order of slots (row % capacity); its
 *          weight is (n P(j))^-beta over the largest of the window, n being the number of
 *          candidates. New candidates get the largest p so far, 1 at first.
 * Values   a sum tree and a tree of minima over the slots, float64, which grow with the log;
 *          powers by exp_f64 and log_f64, the same on every CPU.
 * Draws    element k of (key, counter), uniform float64.
 * State    priorities_save: the leaves of the window and the largest p.
 * Threads  loop thread only.
 * Source   Schaul et al. 2016, Prioritized experience replay, 3.3 and 3.4.
 */
#ifndef SUPERVISOR_STORE_PRIORITIES_H
#define SUPERVISOR_STORE_PRIORITIES_H

#include "common/rng/rng.h"
#include "common/wire/cursor.h"

#include <stddef.h>
#include <stdint.h>

struct priorities; /* opaque */

/* capacity: rows of the window. */
struct priorities *priorities_new(uint64_t capacity, double alpha);
void priorities_free(struct priorities *p);

/* Of a log that has `head` rows already, none of which is a candidate. */
void priorities_begin(struct priorities *p, uint64_t head);
/* n rows from number `row` on have been appended: their slots are empty. */
void priorities_append(struct priorities *p, uint64_t row, size_t n);
/* Makes the row a candidate, with the largest p so far. */
void priorities_add(struct priorities *p, uint64_t row);
/* Gives candidates, which may repeat, the values p: the last one counts. Rows that have left
 * the window meanwhile are skipped; values that are not finite count as the largest. */
void priorities_set(struct priorities *p, const uint64_t *rows, const float *values,
                    size_t n);

/* Candidates in the window, and the probability of one. */
uint64_t priorities_count(const struct priorities *p);
double priorities_probability(const struct priorities *p, uint64_t row);
/* Draws n candidates, of which there is one at least, and their weights. Allocates only if n
 * is larger than in all draws before. */
void priorities_draw(struct priorities *p, struct rng_key key, uint64_t counter,
                     double beta, uint64_t *ret_rows, float *ret_weights, size_t n);

void priorities_save(const struct priorities *p, struct wbuf *b);
/* Into a new one, as of a log of `head` rows. 0 if the bytes are not of such a log. */
int priorities_load(struct priorities *p, uint64_t head, struct cursor *c);

#endif
