#include "supervisor/proc/scratch.h"

#include "common/io/beneath.h"
#include "common/io/tree.h"
#include "common/mem/xmalloc.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define VARIABLE "BROOD_SCRATCH"
#define PREFIX   "brood-scratch-"

enum { YOUNG_S = 60 }; /* its maker may not have locked it yet */

void scratch_name(const char *mark)
{
    const char *folder = getenv("TMPDIR");
    char *path;

    if (folder == NULL || *folder != '/' || access(folder, W_OK) != 0)
        folder = access("/var/tmp", W_OK) == 0 ? "/var/tmp" : "/tmp";
    path = xasprintf("%s/" PREFIX "%s", folder, mark);
    (void)setenv(VARIABLE, path, 1);
    free(path);
}

static int is_scratch(const struct dirent *e)
{
    return strncmp(e->d_name, PREFIX, strlen(PREFIX)) == 0;
}

static void remove_stale(const char *folder)
{
    struct dirent **entries = NULL;
    const int n = beneath_scandir(folder, &entries, is_scratch);

    for (int i = 0; i < n; i++) {
        char *path = xasprintf("%s/%s", folder, entries[i]->d_name);
        const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        struct stat st;

        if (fd >= 0) {
            if (fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
                st.st_mtime + YOUNG_S < time(NULL) && flock(fd, LOCK_EX | LOCK_NB) == 0)
                (void)tree_remove(path, NULL);
            (void)close(fd);
        }
        free(path);
        free(entries[i]);
    }
    free(entries);
}

int scratch_make(const char **ret, struct err *err)
{
    const char *path = getenv(VARIABLE);
    char *folder;
    int fd;

    if (path == NULL)
        return err_set(err, ERR_STATE, "no keeper has named a folder for files");
    folder = xstrndup(path, (size_t)(strrchr(path, '/') - path));
    remove_stale(folder);
    free(folder);
    if (mkdir(path, 0700) < 0)
        return err_errno(err, "%s", path);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0) {
        const int rc = err_errno(err, "%s", path);

        if (fd >= 0)
            (void)close(fd);
        return rc;
    }
    *ret = path;
    return fd;
}

void scratch_remove(void)
{
    const char *path = getenv(VARIABLE);

    if (path != NULL && tree_exists(path))
        (void)tree_remove(path, NULL);
}
