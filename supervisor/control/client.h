/* client.h - one request to a live run's control socket, and its answer: blocking. */
#ifndef SUPERVISOR_CONTROL_CLIENT_H
#define SUPERVISOR_CONTROL_CLIENT_H

#include "common/msg/msg.h"

struct control_client; /* opaque */

/* folder: the run's. ERR_NOT_FOUND: no run lives there. */
int control_client_open(struct control_client **ret, const char *folder, struct err *err);
void control_client_close(struct control_client *c); /* NULL is fine */

/* A request under construction: pack the params as one map, then call. */
struct msg_out *control_client_begin(struct control_client *c, const char *method);
/* *ret: the answer, valid until the next call. An error that the run answers is returned,
 * in its words. */
int control_client_call(struct control_client *c, const struct msg **ret,
                        struct err *err);

#endif
