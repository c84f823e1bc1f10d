/* What the keeper means for a run: its end, and the stops of the terminal's job. */
#include "supervisor/run/training_internal.h"

#include "common/err/check.h"
#include "common/log/log.h"
#include "supervisor/proc/proc.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

/* Nobody is left to see it. */
#define KEEPER_GONE_EXIT (128 + SIGKILL)

/* As if it had been killed itself: no checkpoint is finished, no file is closed. */
static void on_keeper_gone(uv_poll_t *poll, int status, int events)
{
    struct training *t = poll->data;

    agent_table_end(t->agents);
    log_error("the keeper is gone: ended at once");
    _exit(KEEPER_GONE_EXIT);
}

/* Agents and environments first: they would compute on, or wait at full pipes. */
static void on_terminal_stop(uv_signal_t *handle, int signum)
{
    struct training *t = handle->data;

    journal_write(t->journal, training_steps(t), "signal", "name", strsignal(signum),
                  NULL);
    proc_signal_all(SIGSTOP);
    (void)raise(SIGSTOP);
    proc_signal_all(SIGCONT);
}

void training_watch_keeper(struct training *t)
{
    CHECK(uv_signal_init(&t->loop, &t->terminal_stop) == 0);
    t->terminal_stop.data = t;
    CHECK(uv_signal_start(&t->terminal_stop, on_terminal_stop, SIGTSTP) == 0);
    t->has_keeper = t->args->keeper != NULL && t->args->keeper->fd >= 0;
    if (!t->has_keeper)
        return;
    CHECK(uv_poll_init(&t->loop, &t->keeper, t->args->keeper->fd) == 0);
    t->keeper.data = t;
    CHECK(uv_poll_start(&t->keeper, UV_READABLE | UV_DISCONNECT, on_keeper_gone) == 0);
}

void training_unwatch_keeper(struct training *t)
{
    uv_close((uv_handle_t *)&t->terminal_stop, NULL);
    if (t->has_keeper)
        uv_close((uv_handle_t *)&t->keeper, NULL);
}
