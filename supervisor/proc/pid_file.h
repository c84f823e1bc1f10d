/* pid_file.h - reads files of a process in /proc. Allocates nothing.
 *
 * Source   proc(5)
 */
#ifndef SUPERVISOR_PROC_PID_FILE_H
#define SUPERVISOR_PROC_PID_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Reads the beginning of /proc/<pid>/<file> and terminates it. Returns its length, or -1 if
 * the file cannot be read. */
ssize_t pid_file_read(pid_t pid, const char *file, char *ret, size_t size);

struct pid_stat {
    char state; /* R, S, D, T, t, Z, ... */
    pid_t parent;
    unsigned long ticks; /* of processor time, user and system */
    uint64_t resident_bytes;
};

/* -1: there is no such process. */
int pid_stat_read(pid_t pid, struct pid_stat *ret);

/* Whether the process has an environment, or will have one in a moment: in the middle of execve
 * /proc/<pid>/environ is empty. Not for kernel threads and zombies. Only for processes whose
 * environment the caller may read. */
int pid_has_environment(pid_t pid);

#endif
