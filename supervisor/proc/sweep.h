/* sweep.h - kills and reaps orphans: processes that agents started and left behind.
 *
 * Supervisor, sweeper and keeper are child sub-reapers: a descendant that loses its parent
 * becomes a child of the nearest of them, even if it left its agent's session. libuv does not
 * reap such children, and waitpid(-1) would take libuv's own children from it. So this module
 * finds them in /proc (as the children of our threads or, if the kernel does not list these, by
 * their parent) and reaps one pid at a time. Allocates nothing.
 */
#ifndef SUPERVISOR_PROC_SWEEP_H
#define SUPERVISOR_PROC_SWEEP_H

#include "common/err/err.h"

#include <stddef.h>
#include <sys/types.h>

/* True for children that another module knows and reaps. */
typedef int (*sweep_owned_fn)(void *ctx, pid_t pid);

/* Makes this process a child sub-reaper. */
int sweep_enable(struct err *err);
/* Sends SIGKILL to every child that is not owned, and reaps those already dead. Returns the
 * number of children found. Call again until that is 0: children of a dead process become
 * ours. */
size_t sweep_adopted(sweep_owned_fn owned, void *ctx);
/* The number of other processes of this user that were started with the variable set to value
 * in their environment, and that have not ended. */
size_t sweep_count(const char *variable, const char *value);

#endif
