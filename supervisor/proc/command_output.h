/* command_output.h - runs programs to their ends and keeps what they print, to ask another
 * system something (Slurm, ssh) or to let another program do a part of the work.
 *
 * They have our environment and an empty standard input.
 */
#ifndef SUPERVISOR_PROC_COMMAND_OUTPUT_H
#define SUPERVISOR_PROC_COMMAND_OUTPUT_H

#include "common/wire/cursor.h"
#include "supervisor/proc/program.h"

#define COMMAND_OUTPUT_MAX_BYTES ((size_t)1 << 20) /* what is older is dropped */

struct asked_command { /* does not move while it runs */
    const char *const
        *argv;      /* found by our PATH; read at the start only, argv[0] longer */
    char *output;   /* at its end: what it wrote to stdout and stderr, free() */
    struct err err; /* code 0: none */
    struct program program; /* program_kill ends it; private besides, as what follows */
    const char *name;
    int timeout_ms, fd;
    struct wbuf text;
};

/* Starts the program, for at most timeout_ms. All but argv is zero before. -errno, as in err. */
int command_begin(struct asked_command *c, int timeout_ms);
/* 1 if it is over, and output and err are set: ERR_TIMEOUT, it was killed after timeout_ms;
 * ERR_STATE, its exit code was not 0, with the output's last line. To be called again and again
 * until then. */
int command_look(struct asked_command *c);
/* Kills it, if it runs, and waits for its end. */
void command_cancel(struct asked_command *c);

/* Runs the programs side by side, within a time that they have together. */
void commands_ask(struct asked_command *c, size_t n, int timeout_ms);
/* commands_ask for one program. *ret_output: NULL after an error. */
int command_ask(const char *const *argv, int timeout_ms, char **ret_output,
                struct err *err);
/* The last line of a text that is not empty, without its end; cuts the text there. */
char *command_last_line(char *text);

#endif
