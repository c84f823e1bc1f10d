/* run_remove.h - runs go, whole.
 *
 * A run is renamed first, to .rm-<name>-<pid> beside it: from then on there is no such
 * run, and whoever removes it holds its lock, the last of its files. What a removal that
 * was cut off left is found by that name.
 */
#ifndef SUPERVISOR_RUN_RUN_REMOVE_H
#define SUPERVISOR_RUN_RUN_REMOVE_H

#include "common/err/err.h"

/* path: a run's directory; no link to one (ERR_ARG). ERR_STATE: it is live. */
int run_remove(const char *path, struct err *err);
/* Finishes what was cut off in this folder of runs; no such folder: nothing. */
int run_remove_leftovers(const char *runs_dir, struct err *err);

#endif
