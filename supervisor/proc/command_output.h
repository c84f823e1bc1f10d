/* command_output.h - runs programs to their ends and returns what they print, for commands that
 * ask another system something (Slurm, ssh) before or beside a run.
 */
#ifndef SUPERVISOR_PROC_COMMAND_OUTPUT_H
#define SUPERVISOR_PROC_COMMAND_OUTPUT_H

#include "common/err/err.h"

#include <stddef.h>

#define COMMAND_OUTPUT_MAX_BYTES ((size_t)1 << 20) /* what follows is dropped */

struct asked_command {
    const char *const *argv;
    char *output;   /* what it wrote to stdout and stderr, free(); NULL: see err */
    struct err err; /* code 0: none */
};

/* Runs the programs, found by our PATH, side by side, with our environment and an empty standard
 * input. c: output and err are zero before. Errors: ERR_TIMEOUT, it was killed after timeout_ms,
 * which all of them have together; ERR_STATE, its exit code was not 0, with the output's last
 * line; -errno, it could not be started. */
void commands_ask(struct asked_command *c, size_t n, int timeout_ms);
/* commands_ask for one program. *ret_output: NULL after an error. */
int command_ask(const char *const *argv, int timeout_ms, char **ret_output,
                struct err *err);
/* The last line of a text that is not empty, without its end; cuts the text there. */
char *command_last_line(char *text);

#endif
