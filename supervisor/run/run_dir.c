#include "supervisor/run/run_dir.h"

#include "common/ckpt/atomic_file.h"
#include "common/io/beneath.h"
#include "common/io/tree.h"
#include "common/log/log.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "supervisor/proc/keeper.h"
#include "supervisor/proc/pid_file.h"
#include "supervisor/save/resume.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_NUMBER = 1000000, MAX_UNUSED = 1000, ENDING_WITHIN_MS = 3000 };
enum { WRITTEN_WITHIN_MS = 100 }; /* how long to wait for the new holder's pid */

struct run_dir {
    char *path;
    char *name;
    char *moved;      /* what its name in its folder was changed to; NULL: as in path */
    int lock;         /* -1: not locked */
    int is_held;      /* beneath_hold was called for path */
    int counts_names; /* the file system sets st_nlink to 0 when a file is deleted */
    int keeps_time;   /* no supervisor began, so far, in a run that was opened */
    struct timespec started; /* the lock file's time before this process took the lock */
    char **files;
    size_t n_files;

    int is_replaced; /* another run has its name by now */

    /* Of a run that is made under another name (run_dir_make); final NULL: of no other. */
    char *final, *base; /* its path; base NULL: it was given a name */
    int force;
};

#define MARK "unwanted"

static const char *const folders[] = {"logs", "metrics", "checkpoints"};

/* Other commands of this process may hold the directory already: what they decided is about
 * the directory that they hold. */
static int hold(struct run_dir *d, struct err *err)
{
    const int rc = beneath_hold_same(d->path, err);

    d->is_held = rc == 0;
    return rc;
}

/* ---- ownership and permission ---- */

/* The user's name, or "user 1234". Returns ret. */
static const char *user_name(uid_t uid, char ret[RUN_DIR_USER_BYTES])
{
    const struct passwd *user = getpwuid(uid);

    if (user != NULL)
        (void)snprintf(ret, RUN_DIR_USER_BYTES, "%s", user->pw_name);
    else
        (void)snprintf(ret, RUN_DIR_USER_BYTES, "user %u", (unsigned)uid);
    return ret;
}

/* Sets the error "no permission", with the name of the run's owner. */
static int deny(const char *path, struct err *err)
{
    char user[RUN_DIR_USER_BYTES], *name;
    struct stat st;
    int rc;

    if (stat(path, &st) < 0)
        return err_errno(err, "%s", path);
    name = run_dir_name_of(path);
    rc = err_set(err, -EACCES, "no permission: run %s belongs to %s", name,
                 user_name(st.st_uid, user));
    free(name);
    return rc;
}

static int is_denial(int error)
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
    return fd < 0 && is_denial(why) ? deny(path, err) : 0;
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
                    name, what, user_name(st.st_uid, user));
    else if (is_there && S_ISREG(st.st_mode) && (st.st_mode & S_IWOTH) != 0)
        rc = err_set(err, -EPERM,
                     "%s: everybody may write %s, and name programs in it: --trust runs "
                     "them",
                     name, what);
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

/* keeper: 0: not known. */
static int fail_live(const struct run_dir *d, pid_t holder, pid_t keeper, struct err *err)
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

    return fail_live(d, holder, keeper, err);
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

