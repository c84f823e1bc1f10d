#include "supervisor/rundir/run_dir_internal.h"

#include "common/io/beneath.h"
#include "common/mem/xmalloc.h"
#include "supervisor/proc/keeper.h"
#include "supervisor/proc/pid_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ENDING_WITHIN_MS = 3000 };
enum { WRITTEN_WITHIN_MS = 100 }; /* how long to wait for the new holder's pid */

/* ---- ownership and permission ---- */

const char *run_dir_user_name(uid_t uid, char ret[RUN_DIR_USER_BYTES])
{
    const struct passwd *user = getpwuid(uid);

    if (user != NULL)
        (void)snprintf(ret, RUN_DIR_USER_BYTES, "%s", user->pw_name);
    else
        (void)snprintf(ret, RUN_DIR_USER_BYTES, "user %u", (unsigned)uid);
    return ret;
}

int run_dir_deny(const char *path, struct err *err)
{
    char user[RUN_DIR_USER_BYTES], *name;
    struct stat st;
    int rc;

    if (stat(path, &st) < 0)
        return err_errno(err, "%s", path);
    name = run_dir_name_of(path);
    rc = err_set(err, -EACCES, "no permission: run %s belongs to %s", name,
                 run_dir_user_name(st.st_uid, user));
    free(name);
    return rc;
}

int run_dir_is_denial(int error)
{
    return error == EACCES || error == EPERM;
}

/* Opens the run's lock for reading: not through a planted link, and without waiting if it is
 * a fifo. -1: errno. */
static int open_lock(const char *path)
{
    const int held = beneath_hold_same(path, NULL);
    struct stat st;
    char *file;
    int fd, why;

    if (held == -EXDEV && beneath_held(path, &st) < 0) {
        errno = EXDEV;
        return -1;
    }
    file = xasprintf("%s/lock", path); /* of what is held, if it was replaced meanwhile */
    fd = beneath_open(file, O_RDONLY | O_NONBLOCK, 0);
    why = errno;
    if (held == 0)
        beneath_release(path);
    free(file);
    errno = why;
    return fd;
}

int run_dir_denied(const char *path, struct err *err)
{
    const int fd = open_lock(path);
    const int why = errno;

    if (fd >= 0)
        (void)close(fd);
    return fd < 0 && run_dir_is_denial(why) ? run_dir_deny(path, err) : 0;
}

/* The first file at or below the path that another user owns, or that everybody may write;
 * free(). NULL: there is none. */
static char *find_untrusted(const char *path, struct stat *ret)
{
    struct dirent **entries = NULL;
    char *found = NULL;
    int n;

    if (lstat(path, ret) < 0)
        return NULL;
    if (ret->st_uid != geteuid() ||
        (!S_ISLNK(ret->st_mode) && (ret->st_mode & S_IWOTH) != 0))
        return xstrdup(path);
    n = S_ISDIR(ret->st_mode) ? beneath_scandir(path, &entries, beneath_is_entry) : 0;
    for (int i = 0; i < n; i++) {
        char *below = xasprintf("%s/%s", path, entries[i]->d_name);

        if (found == NULL)
            found = find_untrusted(below, ret);
        free(below);
        free(entries[i]);
    }
    free(entries);
    return found;
}

/* The programs that the run keeps are executed as they are. */
static int check_programs(const char *path, const char *name, struct err *err)
{
    char *programs = xasprintf("%s/programs", path), user[RUN_DIR_USER_BYTES];
    struct stat st;
    char *found = find_untrusted(programs, &st);
    int rc = 0;

    if (found != NULL && st.st_uid != geteuid())
        rc = err_set(err, -EPERM, "%s: its %.300s belongs to %s: --trust runs it", name,
                     found + strlen(path) + 1, run_dir_user_name(st.st_uid, user));
    else if (found != NULL)
        rc = err_set(err, -EPERM, "%s: everybody may write its %.300s: --trust runs it",
                     name, found + strlen(path) + 1);
    free(found);
    free(programs);
    return rc;
}

int run_dir_check_trust(const char *path, struct err *err)
{
    char *file = xasprintf("%s/config.yaml", path), user[RUN_DIR_USER_BYTES];
    char *name = run_dir_name_of(path);
    const char *what = "its directory";
    struct stat st;
    int rc = 0, is_there = stat(path, &st) == 0;

    if (is_there && st.st_uid == geteuid()) {
        what = "its config.yaml";
        is_there = beneath_stat(file, &st) == 0;
    }
    if (is_there && st.st_uid != geteuid())
        rc =
            err_set(err, -EPERM,
                    "%s: %s belongs to %s, whose programs it may name: --trust runs them",
                    name, what, run_dir_user_name(st.st_uid, user));
    else if (is_there && S_ISREG(st.st_mode) && (st.st_mode & S_IWOTH) != 0)
        rc = err_set(err, -EPERM,
                     "%s: everybody may write %s, and name programs in it: --trust runs "
                     "them",
                     name, what);
    else
        rc = check_programs(path, name, err);
    free(name);
    free(file);
    return rc;
}

