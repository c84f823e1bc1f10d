#include "supervisor/control/rpc_server.h"

#include "common/err/check.h"
#include "common/io/beneath.h"
#include "common/log/log.h"
#include "common/mem/xmalloc.h"
#include "common/msg/frame.h"
#include "common/msg/stream.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_BYTES = 1 << 16, KEPT_BYTES = 4 * READ_BYTES, BACKLOG = 128 };

TAILQ_HEAD(client_list, client);

struct rpc_server {
    struct rpc *rpc;
    uv_loop_t *loop;
    uv_pipe_t listener;
    /* Serves clients with more requests than one batch; after rpc_server_close,
     * disconnects those that read too slowly. */
    uv_timer_t next_batch;
    /* of the socket's folder: its path may be too long for bind() */
    int dir_fd;
    struct client_list clients; /* in the order in which they are served */
    struct client_list leaving; /* after rpc_server_close: clients with unsent bytes */
    size_t n_clients;
    struct msg_out out; /* the error sent to a client before it is disconnected */
};

struct client {
    struct rpc_peer peer;
    struct rpc_server *server;
    uv_pipe_t pipe;
    uv_shutdown_t shutdown;
    TAILQ_ENTRY(client) entry;
    int closing;
    int has_more; /* `in` may hold whole messages, left for the next batch */
    uint8_t *in;  /* received bytes that were not served yet */
    size_t in_len, in_cap;
    struct stream_scan scan; /* of the first message in `in` */
};

/* Bytes of responses and notifications that the client has not read. */
static size_t unread_by(const struct client *c)
{
    return uv_stream_get_write_queue_size((const uv_stream_t *)&c->pipe);
}

/* ---- disconnecting clients ---- */

static void on_client_closed(uv_handle_t *handle)
{
    struct client *c = handle->data;

    free(c->in);
    free(c);
}

static void leave(struct client *c)
{
    c->closing = 1;
    TAILQ_REMOVE(&c->server->clients, c, entry);
    c->server->n_clients--;
    rpc_detach(&c->peer);
}

static void close_client(struct client *c)
{
    if (c->closing)
        return;
    leave(c);
    uv_close((uv_handle_t *)&c->pipe, on_client_closed);
}

/* Closes a client that is in the list `leaving`. */
static void end_leaving(struct client *c)
{
    struct rpc_server *s = c->server;

    TAILQ_REMOVE(&s->leaving, c, entry);
    uv_close((uv_handle_t *)&c->pipe, on_client_closed);
    if (TAILQ_EMPTY(&s->leaving))
        uv_close((uv_handle_t *)&s->next_batch, NULL);
}

/* libuv also calls this if the pipe was closed before the shutdown was done. */
static void on_shutdown(uv_shutdown_t *req, int status)
{
    if (!uv_is_closing((uv_handle_t *)req->handle))
        end_leaving(req->handle->data);
}

static void on_too_late(uv_timer_t *timer)
{
    struct rpc_server *s = timer->data;
    struct client *c;

    while ((c = TAILQ_FIRST(&s->leaving)) != NULL) {
        log_info("control: a client is disconnected with %zu bytes unread", unread_by(c));
        end_leaving(c);
    }
}

/* ---- writing ---- */

struct written {
    uv_write_t req;
    uint8_t bytes[];
};

static void work(struct client *c);
static void keep_within_bounds(struct rpc_server *s);

/* The socket took queued bytes: serves the client's next requests and reads from it
 * again, which also detects that it has disconnected. */
static void on_written(uv_write_t *req, int status)
{
    struct client *c = req->handle->data;

    free(req->data);
    if (!c->closing)
        work(c);
}

