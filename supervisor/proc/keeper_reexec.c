#include "supervisor/proc/keeper_reexec.h"

#include "common/mem/xmalloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VARIABLE "BROOD_KEEPER_AGAIN"

int keeper_resume_task(struct keeper_task *ret)
{
    const char *text = getenv(VARIABLE);
    int at = 0;

    *ret = (struct keeper_task){0};
    if (text == NULL ||
        sscanf(text, "%d@%" SCNu64 "@%d@%u@%" SCNu64 "@%n", &ret->deaths, &ret->from,
               &ret->committed, &ret->place, &ret->folder, &at) != 5 ||
        text[at] != '/')
        return 0;
    (void)snprintf(ret->path, sizeof(ret->path), "%s", text + at);
    return 1;
}

void keeper_reexec_init(struct keeper_reexec *a)
{
    size_t n = 0, to = 0;

    while (environ[n] != NULL)
        n++;
    a->environment = xcalloc(n + 2, sizeof(*a->environment));
    a->environment[to++] = a->variable;
    for (size_t i = 0; i < n; i++)
        if (strncmp(environ[i], VARIABLE "=", sizeof(VARIABLE)) != 0)
            a->environment[to++] = environ[i];
}

void keeper_reexec_done(struct keeper_reexec *a)
{
    free(a->environment);
    a->environment = NULL;
}

void keeper_reexec(struct keeper_reexec *a, char *const *argv,
                   const struct keeper_task *task)
{
    (void)snprintf(a->variable, sizeof(a->variable),
                   VARIABLE "=%d@%" PRIu64 "@%d@%u@%" PRIu64 "@%s", task->deaths,
                   task->from, task->committed, task->place, task->folder, task->path);
    (void)execve("/proc/self/exe", argv, a->environment);
}
