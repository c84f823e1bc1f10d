#include "supervisor/control/control.h"

#include "common/mem/xmalloc.h"
#include "supervisor/control/control_methods.h"
#include "supervisor/control/rpc_server.h"

#include <stdlib.h>

/* Of the supervisor's time, clients get one part in so many. */
enum { TIME_PARTS = 4 };

struct control {
    struct control_run run;
    struct rpc *rpc;
    struct rpc_server *server; /* NULL: never opened */
};

/* ---- what subscribers get ---- */

static void on_message(void *ctx, int is_error, const char *line)
{
    struct control *k = ctx;
    struct msg_out *o = rpc_notify_begin(k->rpc, "message");

    if (o == NULL)
        return;
    msg_map(o, 2);
    msg_key(o, "text");
    msg_str(o, line);
    msg_key(o, "error");
    msg_bool(o, is_error);
    rpc_notify_end(k->rpc);
}

static void on_journal(void *ctx, const char *line)
{
    struct control *k = ctx;
    struct msg_out *o = rpc_notify_begin(k->rpc, "journal");

    if (o == NULL)
        return;
    msg_map(o, 1);
    msg_key(o, "line");
    msg_str(o, line);
    rpc_notify_end(k->rpc);
}

static void on_row(void *ctx, const struct metrics_row *row)
{
    struct control *k = ctx;
    struct msg_out *o = rpc_notify_begin(k->rpc, "row");

    if (o == NULL)
        return;
    msg_map(o, row->n + 2);
    msg_key(o, "env_steps");
    msg_u64(o, row->env_steps);
    msg_key(o, "episodes");
    msg_u64(o, row->episodes);
    for (size_t i = 0; i < row->n; i++) {
        msg_key(o, row->names[i]);
        msg_f64(o, row->values[i]);
    }
    rpc_notify_end(k->rpc);
}

/* ---- life ---- */

/* In a run without an environment, clients' requests are its work: they take all the time
 * they need. */
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
        rpc_server_close(k->server);
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
    return (struct training_observer){.on_open = on_open,
                                      .on_close = on_close,
                                      .on_message = on_message,
                                      .on_journal = on_journal,
                                      .on_row = on_row,
                                      .ctx = k};
}
