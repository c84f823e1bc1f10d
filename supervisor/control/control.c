#include "supervisor/control/control.h"

#include "common/mem/xmalloc.h"
#include "common/msg/frame.h"
#include "common/msg/msg.h"
#include "common/msg/stream.h"
#include "supervisor/control/control_methods.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_BYTES = 64 * 1024 };

struct control {
    uv_pipe_t listener;
    struct training *training;
    struct client *clients;
    size_t n_clients;
    int folder_fd; /* -1: closed */
    int closing;
    int listener_is_open;
};

struct client {
    uv_pipe_t pipe;
    struct control *control;
    struct client *next;
    struct stream_scan scan;
    uint8_t *data; /* a message under way, and what came behind it */
    size_t len, cap;
    size_t unread; /* bytes of answers that were not taken yet */
    int closing;
};

/* ---- the end ---- */

static void free_if_over(struct control *c)
{
    if (!c->closing || c->clients != NULL || c->listener_is_open)
        return;
    (void)unlinkat(c->folder_fd, "control.sock", 0);
    (void)close(c->folder_fd);
    free(c);
}

static void on_client_closed(uv_handle_t *handle)
{
    struct client *k = handle->data;
    struct control *c = k->control;
    struct client **at = &c->clients;

    while (*at != k)
        at = &(*at)->next;
    *at = k->next;
    c->n_clients--;
    free(k->data);
    free(k);
    free_if_over(c);
}

static void drop(struct client *k)
{
    if (k->closing)
        return;
    k->closing = 1;
    training_forget_client(k->control->training, k);
    uv_close((uv_handle_t *)&k->pipe, on_client_closed);
}

static void on_listener_closed(uv_handle_t *handle)
{
    struct control *c = handle->data;

    c->listener_is_open = 0;
    free_if_over(c);
}

void control_close(struct control *c)
{
    if (c == NULL || c->closing)
        return;
    c->closing = 1;
    for (struct client *k = c->clients; k != NULL; k = k->next)
        drop(k);
    uv_close((uv_handle_t *)&c->listener, on_listener_closed);
}

/* ---- answers ---- */

struct write {
    uv_write_t req;
    struct client *client;
    size_t len;
    uint8_t data[];
};

static void on_written(uv_write_t *req, int status)
{
    struct write *w = req->data;

    w->client->unread -= w->len;
    if (status < 0)
        drop(w->client);
    free(w);
}

void control_send(struct client *k, struct msg_out *o)
{
    const uint8_t *frame;
    struct write *w;
    uv_buf_t buf;
    size_t len;

    msg_end(o, &frame, &len);
    len -= FRAME_HEADER_BYTES;
    if (k->closing)
        return;
    w = xmalloc(sizeof(*w) + len);
    w->req.data = w;
    w->client = k;
    w->len = len;
    memcpy(w->data, frame + FRAME_HEADER_BYTES, len);
    k->unread += len;
    buf = uv_buf_init((char *)w->data, (unsigned)len);
    if (uv_write(&w->req, (uv_stream_t *)&k->pipe, &buf, 1, on_written) < 0) {
        k->unread -= len;
        free(w);
        drop(k);
    } else if (k->unread > CONTROL_MAX_UNREAD) {
        drop(k);
    }
}

void control_send_error(struct client *k, uint32_t id, const struct err *why)
{
    struct msg_out o;

    msg_out_init(&o);
    msg_error_response(&o, id, why);
    control_send(k, &o);
    msg_out_done(&o);
}

/* ---- requests ---- */

/* The message that stands first. Negative: the stream cannot be trusted any more. */
static int handle_message(struct client *k, size_t len)
{
    struct msg m = {0};
    struct err err = {0};
    int rc = msg_parse(&m, k->data, len, &err);

    if (rc == 0 && m.type == MSG_REQUEST)
        control_handle(k->control->training, k, &m);
    msg_done(&m);
    return rc;
}

static void handle_data(struct client *k)
{
    size_t len;
    int rc = 1;

    while (rc > 0 && !k->closing) {
        rc = stream_scan(&k->scan, k->data, k->len, &len, NULL);
        if (rc <= 0)
            break;
        rc = handle_message(k, len) < 0 ? -1 : 1;
        memmove(k->data, k->data + len, k->len - len);
        k->len -= len;
        stream_scan_begin(&k->scan, CONTROL_MAX_BYTES);
    }
    if (rc < 0)
        drop(k);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct client *k = handle->data;

    if (k->cap - k->len < READ_BYTES) {
        k->cap = (k->len + READ_BYTES) * 2;
        k->data = xrealloc(k->data, k->cap);
    }
    *buf = uv_buf_init((char *)k->data + k->len, READ_BYTES);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct client *k = stream->data;

    if (n < 0) {
        drop(k);
        return;
    }
    k->len += (size_t)n;
    handle_data(k);
}

/* ---- clients come ---- */

static int is_ours(const uv_pipe_t *pipe)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);
    uv_os_fd_t fd;

    return uv_fileno((const uv_handle_t *)pipe, &fd) == 0 &&
           getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
           (peer.uid == geteuid() || peer.uid == 0);
}

static void on_connection(uv_stream_t *stream, int status)
{
    struct control *c = stream->data;
    struct client *k;

    if (status < 0 || c->closing)
        return;
    k = xcalloc(1, sizeof(*k));
    k->control = c;
    k->next = c->clients;
    c->clients = k;
    c->n_clients++;
    (void)uv_pipe_init(stream->loop, &k->pipe, 0);
    k->pipe.data = k;
    stream_scan_begin(&k->scan, CONTROL_MAX_BYTES);
    if (uv_accept(stream, (uv_stream_t *)&k->pipe) < 0 || !is_ours(&k->pipe) ||
        c->n_clients > CONTROL_MAX_CLIENTS ||
        uv_read_start((uv_stream_t *)&k->pipe, on_alloc, on_read) < 0)
        drop(k);
}

/* ---- the beginning ---- */

/* By the folder's descriptor: a socket's path is at most 107 bytes long. */
static int bind_socket(struct control *c, struct err *err)
{
    char path[64];
    mode_t mask;
    int rc;

    (void)unlinkat(c->folder_fd, "control.sock", 0);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d/control.sock", c->folder_fd);
    mask = umask(0177);
    rc = uv_pipe_bind(&c->listener, path);
    (void)umask(mask);
    if (rc == 0)
        rc = uv_listen((uv_stream_t *)&c->listener, 16, on_connection);
    return rc < 0 ? err_set(err, rc, "control.sock: %s", uv_strerror(rc)) : 0;
}

int control_open(struct control **ret, uv_loop_t *loop, const char *folder,
                 struct training *t, struct err *err)
{
    struct control *c = xcalloc(1, sizeof(*c));
    int rc;

    c->training = t;
    c->folder_fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (c->folder_fd < 0) {
        free(c);
        return err_errno(err, "%s", folder);
    }
    (void)uv_pipe_init(loop, &c->listener, 0);
    c->listener.data = c;
    c->listener_is_open = 1;
    rc = bind_socket(c, err);
    if (rc < 0)
        control_close(c);
    else
        *ret = c;
    return rc;
}