static int take_lock(struct run_dir *d, struct err *err)
{
    char *file = xasprintf("%s/lock", d->path);
    int fd = beneath_open(file, O_RDWR | O_CREAT, 0600);
    struct stat st;
    int rc = 0;

    if (fd < 0)
        rc = is_denial(errno) ? deny(d->path, err) : err_errno(err, "%s", file);
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

/* ---- creating a run's directory ---- */

static struct run_dir *new_dir(const char *runs_dir, const char *name)
{
    struct run_dir *d = xcalloc(1, sizeof(*d));

    d->path = xasprintf("%s/%s", runs_dir, name);
    d->name = xstrdup(name);
    d->lock = -1;
    return d;
}

void run_dir_free(struct run_dir *d)
{
    if (d == NULL)
        return;
    if (d->lock >= 0 && d->keeps_time)
        (void)futimens(d->lock, (struct timespec[]){{.tv_nsec = UTIME_OMIT}, d->started});
    if (d->lock >= 0)
        (void)close(d->lock);
    if (d->is_held)
        beneath_release(d->path);
    for (size_t i = 0; i < d->n_files; i++)
        free(d->files[i]);
    free(d->files);
    free(d->final);
    free(d->base);
    free(d->moved);
    free(d->path);
    free(d->name);
    free(d);
}

/* Opens the folder in which the held directory lies now; -1: errno. */
static int open_parent(const struct run_dir *d)
{
    const int fd = beneath_dup(d->path);
    const int parent =
        fd >= 0 ? openat(fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    const int why = errno;

    if (fd >= 0)
        (void)close(fd);
    errno = why;
    return parent;
}

/* Its name in its folder; free(). That of a run that is made is not its name yet. */
static char *entry_of(const struct run_dir *d)
{
    return d->moved != NULL ? xstrdup(d->moved) : run_dir_name_of(d->path);
}

/* Whether the name in that folder is the held directory, and no link. errno: 0, or why that
 * could not be found out. */
static int is_named(const struct run_dir *d, int parent, const char *name)
{
    struct stat held, there;

    errno = 0;
    return beneath_held(d->path, &held) == 0 &&
           fstatat(parent, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
           there.st_dev == held.st_dev && there.st_ino == held.st_ino;
}

/* After is_named or is_empty. */
static int fail_replaced(const struct run_dir *d, struct err *err)
{
    if (err_is_failure(-errno))
        return err_errno(err, "%s", d->path);
    return err_set(err, ERR_STATE,
                   "%s was replaced by something else meanwhile: left alone", d->path);
}

/* Not every file system knows RENAME_NOREPLACE. */
static int rename_in(int parent, const char *from, const char *to)
{
    if (renameat2(parent, from, parent, to, RENAME_NOREPLACE) == 0)
        return 0;
    return errno == EINVAL ? renameat(parent, from, parent, to) : -1;
}

/* No system call renames a directory only if it is a certain one: a wrong one gets its name
 * back. */
int run_dir_rename(struct run_dir *d, const char *name, struct err *err)
{
    const int parent = open_parent(d);
    char *was = entry_of(d);
    int rc = 0;

    if (parent < 0) {
        rc = err_errno(err, "the folder of %s", d->path);
    } else if (!is_named(d, parent, was)) {
        rc = fail_replaced(d, err);
    } else if (rename_in(parent, was, name) < 0) {
        rc = err_errno(err, "%s: cannot rename it to %s", d->path, name);
    } else if (!is_named(d, parent, name)) {
        rc = rename_in(parent, name, was) == 0
                 ? fail_replaced(d, err)
                 : err_errno(err,
                             "%s was replaced by something else meanwhile, which "
                             "is %s beside it now",
                             d->path, name);
    } else if (fsync(parent) < 0) {
        rc = err_errno(err, "%s: fsync", d->path);
    }
    if (parent >= 0)
        (void)close(parent);
    free(was);
    if (rc == 0) {
        free(d->moved);
        d->moved = xstrdup(name);
    }
    return rc;
}

/* rmdir removes only what is empty, so nothing is lost if the name is another folder's. */
int run_dir_remove(struct run_dir *d, struct err *err)
{
    static const char *const last[] = {MARK, "lock", NULL};
    int rc = tree_empty(d->path, last, err), parent;
    char *name;

    if (rc < 0)
        return rc;
    name = entry_of(d);
    parent = open_parent(d);
    if (parent < 0 || (unlinkat(parent, name, AT_REMOVEDIR) < 0 && errno != ENOENT))
        rc = err_errno(err, "%s: cannot remove", name);
    if (parent >= 0)
        (void)close(parent);
    free(name);
    return rc;
}

void run_dir_discard(struct run_dir *d)
{
    struct err err;

    if (run_dir_remove(d, &err) < 0)
        log_warn("%s", err.msg);
    run_dir_free(d);
}

/* ---- the mark of what is not wanted ---- */

void run_dir_mark(const struct run_dir *d, const char *name)
{
    char *file = xasprintf("%s/" MARK, d->path);
    const char *last;
    const int at = beneath_parent(file, &last);

    if (at >= 0) {
        (void)unlinkat(at, last, 0);
        (void)symlinkat(name, at, last);
        (void)close(at);
    }
    free(file);
}

void run_dir_unmark(const struct run_dir *d)
{
    char *file = xasprintf("%s/" MARK, d->path);

    (void)beneath_unlink(file);
    free(file);
}

int run_dir_is_marked(const char *path, const char *name)
{
    char *file = xasprintf("%s/" MARK, path), text[NAME_MAX + 1];
    const char *last;
    const int at = beneath_parent(file, &last);
    const ssize_t n = at >= 0 ? readlinkat(at, last, text, sizeof(text) - 1) : -1;
    struct stat st;
    int yes = 0;

    if (n >= 0 && fstatat(at, last, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        text[n] = '\0';
        yes = st.st_uid == geteuid() && strcmp(text, name) == 0;
    }
    if (at >= 0)
        (void)close(at);
    free(file);
    return yes;
}

int run_dir_check_name(const char *name, struct err *err)
{
    const size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789_.-");

    if (n > 0 && n <= RUN_DIR_NAME_MAX && name[n] == '\0' && name[0] != '.')
        return 0;
    return err_set(
        err, ERR_ARG,
        "'%s': expected a run's name of letters, digits, '_', '-' and '.', of at "
        "most %d characters",
        name, RUN_DIR_NAME_MAX);
}

/* Returns 0 if the file exists, -ENOENT, or -EACCES if we have no permission to look. */
static int look_for(const char *path, const char *sub)
{
    char *file = xasprintf("%s/%s", path, sub);
    struct stat st;
    const int rc = lstat(file, &st) == 0 ? 0 : is_denial(errno) ? -EACCES : -ENOENT;

    free(file);
    return rc;
}

static int look(const char *path)
{
    const int rc = look_for(path, "lock");

    return rc == -ENOENT ? look_for(path, "config.yaml") : rc;
}

/* Returns 0, -EACCES, or ERR_NOT_FOUND; for the latter, the caller sets the message. */
static int find_run(const char *path, struct err *err)
{
    const int rc = look(path);

    return rc == -EACCES ? deny(path, err) : rc < 0 ? ERR_NOT_FOUND : 0;
}

/* Sets the mode of a new or replaced directory, whatever the umask. */
static int set_mode(const struct run_dir *d, mode_t mode, struct err *err)
{
    const int fd = beneath_open(d->path, O_RDONLY | O_DIRECTORY, 0);
    struct stat st;
    int rc = 0;

    if (fd < 0 || fstat(fd, &st) < 0 || fchmod(fd, (st.st_mode & S_ISGID) | mode) < 0)
        rc = err_errno(err, "%s: cannot set its mode", d->path);
    if (fd >= 0)
        (void)close(fd);
    return rc;
}

/* The directory of another user is not replaced: that user could change the new run. */
static int check_own(const struct run_dir *d, struct err *err)
{
    char user[RUN_DIR_USER_BYTES];
    struct stat st;

    if (lstat(d->path, &st) < 0)
        return 0;
    if (S_ISLNK(st.st_mode))
        return err_set(err, ERR_EXISTS, "%s is a link: left alone", d->path);
    if (st.st_uid != geteuid())
        return err_set(err, ERR_EXISTS, "run %s belongs to %s: left alone", d->name,
                       user_name(st.st_uid, user));
    return 0;
}

/* Whoever may write the folder of runs can put another directory in the place of the one that
 * was looked at, or made. */
static int check_held_own(const struct run_dir *d, struct err *err)
{
    struct stat st;

    if (beneath_held(d->path, &st) < 0)
        return err_errno(err, "%s", d->path);
    errno = 0;
    return st.st_uid != geteuid() ? fail_replaced(d, err) : 0;
}

/* errno as after is_named. */
static int is_empty(const struct run_dir *d)
{
    DIR *dir = beneath_opendir(d->path);
    int n = 0;

    if (dir != NULL)
        errno = 0;
    while (dir != NULL && n <= 2 && readdir(dir) != NULL)
        n++;
    if (dir != NULL)
        (void)closedir(dir);
    return dir != NULL && n <= 2; /* . and .. */
}

/* Holds a directory that was just made. */
static int hold_new(struct run_dir *d, struct err *err)
{
    int rc = hold(d, err);

    if (rc == 0)
        rc = check_held_own(d, err);
    return rc == 0 && !is_empty(d) ? fail_replaced(d, err) : rc;
}

/* Empties the directory of a run that is over. The lock file, which this process holds,
 * is removed last. */
static int replace(struct run_dir *d, struct err *err)
{
    int rc;

    if (look(d->path) != 0)
        return err_set(err, ERR_EXISTS, "%s exists and is no run: left alone", d->path);
    rc = hold(d, err);
    if (rc == 0)
        rc = check_held_own(d, err);
    if (rc == 0)
        rc = take_lock(d, err);
    if (rc == 0)
        rc = tree_empty(d->path, (const char *const[]){"lock", NULL}, err);
    if (rc < 0)
        return rc;
    (void)close(d->lock);
    d->lock = -1;
    return 0;
}

static int fail_exists(const struct run_dir *d, struct err *err)
{
    return err_set(err, ERR_EXISTS, "run %s exists already (--force replaces it): %s",
                   d->name, d->path);
}

int run_dir_check_new(const char *runs_dir, const char *name, int force, struct err *err)
{
    struct run_dir *d = new_dir(runs_dir, name);
    const pid_t holder = force ? run_dir_holder(d->path) : 0;
    struct stat st;
    int rc = 0;

    if (!force && lstat(d->path, &st) == 0)
        rc = fail_exists(d, err);
    else if (holder != 0)
        rc = fail_live(d, holder, 0, err);
    run_dir_free(d);
    return rc;
}

static int make_named(struct run_dir *d, int force, struct err *err)
{
    if (force) {
        const int rc = check_own(d, err);

        if (rc < 0)
            return rc;
        /* An empty one is left by a supervisor that ended before it had the lock. */
        (void)rmdir(d->path);
    }
    if (mkdir(d->path, 0700) == 0)
        return hold_new(d, err);
    if (errno != EEXIST)
        return err_errno(err, "%s: cannot create", d->path);
    if (!force)
        return fail_exists(d, err);
    return replace(d, err);
}

/* Whether `brood submit` has given that name to a job, whose run may not exist yet. */
static int is_submitted(const char *runs_dir, const char *name)
{
    char *folder = xasprintf("%s/.jobs/%s", runs_dir, name);
    const int ret = tree_exists(folder);

    free(folder);
    return ret;
}

/* Creates <base>-<number> with the first number that is free. */
static int make_numbered(struct run_dir **ret, const char *runs_dir, const char *base,
                         struct err *err)
{
    for (int i = 1; i < MAX_NUMBER; i++) {
        char *name = xasprintf("%s-%d", base, i);
        struct run_dir *d = new_dir(runs_dir, name);
        const int is_taken = is_submitted(runs_dir, name);

        free(name);
        if (!is_taken && mkdir(d->path, 0700) == 0) {
            *ret = d;
            return hold_new(d, err);
        }
        if (!is_taken && errno != EEXIST) {
            int rc = err_errno(err, "%s: cannot create", d->path);
            run_dir_free(d);
            return rc;
        }
        run_dir_free(d);
    }
    return err_set(err, ERR_LIMIT, "%s/%s-*: no number is free", runs_dir, base);
}

int run_dir_make_folders(struct run_dir *d, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < sizeof(folders) / sizeof(folders[0]); i++)
        rc = tree_make(run_dir_file(d, folders[i]), err);
    return rc;
}

/* mark: the name under which it is not wanted yet; NULL: none. */
static int furnish(struct run_dir *d, mode_t mode, const char *mark, struct err *err)
{
    int rc = set_mode(d, mode, err);

    if (rc == 0)
        rc = take_lock(d, err);
    if (rc == 0 && mark != NULL)
        run_dir_mark(d, mark);
    return rc < 0 ? rc : run_dir_make_folders(d, err);
}

int run_dir_create(struct run_dir **ret, const char *runs_dir, const char *name,
                   const char *base, int force, mode_t mode, struct err *err)
{
    struct run_dir *d = NULL;
    int rc;

    rc = run_dir_check_name(name != NULL ? name : base, err);
    if (rc == 0)
        rc = tree_make(runs_dir, err);
    if (rc < 0)
        return rc;
    if (name != NULL) {
        d = new_dir(runs_dir, name);
        rc = make_named(d, force, err);
    } else {
        rc = make_numbered(&d, runs_dir, base, err);
    }
    if (rc < 0) {
        run_dir_free(d);
        return rc;
    }
    rc = furnish(d, mode, NULL, err);
    if (rc == ERR_STATE) /* another process has taken it meanwhile */
        run_dir_free(d);
    else if (rc < 0)
        run_dir_discard(d);
    else
        *ret = d;
    return rc;
}

/* ---- making a run under another name ---- */

/* The folder in which the run is made. A process that removes what others have left there
 * (run_remove.c) may remove it before it is locked. */
static int make_unused(struct run_dir **ret, const char *runs_dir, mode_t mode,
                       struct err *err)
{
    int rc = ERR_STATE;

    for (int i = 0; i < MAX_UNUSED; i++) {
        char *name = xasprintf(RUN_DIR_MAKING "%d-%d", (int)getpid(), i);
        struct run_dir *d = new_dir(runs_dir, name);

        rc = mkdir(d->path, 0700) < 0 ? err_errno(err, "%s: cannot create", d->path)
                                      : hold_new(d, err);
        if (rc == 0)
            rc = furnish(d, mode, name, err);
        free(name);
        if (rc == 0 && run_dir_is_deleted(d))
            rc = -ENOENT;
        if (rc == 0) {
            *ret = d;
            return 0;
        }
        if (rc == -EEXIST || rc == -ENOENT || rc == ERR_STATE)
            run_dir_free(d);
        else
            return run_dir_discard(d), rc;
    }
    return rc;
}

/* Chooses the path that the run will have; see run_dir_next_name. */
static int choose_final(struct run_dir *d, const char *runs_dir, const char *name,
                        struct err *err)
{
    for (int i = 1; i < MAX_NUMBER; i++) {
        char *numbered = name == NULL ? xasprintf("%s-%d", d->base, i) : NULL;
        const char *chosen = name != NULL ? name : numbered;
        int is_free;

        free(d->final);
        free(d->name);
        d->final = xasprintf("%s/%s", runs_dir, chosen);
        d->name = xstrdup(chosen);
        is_free =
            name != NULL || (!is_submitted(runs_dir, numbered) && !tree_exists(d->final));
        free(numbered);
        if (is_free)
            return 0;
    }
    return err_set(err, ERR_LIMIT, "%s/%s-*: no number is free", runs_dir, d->base);
}

int run_dir_next_name(struct run_dir *d, struct err *err)
{
    char *runs_dir = xstrndup(d->final, (size_t)(strrchr(d->final, '/') - d->final));
    const int rc = choose_final(d, runs_dir, NULL, err);

    free(runs_dir);
    return rc;
}

/* Whether the run may be replaced, as make_named does it. */
static int check_replaced(const struct run_dir *old, struct err *err)
{
    int rc = check_own(old, err);

    if (rc == 0 && rmdir(old->path) < 0 && errno != ENOENT && look(old->path) != 0)
        rc = err_set(err, ERR_EXISTS, "%s exists and is no run: left alone", old->path);
    return rc;
}

int run_dir_make(struct run_dir **ret, const char *runs_dir, const char *name,
                 const char *base, int force, mode_t mode, struct err *err)
{
    struct run_dir *d = NULL, *old = name != NULL ? new_dir(runs_dir, name) : NULL;
    int rc = run_dir_check_name(name != NULL ? name : base, err);

    if (rc == 0)
        rc = tree_make(runs_dir, err);
    if (rc == 0 && name != NULL)
        rc = run_dir_check_new(runs_dir, name, force, err);
    if (rc == 0 && name != NULL && force)
        rc = check_replaced(old, err);
    run_dir_free(old);
    if (rc == 0)
        rc = make_unused(&d, runs_dir, mode, err);
    if (rc < 0)
        return rc;
    d->base = name == NULL ? xstrdup(base) : NULL;
    d->force = force;
    rc = choose_final(d, runs_dir, name, err);
    if (rc < 0)
        run_dir_discard(d);
    else
        *ret = d;
    return rc;
}

const char *run_dir_final_path(const struct run_dir *d)
{
    return d->final != NULL ? d->final : d->path;
}

uint64_t run_dir_inode(const struct run_dir *d)
{
    struct stat st;

    return beneath_held(d->path, &st) == 0 ? (uint64_t)st.st_ino : 0;
}

/* renameat2 without replacing anything, also where a file system cannot do that. */
static int rename_new(const char *from, const char *to)
{
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL)
        return -1;
    return mkdir(to, 0700) < 0 ? -1 : rename(from, to);
}

/* Takes the place of a run that is over: the folder of each gets the name of the other, where
 * the file system can do that. The old one is not wanted under that name. */
static int rename_over(struct run_dir *d, struct run_dir *old, struct err *err)
{
    char *aside = xasprintf("%s-old", d->path);
    int rc;

    old->moved = run_dir_name_of(d->path);
    run_dir_mark(old, old->moved);
    rc = renameat2(AT_FDCWD, d->path, AT_FDCWD, d->final, RENAME_EXCHANGE);
    if (rc < 0 && errno == EINVAL && (rc = rename(d->final, aside)) == 0) {
        rc = rename_new(d->path, d->final);
        (void)rename(aside, d->path);
    }
    free(aside);
    if (rc < 0) {
        rc = err_errno(err, "%s: cannot replace", d->final);
        run_dir_unmark(old);
        return rc;
    }
    old->is_replaced = 1;
    return 0;
}

static int take_place(struct run_dir *d, struct run_dir *old, struct err *err)
{
    int rc = check_replaced(old, err);

    if (rc < 0)
        return rc;
    if (rename_new(d->path, d->final) == 0)
        return 0;
    if (errno != EEXIST && errno != ENOTEMPTY)
        return err_errno(err, "%s: cannot create", d->final);
    rc = hold(old, err);
    if (rc == 0)
        rc = take_lock(old, err);
    return rc < 0 ? rc : rename_over(d, old, err);
}

static void take_path(struct run_dir *d, struct run_dir *old)
{
    for (size_t i = 0; i < d->n_files; i++)
        free(d->files[i]);
    d->n_files = 0;
    if (old->is_replaced) { /* it is held by that path, too */
        char *aside = xasprintf("%s-old", d->path);

        beneath_move(old->path, aside);
        free(old->path);
        old->path = aside;
    }
    beneath_move(d->path, d->final);
    free(d->path);
    d->path = d->final;
    d->final = NULL;
}

int run_dir_appear(struct run_dir *d, struct err *err)
{
    char *runs_dir = xstrndup(d->final, (size_t)(strrchr(d->final, '/') - d->final));
    struct run_dir *old = new_dir(runs_dir, d->name);
    struct err other;
    int rc = tree_sync_all(d->path, NULL, err);

    if (rc == 0 && rename_new(d->path, d->final) < 0)
        rc = errno != EEXIST && errno != ENOTEMPTY
                 ? err_errno(err, "%s: cannot create", d->final)
             : d->force && d->base == NULL ? take_place(d, old, err)
                                           : fail_exists(old, err);
    if (rc == 0) {
        take_path(d, old);
        run_dir_unmark(d);
        rc = tree_sync(runs_dir, err);
        if (old->is_replaced && run_dir_remove(old, &other) < 0)
            log_warn("%s", other.msg);
    }
    run_dir_free(old);
    free(runs_dir);
    return rc;
}

int run_dir_refuse_within(const char *runs_dir, const char *name, const char *path,
                          struct err *err)
{
    char *run = name != NULL ? xasprintf("%s/%s", runs_dir, name) : NULL;
    char *outer = run != NULL ? realpath(run, NULL) : NULL;
    char *inner = path != NULL ? realpath(path, NULL) : NULL;
    const char *below = outer != NULL && inner != NULL ? text_after(inner, outer) : NULL;
    const int is_within = below != NULL && (*below == '/' || *below == '\0');

    if (is_within)
        (void)err_set(
            err, ERR_ARG,
            "%s would be replaced, but the new run begins from it; give the new "
            "run another name",
            run);
    free(inner);
    free(outer);
    free(run);
    return is_within ? ERR_ARG : 0;
}

char *run_dir_name_of(const char *path)
{
    char *copy = xstrdup(path), *real = NULL, *name;
    size_t len = strlen(copy);

    while (len > 1 && copy[len - 1] == '/')
        copy[--len] = '\0';
    name = strrchr(copy, '/') != NULL && len > 1 ? strrchr(copy, '/') + 1 : copy;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        real = realpath(copy, NULL);
    if (real != NULL && real[1] != '\0')
        name = strrchr(real, '/') + 1;
    name = xstrdup(name);
    free(real);
    free(copy);
    return name;
}

int run_dir_open(struct run_dir **ret, const char *path, int lock, struct err *err)
{
    struct run_dir *d;
    size_t len = strlen(path);
    int rc = 0;

    while (len > 1 && path[len - 1] == '/')
        len--;
    d = xcalloc(1, sizeof(*d));
    d->name = run_dir_name_of(path);
    d->path = xstrndup(path, len);
    d->lock = -1;
    rc = find_run(path, err);
    if (rc == ERR_NOT_FOUND)
        rc = err_set(err, ERR_NOT_FOUND, "%s is no run", path);
    if (rc == 0)
        rc = hold(d, err);
    if (rc == 0 && lock)
        rc = take_lock(d, err);
    d->keeps_time = 1;
    if (rc < 0) {
        run_dir_free(d);
        return rc;
    }
    if (lock) { /* only the holder of the lock writes there, except tags (run_tags.c) */
        atomic_file_tidy_folder(d->path, "tags");
        atomic_file_tidy_folder(run_dir_file(d, "policies"), NULL);
    }
    *ret = d;
    return 0;
}

void run_dir_begin(struct run_dir *d)
{
    d->keeps_time = 0;
}

/* ---- files ---- */

const char *run_dir_name(const struct run_dir *d)
{
    return d->name;
}

const char *run_dir_path(const struct run_dir *d)
{
    return d->path;
}

const char *run_dir_file(struct run_dir *d, const char *sub)
{
    size_t head = strlen(d->path) + 1;

    for (size_t i = 0; i < d->n_files; i++)
        if (strcmp(d->files[i] + head, sub) == 0)
            return d->files[i];
    d->files = xreallocarray(d->files, d->n_files + 1, sizeof(*d->files));
    d->files[d->n_files] = xasprintf("%s/%s", d->path, sub);
    return d->files[d->n_files++];
}

double run_dir_began_unix(struct run_dir *d)
{
    struct stat st;

    return beneath_stat(run_dir_file(d, "provenance"), &st) == 0
               ? (double)st.st_mtim.tv_sec
               : (double)time(NULL);
}

int run_dir_write(struct run_dir *d, const char *sub, const void *data, size_t len,
                  struct err *err)
{
    return atomic_file_write(run_dir_file(d, sub), data, len, 1, err);
}

int run_dir_prepare_config(struct run_dir *d, const struct run_config *config,
                           struct atomic_file **ret, struct err *err)
{
    char *yaml = run_config_to_yaml(config);
    struct atomic_file *f = NULL;
    int rc = atomic_file_new(&f, run_dir_file(d, "config.yaml"), 1, err);

    if (rc == 0)
        rc = atomic_file_append(f, yaml, strlen(yaml), err);
    if (rc == 0)
        rc = atomic_file_flush(f, err);
    free(yaml);
    if (rc < 0)
        atomic_file_free(f);
    else
        *ret = f;
    return rc;
}

int run_dir_write_config(struct run_dir *d, const struct run_config *config,
                         struct err *err)
{
    struct atomic_file *f = NULL;
    int rc = run_dir_prepare_config(d, config, &f, err);

    if (rc == 0)
        rc = atomic_file_commit(f, err);
    atomic_file_free(f);
    return rc;
}

/* ---- finding a run ---- */

/* When the run's last supervisor started, which is when it wrote the lock file: others that
 * take the lock put its time back (run_dir_free). */
static struct timespec started(const char *path)
{
    char *lock = xasprintf("%s/lock", path);
    struct stat st = {0};

    if (lstat(lock, &st) < 0)
        st.st_mtim = (struct timespec){0};
    free(lock);
    return st.st_mtim;
}

static int later(struct timespec a, struct timespec b)
{
    return a.tv_sec != b.tv_sec ? a.tv_sec > b.tv_sec : a.tv_nsec > b.tv_nsec;
}

struct found {
    char *path;
    struct timespec started;
};

static int compare_found(const void *a, const void *b)
{
    const struct found *x = a, *y = b;

    if (later(x->started, y->started) || later(y->started, x->started))
        return later(x->started, y->started) ? -1 : 1;
    return strcmp(x->path, y->path);
}

/* Whether the path is a link that must not be followed (beneath_hold). */
static int is_planted(const char *path)
{
    struct stat st;
    int rc;

    if (lstat(path, &st) < 0 || !S_ISLNK(st.st_mode))
        return 0;
    rc = beneath_hold(path, NULL);
    if (rc == 0)
        beneath_release(path);
    return rc == -EXDEV;
}

static struct found *find_all(const char *runs_dir, size_t *ret_n)
{
    DIR *dir = opendir(runs_dir);
    struct found *all = NULL;
    struct dirent *e;
    size_t n = 0;

    while (dir != NULL && (e = readdir(dir)) != NULL) {
        char *path;

        if (e->d_name[0] == '.')
            continue;
        path = xasprintf("%s/%s", runs_dir, e->d_name);
        if (look(path) == -ENOENT || is_planted(path)) {
            free(path);
            continue;
        }
        all = xreallocarray(all, n + 1, sizeof(*all));
        all[n++] = (struct found){path, started(path)};
    }
    if (dir != NULL)
        (void)closedir(dir);
    if (n > 0)
        qsort(all, n, sizeof(*all), compare_found);
    *ret_n = n;
    return all;
}

int run_dir_check_runs(const char *runs_dir, struct err *err)
{
    DIR *dir = opendir(runs_dir);

    if (dir == NULL)
        return errno == ENOENT ? 0 : err_errno(err, "%s", runs_dir);
    (void)closedir(dir);
    return 0;
}

char **run_dir_list(const char *runs_dir, size_t *ret_n)
{
    struct found *all = find_all(runs_dir, ret_n);
    char **paths = xcalloc(*ret_n + 1, sizeof(*paths));

    for (size_t i = 0; i < *ret_n; i++)
        paths[i] = all[i].path;
    free(all);
    return paths;
}

/* Whether the name is <base>-<number>, as make_numbered chooses them. */
static int is_numbered(const char *name, const char *base)
{
    const char *dash = text_after(name, base);

    return dash != NULL && *dash == '-' && text_is_digits(dash + 1);
}

/* The newest run <base>-<number>, or (base NULL) of any name; those that the caller may not
 * read come last. Returns NULL if there is none. */
static char *find_newest(const char *runs_dir, const char *base)
{
    char *newest = NULL;
    size_t n;
    char **paths = run_dir_list(runs_dir, &n);

    for (size_t i = 0; i < n; i++) {
        if (newest == NULL &&
            (base == NULL || is_numbered(strrchr(paths[i], '/') + 1, base)))
            newest = paths[i];
        else
            free(paths[i]);
    }
    free(paths);
    return newest;
}

/* The only run "<folder>/<trial>-s<seed>" of a trial of a study, "<folder>/<trial>"; free(). NULL:
 * there is none, or more than one. */
static char *find_only_seed(const char *trial)
{
    const char *number = strrchr(trial, '/') + 1;
    char *folder = xstrndup(trial, (size_t)(number - trial)), *only = NULL;
    char *prefix = xasprintf("%s-s", number);
    DIR *dir = text_is_digits(number) ? opendir(folder) : NULL;
    const struct dirent *e;
    size_t n = 0;

    while (dir != NULL && (e = readdir(dir)) != NULL) {
        const char *seed = text_after(e->d_name, prefix);

        if (seed == NULL || !text_is_digits(seed) || n++ > 0)
            continue;
        only = xasprintf("%s%s", folder, e->d_name);
    }
    if (dir != NULL)
        (void)closedir(dir);
    free(prefix);
    free(folder);
    if (n > 1) {
        free(only);
        return NULL;
    }
    return only;
}

static int fail_no_run(const char *runs_dir, const char *run, struct err *err)
{
    char *study = xasprintf("%s/%s/study.yaml", runs_dir, run);
    struct stat st;

    if (strchr(run, '/') == NULL && stat(study, &st) == 0)
        (void)err_set(err, ERR_NOT_FOUND,
                      "%s in %s is a study: expected one of its runs, %s/RUN", run,
                      runs_dir, run);
    else
        (void)err_set(err, ERR_NOT_FOUND, "there is no run %s in %s", run, runs_dir);
    free(study);
    return ERR_NOT_FOUND;
}

/* Replaces *path, and looks there. */
static int find_at(char **path, char *next, struct err *err)
{
    free(*path);
    *path = next;
    return find_run(next, err);
}

/* A name takes precedence over a path, both over a path below runs_dir, and all over the
 * newest run of a numbered name. A study's trial with one seed is found without it, too. */
static int find_named(const char *runs_dir, const char *run, char **ret, struct err *err)
{
    const int has_slash = strchr(run, '/') != NULL;
    char *numbered, *only;
    int rc = ERR_NOT_FOUND;

    if (!has_slash)
        rc = find_at(ret, xasprintf("%s/%s", runs_dir, run), err);
    if (rc == ERR_NOT_FOUND)
        rc = find_at(ret, xstrdup(run), err);
    if (rc == ERR_NOT_FOUND && has_slash) /* of a study, lr/1-s1 */
        rc = find_at(ret, xasprintf("%s/%s", runs_dir, run), err);
    if (rc == ERR_NOT_FOUND && has_slash && (only = find_only_seed(*ret)) != NULL)
        rc = find_at(ret, only, err);
    if (rc == ERR_NOT_FOUND && (numbered = find_newest(runs_dir, run)) != NULL)
        rc = find_at(ret, numbered, err);
    return rc == ERR_NOT_FOUND ? fail_no_run(runs_dir, run, err) : rc;
}

int run_dir_find(const char *runs_dir, const char *run, char **ret, struct err *err)
{
    char *path = run == NULL ? find_newest(runs_dir, NULL) : NULL;
    int rc;

    if (run != NULL)
        rc = find_named(runs_dir, run, &path, err);
    else
        rc = path != NULL
                 ? find_run(path, err)
                 : err_set(err, ERR_NOT_FOUND, "there is no run in %s", runs_dir);
    if (rc == 0)
        rc = beneath_hold(path, err); /* until the process exits */
    if (rc < 0)
        free(path);
    else
        *ret = path;
    return rc;
}

int run_dir_find_own_name(const char *runs_dir, const char *run, char **ret,
                          struct err *err)
{
    char *path = NULL, *given, *found;
    int rc = run_dir_find(runs_dir, run, &path, err);

    if (rc < 0)
        return rc;
    given = run_dir_name_of(run);
    found = run_dir_name_of(path);
    if (strcmp(given, found) != 0)
        rc = err_set(err, ERR_NOT_FOUND,
                     "there is no run %s; the newest of that name is %s", run, found);
    free(given);
    free(found);
    if (rc < 0)
        free(path);
    else
        *ret = path;
    return rc;
}

char *run_dir_split(const char *text, const char **ret_step)
{
    const char *slash = strrchr(text, '/'),
               *at = strrchr(slash != NULL ? slash : text, '@');

    *ret_step = at != NULL ? at + 1 : NULL;
    return at != NULL ? xstrndup(text, (size_t)(at - text)) : xstrdup(text);
}

int run_dir_find_checkpoint(const char *runs_dir, const char *text, char **ret_dir,
                            uint64_t *ret_step,
                            void (*on_skipped)(void *ctx, const char *line), void *ctx,
                            struct err *err)
{
    const char *step;
    char *run = run_dir_split(text, &step), *path = NULL;
    int rc = run_dir_find(runs_dir, run, &path, err);

    free(run);
    if (rc < 0)
        return rc;
    *ret_dir = xasprintf("%s/checkpoints", path);
    free(path);
    rc = resume_choose(ret_step, *ret_dir, step, on_skipped, ctx, err);
    if (rc < 0) {
        free(*ret_dir);
        *ret_dir = NULL;
    }
    return rc;
}
