/* alone COMMAND [ARGUMENT...] - runs a command where failures can be injected (alone.h).
 *
 * Exits with the command's exit code, or 128 + n after signal n; with 99 if it left a process.
 * Where there is no such place, it prints a skipped test in TAP and exits with 0. */
#include "tests/support/alone.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CODE_LEFT = 99, CODE_USAGE = 2, CODE_NO_COMMAND = 127, CODE_SIGNALLED = 128 };

static int execute(void *ctx)
{
    char **argv = ctx;

    (void)execvp(argv[0], argv);
    perror(argv[0]);
    return CODE_NO_COMMAND;
}

int main(int argc, char **argv)
{
    struct alone_result r;

    if (argc < 2)
        return CODE_USAGE;
    alone_run(&r, execute, argv + 1);
    if (!r.is_possible) {
        (void)printf("1..0 # SKIP %s\n", r.why);
        return 0;
    }
    if (r.n_left > 0) {
        (void)fprintf(stderr, "alone: %s left %s\n", argv[1], r.why);
        return CODE_LEFT;
    }
    if (WIFSIGNALED(r.status))
        (void)fprintf(stderr, "alone: %s was ended by signal %d\n", argv[1],
                      WTERMSIG(r.status));
    return WIFEXITED(r.status) ? WEXITSTATUS(r.status)
                               : CODE_SIGNALLED + WTERMSIG(r.status);
}
