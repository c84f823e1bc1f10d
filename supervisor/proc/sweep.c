#include "supervisor/proc/sweep.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

int sweep_enable(struct err *err)
{
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
        return err_errno(err, "becoming a child sub-reaper");
    return 0;
}

/* Calls visit for every process; how many times it said 1. readdir would allocate. */
static size_t each_process(int (*visit)(void *ctx, int proc_dir, pid_t pid), void *ctx)
{
    const int dir = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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

/* The beginning of /proc/<pid>/<file>, terminated; -1 if it cannot be read. */
static ssize_t read_file(int proc_dir, pid_t pid, const char *file, char *ret,
                         size_t size)
{
    char path[48];
    ssize_t n;
    int fd;

    (void)snprintf(path, sizeof(path), "%d/%s", (int)pid, file);
    fd = openat(proc_dir, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    n = read(fd, ret, size - 1);
    (void)close(fd);
    ret[n < 0 ? 0 : n] = '\0';
    return n;
}

/* The fourth field of /proc/<pid>/stat: "pid (comm) state ppid ..."; -1 if it is gone.
 * The command may itself hold ") " so the last parenthesis counts. */
static pid_t parent_of(int proc_dir, pid_t pid)
{
    char text[512];
    const char *end;
    int ppid = -1;

    if (read_file(proc_dir, pid, "stat", text, sizeof(text)) < 0)
        return -1;
    end = strrchr(text, ')');
    if (end == NULL || sscanf(end + 1, " %*c %d", &ppid) != 1)
        return -1;
    return ppid;
}

pid_t sweep_parent_of(pid_t pid)
{
    const int dir = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    pid_t parent = dir < 0 ? -1 : parent_of(dir, pid);

    if (dir >= 0)
        (void)close(dir);
    return parent;
}

struct adopted {
    sweep_owned_fn owned;
    void *ctx;
    pid_t self;
};

static int end_adopted(void *ctx, int proc_dir, pid_t pid)
{
    const struct adopted *a = ctx;

    if (parent_of(proc_dir, pid) != a->self || a->owned(a->ctx, pid))
        return 0;
    /* Our own unreaped child: the pid cannot have been given to anybody else. */
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, WNOHANG);
    return 1;
}

size_t sweep_adopted(sweep_owned_fn owned, void *ctx)
{
    struct adopted a = {.owned = owned, .ctx = ctx, .self = getpid()};

    return each_process(end_adopted, &a);
}

struct marked {
    char text[128]; /* NAME=value, with its NUL */
    size_t len;
};

static int end_marked(void *ctx, int proc_dir, pid_t pid)
{
    const struct marked *m = ctx;
    char environment[8192];
    ssize_t n;

    if (pid == getpid())
        return 0;
    n = read_file(proc_dir, pid, "environ", environment, sizeof(environment));
    if (n <= 0 || memmem(environment, (size_t)n, m->text, m->len) == NULL)
        return 0;
    (void)kill(pid, SIGKILL);
    return 1;
}

size_t sweep_marked(const char *variable, const char *value)
{
    struct marked m;
    int n = snprintf(m.text, sizeof(m.text), "%s=%s", variable, value);

    if (value == NULL || n < 0 || (size_t)n >= sizeof(m.text))
        return 0;
    m.len = (size_t)n + 1;
    return each_process(end_marked, &m);
}
