#include "supervisor/web/stamps.h"

#include "supervisor/rundir/run_dir.h"

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

void stamps_look(struct stamps *ret, const char *path)
{
    static const char *const files[STAMPS_FILES] = {[STAMP_LOCK] = "lock",
                                                    [STAMP_JOURNAL] = "journal",
                                                    [STAMP_ROWS] = "metrics/progress.csv",
                                                    [STAMP_CONFIG] = "config.yaml",
                                                    [STAMP_CHECKPOINTS] = "checkpoints",
                                                    [STAMP_TAGS] = "tags"};

    *ret = (struct stamps){.holder = run_dir_holder(path)};
    for (int i = 0; i < STAMPS_FILES; i++) {
        char file[PATH_MAX];
        struct stat st;

        (void)snprintf(file, sizeof(file), "%s/%s", path, files[i]);
        if (lstat(file, &st) == 0)
            ret->file[i] = (struct stamp){st.st_mtim, st.st_size, st.st_ino};
    }
}

int stamps_renew(struct stamps *s, const struct stamps *newer)
{
    int ret = s->holder != newer->holder;

    for (int i = 0; i < STAMPS_FILES; i++) {
        const struct stamp *a = &s->file[i], *b = &newer->file[i];

        ret |= a->changed.tv_sec != b->changed.tv_sec ||
               a->changed.tv_nsec != b->changed.tv_nsec || a->size != b->size ||
               a->inode != b->inode;
    }
    *s = *newer;
    return ret;
}

const struct timespec *stamps_began(const struct stamps *s)
{
    return &s->file[STAMP_LOCK].changed;
}
