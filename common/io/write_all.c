#include "common/io/write_all.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

int write_all(int fd, const void *data, size_t len)
{
    const uint8_t *p = data;

    while (len > 0) {
        ssize_t n = write(fd, p, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = EIO;
        if (n <= 0)
            return -1;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

int pwrite_all(int fd, const void *data, size_t len, uint64_t offset)
{
    const uint8_t *p = data;

    while (len > 0) {
        ssize_t n = pwrite(fd, p, len, (off_t)offset);

        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = EIO;
        if (n <= 0)
            return -1;
        p += n;
        len -= (size_t)n;
        offset += (uint64_t)n;
    }
    return 0;
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
        (void)err_wrap(err, "half a record is left");
    return rc;
}
