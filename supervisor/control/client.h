/* client.h - a client of a live run's control socket: requests, their answers, and what
 * subscribers hear. */
#ifndef SUPERVISOR_CONTROL_CLIENT_H
#define SUPERVISOR_CONTROL_CLIENT_H

#include "common/msg/msg.h"

struct control_client; /* opaque */

/* folder: the run's. timeout_ms: the longest wait for the run to take or say something;
 * 0: for ever. ERR_NOT_FOUND: no run lives there; -EACCES: it may not be asked. */
int control_client_open(struct control_client **ret, const char *folder, int timeout_ms,
                        struct err *err);
void control_client_close(struct control_client *c); /* NULL is fine */

/* A request under construction: pack the params as one map, then send or call. */
struct msg_out *control_client_begin(struct control_client *c, const char *method);
int control_client_send(struct control_client *c, struct err *err);
/* The next message, valid until the next one: an answer (in the order in which the run
 * came to them) or a notification. Without `wait`, 0: no whole one is here. 1: *ret.
 * ERR_NOT_FOUND: the run ended; ERR_TIMEOUT. */
int control_client_next(struct control_client *c, int wait, const struct msg **ret,
                        struct err *err);
/* Sends, and waits for the answer; notifications before it are dropped. An error that the
 * run answers is returned, in its words. */
int control_client_call(struct control_client *c, const struct msg **ret,
                        struct err *err);
/* To poll for the next message; borrowed. */
int control_client_fd(const struct control_client *c);

#endif
