#include "supervisor/rundir/run_dir_internal.h"

#include "common/io/beneath.h"
#include "common/io/tree.h"
#include "common/log/log.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_NUMBER = 1000000, MAX_UNUSED = 1000 };

static const char *const folders[] = {"logs", "metrics", "checkpoints"};

/* ---- whether a run may be made ---- */

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

/* Whoever may write the folder of runs can put another directory in the place of the one that
 * was looked at, or made. */
static int check_held_own(const struct run_dir *d, struct err *err)
{
    struct stat st;

    if (beneath_held(d->path, &st) < 0)
        return err_errno(err, "%s", d->path);
    return st.st_uid != geteuid() ? run_dir_fail_replaced(d, 0, err) : 0;
}

/* errno: 0, or why that could not be found out. */
static int is_empty(const struct run_dir *d)
{
    DIR *dir = beneath_opendir(d->path);
    int n = 0;

    while (dir != NULL && n <= 2 && beneath_readdir(dir) != NULL)
        n++;
    if (dir != NULL)
        (void)closedir(dir);
    return dir != NULL && n <= 2; /* . and .. */
}

/* Makes the directory and holds it. -EEXIST: the name is taken. After an error, it is not
 * left. */
static int make_empty(struct run_dir *d, struct err *err)
{
    int rc;

    if (mkdir(d->path, 0700) < 0)
        return err_errno(err, "%s: cannot create", d->path);
    rc = run_dir_hold(d, err);
    if (rc < 0)
        (void)rmdir(d->path);
    if (rc == 0)
        rc = check_held_own(d, err);
    return rc == 0 && !is_empty(d) ? run_dir_fail_replaced(d, errno, err) : rc;
}

/* Checks that what has the name, if anything has, is a run of this user. An empty directory is
 * removed: it is left by a supervisor that ended before it had the lock. */
static int clear_place(const struct run_dir *d, struct err *err)
{
    char user[RUN_DIR_USER_BYTES];
    struct stat st;

    if (lstat(d->path, &st) == 0) {
        if (S_ISLNK(st.st_mode))
            return err_set(err, ERR_EXISTS, "%s is a link: left alone", d->path);
        if (st.st_uid != geteuid()) /* who could change the new run */
            return err_set(err, ERR_EXISTS, "run %s belongs to %s: left alone", d->name,
                           run_dir_user_name(st.st_uid, user));
    }
    if (rmdir(d->path) < 0 && errno != ENOENT && run_dir_look(d->path) != 0)
        return err_set(err, ERR_EXISTS, "%s exists and is no run: left alone", d->path);
    return 0;
}

/* Holds and locks the run that is to be replaced. */
static int take_over(struct run_dir *d, struct err *err)
{
    int rc = run_dir_hold(d, err);

    if (rc == 0)
        rc = check_held_own(d, err);
    return rc < 0 ? rc : run_dir_lock(d, err);
}

static int fail_exists(const struct run_dir *d, struct err *err)
{
    return err_set(err, ERR_EXISTS, "run %s exists already (--force replaces it): %s",
                   d->name, d->path);
}

int run_dir_check_new(const char *runs_dir, const char *name, int force, struct err *err)
{
    struct run_dir *d = run_dir_new(runs_dir, name);
    const pid_t holder = force ? run_dir_holder(d->path) : 0;
    struct stat st;
    int rc = 0;

    if (!force && lstat(d->path, &st) == 0)
        rc = fail_exists(d, err);
    else if (holder != 0)
        rc = run_dir_fail_live(d, holder, 0, err);
    run_dir_free(d);
    return rc;
}

