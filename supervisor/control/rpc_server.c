/* The clients of the control socket: their bytes in and out, and what they may hold. */
#include "common/err/check.h"
#include "common/log/log.h"
#include "common/mem/xmalloc.h"
#include "common/msg/frame.h"
#include "common/msg/stream.h"
#include "supervisor/control/control_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ_BYTES = 1 << 16, KEPT_BYTES = 4 * READ_BYTES };

/* Of the supervisor's time clients get one part in so many, and a little in advance: what
 * they ask seldom is answered at once. */
enum { TIME_PARTS = 4, ADVANCE_NS = 5000000, NS_PER_MS = 1000000 };

struct client {
    struct control *control;
    uv_pipe_t pipe;
    uv_shutdown_t shutdown;
    TAILQ_ENTRY(client) entry;
    int subscribed;
    int closing;
    int has_more; /* whole messages wait for the next turn */
    uint8_t *in;  /* what came and is not yet a whole message */
    size_t in_len, in_cap;
    struct stream_scan scan; /* of the message that begins at in */
};

/* Bytes of answers that it has not read. */
static size_t unread_by(const struct client *c)
{
    return uv_stream_get_write_queue_size((const uv_stream_t *)&c->pipe);
}

/* ---- clients come and go ---- */

static void on_client_closed(uv_handle_t *handle)
{
    struct client *c = handle->data;

    free(c->in);
    free(c);
}

/* Nobody finds it any more; what it asked for is done all the same. */
static void leave(struct client *c)
{
    c->closing = 1;
    TAILQ_REMOVE(&c->control->clients, c, entry);
    c->control->n_clients--;
    calls_forget(c->control, c);
}

static void close_client(struct client *c)
{
    if (c->closing)
        return;
    leave(c);
    uv_close((uv_handle_t *)&c->pipe, on_client_closed);
}

static void on_shutdown(uv_shutdown_t *req, int status)
{
    (void)status;
    if (!uv_is_closing((uv_handle_t *)req->handle))
        uv_close((uv_handle_t *)req->handle, on_client_closed);
}

/* Closes once everything was written, if that is at once or nearly. */
void client_say_goodbye(struct client *c)
{
    if (unread_by(c) > 0 ||
        uv_shutdown(&c->shutdown, (uv_stream_t *)&c->pipe, on_shutdown) < 0) {
        close_client(c);
        return;
    }
    leave(c);
}

/* ---- writing ---- */

struct written {
    uv_write_t req;
    uint8_t bytes[];
};

static void work(struct client *c);
static void keep_within_bounds(struct control *k);

/* Reading waited for it, and notices if the client is gone. */
static void on_written(uv_write_t *req, int status)
{
    struct client *c = req->handle->data;

    (void)status;
    free(req->data);
    if (!c->closing)
        work(c);
}

/* At once where the client reads; what does not fit is copied and queued. */
static void send_bytes(struct client *c, const uint8_t *data, size_t len)
{
    uv_stream_t *stream = (uv_stream_t *)&c->pipe;
    uv_buf_t buf = uv_buf_init((char *)(uintptr_t)data, (unsigned)len);
    size_t queued = unread_by(c);
    int n = queued == 0 ? uv_try_write(stream, &buf, 1) : 0;
    size_t done = n > 0 ? (size_t)n : 0;
    struct written *w;

    if (done == len)
        return;
    if ((n < 0 && n != UV_EAGAIN) || queued + len - done > CONTROL_MAX_UNREAD) {
        close_client(c);
        return;
    }
    w = xmalloc(sizeof(*w) + len - done);
    w->req.data = w;
    memcpy(w->bytes, data + done, len - done);
    buf = uv_buf_init((char *)w->bytes, (unsigned)(len - done));
    if (uv_write(&w->req, stream, &buf, 1, on_written) < 0) {
        free(w);
        close_client(c);
    }
}

/* Clients speak bare rpc: without the frame's head. */
void client_send(struct client *c)
{
    const uint8_t *data;
    size_t len;

    msg_end(&c->control->out, &data, &len);
    send_bytes(c, data + FRAME_HEADER_BYTES, len - FRAME_HEADER_BYTES);
    keep_within_bounds(c->control);
}

