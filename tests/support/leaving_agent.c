/* leaving_agent.c - brood-agent that leaves five processes behind, in sessions of their
 * own: a child and an orphan that ignore SIGTERM and keep its descriptors; "left-behind",
 * without its environment; "left-bare", also without descriptors; and "left-large", whose
 * environment is large. */
#include "agent/agent.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static void leave_program(char *name, char **envp, int closes_all)
{
    static char seconds[] = "1000000";
    char *argv[] = {name, seconds, NULL};

    if (fork() != 0)
        return;
    (void)setsid();
    if (closes_all)
        (void)close_range(0, ~0U, 0);
    (void)execve("/bin/sleep", argv, envp);
    _exit(1);
}

/* In this environment the mark of the run, or of its node, comes after a long variable. */
static void leave_large(void)
{
    static const char *const names[] = {"BROOD_MARK", "BROOD_NODE_MARK"};
    static char name[] = "left-large", filler[100000], marks[2][256];
    char *envp[4] = {filler};

    memset(filler, 'x', sizeof(filler) - 1);
    filler[6] = '=';
    for (int i = 0, n = 1; i < 2; i++) {
        const char *value = getenv(names[i]);

        (void)snprintf(marks[i], sizeof(marks[i]), "%s=%s", names[i], value);
        if (value != NULL)
            envp[n++] = marks[i];
    }
    leave_program(name, envp, 1);
}

int main(int argc, char **argv)
{
    static char behind[] = "left-behind", bare[] = "left-bare";
    char *none[] = {NULL};

    leave_program(behind, none, 0);
    leave_program(bare, none, 1);
    leave_large();
    leave(0);
    leave(1);
    return agent_main(argc, argv, NULL);
}
