/* signal_process.h - the only place from which a process of this project signals another.
 *
 * kill(2) takes more than a process: 0 is the caller's group, -1 every process that the user
 * owns, and a lower number a group. The -1 of a failed fork, passed on, has killed a whole
 * machine. So a number that is not one process, or not one group, is refused here, and so is 1:
 * nothing that a process started can have it. scripts/check_signals.py checks that no other
 * file calls kill or one of its kind.
 *
 * Result   0, or -1 with errno; EINVAL: the number is refused, and nothing was signalled.
 */
#ifndef COMMON_IO_SIGNAL_PROCESS_H
#define COMMON_IO_SIGNAL_PROCESS_H

#include <sys/types.h>

/* pid > 1 */
int signal_process(pid_t pid, int signum);
/* All processes of a group. pgid > 1 */
int signal_group(pid_t pgid, int signum);
/* The process that the pidfd holds; pid > 1 is its number. */
int signal_pidfd(int pidfd, pid_t pid, int signum);

/* Whether the process exists, or is a zombie, whoever owns it. It may be 1: in a container, a
 * run's keeper can be. */
int process_exists(pid_t pid);

#endif
