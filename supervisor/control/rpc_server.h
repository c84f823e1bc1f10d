/* rpc_server.h - msgpack-rpc (rpc.h) on a Unix socket: accepts clients, reads and writes
 * their bytes, and limits the memory that they use.
 *
 * Socket   mode 0600, and only for processes of the same user or root (SO_PEERCRED).
 *          Several clients at once, several requests of each under way.
 * Bounds   a client that exceeds RPC_MAX_CLIENTS or RPC_MAX_BYTES, or sends something other
 *          than a request, gets a notification `error` {message} and is disconnected. While
 *          a client does not read its responses, nothing more is read from it. If the
 *          unfinished messages and unread responses of all clients exceed RPC_MAX_HELD, the
 *          client that holds most is disconnected.
 * Fairness at most RPC_BATCH requests of one client are served before the loop continues.
 *          Clients that sent more, or need more time than rpc.h grants, are served in turn.
 * Threads  loop thread only.
 */
#ifndef SUPERVISOR_CONTROL_RPC_SERVER_H
#define SUPERVISOR_CONTROL_RPC_SERVER_H

#include "supervisor/control/rpc.h"

#include <uv.h>

#define RPC_MAX_CLIENTS 64
#define RPC_BATCH       64
#define RPC_MAX_BYTES   ((size_t)32 << 20) /* of a message */
#define RPC_MAX_UNREAD  ((size_t)64 << 20) /* of responses to one client */
#define RPC_MAX_HELD    ((size_t)128 << 20)

struct rpc_server; /* opaque */

/* Listens as `name` in a folder, whose path may have any length; replaces a file of that
 * name. *ret is set also on failure, and must then be closed and freed, too. */
int rpc_server_open(struct rpc_server **ret, struct rpc *rpc, uv_loop_t *loop,
                    const char *folder, const char *name, struct err *err);
/* Removes the socket and serves no more requests. Connections end when their clients have
 * read what was sent to them, those of slow clients after patience_ms; the loop runs until
 * then. */
void rpc_server_close(struct rpc_server *s, uint64_t patience_ms);
/* After the loop closed its handles. NULL is fine. */
void rpc_server_free(struct rpc_server *s);

#endif