static int make_named(struct run_dir *d, int force, struct err *err)
{
    int rc = force ? clear_place(d, err) : 0;

    if (rc < 0)
        return rc;
    rc = make_empty(d, err);
    if (rc != -EEXIST)
        return rc;
    if (!force)
        return fail_exists(d, err);
    /* empties the directory of a run that is over, and removes the lock file, which this process
     * holds, last */
    rc = take_over(d, err);
    if (rc == 0)
        rc = tree_empty(d->path, (const char *const[]){"lock", NULL}, err);
    if (rc < 0)
        return rc;
    (void)close(d->lock);
    d->lock = -1;
    return 0;
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
        struct run_dir *d = run_dir_new(runs_dir, name);
        const int rc = is_submitted(runs_dir, name) ? -EEXIST : make_empty(d, err);

        free(name);
        if (rc != -EEXIST) {
            *ret = d;
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
    const int fd = beneath_open(d->path, O_RDONLY | O_DIRECTORY, 0);
    struct stat st;
    int rc = 0;

    /* the mode of a new or replaced directory is set whatever the umask is */
    if (fd < 0 || fstat(fd, &st) < 0 || fchmod(fd, (st.st_mode & S_ISGID) | mode) < 0)
        rc = err_errno(err, "%s: cannot set its mode", d->path);
    if (fd >= 0)
        (void)close(fd);
    if (rc == 0)
        rc = run_dir_lock(d, err);
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
        d = run_dir_new(runs_dir, name);
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

/* ---- making a run beside its place ---- */

/* The folder in which the run is made. A process that removes what others have left there
 * (run_remove.c) may remove it before it is locked. */
static int make_unused(struct run_dir **ret, const char *runs_dir, mode_t mode,
                       struct err *err)
{
    int rc = ERR_STATE;

    for (int i = 0; i < MAX_UNUSED; i++) {
        char *name = xasprintf(RUN_DIR_MAKING "%d-%d", (int)getpid(), i);
        struct run_dir *d = run_dir_new(runs_dir, name);

        rc = make_empty(d, err);
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

int run_dir_make(struct run_dir **ret, const char *runs_dir, const char *name,
                 const char *base, int force, mode_t mode, struct err *err)
{
    struct run_dir *d = NULL, *old = name != NULL ? run_dir_new(runs_dir, name) : NULL;
    int rc = run_dir_check_name(name != NULL ? name : base, err);

    if (rc == 0)
        rc = tree_make(runs_dir, err);
    if (rc == 0 && name != NULL)
        rc = run_dir_check_new(runs_dir, name, force, err);
    if (rc == 0 && name != NULL && force)
        rc = clear_place(old, err);
    run_dir_free(old);
    if (rc == 0)
        rc = make_unused(&d, runs_dir, mode, err);
    if (rc < 0)
        return rc;
    d->base = name == NULL ? xstrdup(base) : NULL;
    d->force = force && name != NULL;
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

/* Takes the place of a run that is over, which is then not wanted under the name that the new
 * one had. */
static int take_place(struct run_dir *d, struct run_dir *old, struct err *err)
{
    char *aside = run_dir_name_of(d->path);
    int rc = take_over(old, err);

    old->keeps_time = 1;
    if (rc == 0) {
        run_dir_mark(old, aside);
        rc = run_dir_move(d, d->name, old, err);
        if (rc < 0)
            run_dir_unmark(old);
    }
    free(aside);
    return rc;
}

/* The held directory has its final path now, and the run that it replaced, if any, another. */
static void take_path(struct run_dir *d, struct run_dir *old)
{
    run_dir_forget_files(d);
    if (old->is_held) { /* by the final path, too */
        char *aside = xasprintf("%s-old", d->path);

        beneath_move(old->path, aside);
        free(old->path);
        old->path = aside;
    }
    beneath_move(d->path, d->final);
    free(d->path);
    free(d->moved);
    d->path = d->final;
    d->moved = d->final = NULL;
}

int run_dir_appear(struct run_dir *d, struct err *err)
{
    char *runs_dir = xstrndup(d->final, (size_t)(strrchr(d->final, '/') - d->final));
    struct run_dir *old = run_dir_new(runs_dir, d->name);
    struct err other;
    int rc = tree_sync_all(d->path, NULL, err);

    if (rc == 0 && d->force)
        rc = clear_place(old, err);
    if (rc == 0)
        rc = run_dir_move(d, d->name, NULL, err);
    if (rc == -EEXIST || rc == -ENOTEMPTY)
        rc = d->force ? take_place(d, old, err) : fail_exists(old, err);
    if (rc == 0) {
        take_path(d, old);
        run_dir_unmark(d);
        if (old->is_held && run_dir_remove(old, &other) < 0)
            log_warn("%s", other.msg);
    }
    run_dir_free(old);
    free(runs_dir);
    return rc;
}
