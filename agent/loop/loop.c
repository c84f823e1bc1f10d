#include "agent/loop/loop.h"

#include "common/msg/frame.h"

#include <errno.h>
#include <unistd.h>

static int write_all(int fd, const uint8_t *data, size_t len, struct err *err)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(err, "writing a response");
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

int loop_send(int fd_out, struct msg_out *out, struct err *err)
{
    const uint8_t *frame;
    size_t len;

    msg_end(out, &frame, &len);
    return write_all(fd_out, frame, len, err);
}

/* 1: some bytes came; 0: end of file. */
static int read_some(int fd, struct frame_reader *r, struct err *err)
{
    uint8_t *room;
    size_t size;
    ssize_t n;
    int rc = frame_reader_room(r, &room, &size, err);

    if (rc < 0)
        return rc;
    do
        n = read(fd, room, size);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return err_errno(err, "reading a request");
    if (n == 0 && frame_reader_pending(r) > 0)
        return err_set(err, ERR_FORMAT, "end of file inside a message");
    frame_reader_filled(r, (size_t)n);
    return n > 0;
}

/* 1: the loop ends; 0: on; negative: the stream is broken. */
static int handle_frame(const uint8_t *data, size_t len, int fd_out,
                        loop_request_fn handle, void *ctx, struct msg *m,
                        struct msg_out *out, struct err *err)
{
    int r = msg_reparse(m, data, len, err), ends;

    if (r == 0 && m->type != MSG_REQUEST)
        r = err_set(err, ERR_PROTOCOL, "a message that is no request");
    if (r < 0)
        return r;
    ends = handle(ctx, m, out);
    r = loop_send(fd_out, out, err);
    return r < 0 ? r : ends;
}

int loop_serve(int fd_in, int fd_out, loop_request_fn handle, void *ctx, struct err *err)
{
    struct frame_reader reader;
    struct msg m = {0};
    struct msg_out out;
    const uint8_t *data;
    size_t len;
    int r;

    frame_reader_init(&reader, FRAME_MAX_BYTES);
    msg_out_init(&out);
    do {
        r = read_some(fd_in, &reader, err);
        if (r <= 0)
            break;
        while ((r = frame_reader_next(&reader, &data, &len, err)) > 0)
            if ((r = handle_frame(data, len, fd_out, handle, ctx, &m, &out, err)) != 0)
                break;
    } while (r == 0);
    msg_done(&m);
    msg_out_done(&out);
    frame_reader_done(&reader);
    return r < 0 ? r : 0;
}
