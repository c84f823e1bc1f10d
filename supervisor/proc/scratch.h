/* scratch.h - a folder for files of a node, which last as long as its processes.
 *
 * The keeper chooses the path, and the processes that it forks have it in their environment. The
 * node makes the folder when it first needs it. Sweeper and keeper remove it after everything
 * else has ended (sweeper_end_all). If both and the node are killed at once it stays, and is
 * removed when another node of the user makes one beside it: the owner holds a lock.
 *
 * Where     $TMPDIR, /var/tmp or /tmp; of mode 0700.
 * Threads   main thread.
 */
#ifndef SUPERVISOR_PROC_SCRATCH_H
#define SUPERVISOR_PROC_SCRATCH_H

#include "common/err/err.h"

/* To be called by the keeper. mark: its own, which no other keeper on this machine has. */
void scratch_name(const char *mark);
/* Makes the folder of this process's keeper; *ret: its path, borrowed. Returns a descriptor whose
 * lock says that it is used. ERR_STATE: there is no keeper; -errno. */
int scratch_make(const char **ret, struct err *err);
/* Removes it, if it is there. */
void scratch_remove(void);

#endif
