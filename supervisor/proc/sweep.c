#include "supervisor/proc/sweep.h"

#include "common/io/signal_process.h"
#include "supervisor/proc/pid_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

int sweep_enable(struct err *err)
{
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
        return err_errno(err, "becoming a child sub-reaper");
    return 0;
}

/* Calls visit for every process in /proc, or every thread in a process's task folder.
 * Returns the number of calls that returned 1. Does not use readdir, which allocates. */
static size_t each_entry(const char *folder, int (*visit)(void *ctx, int dir, pid_t pid),
                         void *ctx)
{
    const int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _Alignas(struct dirent64) char entries[4096];
    size_t n_met = 0;
    ssize_t len;

    while (dir >= 0 && (len = getdents64(dir, entries, sizeof(entries))) > 0) {
        for (ssize_t at = 0; at < len;) {
            const struct dirent64 *e = (const void *)(entries + at);
            const pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);

            at += e->d_reclen;
            if (pid > 0 && visit(ctx, dir, pid))
                n_met++;
        }
    }
    if (dir >= 0)
        (void)close(dir);
    return n_met;
}

struct adopted {
    sweep_owned_fn owned;
    void *ctx;
    pid_t self;
};

/* Kills and reaps a child of this process. Until it is reaped, its pid cannot be
 * reused. */
static int end_child(const struct adopted *a, pid_t pid)
{
    if (a->owned(a->ctx, pid))
        return 0;
    (void)signal_process(pid, SIGKILL);
    (void)waitpid(pid, NULL, WNOHANG);
    return 1;
}

static int end_adopted(void *ctx, int proc, pid_t pid)
{
    const struct adopted *a = ctx;
    struct pid_stat stat;

    return pid_stat_read(pid, &stat) == 0 && stat.parent == a->self && end_child(a, pid);
}

/* Ends the children of one of our threads, which the kernel lists as "4711 4712 ": far
 * fewer than all processes. A child leaves the list when it is reaped, which only this
 * process does; the caller then sweeps again, so none is missed. Returns the number of
 * children ended; -1: this kernel has no such list. */
static int end_children_of(const struct adopted *a, int tasks, pid_t tid)
{
    char path[48], text[4096];
    int fd, n_met = 0;
    pid_t pid = 0;
    ssize_t n;

    (void)snprintf(path, sizeof(path), "%d/children", (int)tid);
    fd = openat(tasks, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    while ((n = read(fd, text, sizeof(text))) > 0) {
        for (ssize_t i = 0; i < n; i++) {
            if (text[i] >= '0' && text[i] <= '9') {
                pid = pid * 10 + (text[i] - '0');
                continue;
            }
            if (pid > 0)
                n_met += end_child(a, pid);
            pid = 0;
        }
    }
    (void)close(fd);
    return n_met;
}

struct threads {
    const struct adopted *adopted;
    int n_met, n_unknown;
};

static int visit_thread(void *ctx, int tasks, pid_t tid)
{
    struct threads *t = ctx;
    const int n = end_children_of(t->adopted, tasks, tid);

    t->n_met += n > 0 ? n : 0;
    t->n_unknown += n < 0;
    return 1;
}

size_t sweep_adopted(sweep_owned_fn owned, void *ctx)
{
    struct adopted a = {.owned = owned, .ctx = ctx, .self = getpid()};
    struct threads t = {.adopted = &a};
    size_t n_threads = each_entry("/proc/self/task", visit_thread, &t);

    /* A thread that ends passes its children to another, which may have been visited. */
    if (n_threads > 1 && t.n_met == 0)
        n_threads = each_entry("/proc/self/task", visit_thread, &t);
    if (n_threads > 0 && t.n_unknown == 0)
        return (size_t)t.n_met;
    return each_entry("/proc", end_adopted, &a);
}

/* ---- marks ---- */

enum {
    PIECE_BYTES = 16384,
    MARK_MAX = 128,
    ENVIRONMENT_MAX = 64 << 20, /* exec takes at most 6 MB, but a program can move it */
    EXEC_LOOKS = 1000, /* a millisecond apart, during execve, which a slow disk delays */
};

struct marked {
    char text[MARK_MAX]; /* NAME=value, with its NUL */
    size_t len;
};

/* Whether the variable is at the beginning of the environment or after another variable's
 * NUL. */
static int has_variable(const char *text, size_t len, int is_first,
                        const struct marked *m)
{
    const char *at = text;

    while ((at = memmem(at, len - (size_t)(at - text), m->text, m->len)) != NULL) {
        if (at == text ? is_first : at[-1] == '\0')
            return 1;
        at++;
    }
    return 0;
}

/* Looks for the mark in the environment that the process got at exec. Returns the number of
 * bytes that were read; -1: it cannot be opened. */
static ssize_t find_mark(pid_t pid, const struct marked *m, int *ret_found)
{
    char path[48], text[MARK_MAX + PIECE_BYTES];
    size_t kept = 0, all = 0;
    int fd, found = 0;
    ssize_t n;

    (void)snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    while (!found && all < ENVIRONMENT_MAX &&
           (n = read(fd, text + kept, PIECE_BYTES)) > 0) {
        const size_t len = kept + (size_t)n;

        found = has_variable(text, len, all == 0, m);
        all += (size_t)n;
        kept = len < m->len
                   ? len
                   : m->len; /* a beginning of the mark, and the byte before it */
        memmove(text, text + len - kept, kept);
    }
    (void)close(fd);
    *ret_found = found;
    return (ssize_t)all;
}

/* A process that is just executing another program has an environment, but shows none. */
static int has_mark(pid_t pid, const struct marked *m)
{
    int found = 0;

    for (int i = 0; i < EXEC_LOOKS && find_mark(pid, m, &found) == 0; i++) {
        if (!pid_has_environment(pid))
            break;
        (void)poll(NULL, 0, i > 0); /* one look may have begun before execve */
    }
    return found;
}

/* Other users' processes are not of the run, and to root they could show any environment. */
static int is_marked(void *ctx, int proc, pid_t pid)
{
    char name[16];
    struct stat st;

    (void)snprintf(name, sizeof(name), "%d", (int)pid);
    return pid != getpid() && fstatat(proc, name, &st, 0) == 0 &&
           st.st_uid == geteuid() && has_mark(pid, ctx);
}

size_t sweep_count(const char *variable, const char *value)
{
    struct marked m;
    int n = snprintf(m.text, sizeof(m.text), "%s=%s", variable, value);

    if (value == NULL || n < 0 || (size_t)n >= sizeof(m.text))
        return 0;
    m.len = (size_t)n + 1;
    return each_entry("/proc", is_marked, &m);
}