/* To everybody who wants to hear. */
void control_send_to_subscribers(struct control *k)
{
    const uint8_t *data;
    size_t len;

    msg_end(&k->out, &data, &len);
    for (struct client *c = TAILQ_FIRST(&k->clients), *next; c != NULL; c = next) {
        next = TAILQ_NEXT(c, entry);
        if (c->subscribed)
            send_bytes(c, data + FRAME_HEADER_BYTES, len - FRAME_HEADER_BYTES);
    }
    keep_within_bounds(k);
}

void client_subscribe(struct client *c)
{
    c->subscribed = 1;
}

/* ---- bounds ---- */

/* Says why, as a notification, and lets go. */
static void cut_off(struct client *c, const struct err *why)
{
    struct msg_out *o = &c->control->out;

    log_info("control: a client is cut off: %s", why->msg);
    msg_begin_notification(o, "error");
    msg_map(o, 1);
    msg_key(o, "message");
    msg_str(o, why->msg);
    client_send(c);
    close_client(c);
}

/* What came of a message that is not whole yet, and what it has not read. */
static size_t held_by(const struct client *c)
{
    return c->in_cap + unread_by(c);
}

/* Who holds most goes first: many who hold much cannot crowd out who asks for little.
 * Uses control->out. */
static void keep_within_bounds(struct control *k)
{
    const struct err why = {.code = ERR_LIMIT,
                            .msg = "all clients together hold too much, and it the most"};

    for (;;) {
        struct client *most = TAILQ_FIRST(&k->clients), *c;
        size_t held = 0;

        TAILQ_FOREACH(c, &k->clients, entry)
        {
            held += held_by(c);
            if (held_by(c) > held_by(most))
                most = c;
        }
        if (held <= CONTROL_MAX_HELD)
            return;
        if (unread_by(most) > 0)
            close_client(most);
        else
            cut_off(most, &why);
    }
}

/* ---- reading ---- */

static int has_credit(struct control *k)
{
    const uint64_t now = uv_hrtime();

    k->credit_ns += (int64_t)((now - k->credit_at_ns) / TIME_PARTS);
    k->credit_at_ns = now;
    if (k->credit_ns > ADVANCE_NS)
        k->credit_ns = ADVANCE_NS;
    return k->credit_ns > 0;
}

static void plan_turn(struct control *k)
{
    const int64_t owed =
        k->credit_ns > 0 ? 0 : -k->credit_ns * TIME_PARTS / NS_PER_MS + 1;

    CHECK(uv_timer_start(&k->turn, control_on_turn, (uint64_t)owed, 0) == 0);
}

/* Everybody once, as long as there is time; who was served is the last next time. */
void control_on_turn(uv_timer_t *timer)
{
    struct control *k = timer->data;
    struct client *c;

    for (size_t n = k->n_clients; n > 0 && has_credit(k); n--) {
        c = TAILQ_FIRST(&k->clients);
        if (c == NULL)
            return;
        TAILQ_REMOVE(&k->clients, c, entry);
        TAILQ_INSERT_TAIL(&k->clients, c, entry);
        if (c->has_more)
            work(c);
    }
    TAILQ_FOREACH(c, &k->clients, entry)
    {
        if (c->has_more) {
            plan_turn(k);
            return;
        }
    }
}

/* One whole message; 0, or why the client is no client. */
static int take_message(struct client *c, const uint8_t *data, size_t len,
                        struct err *err)
{
    struct msg *m = &c->control->msg;
    int rc = msg_reparse(m, data, len, err);

    if (rc < 0)
        return rc;
    if (m->type != MSG_REQUEST)
        return err_set(err, ERR_PROTOCOL,
                       "only requests are taken: [0, id, method, params]");
    control_dispatch(call_new(c->control, c, m->id), m->method, &m->body);
    return 0;
}

/* What a run without an environment is asked is its work; all else takes time from it. */
static void charge(struct control *k, uint64_t began_ns)
{
    if (!training_is_driven(k->training))
        k->credit_ns -= (int64_t)(uv_hrtime() - began_ns);
}

