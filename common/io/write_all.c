#include "common/io/write_all.h"

#include <errno.h>
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
