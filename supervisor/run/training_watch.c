/* Watches for signals, the exit of the keeper, other processes that write to the experience
 * log, and the memory of all processes. */
#include "supervisor/run/training_internal.h"

#include "common/err/check.h"
#include "common/io/beneath.h"
#include "common/log/log.h"
#include "common/mem/size_text.h"
#include "supervisor/proc/resident.h"
#include "supervisor/proc/signals.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* ---- signals ---- */

static void on_reread(void *ctx, const struct training_set_result *result,
                      const struct err *why)
{
    struct training *t = ctx;

    if (why != NULL) {
        training_event(t, REFUSED, .error = why->msg);
        training_log_error(t, "config.yaml is not applied: %s", why->msg);
    } else if (*result->waits != '\0') {
        training_log(t, "pending until a respawn of its agent: %s", result->waits);
    } else if (*result->changes == '\0') {
        training_log(t, "config.yaml has not changed");
    }
}

/* A run that has failed stays failed, even if a signal cuts its end short. */
static void cut_off(struct training *t, int signum)
{
    if (t->failure.code == 0) {
        t->result->end = TRAINING_CUT_OFF;
        t->result->signum = signum;
    }
    training_feed(t, LIFE_EV_CUT_OFF, NULL);
}

/* Slurm, systemd and others send SIGTERM to all processes of a job: the signal that the
 * keeper forwards and this process's own then count as one interrupt. */
static void take_signal(struct training *t, int signum, pid_t sender)
{
    int *n = &t->signals.n_interrupts[sender == keeper_pid()];
    const int has_terminal = t->args->keeper != NULL && t->args->keeper->has_terminal;

    if (signum == SIGHUP && !has_terminal) { /* config.yaml was edited */
        training_reread(t, on_reread, t);
        return;
    }
    /* An interactive shell sends SIGHUP to its jobs, and the kernel does when that shell ends:
     * a closed terminal is one interrupt. */
    if (signum == SIGHUP && *n > 0)
        return;
    ++*n;
    t->result->is_interrupted = 1;
    training_event(t, SIGNAL, .name = strsignal(signum));
    if (*n > 1) {
        cut_off(t, signum);
    } else if (!life_state_is_ending(t->state)) {
        training_log(
            t, "interrupted (%s): stopping %s; a second interrupt ends the run at once",
            strsignal(signum),
            t->state == LIFE_FULL         ? "within this round"
            : t->state == LIFE_CONNECTING ? "while the nodes start"
                                          : "after this round");
        training_feed(t, LIFE_EV_STOP, NULL);
    }
}

static void on_signals(uv_poll_t *poll, int status, int events)
{
    struct training *t = poll->data;
    struct signalfd_siginfo info;

    while (read(t->signals.fd, &info, sizeof(info)) == sizeof(info))
        take_signal(t, (int)info.ssi_signo, (pid_t)info.ssi_pid);
}

/* Stops agents and environments first: otherwise they would continue to compute, or block
 * on full pipes. */
static void on_terminal_stop(uv_signal_t *handle, int signum)
{
    struct training *t = handle->data;

    training_event(t, SIGNAL, .name = strsignal(signum));
    agent_tables_pause(1);
    (void)raise(SIGSTOP);
    agent_tables_pause(0);
}

int training_take_signals(struct training *t, struct err *err)
{
    sigset_t set;

    stop_signals_get(&set);
    (void)sigprocmask(SIG_BLOCK, &set, NULL); /* a supervisor has them blocked already */
    t->signals.fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return t->signals.fd < 0 ? err_errno(err, "signalfd") : 0;
}

/* ---- the keeper ---- */

/* No process is left that could read this exit code. */
#define KEEPER_EXITED_CODE (128 + SIGKILL)

/* Ends as if by SIGKILL: no checkpoint is finished, no file is closed. */
static void on_keeper_exited(uv_poll_t *poll, int status, int events)
{
    struct training *t = poll->data;

    agent_table_end(t->agents);
    log_error("the keeper has exited: the run ends at once");
    _exit(KEEPER_EXITED_CODE);
}

/* ---- the experience log ----
 *
 * When another process closes the log after having it open for writing, its rows are
 * checked at once, not only before the next checkpoint. The supervisor keeps it open for
 * writing all the time, and the agents never do, so only other processes cause the event. */

static void on_closed_by_others(uv_poll_t *poll, int status, int events)
{
    struct training *t = poll->data;
    char event[4096];

    while (read(t->log_watch.fd, event, sizeof(event)) > 0)
        ;
    if (life_state_is_ending(t->state))
        return;
    log_warn("another process had %s open for writing",
             run_dir_file(t->args->dir, "experience"));
    run_saver_check_log(t->saver);
}

