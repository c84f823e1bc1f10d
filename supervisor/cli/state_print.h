/* state_print.h - a directory's `checkpoint` file on stdout. */
#ifndef SUPERVISOR_CLI_STATE_PRINT_H
#define SUPERVISOR_CLI_STATE_PRINT_H

#include "common/err/err.h"

/* path: a directory, or a state file of any name. A line for each checkpoint it names,
 * the newest first: what is written there, and where that is now; or one object. Errors
 * of ckpt_state_load. */
int state_print(const char *path, int json, struct err *err);

#endif
