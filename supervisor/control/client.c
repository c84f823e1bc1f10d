#include "supervisor/control/client.h"

#include "common/mem/xmalloc.h"
#include "common/msg/frame.h"
#include "common/msg/stream.h"
#include "supervisor/control/control.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct control_client {
    int fd;
    struct msg_out out;
    struct msg answer;
    uint8_t *data;
    size_t len, cap;
};

static int connect_to(const char *folder)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int folder_fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), rc = -1;

    if (folder_fd >= 0 && fd >= 0) {
        (void)snprintf(at.sun_path, sizeof(at.sun_path), "/proc/self/fd/%d/control.sock",
                       folder_fd);
        rc = connect(fd, (const struct sockaddr *)&at, sizeof(at));
    }
    if (folder_fd >= 0)
        (void)close(folder_fd);
    if (rc < 0 && fd >= 0)
        (void)close(fd);
    return rc < 0 ? -1 : fd;
}

int control_client_open(struct control_client **ret, const char *folder, struct err *err)
{
    int fd = connect_to(folder);
    struct control_client *c;

    if (fd < 0)
        return err_set(err, ERR_NOT_FOUND, "%s is not running", folder);
    c = xcalloc(1, sizeof(*c));
    c->fd = fd;
    msg_out_init(&c->out);
    *ret = c;
    return 0;
}

void control_client_close(struct control_client *c)
{
    if (c == NULL)
        return;
    (void)close(c->fd);
    msg_out_done(&c->out);
    msg_done(&c->answer);
    free(c->data);
    free(c);
}

struct msg_out *control_client_begin(struct control_client *c, const char *method)
{
    msg_begin_request(&c->out, 1, method);
    return &c->out;
}

static int send_all(struct control_client *c, struct err *err)
{
    const uint8_t *frame;
    size_t len, at = FRAME_HEADER_BYTES;

    msg_end(&c->out, &frame, &len);
    while (at < len) {
        ssize_t n = send(c->fd, frame + at, len - at, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(err, "asking the run");
        at += (size_t)n;
    }
    return 0;
}

static int receive(struct control_client *c, size_t *ret_len, struct err *err)
{
    struct stream_scan scan;
    int rc;

    c->len = 0;
    stream_scan_begin(&scan, CONTROL_MAX_UNREAD);
    while ((rc = stream_scan(&scan, c->data, c->len, ret_len, err)) == 0) {
        ssize_t n;

        if (c->cap - c->len < 4096)
            c->data = xrealloc(c->data, c->cap = c->cap * 2 + 65536);
        n = recv(c->fd, c->data + c->len, c->cap - c->len, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return err_set(err, ERR_NOT_FOUND, "the run ended before it answered");
        c->len += (size_t)n;
    }
    return rc < 0 ? rc : 0;
}

int control_client_call(struct control_client *c, const struct msg **ret, struct err *err)
{
    size_t len = 0;
    int rc;

    if ((rc = send_all(c, err)) < 0 || (rc = receive(c, &len, err)) < 0 ||
        (rc = msg_reparse(&c->answer, c->data, len, err)) < 0)
        return rc;
    if (c->answer.error_code != 0)
        return err_set(err, c->answer.error_code, "%s", c->answer.error_text);
    *ret = &c->answer;
    return 0;
}
