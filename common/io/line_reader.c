#include "common/io/line_reader.h"

#include "common/io/beneath.h"
#include "common/io/patience.h"
#include "common/io/write_all.h"
#include "common/mem/xmalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK_BYTES = 1 << 16 };

static int open_file(const char *path)
{
    return beneath_open(path, O_RDONLY | O_NONBLOCK, 0);
}

int line_reader_open(struct line_reader *r, const char *path, size_t max_bytes,
                     struct err *err)
{
    *r = (struct line_reader){.fd = open_file(path), .max_bytes = max_bytes};
    if (r->fd >= 0)
        return 0;
    return errno == ENOENT ? err_set(err, ERR_NOT_FOUND, "%s does not exist", path)
                           : err_errno(err, "%s", path);
}

void line_reader_close(struct line_reader *r)
{
    if (r->max_bytes != 0 && r->fd >= 0)
        (void)close(r->fd);
    free(r->buf);
    *r = (struct line_reader){0};
}

static int is_zeros(const char *p, size_t len)
{
    return p[0] == '\0' && memcmp(p, p + 1, len - 1) == 0;
}

/* Drops the line that has no newline yet. */
static int line_reader_fail(struct line_reader *r, int code)
{
    r->len = r->begin;
    return r->failure = code;
}

/* Reads one more piece of the file into the buffer: number of bytes, 0 at the end,
 * -errno. */
static ssize_t read_more(struct line_reader *r, struct err *err)
{
    ssize_t n;

    if (r->fd < 0 || r->failure != 0)
        return 0;
    if (patience_check(err) < 0)
        return line_reader_fail(r, ERR_TIMEOUT);
    if (r->begin > 0) {
        memmove(r->buf, r->buf + r->begin, r->len - r->begin);
        r->len -= r->begin;
        r->begin = 0;
    }
    if (r->cap - r->len <= CHUNK_BYTES) {
        r->cap = r->cap * 2 + CHUNK_BYTES + 1;
        r->buf = xrealloc(r->buf, r->cap);
    }
    n = read(r->fd, r->buf + r->len, CHUNK_BYTES);
    if (n < 0)
        return errno == EINTR || errno == EAGAIN ? 0 : err_errno(err, "reading a log");
    if (n == CHUNK_BYTES && is_zeros(r->buf + r->len, CHUNK_BYTES)) {
        (void)err_set(err, ERR_CORRUPT, "zeros instead of text from byte %lld on",
                      (long long)r->read_bytes);
        return line_reader_fail(r, ERR_CORRUPT);
    }
    r->len += (size_t)n;
    r->read_bytes += n;
    return n;
}

static void line_reader_take(struct line_reader *r, size_t len, char **ret,
                             size_t *ret_len)
{
    *ret = r->buf + r->begin;
    *ret_len = len;
    (*ret)[len] = '\0';
    r->number++;
}

/* Sets *ret to the line that ends at `end`. Returns 0 if it is the rest of a line that
 * was cut. */
static int end_line(struct line_reader *r, const char *end, char **ret, size_t *ret_len)
{
    const size_t len = (size_t)(end - (r->buf + r->begin));
    const int is_rest = r->passing_over;

    r->passing_over = 0;
    if (!is_rest)
        line_reader_take(r, len < r->max_bytes ? len : r->max_bytes, ret, ret_len);
    r->cut = !is_rest && len > r->max_bytes;
    r->begin += len + 1;
    return !is_rest;
}

/* Cuts a line that has no newline yet and exceeds the limit. */
static int cut_line(struct line_reader *r, char **ret, size_t *ret_len)
{
    const int is_rest = r->passing_over;

    if (!is_rest)
        line_reader_take(r, r->max_bytes, ret, ret_len);
    r->cut = r->passing_over = 1;
    r->begin = r->len;
    return !is_rest;
}

int line_reader_next(struct line_reader *r, char **ret, size_t *ret_len, struct err *err)
{
    size_t seen = 0; /* bytes from begin on without a newline */
    ssize_t n;

    for (;;) {
        const size_t left = r->len - r->begin;
        const char *end =
            left == seen ? NULL : memchr(r->buf + r->begin + seen, '\n', left - seen);

        if (end != NULL) {
            if (end_line(r, end, ret, ret_len))
                return 1;
            seen = 0;
            continue;
        }
        if (left > r->max_bytes && cut_line(r, ret, ret_len))
            return 1;
        seen = r->len - r->begin;
        if ((n = read_more(r, err)) <= 0)
            return (int)n;
    }
}

int line_reader_rest(struct line_reader *r, char **ret, size_t *ret_len)
{
    const size_t left = r->len - r->begin;

    if (left == 0 || r->passing_over)
        return 0;
    line_reader_take(r, left, ret, ret_len);
    r->begin = r->len;
    return 1;
}

off_t line_reader_find_newest(const struct line_reader *r, uint64_t lines,
                              int (*is_first)(const char *line))
{
    char *buf = xmalloc(CHUNK_BYTES + LINE_READER_LOOK + 1);
    off_t end = 0, ret = 0;
    uint64_t n = 0;
    struct stat st;

    if (r->fd >= 0 && fstat(r->fd, &st) == 0)
        end = st.st_size;
    while (ret == 0 && end > 0 && patience_check(NULL) == 0) {
        const ssize_t len = end < CHUNK_BYTES ? (ssize_t)end : CHUNK_BYTES;
        const ssize_t got =
            pread_all(r->fd, buf, (size_t)len + LINE_READER_LOOK, (uint64_t)(end - len));

        if (got < len || (len == CHUNK_BYTES && is_zeros(buf, CHUNK_BYTES)))
            break;
        buf[got] = '\0';
        for (ssize_t i = len; i > 0 && ret == 0; i--)
            if (buf[i - 1] == '\n' && end - len + i < st.st_size && ++n >= lines &&
                is_first(buf + i))
                ret = end - len + i;
        end -= len;
    }
    free(buf);
    return ret;
}

void line_reader_seek(struct line_reader *r, off_t at)
{
    if (r->fd >= 0)
        (void)lseek(r->fd, at, SEEK_SET);
    r->begin = r->len = 0;
    r->read_bytes = at;
    r->passing_over = 0;
    r->failure = 0;
}

int line_reader_renew(struct line_reader *r, const char *path)
{
    struct stat now, was;
    int fd;

    if (beneath_stat(path, &now) < 0)
        return 0;
    if (r->fd >= 0 && fstat(r->fd, &was) == 0 && was.st_ino == now.st_ino &&
        was.st_dev == now.st_dev && now.st_size >= r->read_bytes)
        return 0;
    fd = open_file(path);
    if (fd < 0)
        return 0;
    if (r->fd >= 0)
        (void)close(r->fd);
    r->fd = fd;
    line_reader_seek(r, 0);
    return 1;
}