/* ---- the lock ---- */

/* The lock belongs to the open file, not to the process: a child that closes its copy
 * does not release it, and readers can test for it without taking it. */
static struct flock whole_file(short type)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET};
}

/* Parses the file's line: the holder's pid, then its keeper's pid, if it has a keeper. */
static pid_t read_pids(int fd, pid_t *ret_keeper)
{
    char text[64], *end;
    ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
    pid_t pid;

    text[n < 0 ? 0 : n] = '\0';
    pid = (pid_t)strtol(text, &end, 10);
    *ret_keeper = (pid_t)strtol(end, NULL, 10);
    return pid;
}

int run_dir_fail_live(const struct run_dir *d, pid_t holder, pid_t keeper,
                      struct err *err)
{
    char text[48] = "";

    if (keeper != 0)
        (void)snprintf(text, sizeof(text), " (its keeper: %d)", (int)keeper);
    return err_set(err, ERR_STATE, "run %s is live: supervisor %d%s holds it", d->name,
                   (int)holder, text);
}

/* As read_pids; a new holder writes its pid shortly after it has taken the lock. */
static pid_t wait_for_pids(int fd, pid_t *ret_keeper)
{
    pid_t pid = read_pids(fd, ret_keeper);

    for (int ms = 0; pid == 0 && ms < WRITTEN_WITHIN_MS; ms++) {
        (void)poll(NULL, 0, 1);
        pid = read_pids(fd, ret_keeper);
    }
    return pid;
}

static int refuse(const struct run_dir *d, int fd, struct err *err)
{
    pid_t keeper = 0;
    const pid_t holder = wait_for_pids(fd, &keeper);

    return run_dir_fail_live(d, holder, keeper, err);
}

static int write_pids(int fd)
{
    if (ftruncate(fd, 0) < 0)
        return -1;
    return keeper_pid() == 0 ? dprintf(fd, "%d\n", (int)getpid())
                             : dprintf(fd, "%d %d\n", (int)getpid(), (int)keeper_pid());
}

int run_dir_pids(const char *path, pid_t *ret_pid, pid_t *ret_keeper)
{
    struct flock lock = whole_file(F_WRLCK);
    int fd = open_lock(path), is_held;

    *ret_pid = *ret_keeper = 0;
    is_held = fd >= 0 && fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
    if (fd >= 0)
        *ret_pid = is_held ? wait_for_pids(fd, ret_keeper) : read_pids(fd, ret_keeper);
    if (fd >= 0)
        (void)close(fd);
    return is_held;
}

pid_t run_dir_holder(const char *path)
{
    pid_t pid, keeper;

    if (!run_dir_pids(path, &pid, &keeper))
        return 0;
    return pid != 0 ? pid : -1;
}

/* A supervisor whose keeper has exited will release the lock soon. */
static int is_ending(int fd)
{
    pid_t keeper, pid = read_pids(fd, &keeper);
    struct pid_stat stat;

    return keeper != 0 && (pid_stat_read(pid, &stat) < 0 || stat.parent != keeper);
}

static int lock_file(int fd)
{
    struct flock lock = whole_file(F_WRLCK);
    int rc = fcntl(fd, F_OFD_SETLK, &lock), failure = errno;

    for (int ms = 0; rc < 0 && ms < ENDING_WITHIN_MS && is_ending(fd); ms++) {
        (void)poll(NULL, 0, 1);
        rc = fcntl(fd, F_OFD_SETLK, &lock);
        failure = errno;
    }
    errno = failure; /* is_ending changes it */
    return rc;
}

int run_dir_lock(struct run_dir *d, struct err *err)
{
    char *file = xasprintf("%s/lock", d->path);
    int fd = beneath_open(file, O_RDWR | O_CREAT, 0600);
    struct stat st;
    int rc = 0;

    if (fd < 0)
        rc = run_dir_is_denial(errno) ? run_dir_deny(d->path, err)
                                      : err_errno(err, "%s", file);
    else if (lock_file(fd) < 0)
        rc = errno == EAGAIN || errno == EACCES
                 ? refuse(d, fd, err)
                 : err_errno(err, "%s: cannot lock (runs need a file system with locks)",
                             file);
    else if (fstat(fd, &st) < 0 || write_pids(fd) < 0)
        rc = err_errno(err, "%s: cannot write", file);
    else
        d->started = st.st_mtim;
    if (rc == 0) {
        d->lock = fd;
        d->counts_names = fstat(fd, &st) == 0 && st.st_nlink > 0;
    } else if (fd >= 0)
        (void)close(fd);
    free(file);
    return rc;
}

int run_dir_is_deleted(const struct run_dir *d)
{
    struct stat lock, dir;

    if (fstat(d->lock, &lock) < 0 || beneath_held(d->path, &dir) < 0)
        return errno == ESTALE; /* a network file system's way to report deletion */
    return d->counts_names && (lock.st_nlink == 0 || dir.st_nlink == 0);
}
