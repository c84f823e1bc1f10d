#include "supervisor/proc/signals.h"

#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>

const char *signal_name(int signum, char ret[SIGNAL_NAME_BYTES])
{
    const char *abbrev = sigabbrev_np(signum);

    if (abbrev != NULL)
        (void)snprintf(ret, SIGNAL_NAME_BYTES, "SIG%s", abbrev);
    else
        (void)snprintf(ret, SIGNAL_NAME_BYTES, "SIG%d", signum);
    return ret;
}

int signal_is_ignored(int signum)
{
    struct sigaction is;

    return (signum == SIGHUP || signum == SIGINT) && sigaction(signum, NULL, &is) == 0 &&
           is.sa_handler == SIG_IGN;
}

int signals_watch(const int *signums, size_t n)
{
    sigset_t set;

    (void)sigemptyset(&set);
    for (size_t i = 0; i < n; i++)
        (void)sigaddset(&set, signums[i]);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

void stop_signals_get(sigset_t *ret)
{
    static const int all[] = {SIGINT, SIGTERM, SIGHUP};

    (void)sigemptyset(ret);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (!signal_is_ignored(all[i]))
            (void)sigaddset(ret, all[i]);
}

int stop_signals_watch(void)
{
    sigset_t blocked, set;

    (void)sigprocmask(SIG_SETMASK, NULL, &blocked);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    return sigismember(&blocked, SIGTERM) ? signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)
                                          : -1;
}

int stop_signal_is_pending(void)
{
    sigset_t waiting;

    (void)sigpending(&waiting);
    return sigismember(&waiting, SIGINT) || sigismember(&waiting, SIGTERM);
}
