/* control_methods.h - what a client can ask, and the answers; control.h lists it.
 *
 * Shared by control/ only.
 */
#ifndef SUPERVISOR_CONTROL_CONTROL_METHODS_H
#define SUPERVISOR_CONTROL_CONTROL_METHODS_H

#include "common/msg/msg.h"
#include "supervisor/run/training.h"

struct client; /* one connection */

/* control_methods.c: answers now or later, once; unless the client goes. */
void control_handle(struct training *t, struct client *k, const struct msg *m);

/* control.c: sends a response that was begun and packed. The client may be gone after it.
 */
void control_send(struct client *k, struct msg_out *o);
void control_send_error(struct client *k, uint32_t id, const struct err *why);

#endif
