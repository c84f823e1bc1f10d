/* policies.h - the policies that frozen agents act by.
 *
 * A new run finds each of them (settings.from) and keeps its MetaGraph in its own
 * directory, as policies/<agent>.meta; the values are in the run's checkpoints from step 0
 * on. So respawns, resumes and evaluations need nothing from elsewhere.
 */
#ifndef SUPERVISOR_RUN_POLICIES_H
#define SUPERVISOR_RUN_POLICIES_H

#include "common/config/run_config.h"
#include "supervisor/rollout/rollout.h"
#include "supervisor/run/run_dir.h"

struct policies; /* opaque; borrows nothing */

/* For a new run, before there is one: `from` is a checkpoint's prefix or folder where
 * there is such, else RUN or RUN@STEP under runs_dir (run_dir_find_checkpoint). A run's must have
 * been taught in the same environment, as far as FIELD_MEANING goes (others' are not
 * compared). ERR_CONFIG names place and key. */
int policies_find(struct policies **ret, const struct run_config *c, const char *runs_dir,
                  void (*on_skipped)(void *ctx, const char *line), void *ctx,
                  struct err *err);
/* Writes what was found into the new run's directory. */
int policies_keep(const struct policies *p, struct run_dir *dir, struct err *err);
/* Those that a run at `path` has kept; without prefixes. */
int policies_load(struct policies **ret, const struct run_config *c, const char *path,
                  struct err *err);
void policies_free(struct policies *p); /* NULL is fine */

/* NULL: the agent makes its own. p may be NULL: there are none. */
const struct rollout_policy *policies_of(const struct policies *p, size_t agent);

#endif
