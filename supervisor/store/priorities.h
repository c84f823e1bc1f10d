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

/* Begins with a log that has `head` rows already, none of which is a candidate. */
void priorities_begin(struct priorities *p, uint64_t head);
/* Empties the slots of the n rows from `row` on, which have been appended to the log. */
void priorities_append(struct priorities *p, uint64_t row, size_t n);
/* Makes the row a candidate, with the largest p so far. */
void priorities_add(struct priorities *p, uint64_t row);
/* Sets the values p of candidates; if a row repeats, its last value counts. Rows that
 * are not candidates any more, or have left the window, are skipped. A value that is
 * not finite counts as the largest p so far. */
void priorities_set(struct priorities *p, const uint64_t *rows, const float *values,
                    size_t n);

/* The number of candidates in the window, and the probability of one. */
uint64_t priorities_count(const struct priorities *p);
double priorities_probability(const struct priorities *p, uint64_t row);
/* Draws n candidates and computes their weights; the window must have a candidate.
 * Allocates only if n is larger than in all draws before. */
void priorities_draw(struct priorities *p, struct rng_key key, uint64_t counter,
                     double beta, uint64_t *ret_rows, float *ret_weights, size_t n);

void priorities_save(const struct priorities *p, struct wbuf *b);
/* p: new. Returns 0 if the bytes were not saved with a log of `head` rows, or are
 * malformed. */
int priorities_load(struct priorities *p, uint64_t head, struct cursor *c);

#endif
