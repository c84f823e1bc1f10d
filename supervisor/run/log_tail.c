#include "supervisor/run/log_tail.h"

#include "common/io/beneath.h"
#include "common/io/read_at.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* Removes the rest of a line that began earlier. */
static void drop_first_line(struct wbuf *b, size_t begin)
{
    const uint8_t *first = b->data + begin;
    const uint8_t *end = memchr(first, '\n', b->len - begin);
    const size_t n = end != NULL ? (size_t)(end + 1 - first) : b->len - begin;

    memmove(b->data + begin, first + n, b->len - begin - n);
    b->len -= n;
}

int log_tail(struct wbuf *ret, const char *path, size_t max, struct err *err)
{
    const int fd = beneath_open(path, O_RDONLY | O_NONBLOCK, 0);
    const off_t end = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;
    /* One byte more: if it is a newline, the first line is whole. */
    const off_t from = end > (off_t)max ? end - (off_t)max - 1 : 0;
    const size_t begin = ret->len;
    ssize_t n = -1;
    int rc = 0;

    if (fd < 0)
        return errno == ENOENT ? 0 : err_errno(err, "%s", path);
    if (end >= 0) {
        wbuf_reserve(ret, (size_t)(end - from));
        n = read_at(fd, ret->data + begin, (size_t)(end - from), (uint64_t)from);
    }
    if (n < 0)
        rc = err_errno(err, "%s", path);
    else
        ret->len += (size_t)n;
    (void)close(fd);
    if (n > 0 && end > (off_t)max)
        drop_first_line(ret, begin);
    return rc;
}
