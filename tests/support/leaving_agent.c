/* leaving_agent.c - brood-agent that leaves two processes behind in sessions of their
 * own, deaf to SIGTERM and holding its descriptors: a child, and an orphan. */
#include "agent/agent.h"

#include <signal.h>
#include <unistd.h>

static void leave(int orphan)
{
    if (fork() != 0)
        return;
    (void)setsid();
    (void)signal(SIGTERM, SIG_IGN);
    if (orphan && fork() != 0)
        _exit(0);
    for (;;)
        (void)pause();
}

int main(int argc, char **argv)
{
    leave(0);
    leave(1);
    return agent_main(argc, argv, NULL);
}
