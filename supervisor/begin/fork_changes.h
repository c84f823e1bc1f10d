/* fork_changes.h - the changes of a fork: those of the other run from the checkpoint on, and its
 * own; without processes or files. */
#ifndef SUPERVISOR_BEGIN_FORK_CHANGES_H
#define SUPERVISOR_BEGIN_FORK_CHANGES_H

#include "supervisor/begin/resume_config.h"

struct fork_changes {
    struct change_plan plan;  /* the changes from the checkpoint on */
    struct run_config wanted; /* after all of them: the new config.yaml */
};
void fork_changes_done(struct fork_changes *c); /* all-zero is fine */

/* was: what a resume of the other run from the checkpoint of that step would begin with. Its
 * later changes to keys that the fork sets are left out. What waits there for a respawn waits in
 * the fork, unless that sets it. run: the other run's path, for messages. ERR_CONFIG. */
int fork_changes_make(struct fork_changes *ret, const struct resume_config *was,
                      uint64_t step, const char *const *set, size_t n, const char *run,
                      struct err *err);

#endif
