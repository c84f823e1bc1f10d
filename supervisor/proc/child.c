#include "supervisor/proc/child.h"

#include "common/err/check.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

/* The number of a descriptor may be one that another is to have: then it is moved up first. */
struct moved {
    int fd[CHILD_MAX_FDS];
    size_t n;
};

static int move_up(struct moved *m, int *fd, size_t n_fds)
{
    if (*fd < 0 || *fd >= (int)n_fds)
        return 0;
    *fd = fcntl(*fd, F_DUPFD_CLOEXEC, (int)n_fds);
    if (*fd < 0)
        return errno;
    m->fd[m->n++] = *fd;
    return 0;
}

static int add_files(posix_spawn_file_actions_t *files, struct moved *m,
                     const struct child_spec *spec)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < spec->n_fds; i++) {
        int fd = spec->fds[i];

        rc = move_up(m, &fd, spec->n_fds);
        if (rc == 0 && fd >= 0)
            rc = posix_spawn_file_actions_adddup2(files, fd, (int)i);
        else if (rc == 0 && i <= STDERR_FILENO)
            rc = posix_spawn_file_actions_addopen(
                files, (int)i, "/dev/null", i == STDIN_FILENO ? O_RDONLY : O_RDWR, 0);
    }
    if (rc == 0 && spec->directory != NULL)
        rc = posix_spawn_file_actions_addchdir_np(files, spec->directory);
    return rc;
}

int child_spawn(pid_t *ret, const struct child_spec *spec)
{
    const int of_kind =
        spec->kind == CHILD_OF_SESSION ? POSIX_SPAWN_SETSID : POSIX_SPAWN_SETPGROUP;
    posix_spawn_file_actions_t files;
    sigset_t none, all;
    struct moved moved = {.n = 0};
    posix_spawnattr_t attr;
    int rc;

    CHECK(spec->n_fds <= CHILD_MAX_FDS);
    if ((rc = posix_spawn_file_actions_init(&files)) != 0)
        return rc;
    if ((rc = posix_spawnattr_init(&attr)) != 0) {
        (void)posix_spawn_file_actions_destroy(&files);
        return rc;
    }
    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    (void)posix_spawnattr_setsigmask(&attr, &none);
    (void)posix_spawnattr_setsigdefault(&attr, &all);
    (void)posix_spawnattr_setpgroup(&attr, 0);
    rc = posix_spawnattr_setflags(
        &attr, (short)(of_kind | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
    if (rc == 0)
        rc = add_files(&files, &moved, spec);
    if (rc == 0)
        rc = posix_spawnp(ret, spec->file, &files, &attr, spec->args, spec->env);
    for (size_t i = 0; i < moved.n; i++)
        (void)close(moved.fd[i]);
    (void)posix_spawnattr_destroy(&attr);
    (void)posix_spawn_file_actions_destroy(&files);
    return rc;
}
