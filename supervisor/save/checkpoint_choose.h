/* checkpoint_choose.h - finds a run's checkpoint by what follows the @ in RUN@STEP.
 *
 * Best     RUN@best: that of the best evaluation up to the newest checkpoint, which names it
 *          (checkpoint.keep_best).
 * Threads  any: only files are touched.
 */
#ifndef SUPERVISOR_SAVE_CHECKPOINT_CHOOSE_H
#define SUPERVISOR_SAVE_CHECKPOINT_CHOOSE_H

#include "supervisor/rollout/verdict.h"

/* In both, dir is a run's checkpoints/. */

#define CHECKPOINT_BEST "best"

/* Finds the checkpoint of a step given as text, or the best one. ERR_NOT_FOUND lists the steps, or
 * says why there is no best one. */
int checkpoint_choose(const char *dir, const char *text, uint64_t *ret, struct err *err);
/* Finds the best one. ERR_NOT_FOUND; -errno, ...: no checkpoint can be read. */
int checkpoint_find_best(const char *dir, struct best_value *ret, struct err *err);

#endif
