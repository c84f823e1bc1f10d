#include "supervisor/metrics/append.h"

#include <errno.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

int append_whole(int fd, const char *path, const void *data, size_t len, struct err *err)
{
    const uint8_t *p = data;
    struct stat st;
    off_t at;
    int rc = 0;

    if (fstat(fd, &st) < 0)
        return err_errno(err, "%s: cannot write", path);
    at = st.st_size;
    while (len > 0 && rc == 0) {
        ssize_t n = pwrite(fd, p, len, at);

        if (n < 0 && errno != EINTR)
            rc = err_errno(err, "%s: cannot write", path);
        if (n < 0)
            continue;
        p += n;
        at += n;
        len -= (size_t)n;
    }
    if (rc < 0 && ftruncate(fd, st.st_size) < 0)
        (void)err_wrap(err, "half a record is left");
    return rc;
}
