/* sweep.h - processes that agents left behind.
 *
 * Supervisor and keeper are child sub-reapers: whatever loses its parent below one
 * becomes its child, also what left its agent's session. libuv never reaps such children,
 * and a waitpid(-1) would steal libuv's own; so they are found in /proc (as the children
 * of our threads, or, where the kernel lists none, by their parent) and reaped one pid at
 * a time. Nothing here allocates.
 */
#ifndef SUPERVISOR_PROC_SWEEP_H
#define SUPERVISOR_PROC_SWEEP_H

#include "common/err/err.h"

#include <stddef.h>
#include <sys/types.h>

/* True for children that are known, and reaped by others. */
typedef int (*sweep_owned_fn)(void *ctx, pid_t pid);

/* Makes this process a child sub-reaper. */
int sweep_enable(struct err *err);
/* Sends SIGKILL to every child that is not owned and reaps those already dead. Returns
 * how many it met: call again until that is 0, for the dead leave children of their own.
 */
size_t sweep_adopted(sweep_owned_fn owned, void *ctx);
/* Sends SIGKILL to every process of this machine, but this one, in whose environment the
 * variable was set to value when its program began, or that holds a pipe of pipe_marks.h.
 * Returns how many it met. */
size_t sweep_marked(const char *variable, const char *value);

#endif
