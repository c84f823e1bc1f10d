/* graph_agent.h - imports, inspects and runs a MetaGraph in an agent process of its own.
 *
 * The supervisor links neither BLAS nor the graph runtime, so an agent process holds the
 * graph and computes. If it dies, it is restarted with its variables, as in a run.
 *
 * Threads  main thread: the agent's parent-death signal is tied to it. Every call waits.
 */
#ifndef SUPERVISOR_ASK_GRAPH_AGENT_H
#define SUPERVISOR_ASK_GRAPH_AGENT_H

#include "common/err/err.h"
#include "common/msg/msg.h"
#include "common/tensor/tensor.h"
#include "supervisor/proc/binaries.h"

#include <stddef.h>
#include <stdint.h>

struct graph_agent; /* opaque */

struct graph_agent_args { /* borrowed until graph_agent_close */
    const struct binaries *binaries;
    const void *metagraph; /* a MetaGraphDef */
    size_t metagraph_bytes;
    /* A checkpoint's absolute prefix, to restore the values from; NULL: there are none. */
    const char *prefix;
    uint64_t seed; /* of random operations */
};

/* ERR_LIMIT: the graph is too large for a message. If the agent refuses the graph or the
 * checkpoint, returns the agent's error. */
int graph_agent_open(struct graph_agent **ret, const struct graph_agent_args *args,
                     struct err *err);
/* Ends the process. NULL is fine. */
void graph_agent_close(struct graph_agent *g);

/* The agent's response to `import` (protocol.h); valid until graph_agent_close. */
const msgpack_object *graph_agent_description(const struct graph_agent *g);

struct graph_agent_feed {
    const char *name; /* "x:0" */
    struct tensor value;
};
struct graph_agent_run { /* borrowed for the call */
    const struct graph_agent_feed *feeds;
    size_t n_feeds;
    const char *const *fetches; /* tensors: "y:0" */
    size_t n_fetches;
    const char *const *targets; /* operations; what they write is kept */
    size_t n_targets;
};

/* ret[n_fetches]: the caller frees them (tensor_free); a failure leaves no tensor to
 * free. If the agent refuses the request (unknown names, values that do not fit, ...),
 * the graph is unchanged. */
int graph_agent_run(struct graph_agent *g, const struct graph_agent_run *run,
                    struct tensor *ret, struct err *err);

#endif
