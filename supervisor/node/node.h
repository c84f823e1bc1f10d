/* node.h - `brood node`: one machine's part of a run.
 *
 * Started by the launcher of a cluster (cluster.h), it connects to the run's supervisor, runs
 * agents of this machine exactly as the supervisor runs its own (worker_local.h), and does
 * nothing by itself. When the connection ends, or is silent, or at SIGTERM, SIGINT or SIGHUP, it
 * kills all that it has started and exits within NODE_END_MS. It leaves no file.
 *
 * Key      comes on standard input: one line of 96 hexadecimal digits, id, then key; and after a
 *          space the identity (node_protocol.h), which the supervisor compares.
 * Generation  BROOD_GENERATION in the environment of its processes, which write it beside the
 *          numbers of requests where they log these.
 * Error    one that ends the node, such as a full disk, is the last message to the supervisor.
 * Exit     0 after an orderly end of the connection or a signal, otherwise 1.
 * Keeper   a process in front of it (keeper.h), which the launcher has started: when the node has
 *          died, whatever killed it, the keeper ends all that it has started, also what has left
 *          its session; and when the keeper has died, the node ends as at a signal.
 * Threads  main thread alone.
 */
#ifndef SUPERVISOR_NODE_NODE_H
#define SUPERVISOR_NODE_NODE_H

#include "common/err/err.h"
#include "supervisor/net/secure_channel.h"
#include "supervisor/node/node_protocol.h"

#define NODE_END_MS              800u
#define NODE_GENERATION_VARIABLE "BROOD_GENERATION"

struct node_args {
    struct node_identity identity;
    const char *address; /* of the supervisor: "HOST:PORT" */
    uint64_t silence_ms;
    int encrypt;
    int cancels_job; /* if the run does not end in order: that of SLURM_JOB_ID */
    const char *version;
    int keeper_fd; /* at end of file when the keeper has died; -1: there is none */
};

/* Reads key and identity from fd; without one, *ret_identity is all zero. ERR_FORMAT, -errno. */
int node_read_secret(int fd, struct channel_secret *ret,
                     struct node_identity *ret_identity, struct err *err);
/* Serves until the end. An error is why it ended. */
int node_run(const struct node_args *args, const struct channel_secret *secret,
             struct err *err);

#endif
