#include "supervisor/ask/ask.h"

#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "supervisor/chan/event_loop.h"
#include "supervisor/proc/signals.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_OPENS = 3 };

struct ask {
    size_t n;
    struct agent_spec *specs; /* [n], copies of the caller's */
    void *ctx;                /* passed to the pack_configure of `specs` */
    uv_loop_t loop;
    int has_loop;
    uv_poll_t signals;
    int signals_fd;             /* from stop_signals_watch; -1: signals are not watched */
    struct agent_table *agents; /* NULL: creating it failed, or n is 0 */
    int is_done, is_stopped;
    struct err failure; /* the first one; code 0: none */
    int process_failed; /* the failure came from a process, not from ask_fail */
    int was_killed;     /* that process died by a signal that we did not send */
};

static void on_ready(void *ctx)
{
    ask_done(ctx);
}

/* A process's last exit is reported before its failure; text: why it was ended by us. */
static void on_event(void *ctx, const struct agent_event *e)
{
    struct ask *a = ctx;

    if (e->kind == AGENT_EVENT_EXIT && a->failure.code == 0)
        a->was_killed = e->signal != 0 && e->text == NULL;
}

static void on_failed(void *ctx, size_t agent, const struct err *report)
{
    struct ask *a = ctx;

    (void)agent; /* the message of `report` names it */
    a->process_failed |= a->failure.code == 0;
    ask_fail(a, report);
}

static void on_stopped(void *ctx)
{
    ((struct ask *)ctx)->is_stopped = 1;
}

static void pack_configure(void *ctx, size_t agent, int restored, struct msg_out *o)
{
    const struct ask *a = ctx;

    a->specs[agent].pack_configure(a->ctx, agent, restored, o);
}

static int start(struct ask *a, int agent_exe_fd, struct err *err)
{
    const struct agent_callbacks cb = {.on_event = on_event,
                                       .on_ready = on_ready,
                                       .on_failed = on_failed,
                                       .on_stopped = on_stopped,
                                       .ctx = a};
    struct agent_spec *specs = xcalloc(a->n, sizeof(*specs));
    int rc;

    memcpy(specs, a->specs, a->n * sizeof(*specs));
    for (size_t i = 0; i < a->n; i++)
        specs[i].pack_configure = pack_configure;
    rc = agent_table_new(&a->agents, &a->loop, agent_exe_fd, -1, specs, a->n, &cb, err);
    free(specs);
    return rc < 0 ? rc : agent_table_start(a->agents, err);
}

/* Leaves the signal in the descriptor: the code that stops the run reads it. */
static void on_signal(uv_poll_t *poll, int status, int events)
{
    struct err why = {0};

    (void)uv_poll_stop(poll);
    (void)err_set(&why, ERR_INTERRUPTED, "interrupted");
    ask_fail(poll->data, &why);
}

static int open_once(struct ask **ret, const struct ask_args *args, struct err *err)
{
    struct ask *a = xcalloc(1, sizeof(*a));
    int rc;

    *ret = a;
    a->n = args->n;
    a->specs = xcalloc(a->n, sizeof(*a->specs));
    if (a->n > 0)
        memcpy(a->specs, args->specs, a->n * sizeof(*a->specs));
    a->ctx = args->ctx;
    a->signals_fd = -1;
    if ((rc = event_loop_open(&a->loop, err)) < 0)
        return rc;
    a->has_loop = 1;
    a->signals_fd = stop_signals_watch();
    if (a->signals_fd >= 0) {
        CHECK(uv_poll_init(&a->loop, &a->signals, a->signals_fd) == 0);
        a->signals.data = a;
        CHECK(uv_poll_start(&a->signals, UV_READABLE, on_signal) == 0);
    }
    if (a->n == 0)
        return 0;
    rc = start(a, args->agent_exe_fd, err);
    return rc < 0 ? rc : ask_wait(a, err);
}

int ask_open(struct ask **ret, const struct ask_args *args, struct err *err)
{
    struct err why = {0};
    int rc = open_once(ret, args, &why);

    for (int i = 1; i < MAX_OPENS && rc < 0 && ask_process_was_killed(*ret); i++) {
        ask_close(*ret);
        why = (struct err){0};
        rc = open_once(ret, args, &why);
    }
    return rc < 0 ? err_pass(err, &why) : 0;
}

void ask_close(struct ask *a)
{
    if (a == NULL)
        return;
    if (a->agents != NULL)
        agent_table_stop(a->agents, ASK_END_WITHIN_MS);
    while (a->agents != NULL && !a->is_stopped)
        (void)uv_run(&a->loop, UV_RUN_ONCE);
    agent_table_free(a->agents);
    if (a->signals_fd >= 0)
        uv_close((uv_handle_t *)&a->signals, NULL);
    if (a->has_loop)
        (void)uv_run(&a->loop, UV_RUN_DEFAULT);
    if (a->signals_fd >= 0)
        (void)close(a->signals_fd);
    CHECK(!a->has_loop || uv_loop_close(&a->loop) == 0, "a handle was left open");
    free(a->specs);
    free(a);
}

const msgpack_object *ask_answer(const struct ask *a, size_t i)
{
    return &agent_table_description(a->agents, i)->body;
}

int ask_process_failed(const struct ask *a)
{
    return a->process_failed;
}

int ask_process_was_killed(const struct ask *a)
{
    return a->process_failed && a->was_killed;
}

struct agent_table *ask_agents(const struct ask *a)
{
    return a->agents;
}

uv_loop_t *ask_loop(struct ask *a)
{
    return &a->loop;
}

int ask_wait(struct ask *a, struct err *err)
{
    while (!a->is_done && a->failure.code == 0)
        (void)uv_run(&a->loop, UV_RUN_ONCE);
    a->is_done = 0;
    if (a->failure.code < 0)
        return err_pass(err, &a->failure);
    return 0;
}

void ask_done(struct ask *a)
{
    a->is_done = 1;
}

void ask_fail(struct ask *a, const struct err *why)
{
    if (a->failure.code == 0)
        a->failure = *why;
}
