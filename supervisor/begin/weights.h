/* weights.h - the values of all agents of one checkpoint, in memory: what a new run begins with
 * (`--init-from`), and what `brood eval` plays with.
 *
 * They are read at once, before anything is begun with them: a live run may remove the
 * checkpoint at any time, and several runs may begin with the same values.
 */
#ifndef SUPERVISOR_BEGIN_WEIGHTS_H
#define SUPERVISOR_BEGIN_WEIGHTS_H

#include "common/err/err.h"
#include "supervisor/save/checkpoint_read.h"

#include <stdint.h>

struct weights; /* opaque; owns all its data */

/* Reads the checkpoint of a step given as text from a run's checkpoints/ `dir`; with NULL
 * the newest complete one, and if that is removed meanwhile, again the newest. on_skipped:
 * as in resume_open. ERR_NOT_FOUND: there is none; ERR_CORRUPT, ... */
int weights_load(struct weights **ret, const char *dir, const char *step,
                 void (*on_skipped)(void *ctx, const char *line), void *ctx,
                 struct err *err);
/* weights_load for RUN or RUN@STEP of the command line (run_dir_find). kept: a folder that has a copy
 * of that checkpoint, which is read instead; NULL: none. */
int weights_find(struct weights **ret, const char *runs_dir, const char *text,
                 const char *kept, void (*on_skipped)(void *ctx, const char *line),
                 void *ctx, struct err *err);
void weights_free(struct weights *w); /* NULL is fine */

const char *weights_dir(const struct weights *w); /* the run's checkpoints/ */
uint64_t weights_step(const struct weights *w);
/* Adds an agent that the checkpoint lacks, with the values of the one of its team with the lowest
 * number; does nothing if it has that agent. ERR_NOT_FOUND: nobody is of that team. */
int weights_add(struct weights *w, const char *agent, struct err *err);
/* ERR_NOT_FOUND: the checkpoint has no such agent. *ret is borrowed. */
int weights_of(const struct weights *w, const char *agent,
               const struct checkpoint_values **ret, struct err *err);

#endif