/* Takes whole messages off the front of what came, as many as are answered in a turn: 1;
 * 0 if the rest is none. */
static int take_messages(struct client *c, struct err *err)
{
    size_t begin = 0, len;
    int rc = 1;

    for (int n = 0; rc > 0 && n < CONTROL_TURN && !c->closing && unread_by(c) == 0 &&
                    has_credit(c->control);
         n++) {
        const uint64_t began_ns = uv_hrtime();

        rc = stream_scan(&c->scan, c->in + begin, c->in_len - begin, &len, err);
        if (rc <= 0)
            break;
        rc = take_message(c, c->in + begin, len, err) < 0 ? ERR_PROTOCOL : 1;
        begin += len;
        stream_scan_begin(&c->scan, CONTROL_MAX_BYTES);
        charge(c->control, began_ns);
    }
    c->in_len -= begin;
    memmove(c->in, c->in + begin, c->in_len);
    if (c->in_len == 0 && c->in_cap > KEPT_BYTES) {
        free(c->in);
        c->in = NULL;
        c->in_cap = 0;
    }
    return rc;
}

static void make_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buf);
static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf);

/* Answers what a client asked. What is left over waits for the client to take its
 * answers, or for the loop's next turn; until then no more is read. */
static void work(struct client *c)
{
    struct err why = {0};
    int rc = take_messages(c, &why);

    if (c->closing)
        return;
    if (rc < 0) {
        cut_off(c, &why);
        return;
    }
    c->has_more = rc > 0 && unread_by(c) == 0;
    if (rc == 0) {
        (void)uv_read_start((uv_stream_t *)&c->pipe, make_room, on_read);
        return;
    }
    (void)uv_read_stop((uv_stream_t *)&c->pipe);
    if (c->has_more)
        plan_turn(c->control);
}

/* Room grows with what has come, not with what a message promises. */
static void make_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct client *c = handle->data;
    size_t grown;

    (void)suggested;
    if (c->in_cap - c->in_len < READ_BYTES) {
        grown = c->in_len + c->in_len / 2;
        if (grown > CONTROL_MAX_BYTES && c->in_len <= CONTROL_MAX_BYTES)
            grown = CONTROL_MAX_BYTES;
        c->in_cap = grown + READ_BYTES;
        c->in = xrealloc(c->in, c->in_cap);
    }
    *buf = uv_buf_init((char *)c->in + c->in_len, READ_BYTES);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct client *c = stream->data;

    (void)buf;
    if (n < 0) {
        close_client(c);
        return;
    }
    c->in_len += (size_t)n;
    keep_within_bounds(c->control);
    if (!c->closing)
        work(c);
}

static int is_same_user(uv_pipe_t *pipe)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);
    uv_os_fd_t fd;

    return uv_fileno((uv_handle_t *)pipe, &fd) == 0 &&
           getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
           (peer.uid == geteuid() || peer.uid == 0);
}

void control_on_connection(uv_stream_t *listener, int status)
{
    struct control *k = listener->data;
    struct client *c;

    if (status < 0)
        return;
    c = xcalloc(1, sizeof(*c));
    c->control = k;
    TAILQ_INSERT_TAIL(&k->clients, c, entry);
    k->n_clients++;
    CHECK(uv_pipe_init(k->loop, &c->pipe, 0) == 0);
    c->pipe.data = c;
    stream_scan_begin(&c->scan, CONTROL_MAX_BYTES);
    if (uv_accept(listener, (uv_stream_t *)&c->pipe) < 0 || !is_same_user(&c->pipe) ||
        uv_read_start((uv_stream_t *)&c->pipe, make_room, on_read) < 0) {
        close_client(c);
    } else if (k->n_clients > CONTROL_MAX_CLIENTS) {
        struct err why = {0};

        (void)err_set(&why, ERR_LIMIT, "more than %d clients at once",
                      CONTROL_MAX_CLIENTS);
        cut_off(c, &why);
    }
}
