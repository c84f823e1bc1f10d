/* pipe_marks.h - recognises processes of a run by the pipes that they hold.
 *
 * Every process that the supervisor starts gets pipes, and its children mostly inherit
 * them, at least as stdout and stderr. A process that clears its environment, and with it
 * the keeper's mark, still holds them. The inode numbers of the pipes are in memory that
 * keeper, supervisor and sweeper share, so that they outlive the supervisor.
 *
 * Bounds   PIPE_MARKS_MAX pipes at a time; further ones are not marked.
 * Threads  the main thread writes; another process may read at any time.
 */
#ifndef SUPERVISOR_PROC_PIPE_MARKS_H
#define SUPERVISOR_PROC_PIPE_MARKS_H

#include "common/err/err.h"

#include <stdint.h>
#include <sys/types.h>

#define PIPE_MARKS_MAX 8192

/* Creates the table; to be called before the processes that share it are forked. */
int pipe_marks_share(struct err *err);
/* Marks the pipe of which fd is an end. Returns its inode, for pipe_marks_remove; 0: not
 * marked, because there is no shared table or it is full. */
uint64_t pipe_marks_add(int fd);
void pipe_marks_remove(uint64_t inode); /* 0 is ignored */
/* Whether the process holds a marked pipe. Allocates nothing. */
int pipe_marks_held_by(pid_t pid);

#endif
