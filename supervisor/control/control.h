/* control.h - a run's control socket: control.sock in its directory, 0600, bare
 * msgpack-rpc, so that any such client can steer a run and drive its agents.
 *
 *   status      -> run str, state str, env_steps u, agents [{name, pid u, state str,
 *                  restarts u}...]
 *   set         changes ["KEY=VALUE"...], at? u (a joint step; else: the next round)
 *               -> at u, changes str, waits str (for a respawn of its agent)
 *   run         agent str, feeds?, fetches?, targets? (protocol.h; env.id none)
 *               -> fetched [tensor...]
 *   respawn     agent str -> {} and what waits for it is made (set)
 *   checkpoint  -> {}: at the next boundary        stop -> {}: the same, and the run ends
 *
 * Errors are {code i, message str}. Requests of one client may overtake one another: the
 * answer has the request's number.
 * Peers    of the same user only. A client that sends no msgpack, or more than
 *          CONTROL_MAX_BYTES in one message, or does not read what it asked for, is
 *          dropped; the run does not notice.
 * Threads  loop thread only.
 */
#ifndef SUPERVISOR_CONTROL_CONTROL_H
#define SUPERVISOR_CONTROL_CONTROL_H

#include "common/err/err.h"
#include "supervisor/run/training.h"

#include <uv.h>

#define CONTROL_MAX_BYTES   ((size_t)32 << 20) /* of a message */
#define CONTROL_MAX_UNREAD  ((size_t)64 << 20) /* of answers to one client */
#define CONTROL_MAX_CLIENTS 64

struct control; /* opaque */

/* folder: the run's; its supervisor holds the lock, so that a socket there is stale. */
int control_open(struct control **ret, uv_loop_t *loop, const char *folder,
                 struct training *t, struct err *err);
/* Begins to close everything; frees itself in the loop's last callback. NULL is fine. */
void control_close(struct control *c);

#endif
