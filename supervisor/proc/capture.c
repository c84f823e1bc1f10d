#include "supervisor/proc/capture.h"

#include "common/io/beneath.h"
#include "common/text/plain_text.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CAPTURE_SEPARATOR " | "
#define CAPTURE_QUOTE_MAX 1024 /* more than any message has room for */

int capture_init(struct capture *c, const char *log_path, struct err *err)
{
    struct stat st;

    c->on_output = NULL;
    c->log_fd = -1;
    c->logged_bytes = 0;
    c->seen_bytes = 0;
    if (log_path == NULL)
        return 0;
    c->log_fd = beneath_open(log_path, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (c->log_fd < 0 || fstat(c->log_fd, &st) < 0)
        return err_errno(err, "%s", log_path);
    c->logged_bytes = (uint64_t)st.st_size;
    return 0;
}

void capture_done(struct capture *c)
{
    if (c->log_fd >= 0)
        (void)close(c->log_fd);
    c->log_fd = -1;
}

/* If the log cannot be written (a full disk), the run continues without these lines; the
 * count includes them, so that the file stays bounded. */
static void capture_write(struct capture *c, const char *text, size_t len)
{
    ssize_t n = write(c->log_fd, text, len);

    (void)n;
    c->logged_bytes += len;
}

void capture_append(struct capture *c, const char *text, size_t len)
{
    static const char note[] = "\n[brood: this log is full; later lines are dropped]\n";
    size_t skip = len > sizeof(c->tail) ? len - sizeof(c->tail) : 0;

    if (c->log_fd >= 0 && c->logged_bytes < CAPTURE_FILE_MAX_BYTES) {
        const uint64_t room = CAPTURE_FILE_MAX_BYTES - c->logged_bytes;

        capture_write(c, text, len < room ? len : (size_t)room);
        if (c->logged_bytes >= CAPTURE_FILE_MAX_BYTES)
            capture_write(c, note, sizeof(note) - 1);
    }
    c->seen_bytes += skip;
    for (size_t i = skip; i < len; i++)
        c->tail[c->seen_bytes++ % sizeof(c->tail)] = text[i];
}

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
    struct capture *c = h->data;

    *buf = uv_buf_init(c->buf, sizeof(c->buf));
}

static void on_read(uv_stream_t *s, ssize_t n_read, const uv_buf_t *buf)
{
    struct capture *c = s->data;

    if (n_read >= 0) {
        capture_append(c, c->buf, (size_t)n_read);
        if (c->on_output != NULL && n_read > 0)
            c->on_output(c->output_ctx, c->buf, (size_t)n_read);
        return;
    }
    (void)uv_read_stop(s);
    c->on_end(c);
}

void capture_begin(struct capture *c)
{
    c->seen_bytes = 0;
}

int capture_open(struct capture *c, uv_loop_t *loop, int fd, capture_fn on_end,
                 void *owner, struct err *err)
{
    int rc;

    c->owner = owner;
    c->seen_bytes = 0;
    c->on_end = on_end;
    (void)uv_pipe_init(loop, &c->pipe, 0);
    c->pipe.data = c;
    rc = uv_pipe_open(&c->pipe, fd);
    if (rc < 0)
        (void)close(fd);
    else
        rc = uv_read_start((uv_stream_t *)&c->pipe, on_alloc, on_read);
    if (rc < 0)
        return err_set(err, rc, "opening an agent's stderr: %s", uv_strerror(rc));
    return 0;
}

static void on_pipe_closed(uv_handle_t *h)
{
    struct capture *c = h->data;

    c->on_closed(c);
}

void capture_close(struct capture *c, capture_fn on_closed)
{
    c->on_closed = on_closed;
    uv_close((uv_handle_t *)&c->pipe, on_pipe_closed);
}

static char tail_at(const struct capture *c, uint64_t i)
{
    return c->tail[i % sizeof(c->tail)];
}

/* Finds the beginning of the last whole lines that fit into size. A last line that is
 * longer loses its beginning. */
static uint64_t last_lines_begin(const struct capture *c, uint64_t end, size_t size)
{
    uint64_t oldest =
        c->seen_bytes > sizeof(c->tail) ? c->seen_bytes - sizeof(c->tail) : 0;
    uint64_t begin = end, i = end;
    size_t used = 0;

    while (i > oldest) {
        used += tail_at(c, --i) == '\n' ? sizeof(CAPTURE_SEPARATOR) - 1 : 1;
        if (used >= size)
            return begin < end ? begin : i + 1;
        if (i == oldest || tail_at(c, i - 1) == '\n')
            begin = i;
    }
    return begin;
}

static int is_blank(char ch)
{
    return ch == '\n' || ch == '\r' || ch == '\t' || ch == ' ' || ch == '\0';
}

/* Returns the end of a text that is too long; it begins with a whole character. */
static const char *cut_in_front(const char *text, size_t len, size_t size)
{
    const char *p = len < size ? text : text + (len - size + 1);

    while (p > text && ((unsigned char)*p & 0xc0) == 0x80)
        p++;
    return p;
}

void capture_last_lines(const struct capture *c, char *ret, size_t size)
{
    char text[CAPTURE_QUOTE_MAX], shown[CAPTURE_QUOTE_MAX * PLAIN_TEXT_GROWTH];
    uint64_t end = c->seen_bytes, i;
    const size_t room = size < sizeof(text) ? size : sizeof(text);
    size_t n = 0;

    while (end > 0 && c->seen_bytes - end < sizeof(c->tail) &&
           is_blank(tail_at(c, end - 1)))
        end--;
    for (i = last_lines_begin(c, end, room); i < end && n + 1 < room; i++) {
        if (tail_at(c, i) == '\r' && i + 1 < end && tail_at(c, i + 1) == '\n')
            continue; /* as ssh ends its lines */
        if (tail_at(c, i) == '\n')
            n += (size_t)snprintf(text + n, room - n, CAPTURE_SEPARATOR);
        else
            text[n++] = (char)(tail_at(c, i) == '\t' ? ' ' : tail_at(c, i));
        if (n >= room)
            n = room - 1;
    }
    n = plain_text(shown, sizeof(shown), text, n);
    (void)snprintf(ret, size, "%s", cut_in_front(shown, n, size));
}
