/* hooks.h - an observer that starts the programs which the section `on` of a configuration
 * names for events of the run.
 *
 * Program  gets the event as one line on its standard input, the same object as a line of
 *          `run --json`, and BROOD_RUN, BROOD_RUN_DIR and BROOD_EVENT in its environment. It
 *          starts without a shell, in the section's directory. Its output, and how it
 *          failed, are written to logs/hooks.log.
 * Bounds   HOOKS_MAX_RUNNING at a time, each for at most the section's deadline;
 *          HOOKS_MAX_WAITING events wait, further ones are dropped; a program that starts when
 *          the log has HOOKS_LOG_MAX_BYTES prints to /dev/null. Dropped events and a full log
 *          are noted in the log, once each.
 * Run      waits for programs only after its end, and does not depend on them: a failure
 *          appears only in logs/hooks.log.
 * Threads  loop thread only.
 */
#ifndef SUPERVISOR_RUN_HOOKS_H
#define SUPERVISOR_RUN_HOOKS_H

#include "supervisor/run/training.h"

#define HOOKS_MAX_RUNNING   4
#define HOOKS_MAX_WAITING   256
#define HOOKS_LOG_MAX_BYTES ((int64_t)16 << 20)

struct hooks; /* opaque */

/* For the run of these arguments, which are borrowed. keeper: may be NULL. */
struct hooks *hooks_new(const struct training_args *args,
                        const struct keeper_link *keeper);
/* The observer to pass to training_run. */
struct training_observer hooks_observer(struct hooks *h);
/* To be called after training_run. Waits for the programs, at most for the deadline, and not
 * when an interrupt or the keeper's exit ends this process; kills those that are left. */
void hooks_free(struct hooks *h);

#endif
