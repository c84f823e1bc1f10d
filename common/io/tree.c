#include "common/io/tree.h"

#include "common/io/beneath.h"
#include "common/io/patience.h"
#include "common/io/sync_files.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A run directory has four levels; each level uses a descriptor during a walk. */
enum { MAX_DEPTH = 100 };

int tree_make(const char *path, struct err *err)
{
    char *copy;
    const size_t held = beneath_prefix(path);
    int rc = 0;

    if (*path == '\0')
        return err_set(err, ERR_ARG, "the name of a folder is empty");
    copy = xstrdup(path);

    /* A held directory that was deleted is not created again. */
    for (char *p = copy + held + 1; rc == 0; p++) {
        char c = *p;

        if (c != '/' && c != '\0')
            continue;
        *p = '\0';
        if (beneath_mkdir(copy, 0777) < 0 && errno != EEXIST)
            rc = err_errno(err, "%s: cannot create", copy);
        *p = c;
        if (c == '\0')
            break;
    }
    free(copy);
    return rc;
}

/* ---- walking ---- */

/* Called for each entry of the folder `at`; for a folder, after its contents. Returns -1
 * with errno after an error. */
typedef int (*visit_fn)(void *ctx, int at, const char *name, int is_dir);

/* Visits the contents of the folder fd, which is closed, except the entries named in `last`,
 * a list that ends with NULL. */
static int each_in(int fd, const char *const *last, int depth, visit_fn visit, void *ctx);

static int each(int at, const char *name, int depth, visit_fn visit, void *ctx)
{
    struct stat st;
    int fd;

    if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -1;
    if (!S_ISDIR(st.st_mode))
        return visit(ctx, at, name, 0);
    if (depth == MAX_DEPTH) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : -1;
    return each_in(fd, NULL, depth + 1, visit, ctx) < 0 ? -1 : visit(ctx, at, name, 1);
}

static int each_in(int fd, const char *const *last, int depth, visit_fn visit, void *ctx)
{
    DIR *d = fdopendir(fd);
    struct dirent *e;
    int rc = 0, why;

    if (d == NULL) {
        (void)close(fd);
        return -1;
    }
    while (rc == 0 && (e = beneath_readdir(d)) != NULL) {
        if (beneath_is_entry(e) && (last == NULL || text_find(last, e->d_name) < 0))
            rc = each(dirfd(d), e->d_name, depth, visit, ctx);
    }
    if (rc == 0 && errno != 0)
        rc = -1;
    why = errno;
    (void)closedir(d);
    errno = why;
    return rc;
}

/* Visits the file or folder at that path; a folder after its contents. */
static int each_of(const char *path, visit_fn visit, void *ctx)
{
    const char *name;
    const int at = beneath_parent(path, &name);
    int rc, why;

    if (at < 0)
        return errno == ENOENT ? 0 : -1;
    rc = each(at, name, 0, visit, ctx);
    why = errno;
    (void)close(at);
    errno = why;
    return rc;
}

/* ---- removing ---- */

static int remove_one(void *ctx, int at, const char *name, int is_dir)
{
    return unlinkat(at, name, is_dir ? AT_REMOVEDIR : 0) < 0 && errno != ENOENT ? -1 : 0;
}

int tree_remove(const char *path, struct err *err)
{
    return each_of(path, remove_one, NULL) == 0
               ? 0
               : err_errno(err, "%s: cannot remove", path);
}

int tree_empty(const char *path, const char *const *last, struct err *err)
{
    const int fd = beneath_open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    const int again = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    int rc = 0;

    if (again < 0)
        rc = err_errno(err, "%s", path);
    else if (each_in(again, last, 0, remove_one, NULL) < 0)
        rc = err_errno(err, "%s: cannot remove what is in it", path);
    for (; rc == 0 && last != NULL && *last != NULL; last++)
        if (each(fd, *last, 0, remove_one, NULL) < 0)
            rc = err_errno(err, "%s: cannot remove %s", path, *last);
    if (fd >= 0)
        (void)close(fd);
    return rc;
}

int tree_rename(const char *from, const char *to, unsigned flags, struct err *err)
{
    return beneath_rename(from, to, flags) < 0
               ? err_errno(err, "%s: rename to %s", from, to)
               : 0;
}

/* ---- reading ---- */

static int count_one(void *ctx, int at, const char *name, int is_dir)
{
    uint64_t *bytes = ctx;
    struct stat st;

    if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        *bytes += (uint64_t)st.st_blocks * 512;
    return patience_check(NULL) < 0 ? -1 : 0;
}

uint64_t tree_disk_bytes(const char *path)
{
    /* The path of a run directory may be a link; links inside a held one are refused. */
    const int fd = beneath_open(path, O_RDONLY | O_DIRECTORY, 0);
    uint64_t bytes = 0;

    if (fd >= 0) {
        (void)count_one(&bytes, fd, ".", 1);
        (void)each_in(fd, NULL, 0, count_one, &bytes);
    }
    return bytes;
}

int tree_sync(const char *path, struct err *err)
{
    int fd = beneath_open(path, O_RDONLY | O_DIRECTORY, 0);
    int rc = 0;

    if (fd < 0 || fsync(fd) < 0)
        rc = err_errno(err, "%s: fsync", path);
    if (fd >= 0)
        (void)close(fd);
    return rc;
}

static int open_to_sync(int at, const char *name)
{
    return openat(at, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

static int sync_one(void *ctx, int at, const char *name, int is_dir)
{
    int fd = open_to_sync(at, name);

    if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
        (void)sync_files_wait(ctx); /* which closes those that were added */
        fd = open_to_sync(at, name);
    }
    if (fd < 0) /* it has gone; a link or socket is synced with its folder */
        return errno == ENOENT || errno == ELOOP || errno == ENXIO ? 0 : -1;
    sync_files_add(ctx, fd);
    return 0;
}

int tree_sync_all(const char *path, int *ret_lost, struct err *err)
{
    struct sync_files *files = sync_files_new();
    int rc = each_of(path, sync_one, files) == 0 ? 0 : -errno;
    const int failure = sync_files_wait(files);

    sync_files_free(files);
    if (ret_lost != NULL && (rc < 0 || failure < 0))
        *ret_lost = failure < 0;
    if (failure < 0)
        rc = failure;
    errno = -rc;
    return rc < 0 ? err_errno(err, "%s: fsync", path) : 0;
}

int tree_look(const char *path, struct err *err)
{
    const char *name;
    const int at = beneath_parent(path, &name);
    struct stat st;
    int rc;

    if (at >= 0 && fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        rc = 1;
    else
        rc = errno == ENOENT || errno == ENOTDIR ? 0 : err_errno(err, "%s", path);
    if (at >= 0)
        (void)close(at);
    return rc;
}

int tree_exists(const char *path)
{
    return tree_look(path, NULL) == 1;
}

char *tree_nearest(const char *path)
{
    char *ret = xstrdup(*path != '\0' ? path : ".");

    while (access(ret, F_OK) < 0 && errno == ENOENT && strcmp(ret, "/") != 0 &&
           strcmp(ret, ".") != 0) {
        char *slash = strrchr(ret, '/');

        if (slash == NULL)
            (void)strcpy(ret, ".");
        else
            slash[slash == ret] = '\0';
    }
    return ret;
}