/* An inotify descriptor for the log's IN_CLOSE_WRITE, or -1. */
static int open_log_watch(struct training *t)
{
    const int log = beneath_open(run_dir_file(t->args->dir, "experience"), O_RDONLY, 0);
    const int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    char path[64];
    int failed;

    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", log);
    failed = log < 0 || fd < 0 || inotify_add_watch(fd, path, IN_CLOSE_WRITE) < 0;
    if (failed)
        log_debug("the experience log is not watched: %m");
    if (log >= 0)
        (void)close(log);
    if (failed && fd >= 0)
        (void)close(fd);
    return failed ? -1 : fd;
}

/* If inotify is not available, the log is still checked before each checkpoint. */
void training_watch_log(struct training *t)
{
    const int fd = t->log_watch.fd = open_log_watch(t);

    if (fd < 0)
        return;
    CHECK(uv_poll_init(&t->loop, &t->log_watch.poll, fd) == 0);
    t->log_watch.poll.data = t;
    CHECK(uv_poll_start(&t->log_watch.poll, UV_READABLE, on_closed_by_others) == 0);
}

static void on_log_unwatched(uv_handle_t *handle)
{
    struct training *t = handle->data;

    (void)close(t->log_watch.fd);
}

/* ---- memory ---- */

enum { MEMORY_EVERY_MS = 200 };

/* The supervisor maps the agents' blocks, too; they are counted with the agents. */
static int64_t memory_of_all(struct training *t)
{
    struct agent_info info;
    int64_t sum = resident_own_bytes(getpid());

    for (size_t i = 0; t->agents != NULL && i < t->specs.n; i++) {
        agent_table_info(t->agents, i, &info);
        sum += info.rss_bytes > 0 ? info.rss_bytes : 0;
    }
    for (size_t i = 0; t->env_host != NULL && i < env_host_count(t->env_host); i++) {
        env_host_info(t->env_host, i, &info);
        sum += info.rss_bytes > 0 ? info.rss_bytes : 0;
    }
    return sum;
}

static void on_memory_timer(uv_timer_t *timer)
{
    struct training *t = timer->data;
    const int64_t limit = t->args->memory_limit_bytes;
    const int64_t sum = life_state_is_ending(t->state) ? 0 : memory_of_all(t);
    struct err err = {0};

    if (sum <= limit)
        return;
    (void)err_set(
        &err, ERR_LIMIT,
        "the run's processes take %s of memory together, its memory limit is %s",
        size_text_limit((uint64_t)sum, (char[SIZE_TEXT_BYTES]){0}),
        size_text_limit((uint64_t)limit, (char[SIZE_TEXT_BYTES]){0}));
    training_fail(t, &err);
}

/* ---- begin and end ---- */

void training_watch(struct training *t)
{
    CHECK(uv_poll_init(&t->loop, &t->signals.poll, t->signals.fd) == 0);
    t->signals.poll.data = t;
    CHECK(uv_poll_start(&t->signals.poll, UV_READABLE, on_signals) == 0);
    CHECK(uv_signal_init(&t->loop, &t->signals.terminal_stop) == 0);
    t->signals.terminal_stop.data = t;
    CHECK(uv_signal_start(&t->signals.terminal_stop, on_terminal_stop, SIGTSTP) == 0);

    t->keeper.is_watched = t->args->keeper != NULL && t->args->keeper->fd >= 0;
    if (t->keeper.is_watched) {
        CHECK(uv_poll_init(&t->loop, &t->keeper.poll, t->args->keeper->fd) == 0);
        t->keeper.poll.data = t;
        CHECK(uv_poll_start(&t->keeper.poll, UV_READABLE | UV_DISCONNECT,
                            on_keeper_exited) == 0);
    }
    training_send_watchdog(t);

    if (t->args->memory_limit_bytes > 0) {
        CHECK(uv_timer_init(&t->loop, &t->memory_watch) == 0);
        t->memory_watch.data = t;
        CHECK(uv_timer_start(&t->memory_watch, on_memory_timer, 0, MEMORY_EVERY_MS) == 0);
    }
}

void training_unwatch(struct training *t)
{
    uv_close((uv_handle_t *)&t->signals.poll, NULL); /* release() closes its descriptor */
    uv_close((uv_handle_t *)&t->signals.terminal_stop, NULL);
    if (t->memory_watch.data != NULL)
        uv_close((uv_handle_t *)&t->memory_watch, NULL);
    if (t->keeper.is_watched)
        uv_close((uv_handle_t *)&t->keeper.poll, NULL);
    if (t->log_watch.fd >= 0)
        uv_close((uv_handle_t *)&t->log_watch.poll, on_log_unwatched);
}
