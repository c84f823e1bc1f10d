#include "supervisor/rundir/journal.h"

#include "common/ckpt/atomic_file.h"
#include "common/io/beneath.h"
#include "common/log/log.h"
#include "common/mem/xmalloc.h"
#include "common/wire/cursor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct journal {
    int fd;              /* -1: journal_begin was not called */
    struct wbuf waiting; /* lines from before journal_begin */
    char *path;
};

/* Removes the n bytes that were just written to fd: a line that could not be synced, or of which
 * only a part fitted onto the full disk, so that the next line would be appended to it. What
 * another process appended meanwhile goes, too: the keeper's notices do not bind the run. */
static void drop_written(int fd, ssize_t n)
{
    const off_t end = lseek(fd, 0, SEEK_CUR); /* where our own write ended */

    if (end >= n && ftruncate(fd, end - (off_t)n) < 0)
        log_debug("the journal: %m");
}

/* Returns 0, or -1 with errno set: nothing was written. */
static int write_whole(int fd, const void *data, ssize_t len)
{
    const ssize_t n = len > 0 ? write(fd, data, (size_t)len) : 0;

    if (n == len)
        return 0;
    if (n > 0)
        drop_written(fd, n);
    if (n >= 0)
        errno = ENOSPC;
    return -1;
}

/* Cuts off a line that a supervisor, which is dead, left incomplete: nobody was told of it. */
static int cut_last_line(int fd)
{
    const off_t end = lseek(fd, 0, SEEK_END);
    off_t at = end;
    char block[4096];

    while (at > 0) {
        const size_t n = at < (off_t)sizeof(block) ? (size_t)at : sizeof(block);
        const char *newline;

        if (pread(fd, block, n, at - (off_t)n) != (ssize_t)n)
            return -1;
        newline = memrchr(block, '\n', n);
        if (newline != NULL) {
            at += newline - block + 1 - (off_t)n;
            break;
        }
        at -= (off_t)n;
    }
    return at == end ? 0 : ftruncate(fd, at);
}

struct journal *journal_new(const char *path)
{
    struct journal *j = xcalloc(1, sizeof(*j));

    j->fd = -1;
    j->path = xstrdup(path);
    return j;
}

int journal_begin(struct journal *j, struct err *err)
{
    ssize_t len;
    int fd;

    if (j == NULL || j->fd >= 0)
        return 0;
    len = (ssize_t)j->waiting.len;
    fd = beneath_open(j->path, O_RDWR | O_CREAT | O_APPEND, 0666);
    if (fd < 0)
        return err_errno(err, "%s", j->path);
    if (cut_last_line(fd) < 0) {
        int rc = err_errno(err, "%s", j->path);

        (void)close(fd);
        return rc;
    }
    if (write_whole(fd, j->waiting.data, len) < 0)
        log_warn("%s: cannot write: %m", j->path);
    wbuf_done(&j->waiting);
    j->fd = fd;
    return 0;
}

int journal_copy(const struct journal *j, const char *path, struct err *err)
{
    struct wbuf text = {0};
    ssize_t n;
    int rc;

    if (j == NULL || j->fd < 0)
        return 0;
    do {
        wbuf_reserve(&text, 1 << 16);
        n = pread(j->fd, text.data + text.len, 1 << 16, (off_t)text.len);
        text.len += n > 0 ? (size_t)n : 0;
    } while (n > 0 || (n < 0 && errno == EINTR));
    rc = n < 0 ? err_errno(err, "%s", j->path)
               : atomic_file_write(path, text.data, text.len, 1, err);
    wbuf_done(&text);
    return rc;
}

void journal_close(struct journal *j)
{
    if (j == NULL)
        return;
    if (j->fd >= 0)
        (void)close(j->fd);
    wbuf_done(&j->waiting);
    free(j->path);
    free(j);
}

int journal_write(struct journal *j, const struct run_event *e, struct err *err)
{
    const unsigned readers = run_event_readers(e->kind);
    char *line = j != NULL ? run_event_line(e) : NULL;
    size_t len;
    int rc = 0;

    if (line == NULL)
        return 0;
    len = strlen(line);
    line[len] = '\n'; /* replaces the NUL */
    if (j->fd >= 0)
        rc = write_whole(j->fd, line, (ssize_t)len + 1);
    else
        wbuf_bytes(&j->waiting, line, len + 1);
    free(line);
    if ((readers & RUN_EVENT_COMMITTED) == 0) {
        if (rc < 0)
            log_warn("%s: cannot write: %m", j->path);
        return 0;
    }
    if (rc == 0 && j->fd >= 0 && fsync(j->fd) < 0) {
        rc = err_errno(err, "%s", j->path);
        drop_written(j->fd, (ssize_t)len + 1); /* the caller does not do what it says */
        return rc;
    }
    return rc < 0 ? err_errno(err, "%s", j->path) : 0;
}

/* ---- from another process ---- */

/* The step of the newest line that has one, among the file's last bytes; 0: none. */
static unsigned long long last_step(int fd)
{
    char tail[4096];
    const off_t end = lseek(fd, 0, SEEK_END);
    const off_t from = end > (off_t)sizeof(tail) - 1 ? end - (off_t)sizeof(tail) + 1 : 0;
    const ssize_t n = pread(fd, tail, sizeof(tail) - 1, from);
    unsigned long long step = 0;

    tail[n < 0 ? 0 : n] = '\0';
    for (const char *p = tail; (p = strstr(p, "Z step=")) != NULL;)
        step = strtoull(p += sizeof("Z step=") - 1, NULL, 10);
    return step;
}

void journal_append(const char *run, const char *text, int is_dead)
{
    char line[512], time_text[LOG_TIME_BYTES];
    const int fd = beneath_open_in(run, "journal", O_RDWR | O_APPEND);
    int n;

    if (fd < 0)
        return;
    if (is_dead && cut_last_line(fd) < 0)
        log_warn("%s/journal: an incomplete line stays: %m", run);
    n = snprintf(line, sizeof(line), "%s step=%llu %s\n", log_time(time_text),
                 last_step(fd), text);
    if (n > 0 && n < (int)sizeof(line) && write_whole(fd, line, n) < 0)
        log_warn("%s/journal: cannot write: %m", run);
    (void)close(fd);
}
