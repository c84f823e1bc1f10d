#include "supervisor/control/control.h"

#include "common/mem/xmalloc.h"
#include "supervisor/control/control_methods.h"
#include "supervisor/control/rpc_server.h"

#include <stdlib.h>

/* Clients get 1/TIME_PARTS of the supervisor's time. */
enum { TIME_PARTS = 4 };

/* How long a run that ends waits for subscribers to read its last events. */
enum { LAST_EVENTS_MS = 1000 };

struct control {
    struct control_run run;
    struct rpc *rpc;
    struct rpc_server *server; /* NULL: the run never opened it */
};

/* ---- what subscribers get ---- */

static void notify_line(struct control *k, const struct run_event *e)
{
    struct msg_out *o = rpc_notify_begin(k->rpc, CONTROL_LINES, "journal");
    char *line = o != NULL ? run_event_line(e) : NULL;

    if (line == NULL)
        return; /* nobody subscribed, or the journal does not have such events */
    msg_map(o, 1);
    msg_put_str(o, "line", line);
    rpc_notify_end(k->rpc);
    free(line);
}

static void notify_message(struct control *k, const struct run_event *e)
{
    struct msg_out *o = rpc_notify_begin(k->rpc, CONTROL_LINES, "message");

    if (o == NULL)
        return;
    msg_map(o, 2);
    msg_put_str(o, "text", e->message.text);
    msg_put_bool(o, "error", e->message.error);
    rpc_notify_end(k->rpc);
}

static void notify_row(struct control *k, const struct run_event *e)
{
    struct msg_out *o = rpc_notify_begin(k->rpc, CONTROL_LINES, "row");

    if (o == NULL)
        return;
    run_event_pack_row(o, e);
    rpc_notify_end(k->rpc);
}

static void on_event(void *ctx, const struct run_event *e)
{
    struct control *k = ctx;
    struct msg_out *o;

    if (e->kind == RUN_EVENT_MESSAGE)
        notify_message(k, e);
    else if (e->kind == RUN_EVENT_ROW)
        notify_row(k, e);
    else
        notify_line(k, e);
    o = rpc_notify_begin(k->rpc, CONTROL_EVENTS, "event");
    if (o == NULL)
        return;
    run_event_pack(o, e);
    rpc_notify_end(k->rpc);
}

/* ---- opening and closing ---- */

/* A run without an environment has no work of its own: its clients get all of the
 * time. */
static int on_open(void *ctx, struct training *t, uv_loop_t *loop, struct err *err)
{
    struct control *k = ctx;

    k->run.training = t;
    rpc_limit_time(k->rpc, training_is_driven(t) ? 0 : TIME_PARTS);
    return rpc_server_open(&k->server, k->rpc, loop, run_dir_path(k->run.dir),
                           CONTROL_SOCKET, err);
}

static void on_close(void *ctx)
{
    struct control *k = ctx;

    if (k->server != NULL)
        rpc_server_close(k->server, LAST_EVENTS_MS);
}

struct control *control_new(struct run_dir *dir)
{
    struct control *k = xcalloc(1, sizeof(*k));
    size_t n;
    const struct rpc_method *methods = control_methods(&n);

    k->run.dir = dir;
    k->rpc = rpc_new(methods, n, &k->run);
    return k;
}

void control_free(struct control *k)
{
    rpc_server_free(k->server);
    rpc_free(k->rpc);
    free(k);
}

struct training_observer control_observer(struct control *k)
{
    return (struct training_observer){
        .on_open = on_open, .on_close = on_close, .on_event = on_event, .ctx = k};
}
