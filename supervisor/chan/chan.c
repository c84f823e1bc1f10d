#include "supervisor/chan/chan.h"

#include "common/mem/xmalloc.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A queued write of the bytes that uv_try_write did not accept; they follow the
 * struct. */
struct chan_write {
    uv_write_t req;
    size_t len, cap;
    uint8_t data[];
};

/* Bytes by which the pipes of all channels have grown. */
static int grown_bytes;

static void chan_end(struct chan *c, const struct err *err)
{
    if (c->ended || c->closing)
        return;
    c->ended = 1;
    (void)uv_read_stop((uv_stream_t *)&c->in);
    c->on_end(c, err);
}

static void chan_end_status(struct chan *c, int status)
{
    struct err err = {0};

    if (status == UV_EOF && frame_reader_pending(&c->reader) > 0)
        (void)err_set(&err, UV_EOF, "the stream ended in the middle of a message");
    else if (status == UV_ENOBUFS && c->read_err.code != 0)
        err = c->read_err;
    else if (status != UV_EOF)
        (void)err_set(&err, status, "%s", uv_strerror(status));
    chan_end(c, &err);
}

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
    struct chan *c = h->data;
    uint8_t *room = NULL;
    size_t size = 0;

    if (frame_reader_room(&c->reader, &room, &size, &c->read_err) < 0)
        size = 0; /* libuv then reports UV_ENOBUFS to on_read */
    *buf = uv_buf_init((char *)room, (unsigned)size);
}

static void on_read(uv_stream_t *s, ssize_t n_read, const uv_buf_t *buf)
{
    struct chan *c = s->data;
    struct err err;
    const uint8_t *data;
    size_t len;
    int rc = 1;

    if (n_read < 0) {
        chan_end_status(c, (int)n_read);
        return;
    }
    frame_reader_filled(&c->reader, (size_t)n_read);
    while (!c->ended && !c->closing &&
           (rc = frame_reader_next(&c->reader, &data, &len, &err)) > 0)
        c->on_message(c, data, len);
    if (rc < 0)
        chan_end(c, &err);
}

static int chan_open_end(struct chan *c, uv_pipe_t *pipe, uv_loop_t *loop, int fd)
{
    int rc;

    (void)uv_pipe_init(loop, pipe, 0);
    pipe->data = c;
    c->open_handles++;
    rc = uv_pipe_open(pipe, fd);
    if (rc < 0)
        (void)close(fd);
    return rc;
}

int chan_open(struct chan *c, uv_loop_t *loop, int fd_in, int fd_out,
              chan_message_fn on_message, chan_end_fn on_end, void *owner,
              struct err *err)
{
    int r_in, r_out, rc;

    *c = (struct chan){.owner = owner, .on_message = on_message, .on_end = on_end};
    frame_reader_init(&c->reader, FRAME_MAX_BYTES);
    r_in = chan_open_end(c, &c->in, loop, fd_in);
    r_out = chan_open_end(c, &c->out, loop, fd_out);
    rc = r_in < 0 ? r_in : r_out;
    if (rc == 0)
        rc = uv_read_start((uv_stream_t *)&c->in, on_alloc, on_read);
    if (rc < 0)
        return err_set(err, rc, "opening a message pipe: %s", uv_strerror(rc));
    return 0;
}

static void give_back(struct chan *c, struct chan_write *w)
{
    free(c->spare);
    c->spare = w;
}

static void on_written(uv_write_t *req, int status)
{
    struct chan_write *w = (struct chan_write *)req;
    struct chan *c = req->data;

    c->queued_bytes -= w->len;
    give_back(c, w);
    if (status < 0)
        chan_end_status(c, status);
}

/* Queues the unwritten rest of a frame. The buffer is sized for the whole frame, because
 * the length of the rest varies and the buffer is reused. */
static int chan_enqueue(struct chan *c, const uint8_t *data, size_t len, size_t frame_len,
                        struct err *err)
{
    struct chan_write *w = c->spare;
    uv_buf_t buf;
    int rc;

    if (len > CHAN_MAX_QUEUED_BYTES - c->queued_bytes)
        return err_set(err, ERR_LIMIT, "the peer has %zu unread bytes already",
                       c->queued_bytes);
    c->spare = NULL;
    if (w == NULL || w->cap < frame_len) {
        const size_t cap = frame_len + frame_len / 8; /* room for slightly longer ones */

        free(w);
        w = xmalloc(sizeof(*w) + cap);
        w->cap = cap;
    }
    w->len = len;
    memcpy(w->data, data, len);
    w->req.data = c;
    buf = uv_buf_init((char *)w->data, (unsigned)len);
    rc = uv_write(&w->req, (uv_stream_t *)&c->out, &buf, 1, on_written);
    if (rc < 0) {
        give_back(c, w);
        return err_set(err, rc, "writing a message: %s", uv_strerror(rc));
    }
    c->queued_bytes += len;
    return 0;
}

/* Makes room for a whole frame of `len` bytes. Returns 1 if the pipe has grown. */
static int grow_pipe(struct chan *c, size_t len)
{
    const int wanted = len < CHAN_PIPE_BYTES ? (int)len : CHAN_PIPE_BYTES;
    uv_os_fd_t fd;
    int before, after;

    if (c->cannot_grow || uv_fileno((uv_handle_t *)&c->out, &fd) < 0)
        return 0;
    before = fcntl(fd, F_GETPIPE_SZ);
    after = before < wanted && grown_bytes + CHAN_PIPE_BYTES <= CHAN_GROWTH_BYTES
                ? fcntl(fd, F_SETPIPE_SZ, wanted)
                : -1;
    if (before < 0 || after <= before) {
        c->cannot_grow = before < wanted || before >= CHAN_PIPE_BYTES;
        return 0;
    }
    c->grown_bytes += after - before;
    grown_bytes += after - before;
    return 1;
}

int chan_send(struct chan *c, const uint8_t *frame, size_t len, struct err *err)
{
    size_t done = 0;

    if (c->ended || c->closing)
        return err_set(err, ERR_STATE, "the message pipe is closed");
    do {
        /* libuv's type is not const, but libuv does not write to the buffer. */
        uv_buf_t buf = {.base = (char *)(uintptr_t)(frame + done), .len = len - done};
        const int rc = uv_try_write((uv_stream_t *)&c->out, &buf, 1);

        if (rc < 0 && rc != UV_EAGAIN)
            return err_set(err, rc, "writing a message: %s", uv_strerror(rc));
        done += rc > 0 ? (size_t)rc : 0;
    } while (done < len && c->queued_bytes == 0 && grow_pipe(c, len));
    return done == len ? 0 : chan_enqueue(c, frame + done, len - done, len, err);
}

static void on_handle_closed(uv_handle_t *h)
{
    struct chan *c = h->data;

    if (--c->open_handles > 0)
        return;
    frame_reader_done(&c->reader);
    free(c->spare);
    if (c->on_closed != NULL)
        c->on_closed(c);
}

void chan_close(struct chan *c, chan_closed_fn on_closed)
{
    if (c->closing)
        return;
    c->closing = 1;
    c->on_closed = on_closed;
    grown_bytes -= c->grown_bytes;
    uv_close((uv_handle_t *)&c->in, on_handle_closed);
    uv_close((uv_handle_t *)&c->out, on_handle_closed);
}
