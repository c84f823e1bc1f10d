/* pipe_marks.h - the pipes that only processes of a run hold, as a mark of theirs.
 *
 * Every process that the supervisor starts gets pipes, and what it starts in turn mostly
 * inherits them: at least stdout and stderr. Who clears its environment, and with it the
 * keeper's mark, still holds them. Their inode numbers stand in memory that keeper,
 * supervisor and sweeper share, so that they outlast the supervisor.
 *
 * Bounds   PIPE_MARKS_MAX at a time; further ones are no marks.
 * Threads  the main thread writes; another process may read at any time.
 */
#ifndef SUPERVISOR_PROC_PIPE_MARKS_H
#define SUPERVISOR_PROC_PIPE_MARKS_H

#include "common/err/err.h"

#include <stdint.h>
#include <sys/types.h>

#define PIPE_MARKS_MAX 8192

/* Before the processes fork that are to share it. */
int pipe_marks_share(struct err *err);
/* The pipe that fd is an end of. Returns its inode, for pipe_marks_remove; 0: it is not
 * marked (nothing is shared, or the table is full). */
uint64_t pipe_marks_add(int fd);
void pipe_marks_remove(uint64_t inode); /* 0: nothing */
/* Does that process hold one of them? Allocates nothing. */
int pipe_marks_held_by(pid_t pid);

#endif
