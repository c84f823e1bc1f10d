#include "common/io/read_at.h"

#include <errno.h>
#include <unistd.h>

ssize_t read_at(int fd, void *ret, size_t max, uint64_t offset)
{
    size_t n = 0;

    while (n < max) {
        const ssize_t got = pread(fd, (uint8_t *)ret + n, max - n, (off_t)(offset + n));

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        n += (size_t)got;
    }
    return (ssize_t)n;
}
