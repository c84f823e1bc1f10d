#include "supervisor/rundir/run_dir_internal.h"

#include "common/io/beneath.h"
#include "common/io/tree.h"
#include "common/log/log.h"
#include "common/mem/xmalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MARK "unwanted"

/* ---- its name in its folder ---- */

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

int run_dir_fail_replaced(const struct run_dir *d, int reason, struct err *err)
{
    errno = reason;
    if (err_is_failure(-reason))
        return err_errno(err, "%s", d->path);
    return err_set(err, ERR_STATE,
                   "%s was replaced by something else meanwhile: left alone", d->path);
}

/* ---- renaming ---- */

/* Renames a folder and replaces nothing, also where a file system cannot do that in one step. */
static int rename_new(int parent, const char *from, const char *to)
{
    int why;

    if (renameat2(parent, from, parent, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL || mkdirat(parent, to, 0700) < 0)
        return -1;
    if (renameat(parent, from, parent, to) == 0)
        return 0;
    why = errno;
    (void)unlinkat(parent, to, AT_REMOVEDIR);
    errno = why;
    return -1;
}

/* In three steps; after an error, they are taken back. */
static int exchange_in_steps(int parent, const char *a, const char *b)
{
    char *aside = xasprintf("%s-old", a);
    const char *const from[] = {b, a, aside}, *const to[] = {aside, b, a};
    int n = 0, why;

    while (n < 3 && rename_new(parent, from[n], to[n]) == 0)
        n++;
    why = errno;
    for (int i = n; n < 3 && i > 0; i--)
        (void)rename_new(parent, to[i - 1], from[i - 1]);
    free(aside);
    errno = why;
    return n < 3 ? -1 : 0;
}

static int rename_or_exchange(int parent, const char *from, const char *to,
                              const struct run_dir *other)
{
    if (other == NULL)
        return rename_new(parent, from, to);
    if (renameat2(parent, from, parent, to, RENAME_EXCHANGE) == 0)
        return 0;
    return errno == EINVAL ? exchange_in_steps(parent, from, to) : -1;
}

/* Which of the directories does not have its name, d or (unless NULL) other; NULL: both do. */
static const struct run_dir *find_misplaced(int parent, const struct run_dir *d,
                                            const char *name, const struct run_dir *other,
                                            const char *name_of_other)
{
    if (!is_named(d, parent, name))
        return d;
    return other != NULL && !is_named(other, parent, name_of_other) ? other : NULL;
}

static int move_in(int parent, struct run_dir *d, const char *was, const char *name,
                   struct run_dir *other, struct err *err)
{
    const struct run_dir *wrong = find_misplaced(parent, d, was, other, name);
    int rc = 0;

    if (wrong != NULL)
        return run_dir_fail_replaced(wrong, errno, err);
    if (rename_or_exchange(parent, was, name, other) < 0)
        return err_errno(err, "%s: cannot rename it to %s", d->path, name);
    wrong = find_misplaced(parent, d, name, other, was);
    if (wrong != NULL)
        rc = run_dir_fail_replaced(wrong, errno, err);
    else if (fsync(parent) < 0)
        rc = err_errno(err, "the folder of %s: fsync", d->path);
    if (rc < 0 && rename_or_exchange(parent, name, was, other) < 0)
        rc = err_errno(err, "%s cannot get its name back: it is %s beside it now",
                       d->path, name);
    return rc;
}

/* No system call renames a directory only if it is a certain one: a wrong one gets its name
 * back. */
int run_dir_move(struct run_dir *d, const char *name, struct run_dir *other,
                 struct err *err)
{
    const int parent = open_parent(d);
    char *was = entry_of(d);
    const int rc = parent < 0 ? err_errno(err, "the folder of %s", d->path)
                              : move_in(parent, d, was, name, other, err);

    if (parent >= 0)
        (void)close(parent);
    if (rc == 0 && other != NULL) {
        free(other->moved);
        other->moved = xstrdup(was);
    }
    if (rc == 0) {
        free(d->moved);
        d->moved = xstrdup(name);
    }
    free(was);
    return rc;
}

int run_dir_rename(struct run_dir *d, const char *name, struct err *err)
{
    return run_dir_move(d, name, NULL, err);
}

/* ---- removing ---- */

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

    if (d->is_held && run_dir_remove(d, &err) < 0)
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
