/* connections.h - every connection to the server: how long it may stay as it is, and which one
 * goes when there are too many.
 *
 * Stranger  a connection that has not shown the token: any process of this machine can open
 *           one. There are at most CONNECTIONS_STRANGERS of them. One more takes the place of
 *           another, drawn by lot among those without a request, or else among all:
 *           so neither connections that say nothing nor a flood of them keep the owner out.
 * Deadline  whatever a stranger does, or does not, its connection ends at the deadline of its
 *           state. libwebsockets has timeouts of its own, but not in every state.
 * Reader    of a file, or a client of `brood serve`: it has shown the token, or has come by the Unix
 *           socket, so that no stranger takes its place, and has a deadline.
 * Owner     a websocket that has shown the token has no deadline; its place is not given to
 *           others. There are at most WEB_MAX_CLIENTS (web.h).
 * Threads   loop thread only.
 */
#ifndef SUPERVISOR_WEB_CONNECTIONS_H
#define SUPERVISOR_WEB_CONNECTIONS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

enum {
    CONNECTIONS_STRANGERS = 64,
    /* Readers, and those that are ended, but not closed yet: of a burst. */
    CONNECTIONS_SLACK = 256,
};

enum connection_state {
    CONNECTION_NEW,    /* its request has not come, or not wholly */
    CONNECTION_SERVED, /* the request is being answered; then the connection ends */
    CONNECTION_ASKED,  /* a websocket whose first message, with the token, is awaited */
    CONNECTION_READS, /* it has shown the token, and gets a part of a file, or an action */
    CONNECTION_OWNER,
    CONNECTION_ENDED, /* it is closed as soon as the loop comes to it */
};

struct lws;
struct connection {
    struct lws *wsi;
    enum connection_state state;
    uint64_t ends_ms; /* by the loop's clock */
    LIST_ENTRY(connection) entry;
};

struct connections { /* all-zero, then connections_init */
    uv_timer_t timer;
    LIST_HEAD(connection_list, connection) list; /* of all but the owners */
    size_t n, n_strangers;
};

void connections_init(struct connections *c, uv_loop_t *loop);
/* Closes the timer; the loop then closes its handle. */
void connections_close(struct connections *c);

/* Whether one more connection can be accepted: 0 while too many wait to be closed. */
int connections_have_room(const struct connections *c);
/* A connection has been accepted. May end another one. */
void connections_add(struct connections *c, struct lws *wsi);
/* NULL: the wsi is no connection of a client. */
struct connection *connections_find(struct lws *wsi);
/* Begins a state, which is not CONNECTION_ENDED, and its deadline. One that is ended stays so: its
 * bytes may come before the loop closes it. */
void connections_begin(struct connections *c, struct connection *one,
                       enum connection_state state);
/* Closes a connection soon, by the loop. */
void connections_end(struct connections *c, struct connection *one);
/* The connection is closed; NULL is ignored. */
void connections_remove(struct connections *c, struct connection *one);

#endif
