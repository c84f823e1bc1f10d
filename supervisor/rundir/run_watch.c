#include "supervisor/rundir/run_watch.h"

#include "common/io/monotonic.h"
#include "supervisor/rundir/run_dir.h"
#include "supervisor/rundir/run_record.h"

#include <sys/pidfd.h>
#include <unistd.h>

enum {
    LINGER_MS = 500, /* for supervisor and keeper to exit after the run's end */
    GAP_MS = 3000,   /* between two supervisors, if no keeper is known */
};

static void forget(struct run_watch *w)
{
    for (int i = 0; i < RUN_WATCH_FDS; i++) {
        if (w->fds[i] >= 0)
            (void)close(w->fds[i]);
        w->fds[i] = -1;
    }
}

void run_watch_begin(struct run_watch *w, const char *path)
{
    *w = (struct run_watch){.path = path, .fds = {-1, -1}};
}

void run_watch_end(struct run_watch *w)
{
    forget(w);
}

void run_watch_poll(const struct run_watch *w, struct pollfd ret[RUN_WATCH_FDS])
{
    for (int i = 0; i < RUN_WATCH_FDS; i++)
        ret[i] = (struct pollfd){.fd = w->fds[i], .events = POLLIN};
}

/* A pidfd becomes readable when the process exits; it is then closed. */
static int is_there(struct run_watch *w, int i)
{
    struct pollfd p = {.fd = w->fds[i], .events = POLLIN};

    if (p.fd >= 0 && poll(&p, 1, 0) == 1) {
        (void)close(p.fd);
        w->fds[i] = -1;
    }
    return w->fds[i] >= 0;
}

int run_watch_is_over(struct run_watch *w, int *ret_code)
{
    pid_t pid, keeper;
    const int is_live = run_dir_pids(w->path, &pid, &keeper);
    int code, has_end, is_left, patience_ms;

    /* while a new supervisor starts, the lock file has no pid: the old ones are kept */
    if (pid > 0 && (pid != w->pid || keeper != w->keeper)) {
        forget(w);
        w->pid = pid;
        w->keeper = keeper;
        w->fds[0] = pidfd_open(pid, 0);
        w->fds[1] = keeper > 0 ? pidfd_open(keeper, 0) : -1;
    }
    if (is_live) {
        w->was_live = 1;
        w->free_since_ms = 0;
        w->has_end = 0;
        return 0;
    }
    if (w->free_since_ms == 0)
        w->free_since_ms = monotonic_ms();
    code = run_record_exit_code(w->path, &has_end);
    if (has_end) {
        w->has_end = 1;
        w->code = code;
    } else if (w->has_end) {
        has_end = 1;
        code = w->code;
    }
    is_left = is_there(w, 0) | is_there(w, 1);
    patience_ms = has_end ? (w->was_live ? LINGER_MS : 0) : GAP_MS;
    /* Wait for a keeper whose supervisor this watch has seen alive. */
    if (code < 0 || (is_left && ((w->was_live && !has_end) ||
                                 monotonic_ms() - w->free_since_ms < patience_ms)))
        return 0;
    *ret_code = code;
    return 1;
}
