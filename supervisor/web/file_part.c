#include "supervisor/web/file_part.h"

#include "common/io/beneath.h"
#include "common/io/write_all.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "supervisor/facts/files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { /* of HTTP */
       OK = 200,
       PARTIAL = 206,
       BAD_REQUEST = 400,
       NOT_FOUND = 404,
       NO_RANGE = 416,
       UNREAD = 503
};

/* Reads "bytes=FIRST-", "bytes=FIRST-LAST" or "bytes=-N", in place. Returns 1 and what it asks for
 * of a file of `size` bytes, from *ret_begin on up to *ret_end. */
static int read_range(char *text, uint64_t size, uint64_t *ret_begin, uint64_t *ret_end)
{
    const char *first;
    uint64_t n;

    if (text == NULL || text_after(text, "bytes=") == NULL)
        return 0;
    text += strlen("bytes=");
    first = strsep(&text, "-");
    if (text == NULL)
        return 0;
    *ret_end = size;
    if (*first == '\0') {
        *ret_begin = text_u64(text, &n) && n < size ? size - n : 0;
        return text_u64(text, &n) && n > 0;
    }
    if (!text_u64(first, ret_begin))
        return 0;
    if (*text == '\0')
        return 1;
    if (!text_u64(text, &n) || n < *ret_begin)
        return 0;
    *ret_end = n < size ? n + 1 : size;
    return 1;
}

/* Opens the file; -1 with err->code 0: it is not there yet. */
static int open_file(const struct file_part *p, struct stat *ret, struct err *err)
{
    char *file = NULL;
    int fd = -1;

    *ret = (struct stat){0};
    if (files_find(p->path, p->name, &file, err) == 0) {
        fd = beneath_open(file, O_RDONLY | O_NONBLOCK, 0);
        if (fd < 0 ? errno != ENOENT : fstat(fd, ret) < 0)
            (void)err_errno(err, "%s", file);
        else if (fd >= 0 && !S_ISREG(ret->st_mode))
            (void)err_set(err, ERR_FORMAT, "%s is no file", file);
    }
    free(file);
    return fd;
}

/* Reads the part of a file of `size` bytes, which is not empty. Returns the status. */
static unsigned read_bytes(struct file_part *p, int fd, uint64_t size)
{
    uint64_t begin, end;
    ssize_t n;

    if (!read_range(p->range, size, &begin, &end)) {
        (void)err_set(&p->err, ERR_ARG, "expected a header such as Range: bytes=0-");
        return BAD_REQUEST;
    }
    if (begin >= size) {
        (void)snprintf(p->content_range, sizeof(p->content_range), "bytes */%" PRIu64,
                       size);
        (void)err_set(&p->err, ERR_ARG, "%s ends before that range", p->name);
        return NO_RANGE;
    }
    p->len = end - begin < FILE_PART_BYTES ? (size_t)(end - begin) : FILE_PART_BYTES;
    p->data = xmalloc(p->len);
    n = pread_all(fd, p->data, p->len, begin);
    if (n <= 0) {
        (void)err_set(&p->err, ERR_STATE, "%s was cut while it was read", p->name);
        return UNREAD;
    }
    p->len = (size_t)n;
    (void)snprintf(p->content_range, sizeof(p->content_range),
                   "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, begin, begin + p->len - 1,
                   size);
    return PARTIAL;
}

static void read_part(struct reading *r)
{
    struct file_part *p = READING_OF(struct file_part, r);
    struct stat st;
    const int fd = open_file(p, &st, &p->err);

    if (p->err.code != 0)
        p->status = p->err.code == ERR_NOT_FOUND ? NOT_FOUND : UNREAD;
    else
        p->status = st.st_size > 0 ? read_bytes(p, fd, (uint64_t)st.st_size) : OK;
    if (fd >= 0)
        (void)close(fd);
}

static void on_read(struct reading *r, const struct err *why)
{
    struct file_part *p = READING_OF(struct file_part, r);

    if (p->on_end == NULL)
        return;
    if (why != NULL && why->code == ERR_TIMEOUT) { /* its thread may still write to it */
        struct file_part late = {.status = UNREAD, .err = *why};

        p->on_end(p->ctx, &late);
        return;
    }
    if (why != NULL) {
        p->status = why->code == -ENOENT ? NOT_FOUND : UNREAD;
        p->err = *why;
    }
    p->on_end(p->ctx, p);
}

static void free_part(struct reading *r)
{
    struct file_part *p = READING_OF(struct file_part, r);

    free(p->path);
    free(p->name);
    free(p->range);
    free(p->data);
    free(p);
}

struct file_part *file_part_begin(struct readings *all, const char *path,
                                  const char *name, const char *range,
                                  void (*on_end)(void *ctx, struct file_part *p),
                                  void *ctx)
{
    struct file_part *p = xcalloc(1, sizeof(*p));

    p->path = xstrdup(path);
    p->name = xstrdup(name);
    p->range = range != NULL ? xstrdup(range) : NULL;
    p->on_end = on_end;
    p->ctx = ctx;
    p->reading =
        (struct reading){READING_REQUEST, p->path, read_part, on_read, free_part};
    reading_add(all, &p->reading);
    return p;
}

void file_part_forget(struct file_part *p)
{
    p->on_end = NULL;
}
