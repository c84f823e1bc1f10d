#include "supervisor/run/tree.h"

#include "common/mem/xmalloc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_OPEN_FOLDERS = 16 };

int tree_make(const char *path, struct err *err)
{
    char *copy = xstrdup(path);
    int rc = 0;

    for (char *p = copy + 1; rc == 0; p++) {
        char c = *p;

        if (c != '/' && c != '\0')
            continue;
        *p = '\0';
        if (mkdir(copy, 0777) < 0 && errno != EEXIST)
            rc = err_errno(err, "%s: cannot create", copy);
        *p = c;
        if (c == '\0')
            break;
    }
    free(copy);
    return rc;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path) < 0 && errno != ENOENT ? -1 : 0;
}

int tree_remove(const char *path, struct err *err)
{
    if (nftw(path, remove_one, MAX_OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS) == 0 ||
        errno == ENOENT)
        return 0;
    return err_errno(err, "%s: cannot remove", path);
}

static int remove_in(const char *path, const char *name, struct err *err)
{
    char *sub = xasprintf("%s/%s", path, name);
    int rc = tree_remove(sub, err);

    free(sub);
    return rc;
}

int tree_empty(const char *path, const char *last, struct err *err)
{
    DIR *d = opendir(path);
    struct dirent *e;
    int rc = 0;

    if (d == NULL)
        return err_errno(err, "%s", path);
    while (rc == 0 && (e = readdir(d)) != NULL) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
            (last == NULL || strcmp(e->d_name, last) != 0))
            rc = remove_in(path, e->d_name, err);
    }
    (void)closedir(d);
    return rc == 0 && last != NULL ? remove_in(path, last, err) : rc;
}

uint64_t tree_disk_bytes(const char *path)
{
    char *const roots[] = {(char *)(uintptr_t)path, NULL};
    FTS *fts = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    uint64_t bytes = 0;
    FTSENT *e;

    while (fts != NULL && (e = fts_read(fts)) != NULL) {
        if (e->fts_info == FTS_D || e->fts_info == FTS_F || e->fts_info == FTS_SL)
            bytes += (uint64_t)e->fts_statp->st_blocks * 512;
    }
    if (fts != NULL)
        (void)fts_close(fts);
    return bytes;
}

int tree_sync(const char *path, struct err *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = 0;

    if (fd < 0 || fsync(fd) < 0)
        rc = err_errno(err, "%s: fsync", path);
    if (fd >= 0)
        (void)close(fd);
    return rc;
}

static int sync_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int rc = fd >= 0 ? fsync(fd) : -1;

    (void)st;
    (void)type;
    (void)ftw;
    if (fd >= 0)
        (void)close(fd);
    return rc;
}

int tree_sync_all(const char *path, struct err *err)
{
    if (nftw(path, sync_one, MAX_OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS) == 0)
        return 0;
    return err_errno(err, "%s: fsync", path);
}

int tree_exists(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}
