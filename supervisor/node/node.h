/* node.h - `brood node`: one machine's part of a run.
 *
 * Started by the launcher of a cluster (cluster.h), it connects to the run's supervisor, runs
 * agents of this machine exactly as the supervisor runs its own (worker_local.h), and does
 * nothing by itself. When the connection ends, or is silent, or at SIGTERM, SIGINT or SIGHUP, it
 * kills all that it has started and exits within NODE_END_MS. It leaves no file.
 *
 * Key      comes on standard input: 48 bytes, or 96 hexadecimal digits; id, then key.
 * Exit     0 after an orderly end of the connection or a signal, otherwise 1.
 * Threads  main thread alone.
 */
#ifndef SUPERVISOR_NODE_NODE_H
#define SUPERVISOR_NODE_NODE_H

#include "common/err/err.h"
#include "supervisor/net/secure_channel.h"

#define NODE_END_MS 800u

struct node_args {
    const char *address; /* of the supervisor: "HOST:PORT" */
    uint64_t silence_ms;
    int encrypt;
    int cancels_job; /* if the run does not end in order: that of SLURM_JOB_ID */
    const char *version;
};

/* Reads the key from fd. ERR_FORMAT, -errno. */
int node_read_secret(int fd, struct channel_secret *ret, struct err *err);
/* Serves until the end. An error is why it ended. */
int node_run(const struct node_args *args, const struct channel_secret *secret,
             struct err *err);

#endif
