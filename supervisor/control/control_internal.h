/* control_internal.h - what the control socket's files share. */
#ifndef SUPERVISOR_CONTROL_CONTROL_INTERNAL_H
#define SUPERVISOR_CONTROL_CONTROL_INTERNAL_H

#include "common/msg/msg.h"
#include "supervisor/control/control.h"

#include <sys/queue.h>
#include <uv.h>

struct client;
TAILQ_HEAD(client_list, client);

/* A request that was not answered yet. It lives until it is: its client may be gone by
 * then. */
struct call {
    struct control *control;
    struct client *client; /* NULL: gone */
    uint32_t id;
    LIST_ENTRY(call) entry;
};
LIST_HEAD(call_list, call);

struct control {
    struct run_dir *dir;
    struct training *training;
    uv_loop_t *loop;
    uv_pipe_t listener;
    uv_timer_t turn;   /* of clients that asked for more than one turn takes */
    int64_t credit_ns; /* of time that clients may take; as of */
    uint64_t credit_at_ns;
    int dir_fd; /* the socket is bound by it: a path of any length */
    int is_open;
    struct client_list clients; /* whose turn is next, first */
    size_t n_clients;
    struct call_list calls;
    struct msg msg;     /* the request at hand */
    struct msg_out out; /* the answer at hand */
};

/* A request has come. */
struct call *call_new(struct control *k, struct client *client, uint32_t id);
/* That client is gone. */
void calls_forget(struct control *k, const struct client *client);
/* Answers a call and forgets it: begin, pack one object, end. Or at once with an error, or
 * with {} or {env_steps}. */
struct msg_out *call_begin_answer(struct call *c);
void call_end_answer(struct call *c);
void call_fail(struct call *c, const struct err *err);
void call_answer_nothing(struct call *c);
void call_answer_step(struct call *c, uint64_t step);

/* ---- rpc_server.c ---- */

void control_on_connection(uv_stream_t *listener, int status);
/* Clients that had more to ask than a turn takes. */
void control_on_turn(uv_timer_t *timer);
/* Sends what was packed into control->out; the client may be gone afterwards. */
void client_send(struct client *c);
void control_send_to_subscribers(struct control *k);
/* Notifications come from now on. */
void client_subscribe(struct client *c);
/* Closes once everything was written, if that is at once or nearly. */
void client_say_goodbye(struct client *c);

/* control_methods.c: does what the request says; answers the call now or later. */
void control_dispatch(struct call *c, const char *method, const msgpack_object *params);

#endif
