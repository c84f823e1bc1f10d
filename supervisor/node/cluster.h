/* cluster.h - the nodes of a run: starts them by their launcher, gives them the agents, and
 * replaces a node that dies.
 *
 * Node     a process `brood node` (node.h), one for each place 0 ... nodes - 1. Each start has a
 *          key of its own, on the launched program's standard input; the connection of an
 *          earlier one is never read again.
 * Death    of a node: its connection has ended, or was silent. What was launched is killed first,
 *          then started again; after CLUSTER_MAX_STARTS failed starts in a row the other nodes
 *          take its agents. When the new place has what the agents need (node_feed.h), their
 *          exits are reported, and the table starts them there, from its snapshots.
 * None     left: the next start of an agent fails with the reason, and so does the run.
 * Threads  loop thread = main thread.
 */
#ifndef SUPERVISOR_NODE_CLUSTER_H
#define SUPERVISOR_NODE_CLUSTER_H

#include "common/config/run_config.h"
#include "supervisor/node/worker_remote.h"
#include "supervisor/proc/agent_table.h"
#include "supervisor/proc/binaries.h"
#include "supervisor/store/store.h"

#define CLUSTER_MAX_STARTS 3u
#define CLUSTER_START_MS   60000u /* from the launch to the node's hello */

struct cluster; /* opaque */

struct cluster_args {
    uv_loop_t *loop;
    const struct run_config *config; /* borrowed, as all below */
    const struct binaries *binaries;
    int agent_exe_fd;          /* launches programs */
    const char *logs;          /* folder for node-<n>.log; copied; NULL: not kept */
    const struct store *store; /* the experience log */
    /* A signal is pending, or the keeper is gone: waiting must end. */
    int (*is_in_haste)(void *ctx);
    /* A line for the run's log. */
    void (*on_line)(void *ctx, const char *line);
    void *ctx;
};

/* Starts the nodes, waits until all are connected, and sets the specs' sites. Runs the loop,
 * on which nothing else may wait yet. ERR_INTERRUPTED; ERR_CONFIG: an agent cannot be placed. */
int cluster_open(struct cluster **ret, const struct cluster_args *args,
                 struct agent_spec *specs, size_t n, struct err *err);
/* The agent of this name reads these columns of the log, [n_columns]: its node gets them, and
 * no others. Before its first request that names rows. */
void cluster_reads(struct cluster *c, const char *agent, const uint8_t *columns,
                   size_t n_columns);
/* The run ends: nodes are not replaced any more. */
void cluster_stop(struct cluster *c);
/* Ends the connections and closes all handles; later calls but cluster_free do nothing. */
void cluster_close(struct cluster *c);
/* After the table's; waits until the launched programs have ended, or kills them. NULL is fine. */
void cluster_free(struct cluster *c);
/* The rows below `row` are not read again. */
void cluster_forget(struct cluster *c, uint64_t row);

#endif
