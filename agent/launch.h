/* launch.h - how every child of the supervisor starts, agents and foreign commands alike.
 *
 * A child must not outlive the run, must not hold a pipe that is not its own, and must
 * not be the first the system's memory killer takes the supervisor for. Called first
 * thing in main, before anything is opened.
 */
#ifndef AGENT_LAUNCH_H
#define AGENT_LAUNCH_H

#include "common/err/err.h"

#include <sys/types.h>

struct launch {
    pid_t parent; /* who must be our parent still */
    int keep_fds; /* descriptors 0 .. keep_fds-1 stay open, all others are closed */
};

/* Parent-death signal (SIGKILL), then the check that the parent is still there: it may
 * have died in between. Own session, descriptor 0 from /dev/null and 1 to stderr, the
 * others closed and at most 1024 of them, no core files, likelier than the supervisor to
 * be killed for memory, no signal blocked or ignored, and an environment of PATH, HOME,
 * PYTHONHASHSEED, LANG=C, OPENBLAS_NUM_THREADS=1 and BROOD_* alone. ERR_STATE: the parent
 * is gone. */
int launch_prepare(const struct launch *l, struct err *err);

/* `launch <parent pid> [--keep N] -- command [args...]`: prepares and executes. Returns
 * an exit code, and only if that failed. argv[0] is "launch". */
int launch_main(int argc, char **argv);

/* A pid as text. ERR_ARG. */
int launch_parse_pid(const char *text, pid_t *ret, struct err *err);

#endif
