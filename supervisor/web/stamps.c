#include "supervisor/web/stamps.h"

#include "supervisor/run/run_dir.h"

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

enum { LOCK };

static int is_same(const struct stamp *a, const struct stamp *b)
{
    return a->changed.tv_sec == b->changed.tv_sec &&
           a->changed.tv_nsec == b->changed.tv_nsec && a->size == b->size &&
           a->inode == b->inode;
}

int stamps_look(struct stamps *s, const char *path)
{
    static const char *const files[STAMPS_FILES] = {[LOCK] = "lock",        "journal",
                                                    "metrics/progress.csv", "config.yaml",
                                                    "checkpoints",          "tags"};
    const pid_t holder = run_dir_holder(path);
    int ret = holder != s->holder;

    s->holder = holder;
    for (int i = 0; i < STAMPS_FILES; i++) {
        char file[PATH_MAX];
        struct stat st = {0};
        struct stamp now;

        (void)snprintf(file, sizeof(file), "%s/%s", path, files[i]);
        if (lstat(file, &st) < 0)
            st = (struct stat){0};
        now = (struct stamp){st.st_mtim, st.st_size, st.st_ino};
        ret |= !is_same(&now, &s->file[i]);
        s->file[i] = now;
    }
    return ret;
}

const struct timespec *stamps_began(const struct stamps *s)
{
    return &s->file[LOCK].changed;
}
