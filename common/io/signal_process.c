#include "common/io/signal_process.h"

#include <errno.h>
#include <signal.h>
#include <sys/pidfd.h>

static int refuse(void)
{
    errno = EINVAL;
    return -1;
}

int signal_process(pid_t pid, int signum)
{
    return pid > 1 ? kill(pid, signum) : refuse();
}

int signal_group(pid_t pgid, int signum)
{
    return pgid > 1 ? kill(-pgid, signum) : refuse();
}

int signal_pidfd(int pidfd, pid_t pid, int signum)
{
    return pid > 1 ? pidfd_send_signal(pidfd, signum, NULL, 0) : refuse();
}

int process_exists(pid_t pid)
{
    return pid > 0 && (kill(pid, 0) == 0 || errno != ESRCH);
}
