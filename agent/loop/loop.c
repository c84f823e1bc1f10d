#include "agent/loop/loop.h"

#include "common/io/monotonic.h"
#include "common/io/write_all.h"
#include "common/log/log.h"
#include "common/msg/frame.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

struct loop {
    int fd_out;
    loop_first_fn first; /* NULL: the first request is over, or nobody looks at it */
    loop_request_fn handle;
    void *ctx;
    const struct frame_reader *reader;
    const uint8_t *data; /* the message that is handled, behind its frame's header */
    int is_traced;
    const char *generation; /* of the node that runs it; NULL: a supervisor does */
    struct msg m;
    struct msg_out out;
};

int loop_send(int fd_out, struct msg_out *out, struct err *err)
{
    const uint8_t *frame;
    size_t len;

    msg_end(out, &frame, &len);
    return write_all(fd_out, frame, len) < 0 ? err_errno(err, "writing a response") : 0;
}

/* Returns 1 if bytes were read, 0 at end of file. */
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

/* ---- what the supervisor's trace and the log show ---- */

/* ---- requests ---- */

/* Shows the first request to who wants to see it. Returns 1 if that failed; then it is
 * answered. */
static int is_refused(struct loop *l, size_t len)
{
    const loop_first_fn first = l->first;
    struct err why = {0};

    l->first = NULL;
    if (first == NULL ||
        first(l->ctx, &l->m, l->data - FRAME_HEADER_BYTES,
              FRAME_HEADER_BYTES + len + frame_reader_pending(l->reader), &why) == 0)
        return 0;
    log_error("%s: %s", l->m.method, why.msg);
    msg_error_response(&l->out, l->m.id, &why);
    return 1;
}

/* Returns 1 if the loop ends, 0 if it continues, or an error if the stream is broken. */
static int handle_request(struct loop *l, size_t len, struct err *err)
{
    const int timed = l->is_traced || log_get_level() >= LOG_LEVEL_DEBUG;
    const uint64_t began_ns = timed ? (uint64_t)monotonic_ns() : 0;
    uint64_t ended_ns;
    int ends, rc;

    log_debug("read %s, request %" PRIu32 "%s%s, %zu bytes", l->m.method, l->m.id,
              l->generation != NULL ? ", generation " : "",
              l->generation != NULL ? l->generation : "", len);
    ends = is_refused(l, len) ? 0 : l->handle(l->ctx, &l->m, &l->out);
    ended_ns = timed ? (uint64_t)monotonic_ns() : 0;
    if ((rc = loop_send(l->fd_out, &l->out, err)) < 0 || !timed)
        return rc < 0 ? rc : ends;
    log_debug("answered %s, request %" PRIu32 ", after %.1f us", l->m.method, l->m.id,
              (double)(ended_ns - began_ns) / 1e3);
    if (l->is_traced) {
        struct msg_out *o = &l->out;

        msg_begin_notification(o, "span");
        msg_map(o, 4);
        msg_put_u64(o, "id", l->m.id);
        msg_put_str(o, "method", l->m.method);
        msg_put_u64(o, "began", began_ns);
        msg_put_u64(o, "ended", ended_ns);
        rc = loop_send(l->fd_out, o, err);
    }
    return rc < 0 ? rc : ends;
}

static int handle_frame(struct loop *l, const uint8_t *data, size_t len, struct err *err)
{
    const int rc = msg_reparse(&l->m, data, len, err);

    l->data = data;
    if (rc < 0)
        return rc;
    if (l->m.type == MSG_NOTIFICATION && strcmp(l->m.method, "trace") == 0)
        return msg_get_bool(&l->m.body, "on", &l->is_traced, err);
    if (l->m.type == MSG_NOTIFICATION)
        return err_set(err, ERR_PROTOCOL, "a notification '%s'", l->m.method);
    if (l->m.type != MSG_REQUEST)
        return err_set(err, ERR_PROTOCOL, "a message that is no request");
    return handle_request(l, len, err);
}

int loop_serve(int fd_in, int fd_out, loop_first_fn first, loop_request_fn handle,
               void *ctx, struct err *err)
{
    struct frame_reader reader;
    struct loop l = {.fd_out = fd_out,
                     .first = first,
                     .handle = handle,
                     .ctx = ctx,
                     .reader = &reader,
                     .generation = getenv("BROOD_GENERATION")};
    const uint8_t *data;
    size_t len;
    int rc;

    frame_reader_init(&reader, FRAME_MAX_BYTES);
    msg_out_init(&l.out);
    do {
        rc = read_some(fd_in, &reader, err);
        if (rc <= 0)
            break;
        while ((rc = frame_reader_next(&reader, &data, &len, err)) > 0)
            if ((rc = handle_frame(&l, data, len, err)) != 0)
                break;
    } while (rc == 0);
    msg_done(&l.m);
    msg_out_done(&l.out);
    frame_reader_done(&reader);
    return rc < 0 ? rc : 0;
}
