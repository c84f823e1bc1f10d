#include "supervisor/proc/signals.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

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
