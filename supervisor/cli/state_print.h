/* state_print.h - prints a directory's `checkpoint` file. */
#ifndef SUPERVISOR_CLI_STATE_PRINT_H
#define SUPERVISOR_CLI_STATE_PRINT_H

#include "common/err/err.h"

/* path: a directory, or a state file of any name. Prints a line per checkpoint, the newest
 * first, with the path as written in the file and the path where the checkpoint is now; or
 * one JSON object. Errors of ckpt_state_load. */
int state_print(const char *path, int json, struct err *err);

#endif
