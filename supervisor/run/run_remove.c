#include "supervisor/run/run_remove.h"

#include "common/io/tree.h"
#include "common/log/log.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "supervisor/run/run_dir.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DOOMED ".rm-"

static int remove_doomed(const char *path, struct err *err)
{
    int rc = tree_empty(path, "lock", err);

    return rc == 0 ? tree_remove(path, err) : rc;
}

/* Renames the run, then removes it, and what earlier removals have left beside it: the runs of
 * a study have a folder of their own. real: the path without links, so it contains a slash. */
static int rename_and_remove(const char *real, struct err *err)
{
    const char *name = strrchr(real, '/') + 1;
    char *parent = xstrndup(real, (size_t)(name - real));
    char *doomed = xasprintf("%s" DOOMED "%s-%d", parent, name, (int)getpid());
    struct err other;
    int rc = 0;

    if (rename(real, doomed) < 0)
        rc = err_errno(err, "%s: cannot remove", real);
    if (rc == 0)
        rc = tree_sync(parent, err);
    if (rc == 0)
        rc = remove_doomed(doomed, err);
    if (rc == 0 && run_remove_leftovers(parent, &other) < 0)
        log_warn("%s", other.msg);
    free(doomed);
    free(parent);
    return rc;
}

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

int run_remove(const char *path, struct err *err)
{
    struct run_dir *d;
    char *real;
    int rc;

    if (is_link(path))
        return err_set(err, ERR_ARG, "%s is a link; give the run itself", path);
    rc = run_dir_open(&d, path, 1, err);
    if (rc < 0)
        return rc;
    real = realpath(path, NULL);
    rc = real != NULL ? rename_and_remove(real, err) : err_errno(err, "%s", path);
    free(real);
    run_dir_free(d);
    return rc;
}

/* Skips the folder if its lock is held: another process is removing or making it. Without a
 * lock, whoever makes it may just have begun; who removes it is nearly done. */
static int finish(const char *path, int is_doomed, struct err *err)
{
    struct run_dir *d = NULL;
    int rc = run_dir_open(&d, path, 1, err);

    if (rc == ERR_STATE)
        return 0;
    if (rc == ERR_NOT_FOUND && !is_doomed) {
        (void)rmdir(path);
        return 0;
    }
    if (rc == 0 || rc == ERR_NOT_FOUND)
        rc = remove_doomed(path, err);
    run_dir_free(d);
    return rc;
}

int run_remove_leftovers(const char *runs_dir, struct err *err)
{
    DIR *dir = opendir(runs_dir);
    struct dirent *e;
    int rc = 0;

    while (dir != NULL && rc == 0 && (e = readdir(dir)) != NULL) {
        const int is_doomed = text_after(e->d_name, DOOMED) != NULL;
        struct stat st;
        char *path;

        if (!is_doomed && text_after(e->d_name, RUN_DIR_MAKING) == NULL)
            continue;
        if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            st.st_uid != geteuid())
            continue;
        path = xasprintf("%s/%s", runs_dir, e->d_name);
        rc = finish(path, is_doomed, err);
        free(path);
    }
    if (dir != NULL)
        (void)closedir(dir);
    return rc;
}
