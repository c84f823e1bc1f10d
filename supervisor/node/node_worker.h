/* node_worker.h - the workers of a node: links to processes of this machine
 * (worker_local.h), to which it passes what the supervisor asks, and whose frames, output and
 * ends it sends back.
 *
 * Groups   a process that shares parameters writes vectors into its group's memory
 *          (share_ring.h). Before its response, the node sends the vector that it has
 *          written, so that another node could take the group over.
 */
#ifndef SUPERVISOR_NODE_NODE_WORKER_H
#define SUPERVISOR_NODE_NODE_WORKER_H

#include "supervisor/net/secure_channel.h"
#include "supervisor/node/node_files.h"
#include "supervisor/node/node_protocol.h"
#include "supervisor/proc/worker_local.h"

struct node_worker; /* opaque */

struct node_workers {
    uv_loop_t *loop;
    struct local_site *site;
    struct node_files *files;
    struct channel *channel;   /* NULL: it has ended, and nothing is sent */
    struct node_worker **list; /* [n] by number; NULL: not opened */
    size_t n;
    size_t n_running;
    uint64_t generation;        /* of the node, for its log */
    struct wbuf piece;          /* of a group's vector, on its way */
    void (*on_none)(void *ctx); /* the last process has ended */
    void *ctx;
};

/* Handles a message about a worker. ERR_PROTOCOL: the supervisor sends garbage. */
int node_workers_take(struct node_workers *w, const struct node_message *m,
                      struct err *err);
/* Sends what the running processes do (struct node_sample). */
void node_workers_sample(struct node_workers *w);
void node_workers_kill(struct node_workers *w);
/* Closes the links; no process may run. */
void node_workers_done(struct node_workers *w);

#endif
