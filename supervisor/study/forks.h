/* forks.h - what happens on disk between two rounds of population based training: members
 * become forks of better ones.
 *
 * Order    rounds.csv has the round before the first fork is made, and no run goes on before
 *          all forks are there, so that each fork finds the checkpoint that it begins with. A
 *          fork is made under <study>/.forks and renamed when it is whole. The runs that it
 *          replaces are removed after that, unless `keep` is true. A death at any moment is
 *          repaired by the next call.
 */
#ifndef SUPERVISOR_STUDY_FORKS_H
#define SUPERVISOR_STUDY_FORKS_H

#include "supervisor/run/fork.h"
#include "supervisor/study/lineage.h"

/* Makes the forks after the last round that is over that are not there yet; removes the runs
 * that were replaced after any round. dir: the study's folder. with: `binaries`, `argc`,
 * `argv`, `env_names` and `on_skipped` for fork_run. ERR_NOT_FOUND: a checkpoint was removed;
 * as fork_run. */
int study_forks_make(const struct lineage *l, const char *dir,
                     const struct fork_args *with, struct err *err);

#endif
