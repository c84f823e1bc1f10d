/* sweep.h - processes that agents left behind.
 *
 * The supervisor is a child sub-reaper: whatever loses its parent below it becomes its
 * child, also what left its agent's session. libuv never reaps such children, and a
 * waitpid(-1) would steal libuv's own; so they are found in /proc, by their parent, and
 * reaped one pid at a time.
 */
#ifndef SUPERVISOR_PROC_SWEEP_H
#define SUPERVISOR_PROC_SWEEP_H

#include "common/err/err.h"

#include <stddef.h>
#include <sys/types.h>

/* True for children that libuv started and has not reaped. */
typedef int (*sweep_owned_fn)(void *ctx, pid_t pid);

/* Makes this process a child sub-reaper. */
int sweep_enable(struct err *err);
/* Sends SIGKILL to every child that is not owned and reaps those already dead. Returns
 * how many it met: call again until that is 0, for the dead leave children of their own.
 */
size_t sweep_adopted(sweep_owned_fn owned, void *ctx);

#endif
