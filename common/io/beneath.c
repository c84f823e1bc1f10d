#include "common/io/beneath.h"

#include "common/mem/xmalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef PIPEFS_MAGIC
#define PIPEFS_MAGIC 0x50495045
#endif

enum { WRITER_WITHIN_MS = 2000, WRITER_EVERY_MS = 5 };

#define RESOLVE (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)

struct held {
    char *path;
    size_t len; /* length of path without slashes at its end */
    int fd;     /* O_PATH */
    size_t count;
};

/* The held directories. There are few: one run, or all runs for `brood runs`. */
static struct {
    pthread_mutex_t mutex;
    struct held *dirs;
    size_t n;
} table = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* ---- held directories ---- */

static size_t length_of(const char *path)
{
    size_t len = strlen(path);

    while (len > 1 && path[len - 1] == '/')
        len--;
    return len;
}

static struct held *find_exact(const char *path)
{
    const size_t len = length_of(path);

    for (size_t i = 0; i < table.n; i++)
        if (table.dirs[i].len == len && memcmp(table.dirs[i].path, path, len) == 0)
            return &table.dirs[i];
    return NULL;
}

/* 1, 0, or -errno. */
static int is_same(int a, int b)
{
    struct stat x, y;

    if (fstat(a, &x) < 0 || fstat(b, &y) < 0)
        return -errno;
    return x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int fail_with(int fd, int error)
{
    if (fd >= 0)
        (void)close(fd);
    errno = error;
    return -1;
}

/* Opens the directory to which the link leads. Anybody who may create a name in a shared
 * folder can make it a link to a directory of the caller. A link is therefore followed only
 * if it belongs to the caller, to root, or to the owner of the directory. */
static int follow(int at, int link, const struct stat *is)
{
    char text[PATH_MAX];
    const ssize_t n = readlinkat(link, "", text, sizeof(text) - 1);
    struct stat st;
    int fd;

    if (n < 0)
        return -1;
    text[n] = '\0';
    fd = openat(at, text, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || is->st_uid == geteuid() || is->st_uid == 0)
        return fd;
    return fstat(fd, &st) < 0 || st.st_uid != is->st_uid ? fail_with(fd, EXDEV) : fd;
}

/* Opens a directory by its path (O_PATH). EXDEV: the path is a link that is not followed. */
static int open_dir(const char *dir)
{
    char *plain = xstrndup(dir, length_of(dir));
    const char *name;
    const int at = beneath_parent(plain, &name);
    int fd = -1, link = -1, why;
    struct stat st;

    if (at >= 0 && *name == '\0')
        fd = openat(at, "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    else if (at >= 0)
        link = openat(at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (link >= 0 && fstat(link, &st) == 0) {
        if (S_ISLNK(st.st_mode))
            fd = follow(at, link, &st);
        else if (S_ISDIR(st.st_mode))
            fd = fcntl(link, F_DUPFD_CLOEXEC, 0);
        else
            errno = ENOTDIR;
    }
    why = errno;
    free(plain);
    if (link >= 0)
        (void)close(link);
    if (at >= 0)
        (void)close(at);
    errno = why;
    return fd;
}

static int fail_open(const char *dir, struct err *err)
{
    struct stat st;

    if (errno != EXDEV)
        return err_errno(err, "%s", dir);
    if (lstat(dir, &st) < 0)
        st.st_uid = (uid_t)-1;
    return err_set(err, -EXDEV,
                   "%s is a link that user %d made to a directory of somebody else: left "
                   "alone; give the directory itself",
                   dir, (int)st.st_uid);
}

/* is_same_only: see beneath_hold_same. */
static int hold(const char *dir, int is_same_only, struct err *err)
{
    const int fd = open_dir(dir);
    struct held *h;
    int rc = 0, same;

    if (fd < 0)
        return fail_open(dir, err);
    (void)pthread_mutex_lock(&table.mutex);
    h = find_exact(dir);
    if (h == NULL) {
        table.dirs = xreallocarray(table.dirs, table.n + 1, sizeof(*table.dirs));
        h = &table.dirs[table.n++];
        *h = (struct held){.len = length_of(dir), .fd = fd, .count = 1};
        h->path = xstrndup(dir, h->len);
    } else {
        same = is_same(h->fd, fd);
        if (same < 0)
            rc = err_set(err, same, "%s: %s", dir, strerror(-same));
        else if (!same && is_same_only)
            rc = err_set(err, ERR_STATE,
                         "%s was replaced by another directory meanwhile: left alone",
                         dir);
        else if (!same)
            (void)dup3(fd, h->fd, O_CLOEXEC);
        h->count += rc == 0;
        (void)close(fd);
    }
    (void)pthread_mutex_unlock(&table.mutex);
    return rc;
}

int beneath_hold(const char *dir, struct err *err)
{
    return hold(dir, 0, err);
}

int beneath_hold_same(const char *dir, struct err *err)
{
    return hold(dir, 1, err);
}

void beneath_release(const char *dir)
{
    struct held *h;

    (void)pthread_mutex_lock(&table.mutex);
    h = find_exact(dir);
    if (h != NULL && --h->count == 0) {
        (void)close(h->fd);
        free(h->path);
        *h = table.dirs[--table.n];
    }
    if (table.n == 0) {
        free(table.dirs);
        table.dirs = NULL;
    }
    (void)pthread_mutex_unlock(&table.mutex);
}

void beneath_move(const char *from, const char *to)
{
    struct held *h;

    (void)pthread_mutex_lock(&table.mutex);
    h = find_exact(from);
    if (h != NULL) {
        free(h->path);
        h->len = length_of(to);
        h->path = xstrndup(to, h->len);
    }
    (void)pthread_mutex_unlock(&table.mutex);
}

int beneath_held(const char *dir, struct stat *ret)
{
    struct held *h;
    int rc = -1;

    (void)pthread_mutex_lock(&table.mutex);
    h = find_exact(dir);
    if (h != NULL)
        rc = fstat(h->fd, ret);
    else
        errno = EBADF;
    (void)pthread_mutex_unlock(&table.mutex);
    return rc;
}

int beneath_dup(const char *dir)
{
    struct held *h;
    int fd = -1;

    (void)pthread_mutex_lock(&table.mutex);
    h = find_exact(dir);
    if (h != NULL)
        fd = fcntl(h->fd, F_DUPFD_CLOEXEC, 0);
    else
        errno = EBADF;
    (void)pthread_mutex_unlock(&table.mutex);
    return fd;
}

static int has_dotdot(const char *rest)
{
    for (const char *p = rest; *p != '\0'; p += strcspn(p, "/"), p += strspn(p, "/"))
        if (strncmp(p, "..", 2) == 0 && (p[2] == '/' || p[2] == '\0'))
            return 1;
    return 0;
}

/* Returns the held directory that contains path (of several, the one with the longest
 * path), or -1. *ret_rest: the part of path after it. The descriptor is valid as long as
 * the caller holds the directory. */
static int root_of(const char *path, const char **ret_rest)
{
    size_t longest = 0;
    int fd = -1;

    (void)pthread_mutex_lock(&table.mutex);
    for (size_t i = 0; i < table.n; i++) {
        const struct held *h = &table.dirs[i];
        const char *rest = path + h->len;

        if (h->len <= longest || strncmp(h->path, path, h->len) != 0 || *rest != '/')
            continue;
        rest += strspn(rest, "/");
        if (*rest == '\0' || has_dotdot(rest))
            continue;
        longest = h->len;
        fd = h->fd;
        *ret_rest = rest;
    }
    (void)pthread_mutex_unlock(&table.mutex);
    return fd;
}

size_t beneath_prefix(const char *path)
{
    const char *rest;

    return root_of(path, &rest) < 0 ? 0 : (size_t)(rest - path) - 1;
}

/* As root_of, and for the path of the held directory itself: the rest is then ".". */
static int root_or_self(const char *path, const char **ret_rest)
{
    const struct held *h;
    int fd;

    (void)pthread_mutex_lock(&table.mutex);
    h = find_exact(path);
    fd = h != NULL ? h->fd : -1;
    (void)pthread_mutex_unlock(&table.mutex);
    if (fd < 0)
        return root_of(path, ret_rest);
    *ret_rest = ".";
    return fd;
}

/* ---- opening ---- */

static int is_link(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISLNK(st.st_mode);
}

/* Opens one component of a path, without a slash. */
static int open_one(int at, const char *name, int flags, mode_t mode)
{
    const int fd = openat(at, name, flags | O_NOFOLLOW | O_CLOEXEC, mode);
    struct stat st;

    if (fd >= 0 && (flags & O_PATH) != 0 && is_link(fd))
        return fail_with(fd, ELOOP);
    /* the error that O_DIRECTORY gives for a link */
    if (fd < 0 && errno == ENOTDIR)
        errno = fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode)
                    ? ELOOP
                    : ENOTDIR;
    return fd;
}

/* For kernels without openat2 (before Linux 5.6), and sandboxes that forbid it. */
static int walk(int root, const char *rest, int flags, mode_t mode)
{
    int at = root, next;

    for (;;) {
        const size_t len = strcspn(rest, "/");
        const int is_last = rest[len + strspn(rest + len, "/")] == '\0';
        char name[NAME_MAX + 1];

        if (len > NAME_MAX)
            return fail_with(at != root ? at : -1, ENAMETOOLONG);
        (void)snprintf(name, sizeof(name), "%.*s", (int)len, rest);
        next = is_last ? open_one(at, name, flags, mode)
                       : open_one(at, name, O_PATH | O_DIRECTORY, 0);
        if (at != root) {
            const int why = errno;

            (void)close(at);
            errno = why;
        }
        if (next < 0 || is_last)
            return next;
        at = next;
        rest += len;
        rest += strspn(rest, "/");
    }
}

static int open_beneath(int root, const char *rest, int flags, mode_t mode)
{
    const struct open_how how = {
        .flags = (uint64_t)(flags | O_NOFOLLOW | O_CLOEXEC),
        .mode = (flags & O_CREAT) != 0 ? mode : 0,
        .resolve = RESOLVE,
    };
    const int fd = (int)syscall(SYS_openat2, root, rest, &how, sizeof(how));

    if (fd < 0 && (errno == ENOSYS || errno == EPERM))
        return walk(root, rest, flags, mode);
    if (fd >= 0 && (flags & O_PATH) != 0 && is_link(fd))
        return fail_with(fd, ELOOP);
    return fd;
}

/* Returns the bits of `mode` that the held directory's mode has, too. */
static mode_t granted(int root, mode_t mode)
{
    struct stat st;

    return fstat(root, &st) == 0 ? mode & st.st_mode & 0777 : mode & 0700;
}

static int beneath_check(int root, int fd, int flags)
{
    struct stat st, top;

    if (fstat(fd, &st) < 0 || fstat(root, &top) < 0)
        return fail_with(fd, errno);
    if (S_ISDIR(st.st_mode) || (flags & O_PATH) != 0)
        return fd;
    if (!S_ISREG(st.st_mode))
        return fail_with(fd, ENXIO);
    if ((flags & O_ACCMODE) != O_RDONLY && st.st_nlink > 1 && st.st_uid != top.st_uid)
        return fail_with(fd, EMLINK);
    return fd;
}

/* Opens a file, and truncates it only when its kind is known. */
static int open_there(int root, const char *rest, int flags)
{
    const int extra = (flags & O_PATH) != 0 ? 0 : O_NONBLOCK | O_NOCTTY;
    int fd = open_beneath(root, rest, (flags & ~(O_CREAT | O_EXCL | O_TRUNC)) | extra, 0);

    if (fd >= 0)
        fd = beneath_check(root, fd, flags);
    if (fd >= 0 && (flags & O_TRUNC) != 0 && ftruncate(fd, 0) < 0)
        return fail_with(fd, errno);
    return fd;
}

static int create(const char *path, int root, const char *rest, int flags, mode_t mode)
{
    const int fd =
        open_beneath(root, rest, (flags & ~O_TRUNC) | O_CREAT | O_EXCL, mode & 0700);

    if (fd >= 0 && fchmod(fd, granted(root, mode)) < 0) {
        const int why = errno;

        (void)beneath_unlink(path);
        return fail_with(fd, why);
    }
    return fd;
}

int beneath_open(const char *path, int flags, mode_t mode)
{
    const char *rest;
    const int root = root_or_self(path, &rest);
    int fd = -1;

    if (root < 0)
        return open(path, flags | O_CLOEXEC, mode);
    /* A file that prevented creation may be removed before it is opened: try again. */
    for (int tries = 0; tries < 10; tries++) {
        if ((flags & O_CREAT) != 0) {
            fd = create(path, root, rest, flags, mode);
            if (fd >= 0 || errno != EEXIST || (flags & O_EXCL) != 0)
                return fd;
        }
        fd = open_there(root, rest, flags);
        if (fd >= 0 || errno != ENOENT || (flags & O_CREAT) == 0)
            return fd;
    }
    return fd;
}

int beneath_open_in(const char *dir, const char *name, int flags)
{
    const int root = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    const int fd = root >= 0 ? open_there(root, name, flags) : -1;
    const int why = errno;

    if (root >= 0)
        (void)close(root);
    errno = why;
    return fd;
}

/* Whether somebody writes into the fifo, or has written into it. tee copies one byte without
 * taking it; it returns 0 if there is none, nor anybody who could write one. */
static int has_writer(int fd, int scratch)
{
    const ssize_t n = tee(fd, scratch, 1, SPLICE_F_NONBLOCK);

    return n > 0 || (n < 0 && errno != EINTR);
}

static int await_writer(int fd)
{
    int scratch[2], found = 0;

    if (pipe2(scratch, O_CLOEXEC) < 0)
        return -1;
    for (int ms = 0; !found && ms < WRITER_WITHIN_MS; ms += WRITER_EVERY_MS) {
        found = has_writer(fd, scratch[1]);
        if (!found)
            (void)poll(NULL, 0, WRITER_EVERY_MS);
    }
    (void)close(scratch[0]);
    (void)close(scratch[1]);
    if (!found)
        errno = ENODATA;
    return found ? 0 : -1;
}

/* As open for reading, which would wait for ever for a fifo's other end. A pipe without a name
 * (/dev/fd/63) does not wait: its writer may have exited. */
static int open_reading(const char *path)
{
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct statfs system;
    struct stat st;
    int flags;

    if (fd < 0)
        return -1;
    if (fstat(fd, &st) < 0 || fstatfs(fd, &system) < 0)
        return fail_with(fd, errno);
    if (S_ISFIFO(st.st_mode) && system.f_type != PIPEFS_MAGIC && await_writer(fd) < 0)
        return fail_with(fd, errno);
    flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0)
        return fail_with(fd, errno);
    return fd;
}

FILE *beneath_fopen(const char *path, const char *mode)
{
    const int both = strchr(mode, '+') != NULL;
    const char *rest;
    int flags, fd;
    FILE *f;

    if (*mode == 'r')
        flags = both ? O_RDWR : O_RDONLY;
    else
        flags =
            (both ? O_RDWR : O_WRONLY) | O_CREAT | (*mode == 'a' ? O_APPEND : O_TRUNC);
    if (strchr(mode, 'x') != NULL)
        flags |= O_EXCL;
    if (root_of(path, &rest) >= 0)
        fd = beneath_open(path, flags, 0666);
    else if (flags == O_RDONLY)
        fd = open_reading(path);
    else
        return fopen(path, mode);
    if (fd < 0)
        return NULL;
    f = fdopen(fd, mode);
    if (f == NULL)
        (void)fail_with(fd, errno);
    return f;
}

DIR *beneath_opendir(const char *path)
{
    const int fd = beneath_open(path, O_RDONLY | O_DIRECTORY, 0);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;

    if (d == NULL && fd >= 0)
        (void)fail_with(fd, errno);
    return d;
}

struct dirent *beneath_readdir(DIR *d)
{
    errno = 0;
    return readdir(d);
}

int beneath_is_entry(const struct dirent *e)
{
    return strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
}

int beneath_scandir(const char *path, struct dirent ***ret,
                    int (*keep)(const struct dirent *))
{
    const int fd = beneath_open(path, O_RDONLY | O_DIRECTORY, 0);
    const int n = fd >= 0 ? scandirat(fd, ".", ret, keep, alphasort) : -1;

    if (fd >= 0) {
        const int why = errno;

        (void)close(fd);
        errno = why;
    }
    return n;
}

/* ---- names ---- */

int beneath_parent(const char *path, const char **ret_name)
{
    const char *rest, *slash = strrchr(path, '/');
    const int root = root_of(path, &rest);
    const char *from = root >= 0 ? rest : path;
    char *folder;
    int fd;

    *ret_name = slash != NULL ? slash + 1 : path;
    folder = *ret_name > from ? xstrndup(from, (size_t)(*ret_name - from)) : xstrdup(".");
    if (root < 0)
        fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    else
        fd = open_beneath(root, folder, O_PATH | O_DIRECTORY, 0);
    free(folder);
    return fd;
}

int beneath_stat(const char *path, struct stat *ret)
{
    const char *rest, *name;
    int fd = root_or_self(path, &rest), rc;

    if (fd < 0)
        return stat(path, ret);
    if (strcmp(rest, ".") == 0)
        return fstat(fd, ret);
    fd = beneath_parent(path, &name);
    if (fd < 0)
        return -1;
    rc = fstatat(fd, name, ret, AT_SYMLINK_NOFOLLOW);
    return rc < 0 ? fail_with(fd, errno) : close(fd);
}

int beneath_mkdir(const char *path, mode_t mode)
{
    const char *rest, *name;
    const int root = root_of(path, &rest);
    int fd, made = -1;
    struct stat st;

    if (root < 0)
        return mkdir(path, mode);
    fd = beneath_parent(path, &name);
    if (fd < 0)
        return -1;
    if (mkdirat(fd, name, 0700) == 0)
        made = open_one(fd, name, O_RDONLY | O_DIRECTORY, 0);
    /* the folder above may have passed on its set-group-ID bit */
    if (made < 0 || fstat(made, &st) < 0 ||
        fchmod(made, (st.st_mode & S_ISGID) | granted(root, mode)) < 0) {
        const int why = errno;

        (void)fail_with(made, 0);
        return fail_with(fd, why);
    }
    (void)close(made);
    return close(fd);
}

int beneath_unlink(const char *path)
{
    const char *rest, *name;
    int fd;

    if (root_of(path, &rest) < 0)
        return unlink(path);
    fd = beneath_parent(path, &name);
    if (fd < 0)
        return -1;
    return unlinkat(fd, name, 0) < 0 ? fail_with(fd, errno) : close(fd);
}

int beneath_rename(const char *from, const char *to, unsigned flags)
{
    const char *rest, *name, *to_name;
    int fd, to_fd, rc = -1, why;

    if (root_of(from, &rest) < 0 && root_of(to, &rest) < 0)
        return renameat2(AT_FDCWD, from, AT_FDCWD, to, flags);
    fd = beneath_parent(from, &name);
    if (fd < 0)
        return -1;
    to_fd = beneath_parent(to, &to_name);
    if (to_fd >= 0)
        rc = renameat2(fd, name, to_fd, to_name, flags);
    why = errno;
    if (to_fd >= 0)
        (void)close(to_fd);
    (void)close(fd);
    errno = why;
    return rc;
}
