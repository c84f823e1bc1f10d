#include "supervisor/control/control.h"

#include "common/err/check.h"
#include "common/io/beneath.h"
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

enum { BACKLOG = 128 };

/* ---- calls ---- */

struct call *call_new(struct control *k, struct client *client, uint32_t id)
{
    struct call *c = xcalloc(1, sizeof(*c));

    c->control = k;
    c->client = client;
    c->id = id;
    LIST_INSERT_HEAD(&k->calls, c, entry);
    return c;
}

static void call_free(struct call *c)
{
    LIST_REMOVE(c, entry);
    free(c);
}

void calls_forget(struct control *k, const struct client *client)
{
    struct call *c;

    LIST_FOREACH(c, &k->calls, entry)
    {
        if (c->client == client)
            c->client = NULL;
    }
}

struct msg_out *call_begin_answer(struct call *c)
{
    msg_begin_response(&c->control->out, c->id);
    return &c->control->out;
}

void call_end_answer(struct call *c)
{
    if (c->client != NULL)
        client_send(c->client);
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

/* ---- subscribers ---- */

static void begin_text(struct control *k, const char *method, uint32_t n_keys,
                       const char *key, const char *text)
{
    msg_begin_notification(&k->out, method);
    msg_map(&k->out, n_keys);
    msg_key(&k->out, key);
    msg_str(&k->out, text);
}

static void on_message(void *ctx, int is_error, const char *line)
{
    struct control *k = ctx;

    if (TAILQ_EMPTY(&k->clients))
        return;
    begin_text(k, "message", 2, "text", line);
    msg_key(&k->out, "error");
    msg_bool(&k->out, is_error);
    control_send_to_subscribers(k);
}

static void on_journal(void *ctx, const char *line)
{
    struct control *k = ctx;

    if (TAILQ_EMPTY(&k->clients))
        return;
    begin_text(k, "journal", 1, "line", line);
    control_send_to_subscribers(k);
}

static void on_row(void *ctx, const struct metrics_row *row)
{
    struct control *k = ctx;

    if (TAILQ_EMPTY(&k->clients))
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
    control_send_to_subscribers(k);
}

/* ---- life ---- */

/* By the folder's descriptor: libuv cuts longer paths than 107 bytes without a word. */
static int bind_socket(struct control *k, struct err *err)
{
    const char *real = run_dir_file(k->dir, CONTROL_SOCKET);
    char path[64];
    mode_t mask;
    int rc;

    k->dir_fd = beneath_dup(run_dir_path(k->dir));
    if (k->dir_fd < 0)
        return err_errno(err, "%s", run_dir_path(k->dir));
    (void)beneath_unlink(
        real); /* of a supervisor that was killed: the run's lock is ours */
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d/" CONTROL_SOCKET, k->dir_fd);
    mask = umask(0177);
    rc = uv_pipe_bind(&k->listener, path);
    (void)umask(mask);
    if (rc == 0)
        rc = uv_listen((uv_stream_t *)&k->listener, BACKLOG, control_on_connection);
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
    while (!TAILQ_EMPTY(&k->clients))
        client_say_goodbye(TAILQ_FIRST(&k->clients));
}

struct control *control_new(struct run_dir *dir)
{
    struct control *k = xcalloc(1, sizeof(*k));

    k->dir = dir;
    k->dir_fd = -1;
    TAILQ_INIT(&k->clients);
    LIST_INIT(&k->calls);
    msg_out_init(&k->out);
    return k;
}

void control_free(struct control *k)
{
    while (!LIST_EMPTY(&k->calls))
        call_free(LIST_FIRST(&k->calls)); /* agents that never answered */
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
