#include "supervisor/control/client.h"

#include "common/io/beneath.h"
#include "common/io/monotonic.h"
#include "common/mem/xmalloc.h"
#include "common/msg/frame.h"
#include "common/msg/stream.h"
#include "supervisor/control/control.h"
#include "supervisor/control/rpc_server.h"
#include "supervisor/proc/stall.h"
#include "supervisor/rundir/run_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { LOOK_MS = 1000 };

struct control_client {
    int fd;
    int timeout_ms;   /* 0: no limit */
    int64_t until_ms; /* the limit of what is being done; 0: none */
    void (*look)(void *ctx);
    void *look_ctx;
    struct msg_out out;
    struct msg msg;
    struct stream_scan scan; /* of the first message in `data` */
    uint8_t *data;
    size_t taken; /* length of the message returned last, which is still in `data` */
    size_t len, cap;
};

/* Begins something that may take timeout_ms. */
static void begin_waiting(struct control_client *c)
{
    c->until_ms = c->timeout_ms > 0 ? monotonic_ms() + c->timeout_ms : 0;
}

/* Waits until the socket has data or room; 0: the time is over. */
static int wait_for(struct control_client *c, short events)
{
    struct pollfd p = {.fd = c->fd, .events = events};
    int64_t left_ms = LOOK_MS;
    int n = 0;

    while (n == 0 || (n < 0 && errno == EINTR)) {
        if (c->look != NULL)
            c->look(c->look_ctx);
        if (c->until_ms != 0)
            left_ms = c->until_ms - monotonic_ms();
        if (left_ms <= 0)
            return 0;
        n = poll(&p, 1, left_ms < LOOK_MS ? (int)left_ms : LOOK_MS);
    }
    return 1;
}

/* Opens the socket file, which refuses a symbolic link, and connects to its name in
 * /proc/self/fd, which is short enough for sun_path. -1: errno is set. */
static int connect_to(const char *folder, int timeout_ms)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char *path = xasprintf("%s/" CONTROL_SOCKET, folder);
    int socket_fd = beneath_open(path, O_PATH | O_NOFOLLOW, 0);
    int fd = socket_fd >= 0 ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
    int rc = -1, why;

    if (fd >= 0) {
        const struct timeval t = {.tv_sec = timeout_ms / 1000,
                                  .tv_usec = timeout_ms % 1000 * 1000};

        (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t));
        (void)snprintf(at.sun_path, sizeof(at.sun_path), "/proc/self/fd/%d", socket_fd);
        do
            rc = connect(fd, (const struct sockaddr *)&at, sizeof(at));
        while (rc < 0 && errno == EINTR);
    }
    why = errno;
    free(path);
    if (socket_fd >= 0)
        (void)close(socket_fd);
    if (rc < 0 && fd >= 0)
        (void)close(fd);
    errno = why;
    return rc < 0 ? -1 : fd;
}

static int no_answer(struct err *err)
{
    return err_set(err, ERR_TIMEOUT,
                   "the run does not answer: its supervisor was stopped, or hangs");
}

int control_refuse_stopped(const char *folder, struct err *err)
{
    const pid_t pid = run_dir_holder(folder);

    if (pid > 0 && stall_is_stopped(pid))
        return err_set(
            err, ERR_STATE,
            "%s does not run: its supervisor, pid %d, was stopped; `kill -CONT "
            "%d` continues it",
            folder, (int)pid, (int)pid);
    return 0;
}

int control_client_open(struct control_client **ret, const char *folder, int timeout_ms,
                        struct err *err)
{
    int fd = connect_to(folder, timeout_ms);
    struct control_client *c;

    if (fd < 0 && errno == EAGAIN)
        return no_answer(err);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ECONNREFUSED))
        return err_set(err, ERR_NOT_FOUND, "%s is not running", folder);
    if (fd < 0)
        return err_errno(err, "%s/" CONTROL_SOCKET, folder);
    c = xcalloc(1, sizeof(*c));
    c->fd = fd;
    c->timeout_ms = timeout_ms;
    msg_out_init(&c->out);
    stream_scan_begin(&c->scan, RPC_MAX_UNREAD);
    *ret = c;
    return 0;
}

