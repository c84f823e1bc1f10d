/* keep.h - commands that run as a supervisor, below a keeper. */
#ifndef SUPERVISOR_CLI_KEEP_H
#define SUPERVISOR_CLI_KEEP_H

#include "supervisor/cli/cli.h"

/* From here on the command goes on in a supervisor: returns 1 there, with cli->keeper. In
 * the keeper, when all is over, and with detach in the launcher, when the run is under
 * way or over: 0, with the exit code in *ret_code. Before anything else was begun. */
int cli_keep(struct cli *cli, int detach, int *ret_code);

#endif
