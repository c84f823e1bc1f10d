/* The processes that a foreign environment of the run lives in. */
#include "supervisor/run/training_internal.h"

#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

/* How a process ended last. */
struct training_env_exit {
    char *process, *text;
    struct training_env_exit *next;
};

static void note_exit(struct training *t, const char *process,
                      const struct agent_event *e)
{
    struct training_env_exit *x = t->env_exits;

    while (x != NULL && strcmp(x->process, process) != 0)
        x = x->next;
    if (x == NULL) {
        x = xcalloc(1, sizeof(*x));
        x->process = xstrdup(process);
        x->next = t->env_exits;
        t->env_exits = x;
    }
    training_note_exit(&x->text, e);
}

const char *training_env_last_exit(const struct training *t, const char *process)
{
    const struct training_env_exit *x = t->env_exits;

    while (x != NULL && strcmp(x->process, process) != 0)
        x = x->next;
    return x != NULL ? x->text : NULL;
}

static void on_event(void *ctx, const struct agent_event *e, const char *process)
{
    struct training *t = ctx;

    training_note_process(t, "environment", process, e);
    if (e->kind == AGENT_EVENT_EXIT)
        note_exit(t, process, e);
    else if (e->kind == AGENT_EVENT_READY)
        training_settle_env_respawn(t, process);
}

static void on_inexact(void *ctx, const char *line)
{
    struct training *t = ctx;

    training_complain(t, "%s", line);
    journal_write(t->journal, training_steps(t), "inexact", "why", line, NULL);
}

static void on_failed(void *ctx, const struct err *why)
{
    training_fail(ctx, why);
}

static void on_stopped(void *ctx)
{
    training_feed(ctx, LIFE_EV_ENVIRONMENTS_ENDED, NULL);
}

void training_make_env_host(struct training *t)
{
    const struct env_host_args args = {.loop = &t->loop,
                                       .agent_exe_fd = t->agent_fd,
                                       .logs = run_dir_file(t->args->dir, "logs"),
                                       .on_event = on_event,
                                       .on_inexact = on_inexact,
                                       .on_failed = on_failed,
                                       .on_stopped = on_stopped,
                                       .ctx = t};

    t->env_host = env_host_new(&args);
}

void training_free_env_host(struct training *t)
{
    struct training_env_exit *x;

    env_host_free(t->env_host);
    while ((x = t->env_exits) != NULL) {
        t->env_exits = x->next;
        free(x->process);
        free(x->text);
        free(x);
    }
}
