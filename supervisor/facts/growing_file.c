#include "supervisor/facts/growing_file.h"

#include "common/io/beneath.h"
#include "common/io/write_all.h"
#include "common/wire/crc32c.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

enum { SUMMED_BYTES = 4096 };

int growing_file_open(struct growing_file *ret, const char *path, struct err *err)
{
    *ret = (struct growing_file){.fd = beneath_open(path, O_RDONLY | O_NONBLOCK, 0)};
    if (ret->fd < 0)
        return errno == ENOENT ? 0 : err_errno(err, "%s", path);
    if (fstat(ret->fd, &ret->st) < 0)
        return err_errno(err, "%s", path);
    return S_ISREG(ret->st.st_mode) ? 0 : err_set(err, ERR_FORMAT, "%s is no file", path);
}

void growing_file_close(struct growing_file *f)
{
    if (f->fd >= 0)
        (void)close(f->fd);
    f->fd = -1;
}

/* CRC-32C of what comes before an offset: a row, at least, with the time at which it was
 * written. */
static uint32_t sum_before(const struct growing_file *f, size_t offset)
{
    uint8_t text[SUMMED_BYTES];
    const size_t n = offset < sizeof(text) ? offset : sizeof(text);
    const ssize_t got = growing_file_read(f, offset - n, text, n);

    return crc32c(text, got > 0 ? (size_t)got : 0);
}

enum growing_place growing_file_find(const struct growing_file *f, const char *from,
                                     size_t least, size_t *ret_offset)
{
    uint64_t inode = 0, offset = 0;
    uint32_t sum = 0;

    if (f->fd < 0 || from == NULL || *from == '\0')
        return GROWING_FIRST;
    if (sscanf(from, "%" SCNu64 ":%" SCNu64 ":%" SCNx32, &inode, &offset, &sum) != 3 ||
        inode != (uint64_t)f->st.st_ino || offset < least ||
        offset > (uint64_t)f->st.st_size || sum != sum_before(f, (size_t)offset))
        return GROWING_AGAIN;
    *ret_offset = (size_t)offset;
    return GROWING_ON;
}

ssize_t growing_file_read(const struct growing_file *f, size_t offset, void *ret,
                          size_t max)
{
    return f->fd >= 0 ? pread_all(f->fd, ret, max, offset) : 0;
}

void growing_file_put(const struct growing_file *f, size_t offset,
                      enum growing_place place, struct json *j)
{
    char next[64];

    (void)snprintf(next, sizeof(next), "%" PRIu64 ":%zu:%" PRIx32, (uint64_t)f->st.st_ino,
                   offset, sum_before(f, offset));
    json_put_str(j, "next", next);
    json_put_bool(j, "restart", place == GROWING_AGAIN);
}
