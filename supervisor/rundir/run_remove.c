#include "supervisor/rundir/run_remove.h"

#include "common/io/beneath.h"
#include "common/log/log.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "supervisor/rundir/run_dir.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DOOMED ".rm-"

/* Whether nothing but the lock is left in the held directory, which is this user's. */
static int is_bare(const char *path)
{
    DIR *dir = beneath_opendir(path);
    const struct dirent *e;
    struct stat st;
    int yes = dir != NULL && beneath_held(path, &st) == 0 && st.st_uid == geteuid();

    while (yes && (e = beneath_readdir(dir)) != NULL)
        yes = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
              strcmp(e->d_name, "lock") == 0;
    yes = yes && errno == 0;
    if (dir != NULL)
        (void)closedir(dir);
    return yes;
}

/* ---- removing ---- */

static int is_link(const char *path)
{
    char *plain = xstrdup(path);
    struct stat st;
    int yes;

    for (size_t n = strlen(plain); n > 1 && plain[n - 1] == '/'; n--)
        plain[n - 1] = '\0';
    yes = lstat(plain, &st) == 0 && S_ISLNK(st.st_mode);
    free(plain);
    return yes;
}

int run_remove_check(const char *path, struct err *err)
{
    return is_link(path)
               ? err_set(err, ERR_ARG, "%s is a link; give what it leads to", path)
               : 0;
}

int run_remove(const char *path, struct err *err)
{
    char *above, *parent, *doomed;
    struct run_dir *d;
    struct err other;
    int rc = run_remove_check(path, err);

    if (rc == 0)
        rc = run_dir_open(&d, path, 1, err);
    if (rc < 0)
        return rc;
    above = xasprintf("%s/..", path);
    parent = realpath(above, NULL);
    doomed = xasprintf(DOOMED "%s-%d", run_dir_name(d), (int)getpid());
    run_dir_mark(d, doomed);
    rc = run_dir_rename(d, doomed, err);
    if (rc < 0)
        run_dir_unmark(d);
    else
        rc = run_dir_remove(d, err);
    free(doomed);
    run_dir_free(d);
    if (rc == 0 && parent != NULL && run_remove_leftovers(parent, &other) < 0)
        log_warn("%s", other.msg);
    free(parent);
    free(above);
    return rc;
}

/* ---- leftovers ---- */

/* Without a lock, whoever makes it may just have begun; who removes it is nearly done. */
static int finish(const char *path, const char *name, struct err *err)
{
    struct run_dir *d = NULL;
    int rc = 0;

    if (is_link(path) || rmdir(path) == 0 || beneath_hold(path, NULL) < 0)
        return 0;
    if (run_dir_is_marked(path, name) || is_bare(path)) {
        rc = run_dir_open(&d, path, 1, err);
        if (rc == 0)
            rc = run_dir_remove(d, err);
        run_dir_free(d);
    }
    beneath_release(path);
    /* its lock is held: another process is removing or making it */
    return rc == ERR_STATE || rc == ERR_NOT_FOUND ? 0 : rc;
}

int run_remove_leftovers(const char *runs_dir, struct err *err)
{
    DIR *dir = opendir(runs_dir);
    struct dirent *e;
    int rc = 0;

    while (dir != NULL && rc == 0 && (e = beneath_readdir(dir)) != NULL) {
        char *path;

        if (text_after(e->d_name, DOOMED) == NULL &&
            text_after(e->d_name, RUN_DIR_MAKING) == NULL)
            continue;
        path = xasprintf("%s/%s", runs_dir, e->d_name);
        rc = finish(path, e->d_name, err);
        free(path);
    }
    if (dir != NULL && rc == 0 && errno != 0)
        rc = err_errno(err, "%s", runs_dir);
    if (dir != NULL)
        (void)closedir(dir);
    return rc;
}
