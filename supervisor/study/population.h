/* population.h - population based training: what becomes of the members after a round.
 *
 * All members stop at the same step. Each of the worst `quantile` (rounded, at least one),
 * and each that failed, becomes a fork of a member drawn from the best `quantile`, unless
 * that one is not better; the others go on. The fork begins with the settings of the member
 * that it comes from, each changed: with probability `resample` drawn anew, as `search`
 * says, else multiplied by one of `factors` and kept within its range; of a list of choices,
 * the one before or after it is taken.
 * Draws    a pure function of the study's seed, the round, the member and the key.
 * Source   Jaderberg et al. 2017, Population based training of neural networks: truncation
 *          selection, perturb and resample
 */
#ifndef SUPERVISOR_STUDY_POPULATION_H
#define SUPERVISOR_STUDY_POPULATION_H

#include "supervisor/study/study.h"

/* value: of each member after that round (from 0), NaN: it failed. ret: for each member the
 * one that it goes on from, most often itself; room for s->trials. If all have failed, all
 * go on from themselves. */
void population_choose(const struct study *s, size_t round, const double *value,
                       size_t *ret);
/* The setting of a key for the fork that a member becomes after that round; was: the
 * setting of the member that it comes from. In the arena, or one of the key's choices. */
const char *population_explore(const struct study *s, size_t round, size_t member,
                               size_t key, const char *was, struct arena *arena);

#endif
