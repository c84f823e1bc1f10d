/* run_remove.h - removes runs, as a whole.
 *
 * A run is first renamed to .rm-<name>-<pid> in the same folder: from then on no command
 * finds it. The process that removes it holds its lock, which is the last file to be
 * removed. The leftovers of an interrupted removal are found by that name and by the run's
 * mark (run_dir_mark), those of a run that was being made, too.
 * What is removed is the directory that was opened at the beginning, even if somebody puts
 * another one in its place meanwhile (ERR_STATE, before anything is removed).
 */
#ifndef SUPERVISOR_RUNDIR_RUN_REMOVE_H
#define SUPERVISOR_RUNDIR_RUN_REMOVE_H

#include "common/err/err.h"

/* ERR_ARG: the path is a link. */
int run_remove_check(const char *path, struct err *err);
/* path: a run's directory, not a link to one (ERR_ARG). ERR_STATE: the run is live. Also
 * finishes interrupted removals in the folder that holds it; a failure is only logged. */
int run_remove(const char *path, struct err *err);
/* Finishes interrupted removals in this folder of runs, if the folder exists. */
int run_remove_leftovers(const char *runs_dir, struct err *err);

#endif
