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

/* The fourth field of /proc/<pid>/stat: "pid (comm) state ppid ..."; -1 if it is gone.
 * The command may itself hold ") " so the last parenthesis counts. */
static pid_t parent_of(int proc_dir, const char *pid)
{
    char path[32], text[512];
    const char *end;
    ssize_t n;
    int fd, ppid = -1;

    (void)snprintf(path, sizeof(path), "%.20s/stat", pid);
    fd = openat(proc_dir, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    n = read(fd, text, sizeof(text) - 1);
    (void)close(fd);
    text[n < 0 ? 0 : n] = '\0';
    end = strrchr(text, ')');
    if (end == NULL || sscanf(end + 1, " %*c %d", &ppid) != 1)
        return -1;
    return ppid;
}

size_t sweep_adopted(sweep_owned_fn owned, void *ctx)
{
    const pid_t self = getpid();
    DIR *dir = opendir("/proc");
    const struct dirent *e;
    size_t met = 0;
    pid_t pid;

    if (dir == NULL)
        return 0;
    while ((e = readdir(dir)) != NULL) {
        pid = (pid_t)strtol(e->d_name, NULL, 10);
        if (pid <= 0 || parent_of(dirfd(dir), e->d_name) != self || owned(ctx, pid))
            continue;
        met++;
        /* Our own unreaped child: the pid cannot have been given to anybody else. */
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, WNOHANG);
    }
    (void)closedir(dir);
    return met;
}
