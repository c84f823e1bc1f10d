#include "supervisor/web/stamps.h"

#include "supervisor/run/run_dir.h"

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

enum { LOCK };

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
        const struct stamp was = s->file[i];

        (void)snprintf(file, sizeof(file), "%s/%s", path, files[i]);
        if (lstat(file, &st) < 0)
            st = (struct stat){0};
        s->file[i] = (struct stamp){st.st_mtim, st.st_size, st.st_ino};
        ret |= st.st_mtim.tv_sec != was.changed.tv_sec ||
               st.st_mtim.tv_nsec != was.changed.tv_nsec || st.st_size != was.size ||
               st.st_ino != was.inode;
    }
    return ret;
}

const struct timespec *stamps_began(const struct stamps *s)
{
    return &s->file[LOCK].changed;
}
