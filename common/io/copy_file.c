#include "common/io/copy_file.h"

#include "common/io/beneath.h"
#include "common/io/tree.h"
#include "common/io/write_all.h"
#include "common/mem/xmalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { PIECE_BYTES = 1 << 16, MAX_DEPTH = 100 };

static int copy_piece(int from, int to, off_t at, off_t end)
{
    uint8_t *data = xmalloc(PIECE_BYTES);
    int rc = 0;

    while (at < end && rc == 0) {
        const size_t want = (size_t)(end - at < PIECE_BYTES ? end - at : PIECE_BYTES);
        const ssize_t n = pread(from, data, want, at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0) /* the file became shorter */
            errno = EIO;
        rc = n > 0 ? pwrite_all(to, data, (size_t)n, (uint64_t)at) : -1;
        at += n;
    }
    free(data);
    return rc;
}

int copy_bytes(int from, int to, off_t begin, off_t end)
{
    for (off_t at = begin; at < end;) {
        const off_t data = lseek(from, at, SEEK_DATA);
        off_t hole;

        if (data < 0)
            return errno == ENXIO ? 0 : -1; /* the rest of the file is a hole */
        if (data >= end)
            return 0;
        hole = lseek(from, data, SEEK_HOLE);
        if (hole < 0 || hole > end)
            hole = end;
        if (copy_piece(from, to, data, hole) < 0)
            return -1;
        at = hole;
    }
    return 0;
}

int copy_reference(int from, int to)
{
    return ioctl(to, FICLONE, from);
}

static int copy_whole(int from, int to)
{
    struct stat st;

    if (copy_reference(from, to) == 0)
        return 0;
    if (fstat(from, &st) < 0 || ftruncate(to, st.st_size) < 0)
        return -1;
    return copy_bytes(from, to, 0, st.st_size);
}

/* Copies a file to a new one and syncs it. -EEXIST, -errno; the message names both. */
static int copy_file(const char *from, const char *to, struct err *err)
{
    const int in = beneath_open(from, O_RDONLY, 0);
    const int out = in >= 0 ? beneath_open(to, O_RDWR | O_CREAT | O_EXCL, 0666) : -1;
    int rc = 0;

    if (in < 0)
        rc = err_errno(err, "%s", from);
    else if (out < 0 || copy_whole(in, out) < 0 || fsync(out) < 0)
        rc = err_errno(err, "%s: cannot copy it to %s", from, to);
    if (in >= 0)
        (void)close(in);
    if (out >= 0)
        (void)close(out);
    return rc;
}

static int copy_entry(const char *from, const char *to, int depth, struct err *err);

static int copy_folder(const char *from, const char *to, int depth, struct err *err)
{
    struct dirent **list = NULL;
    int rc = tree_make(to, err);
    const int n = rc == 0 ? beneath_scandir(from, &list, beneath_is_entry) : 0;

    if (n < 0)
        rc = err_errno(err, "%s", from);
    for (int i = 0; i < n; i++) {
        char *source = xasprintf("%s/%s", from, list[i]->d_name);
        char *copy = xasprintf("%s/%s", to, list[i]->d_name);

        if (rc == 0)
            rc = copy_entry(source, copy, depth + 1, err);
        free(copy);
        free(source);
        free(list[i]);
    }
    free(list);
    return rc == 0 ? tree_sync(to, err) : rc;
}

static int copy_entry(const char *from, const char *to, int depth, struct err *err)
{
    struct stat st;

    if (beneath_stat(from, &st) < 0)
        return err_errno(err, "%s", from);
    if (!S_ISDIR(st.st_mode))
        return copy_file(from, to, err);
    if (depth == MAX_DEPTH)
        return err_set(err, ERR_LIMIT, "%s: more than %d folders in each other", from,
                       MAX_DEPTH);
    return copy_folder(from, to, depth, err);
}

int copy_tree(const char *from, const char *to, struct err *err)
{
    return copy_entry(from, to, 0, err);
}
