#include "supervisor/proc/signal_ignored.h"

#include <signal.h>
#include <stddef.h>

int signal_is_ignored(int signum)
{
    struct sigaction is;

    return (signum == SIGHUP || signum == SIGINT) && sigaction(signum, NULL, &is) == 0 &&
           is.sa_handler == SIG_IGN;
}
