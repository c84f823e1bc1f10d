/* leaving_agent.c - brood-agent that leaves three processes behind in sessions of their
 * own: a child and an orphan, deaf to SIGTERM and holding its descriptors, and one without
 * its environment, called "left-behind". */
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

static void leave_without_environment(void)
{
    static char name[] = "left-behind", seconds[] = "1000000";
    char *argv[] = {name, seconds, NULL}, *envp[] = {NULL};

    if (fork() != 0)
        return;
    (void)setsid();
    (void)execve("/bin/sleep", argv, envp);
    _exit(1);
}

int main(int argc, char **argv)
{
    leave_without_environment();
    leave(0);
    leave(1);
    return agent_main(argc, argv, NULL);
}
