/* forks.h - what happens on disk between two rounds of population based training: members
 * become forks of better ones.
 *
 * Order    The round is in rounds.csv before its first fork is made. No run goes on
 *          before all forks are made, so that each fork finds the checkpoint that it
 *          begins with. A fork is made under <study>/.forks and renamed when it is
 *          complete. The runs that it replaces are removed after that, unless `keep` is
 *          true. If the process dies at any moment, the next call does what is left.
 */
#ifndef SUPERVISOR_STUDY_FORKS_H
#define SUPERVISOR_STUDY_FORKS_H

#include "supervisor/begin/fork.h"
#include "supervisor/study/lineage.h"

/* Makes the missing forks after the last round that is over, and removes the runs that
 * were replaced after any round. dir: the study's folder. with: `binaries`, `argc`,
 * `argv`, `env_names` and `on_skipped` for fork_run. ERR_NOT_FOUND: a checkpoint was
 * removed; other errors as fork_run. */
int study_forks_make(const struct lineage *l, const char *dir,
                     const struct fork_args *with, struct err *err);

#endif
