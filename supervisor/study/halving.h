/* halving.h - which trials of a rung continue: synchronous successive halving.
 *
 * A rung decides when the values of all its trials are known, so that the result does not
 * depend on how many run at a time.
 * Source   Li et al. 2020, A system for massively parallel hyperparameter tuning, algorithm 1
 */
#ifndef SUPERVISOR_STUDY_HALVING_H
#define SUPERVISOR_STUDY_HALVING_H

#include <stddef.h>

/* Whether the value a is better than b. NaN is no value: any value is better. */
int halving_is_better(double a, double b, int is_max);

/* How many of n trials continue if none of them fails: keep * n, rounded, at least 1. */
size_t halving_most(size_t n, double keep);

/* Of n trials with these values (NaN: it failed), keeps the best halving_most that have a
 * value; of equal ones, those that come first. ret: room for n, in the order of `trial`.
 * Returns how many. */
size_t halving_keep(const size_t *trial, const double *value, size_t n, double keep,
                    int is_max, size_t *ret);

/* Ranks n values: ret[0] is the index of the best, those without a value come last. */
void halving_rank(const double *value, size_t n, int is_max, size_t *ret);

#endif
