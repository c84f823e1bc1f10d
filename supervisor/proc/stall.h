/* stall.h - says what a process that does not go on waits for. Allocates nothing.
 *
 * Source   /proc/<pid>/stat and status, which everybody may read; wchan and syscall only of
 *          processes that the caller could trace: a supervisor's are readable by root alone.
 */
#ifndef SUPERVISOR_PROC_STALL_H
#define SUPERVISOR_PROC_STALL_H

#include <sys/types.h>

#define STALL_TEXT_BYTES 160

/* Whether the process is stopped by a signal, or held by a debugger: it cannot answer. */
int stall_is_stopped(pid_t pid);
/* Whether it is stopped by a signal, SIGSTOP or ^Z: SIGCONT continues it. */
int stall_is_suspended(pid_t pid);
/* The process that traces it; 0: none. */
pid_t stall_tracer(pid_t pid);
/* "it was stopped by a signal: `kill -CONT 4711` continues it", "it waits for a disk or
 * another device (in fdatasync)". "it has ended" if there is no such process. Returns ret. */
const char *stall_text(pid_t pid, char ret[STALL_TEXT_BYTES]);

#endif
