#include "supervisor/cli/init_copy.h"

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
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX ".init-"

/* Opens the folder and locks it. -1: somebody else has it, or it is gone. */
static int lock(const char *path)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat own, there;

    if (fd < 0)
        return -1;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &own) == 0 &&
        lstat(path, &there) == 0 && own.st_ino == there.st_ino &&
        own.st_dev == there.st_dev && own.st_uid == geteuid())
        return fd;
    (void)close(fd);
    return -1;
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
        if (fd >= 0) {
            (void)tree_remove(path, NULL);
            (void)close(fd);
        }
        free(path);
    }
    if (d != NULL)
        (void)closedir(d);
}

static int make_folder(struct init_copy *c, const char *runs_dir, struct err *err)
{
    uint64_t random = 0;
    int rc = tree_make(runs_dir, err);

    (void)getrandom(&random, sizeof(random), 0);
    c->path = xasprintf("%s/" PREFIX "%016" PRIx64, runs_dir, random);
    if (rc == 0 && mkdir(c->path, 0700) < 0)
        rc = err_errno(err, "%s", c->path);
    if (rc == 0 && (c->fd = lock(c->path)) < 0)
        rc = err_set(err, -ESTALE, "%s: it cannot be locked", c->path);
    return rc;
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
    (void)tree_remove(c->path, NULL);
    if (c->fd >= 0)
        (void)close(c->fd);
    free(c->path);
    *c = (struct init_copy){0};
}

const char *init_copy_given(void)
{
    const char *path = getenv(INIT_COPY_VARIABLE);

    return path != NULL && *path != '\0' && tree_exists(path) ? path : NULL;
}
