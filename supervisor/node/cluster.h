/* cluster.h - the nodes of a run: starts them by their launcher, gives them the agents, and
 * replaces a node that dies.
 *
 * Node     a process `brood node` (node.h), one for each place 0 ... nodes - 1. Each start is a
 *          generation, and has a key of its own, on the launched program's standard input. The
 *          connection of an earlier one is never read again, and its key opens no other one: that
 *          is a line of the log, which names the generation.
 * Place    of an agent: placement.h. Of an environment's processes, if env.device is given: the
 *          task that it names, or in blocks over all.
 * Death    of a node: its connection has ended, or was silent. What was launched is killed first,
 *          then started again. The other nodes take its agents after CLUSTER_MAX_STARTS failed
 *          starts in a row, for lack of space on its disk, or after more deaths than
 *          cluster.restart allows, whatever its agents did: restart_policy.h counts them, and a
 *          node that was up for `within` has made progress. When the new place has what the
 *          agents need (node_feed.h), their exits are reported, and the table starts them
 *          there, from its snapshots.
 *          While all other nodes are only being started, a place that is to be given up waits for
 *          one of them.
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

struct cluster; /* opaque */

enum cluster_event_kind {
    CLUSTER_EVENT_START,   /* pid of what was launched; why: at once after that loss */
    CLUSTER_EVENT_CONNECT, /* pid of the node, on its host */
    CLUSTER_EVENT_UP,      /* it has what its processes need */
    CLUSTER_EVENT_LOST,    /* why */
    CLUSTER_EVENT_FENCE,   /* what was launched has ended */
    CLUSTER_EVENT_WAIT,    /* delay_ms until the next start; why: of the loss */
    CLUSTER_EVENT_GIVE_UP, /* why; to */
};

struct cluster_event { /* valid for the call */
    enum cluster_event_kind kind;
    const char *node, *host; /* as of cluster_info */
    const char *shown;       /* for people: "node 2 (host)" */
    uint64_t generation;     /* number of the start, from 1 */
    pid_t pid;
    uint64_t delay_ms;
    const char *why;
    const char *to, *to_shown; /* the node that takes its processes; NULL: none is left */
};

struct cluster_args {
    uv_loop_t *loop;
    const char *name; /* of the run; borrowed, as all below */
    const struct run_config *config;
    const struct binaries *binaries;
    int agent_exe_fd;          /* launches programs */
    const char *logs;          /* folder for node-<n>.log; copied; NULL: not kept */
    const struct store *store; /* the experience log */
    /* Once, from the loop, after cluster_start: all nodes are up, or why one could not be
     * started. Neither is called after cluster_stop. */
    void (*on_up)(void *ctx);
    void (*on_failed)(void *ctx, const struct err *why);
    /* May come from within an operation of a worker_link. */
    void (*on_event)(void *ctx, const struct cluster_event *e);
    /* A line for the run's log. */
    void (*on_line)(void *ctx, const char *line);
    void *ctx;
};

/* Listens for the nodes, and sets the specs' sites. ERR_CONFIG: an agent cannot be placed. */
int cluster_open(struct cluster **ret, const struct cluster_args *args,
                 struct agent_spec *specs, size_t n, struct err *err);
/* Starts the nodes; no agent may be started before on_up. */
void cluster_start(struct cluster *c);

struct cluster_info {
    const char *name; /* "node-2", as its log */
    const char *host; /* as it calls itself, or as configured; NULL: neither */
    /* "starting": launched, not connected; "filling": connected, gets what its processes
     * need; "up"; "ending": lost, what was launched is being killed; "waiting" before its
     * next start, or to be given up; "gone": given up, or the run ends. */
    const char *state;
    size_t agents;     /* processes whose place it is */
    uint64_t restarts; /* starts after the first */
    pid_t pid;         /* of the connected node; 0: none */
    const char *why;   /* of the last loss; NULL: none. Valid until the loop runs */
};
void cluster_info(const struct cluster *c, size_t node, struct cluster_info *ret);
size_t cluster_count(const struct cluster *c); /* NULL: 0 */

/* The agent of this name reads these columns of the log, [n_columns]: its node gets them, and
 * no others. Before its first request that names rows. */
void cluster_reads(struct cluster *c, const char *agent, const uint8_t *columns,
                   size_t n_columns);
/* Where process number `process` of n of an external environment runs (env.device); NULL: on
 * this machine. */
struct worker_site *cluster_environment_site(struct cluster *c, size_t process, size_t n);
/* The run ends: nodes are not replaced any more. */
void cluster_stop(struct cluster *c);
/* Ends the connections and closes all handles; later calls but cluster_free do nothing. */
void cluster_close(struct cluster *c);
/* After the table's; waits until the launched programs have ended, or kills them. NULL is fine. */
void cluster_free(struct cluster *c);
/* The rows below `row` are not read again. */
void cluster_forget(struct cluster *c, uint64_t row);

#endif
