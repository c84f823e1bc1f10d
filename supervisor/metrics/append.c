#include "supervisor/metrics/append.h"

#include "common/io/write_all.h"

#include <sys/stat.h>
#include <unistd.h>

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
