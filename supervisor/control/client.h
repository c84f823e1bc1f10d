/* client.h - a client of a live run's control socket: sends requests, receives responses
 * and notifications. */
#ifndef SUPERVISOR_CONTROL_CLIENT_H
#define SUPERVISOR_CONTROL_CLIENT_H

#include "common/msg/msg.h"

struct control_client; /* opaque */

/* ERR_STATE: the run's supervisor is stopped by a signal. It would accept a request and carry
 * it out whenever it is continued, perhaps hours later. */
int control_refuse_stopped(const char *folder, struct err *err);

/* folder: the run directory. timeout_ms: the longest wait for a connection, for one message
 * of control_client_next, and for all that control_client_call does; 0: no limit.
 * ERR_NOT_FOUND: no live run there; ERR_TIMEOUT; -EACCES: permission denied; -errno. */
int control_client_open(struct control_client **ret, const char *folder, int timeout_ms,
                        struct err *err);
void control_client_close(struct control_client *c); /* NULL is fine */
/* For a request that takes the run as long as it takes: from now on waits have no limit, and
 * look(ctx) is called about once a second during them. */
void control_client_wait(struct control_client *c, void (*look)(void *ctx), void *ctx);

/* A request under construction: pack the params as one map, then send or call. */
struct msg_out *control_client_begin(struct control_client *c, const char *method);
/* A request with an id, for a client with several requests under way: a response has
 * the id of its request (struct msg). */
struct msg_out *control_client_begin_as(struct control_client *c, uint32_t id,
                                        const char *method);
int control_client_send(struct control_client *c, struct err *err);
/* Returns 1 and the next message, valid until the next call: a response (in the order in
 * which the run completed the requests) or a notification. Returns 0 without `wait` if no
 * whole message has arrived. ERR_NOT_FOUND: the run ended; ERR_TIMEOUT. */
int control_client_next(struct control_client *c, int wait, const struct msg **ret,
                        struct err *err);
/* Sends the request and waits for its response; notifications before it are dropped, and
 * do not prolong the wait. An error response is returned as the error, with the run's message. */
int control_client_call(struct control_client *c, const struct msg **ret,
                        struct err *err);
/* To poll for the next message; borrowed. */
int control_client_fd(const struct control_client *c);

#endif
