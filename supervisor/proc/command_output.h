/* command_output.h - runs a program to its end and returns what it prints, for commands that
 * ask another system something (Slurm) before or beside a run.
 */
#ifndef SUPERVISOR_PROC_COMMAND_OUTPUT_H
#define SUPERVISOR_PROC_COMMAND_OUTPUT_H

#include "common/err/err.h"

#define COMMAND_OUTPUT_MAX_BYTES ((size_t)1 << 20) /* what follows is dropped */

/* Runs the program, found by our PATH, with our environment and an empty standard input.
 * *ret_output: what it wrote to stdout and stderr, a string, free(); *ret_status: as of waitpid.
 * The program is killed after timeout_ms (ERR_TIMEOUT). -errno: it could not be started. */
int command_output(const char *const *argv, int timeout_ms, char **ret_output,
                   int *ret_status, struct err *err);
/* The same, where any exit code but 0 is an error, with the output's last line. */
int command_ask(const char *const *argv, int timeout_ms, char **ret_output,
                struct err *err);
/* The last line of a text that is not empty, without its end; cuts the text there. */
char *command_last_line(char *text);

#endif
