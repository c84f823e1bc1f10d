#include "supervisor/cli/init_copy.h"

#include "common/io/beneath.h"
#include "common/io/copy.h"
#include "common/io/tree.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "supervisor/save/checkpoint_format.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX ".init-"

/* Opens the folder and locks it. -1 with errno; EWOULDBLOCK: somebody else has it; ENOENT: it is
 * gone. */
static int lock(const char *path)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat own, there;
    int why;

    if (fd < 0)
        return -1;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &own) < 0 ||
        lstat(path, &there) < 0)
        why = errno;
    else if (own.st_ino != there.st_ino || own.st_dev != there.st_dev)
        why = ENOENT;
    else
        return fd;
    (void)close(fd);
    errno = why;
    return -1;
}

/* ---- removing ---- */

/* Whether the held folder is the locked one, belongs to this user and has nothing but
 * checkpoints, as a copy has: whoever may rename in the runs directory can give any folder of
 * this user the name of a copy. */
static int is_copy(const char *path, int locked)
{
    DIR *d = beneath_opendir(path);
    struct stat held, own;
    struct dirent *e;
    int yes = d != NULL && beneath_held(path, &held) == 0 && fstat(locked, &own) == 0 &&
              held.st_ino == own.st_ino && held.st_dev == own.st_dev &&
              own.st_uid == geteuid();

    while (yes && (e = beneath_readdir(d)) != NULL)
        yes = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
              text_is_digits(e->d_name);
    yes = yes && errno == 0;
    if (d != NULL)
        (void)closedir(d);
    return yes;
}

/* Removes the copy, which is locked by fd; closes fd. Empties the folder by its descriptor: its
 * name may lead elsewhere at any time. */
static void remove_copy(const char *path, int fd)
{
    if (beneath_hold(path, NULL) == 0) {
        if (is_copy(path, fd) && tree_empty(path, NULL, NULL) == 0)
            (void)rmdir(path);
        beneath_release(path);
    }
    (void)close(fd);
}

static void remove_left(const char *runs_dir)
{
    DIR *d = opendir(runs_dir);

    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        char *path;
        int fd;

        if (text_after(e->d_name, PREFIX) == NULL)
            continue;
        path = xasprintf("%s/%s", runs_dir, e->d_name);
        fd = lock(path);
        if (fd >= 0)
            remove_copy(path, fd);
        free(path);
    }
    if (d != NULL)
        (void)closedir(d);
}

/* ---- the copy ---- */

/* Stores the folder's path only when it was made: another one is not this series'. */
static int make_folder(struct init_copy *c, const char *runs_dir, struct err *err)
{
    uint64_t random = 0;
    char *path;
    int rc = tree_make(runs_dir, err);

    (void)getrandom(&random, sizeof(random), 0);
    path = xasprintf("%s/" PREFIX "%016" PRIx64, runs_dir, random);
    if (rc == 0 && mkdir(path, 0700) < 0)
        rc = err_errno(err, "%s", path);
    if (rc < 0) {
        free(path);
        return rc;
    }
    c->path = path;
    c->fd = lock(path);
    if (c->fd >= 0)
        return 0;
    return errno == EWOULDBLOCK || errno == ENOENT
               ? err_set(err, -ESTALE, "%s: another series removes it", path)
               : err_errno(err, "%s: cannot lock it", path);
}

int init_copy_make(struct init_copy *ret, const char *runs_dir, const char *checkpoints,
                   uint64_t step, struct err *err)
{
    char *from = checkpoint_path(checkpoints, "", step), *to = NULL;
    int rc;

    *ret = (struct init_copy){.fd = -1};
    remove_left(runs_dir);
    rc = make_folder(ret, runs_dir, err);
    if (rc == 0) {
        to = checkpoint_path(ret->path, "", step);
        rc = copy_tree(from, to, err);
    }
    if (!tree_exists(from)) /* some of it may have been gone already */
        rc = err_set(err, -ESTALE, "%s was removed meanwhile", from);
    if (rc < 0)
        init_copy_done(ret);
    else
        (void)setenv(INIT_COPY_VARIABLE, ret->path, 1);
    free(from);
    free(to);
    return rc;
}

void init_copy_done(struct init_copy *c)
{
    if (c->path == NULL)
        return;
    (void)unsetenv(INIT_COPY_VARIABLE);
    if (c->fd >= 0)
        remove_copy(c->path, c->fd);
    free(c->path);
    *c = (struct init_copy){0};
}

const char *init_copy_given(void)
{
    const char *path = getenv(INIT_COPY_VARIABLE);

    return path != NULL && *path != '\0' && tree_exists(path) ? path : NULL;
}