void control_client_wait(struct control_client *c, void (*look)(void *ctx), void *ctx)
{
    c->timeout_ms = 0;
    c->look = look;
    c->look_ctx = ctx;
}

int control_client_fd(const struct control_client *c)
{
    return c->fd;
}

void control_client_close(struct control_client *c)
{
    if (c == NULL)
        return;
    (void)close(c->fd);
    msg_out_done(&c->out);
    msg_done(&c->msg);
    free(c->data);
    free(c);
}

struct msg_out *control_client_begin_as(struct control_client *c, uint32_t id,
                                        const char *method)
{
    msg_begin_request(&c->out, id, method);
    return &c->out;
}

struct msg_out *control_client_begin(struct control_client *c, const char *method)
{
    return control_client_begin_as(c, 1, method);
}

static int has_ended(struct err *err)
{
    return err_set(err, ERR_NOT_FOUND, "the run ended before it answered");
}

static int send_all(struct control_client *c, struct err *err)
{
    const uint8_t *frame;
    size_t len, at = FRAME_HEADER_BYTES;

    msg_end(&c->out, &frame, &len);
    while (at < len) {
        ssize_t n = send(c->fd, frame + at, len - at, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && (errno == EINTR || (errno == EAGAIN && wait_for(c, POLLOUT))))
            continue;
        if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
            return has_ended(err);
        if (n < 0)
            return errno == EAGAIN ? no_answer(err) : err_errno(err, "asking the run");
        at += (size_t)n;
    }
    return 0;
}

int control_client_send(struct control_client *c, struct err *err)
{
    begin_waiting(c);
    return send_all(c, err);
}

/* Returns 1 if bytes were received; 0 if there are none yet and `wait` is 0. */
static int receive(struct control_client *c, int wait, struct err *err)
{
    ssize_t n;

    if (c->cap - c->len < 4096)
        c->data = xrealloc(c->data, c->cap = c->cap * 2 + 65536);
    if (wait && !wait_for(c, POLLIN))
        return no_answer(err);
    do
        n = recv(c->fd, c->data + c->len, c->cap - c->len, MSG_DONTWAIT);
    while (n < 0 && (errno == EINTR || (errno == EAGAIN && wait && wait_for(c, POLLIN))));
    if (n < 0 && errno == EAGAIN)
        return wait ? no_answer(err) : 0;
    if (n <= 0)
        return has_ended(err);
    c->len += (size_t)n;
    return 1;
}

static int next(struct control_client *c, int wait, const struct msg **ret,
                struct err *err)
{
    int rc;

    c->len -= c->taken;
    if (c->taken > 0)
        memmove(c->data, c->data + c->taken, c->len);
    c->taken = 0;
    while ((rc = stream_scan(&c->scan, c->data, c->len, &c->taken, err)) == 0) {
        c->taken = 0;
        if ((rc = receive(c, wait, err)) <= 0)
            return rc;
    }
    if (rc < 0) {
        /* a message was malformed, so where the next one begins is unknown */
        c->taken = c->len;
        return rc;
    }
    stream_scan_begin(&c->scan, RPC_MAX_UNREAD);
    rc = msg_reparse(&c->msg, c->data, c->taken, err);
    *ret = &c->msg;
    return rc < 0 ? rc : 1;
}

int control_client_next(struct control_client *c, int wait, const struct msg **ret,
                        struct err *err)
{
    begin_waiting(c);
    return next(c, wait, ret, err);
}

int control_client_call(struct control_client *c, const struct msg **ret, struct err *err)
{
    int rc;

    begin_waiting(c);
    rc = send_all(c, err);
    while (rc >= 0) {
        rc = c->until_ms != 0 && monotonic_ms() >= c->until_ms ? no_answer(err)
                                                               : next(c, 1, ret, err);
        if (rc < 0)
            break;
        if (rc > 0 && (*ret)->type == MSG_RESPONSE)
            break;
        if (rc > 0 && strcmp((*ret)->method, "error") == 0) {
            char text[ERR_MSG_BYTES] = "";

            (void)msg_get_str(&(*ret)->body, "message", text, sizeof(text), NULL);
            return err_set(err, ERR_LIMIT, "the run ended the connection: %s", text);
        }
    }
    if (rc < 0)
        return rc;
    return (*ret)->error.code != 0 ? err_pass(err, &(*ret)->error) : 0;
}
