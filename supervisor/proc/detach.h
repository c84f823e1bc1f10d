/* detach.h - a run that nobody stays in front of.
 *
 *     launcher, which the caller waits for          keeper, leads a session of its own
 *         |<--- report: the first round is over --------|
 *
 * Until the report the run is still in front of its caller: what it has to say about its
 * beginning goes to the caller's stderr, interrupts of the launcher are passed on, and if
 * it ends before, its exit code is the launcher's. With the report it has let go of the
 * caller's terminal and files.
 * Threads  before any other process or thread is there (keeper.h).
 */
#ifndef SUPERVISOR_PROC_DETACH_H
#define SUPERVISOR_PROC_DETACH_H

#include "common/err/err.h"

#include <limits.h>
#include <sys/types.h>

struct detach_report {
    pid_t supervisor, keeper;
    char path[PATH_MAX]; /* of the run */
};

/* Returns 1 in the process that is to become the keeper, with the descriptor to report to
 * (which programs it executes do not have); 0 in the launcher: *ret holds the report, or,
 * with supervisor 0, the run is over and *ret_code its exit code. A negative code: no
 * process could be had. */
int detach_split(int *ret_fd, struct detach_report *ret, int *ret_code, struct err *err);

/* Stdin, stdout and stderr are no longer the caller's, but nothing; allocates nothing. */
void detach_stdio(void);
/* Reports, and closes fd; allocates nothing. */
void detach_report(int fd, const struct detach_report *r);

#endif
