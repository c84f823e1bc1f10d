#include "supervisor/control/control.h"

#include "common/err/check.h"
#include "common/log/log.h"
#include "common/mem/xmalloc.h"
#include "common/msg/frame.h"
#include "common/msg/stream.h"
#include "supervisor/control/control_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BACKLOG = 128, READ_BYTES = 1 << 16 };

struct client {
    struct control *control;
    uv_pipe_t pipe;
    uv_shutdown_t shutdown;
    struct client *next, **link;
    int subscribed;
    int closing;
    int has_more; /* whole messages wait for the next turn */
    uint8_t *in;  /* what came and is not yet a whole message */
    size_t in_len, in_cap;
    struct stream_scan scan; /* of the message that begins at in */
};

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
    *c->link = c->next;
    if (c->next != NULL)
        c->next->link = c->link;
    c->control->n_clients--;
    for (struct call *call = c->control->calls; call != NULL; call = call->next) {
        if (call->client == c)
            call->client = NULL;
    }
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
static void say_goodbye(struct client *c)
{
    if (uv_stream_get_write_queue_size((uv_stream_t *)&c->pipe) > 0 ||
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
    size_t queued = uv_stream_get_write_queue_size(stream);
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
    if (uv_write(&w->req, stream, &buf, 1, on_written) < 0)
        free(w);
}

/* What was packed into control->out, without the frame's head: clients speak bare rpc. */
static void send_out(struct client *c)
{
    const uint8_t *data;
    size_t len;

    msg_end(&c->control->out, &data, &len);
    send_bytes(c, data + FRAME_HEADER_BYTES, len - FRAME_HEADER_BYTES);
}

/* ---- calls ---- */

static struct call *call_new(struct client *client, uint32_t id)
{
    struct call *c = xcalloc(1, sizeof(*c));

    c->control = client->control;
    c->client = client;
    c->id = id;
    c->next = c->control->calls;
    c->link = &c->control->calls;
    if (c->next != NULL)
        c->next->link = &c->next;
    c->control->calls = c;
    return c;
}

static void call_free(struct call *c)
{
    *c->link = c->next;
    if (c->next != NULL)
        c->next->link = c->link;
    free(c);
}

struct msg_out *call_begin_answer(struct call *c)
{
    msg_begin_response(&c->control->out, c->id);
    return &c->control->out;
}

void call_end_answer(struct call *c)
{
    if (c->client != NULL)
        send_out(c->client);
    call_free(c);
}

void call_fail(struct call *c, const struct err *err)
{
    msg_error_response(&c->control->out, c->id, err);
    call_end_answer(c);
}

void call_answer_nothing(struct call *c)
{
    msg_map(call_begin_answer(c), 0);
    call_end_answer(c);
}

void call_answer_step(struct call *c, uint64_t step)
{
    struct msg_out *o = call_begin_answer(c);

    msg_map(o, 1);
    msg_key(o, "env_steps");
    msg_u64(o, step);
    call_end_answer(c);
}

/* ---- reading ---- */

/* Says why, as a notification, and lets go. */
static void cut_off(struct client *c, const struct err *why)
{
    struct msg_out *o = &c->control->out;

    log_info("control: a client is cut off: %s", why->msg);
    msg_begin_notification(o, "error");
    msg_map(o, 1);
    msg_key(o, "message");
    msg_str(o, why->msg);
    send_out(c);
    close_client(c);
}

/* Those who had more to ask than a turn takes; a client may go away meanwhile. */
static void on_turn(uv_timer_t *timer)
{
    struct control *k = timer->data;

    for (struct client *c = k->clients, *next; c != NULL; c = next) {
        next = c->next;
        if (c->has_more)
            work(c);
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
                       "only requests are taken: [0, id, method, "
                       "params]");
    control_dispatch(call_new(c, m->id), m->method, &m->body);
    return 0;
}

static int is_behind(const struct client *c)
{
    return uv_stream_get_write_queue_size((const uv_stream_t *)&c->pipe) > 0;
}

/* Takes whole messages off the front of what came, as many as are answered in a turn: 1;
 * 0 if the rest is none. */
static int take_messages(struct client *c, struct err *err)
{
    size_t begin = 0, len;
    int rc = 1;

    for (int n = 0; rc > 0 && n < CONTROL_TURN && !c->closing && !is_behind(c); n++) {
        rc = stream_scan(&c->scan, c->in + begin, c->in_len - begin, &len, err);
        if (rc <= 0)
            break;
        rc = take_message(c, c->in + begin, len, err) < 0 ? ERR_PROTOCOL : 1;
        begin += len;
        stream_scan_begin(&c->scan, CONTROL_MAX_BYTES);
    }
    c->in_len -= begin;
    memmove(c->in, c->in + begin, c->in_len);
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
    c->has_more = rc > 0 && !is_behind(c);
    if (rc == 0) {
        (void)uv_read_start((uv_stream_t *)&c->pipe, make_room, on_read);
        return;
    }
    (void)uv_read_stop((uv_stream_t *)&c->pipe);
    if (c->has_more)
        CHECK(uv_timer_start(&c->control->turn, on_turn, 0, 0) == 0);
}

/* Room grows with what has come, not with what a message promises. */
static void make_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct client *c = handle->data;

    (void)suggested;
    if (c->in_cap - c->in_len < READ_BYTES) {
        c->in_cap = c->in_len + c->in_len / 2 + READ_BYTES;
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
    struct control *k = listener->data;
    struct client *c;

    if (status < 0)
        return;
    c = xcalloc(1, sizeof(*c));
    c->control = k;
    c->next = k->clients;
    c->link = &k->clients;
    if (c->next != NULL)
        c->next->link = &c->next;
    k->clients = c;
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

/* ---- subscribers ---- */

void client_subscribe(struct client *c)
{
    c->subscribed = 1;
}

/* To everybody who wants to hear: what was packed into out. */
static void send_to_subscribers(struct control *k)
{
    const uint8_t *data;
    size_t len;

    msg_end(&k->out, &data, &len);
    for (struct client *c = k->clients, *next; c != NULL; c = next) {
        next = c->next;
        if (c->subscribed)
            send_bytes(c, data + FRAME_HEADER_BYTES, len - FRAME_HEADER_BYTES);
    }
}

static void notify_text(struct control *k, const char *method, const char *key,
                        const char *text)
{
    if (k->clients == NULL)
        return;
    msg_begin_notification(&k->out, method);
    msg_map(&k->out, 1);
    msg_key(&k->out, key);
    msg_str(&k->out, text);
    send_to_subscribers(k);
}

static void on_message(void *ctx, const char *line)
{
    notify_text(ctx, "message", "text", line);
}

static void on_journal(void *ctx, const char *line)
{
    notify_text(ctx, "journal", "line", line);
}

static void on_row(void *ctx, const struct metrics_row *row)
{
    struct control *k = ctx;

    if (k->clients == NULL)
        return;
    msg_begin_notification(&k->out, "row");
    msg_map(&k->out, row->n + 2);
    msg_key(&k->out, "env_steps");
    msg_u64(&k->out, row->env_steps);
    msg_key(&k->out, "episodes");
    msg_u64(&k->out, row->episodes);
    for (size_t i = 0; i < row->n; i++) {
        msg_key(&k->out, row->names[i]);
        msg_f64(&k->out, row->values[i]);
    }
    send_to_subscribers(k);
}

/* ---- life ---- */

/* By the folder's descriptor: libuv cuts longer paths than 107 bytes without a word. */
static int bind_socket(struct control *k, struct err *err)
{
    const char *real = run_dir_file(k->dir, CONTROL_SOCKET);
    char path[64];
    mode_t mask;
    int rc;

    k->dir_fd = open(run_dir_path(k->dir), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (k->dir_fd < 0)
        return err_errno(err, "%s", run_dir_path(k->dir));
    (void)unlink(real); /* of a supervisor that was killed: the run's lock is ours */
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d/" CONTROL_SOCKET, k->dir_fd);
    mask = umask(0177);
    rc = uv_pipe_bind(&k->listener, path);
    (void)umask(mask);
    if (rc == 0)
        rc = uv_listen((uv_stream_t *)&k->listener, BACKLOG, on_connection);
    return rc < 0 ? err_set(err, rc, "%s: %s", real, uv_strerror(rc)) : 0;
}

static int on_open(void *ctx, struct training *t, uv_loop_t *loop, struct err *err)
{
    struct control *k = ctx;

    k->training = t;
    k->loop = loop;
    CHECK(uv_pipe_init(loop, &k->listener, 0) == 0);
    CHECK(uv_timer_init(loop, &k->turn) == 0);
    k->listener.data = k->turn.data = k;
    k->is_open = 1;
    return bind_socket(k, err);
}

static void on_close(void *ctx)
{
    struct control *k = ctx;

    if (!k->is_open)
        return;
    k->is_open = 0;
    uv_close((uv_handle_t *)&k->turn, NULL);
    uv_close((uv_handle_t *)&k->listener, NULL); /* and the socket's name is gone */
    while (k->clients != NULL)
        say_goodbye(k->clients);
}

struct control *control_new(struct run_dir *dir)
{
    struct control *k = xcalloc(1, sizeof(*k));

    k->dir = dir;
    k->dir_fd = -1;
    msg_out_init(&k->out);
    return k;
}

void control_free(struct control *k)
{
    while (k->calls != NULL)
        call_free(k->calls); /* agents that never answered */
    if (k->dir_fd >= 0)
        (void)close(k->dir_fd);
    msg_out_done(&k->out);
    msg_done(&k->msg);
    free(k);
}

struct training_observer control_observer(struct control *k)
{
    return (struct training_observer){.on_open = on_open,
                                      .on_close = on_close,
                                      .on_message = on_message,
                                      .on_journal = on_journal,
                                      .on_row = on_row,
                                      .ctx = k};
}