/* Writes as much as the socket takes at once, and queues a copy of the rest. */
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
    if ((n < 0 && n != UV_EAGAIN) || queued + len - done > RPC_MAX_UNREAD) {
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

static void on_send(struct rpc_peer *peer, const uint8_t *message, size_t len)
{
    struct client *c = (struct client *)peer; /* `peer` is its first member */

    send_bytes(c, message, len);
    if (!c->closing && unread_by(c) > 0)
        keep_within_bounds(c->server);
}

/* ---- bounds ---- */

static void disconnect(struct client *c, const struct err *why)
{
    struct msg_out *o = &c->server->out;
    const uint8_t *frame;
    size_t len;

    log_info("control: a client is disconnected: %s", why->msg);
    msg_begin_notification(o, "error");
    msg_map(o, 1);
    msg_put_str(o, "message", why->msg);
    msg_end(o, &frame, &len);
    send_bytes(c, frame + FRAME_HEADER_BYTES, len - FRAME_HEADER_BYTES);
    close_client(c);
}

/* Memory that the client occupies: received bytes, and responses that it has not read. */
static size_t held_by(const struct client *c)
{
    return c->in_cap + unread_by(c);
}

/* Disconnects the clients that occupy most memory, until all together occupy no more
 * than RPC_MAX_HELD: many large clients cannot push out a small one. */
static void keep_within_bounds(struct rpc_server *s)
{
    const struct err why = {.code = ERR_LIMIT,
                            .msg =
                                "all clients together use too much memory, and this one "
                                "the most"};

    for (;;) {
        struct client *most = TAILQ_FIRST(&s->clients), *c;
        size_t held = 0;

        TAILQ_FOREACH(c, &s->clients, entry)
        {
            held += held_by(c);
            if (held_by(c) > held_by(most))
                most = c;
        }
        if (held <= RPC_MAX_HELD)
            return;
        if (unread_by(most) > 0)
            close_client(most);
        else
            disconnect(most, &why);
    }
}

/* ---- reading ---- */

static void on_next_batch(uv_timer_t *timer);

static void plan_next_batch(struct rpc_server *s)
{
    CHECK(uv_timer_start(&s->next_batch, on_next_batch, rpc_may_take_in_ms(s->rpc), 0) ==
          0);
}

/* Serves one batch of each client with unserved messages, while there is time. A client
 * that was served moves to the end of the list. */
static void on_next_batch(uv_timer_t *timer)
{
    struct rpc_server *s = timer->data;
    struct client *c;

    for (size_t n = s->n_clients; n > 0 && rpc_may_take(s->rpc); n--) {
        c = TAILQ_FIRST(&s->clients);
        if (c == NULL)
            return;
        TAILQ_REMOVE(&s->clients, c, entry);
        TAILQ_INSERT_TAIL(&s->clients, c, entry);
        if (c->has_more)
            work(c);
    }
    TAILQ_FOREACH(c, &s->clients, entry)
    {
        if (c->has_more) {
            plan_next_batch(s);
            return;
        }
    }
}

/* Serves whole messages from the front of the buffer, at most one batch. Returns 1 if
 * there may be more whole messages, otherwise 0. */
static int take_messages(struct client *c, struct err *err)
{
    struct rpc *rpc = c->server->rpc;
    size_t begin = 0, len;
    int rc = 1;

    for (int n = 0;
         rc > 0 && n < RPC_BATCH && !c->closing && unread_by(c) == 0 && rpc_may_take(rpc);
         n++) {
        const uint64_t began_ns = uv_hrtime();

        rc = stream_scan(&c->scan, c->in + begin, c->in_len - begin, &len, err);
        if (rc <= 0)
            break;
        rc = rpc_take(&c->peer, c->in + begin, len, err) < 0 ? ERR_PROTOCOL : 1;
        begin += len;
        stream_scan_begin(&c->scan, RPC_MAX_BYTES);
        rpc_charge(rpc, began_ns);
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

/* Serves a batch of a client's requests. The rest waits for the next batch, or until the
 * client has read its responses. Until then the server does not read from it. */
static void work(struct client *c)
{
    struct err why = {0};
    int rc = take_messages(c, &why);

    if (c->closing)
        return;
    if (rc < 0) {
        disconnect(c, &why);
        return;
    }
    c->has_more = rc > 0 && unread_by(c) == 0;
    if (rc == 0) {
        (void)uv_read_start((uv_stream_t *)&c->pipe, make_room, on_read);
        return;
    }
    (void)uv_read_stop((uv_stream_t *)&c->pipe);
    if (c->has_more)
        plan_next_batch(c->server);
}

/* The buffer grows with the bytes received, not with the length that a message claims. */
static void make_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct client *c = handle->data;
    size_t grown;

    if (c->in_cap - c->in_len < READ_BYTES) {
        grown = c->in_len + c->in_len / 2;
        if (grown > RPC_MAX_BYTES && c->in_len <= RPC_MAX_BYTES)
            grown = RPC_MAX_BYTES;
        c->in_cap = grown + READ_BYTES;
        c->in = xrealloc(c->in, c->in_cap);
    }
    *buf = uv_buf_init((char *)c->in + c->in_len, READ_BYTES);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct client *c = stream->data;

    if (n < 0) {
        close_client(c);
        return;
    }
    c->in_len += (size_t)n;
    keep_within_bounds(c->server);
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

static void on_connection(uv_stream_t *listener, int status)
{
    struct rpc_server *s = listener->data;
    struct client *c;

    if (status < 0)
        return;
    c = xcalloc(1, sizeof(*c));
    c->server = s;
    c->peer.send = on_send;
    rpc_attach(s->rpc, &c->peer);
    TAILQ_INSERT_TAIL(&s->clients, c, entry);
    s->n_clients++;
    CHECK(uv_pipe_init(s->loop, &c->pipe, 0) == 0);
    c->pipe.data = c;
    stream_scan_begin(&c->scan, RPC_MAX_BYTES);
    if (uv_accept(listener, (uv_stream_t *)&c->pipe) < 0 || !is_same_user(&c->pipe) ||
        uv_read_start((uv_stream_t *)&c->pipe, make_room, on_read) < 0) {
        close_client(c);
    } else if (s->n_clients > RPC_MAX_CLIENTS) {
        struct err why = {0};

        (void)err_set(&why, ERR_LIMIT, "more than %d clients at once", RPC_MAX_CLIENTS);
        disconnect(c, &why);
    }
}

/* ---- the socket ---- */

/* Binds by way of the folder's descriptor: libuv cuts paths longer than 107 bytes
 * without an error. */
static int bind_socket(struct rpc_server *s, const char *folder, const char *name,
                       struct err *err)
{
    char *real = xasprintf("%s/%s", folder, name), *path;
    mode_t mask;
    int rc;

    s->dir_fd = beneath_dup(folder);
    if (s->dir_fd < 0) {
        free(real);
        return err_errno(err, "%s", folder);
    }
    (void)beneath_unlink(real);
    path = xasprintf("/proc/self/fd/%d/%s", s->dir_fd, name);
    mask = umask(0177);
    rc = uv_pipe_bind(&s->listener, path);
    (void)umask(mask);
    if (rc == 0)
        rc = uv_listen((uv_stream_t *)&s->listener, BACKLOG, on_connection);
    if (rc < 0)
        (void)err_set(err, rc, "%s: %s", real, uv_strerror(rc));
    free(real);
    free(path);
    return rc;
}

int rpc_server_open(struct rpc_server **ret, struct rpc *rpc, uv_loop_t *loop,
                    const char *folder, const char *name, struct err *err)
{
    struct rpc_server *s = xcalloc(1, sizeof(*s));

    s->rpc = rpc;
    s->loop = loop;
    TAILQ_INIT(&s->clients);
    TAILQ_INIT(&s->leaving);
    msg_out_init(&s->out);
    CHECK(uv_pipe_init(loop, &s->listener, 0) == 0);
    CHECK(uv_timer_init(loop, &s->next_batch) == 0);
    s->listener.data = s->next_batch.data = s;
    *ret = s;
    return bind_socket(s, folder, name, err);
}

void rpc_server_close(struct rpc_server *s, uint64_t patience_ms)
{
    uv_close((uv_handle_t *)&s->listener, NULL); /* also unlinks the socket */
    /* each leaves when it has received its last bytes */
    while (!TAILQ_EMPTY(&s->clients)) {
        struct client *c = TAILQ_FIRST(&s->clients);

        (void)uv_read_stop((uv_stream_t *)&c->pipe);
        if (uv_shutdown(&c->shutdown, (uv_stream_t *)&c->pipe, on_shutdown) < 0) {
            close_client(c);
        } else {
            leave(c);
            TAILQ_INSERT_TAIL(&s->leaving, c, entry);
        }
    }
    if (TAILQ_EMPTY(&s->leaving))
        uv_close((uv_handle_t *)&s->next_batch, NULL);
    else
        CHECK(uv_timer_start(&s->next_batch, on_too_late, patience_ms, 0) == 0);
}

void rpc_server_free(struct rpc_server *s)
{
    if (s == NULL)
        return;
    if (s->dir_fd >= 0)
        (void)close(s->dir_fd);
    msg_out_done(&s->out);
    free(s);
}
