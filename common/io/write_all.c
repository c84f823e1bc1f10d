#include "common/io/write_all.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

/* Writes all bytes at *offset; offset NULL: at the descriptor's own position. */
static int write_everything(int fd, const void *data, size_t len, const uint64_t *offset)
{
    const uint8_t *p = data;
    size_t done = 0;

    while (done < len) {
        ssize_t n = offset != NULL
                        ? pwrite(fd, p + done, len - done, (off_t)(*offset + done))
                        : write(fd, p + done, len - done);

        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = EIO;
        if (n <= 0)
            return -1;
        done += (size_t)n;
    }
    return 0;
}

int write_all(int fd, const void *data, size_t len)
{
    return write_everything(fd, data, len, NULL);
}

int pwrite_all(int fd, const void *data, size_t len, uint64_t offset)
{
    return write_everything(fd, data, len, &offset);
}

ssize_t pread_all(int fd, void *data, size_t len, uint64_t offset)
{
    uint8_t *p = data;
    size_t done = 0;

    while (done < len) {
        const ssize_t n = pread(fd, p + done, len - done, (off_t)(offset + done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

int append_whole(int fd, const char *path, const void *data, size_t len, struct err *err)
{
    struct stat st;
    int rc;

    if (fstat(fd, &st) < 0)
        return err_errno(err, "%s: cannot write", path);
    if (pwrite_all(fd, data, len, (uint64_t)st.st_size) == 0)
        return 0;
    rc = err_errno(err, "%s: cannot write", path);
    if (ftruncate(fd, st.st_size) < 0)
        (void)err_wrap(err, "an incomplete record could not be removed");
    return rc;
}
