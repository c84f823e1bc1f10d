/* detach.h - starts a run in the background.
 *
 *     launcher, which the caller waits for          keeper, leader of its own session
 *         |<--- report: the first round is over --------|
 *
 * Until the report the run behaves as if it were in the foreground: its messages go to the
 * caller's stderr, interrupts of the launcher are forwarded to it, and if it ends, the
 * launcher exits with its exit code. When it reports, it has closed the caller's terminal
 * and files.
 * Threads  call before any other process or thread exists (keeper.h).
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

/* Forks. Returns 1 in the process that will become the keeper; *ret_fd is the descriptor to
 * report to (close-on-exec). Returns 0 in the launcher once *ret holds the report; if
 * ret->supervisor is 0 instead, the run is over and *ret_code is its exit code. Returns a
 * negative code if the process could not be created. */
int detach_split(int *ret_fd, struct detach_report *ret, int *ret_code, struct err *err);

/* Redirects stdin, stdout and stderr to /dev/null. Allocates nothing. */
void detach_stdio(void);
/* Sends the report and closes fd. Allocates nothing. */
void detach_report(int fd, const struct detach_report *r);

#endif
