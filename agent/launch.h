/* launch.h - how all children of the supervisor start, agents and external commands
 * alike.
 *
 * A child must not outlive the run, must not inherit the pipes of other processes, and
 * must be killed before the supervisor when memory runs out. Called first in main, before
 * anything is opened.
 */
#ifndef AGENT_LAUNCH_H
#define AGENT_LAUNCH_H

#include "common/err/err.h"

#include <sys/types.h>

struct launch {
    pid_t parent;   /* expected parent process */
    int keep_fds;   /* descriptors 0 .. keep_fds-1 stay open, all others are closed */
    int keep_input; /* keep descriptor 0 and the inherited environment */
    int hides;      /* nobody may look into this process (confine_memory) */
};

/* Sets the parent-death signal (SIGKILL), then checks that the parent still exists, as it
 * may have died in between. Then: own session, descriptor 0 from /dev/null and 1 to
 * stderr, other descriptors closed and limited to 1024, no core files, killed before the
 * supervisor if memory runs out, no signal blocked or ignored. The environment has only
 * PATH, HOME, PYTHONHASHSEED, BROOD_*, LANG=C and OPENBLAS_NUM_THREADS=1; with keep_input
 * it is the inherited one, with the last two set. ERR_STATE: the parent is gone. */
int launch_prepare(const struct launch *l, struct err *err);

/* `launch <parent pid> [--keep N] [--input] -- command [args...]`: prepares and executes the
 * command. Returns only if that failed, with an exit code. argv[0] is "launch". */
int launch_main(int argc, char **argv);

/* Parses a pid. ERR_ARG. */
int launch_parse_pid(const char *text, pid_t *ret, struct err *err);

#endif
