/* keep.h - runs a command as a supervisor below a keeper (supervisor/proc/keeper.h). */
#ifndef SUPERVISOR_CLI_KEEP_H
#define SUPERVISOR_CLI_KEEP_H

#include "supervisor/cli/cli.h"

/* Forks the keeper and the supervisor. Returns 1 in the supervisor, with cli->keeper set:
 * the command continues there. Returns 0 with the exit code in *ret_code in the keeper,
 * after the supervisor has ended, and, with `detach`, in the launcher, as soon as the
 * run's first round is done or the run has ended. Call it before the command opens
 * anything. */
int cli_keep(struct cli *cli, int detach, int *ret_code);

#endif
