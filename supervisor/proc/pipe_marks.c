#include "supervisor/proc/pipe_marks.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct table {
    _Atomic uint32_t end;                   /* index after the last mark */
    _Atomic uint64_t inode[PIPE_MARKS_MAX]; /* 0: free */
};

static struct table *table; /* NULL: nothing is shared */

int pipe_marks_share(struct err *err)
{
    void *p = mmap(NULL, sizeof(*table), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        return err_errno(err, "sharing memory with the keeper");
    table = p;
    return 0;
}

uint64_t pipe_marks_add(int fd)
{
    struct stat st;
    uint32_t i = 0;

    if (table == NULL || fstat(fd, &st) < 0 || !S_ISFIFO(st.st_mode))
        return 0;
    while (i < PIPE_MARKS_MAX && table->inode[i] != 0)
        i++;
    if (i == PIPE_MARKS_MAX)
        return 0;
    table->inode[i] = st.st_ino;
    if (i >= table->end)
        table->end = i + 1;
    return st.st_ino;
}

void pipe_marks_remove(uint64_t inode)
{
    for (uint32_t i = 0; inode != 0 && table != NULL && i < table->end; i++)
        if (table->inode[i] == inode)
            table->inode[i] = 0;
}

static int is_marked(uint64_t inode)
{
    for (uint32_t i = 0; i < table->end; i++)
        if (table->inode[i] == inode)
            return inode != 0;
    return 0;
}

/* The inode of a link to "pipe:[4711]"; 0: the descriptor is no pipe. */
static uint64_t inode_of(int folder, const char *name)
{
    static const char begin[] = "pipe:[";
    char target[64];
    const ssize_t n = readlinkat(folder, name, target, sizeof(target) - 1);

    if (n < (ssize_t)sizeof(begin) || memcmp(target, begin, sizeof(begin) - 1) != 0)
        return 0;
    target[n] = '\0';
    return strtoull(target + sizeof(begin) - 1, NULL, 10);
}

int pipe_marks_held_by(pid_t pid)
{
    _Alignas(struct dirent64) char entries[4096];
    char path[48];
    ssize_t len;
    int folder, found = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    if (table == NULL || (folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        return 0;
    while (!found && (len = getdents64(folder, entries, sizeof(entries))) > 0) {
        for (ssize_t at = 0; at < len && !found;) {
            const struct dirent64 *e = (const void *)(entries + at);

            at += e->d_reclen;
            found = is_marked(inode_of(folder, e->d_name));
        }
    }
    (void)close(folder);
    return found;
}
